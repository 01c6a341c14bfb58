"""Products of Gaussians as one sparse system against the rules and dense linear algebra: numbers, draws, errors."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fubini as fb
from fubini.eliminate.linear_systems import LEAST_TERMS
from fubini.errors import DataError, EngineError
from fubini.factors.promotion import promoted

LOG_2_PI = np.log(2 * np.pi)


def random_factors(seed: int) -> list[fb.Factor]:
    """Up to nine variables of one to three numbers: densities, precisions of any rank, constants; jointly proper."""
    random = np.random.default_rng(seed)
    shapes = [(), (), (), (1,), (2,), (3,), (1, 2)]
    domains = {f"x{k}": fb.Real.with_shape(shapes[random.integers(7)]) for k in range(int(random.integers(1, 10)))}
    sizes = {name: int(np.prod(domain.shape)) for name, domain in domains.items()}
    factors: list[fb.Factor] = []
    for name in domains:  # each alone, so that all are known
        own = random.normal(size=(sizes[name], sizes[name])) + 3 * np.eye(sizes[name])
        factors.append(gaussian(random, {name: domains[name]}, own))
    for _ in range(int(random.integers(0, 8))):
        few = random.permutation(list(domains))[: int(random.integers(1, 4))].tolist()
        inputs = {name: domains[name] for name in few}
        width = sum(sizes[name] for name in few)
        rank = int(random.integers(0, width + 1))
        factors.append(gaussian(random, inputs, random.normal(size=(width, rank))))
    scalars = [name for name, domain in domains.items() if not domain.shape]
    for name in scalars[1:]:  # densities are rows
        mean = random.normal() + random.normal() * fb.Variable(scalars[0], fb.Real)
        factors.append(promoted(fb.dist.Normal(mean, float(random.uniform(0.3, 2.0)))(name)))
    factors += [fb.Table(random.uniform(0.1, 5.0)) for _ in range(int(random.integers(0, 3)))]
    return [factors[k] for k in random.permutation(len(factors))]


def gaussian(random: np.random.Generator, inputs: dict, root: np.ndarray) -> fb.Gaussian:
    log, info = random.normal(), random.normal(size=len(root))
    return fb.Gaussian(info=info, precision=root @ root.T, inputs=inputs, log_scale=log)


def names_of(factors: list[fb.Factor]) -> list[str]:
    return list(dict.fromkeys(name for factor in factors for name in factor.inputs))


def both(ask):
    """An answer or an error by either engine."""
    found = []
    for engine in ("rules", "sparse"):
        with fb.engine(engine):
            try:
                found.append(ask())
            except DataError as error:
                found.append(str(error))
    return found


def log_at(factor: fb.Factor, point: dict) -> float:
    return float(factor.log()(**{name: point[name] for name in factor.inputs}))


@given(st.integers(0, 10_000), st.data())
def test_sums_and_maxima_are_those_of_the_rules(seed, data) -> None:
    factors = random_factors(seed)
    names = names_of(factors)
    summed = [name for name in names if data.draw(st.booleans())]
    random = np.random.default_rng(seed)
    inputs = {name: domain for factor in factors for name, domain in factor.inputs.items()}
    point = {name: random.normal(size=inputs[name].shape) for name in names}
    for semiring in (fb.sum_product, fb.max_product):
        theirs, ours = both(lambda semiring=semiring: fb.eliminate(factors, summed, semiring=semiring))
        assert set(ours.inputs) == set(theirs.inputs)
        assert list(ours.inputs) == [name for name in names if name not in summed] or not summed
        assert ours.exactness == theirs.exactness
        assert log_at(ours, point) == pytest.approx(log_at(theirs, point), rel=1e-9, abs=1e-9)


@given(st.integers(0, 10_000))
def test_marginals_are_those_of_the_rules(seed) -> None:
    factors = random_factors(seed)
    names = names_of(factors)
    theirs, ours = both(lambda: fb.marginals(factors, names))
    assert list(ours) == list(theirs)
    for name, expected in theirs.items():
        assert type(ours[name]) is type(expected) and ours[name].inputs == expected.inputs
        for moment in ("mean", "covariance"):
            one, two = (np.asarray(getattr(factor, moment)(name)) for factor in (ours[name], expected))
            assert one.shape == two.shape
            np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-10)
        assert float(ours[name].sum(name).log()) == pytest.approx(0.0, abs=1e-12)


@given(st.integers(0, 10_000))
def test_modes_and_draws_are_those_of_the_rules(seed) -> None:
    factors = random_factors(seed)
    names = names_of(factors)
    key = jax.random.key(seed)
    for ask in (
        lambda: fb.argmax(factors, names),
        lambda: fb.sample(key, factors, names, n=7),
        lambda: fb.sample(key, factors, names),
    ):
        theirs, ours = both(ask)
        assert list(ours) == list(theirs)
        for name in names:
            assert type(ours[name]) is type(theirs[name]) and np.shape(ours[name]) == np.shape(theirs[name])
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-8, atol=1e-8)


# -- networks of many nodes --------------------------------------------------------------------------------------------

SIZE = 60


def tree(random: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x = offsets + slopes x + deviations ε: each node has one or two parents among the four before it."""
    slopes = np.zeros((size, size))
    for node in range(1, size):
        parents = random.choice(np.arange(max(0, node - 4), node), min(node, int(random.integers(1, 3))), replace=False)
        slopes[node, parents] = random.normal(size=len(parents)) / 2
    return slopes, random.normal(size=size), random.uniform(0.5, 2.0, size)


