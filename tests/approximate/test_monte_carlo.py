"""Monte Carlo: estimates are unbiased with their first two derivatives; what has a closed form stays exact.

Values, gradients and Hessians are compared with enumeration or quadrature in NumPy, differentiated by differences;
standard errors come from twenty independent keys.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import Intractable

KEY = jax.random.key(0)
KEYS, DRAWS = 20, 5000
x, z = fb.Variable("x", fb.Real), fb.Variable("z", fb.Real)
p, u = fb.Variable("p", fb.Positive), fb.Variable("u", fb.Unit)
a, b, c = fb.Variable("a", fb.Bint[2]), fb.Variable("b", fb.Bint[2]), fb.Variable("c", fb.Nat)
k = fb.Variable("k", fb.Bint[3])


def sigmoid(v: Any) -> Any:
    return 1 / (1 + np.exp(-v))


def softmax(v: Any) -> np.ndarray:
    w = np.exp(v - np.max(v))
    return w / w.sum()


# -- quadrature --------------------------------------------------------------------------------------------------------

GRID = np.linspace(-14.0, 14.0, 5601)
SPACE = GRID[1] - GRID[0]


def over_reals(f: Callable) -> float:
    return float(np.sum(f(GRID)) * SPACE)


def over_positive(f: Callable) -> float:
    """∫ f(p) dp with p = exp(v)."""
    at = np.exp(GRID)
    return float(np.sum(f(at) * at) * SPACE)


def over_unit(f: Callable) -> float:
    """∫ f(u) du with u = sigmoid(v)."""
    at = sigmoid(GRID)
    return float(np.sum(f(at) * at * (1 - at)) * SPACE)


# -- ten expectations, and a few more ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """An expectation of two parameters, the variables drawn by name, and the same number otherwise."""

    estimate: Callable[[Any, Any], fb.Value]
    exact: Callable[[float, float], float]
    names: tuple[str, ...] = ()
    at: tuple[float, float] = (0.4, -0.3)


def two_labels(s: Any, t: Any) -> fb.Value:
    table = fb.Table.from_log(
        s * jnp.array([[0.0, 1.0], [1.0, 3.0]]) + t * jnp.array([[0.0, 0.5], [0.0, 1.0]]), ("a", "b")
    )
    return fb.expectation(table, (1.0 + a) * fb.ops.exp(0.5 * b) + t * a * b, "a", "b")


def two_labels_exactly(s: float, t: float) -> float:
    weights = softmax(s * np.array([[0.0, 1.0], [1.0, 3.0]]) + t * np.array([[0.0, 0.5], [0.0, 1.0]]))
    A, B = np.meshgrid([0.0, 1.0], [0.0, 1.0], indexing="ij")
    return float((weights * ((1 + A) * np.exp(0.5 * B) + t * A * B)).sum())


def labelled(s: Any, t: Any) -> fb.Factor:
    """A Gaussian mixture: k with weights softmax(s k), x around t (k − 1)."""
    table = fb.Table.from_log(s * jnp.arange(3.0), ("k",))
    return table * dist.Normal(fb.Array(t * jnp.array([-1.0, 0.0, 1.0]), ("k",)), 0.8)("x")


def labelled_exactly(s: float, t: float) -> float:
    parts = [over_reals(lambda v, j=j: stats.norm(t * (j - 1), 0.8).pdf(v) * np.sin(v)) * (1 + j) for j in range(3)]
    return float(softmax(s * np.arange(3.0)) @ np.array(parts))


def nested(s: Any, t: Any) -> fb.Value:
    """z ~ Normal(s, 1), b ~ Bernoulli(sigmoid(t z))."""
    f = dist.Normal(s, 1.0)("z") * dist.Bernoulli(logits=t * z)("b")
    return fb.expectation(f, fb.ops.sin(z) * (1.0 + 2.0 * b), "z", "b")


def nested_exactly(s: float, t: float) -> float:
    return over_reals(lambda v: stats.norm(s, 1).pdf(v) * np.sin(v) * (1 + 2 * sigmoid(t * v)))


# A covering design: labels of tables and of densities, counts, reals, drawn alone, together, nested, or summed.
CASES: dict[str, Case] = {
    "table": Case(
        lambda s, t: fb.expectation(fb.Table.from_log(s * jnp.arange(3.0), ("k",)), fb.ops.exp(t * k) + s * k, "k"),
        lambda s, t: float(softmax(s * np.arange(3.0)) @ (np.exp(t * np.arange(3)) + s * np.arange(3))),
        ("k",),
    ),
    "table of two": Case(two_labels, two_labels_exactly, ("a", "b")),
    "Poisson": Case(
        lambda s, t: fb.expectation(dist.Poisson(jnp.exp(s))("c"), fb.ops.cos(0.5 * c) + t * c, "c"),
        lambda s, t: float(
            stats.poisson(np.exp(s)).pmf(np.arange(80)) @ (np.cos(np.arange(80) / 2) + t * np.arange(80))
        ),
    ),
    "Normal": Case(
        lambda s, t: fb.expectation(dist.Normal(s, jnp.exp(t))("z"), fb.ops.sin(z) + 0.3 * z**3, "z"),
        lambda s, t: over_reals(lambda v: stats.norm(s, np.exp(t)).pdf(v) * (np.sin(v) + 0.3 * v**3)),
    ),
    "LogNormal": Case(
        lambda s, t: fb.expectation(dist.LogNormal(s, 0.5)("p"), fb.ops.sin(t * p), "p"),
        lambda s, t: over_positive(lambda v: stats.lognorm(0.5, scale=np.exp(s)).pdf(v) * np.sin(t * v)),
    ),
    "Gamma": Case(
        lambda s, t: fb.expectation(dist.Gamma(jnp.exp(s), jnp.exp(t))("p"), fb.ops.sin(p), "p"),
        lambda s, t: over_positive(lambda v: stats.gamma(np.exp(s), scale=np.exp(-t)).pdf(v) * np.sin(v)),
    ),
    "Beta": Case(
        lambda s, t: fb.expectation(dist.Beta(jnp.exp(s), jnp.exp(t))("u"), fb.ops.sin(2.0 * u), "u"),
        lambda s, t: over_unit(lambda v: stats.beta(np.exp(s), np.exp(t)).pdf(v) * np.sin(2 * v)),
        at=(0.9, 0.4),
    ),
    "mixture": Case(
        lambda s, t: fb.expectation(labelled(s, t), fb.ops.sin(x) * (1.0 + k), "k", "x"), labelled_exactly, ("k", "x")
    ),
    "mixture, label summed": Case(
        lambda s, t: fb.expectation(labelled(s, t), fb.ops.sin(x) * (1.0 + k), "k", "x"), labelled_exactly
    ),
    "nested": Case(nested, nested_exactly, ("z", "b")),
    "integral": Case(
        lambda s, t: to_number((dist.Normal(s, 1.0)("z") * dist.Normal(fb.ops.exp(z), jnp.exp(t))(1.3)).sum("z")),
        lambda s, t: over_reals(lambda v: stats.norm(s, 1).pdf(v) * stats.norm(np.exp(v), np.exp(t)).pdf(1.3)),
    ),
}


def to_number(f: fb.Factor) -> fb.Value:
    return fb.ops.exp(f.log())


def differences(f: Callable, at: np.ndarray, h: float = 2e-3) -> tuple[float, np.ndarray, np.ndarray]:
    """Value, gradient and Hessian of a function of two numbers, by central differences."""
    e = h * np.eye(2)
    gradient = np.array([(f(*(at + e[i])) - f(*(at - e[i]))) / (2 * h) for i in range(2)])
    hessian = np.zeros((2, 2))
    for i in range(2):
        for j in range(2):
            corners = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
            hessian[i, j] = sum(m * n * f(*(at + m * e[i] + n * e[j])) for m, n in corners) / (4 * h * h)
    return f(*at), gradient, hessian


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.one_in(3)
def test_unbiased(name: str) -> None:
    """Value, gradient and Hessian from 20 keys × 5000 draws are within 4 standard errors, and estimates at all."""
    case = CASES[name]

    def estimate(theta: Any, key: Any) -> Any:
        with fb.monte_carlo(key, DRAWS, *case.names):
            return case.estimate(theta[0], theta[1]).data

    def gradient(theta: Any, key: Any) -> Any:
        value, slope = jax.value_and_grad(estimate)(theta, key)
        return slope, (value, slope)

    @jax.jit
    @jax.vmap
    def everything(key: Any) -> Any:
        hessian, (value, slope) = jax.jacfwd(gradient, has_aux=True)(jnp.array(case.at), key)
        return value, slope, hessian

    found = everything(jax.random.split(jax.random.key(1), KEYS))
    want = differences(case.exact, np.array(case.at))
    for what, mine, right in zip(("value", "gradient", "Hessian"), found, want, strict=True):
        mine = np.asarray(mine, dtype=np.float64)
        assert np.isfinite(mine).all(), what
        error = mine.std(axis=0, ddof=1) / math.sqrt(KEYS)
        np.testing.assert_array_less(np.abs(mine.mean(axis=0) - right), 4 * error + 2e-5, err_msg=what)
    assert np.std(found[0]) > 0, "it was not estimated"


# -- behaviour 21 ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_drawn_table_with_a_batch() -> None:
    """k is drawn for each cell i of the batch: value and all parameter gradients unbiased, cell by cell."""
    logits = jnp.array([[0.0, 0.5, -0.5], [1.0, 0.0, 0.3]])
    value = jnp.array([1.0, -2.0, 4.0])

    def estimate(weights: Any, key: Any) -> Any:
        with fb.monte_carlo(key, DRAWS, "k"):
            found = fb.expectation(fb.Table.from_log(weights, ("i", "k")), fb.Array(value, ("k",)), "k")
        assert set(found.inputs) == {"i"} and repr(found.exactness) == f"estimated({DRAWS})"
        return found.data

    def exactly(weights: Any) -> Any:
        return jax.nn.softmax(weights) @ value

    keys = jax.random.split(jax.random.key(2), KEYS)
    both = jax.jit(jax.vmap(lambda key: (estimate(logits, key), jax.jacobian(estimate)(logits, key))))(keys)
    for mine, right in zip(both, (exactly(logits), jax.jacobian(exactly)(logits)), strict=True):
        error = np.std(mine, axis=0, ddof=1) / math.sqrt(KEYS)
        np.testing.assert_array_less(np.abs(np.mean(mine, axis=0) - right), 4 * error + 1e-6)
    assert np.all(np.std(both[0], axis=0) > 0)


@pytest.mark.slow
def test_third_derivative() -> None:
    """Of every order: the third derivative of E[b] under Bernoulli(sigmoid(s)) is that of the sigmoid."""

    def estimate(s: Any, key: Any) -> Any:
        with fb.monte_carlo(key, DRAWS, "b"):
            return fb.expectation(dist.Bernoulli(logits=s)("b"), 1.0 * b, "b").data

    third = jax.grad(jax.grad(jax.grad(estimate)))
    found = jax.jit(jax.vmap(lambda key: third(0.7, key)))(jax.random.split(jax.random.key(3), KEYS))
    right = jax.grad(jax.grad(jax.grad(jax.nn.sigmoid)))(0.7)
    assert abs(np.mean(found) - right) < 4 * np.std(found, ddof=1) / math.sqrt(KEYS)


# -- what is exact stays exact -----------------------------------------------------------------------------------------


def test_closed_forms_are_not_estimated() -> None:
    """Sums and expectations with a closed form are unmarked, and the same numbers as outside of the context."""
    table = fb.Table(np.array([[0.5, 0.8, 0.1], [0.1, 0.0, 2.0]]), ("a", "k"))
    gaussian = dist.Normal(x, 1.0)(1.3) * dist.Normal(0.0, 2.0)("x")

    def ask() -> list:
        return [
            table.sum("k").log(),
            (table * gaussian).sum("k", "a", "x").log(),
            fb.expectation(table, fb.ops.exp(1.0 * k), "a", "k"),
            fb.expectation(gaussian, x * x + x, "x"),
            fb.eliminate([table, gaussian], sum=("a", "k", "x")).log(),
            fb.expectation(dist.Gamma(2.0, 3.0)("p"), 1.0 + 2.0 * p, "p"),
        ]

    outside = ask()
    with fb.monte_carlo(KEY, 10):
        inside = ask()
    for mine, want in zip(inside, outside, strict=True):
        assert mine.exactness.is_exact
        np.testing.assert_allclose(mine.data, want.data, rtol=1e-15)


def test_maxima_are_not_estimated() -> None:
    """Only sums are estimated: other semirings go their own way."""
    table = fb.Table(np.array([[0.5, 0.8], [0.1, 0.0]]), ("a", "b"))
    with fb.monte_carlo(KEY, 10, "a"):
        found = table.max("a")
    assert found.exactness.is_exact
    np.testing.assert_allclose(found(b=1).log().data, math.log(0.8), rtol=1e-12)


@pytest.mark.slow
def test_conjugate_part_is_integrated() -> None:
    """Of Σ over z and x only z is drawn: the variance is that of the Rao-Blackwellised estimator."""
    n, repeats = 50, 2000

    def estimate(key: Any) -> Any:
        f = dist.Normal(0.0, 1.0)("z") * dist.Normal(0.0, 1.0)("x") * dist.Normal(fb.ops.exp(z) + x, 0.3)(1.3)
        with fb.monte_carlo(key, n):
            return jnp.exp(f.sum("z", "x").log().data)

    found = np.asarray(jax.jit(jax.vmap(estimate))(jax.random.split(jax.random.key(4), repeats)))
    likelihood = stats.norm(np.exp(GRID), math.sqrt(1 + 0.3**2)).pdf(1.3)
    prior = stats.norm(0, 1).pdf(GRID) * SPACE
    mean = prior @ likelihood
    variance = (prior @ likelihood**2 - mean**2) / n
    plain = (prior @ stats.norm(np.exp(GRID), math.sqrt(1 + 0.3**2 / 2)).pdf(1.3)) / math.sqrt(4 * math.pi * 0.3**2)
    assert abs(found.mean() - mean) < 4 * found.std() / math.sqrt(repeats)
    assert found.var() == pytest.approx(variance, rel=0.2)
    assert found.var() < 0.5 * (plain - mean**2) / n


@pytest.mark.slow
def test_part_of_a_joint_drawn() -> None:
    """With k alone drawn by name, x given k is integrated exactly: E[x k] from draws of k."""
    n = 20_000
    loc = jnp.array([-1.0, 0.5, 2.0])

    @jax.jit
    def estimate(key: Any) -> Any:
        f = fb.Table(jnp.array([0.2, 0.3, 0.5]), ("k",)) * dist.Normal(fb.Array(loc, ("k",)), 3.0)("x")
        with fb.monte_carlo(key, n, "k"):
            found = fb.expectation(f, x * k, "k", "x")
        assert repr(found.exactness) == f"estimated({n})"
        return found.data

    values, weights = np.array([0.0, 0.5, 4.0]), np.array([0.2, 0.3, 0.5])
    mean = weights @ values
    error = math.sqrt(weights @ values**2 - mean**2) / math.sqrt(n)
    assert float(estimate(KEY)) == pytest.approx(mean, abs=4 * error)


def test_evidence_by_elimination() -> None:
    """fb.eliminate estimates what has no closed form too."""
    n = 20_000
    with fb.monte_carlo(KEY, n):
        found = fb.eliminate([dist.Normal(0.0, 1.0)("z"), dist.Normal(fb.ops.exp(z), 1.0)(1.3)], sum=("z",))
    want = over_reals(lambda v: stats.norm(0, 1).pdf(v) * stats.norm(np.exp(v), 1).pdf(1.3))
    assert math.exp(float(found.log())) == pytest.approx(want, abs=0.005)
    assert found.exactness.marks == (f"estimated({n})",)
    assert abs(math.exp(float(found.log())) / want - 1) < 4 * found.exactness.error < 0.02


def test_nothing_to_draw_from() -> None:
    """A factor without a density has no draws: the error says what to multiply by."""
    with pytest.raises(Intractable, match="guide") as caught, fb.monte_carlo(KEY, 10):
        fb.weight(log=-(z**4)).sum("z")
    assert "'z'" in str(caught.value)


# -- keys --------------------------------------------------------------------------------------------------------------


def exponential(key: Any, n: int = 100) -> Any:
    with fb.monte_carlo(key, n):
        return fb.expectation(dist.Normal(0.0, 1.0)("z"), fb.ops.exp(z), "z").data


def test_same_key_same_numbers() -> None:
    """One key, one number, whether it is a new or an old-style key; another key, another number."""
    first, second = jax.random.split(KEY)
    assert float(exponential(first)) == float(exponential(first)) != float(exponential(second))
    assert math.isfinite(float(exponential(jax.random.PRNGKey(3))))


def test_plain_jit_and_vmap() -> None:
    """The key as an argument: compiled it is the same number; mapped over keys each has its own draws."""
    keys = jax.random.split(jax.random.key(5), 6)
    each = np.array([float(exponential(key)) for key in keys[:2]])
    mapped = np.asarray(jax.jit(jax.vmap(exponential))(keys))
    np.testing.assert_allclose(mapped[:2], each, rtol=1e-5)
    assert len(set(mapped.tolist())) == 6
    assert float(jax.jit(exponential)(keys[0])) == pytest.approx(each[0], rel=1e-5)


@pytest.mark.slow
def test_vmapped_draws_are_independent() -> None:
    """Over 500 keys of 100 draws the variance of the estimates is a hundredth of that of exp(z)."""
    found = np.asarray(jax.jit(jax.vmap(exponential))(jax.random.split(jax.random.key(6), 500)))
    exact = (math.exp(2) - math.exp(1)) / 100
    assert found.mean() == pytest.approx(math.exp(0.5), abs=4 * math.sqrt(exact / 500))
    assert found.var() == pytest.approx(exact, rel=0.6)


@pytest.mark.parametrize(("jit", "traces"), [(fb.jit, 1), (jax.jit, 3)], ids=["fb.jit", "jax.jit"])
def test_jit_inside_of_the_context(jit: Callable, traces: int) -> None:
    """Another key is another number under both; fb.jit does not compile anew for it."""
    count = 0

    def mean(loc: Any) -> Any:
        nonlocal count
        count += 1
        return fb.expectation(dist.Normal(loc, 1.0)("z"), fb.ops.exp(z), "z").data

    compiled = jit(mean)
    keys = jax.random.split(KEY, 3)
    found = []
    for key in keys:
        with fb.monte_carlo(key, 100):
            found.append(float(compiled(0.0)))
    assert count == traces
    np.testing.assert_allclose(found, [float(exponential(key)) for key in keys], rtol=1e-5)
    assert len(set(found)) == 3


def test_grad_inside_of_the_context() -> None:
    """A derivative taken inside of the context is one of the estimate that stands there."""
    with fb.monte_carlo(KEY, 100):
        inside = jax.grad(lambda s: fb.expectation(dist.Normal(s, 1.0)("z"), fb.ops.exp(z), "z").data)(0.0)
    assert float(inside) == pytest.approx(float(exponential(KEY)), rel=1e-5)  # d/ds exp(s + ε) = exp(s + ε)


def test_two_estimates_use_different_draws() -> None:
    """The same question twice in one context has two answers, eagerly and in one compiled function."""

    def both(key: Any) -> Any:
        with fb.monte_carlo(key, 100):
            f = dist.Normal(0.0, 1.0)("z")
            return tuple(fb.expectation(f, fb.ops.exp(z), "z").data for _ in range(2))

    first, second = map(float, both(KEY))
    assert first != second
    pairs = np.asarray(jax.jit(jax.vmap(both))(jax.random.split(KEY, 500)))
    assert abs(np.corrcoef(pairs)[0, 1]) < 0.2
    np.testing.assert_allclose([float(v) for v in jax.jit(both)(KEY)], [first, second], rtol=1e-5)


def test_nested_contexts() -> None:
    """An inner context with a key of its own is in force inside; leaving it goes on with the draws of the outer one."""
    outer, inner = jax.random.split(KEY)
    f, v = dist.Normal(0.0, 1.0)("z"), fb.ops.exp(z)
    with fb.monte_carlo(outer, 100):
        before = fb.expectation(f, v, "z")
        with fb.monte_carlo(inner, 50):
            within = fb.expectation(f, v, "z")
        after = fb.expectation(f, v, "z")
    assert [repr(e.exactness) for e in (before, within, after)] == ["estimated(100)", "estimated(50)", "estimated(100)"]
    assert len({float(before), float(within), float(after)}) == 3
    assert float(within) == pytest.approx(float(exponential(inner, 50)), rel=1e-6)


def test_the_mark() -> None:
    """estimated(n) stays with what is made of an estimate."""
    with fb.monte_carlo(KEY, 64):
        found = (dist.Normal(0.0, 1.0)("z") * dist.Normal(fb.ops.exp(z), 1.0)(fb.Array(np.zeros(2), ("i",)))).sum("z")
    assert repr(found.exactness) == "estimated(64)" and set(found.inputs) == {"i"}
    assert repr((found * fb.Table([1.0, 2.0], ("i",))).sum("i").exactness) == "estimated(64)"
    assert repr(found.log().exactness) == "estimated(64)"


def test_monte_carlo_in_moment_matching() -> None:
    """One context inside of the other: both marks, where both took part."""
    f = fb.Table([0.3, 0.7], ("k",)) * dist.Normal(fb.Array([-1.0, 1.0], ("k",)), 1.0)("x")
    with fb.moment_matching():
        g = f.sum("k")
        with fb.monte_carlo(KEY, 1000):
            found = fb.expectation(g, fb.ops.sin(x), "x")
    assert "projected" in repr(found.exactness) and "estimated(1000)" in repr(found.exactness)
    assert float(found) == pytest.approx(math.sin(0.4) * math.exp(-(1 + 0.84) / 2), abs=0.1)


def test_moment_matching_in_monte_carlo() -> None:
    """The other way round the sum over the label is projected, and the integral of the result is still estimated."""
    f = fb.Table([0.3, 0.7], ("k",)) * dist.Normal(fb.Array([-1.0, 1.0], ("k",)), 1.0)("x")
    with fb.monte_carlo(KEY, 1000), fb.moment_matching(window=2):
        g = f.sum("k")
        found = fb.expectation(g, fb.ops.sin(x), "x")
    assert type(g) is fb.Gaussian and repr(g.exactness) == "projected(moment_matching(window=2))"
    assert float(g.mean("x")) == pytest.approx(0.4, abs=1e-12)
    assert float(g.variance("x")) == pytest.approx(1 + 0.84, abs=1e-12)
    assert "projected" in repr(found.exactness) and "estimated(1000)" in repr(found.exactness)
    assert float(found) == pytest.approx(math.sin(0.4) * math.exp(-(1 + 0.84) / 2), abs=0.1)
