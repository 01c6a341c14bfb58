"""Groups that are traced under `jit` answer as those that are known; a label out of range is not a number."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini import dist

from .meshes import both_kinds, mesh_of
from .plate_models import cases

CASE = cases(60)["groups"]
GROUP, Y = jnp.asarray(CASE.arguments[0]), jnp.asarray(CASE.observed)


def evidence(group: Any, y: Any) -> Any:
    return CASE.model(group).condition(y=y).log_evidence().data


def means(group: Any, y: Any) -> Any:
    post = CASE.model(group).condition(y=y)
    return [post.marginal(name).mean(name).data for name in ("m", "a")]


def of_factors(group: Any, y: Any) -> Any:
    a = fb.Variable("a", fb.Reals[12])
    rows = dist.Normal(a[fb.Array(group, ("i",), fb.Bint[12])], 0.5)(fb.Array(y, ("i",))).product("i")
    return fb.eliminate([dist.Normal(0.0, 1.0).expand([12])("a"), rows], sum=("a",)).log().data


def of_tables(group: Any, y: Any) -> Any:
    by_group = fb.Table(jnp.arange(24.0).reshape(12, 2) + 1, ("g", "z"))(g=fb.Array(group, ("i",), fb.Bint[12]))
    seen = fb.Table(jnp.exp(y)[:, None] * jnp.array([1.0, 2.0]), ("i", "z"))
    return fb.eliminate([by_group, seen], sum=("z",)).product("i").log().data


@pytest.mark.parametrize("ask", [evidence, means, of_factors, of_tables])
def test_questions_are_those_of_known_groups(ask: Any) -> None:
    for one, other in zip(jax.tree.leaves(jax.jit(ask)(GROUP, Y)), jax.tree.leaves(ask(GROUP, Y)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [59, 56], ids=["padded", "even"])
@both_kinds
@pytest.mark.parametrize("ask", [evidence, of_factors])
def test_groups_over_a_mesh(ask: Any, kind: AxisType, count: int) -> None:
    """Known and traced, with slopes."""
    mesh = mesh_of(kind, rows=8)
    group, y = (fb.shard(np.asarray(rows[:count]), mesh, "rows") for rows in (GROUP, Y))
    expected = ask(GROUP[:count], Y[:count])
    answers = [ask(group, y), jax.jit(ask)(group, y)]
    np.testing.assert_allclose(answers, [expected] * 2, rtol=1e-6)


def test_slopes_are_those_of_known_groups() -> None:
    known = jax.grad(lambda y: evidence(GROUP, y))(Y)
    np.testing.assert_allclose(jax.jit(jax.grad(evidence, argnums=1))(GROUP, Y), known, rtol=1e-4, atol=1e-4)


def test_groups_from_the_end_and_two_sets_of_groups() -> None:
    @fb.model
    def crossed(first: Any, second: Any) -> Any:
        a = yield dist.Normal(0.0, 1.0).expand([12]).named("a")
        b = yield dist.Normal(0.0, 2.0).expand([3]).named("b")
        yield dist.Normal(a[first] + b[second], 0.5).named("y")

    def ask(first: Any, second: Any) -> Any:
        return crossed(first, second).condition(y=Y).log_evidence().data

    second = GROUP % 3 - 3  # counted from the end
    np.testing.assert_allclose(jax.jit(ask)(GROUP, second), ask(GROUP, second), rtol=1e-5)


@pytest.mark.parametrize("label", [12, -13])
def test_a_label_out_of_range(label: int) -> None:
    wrong = GROUP.at[3].set(label)
    assert np.isnan(jax.jit(evidence)(wrong, Y))
    assert np.isnan(jax.jit(of_factors)(wrong, Y))
    with pytest.raises(fb.errors.DataError, match="labels from 0 to 11"):
        evidence(wrong, Y)