def to_factors(slopes: np.ndarray, offsets: np.ndarray, deviations: np.ndarray, array=np.asarray) -> list[fb.Factor]:
    factors = []
    for node, row in enumerate(slopes):
        mean = fb.Array(array(offsets[node]))
        for parent in np.flatnonzero(row):
            mean = mean + fb.Array(array(row[parent])) * fb.Variable(f"x{parent}", fb.Real)
        factors.append(promoted(fb.dist.Normal(mean, fb.Array(array(deviations[node])))(f"x{node}")))
    return factors


@pytest.fixture(scope="module")
def network():
    numbers = tree(np.random.default_rng(0), SIZE)
    slopes, offsets, deviations = numbers
    inverse = np.linalg.inv(np.eye(SIZE) - slopes)
    covariance = inverse @ np.diag(deviations**2) @ inverse.T
    return numbers, to_factors(*numbers), inverse @ offsets, covariance


NAMES = [f"x{node}" for node in range(SIZE)]


def test_a_network_has_the_marginals_of_dense_algebra(network) -> None:
    _, factors, mean, covariance = network
    assert "one sparse linear system" in str(fb.explain(factors, NAMES))
    found = fb.marginals(factors, NAMES)
    np.testing.assert_allclose([float(found[name].mean(name)) for name in NAMES], mean, atol=1e-12)
    np.testing.assert_allclose([float(found[name].variance(name)) for name in NAMES], covariance.diagonal(), rtol=1e-12)
    assert float(fb.eliminate(factors, NAMES).log()) == pytest.approx(0.0, abs=1e-11)


def test_an_observed_network_has_the_evidence_and_the_posterior_of_dense_algebra(network) -> None:
    _, factors, mean, covariance = network
    seen, hidden = np.arange(0, SIZE, 7), np.setdiff1d(np.arange(SIZE), np.arange(0, SIZE, 7))
    values = np.random.default_rng(1).normal(size=len(seen)) * 3
    known = {NAMES[node]: value for node, value in zip(seen, values, strict=True)}
    given_values = [factor(**{name: known[name] for name in factor.inputs if name in known}) for factor in factors]
    names = [NAMES[node] for node in hidden]
    block, gap = covariance[np.ix_(seen, seen)], values - mean[seen]
    evidence = -0.5 * (gap @ np.linalg.solve(block, gap) + np.linalg.slogdet(block)[1] + len(seen) * LOG_2_PI)
    gain = np.linalg.solve(block, covariance[np.ix_(seen, hidden)]).T
    posterior_mean = mean[hidden] + gain @ gap
    posterior = covariance[np.ix_(hidden, hidden)] - gain @ covariance[np.ix_(seen, hidden)]
    with fb.engine("sparse"):
        assert float(fb.eliminate(given_values, names).log()) == pytest.approx(evidence, abs=1e-10)
        found, best = fb.marginals(given_values, names), fb.argmax(given_values, names)
        draws = fb.sample(jax.random.key(0), given_values, names, n=20_000)
        pair = fb.eliminate(given_values, names[2:])
    np.testing.assert_allclose([float(found[name].mean(name)) for name in names], posterior_mean, atol=1e-11)
    np.testing.assert_allclose([float(found[name].variance(name)) for name in names], posterior.diagonal(), rtol=1e-10)
    np.testing.assert_allclose([best[name] for name in names], posterior_mean, atol=1e-11)
    drawn = np.stack([draws[name] for name in names])
    assert np.abs(np.cov(drawn) - posterior).max() < 0.05 * posterior.diagonal().max()
    assert np.abs(drawn.mean(axis=1) - posterior_mean).max() < 0.05
    assert float(pair.sum(names[0]).mean(names[1])) == pytest.approx(posterior_mean[1], abs=1e-11)


