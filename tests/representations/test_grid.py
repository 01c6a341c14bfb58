"""Grids: states with lags, and the errors of grids that are too narrow or too coarse, in every question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import fubini as fb
from fubini import dist

x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
Y = np.array([0.4, -0.9])
QUESTIONS: dict[str, Callable[[fb.Chain], Any]] = {
    "log_evidence": lambda chain: chain.log_evidence().data,
    "filter": lambda chain: chain.filter().mean("x_next").data,
    "final": lambda chain: chain.final().mean("x").data,
    "smooth": lambda chain: chain.smooth().mean("x_next").data,
    "argmax": lambda chain: chain.argmax(),
    "sample": lambda chain: chain.sample(jax.random.key(0), 2),
}


def walk(y: Any, noise: Any = 0.5, start: float = 0.0, spread: float = 1.0) -> fb.Chain:
    step = dist.Normal(0.9 * x, noise)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(y, ("t",)))
    return fb.Chain(init=dist.Normal(start, spread)("x"), factor=step, time="t", step={"x": "x_next"})


@pytest.mark.parametrize("question", QUESTIONS)
def test_mass_at_the_edge_in_every_question(question: str) -> None:
    with (
        fb.represent(x=fb.rep.Grid((-1, 1), 20)),
        pytest.raises(fb.FubiniError, match=r"at most 1e-06 of the mass.*\n.*\n.*make the grid wider"),
    ):
        QUESTIONS[question](walk(Y))


def test_mass_at_the_edge_in_a_trace() -> None:
    def ask(y: Any) -> list[Any]:
        with fb.represent(x=fb.rep.Grid((-1, 1), 20)):
            return [QUESTIONS[question](walk(y)) for question in ("final", "sample")]

    for answer in jax.tree.leaves(jax.jit(ask)(jnp.asarray(Y))):
        assert np.isnan(answer).all()


def test_mass_at_the_edge_before_the_first_step() -> None:
    """All later states are well within."""
    with (
        fb.represent(x=fb.rep.Grid((-4, 4), 80)),
        pytest.raises(fb.FubiniError, match="make the grid wider"),
    ):
        quick = dist.Normal(0.1 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(Y, ("t",)))
        fb.Chain(init=dist.Normal(3.5, 0.5)("x"), factor=quick, time="t", step={"x": "x_next"}).log_evidence()


def test_a_vague_start_needs_no_wide_grid() -> None:
    """What the first step says keeps the state before it within."""
    chain = walk(Y, spread=20.0)
    exact = chain.log_evidence()
    with fb.represent(x=fb.rep.Grid((-6, 6), 60)):
        assert float(chain.log_evidence()) == pytest.approx(float(exact), abs=1e-5)


def test_cells_wider_than_a_state_is_spread() -> None:
    """K_ii = 1/0.5² + 0.9²/0.5² + 1/0.7² is a deviation of 0.328: 0.6 · 16 / 0.328 cells are needed."""
    chain = walk(Y)
    with (
        fb.represent(x=fb.rep.Grid((-8, 8), 20)),
        pytest.raises(fb.FubiniError, match=r"width 0\.8\n.*0\.48.*\n.*0\.328\n.*30 cells or more: fb\.rep\.Grid"),
    ):
        chain.log_evidence()
    exact = float(chain.log_evidence())
    with fb.represent(x=fb.rep.Grid((-8, 8), 30)):
        assert float(chain.log_evidence()) == pytest.approx(exact, abs=2e-3)


def test_cells_wider_than_a_state_is_spread_in_a_trace() -> None:
    def ask(noise: Any) -> Any:
        with fb.represent(x=fb.rep.Grid((-8, 8), 60)):
            return walk(Y, noise).log_evidence().data

    few = jax.jit(ask)
    assert np.isnan(few(0.05))
    assert np.isfinite(few(0.5))
    with pytest.raises(fb.FubiniError, match="use more cells"):
        fb.checked(few)(0.05)


def test_states_with_lags() -> None:
    c, c1, c3 = (fb.Variable(name, fb.Real) for name in ("c", "c1", "c3"))
    step = dist.Normal(0.5 * c1 + 0.3 * c, 0.6)("c3") * dist.Normal(c3, 0.7)(fb.Array(Y, ("t",)))
    init = dist.Normal(0.0, 1.0)("c") * dist.Normal(0.5 * c, 0.8)("c1")
    chain = fb.Chain(init=init, factor=step, time="t", step={("c", "c1"): ("c2", "c3")})
    exact = float(chain.log_evidence())
    with fb.represent(c=fb.rep.Grid((-6, 6), 40), c1=fb.rep.Grid((-6, 6), 40)):
        assert float(chain.log_evidence()) == pytest.approx(exact, abs=1e-4)


def chain_of(move: fb.Factor, likelihood: Any = None) -> fb.Chain:
    y = fb.Array(Y, ("t",))
    step = move * (dist.Normal(x_next, 0.7)(y) if likelihood is None else likelihood(y))
    return fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})


def by_quadrature(move: Callable[..., Any], n: int = 3203) -> float:
    """log ∫ of two steps with the midpoint rule."""
    points = np.linspace(-8, 8, n + 1)[1:] - 8 / n
    step, weight = move(points[:, None], points[None, :]) * 16 / n, normal(points, 0.0, 1.0)
    for seen in Y:
        weight = (weight @ step) * normal(points, seen, 0.7)
    return float(np.log(weight.sum() * 16 / n))


def normal(z: Any, loc: Any, scale: float) -> Any:
    return np.exp(-0.5 * ((z - loc) / scale) ** 2) / (scale * np.sqrt(2 * np.pi))


DENSITIES: dict[str, tuple[Any, Any, int, int]] = {
    "curved": (
        lambda: dist.Normal(2.0 * fb.ops.sin(x), 0.05)("x_next"),
        lambda a, b: normal(b, 2.0 * np.sin(a), 0.05),
        100, 300,
    ),
    "kink": (
        lambda: dist.Laplace(0.9 * x, 0.2)("x_next"), lambda a, b: np.exp(-abs(b - 0.9 * a) / 0.2) / 0.4, 60, 400
    ),
    "jumps": (
        lambda: dist.Uniform(x - 0.5, x + 0.5)("x_next"), lambda a, b: 1.0 * (abs(b - a) <= 0.5), 200, 1000
    ),
    "tails": (
        lambda: dist.Cauchy(0.5 * x, 0.3)("x_next"), lambda a, b: 0.3 / (np.pi * (0.09 + (b - 0.5 * a) ** 2)), 20, 160
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSITIES)
def test_cells_that_miscount_a_density(name: str) -> None:
    """A density of the next state sums to 1 over the cells, whatever the state before, or they are too wide for it."""
    made, move, few, many = DENSITIES[name]
    chain = chain_of(made())
    with (
        fb.represent(x=fb.rep.Grid((-8, 8), few)),
        pytest.raises(fb.FubiniError, match=r"cells of width(.|\n)*use more cells"),
    ):
        chain.log_evidence()
    with fb.represent(x=fb.rep.Grid((-8, 8), many)):
        assert float(chain.log_evidence()) == pytest.approx(by_quadrature(move), abs=2e-2)  # 1 % each step


def test_a_state_in_one_cell() -> None:
    """The factor that leaves it there is no density of the state: its sums say nothing."""
    chain = chain_of(dist.Normal(0.9 * x, 0.5)("x_next"), lambda y: dist.Laplace(x_next, 0.02)(y))
    with (
        fb.represent(x=fb.rep.Grid((-8, 8), 160)),
        pytest.raises(fb.FubiniError, match=r"in one cell or two\n.*use more cells"),
    ):
        chain.log_evidence()


def test_cells_that_miscount_a_density_in_a_trace() -> None:
    def ask(scale: Any) -> Any:
        with fb.represent(x=fb.rep.Grid((-8, 8), 100)):
            return chain_of(dist.Normal(2.0 * fb.ops.sin(x), scale)("x_next")).log_evidence().data

    few = jax.jit(ask)
    assert np.isnan(few(0.05))
    assert np.isfinite(few(0.5))


def test_a_grid_that_ends_where_the_state_does() -> None:
    u, u_next = fb.Variable("u", fb.Unit), fb.Variable("u_next", fb.Unit)
    step = dist.Beta(1.0 + 3.0 * u, 4.0 - 3.0 * u)("u_next") * dist.Bernoulli(u_next)(fb.Array([1, 0], ("t",)))
    chain = fb.Chain(init=dist.Beta(1.0, 1.0)("u"), factor=step, time="t", step={"u": "u_next"})
    points = (np.arange(900) + 0.5) / 900
    kernel = scipy.stats.beta.pdf(points[None], 1 + 3 * points[:, None], 4 - 3 * points[:, None]) / 900
    weight = (((np.ones(900) @ kernel) * points) @ kernel) * (1 - points)
    with fb.represent(u=fb.rep.Grid((0, 1), 200)):
        assert float(chain.log_evidence()) == pytest.approx(np.log(weight.mean()), abs=1e-3)
    with fb.represent(u=fb.rep.Grid((0, 0.8), 200)), pytest.raises(fb.FubiniError, match="make the grid wider"):
        chain.log_evidence()


def test_moments_and_draws_are_those_of_the_middles() -> None:
    """Cells of uniform density would have h²/12 more of variance: 0.0133 for cells of width 0.4."""
    chain = walk(Y)
    exact = chain.smooth()
    with fb.represent(x=fb.rep.Grid((-8, 8), 40)):
        smooth, filtered = chain.smooth(), chain.filter()
        draws = chain.sample(jax.random.key(0), 20_000)["x_next"]
    np.testing.assert_allclose(smooth.mean("x_next").data, exact.mean("x_next").data, atol=1e-5)
    np.testing.assert_allclose(smooth.variance("x_next").data, exact.variance("x_next").data, atol=1e-4)
    np.testing.assert_allclose(filtered.variance("x_next").data, chain.filter().variance("x_next").data, atol=1e-4)
    np.testing.assert_allclose(draws.var(axis=0), exact.variance("x_next").data, atol=0.006)
    own = smooth(t=1).sample(jax.random.key(1), "x_next", n=20_000)["x_next"]
    np.testing.assert_allclose(own.var(), exact.variance("x_next").data[1], atol=0.006)
    mean = fb.expectation(smooth(t=1), fb.ops.exp(x_next), "x_next")
    m, v = exact.mean("x_next").data[1], exact.variance("x_next").data[1]
    assert float(mean) == pytest.approx(np.exp(m + v / 2), abs=1e-3)
