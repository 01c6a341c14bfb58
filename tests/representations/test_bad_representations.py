"""Errors of fb.represent say what was asked, what was expected and what to do: outside of a trace and within.

What structure decides raises in both; what numbers decide is NaN in a trace, where `fb.checked` raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.base.interpretations import interpret
from fubini.terms.heads import MULTIPLY

x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
Y = np.array([0.4, -0.9])
both = pytest.mark.parametrize("traced", [False, True], ids=["known", "traced"])
Ask = Callable[[Any], Any]


def chain(y: Any, *others: fb.Factor) -> fb.Chain:
    """A walk that is seen with noise, times other factors of a step."""
    step = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(y, ("t",)))
    for other in others:
        step = step * other
    return fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})


def refused(ask: Ask, traced: bool, *words: str, data: Any = Y) -> None:
    """Raise with each of these words, whether the numbers are known or traced."""
    with pytest.raises(fb.FubiniError) as error:
        jax.jit(ask)(jnp.asarray(data)) if traced else ask(np.asarray(data))
    for word in words:
        assert word in str(error.value)


def refused_by_numbers(ask: Ask, *words: str, data: Any = Y, checked: tuple[str, ...] = ()) -> None:
    """Raise with each of these words where numbers are known; in a trace NaN, and an error under `fb.checked`."""
    refused(ask, False, *words, data=data)
    compiled = jax.jit(ask)
    assert np.isnan(compiled(jnp.asarray(data))).all()
    with pytest.raises(fb.FubiniError) as error:
        fb.checked(compiled)(jnp.asarray(data))
    assert any(word in str(error.value) for word in checked or words)


def log_evidence(representations: dict[str, Any], *others: fb.Factor) -> Ask:
    def ask(y: Any) -> Any:
        with fb.represent(**representations):
            return chain(y, *others).log_evidence().data

    return ask


# -- names ----------------------------------------------------------------------------------------------------------


def test_no_representation() -> None:
    with pytest.raises(fb.FubiniError, match="a representation: ") as error:
        fb.represent(x=fb.rep.Truncated)  # type: ignore[arg-type]
    assert "call it" in str(error.value)


@both
def test_two_representations_of_one_variable(traced: bool) -> None:
    def nested(y: Any) -> Any:
        with fb.represent(x=fb.rep.Truncated()):
            return log_evidence({"x": fb.rep.Mixture(2)})(y)

    words = "represent(x=Mixture(2)) inside", "one representation for a variable", "leave the outer `with` first"
    refused(nested, traced, *words)
    twice = log_evidence({"x": fb.rep.Truncated(), "x_next": fb.rep.Mixture(2)})
    refused(twice, traced, "one state, before and after a step", "x alone covers x_next")


@both
def test_unknown_name(traced: bool) -> None:
    refused(log_evidence({"xx": fb.rep.Truncated()}), traced, "represent(xx=Truncated())", "variables of it", "'x'")


# -- links that are not read ----------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("made", [fb.rep.Truncated(), fb.rep.Mixture(2)], ids=repr)
def test_an_opaque_link_is_named(made: Any, traced: bool) -> None:
    words = str(made), "exp(sin(", "crosses a number", "fb.ops.where", "fb.Piecewise", "fb.rep.Particles or fb.rep.Grid"
    refused(log_evidence({"x": made}, fb.weight(log=fb.ops.sin(x_next))), traced, *words)


@both
def test_a_cut_that_is_not_along_an_axis_is_named(traced: bool) -> None:
    oblique = fb.weight(log=fb.ops.where(x_next + x > 0.0, 0.0, -1.0))
    refused(log_evidence({"x": fb.rep.Truncated()}, oblique), traced, "where(", "comparisons with numbers")


# -- grids ----------------------------------------------------------------------------------------------------------


def test_mass_at_the_edge_of_a_grid() -> None:
    words = "a grid of 'x' from -1 to 1", "at most 1e-06 of the mass", "make the grid wider"
    refused_by_numbers(log_evidence({"x": fb.rep.Grid((-1, 1), 50)}), *words)


@both
def test_a_grid_too_large(traced: bool) -> None:
    f, f_next = fb.Variable("f", fb.Reals[4]), fb.Variable("f_next", fb.Reals[4])
    start = dist.MultivariateNormal(np.zeros(4), np.eye(4) + 0.5)("f")

    def ask(y: Any) -> Any:
        step = dist.MultivariateNormal(f, np.eye(4) + 0.5)("f_next") * dist.MultivariateNormal(f_next, np.eye(4))(y)
        made = fb.Chain(init=start, factor=step, time="t", step={"f": "f_next"}, length=3)
        with fb.represent(f=fb.rep.Grid((-8, 8), 200)):
            return made.log_evidence().data

    refused(ask, traced, "12,800,000,000 bytes", "at most 4,294,967,296 bytes", "use fewer cells", data=np.zeros(4))


ENDS = ((1, -1), (0, np.inf), 5, None, (0, 1, 2), "ab", [(0, 1), (2, 1)], ((0, 1), 2))
COUNTS = (1, 2.5, np.nan, np.inf, None, "ten", [[3]], (10, 1))


@pytest.mark.parametrize("bad", [*((ends, 10) for ends in ENDS), *(((0, 1), n) for n in COUNTS)], ids=str)
def test_bad_grids(bad: tuple) -> None:
    with pytest.raises(fb.FubiniError, match=r"Grid(.|\n)*(low < high|at least 2)"):
        fb.rep.Grid(*bad)


def test_a_grid_of_traced_ends() -> None:
    with pytest.raises(fb.FubiniError, match=r"Grid(.|\n)*known when a function is traced"):
        jax.jit(lambda high: fb.rep.Grid((0.0, high), 10).n)(1.0)


def test_grids_are_equal_where_their_numbers_are() -> None:
    """Also those that print alike."""
    low, high = (fb.rep.Grid(np.array([-6.0, end]), 60) for end in (6.00000000001, 6.00000000002))
    assert low != high
    assert repr(low) == "Grid((-6.0, 6.00000000001), 60)"
    assert fb.rep.Grid((-6, 6), 60) == fb.rep.Grid([-6.0, 6.0], np.int64(60)) != fb.rep.Grid([(-6, 6)], 60)


@pytest.mark.parametrize("vtree", [["a", "b"], ("a", 3), ("a", ["b", "c"]), ("a", "b", "c")], ids=str)
def test_bad_vtrees(vtree: Any) -> None:
    with pytest.raises(fb.FubiniError, match="nested pairs of names"):
        fb.rep.Circuit(vtree)


@pytest.mark.parametrize("sides", [1.0, (np.array([0.0, 1.0]), np.inf), (0.0, 1.0, 2.0), "ab", (0.0, None)], ids=str)
def test_bad_boxes(sides: Any) -> None:
    with pytest.raises(fb.FubiniError, match=r"a box of 'x'(.|\n)*two numbers(.|\n)*fb\.ops\.where\(x > ends"):
        fb.Piecewise([({"x": sides}, dist.Normal(0.0, 1.0)("x"))])


def test_boxes_with_traced_ends() -> None:
    def ask(low: Any) -> Any:
        return fb.Piecewise([({"x": (low, np.inf)}, dist.Normal(0.0, 1.0)("x"))]).sum("x").log().data

    assert ask(jnp.asarray(0.0)) == pytest.approx(np.log(0.5))
    with pytest.raises(fb.FubiniError, match=r"ends are traced(.|\n)*fb\.ops\.where\(x > end"):
        jax.jit(ask)(0.0)


def test_bad_counts() -> None:
    with pytest.raises(fb.FubiniError, match="at least 1"):
        fb.rep.Mixture(0)
    with pytest.raises(fb.FubiniError, match="at least 1"):
        fb.rep.Particles(0, jax.random.key(0))


@pytest.mark.parametrize("rep", [fb.rep.Mixture(2), fb.rep.Particles(9, jax.random.key(0))], ids=repr)
def test_a_start_without_the_state(rep: Any) -> None:
    step = chain(Y).factor
    flat = fb.Chain(init=fb.Table(1.0), factor=step, time="t", step={"x": "x_next"})
    with (
        fb.represent(x=rep),
        pytest.raises(fb.FubiniError, match=r"a start that is a density of 'x'(.|\n)*nothing of 'x'"),
    ):
        flat.log_evidence()


# -- particles, division, constraints -------------------------------------------------------------------------------


def test_all_particles_dead() -> None:
    dead = fb.weight(log=fb.ops.where(x_next > 1000.0, 0.0, -np.inf))
    ask = log_evidence({"x": fb.rep.Particles(20, jax.random.key(0))}, dead)
    refused_by_numbers(ask, "no particle", "more particles", checked=("no particle", "zero everywhere"))


def half(low: float, scale: Any) -> fb.Piecewise:
    return fb.Piecewise([({"x": (low, np.inf)}, dist.Normal(0.0, scale)("x"))])


@pytest.mark.parametrize("box", [None, -1.0], ids=["the whole line", "a wider box"])
def test_division_outside_of_a_box(box: float | None) -> None:
    def ask(scale: Any) -> Any:
        dividend = dist.Normal(0.0, scale)("x") if box is None else half(box, scale)
        return (dividend / half(0.0, 2.0)).sum("x").log().data

    refused_by_numbers(ask, "a positive number over zero", "positive wherever the dividend is", data=1.0)


def test_division_within_a_box() -> None:
    """By a wider one: N(0, 1) / N(0, 2²) above 1."""

    def ask(scale: Any) -> Any:
        return (half(1.0, scale) / half(0.0, 2.0)).sum("x").log().data

    points, weights = np.polynomial.legendre.leggauss(200)
    z = 1.0 + 7.5 * (points + 1.0)
    expected = np.log((2.0 * np.exp(-0.5 * z**2 + 0.5 * (z / 2.0) ** 2) * weights).sum() * 7.5)
    assert ask(1.0) == pytest.approx(expected, rel=1e-9)
    assert jax.jit(ask)(1.0) == pytest.approx(expected, rel=1e-4)


NAMES = [f"x{k}" for k in range(30)]


@both
def test_incompatible_vtrees(traced: bool) -> None:
    one, other = (fb.circuits.parity(names, is_odd=True) for names in (NAMES, NAMES[::-1]))

    def ask(weights: Any) -> Any:
        return interpret(MULTIPLY, interpret(MULTIPLY, one, fb.Table(weights, ("x0",))), other).sum("x0").log().data

    refused(ask, traced, "vtrees differ", data=[0.4, 0.6])


@both
def test_contradictory_constraints(traced: bool) -> None:
    def ask(weights: Any) -> Any:
        made = fb.circuits.from_clauses([{"a": True}, {"a": False}])
        return (made * fb.Table(weights, ("a",))).sum("a").log().data

    refused(ask, traced, "contradict each other", data=[0.4, 0.6])


def test_constraints_that_contradict_what_is_seen() -> None:
    """Weights of zero leave no assignment."""

    def ask(weights: Any) -> Any:
        made = fb.circuits.from_clauses([{"a": True}, {"b": True}]) * fb.Table(weights, ("a",))
        return made.normalize("a", "b")(a=1, b=1).log().data

    refused_by_numbers(ask, "zero everywhere", data=[1.0, 0.0])


# -- what is not defined --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made", [fb.rep.Truncated(), fb.rep.Mixture(2), fb.rep.Particles(20, jax.random.key(0))], ids=repr
)
def test_argmax_has_a_documented_error(made: fb.rep.Dense) -> None:
    cut = fb.weight(log=fb.ops.where(x_next > 0.3, -0.2, -1.5))
    with fb.represent(x=made), pytest.raises(fb.FubiniError, match="argmax"):
        chain(Y, cut).argmax()
