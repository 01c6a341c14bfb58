"""Draws by a grid: they are of the density, independent, and not made where a grid would be wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as npd
import pytest
from jax.scipy.stats import norm
from jax.scipy.stats import t as student
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import Intractable
from fubini.infer.driver import Schedule, run
from fubini.infer.grid import PILOT, GridSampler, Proposals
from fubini.infer.sampler import Draw
from fubini.infer.target import Target
from fubini.numerics.frame import Frame
from fubini.numerics.mode_search import surveyed
from tests.counting import no_tracing

KEY = jax.random.key(1)
SCHEDULE = Schedule(5000, chains=4)


def grid(key, target: Target, schedule: Schedule = SCHEDULE) -> Draw:
    """A run."""
    return run(GridSampler(target), key, schedule)


QUIET = dict(progress=False, log_likelihood=False, predictive=False)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def target(log_density, size: int) -> Target:
    """Of one site with so many numbers."""
    return Target({"x": (size,)}, lambda free, numbers: log_density(free["x"]), ())


def drawn(log_density, size: int, key=KEY) -> np.ndarray:
    """Draws [draw, number] of four chains, one after another; few of them are repeats."""
    found = grid(key, target(log_density, size))
    assert found.info["acceptance_rate"].mean() > 0.9
    assert found.info["lp"].shape == (4, 5000) and found.values["x"].shape == (4, 5000, size)
    np.testing.assert_allclose(
        found.info["lp"][:, :3], jax.vmap(jax.vmap(log_density))(found.values["x"][:, :3]), rtol=1e-9
    )
    return found.values["x"].reshape(-1, size)


def assert_distribution(draws: np.ndarray, distribution) -> None:
    """Kolmogorov and Smirnov's test; repeats make it a little too strict."""
    assert stats.kstest(draws, distribution.cdf).pvalue > 1e-3


# -- of the density ---------------------------------------------------------------------------------------------------

