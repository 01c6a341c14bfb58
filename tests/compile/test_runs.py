"""Runs of samplers: what is stored, what is held fixed, where a run begins and goes on."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, FileFormatError
from tests.compile.cases import CASES, crossed, gaussian

KEY = jax.random.key(4)
S = np.array([-2.0, -1.5, 0.3, 2.2, 2.5])


@pytest.fixture(scope="module")
def post():
    return gaussian(5, 2).condition(s=S)


@pytest.fixture(scope="module")
def sampler(post):
    return post.eliminate("theta", "mu").gibbs("y", engine="python")


def test_a_seed_decides_the_draws(sampler) -> None:
    first, again = (sampler.run(KEY, sweeps=5, chains=2)["y"] for _ in range(2))
    assert first.shape == (2, 5, 5)
    assert np.array_equal(first, again)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first, sampler.run(jax.random.key(5), sweeps=5, chains=2)["y"])


def test_thin_and_keep_store_some_of_the_same_sweeps(sampler) -> None:
    every = sampler.run(KEY, sweeps=12)["y"]
    assert np.array_equal(sampler.run(KEY, sweeps=12, thin=3)["y"], every[:, 2::3])
    assert np.array_equal(sampler.run(KEY, sweeps=12, thin=3, keep=2)["y"], every[:, [8, 11]])
    assert np.array_equal(sampler.run(KEY, sweeps=8, warmup=4)["y"], every[:, 4:])


def test_start_and_fixed(sampler) -> None:
    start = {"y": [1, 0, 1, 0, 1]}
    by_mask = sampler.run(KEY, sweeps=20, start=start, fixed=[True, False, True, False, False])["y"]
    by_index = sampler.run(KEY, sweeps=20, start=start, fixed={"y": [0, 2]})["y"]
    assert np.array_equal(by_mask, by_index)
    assert (by_mask[..., [0, 2]] == 1).all()
    assert (by_mask[..., [1, 3, 4]] != [0, 0, 1]).any()
    each = sampler.run(KEY, sweeps=1, chains=2, start={"y": np.array([[0] * 5, [1] * 5])}, fixed=range(5))["y"]
    assert each.mean((1, 2)).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", ["gaussian", "topics"])  # statistics that drift, and whole numbers
def test_killed_runs_go_on_where_they_were(name, tmp_path, monkeypatch) -> None:
    sampler = CASES[name].sampler(np.array([0, 3, 1, 2, 2, 0]), engine="python")
    whole = sampler.run(KEY, sweeps=40, chains=2, thin=2)["y"]
    path = tmp_path / "run.npz"
    sweep, count = type(sampler.machine).sweep, itertools.count()

    def killed(self, *args):
        if next(count) == 55:
            raise KeyboardInterrupt
        return sweep(self, *args)

    monkeypatch.setattr(type(sampler.machine), "sweep", killed)
    with pytest.raises(KeyboardInterrupt):
        sampler.run(KEY, sweeps=40, chains=2, thin=2, checkpoint=path)
    monkeypatch.undo()
    assert np.array_equal(sampler.run(KEY, sweeps=40, chains=2, thin=2, checkpoint=path)["y"], whole)
    with pytest.raises(FileFormatError, match="one of this run"):
        sampler.run(KEY, sweeps=41, chains=2, checkpoint=path)


def test_draws_as_arviz_data(sampler) -> None:
    found = sampler.run(KEY, sweeps=3, chains=2).to_arviz(dims={"y": ["item"]})
    assert found.posterior["y"].dims == ("chain", "draw", "item")
    assert found.posterior.attrs["inference_library"] == "fubini"


def test_blocked_sweeps_that_are_not_stored(post) -> None:
    sampler = post.gibbs("y", blocked=True)
    first, later = (sampler.run(KEY, sweeps=4, warmup=warmup) for warmup in (0, 2))
    assert all(np.allclose(later[name][:, :2], first[name][:, 2:]) for name in first)
    with pytest.raises(DomainError, match=r"run\(fixed=…\) of a blocked sampler"):
        sampler.run(KEY, sweeps=2, fixed=[0])


def test_a_checkpoint_is_of_its_start(sampler, tmp_path) -> None:
    sampler.run(KEY, sweeps=4, start={"y": [0, 0, 0, 1, 1]}, checkpoint=tmp_path / "run.npz")
    with pytest.raises(FileFormatError, match="one of this run"):
        sampler.run(KEY, sweeps=4, start={"y": [0, 0, 0, 1, 0]}, checkpoint=tmp_path / "run.npz")


def agreement(y):
    """A function of which labels agree."""
    return (y[..., 0] == y[..., 1]) + 2 * (y[..., 0] == y[..., 4]) + 3 * (y[..., 2] == y[..., 3])


def exact_agreement(post, *names) -> float:
    every = np.array(list(itertools.product(range(2), repeat=5)))
    logs = np.asarray(post.eliminate(*names).log_prob(y=every))
    weights = np.exp(logs - logs.max())
    return float((weights * agreement(every)).sum() / weights.sum())


def standard(draws: np.ndarray) -> float:
    return float(draws.reshape(20, -1).mean(1).std(ddof=1) / np.sqrt(20))


@pytest.mark.parametrize(
    "names, blocked, left",
    [(("theta",), False, {"mu", "y"}), ((), False, {"theta", "mu", "y"}), ((), True, {"theta", "mu", "y"})],
)
@pytest.mark.filterwarnings("ignore::fubini.errors.Disagreement")  # labels are exchanged now and then
def test_what_is_left_is_drawn_from_its_conditional(post, names, blocked, left) -> None:
    collapsed = post.eliminate(*names) if names else post
    sampler = collapsed.gibbs("y", engine="python", blocked=blocked)
    draws = sampler.run(KEY, sweeps=600, chains=2, start={"y": [0, 0, 0, 1, 1]})
    assert set(draws) == left
    found = agreement(draws["y"])
    assert abs(found.mean() - exact_agreement(post, "theta", "mu")) < 4.5 * standard(found)
    again = sampler.run(KEY, sweeps=3, chains=2)
    assert all(np.array_equal(again[name], sampler.run(KEY, sweeps=3, chains=2)[name]) for name in left)


@pytest.mark.slow
def test_a_scale_without_closed_form_is_moved_by_nuts() -> None:
    @fb.model
    def mixture(n, k):
        theta = yield dist.Dirichlet(jnp.ones(k))
        mu = yield dist.Normal(0.0, 3.0).expand([k])
        sigma = yield dist.HalfNormal(2.0)
        y = yield dist.Categorical(theta).expand([n])
        s = yield dist.Normal(mu[y], sigma)

    post = mixture(5, 2).condition(s=S).eliminate("theta", "mu")
    draws = post.gibbs("y", engine="python").run(KEY, sweeps=500, warmup=150)
    grid, every = np.linspace(0.02, 10, 400), np.array(list(itertools.product(range(2), repeat=5)))
    y, sigma = np.repeat(every, len(grid), 0), np.tile(grid, len(every))
    logs = np.asarray(post.log_prob(y=y, sigma=sigma))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    assert abs(draws["sigma"].mean() - (weights * sigma).sum()) < 4.5 * standard(draws["sigma"])
    assert abs(agreement(draws["y"]).mean() - (weights * agreement(y)).sum()) < 4.5 * standard(agreement(draws["y"]))


def test_two_labels_in_one_statistic() -> None:
    """Rows and columns in classes, and a mean for each pair of these: each conditional equals enumeration."""
    g = np.random.default_rng(0)
    s, a, b = g.normal(size=(3, 4)), g.integers(0, 2, 3), g.integers(0, 2, 4)
    post = crossed().condition(s=s).eliminate("mu")
    sampler = post.gibbs("a", "b", engine="python")
    for name, values in (("a", a), ("b", b)):
        for place in range(len(values)):
            every = np.repeat(values[None], 2, 0)
            every[:, place] = [0, 1]
            logs = np.asarray(post.log_prob(**{"a": a, "b": b, name: every}))
            exact = np.exp(logs - logs.max())
            found = sampler.conditional(name, place, a=a, b=b)
            assert np.abs(found - exact / exact.sum()).max() < 1e-9
    draws = sampler.run(KEY, sweeps=4, chains=2)
    assert draws["a"].shape == (2, 4, 3)
    assert draws["b"].shape == (2, 4, 4)


def neighbour(place, old, size, uniform):
    """One up or down, with a bias upwards: q(old + 1 | old) = 0.7"""
    up = uniform < 0.7
    new = (old + 1) % size if up else (old - 1) % size
    if size == 2:
        return new, 0.0
    return new, (np.log(0.3 / 0.7) if up else np.log(0.7 / 0.3))


def test_proposals_keep_the_distribution(post) -> None:
    collapsed = post.eliminate("theta", "mu")
    found = agreement(collapsed.metropolis("y", proposal=neighbour, engine="python").run(KEY, sweeps=2500)["y"])
    assert abs(found.mean() - exact_agreement(post, "theta", "mu")) < 4.5 * standard(found)


def test_proposals_with_a_bias() -> None:
    """Three classes of known weights, no data to speak of: the bias of the proposal is undone."""

    @fb.model
    def classes():
        y = yield dist.Categorical(jnp.array([0.2, 0.5, 0.3])).expand([4])
        s = yield dist.Normal(0.0 * y, 1.0)

    sampler = classes().condition(s=np.array([0.1, 0.2, 0.3, 0.4])).eliminate()
    draws = sampler.metropolis("y", proposal=neighbour, engine="python").run(KEY, sweeps=3000)["y"]
    shares = np.array([(draws == k).mean() for k in range(3)])
    errors = np.array([standard(draws == k) for k in range(3)])
    assert (np.abs(shares - [0.2, 0.5, 0.3]) < 4.5 * errors).all()


def test_proposals_outside(post) -> None:
    sampler = post.eliminate("theta", "mu").metropolis("y", proposal=lambda *_: (9, 0.0), engine="python")
    with pytest.raises(DataError, match=r"(?s)a proposal for 'y' at entry 0.*one of the candidates"):
        sampler.run(KEY, sweeps=1)
