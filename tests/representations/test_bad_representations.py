"""Errors of fb.represent say what was asked, what was expected and what to do."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
Y = fb.Array(np.array([0.4, -0.9]), ("t",))


def chain(factor: fb.Factor) -> fb.Chain:
    return fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=factor, time="t", step={"x": "x_next"})


LINEAR = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(Y)


def test_no_representation() -> None:
    with pytest.raises(fb.FubiniError, match="a representation: ") as error:
        fb.represent(x=fb.rep.Truncated)
    assert "call it" in str(error.value)


def test_two_representations_of_one_variable() -> None:
    with (
        fb.represent(x=fb.rep.Truncated()),
        pytest.raises(fb.FubiniError, match="one representation for a variable"),
    ):
        fb.represent(x=fb.rep.Mixture(2))
    with (
        fb.represent(x=fb.rep.Truncated(), x_next=fb.rep.Mixture(2)),
        pytest.raises(fb.FubiniError, match="one state, before and after a step"),
    ):
        chain(LINEAR).log_evidence()


def test_unknown_name() -> None:
    with (
        fb.represent(z=fb.rep.Truncated()),
        pytest.raises(fb.FubiniError, match="variables of it"),
    ):
        chain(LINEAR).log_evidence()


def test_an_opaque_link_under_truncated_is_named() -> None:
    factor = LINEAR * fb.weight(log=fb.ops.sin(x_next))
    with (
        fb.represent(x=fb.rep.Truncated()),
        pytest.raises(fb.FubiniError, match="sin") as error,
    ):
        chain(factor).log_evidence()
    assert "fb.ops.where" in str(error.value)


@pytest.mark.parametrize("traced", [False, True])
def test_mass_at_the_edge_of_a_grid(traced: bool) -> None:
    def ask(y: object) -> object:
        step = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(y, ("t",)))
        with fb.represent(x=fb.rep.Grid((-1, 1), 50)):
            return chain(step).log_evidence().data

    if traced:
        with pytest.raises(fb.FubiniError, match="make the grid wider"):
            fb.checked(ask)(jnp.array([0.4, -0.9]))
        assert np.isnan(jax.jit(ask)(jnp.array([0.4, -0.9])))
    else:
        with pytest.raises(fb.FubiniError, match="make the grid wider"):
            ask(np.array([0.4, -0.9]))


def test_a_grid_too_large() -> None:
    big = fb.Variable("f", fb.Reals[4])
    big_next = fb.Variable("f_next", fb.Reals[4])
    step = dist.MultivariateNormal(big, np.eye(4) + 0.5)("f_next") * dist.MultivariateNormal(big_next, np.eye(4))(
        np.zeros(4)
    )
    start = dist.MultivariateNormal(np.zeros(4), np.eye(4) + 0.5)("f")
    made = fb.Chain(init=start, factor=step, time="t", step={"f": "f_next"}, length=3)
    with (
        fb.represent(f=fb.rep.Grid((-8, 8), 200)),
        pytest.raises(fb.FubiniError, match="bytes"),
    ):
        made.log_evidence()


@pytest.mark.parametrize("bad", [((1, -1), 10), ((0, np.inf), 10), ((0, 1), 1), ((0, 1), 2.5)])
def test_bad_grids(bad: tuple) -> None:
    with pytest.raises(fb.FubiniError, match="Grid"):
        fb.rep.Grid(*bad)


def test_bad_counts() -> None:
    with pytest.raises(fb.FubiniError, match="at least 1"):
        fb.rep.Mixture(0)
    with pytest.raises(fb.FubiniError, match="at least 1"):
        fb.rep.Particles(0, jax.random.key(0))


def test_all_particles_dead() -> None:
    factor = LINEAR * fb.weight(log=fb.ops.where(x_next > 1000.0, 0.0, -np.inf))
    with (
        fb.represent(x=fb.rep.Particles(20, jax.random.key(0))),
        pytest.raises(fb.FubiniError, match="no particle"),
    ):
        chain(factor).filter()


@pytest.mark.parametrize(
    "made", [fb.rep.Truncated(), fb.rep.Mixture(2), fb.rep.Particles(20, jax.random.key(0))], ids=repr
)
def test_argmax_has_a_documented_error(made: fb.rep.Dense) -> None:
    cut = LINEAR * fb.weight(log=fb.ops.where(x_next > 0.3, -0.2, -1.5))
    with fb.represent(x=made), pytest.raises(fb.FubiniError, match="argmax"):
        chain(cut).argmax()
