"""The laws on JAX arrays: eagerly, and under jit, vmap, grad and scan."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import fubini as fb

from .tables import POSITIVE, Raw, arrays, assert_factor, derivative, joint, logs

AB, BC = ("a", "b"), ("b", "c")
SINGLE = 1e-4


class Law(NamedTuple):
    """An expression in f(a, b) and g(b, c) > 0, the names it leaves, and its value by enumeration."""

    expression: Callable
    names: str
    oracle: Callable


def both(f: np.ndarray, g: np.ndarray) -> np.ndarray:
    return joint([Raw(f, AB), Raw(g, BC)], "abc")


def marginal_of_c(f: np.ndarray, g: np.ndarray) -> np.ndarray:
    weights = ((f + 0.5) @ g).sum(0)
    return weights / weights.sum()


LAWS = {
    "product": Law(lambda f, g: f * g, "abc", both),
    "product of the other order": Law(lambda f, g: g * f, "abc", both),
    "sum": Law(lambda f, g: (f * g).sum("b"), "ac", lambda f, g: f @ g),
    "sums in turn": Law(lambda f, g: (f * g).sum("b").sum("a").sum("c"), "", lambda f, g: (f @ g).sum()),
    "evidence": Law(lambda f, g: fb.eliminate([f, g], sum=("b", "c", "a")), "", lambda f, g: (f @ g).sum()),
    "maximum": Law(lambda f, g: (f * g).max("b", "c"), "a", lambda f, g: both(f, g).max((1, 2))),
    "quotient": Law(lambda f, g: (f / g.sum("c")) * g, "abc", lambda f, g: both(f, g / g.sum(1)[:, None])),
    "power": Law(lambda f, g: (f * g) ** 2.0, "abc", lambda f, g: both(f, g) ** 2),
    "addition": Law(lambda f, g: f + g, "abc", lambda f, g: f[:, :, None] + g),
    "plate": Law(lambda f, g: (f * g).product("a").sum("b"), "c", lambda f, g: f.prod(0) @ g**3),
    "plate by plan": Law(lambda f, g: fb.eliminate([f, g], {"b": ()}, ("a",)), "c", lambda f, g: f.prod(0) @ g),
    "condition": Law(lambda f, g: (f * g)(b=1, c=2), "a", lambda f, g: f[:, 1] * g[1, 2]),
    "absent": Law(lambda f, g: g.sum(fb.Variable("z", fb.Bint[5]), "b"), "c", lambda f, g: 5 * g.sum(0)),
    "normalize": Law(lambda f, g: g.normalize("c"), "bc", lambda f, g: g / g.sum(1)[:, None]),
    "marginal": Law(lambda f, g: fb.marginals([f + 0.5, g], ("a", "c"))["c"], "c", marginal_of_c),
}
laws = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
weights_of_f, weights_of_g = arrays(3, 2), arrays(2, 4, elements=POSITIVE)
F = np.array([[0.5, 0.0], [1.0, 2.0], [0.0, 0.25]])
G = np.array([[1.0, 0.5, 3.0, 0.125], [2.0, 0.75, 0.25, 1.5]])


def single(weights: np.ndarray, names: tuple) -> fb.Table:
    return fb.Table(jnp.asarray(weights, jnp.float32), names)


def assert_law(law: Law, factor: fb.Factor, f: np.ndarray, g: np.ndarray) -> None:
    assert_factor(factor, law.oracle(f, g), tuple(law.names), fb.Factor, rtol=SINGLE)
    assert all(isinstance(leaf, jax.Array | float) for leaf in factor.leaves())
    assert any(isinstance(leaf, jax.Array) and leaf.dtype == jnp.float32 for leaf in factor.leaves())


@laws
@settings(max_examples=5)
@given(f=weights_of_f, g=weights_of_g)
def test_eagerly(law, f, g):
    assert_law(law, law.expression(single(f, AB), single(g, BC)), f, g)


@laws
def test_under_jit(law):
    """Factors go into a compiled function and come out of it; data of the same shapes are not traced again."""
    traced = []

    @jax.jit
    def run(f, g):
        traced.append(f.inputs)
        return law.expression(f, g)

    for scale in (1.0, 2.0):
        assert_law(law, run(single(scale * F, AB), single(G / scale, BC)), scale * F, G / scale)
    assert traced == [{"a": fb.Bint[3], "b": fb.Bint[2]}]


@laws
def test_under_vmap(law):
    """A batch of results is one factor with the axis named, equal to the results one by one."""
    fs, gs = np.stack([F, F[::-1], 0 * F]), np.stack([G, G[:, ::-1], G + 1])

    def one(f, g):
        return law.expression(fb.Table(f, AB), fb.Table(g, BC))

    container = jax.jit(jax.vmap(one))(jnp.asarray(fs, jnp.float32), jnp.asarray(gs, jnp.float32))
    named = fb.name_axis(container, "n")
    expected = np.stack([law.oracle(f, g) for f, g in zip(fs, gs, strict=True)])
    assert_factor(named, expected, ("n", *law.names), fb.Factor, rtol=SINGLE)


@laws
def test_under_grad(law):
    """Derivatives by every weight of f and g, in single precision, against complex steps; f has zeros."""

    def whole(f, g):
        factor = law.expression(fb.Table(f, AB), fb.Table(g, BC)) + 1.0
        return factor.sum(*factor.inputs).log().data

    def oracle(f, g):
        return np.log((law.oracle(f, g) + 1.0).sum())

    by_f, by_g = jax.jit(jax.grad(whole, (0, 1)))(jnp.asarray(F, jnp.float32), jnp.asarray(G, jnp.float32))
    np.testing.assert_allclose(by_f, derivative(lambda f: oracle(f, G), F), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(by_g, derivative(lambda g: oracle(F, g), G), rtol=1e-3, atol=1e-5)


STEPS = np.array([[[0.5, 2.0], [0.0, 1.0]], [[1.0, 0.25], [3.0, 0.5]], [[0.75, 0.0], [0.5, 1.5]]])  # (t, x, y)
START = np.array([0.25, 0.75])


def advanced(belief: fb.Factor, step: jax.Array) -> fb.Factor:
    """Σ_x belief(x) step(x, y), as a factor of x again."""
    return (belief * fb.Table(step, ("x", "y"))).sum("x")(y="x")


def test_a_table_as_the_carry_of_a_scan():
    """The forward recursion of a chain, 60 steps deep: below the range of single precision but for the shift."""
    steps = np.tile(STEPS, (20, 1, 1)) * 1e-3
    final, _ = jax.lax.scan(
        lambda belief, step: (advanced(belief, step), None), single(START, ("x",)), steps.astype("f")
    )
    expected = START @ np.linalg.multi_dot(list(np.tile(STEPS, (20, 1, 1))))
    assert isinstance(final, fb.Table) and final.inputs == {"x": fb.Bint[2]}
    np.testing.assert_allclose(logs(final, ("x",)), np.log(expected) + 60 * np.log(1e-3), rtol=1e-5)


def test_a_normalized_table_as_the_carry_of_a_scan():
    """The filter: each belief normalised, all of them returned along the time axis."""

    def filtered(belief, step):
        belief = advanced(belief, step).normalize()
        return belief, belief

    _, beliefs = jax.lax.scan(filtered, single(START, ("x",)), jnp.asarray(STEPS, jnp.float32))
    expected, belief = [], START
    for step in STEPS:
        belief = belief @ step / (belief @ step).sum()
        expected.append(belief)
    assert_factor(fb.name_axis(beliefs, "t"), expected, ("t", "x"), rtol=SINGLE)


def test_tables_as_constants_and_sums_of_a_scan():
    """A log-evidence accumulated over slices of a table that stays outside."""
    table = single(STEPS, ("t", "x", "y"))

    def add(total, t):
        return total + table(t=fb.Array(t)).sum("x", "y").log().data, None

    found, _ = jax.lax.scan(add, jnp.zeros(()), jnp.arange(3))
    np.testing.assert_allclose(found, np.log(STEPS.sum((1, 2))).sum(), rtol=SINGLE)


def test_gradient_through_a_scan():
    def evidence(steps):
        def advance(belief, step):
            return jnp.exp(fb.stack(advanced(fb.Table(belief, ("x",)), step).log(), "x").data), None

        return jax.lax.scan(advance, jnp.asarray(START), steps)[0].sum()

    expected = derivative(lambda steps: (START @ steps[0] @ steps[1] @ steps[2]).sum(), STEPS + 0.5)
    np.testing.assert_allclose(jax.jit(jax.grad(evidence))(jnp.asarray(STEPS + 0.5)), expected, rtol=1e-3)


def test_an_unnamed_axis_is_refused():
    """A term returned from vmap is only a container: any other use raises and says what to do."""
    container = jax.vmap(lambda w: fb.Table(w, ("a",)))(jnp.ones((3, 2)))
    for use in (
        lambda: container.sum("a"),
        lambda: container * container,
        lambda: container.log(),
        lambda: container(a=0),
    ):
        with pytest.raises(fb.FubiniError, match="name_axis"):
            fb.evaluate(use()).log()


def test_naming_an_axis_twice_is_an_error():
    container = jax.vmap(lambda w: fb.Table(w, ("a",)))(jnp.ones((3, 2)))
    with pytest.raises(fb.FubiniError, match="'a'"):
        fb.name_axis(container, "a")


@pytest.mark.parametrize("transform", [jax.jit, lambda function: jax.jit(jax.vmap(function))], ids=["jit", "vmap"])
def test_bad_data_are_nan_under_tracing(transform):
    """x/0, a negative weight and a factor without mass: NaN in place, never a plausible number."""

    def quotient(w):
        return fb.stack((fb.Table(w, ("a",)) / fb.Table(jnp.array([0.0, 2.0]), ("a",))).log(), "a").data

    def normalized(w):
        return fb.stack(fb.Table(jnp.maximum(w, 0.0) * 0.0, ("a",)).normalize().log(), "a").data

    def negative(w):
        return fb.Table(-w, ("a",)).sum("a").log().data

    given = jnp.ones(2) if transform is jax.jit else jnp.ones((1, 2))
    ratio = np.asarray(transform(quotient)(given)).reshape(2)
    assert np.isnan(ratio[0]) and ratio[1] == pytest.approx(np.log(0.5), rel=1e-6)
    assert np.isnan(transform(normalized)(given)).all()
    assert np.isnan(transform(negative)(given)).all()
    with pytest.raises(fb.FubiniError, match="over zero"):
        fb.checked(transform(quotient))(given)