DISTRIBUTIONS = {
    "near": (lambda x: norm.logpdf(x, 0.3, 0.8), stats.norm(0.3, 0.8)),
    "far and narrow": (lambda x: norm.logpdf(x, 1000.0, 1e-3), stats.norm(1000.0, 1e-3)),
    "very far": (lambda x: norm.logpdf(x, 1e6, 1e-3), stats.norm(1e6, 1e-3)),
    "wide": (lambda x: norm.logpdf(x, 0.0, 1e5), stats.norm(0.0, 1e5)),
    "heavy tails": (lambda x: student.logpdf(x, 3.0), stats.t(3)),
    "edges": (lambda x: jnp.where((x > 0) & (x < 1), 0.0, -jnp.inf), stats.uniform()),
    "long tails on one side": (lambda x: 0.3 * x - jnp.exp(x), stats.loggamma(0.3)),
    "not a number beyond": (lambda x: x - jnp.exp(x) + jnp.where(x > 3.0, jnp.nan, 0.0), None),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_one_number(name: str) -> None:
    log_density, distribution = DISTRIBUTIONS[name]
    draws = drawn(lambda x: log_density(x[0]), 1)[:, 0]
    if distribution is None:
        assert draws.max() < 3.0
        distribution = stats.loggamma(1.0)
    assert_distribution(draws, distribution)


def normal_modes(*of):
    """A mixture in equal shares of normals (mean, sd), the same for all numbers."""

    def log_density(x):
        return jax.nn.logsumexp(jnp.stack([jnp.sum(norm.logpdf(x, mean, sd)) for mean, sd in of]))

    return log_density


MODES = {
    "near": (1, (-0.5, 0.01), (0.5, 0.1)),
    "of unlike widths": (1, (0.0, 1e-3), (50.0, 5.0)),
    "far from each other": (1, (0.0, 1.0), (50.0, 1.0)),
    "far from zero": (2, (100.0, 2.0), (200.0, 3.0)),
    "of unlike widths, two numbers": (2, (-3.0, 0.02), (3.0, 1.0)),
    "three numbers": (3, (-2.0, 0.3), (2.0, 0.1)),
}


@pytest.mark.parametrize("name", MODES)
def test_two_modes(name: str) -> None:
    """Both are found, each with its share."""
    size, left, right = MODES[name]
    draws = drawn(normal_modes(left, right), size)
    middle = left[0] + (right[0] - left[0]) * left[1] / (left[1] + right[1])
    low = draws[:, 0] < middle
    assert np.mean(low) == pytest.approx(0.5, abs=4 * (0.25 / 20000) ** 0.5)
    for chosen, (mean, sd) in ((low, left), (~low, right)):
        for number in draws[chosen].T:
            assert_distribution(number, stats.norm(mean, sd))


def mixture(free, numbers):
    weights, means, sds = numbers
    return jax.nn.logsumexp(jnp.log(weights) + norm.logpdf(free["x"][0], means, sds))


def test_random_modes_of_one_number() -> None:
    """Four in each density, of widths that differ up to a hundredfold: drawn as they are, or not at all."""
    random, refused = np.random.default_rng(5), 0
    for seed in range(30):
        weights, sds = random.dirichlet([2.0] * 4), 10 ** random.uniform(-1.5, 0.5, 4)
        means = random.normal(size=4) * 10 ** random.uniform(-1, 1.5) + random.normal() * 10.0
        numbers = tuple(map(jnp.asarray, (weights, means, sds)))
        try:
            found = grid(jax.random.key(seed), Target({"x": (1,)}, mixture, numbers))
        except Intractable:
            refused += 1
            continue
        draws = found.values["x"].ravel()
        sd = (weights @ (sds**2 + means**2) - (weights @ means) ** 2) ** 0.5
        assert abs(draws.mean() - weights @ means) < 5 * sd / 20000**0.5, seed
    assert refused <= 3


def normal(mean: np.ndarray, root: np.ndarray):
    inverse = np.linalg.inv(root)
    return lambda x: -0.5 * jnp.sum((inverse @ (x - mean)) ** 2)


@pytest.mark.parametrize("correlation", [0.0, -0.9, 0.9999])
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_two_numbers(correlation: float, scale: float) -> None:
    mean, root = np.array([3.0, -20.0]), np.array([[1.0, 0.0], [correlation, (1 - correlation**2) ** 0.5]])
    root = np.diag([1.0, scale]) @ root
    draws = drawn(normal(mean, root), 2)
    for number in np.linalg.solve(root, (draws - mean).T):
        assert_distribution(number, stats.norm())
    assert abs(np.corrcoef(np.linalg.solve(root, draws.T))[0, 1]) < 4 / 20000**0.5


def test_two_numbers_along_a_bend() -> None:
    """x₀ is normal, x₁ too around a square of it."""
    draws = drawn(lambda x: norm.logpdf(x[0]) + norm.logpdf(x[1], 0.3 * x[0] ** 2, 0.5), 2)
    assert_distribution(draws[:, 0], stats.norm())
    assert_distribution(draws[:, 1] - 0.3 * draws[:, 0] ** 2, stats.norm(0.0, 0.5))


def test_three_numbers() -> None:
    mean, root = np.array([3.0, -2.0, 10.0]), np.array([[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [-0.5, 0.4, 0.2]])
    draws = drawn(normal(mean, root), 3)
    for number in np.linalg.solve(root, (draws - mean).T):
        assert_distribution(number, stats.norm())


def test_proposals_have_the_density_that_they_say() -> None:
    """Of two modes, along axes of their own: means by draws, and by their density on a fine grid."""
    wavy = lambda x: -0.5 * (x[:, 0] ** 2 + (x[:, 1] - x[:, 0]) ** 2 / 0.25) + np.sin(3 * x[:, 0])  # noqa: E731
    found = surveyed(lambda x: np.logaddexp(wavy(x), wavy(x - 60.0) - 1.0), 2)
    assert found is not None and len(found[1]) == 2
    assert not any(mode.frame.is_straight for mode in found[1])
    proposals = Proposals(wavy, found[1][:1], 9)
    proposals.parts += Proposals(lambda x: wavy(x - 60.0) - 1.0, found[1][1:], 9).parts
    points = proposals.draw(np.random.default_rng(0), 100_000)
    fine = Frame(np.eye(2), np.array([-10.0, -12.0]), np.array([72.0, 74.0]))
    every = fine.points(fine.nodes(1601))
    density = np.exp(proposals.log_density(every))
    for function in (np.cos, lambda x: x / 30, lambda x: x**2 / 3600):
        expected = density @ function(every) / density.sum()
        error = function(points).std(axis=0) / 100_000**0.5
        np.testing.assert_array_less(np.abs(function(points).mean(axis=0) - expected), 4 * error + 1e-4)


# -- where a grid would be wrong --------------------------------------------------------------------------------------

OTHERS = {
    "tails without end": (lambda x: student.logpdf(x[0], 1.0), 1, "of proposals are accepted"),
    "no end": (lambda x: 0.0 * x[0], 1, "a mode has no end"),
    "no density": (lambda x: jnp.log(-1.0 + 0.0 * x[0]), 1, "not a number at all points"),
    "infinite": (lambda x: -jnp.log(jnp.abs(x[0])) - x[0] ** 2, 1, "of proposals are accepted"),
    "too steep for numbers": (lambda x: -0.5 * jnp.sum(((x - 0.3) / 1e-20) ** 2), 2, "narrower than"),
    "a constant too great for it": (lambda x: 1e18 - x[0] ** 2, 1, "rounded too much"),
    "a line": (lambda x: jnp.where(x[0] == x[1], 0.0, -jnp.inf), 2, "more than 8 modes"),
    "more modes than can be counted": (
        lambda x: norm.logpdf(x[0], 0.0, 10.0) + norm.logpdf(jnp.sin(x[0]), 0.5, 0.05),
        1,
        "more than 8 modes",
    ),
    "a funnel": (
        lambda x: norm.logpdf(x[0], 0.0, 3.0) + norm.logpdf(x[1], 0.0, jnp.exp(x[0] / 2)),
        2,
        "of proposals are accepted",
    ),
    "too many": (lambda x: -0.5 * jnp.sum(x**2), 4, "there are 4 numbers"),
}


def test_rounding_errors_far_out_are_no_modes() -> None:
    """Where the prior does not reach."""

    def log_density(free, numbers):
        x = free["x"][0]
        return norm.logpdf(x) + jnp.where(x > 100.0, 1e6 * jnp.sin(x), 0.0)

    prior = Target({"x": (1,)}, log_density, (), lambda keys: {"x": 3.0 * jax.vmap(jax.random.normal)(keys)[:, None]})
    found = grid(KEY, prior)
    assert_distribution(found.values["x"].ravel(), stats.norm())


def test_a_grid_is_judged_by_a_pilot() -> None:
    """However few draws are asked for."""
    bend = target(lambda x: norm.logpdf(x[0]) + norm.logpdf(x[1], 0.3 * x[0] ** 2, 0.5), 2)
    few = Schedule(1)
    found = [grid(jax.random.key(seed), bend, few) for seed in range(6)]
    assert all(one.values["x"].shape == (1, 1, 2) for one in found)
    assert PILOT > 1000


@pytest.mark.parametrize("name", OTHERS)
def test_refused_for_a_reason(name: str) -> None:
    log_density, size, reason = OTHERS[name]
    with pytest.raises(Intractable, match=f"nearest: .*{reason}"):
        grid(KEY, target(log_density, size))


# -- infer ------------------------------------------------------------------------------------------------------------


@fb.model
def spread():
    m = yield dist.Normal(0.0, 2.0)
    s = yield dist.HalfNormal(1.0)
    y = yield dist.Normal(m, s).expand([4])


POST = spread().condition(y=np.array([0.3, 1.9, -0.4, 2.2]))


@pytest.mark.filterwarnings("ignore:More chains")  # than draws, which ArviZ takes for a mistake
def test_more_chains_than_proposals_at_once() -> None:
    """Each chain then has one proposal at a time."""
    many = POST.infer(KEY, draws=3, chains=1500, method="grid", **QUIET).posterior["s"]
    few = POST.infer(KEY, draws=3000, chains=2, method="grid", **QUIET).posterior["s"]
    assert many.shape == (1500, 3)
    assert abs(float(np.log(many).mean() - np.log(few).mean())) < 5 * float(np.log(few).std()) / np.sqrt(1500)


def test_infer_takes_it_where_it_can() -> None:
    found = POST.infer(KEY, draws=100, chains=2, **QUIET)
    assert found.posterior.attrs["method"] == "grid" and found.posterior.attrs["eliminated"] == ["m"]
    assert set(found.sample_stats) == {"lp", "acceptance_rate"}
    assert found.posterior["s"].shape == (2, 100) and float(found.posterior["s"].min()) > 0.0


@pytest.mark.parametrize("options", [dict(method="nuts"), dict(target_accept=0.9)])
def test_options_of_the_other_sampler_choose_it(options: dict) -> None:
    found = POST.infer(KEY, draws=5, warmup=5, chains=1, **options, **QUIET)
    assert found.posterior.attrs["method"] == "nuts"
    assert {"diverging", "energy", "acceptance_rate", "n_steps", "lp"} <= set(found.sample_stats)


@fb.model
def two_means():
    """The labels are summed out; means can be exchanged."""
    mean = yield dist.Normal(0.0, 300.0).expand([2])
    z = yield dist.Categorical(jnp.ones(2) / 2).expand([40])
    x = yield dist.Normal(mean[z], 10.0)


@pytest.mark.slow
def test_means_that_can_be_exchanged_are() -> None:
    """Each order half of the time, in every chain."""
    x = np.random.default_rng(1).normal(np.repeat((100.0, 200.0), 20), 10.0)
    found = two_means().condition(x=x).infer(KEY, draws=1000, **QUIET).posterior
    assert found.attrs["method"] == "grid"
    first = np.asarray(found["mean"])[..., 0] < np.asarray(found["mean"])[..., 1]
    np.testing.assert_allclose(first.mean(axis=1), 0.5, atol=4 * (0.25 / 1000) ** 0.5)


@fb.model
def improper():
    m = yield dist.ImproperUniform(npd.constraints.real, (), ())
    s = yield dist.HalfNormal(1.0)
    y = yield dist.StudentT(3.0, m, s).expand([4])


def test_a_model_without_a_proper_prior() -> None:
    found = improper().condition(y=np.array([0.3, 1.9, -0.4, 2.2])).infer(KEY, draws=200, **QUIET).posterior
    assert found.attrs["method"] == "grid" and found["m"].shape == (4, 200)


@fb.model
def wild():
    """The tails of m are so long that no grid reaches their ends."""
    m = yield dist.Cauchy(0.0, 1.0)
    y = yield dist.Cauchy(m, 1e6)


WILD = wild().condition(y=0.0)


def test_infer_does_without_where_it_cannot() -> None:
    assert WILD.infer(KEY, draws=20, warmup=20, **QUIET).posterior.attrs["method"] == "nuts"


def test_asked_for_where_it_cannot() -> None:
    with pytest.raises(Intractable) as caught:
        WILD.infer(KEY, draws=20, method="grid", **QUIET)
    assert "a grid for 1 number" in str(caught.value) and 'method="nuts"' in str(caught.value)


def test_a_key_gives_the_same_draws_and_compiles_nothing_again() -> None:
    first = POST.infer(KEY, draws=50, **QUIET).posterior
    with no_tracing():
        again, other = (POST.infer(key, draws=50, **QUIET).posterior for key in (KEY, jax.random.key(2)))
    np.testing.assert_array_equal(first["s"], again["s"])
    assert not np.any(np.asarray(first["s"]) == np.asarray(other["s"]))


def test_progress(capfd) -> None:
    POST.infer(KEY, draws=50, log_likelihood=False, predictive=False)
    assert "grid" in capfd.readouterr().err