def test_a_network_of_real_variables_is_one_system(network) -> None:
    _, factors, _, _ = network
    net = fb.Network(dict.fromkeys(NAMES, fb.Real), tuple(factors))
    seen = net.condition({"x9": 1.0, "x30": -2.0})
    theirs, ours = both(seen.marginals)
    for name, expected in theirs.items():
        assert float(ours[name].mean(name)) == pytest.approx(float(expected.mean(name)), abs=1e-11)
        assert float(ours[name].variance(name)) == pytest.approx(float(expected.variance(name)), rel=1e-11)
    theirs, ours = both(seen.log_evidence)
    assert float(ours) == pytest.approx(float(theirs), abs=1e-11)


def test_numbers_of_jax_give_the_same_answers(network) -> None:
    """Eager, compiled and eager again; these go by rules."""
    numbers, factors, _, _ = network
    few, names = 4, NAMES[:4]
    key = jax.random.key(3)
    with fb.engine("sparse"):
        ours = fb.marginals(factors[:few], names)
        drawn, again = (fb.sample(key, factors[:few], names, n=2) for _ in range(2))

    def of_jax(offsets):
        theirs = to_factors(numbers[0][:few, :few], offsets, numbers[2][:few], jnp.asarray)
        means = [factor.mean(name).array for name, factor in fb.marginals(theirs, names).items()]
        return jnp.stack(means), fb.eliminate(theirs, names).log().array

    offsets = jnp.asarray(numbers[1][:few])
    for ask in (of_jax, jax.jit(of_jax), of_jax):
        means, log = ask(offsets)
        np.testing.assert_allclose(means, [float(ours[name].mean(name)) for name in names], atol=2e-5)
        assert float(log) == pytest.approx(0.0, abs=1e-5)
    traced = jax.jit(lambda key: fb.sample(key, factors[:few], names, n=2))(key)
    for name in names:
        np.testing.assert_array_equal(drawn[name], again[name])
        assert traced[name].shape == (2,)


# -- where rules answer ------------------------------------------------------------------------------------------------


def coupled(deviation: float) -> list[fb.Factor]:
    """A chain whose level is known by one factor alone."""
    steps = [fb.dist.Normal(fb.Variable(f"x{k}", fb.Real), deviation)(f"x{k + 1}") for k in range(15)]
    return [promoted(factor) for factor in (fb.dist.Normal(2.0, 1.0)("x7"), *steps)]


def test_a_singular_precision_is_the_error_of_the_rules() -> None:
    factors, names = coupled(1.0)[1:], [f"x{k}" for k in range(16)]
    zero = [*coupled(1.0), fb.Table(0.0)]
    for ask in (
        lambda: fb.eliminate(factors, names),
        lambda: fb.marginals(factors, names),
        lambda: fb.argmax(factors, names),
        lambda: fb.sample(jax.random.key(0), factors, names),
        lambda: fb.marginals(zero, names),
        lambda: fb.argmax(zero, names),
        lambda: fb.sample(jax.random.key(0), zero, names),
    ):
        theirs, ours = both(ask)
        assert isinstance(theirs, str) and ours == theirs
    theirs, ours = both(lambda: fb.eliminate(zero, names))
    assert float(theirs) == float(ours) == 0.0


