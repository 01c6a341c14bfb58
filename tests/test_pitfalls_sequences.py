"""Inputs that once gave a wrong number without a word."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

RNG = np.random.default_rng(0)
STEP = RNG.uniform(0.1, 1.0, (2, 3, 3))


def test_markov_products_end_to_end_in_any_order() -> None:
    """A takes the start in, B takes A in, whichever is listed first; each counts once."""
    first = fb.markov(fb.Table(STEP, ("t", "x", "y")), time="t", step={"x": "y"})
    second = fb.markov(fb.Table(STEP + 0.1, ("t", "y", "z")), time="t", step={"y": "z"})
    start = fb.Table([0.2, 0.3, 0.5], ("x",))
    expected = np.array([0.2, 0.3, 0.5]) @ STEP[0] @ STEP[1] @ (STEP[0] + 0.1) @ (STEP[1] + 0.1)
    for factors in ([second, first, start], [start, first, second], [first, second, start]):
        found = fb.eliminate(factors, ("x", "y"))
        np.testing.assert_allclose(np.exp(found.log().data), expected, rtol=1e-12)


def test_one_markov_product_twice() -> None:
    """Σ_x M², not (Σ_x M)²."""
    product = fb.markov(fb.Table(STEP, ("t", "x", "y")), time="t", step={"x": "y"})
    found = (product * product).sum("x")
    np.testing.assert_allclose(np.exp(found.log().data), ((STEP[0] @ STEP[1]) ** 2).sum(0), rtol=1e-12)


def test_a_ring() -> None:
    """A neighbour over the first state and the last."""
    closing = RNG.uniform(0.1, 1.0, (3, 3))
    product = fb.markov(fb.Table(STEP, ("t", "x", "y")), time="t", step={"x": "y"}, method="sequential")
    found = (fb.Table(closing, ("x", "y")) * product).sum("x", "y")
    assert float(found) == pytest.approx(float((closing * (STEP[0] @ STEP[1])).sum()), rel=1e-12)


def test_a_global_variable_set_to_a_state() -> None:
    """M(g = x) takes the first state for g, not the state of each step."""
    steps = RNG.uniform(0.1, 1.0, (2, 3, 3, 3))
    product = fb.markov(fb.Table(steps, ("t", "x", "y", "g")), time="t", step={"x": "y"})
    whole = np.einsum("abg,bcg->acg", steps[0], steps[1])
    found = product(g="x")
    expected = whole[np.arange(3)[:, None], np.arange(3)[None, :], np.arange(3)[:, None]]
    np.testing.assert_allclose(np.exp(found.log()(x=1, y=2).data), expected[1, 2], rtol=1e-12)


def test_a_mixture_without_spread_has_no_gaussian() -> None:
    """Points that agree have covariance zero."""
    points = fb.Delta(x=fb.Array(np.array([1.0, 1.0]), ("k",))) * fb.Table([0.5, 0.5], ("k",))
    with pytest.raises(fb.FubiniError, match="singular"), fb.moment_matching():
        points.sum("k")


def test_the_same_density_twice() -> None:
    """∫ p² with p drawn from once, and read once."""
    p = dist.Laplace(0.0, 1.0)("x")
    with fb.monte_carlo(jax.random.key(0), 100_000):
        assert float((p * p).sum("x")) == pytest.approx(0.25, abs=0.005)


def test_a_child_drawn_before_its_label() -> None:
    """x(k) drawn for every k, then k: x at that k."""
    k, x = fb.Variable("k", fb.Bint[2]), fb.Variable("x", fb.Real)
    child = dist.Normal(fb.Array(np.array([-1.0, 2.0]), ("k",)), 1.0)("x")
    label = fb.Table([0.3, 0.7], ("k",))
    for f in (child * label, label * child):
        with fb.monte_carlo(jax.random.key(1), 50_000, "x", "k"):
            found = fb.expectation(f, x * (k + 1.0), "x", "k")
        assert found.data.shape == ()
        assert float(found) == pytest.approx(0.3 * -1 + 0.7 * 2 * 2, abs=0.05)


def test_no_mode() -> None:
    """log σ(z) rises for ever."""
    z = fb.Variable("z", fb.Real)
    with pytest.raises(fb.FubiniError, match="mode"):
        fb.laplace(dist.Bernoulli(logits=z)(1), "z")


def test_small_weights_of_numpy_beside_jax() -> None:
    """1e-60 is no zero in single precision."""
    step = fb.Table(jnp.array([[0.9, 0.1], [0.2, 0.8]]), ("x", "y")) * fb.Table(np.full((3, 2), 1e-60), ("t", "y"))
    chain = fb.Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "y"})
    assert float(chain.log_evidence()) == pytest.approx(3 * np.log(1e-60), rel=1e-5)


def test_a_window_is_part_of_what_is_compiled() -> None:
    """jax.jit under another window compiles anew, also below Monte Carlo."""
    x, after = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    noise = fb.Array(np.array([0.2, 2.0]), ("s_next",))
    chain = fb.Chain(
        init=fb.Table([0.5, 0.5], ("s",)) * dist.Normal(0.0, 1.0)("x"),
        factor=fb.Table([[0.9, 0.1], [0.3, 0.7]], ("s", "s_next"))
        * dist.Normal(x, noise)("x_next")
        * dist.Normal(after, 0.5)(fb.Array(np.array([0.1, 2.5, 2.2]), ("t",))),
        time="t",
        step={"s": "s_next", "x": "x_next"},
    )
    found = []
    for window in (1, 4):
        with fb.moment_matching(window=window), fb.monte_carlo(jax.random.key(0), 10):
            found.append(float(chain.log_evidence()))
    assert found[0] != found[1]


@pytest.mark.slow
def test_a_mode_for_each_cell() -> None:
    """By symmetry the modes for the two answers are opposite."""
    v = fb.Variable("v", fb.Reals[2])
    prior = dist.MultivariateNormal(np.zeros(2), covariance_matrix=np.eye(2))("v")
    answers = fb.Array(np.array([0, 1]), ("i",), fb.Bint[2])
    modes = fb.laplace(prior * dist.Bernoulli(logits=v[0] * 2 + v[1])(answers), "v").mean("v").data
    np.testing.assert_allclose(modes[0], -modes[1], rtol=1e-8)
    p = 1 / (1 + np.exp(-(2 * modes[1][0] + modes[1][1])))
    np.testing.assert_allclose(modes[1], (1 - p) * np.array([2.0, 1.0]), rtol=1e-8)
