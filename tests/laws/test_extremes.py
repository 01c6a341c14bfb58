"""Log-weights far apart: nothing underflows, in either engine, and derivatives are finite and right."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fubini as fb

from .tables import arrays, derivative, in_double_precision, linear, logs

# An engine and how far apart its log-weights are.
ENGINES = {"numpy": (np.asarray, 200.0), "jax": (jnp.asarray, 200.0), "numpy, wide": (np.asarray, 2000.0)}
engines = pytest.mark.parametrize(("engine", "nats"), ENGINES.values(), ids=ENGINES)
EXPONENTS = st.sampled_from((0.0, -1.0, -0.5, 0.25, 0.75))


def unit_arrays(*shape: int) -> st.SearchStrategy[np.ndarray]:
    """Log-weights in units of the distance, some of them −inf."""
    return arrays(*shape, elements=EXPONENTS | st.just(-np.inf))


def table(engine: Callable, log_weights: np.ndarray, *names: str) -> fb.Table:
    return fb.Table.from_log(engine(np.asarray(log_weights)), names)


def log_sum(exponents: np.ndarray, *axes: int) -> np.ndarray:
    """log Σ exp, with −inf for an empty sum."""
    top = exponents.real.max(axis=axes, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    sums = np.exp(exponents - top).sum(axis=axes)
    positive = sums.real > 0
    return np.where(positive, np.log(np.where(positive, sums, 1.0)), -np.inf) + np.squeeze(top, axes)


def assert_logs(factor: fb.Factor, expected: np.ndarray, *names: str, kind: type = fb.Table) -> None:
    """Exact and of this kind; logarithms equal to 9 digits on NumPy, and as far as single precision goes on JAX."""
    assert isinstance(factor, kind) and factor.exactness.is_exact
    single = any(isinstance(leaf, jax.Array) for leaf in factor.leaves())
    rtol, atol = (1e-6, 1e-4) if single else (1e-12, 1e-9)
    np.testing.assert_allclose(logs(factor, names), expected, rtol=rtol, atol=atol)


@engines
def test_two_factors_that_disagree(engine, nats):
    """x = [0, −200], y = [−200, 0]: Σ x·y = 2 exp(−200), where shifting each by its own maximum gives nothing."""
    x, y = table(engine, [0.0, -nats], "a"), table(engine, [-nats, 0.0], "a")
    expected = np.log(2.0) - nats
    assert_logs((x * y).sum("a"), expected)
    assert_logs(fb.eliminate([x, y], sum=("a",)), expected)
    assert_logs(fb.eliminate([x, y, table(engine, 0.0)], sum=("a",)), expected)
    assert_logs((x * y).max("a"), -nats)
    assert_logs(x * y, np.array([-nats, -nats]), "a", kind=fb.Factor)


@engines
@settings(max_examples=15)
@given(pi=unit_arrays(3), step=unit_arrays(2, 3, 3))
def test_two_steps_of_a_chain(engine, nats, pi, step):
    """Σ_ab π(a) S₀(a, b) S₁(b, c), in one elimination and one step at a time."""
    pi, step = nats * pi, nats * step
    whole = pi[:, None, None] + step[0][:, :, None] + step[1][None]
    expected = log_sum(whole, 0, 1)
    factors = table(engine, pi, "a"), table(engine, step[0], "a", "b"), table(engine, step[1], "b", "c")
    assert_logs(fb.eliminate(factors, sum=("a", "b")), expected, "c")
    assert_logs((factors[0] * factors[1]).sum("a") * factors[2], log_sum(whole, 0), "b", "c", kind=fb.Factor)
    assert_logs(((factors[0] * factors[1]).sum("a") * factors[2]).sum("b"), expected, "c")
    assert_logs(fb.eliminate(factors, sum=("a", "b", "c")), log_sum(expected, 0))


@engines
@settings(max_examples=15)
@given(f=unit_arrays(3, 2), g=arrays(2, elements=EXPONENTS))
def test_pointwise_operations(engine, nats, f, g):
    """Products, quotients, powers and sums of factors keep every entry."""
    f, g = nats * f, nats * g
    x, y = table(engine, f, "a", "b"), table(engine, g, "b")
    assert_logs(x * y, f + g, "a", "b", kind=fb.Factor)
    assert_logs(x / y, f - g, "a", "b")
    assert_logs((x / y) * y, f, "a", "b", kind=fb.Factor)
    assert_logs(x**2.0, 2.0 * f, "a", "b")
    assert_logs(y**-1.5, -1.5 * g, "b")
    assert_logs(x + y, np.logaddexp(f, g), "a", "b")


@engines
@settings(max_examples=15)
@given(f=unit_arrays(4, 3), g=arrays(3, elements=EXPONENTS))
def test_plates(engine, nats, f, g):
    """Σ_a g(a) Π_i f(i, a), by methods and by a plan, and the plate as a batch."""
    f, g = nats * f, nats * g
    x, y = table(engine, f, "i", "a"), table(engine, g, "a")
    expected = log_sum(g + f.sum(0), 0)
    assert_logs(x.product("i"), f.sum(0), "a")
    assert_logs((x.product("i") * y).sum("a"), expected)
    assert_logs(fb.eliminate([x, y], sum={"a": ()}, plates=("i",)), expected)
    assert_logs((x * y).product("i").sum("a"), log_sum(4 * g + f.sum(0), 0))


@engines
@settings(max_examples=15)
@given(f=arrays(3, 2, elements=EXPONENTS), g=arrays(2, 3, elements=EXPONENTS))
def test_marginals_and_normalization(engine, nats, f, g):
    """Marginals far below the smallest float are kept as logarithms."""
    f, g = nats * f, nats * g
    whole = f[:, :, None] + g[None]
    whole = whole - log_sum(whole, 0, 1, 2)
    factors = table(engine, f, "a", "b"), table(engine, g, "b", "c")
    found = fb.marginals(factors, ("a", "b", "c"))
    for axis, name in enumerate("abc"):
        assert_logs(found[name], log_sum(whole, *(other for other in range(3) if other != axis)), name)
    assert_logs((factors[0] * factors[1]).normalize(), whole, "a", "b", "c", kind=fb.Factor)
    probability = np.exp(whole)
    np.testing.assert_allclose(
        float((factors[0] * factors[1]).entropy("a", "b", "c")), -(probability * whole).sum(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("weights", [[1e300, 1e-300], [1e-300, 1e-308], [1.5e308, 1.5e308], [5e-324, 1.0]])
def test_weights_at_the_ends_of_double_precision(weights):
    """Linear weights are kept as they were given, whatever their range."""
    f = fb.Table(weights, ("a",))
    for cell in (0, 1):
        only = np.eye(2)[cell]
        assert_logs((f * fb.Table(only, ("a",))).sum("a"), np.log(weights[cell]))
        assert_logs(f(a=cell), np.log(weights[cell]))
    assert_logs(f.sum("a"), np.logaddexp(*np.log(weights)))


@pytest.mark.parametrize("weights", [[1e38, 2e-38], [3e38, 3e38], [2e-38, 1e-37]])
def test_weights_at_the_ends_of_single_precision(weights):
    f = fb.Table(jnp.array(weights), ("a",))
    for cell in (0, 1):
        assert_logs((f * fb.Table(jnp.eye(2)[cell], ("a",))).sum("a"), np.log(weights[cell]))
    assert_logs(f.sum("a"), np.logaddexp(*np.log(weights)))
    assert_logs((f * f).sum("a"), np.logaddexp(*(2 * np.log(weights))))
    assert_logs(f.product("a"), np.log(weights).sum())


# -- derivatives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "under", [lambda function: function, jax.jit, lambda function: lambda x: jax.vmap(function)(x[None])[0]]
)
def test_gradients_of_a_disagreement(under):
    """∂ log Σ x·y / ∂ log x is the posterior, where the naive gradient is NaN."""

    def evidence(x):
        return (fb.Table.from_log(x, ("a",)) * table(jnp.asarray, [-200.0, 0.0], "a")).sum("a").log().data

    np.testing.assert_allclose(under(jax.grad(evidence))(jnp.array([0.0, -200.0])), [0.5, 0.5], rtol=1e-4)


@settings(max_examples=15)
@given(pi=arrays(3, elements=EXPONENTS), step=arrays(2, 3, 3, elements=EXPONENTS))
def test_gradients_of_a_chain(pi, step):
    """∂ log Z / ∂ log-weights are the posterior marginals, in single precision, 200 nats apart."""
    pi, step = 200 * pi, 200 * step
    whole = pi[:, None, None] + step[0][:, :, None] + step[1][None]
    posterior = np.exp(whole - log_sum(whole, 0, 1, 2))
    by_pi, by_step = chain_gradient(jnp.asarray(pi), jnp.asarray(step))
    np.testing.assert_allclose(by_pi, posterior.sum((1, 2)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(by_step, [posterior.sum(2), posterior.sum(0)], rtol=1e-3, atol=1e-4)


@jax.jit
def chain_gradient(pi, step):
    def evidence(pi, step):
        names = (("a",), ("a", "b"), ("b", "c"))
        factors = [fb.Table.from_log(x, n) for x, n in zip((pi, *step), names, strict=True)]
        return fb.eliminate(factors, sum=("a", "b", "c")).log().data

    return jax.grad(evidence, (0, 1))(pi, step)


LOGS = 200.0 * np.array([[0.0, -1.0, -0.5], [-1.0, 0.25, 0.75], [0.5, 0.0, -0.25]])  # (i, a)
OTHER = 200.0 * np.array([-0.5, 1.0, 0.0])  # (a)


def log_array(factor: fb.Factor, *names: str) -> jax.Array:
    """Log-weights that can be differentiated."""
    value = factor.log()
    for name in reversed(names):
        value = fb.stack(value, name)
    return value.data


LOG_CASES = {
    "product": (lambda f, g: log_array(f * g, "i", "a"), lambda w: w + OTHER),
    "quotient": (lambda f, g: log_array(f / g, "i", "a"), lambda w: w - OTHER),
    "addition": (lambda f, g: log_array(f + g, "i", "a"), lambda w: log_sum(np.stack([w, OTHER + 0 * w]), 0)),
    "power": (lambda f, g: log_array(f**2.5, "i", "a"), lambda w: 2.5 * w),
    "contraction": (lambda f, g: log_array((f * g).sum("a"), "i"), lambda w: log_sum(w + OTHER, 1)),
    "normalize": (
        lambda f, g: log_array((f * g).normalize("a"), "i", "a"),
        lambda w: w - log_sum(w + OTHER, 1)[:, None],
    ),
    "plate": (lambda f, g: log_array((f.product("i") * g).sum("a")), lambda w: log_sum(w.sum(0) + OTHER, 0)),
    "marginal": (
        lambda f, g: log_array(fb.marginals([f, g], ("i", "a"))["a"], "a"),
        lambda w: log_sum(w + OTHER, 0) - log_sum(w + OTHER, 0, 1),
    ),
    "plated marginal": (
        lambda f, g: log_array(fb.marginals([f, g], {"a": ()}, plates=("i",))["a"], "a"),
        lambda w: w.sum(0) + OTHER - log_sum(w.sum(0) + OTHER, 0),
    ),
}


@pytest.mark.parametrize(("function", "oracle"), LOG_CASES.values(), ids=LOG_CASES)
def test_derivatives_of_logarithms_200_nats_apart(function, oracle):
    """The Jacobian of log-weights by log-weights, in single precision, against complex steps in double."""
    g = fb.Table.from_log(jnp.asarray(OTHER), ("a",))
    jacobian = jax.jit(jax.jacrev(lambda w: function(fb.Table.from_log(w, ("i", "a")), g)))(jnp.asarray(LOGS))
    np.testing.assert_allclose(jacobian, derivative(oracle, LOGS), rtol=1e-4, atol=1e-5)


def test_gradient_of_the_entropy_of_a_product_with_a_zero():
    """A cell that one factor rules out takes no part, however great the other factor is there."""
    given, allowed = np.array([100.0, 0.0, 1.0]), np.array([0.0, 1.0, 1.0])

    def entropy(w):
        return (fb.Table.from_log(w, ("a",)) * fb.Table(jnp.asarray(allowed), ("a",))).entropy("a").data

    def by_hand(w):
        p = np.exp(w[1:]) / np.exp(w[1:]).sum()
        return -(p * np.log(p)).sum()

    gradient = jax.jit(jax.grad(entropy))(jnp.asarray(given))
    np.testing.assert_allclose(gradient, derivative(by_hand, given), rtol=1e-4, atol=1e-6)


PLATED = np.array([[0.0, 0.5, 2.0], [1.5, 0.0, 0.25], [0.0, 3.0, 1.0]])  # (i, a): zeros once and twice in a column
PRIOR = np.array([0.25, 0.0, 2.0])


def tables(w: jax.Array) -> tuple[fb.Table, fb.Table]:
    return fb.Table(w, ("i", "a")), fb.Table(jnp.asarray(PRIOR), ("a",))


def plated(w):
    f, g = tables(w)
    return linear(fb.eliminate([f, g], sum={"a": ()}, plates=("i",)))


# (i, b, a): in the cell i = 0 the value a = 0 allows no b, as long as w(0, 0) is zero.
LINK = np.array(
    [[[1.0, 0.5], [0.0, 1.0], [0.0, 3.0]], [[2.0, 1.0], [0.5, 0.25], [1.0, 1.0]], [[0.0, 0.5], [1.0, 1.0], [2.0, 0.0]]]
)


def marginal_in_plate(name: str) -> Callable:
    """The marginal of b in the plate i, or of the a shared by its cells: Π_i Σ_b w(i, b) g(i, b, a)."""

    def marginal(w):
        factors = fb.Table(w, ("i", "b")), fb.Table(jnp.asarray(LINK), ("i", "b", "a"))
        return linear(fb.marginals(factors, {"a": (), "b": ("i",)}, plates=("i",))[name])

    return marginal


def marginal_by_hand(name: str) -> Callable:
    def marginal(w):
        cells = (w[:, :, None] * LINK).sum(1)
        if name == "a":
            return cells.prod(0) / cells.prod(0).sum()
        others = np.stack([np.delete(cells, i, 0).prod(0) for i in range(3)])
        weights = (w[:, :, None] * LINK * others[:, None]).sum(2)
        return weights / weights.sum(1, keepdims=True)

    return marginal


CASES = {
    "sum": (lambda w: linear(tables(w)[0].sum("a")), lambda w: w.sum(1)),
    "product": (lambda w: linear((tables(w)[0] * tables(w)[1]).sum("a")), lambda w: (w * PRIOR).sum(1)),
    "square by product": (lambda w: linear((tables(w)[0] * tables(w)[0]).sum("a")), lambda w: (w * w).sum(1)),
    "square by power": (lambda w: linear(tables(w)[0] ** 2.0), lambda w: w**2),
    "constant in a plate": (
        lambda w: linear((tables(w)[0] * fb.Table(jnp.ones(3), ("k",))).product("k").sum("a", "i")),
        lambda w: (w**3).sum(),
    ),
    "addition": (lambda w: linear(tables(w)[0] + tables(w)[1]), lambda w: w + PRIOR),
    "plate": (lambda w: linear(tables(w)[0].product("i")), lambda w: w.prod(0)),
    "plate by plan": (plated, lambda w: (PRIOR * w.prod(0)).sum()),
    "quotient": (lambda w: linear(tables(w)[0] / (tables(w)[1] + 1.0)), lambda w: w / (PRIOR + 1.0)),
    "divisor": (
        lambda w: linear(tables(w)[1] / (tables(w)[0] + 1.0)),
        lambda w: PRIOR[:, None] / (w.T + 1.0),
    ),
    "normalize": (lambda w: linear(tables(w)[0].normalize()), lambda w: w / w.sum()),
    "conditional": (lambda w: linear(tables(w)[0] / tables(w)[0].sum("a")), lambda w: w / w.sum(1, keepdims=True)),
    "marginal": (
        lambda w: linear(fb.marginals(list(tables(w)), ("i", "a"))["a"]),
        lambda w: (w * PRIOR).sum(0) / (w * PRIOR).sum(),
    ),
    "marginal outside a plate": (marginal_in_plate("a"), marginal_by_hand("a")),
    "marginal inside a plate": (marginal_in_plate("b"), marginal_by_hand("b")),
}


@pytest.mark.parametrize(("function", "oracle"), CASES.values(), ids=CASES)
def test_derivatives_at_zero_weights(function, oracle):
    """The whole Jacobian, at weights of which several are exactly zero, against complex steps."""
    np.testing.assert_allclose(in_double_precision(function, PLATED), derivative(oracle, PLATED), rtol=1e-9, atol=1e-12)