@pytest.mark.parametrize("deviation", [1e-3, 1e-7, 1e-12, 1e-100])
def test_digits_that_a_precision_would_lose_are_kept_by_the_rules(deviation) -> None:
    factors, names = coupled(deviation), [f"x{k}" for k in range(16)]
    theirs, ours = both(lambda: fb.marginals(factors, names))
    assert isinstance(theirs, dict) or theirs == ours  # a precision that no double holds
    for name in names if isinstance(theirs, dict) else ():
        steps = abs(int(name[1:]) - 7)
        assert float(ours[name].variance(name)) == pytest.approx(1.0 + steps * deviation**2, rel=1e-9)
        assert float(ours[name].mean(name)) == pytest.approx(2.0, rel=1e-12)
    theirs, ours = both(lambda: float(fb.eliminate(factors, names).log()))
    assert ours == (theirs if isinstance(theirs, str) else pytest.approx(0.0, abs=1e-9))


def test_an_improper_remainder_goes_by_rules() -> None:
    factors = coupled(1.0)[1:]
    theirs, ours = both(lambda: fb.eliminate(factors, [f"x{k}" for k in range(1, 15)]))
    point = {"x0": 0.4, "x15": -1.0}
    assert log_at(ours, point) == pytest.approx(log_at(theirs, point), abs=1e-12)
    expected = -0.5 * 1.4**2 / 15 - 0.5 * np.log(2 * np.pi * 15)
    assert log_at(ours, point) == pytest.approx(expected, abs=1e-12)


def test_few_factors_and_dense_ones_go_by_rules() -> None:
    steps = coupled(1.0)
    few = [steps[0], *steps[5 : 5 + LEAST_TERMS - 2]]
    names = list(dict.fromkeys(name for factor in few for name in factor.inputs))
    assert "step by step" in str(fb.explain(few, names))
    assert "one sparse linear system" in str(fb.explain(steps, [f"x{k}" for k in range(16)]))
    wide = fb.Gaussian(info=np.ones(100), precision=2 * np.eye(100), inputs={"y": fb.Real[100]})
    dense = [wide] * LEAST_TERMS
    assert "step by step" in str(fb.explain(dense, ["y"]))
    with fb.engine("rules"):
        assert "step by step" in str(fb.explain(steps, [f"x{k}" for k in range(16)]))


X, Y = fb.dist.Normal(0.0, 1.0)("x"), fb.dist.Normal(fb.Variable("x", fb.Real), 1.0)("y")


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: fb.eliminate([fb.Table(np.ones((2, 2)), ("a", "b"))] * 2, ("a", "b")), "the factor"),
        (lambda: (fb.Table(np.ones(2), ("a",)) * fb.Table(np.ones(2), ("a",))).sum("a"), "the factor"),
        (lambda: fb.eliminate([fb.dist.Normal(jnp.zeros(()), 1.0)("x"), Y], ("x", "y")), "the factor"),
        (lambda: fb.marginals([X, Y], ("x", "y"), semiring=fb.max_product), "the semiring max_product"),
        (lambda: fb.eliminate([X, Y], ("x", "y"), semiring=fb.counting), "the semiring counting"),
        (lambda: fb.argmax([X, Y], ("y",)), "given the others"),
        (lambda: jax.jit(lambda key: fb.sample(key, [X, Y], ("x", "y")))(jax.random.key(0)), "not NumPy's"),
    ],
)
def test_an_engine_that_cannot_serve_says_what_stops_it(ask, message) -> None:
    with fb.engine("sparse"), pytest.raises(EngineError, match=message):
        ask()


def test_a_variable_without_entries() -> None:
    """It is in the answers, as by the rules."""
    names = [f"x{k}" for k in range(14)]
    factors: list[fb.Factor] = [fb.Gaussian(info=[0.3], precision=[[1.0]], inputs={"x0": fb.Real})]
    factors += [
        fb.Gaussian(info=[0.0, 0.1], precision=[[1.0, -0.8], [-0.8, 1.0]], inputs={one: fb.Real, two: fb.Real})
        for one, two in pairwise(names)
    ]
    factors.append(fb.Gaussian(info=np.zeros(0), precision=np.zeros((0, 0)), inputs={"none": fb.Reals[0]}))
    answers = {}
    for engine in ("rules", "sparse"):
        with fb.engine(engine):
            marginals = fb.marginals(factors, [*names, "none"])
            answers[engine] = (
                float(marginals["x3"].variance("x3")),
                float(fb.eliminate(factors, [*names, "none"]).log()),
            )
            assert marginals["none"].inputs == {"none": fb.Reals[0]}
            assert fb.argmax(factors, [*names, "none"])["none"].shape == (0,)
    np.testing.assert_allclose(*answers.values(), rtol=1e-12)
