"""Programs over rows on a mesh exchange few numbers, and fetch none of the rows."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.questions.sampler_target import target_of

from .meshes import both_kinds, mesh_of, rows_of
from .plate_models import Case, cases
from .test_plates import assert_close
from .watch import collectives, watched

ROWS = 1_600
CASES = cases(ROWS)
RNG = np.random.default_rng(7)


def on_axes(kind: AxisType) -> Callable[[np.ndarray], jax.Array]:
    """Rows over eight devices, by JAX itself."""
    return lambda x: jax.device_put(jnp.asarray(x), rows_of(kind))


def test_what_goes_over_all_rows_is_seen() -> None:
    x = on_axes(AxisType.Auto)(CASES["normal"].observed)
    with watched() as seen:
        np.asarray(jax.jit(lambda x: jnp.sort(x)[3])(x))
        np.asarray(x)
    assert max(size for _, size in seen.collectives) >= ROWS
    assert seen.fetched == [(ROWS,)]
    with pytest.raises(AssertionError):
        seen.require_few_numbers(ROWS)


def of_arrays(case: Case, name: str) -> Callable[..., Any]:
    """A density of data that are arguments of a compiled function."""

    def ask(arguments: Any, observed: Any) -> Any:
        post = case.model(*arguments).condition(y=observed)
        return post.log_prob(w=jnp.array([0.4, -1.0, 2.0])) if name == "logistic" else post.log_evidence().data

    return ask


@both_kinds
@pytest.mark.parametrize("padded", [True, False], ids=["padded", "even"])
@pytest.mark.parametrize("name", ["normal", "regression", "logistic"])
def test_data_that_are_traced_stay_where_they_are(name: str, padded: bool, kind: AxisType) -> None:
    case, mesh = CASES[name], mesh_of(kind, rows=8)
    place = (lambda x: fb.shard(x[1:], mesh, "rows")) if padded else on_axes(kind)
    plain = (lambda x: jnp.asarray(x[1:])) if padded else jnp.asarray
    with jax.enable_x64(True):
        given, expected = (
            (tuple(map(where, case.arguments)), where(case.observed.astype(float))) for where in (place, plain)
        )
        compiled = jax.jit(of_arrays(case, name))
        assert all(size < ROWS / 8 for _, size in collectives(compiled.lower(*given).compile().as_text()))
        np.testing.assert_allclose(compiled(*given), of_arrays(case, name)(*expected), rtol=1e-10)


@pytest.mark.parametrize("name", ["regression", "logistic"])
def test_slopes_for_each_row_lie_with_the_row(name: str) -> None:
    case, place = CASES[name], on_axes(AxisType.Explicit)

    def slopes(arguments: Any, observed: Any) -> Any:
        return jax.grad(of_arrays(case, name))(arguments, observed)

    with jax.enable_x64(True):
        given, expected = (
            (tuple(where(x.astype(float)) for x in case.arguments), where(case.observed))
            for where in (place, jnp.asarray)
        )
        compiled = jax.jit(slopes)
        assert all(size < ROWS / 8 for _, size in collectives(compiled.lower(*given).compile().as_text()))
        (own,), (whole,) = compiled(*given), jax.jit(slopes)(*expected)
        assert own.sharding.shard_shape(own.shape) == (ROWS // 8, 3)
        np.testing.assert_allclose(own, whole, rtol=1e-9, atol=1e-12)


@fb.model
def logistic_groups(group):
    s = yield fb.dist.HalfNormal(1.0).named("s")
    a = yield fb.dist.Normal(0.0, s).expand([12]).named("a")
    yield fb.dist.Bernoulli(logits=a[group]).named("y")


@both_kinds
def test_slopes_of_groups_are_sums_of_each_device(kind: AxisType) -> None:
    """Those that samplers take, where devices do not divide the rows."""
    group, y = CASES["groups"].arguments[0][1:], CASES["logistic"].observed[1:]
    mesh = mesh_of(kind, rows=8)

    def slopes_of(place: Callable[[np.ndarray], Any]) -> tuple[Any, Any]:
        model = FlatModel(logistic_groups(place(group)).condition(y=place(y)))
        with model.precision():
            target, _ = target_of(eliminated(model, ()))
        free = {"s": jnp.array(0.3), "a": jnp.linspace(-1.0, 1.0, 12)}
        compiled = jax.jit(jax.grad(target.log_density)).lower(free, target.numbers).compile()
        return compiled.as_text(), compiled(free, target.numbers)

    with jax.enable_x64(True):
        text, own = slopes_of(lambda x: fb.shard(x, mesh, "rows"))
        assert all(size < ROWS / 8 for _, size in collectives(text))
        jax.tree_util.tree_map(partial(np.testing.assert_allclose, rtol=1e-10), own, slopes_of(jnp.asarray)[1])


@fb.model
def groups_of_totals(group, x):
    a = yield fb.dist.Normal(0.0, 1.0).expand([12]).named("a")
    total = jnp.zeros(12, x.dtype).at[group].add(jnp.tanh(a[group] * x))
    yield fb.dist.Normal(a[group] + 0.01 * total[group], 0.5).named("y")


@pytest.mark.parametrize("width", ["float32", "float64"])
def test_slopes_of_a_log_density_of_groups_are_sums_of_each_device(width: str) -> None:
    """Its own functions take and add at labels, where devices do not divide the rows: known, and as arguments."""
    group, y = CASES["groups"].arguments[0][1:], CASES["groups"].observed[1:].astype(width)
    mesh = mesh_of({"float32": AxisType.Explicit, "float64": AxisType.Auto}[width], rows=8)

    def log_density(a: Any, group: Any, y: Any) -> Any:
        return groups_of_totals(group, y).condition(y=y).log_prob(a=a)

    with jax.enable_x64(width == "float64"):
        a, here = jnp.linspace(-1.0, 1.0, 12, dtype=width), [fb.shard(x, mesh, "rows") for x in (group, y)]
        compiled = jax.jit(jax.value_and_grad(log_density)).lower(a, *here).compile()
        assert all(size < ROWS / 8 for _, size in collectives(compiled.as_text()))
        with watched() as seen:
            answers = [compiled(a, *here), jax.value_and_grad(log_density)(a, *here)]
        seen.require_few_numbers(ROWS // 8)
    with jax.enable_x64(True):
        expected = jax.value_and_grad(log_density)(a.astype(float), jnp.asarray(group), jnp.asarray(y, float))
    for answer in answers:
        assert_close(answer, expected, {"float32": 1e-6, "float64": 1e-10}[width])


@fb.model
def rates(like):
    r = yield fb.dist.Gamma(2.0, 3.0).expand([like.shape[0]]).named("r")
    yield fb.dist.Poisson(r).named("y")


@both_kinds
def test_latents_for_each_row_lie_with_the_row(kind: AxisType) -> None:
    """r | y ~ Gamma(2 + y, 4); where devices do not divide the rows, answers lie whole on each device."""
    y, mesh = RNG.poisson(1.0, ROWS).astype(np.int32), mesh_of(kind, rows=8)
    with jax.enable_x64(True):
        for rows in (y, y[1:]):
            with watched() as seen:
                placed = fb.shard(rows, mesh, "rows")
                post = rates(placed).condition(y=placed)
                means, best = post.marginal("r").mean("r").data, post.map()[0]
            assert not seen.fetched
            np.testing.assert_allclose(means, (2 + rows) / 4, rtol=1e-10)
            np.testing.assert_allclose(best, (1 + rows) / 4, rtol=1e-10)
            if len(rows) == ROWS:
                seen.require_few_numbers(ROWS)
                assert means.sharding.shard_shape(means.shape) == (ROWS // 8,)
