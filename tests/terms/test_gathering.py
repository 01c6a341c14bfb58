"""Indexing named axes by arrays of integers, equal to NumPy's advanced indexing, in a canonical order of inputs."""

import pickle
from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fubini as fb
from fubini.errors import DataError
from fubini.terms.value import to_array

SIZES = {"a": 3, "b": 2, "c": 4, "d": 3, "e": 2}
F = np.random.default_rng(0).uniform(0.1, 1, (3, 2))

Term = fb.Value | fb.Factor


def numbers(term: Term, order: tuple[str, ...]) -> np.ndarray:
    """The numbers of a term, its axes in this order."""
    array = to_array(term.log() if isinstance(term, fb.Factor) else term)
    data = np.transpose(array.data, [array.names.index(name) for name in order])
    return np.exp(data) if isinstance(term, fb.Factor) else data


def by_cell(names: tuple[str, ...], at: Callable[[dict[str, int]], float]) -> np.ndarray:
    """A function of an assignment, at every cell."""
    shape = [SIZES[name] for name in names]
    cells = [dict(zip(names, cell, strict=True)) for cell in product(*map(range, shape))]
    return np.array([at(cell) for cell in cells]).reshape(shape)


@pytest.mark.parametrize("build", [fb.Array, fb.Table], ids=["Array", "Table"])
@pytest.mark.parametrize("position", [-1, 3])
def test_positions_are_checked(build: Callable, position: int) -> None:
    """Out of range raises eagerly; traced, it is NaN, and `checked` raises."""
    term = build(F, ("a", "b"))
    index = np.array([0, position])
    with pytest.raises(DataError, match="range"):
        term(a=position)
    with pytest.raises(DataError, match="range"):
        term(a=fb.Array(index, ("k",)))

    def traced(index: jax.Array) -> jax.Array:
        found = term(a=fb.Array(index, ("k",)))
        return (found.log() if isinstance(found, fb.Factor) else found).data

    found = jax.jit(traced)(index)
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).all()
    with pytest.raises(DataError, match="range"):
        fb.checked(jax.jit(traced))(index)


@st.composite
def substitutions(draw: st.DrawFn) -> tuple[tuple[str, ...], np.ndarray, dict[str, Any], dict[str, Callable]]:
    """Names and weights of a term, what to substitute for some names, and the same as functions of a cell."""
    names = tuple(draw(st.permutations("abc"))[: draw(st.integers(1, 3))])
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    given_values, positions = {}, {}
    for name in names:
        kind = draw(st.sampled_from(["keep", "number", "rename", "array", "arithmetic"]))
        if kind == "number":
            number = int(rng.integers(SIZES[name]))
            given_values[name], positions[name] = number, lambda cell, number=number: number
        elif kind == "rename" and name != "c":
            new = {"a": "d", "b": "e"}[name]
            given_values[name], positions[name] = new, lambda cell, new=new: cell[new]
        elif kind == "array":
            axes = tuple(draw(st.permutations("abcde"))[: draw(st.integers(1, 2))])
            index = rng.integers(SIZES[name], size=[SIZES[axis] for axis in axes])
            given_values[name] = fb.Array(index, axes)
            positions[name] = lambda cell, index=index, axes=axes: index[tuple(cell[axis] for axis in axes)]
        elif kind == "arithmetic":
            other = draw(st.sampled_from("abcde"))
            given_values[name] = (fb.Variable(other, fb.Bint[SIZES[other]]) + 1) % SIZES[name]
            positions[name] = lambda cell, other=other, size=SIZES[name]: (cell[other] + 1) % size
    return names, rng.uniform(0.1, 1, [SIZES[name] for name in names]), given_values, positions


def canonical(names: tuple[str, ...], values: Mapping[str, Any]) -> tuple[str, ...]:
    """Each name stays or gives way to the names of its index; the first mention counts."""
    order: list[str] = []
    for name in names:
        value = values.get(name, name)
        order += [value] if isinstance(value, str) else list(getattr(value, "inputs", ()))
    return tuple(dict.fromkeys(order))


@given(substitutions())
def test_advanced_indexing_equals_numpy(case: tuple) -> None:
    """Inputs come in the canonical order; a recorded substitution gives the same once evaluated."""
    names, weights, values, positions = case
    order = canonical(names, values)

    def at(cell: dict[str, int]) -> float:
        return weights[tuple(positions[name](cell) if name in positions else cell[name] for name in names)]

    expected = by_cell(order, at)
    for build in (fb.Array, fb.Table):
        found = build(weights, names)(**values)
        assert isinstance(found, build)
        assert tuple(found.inputs) == order
        np.testing.assert_allclose(numbers(found, order), expected, rtol=1e-12)
        copy = pickle.loads(pickle.dumps(found))
        assert copy.key == found.key
        np.testing.assert_array_equal(numbers(copy, order), numbers(found, order))


@given(substitutions())
def test_recorded_indexing_evaluates_to_the_same(case: tuple) -> None:
    names, weights, values, _ = case
    for build in (fb.Array, fb.Table):
        with fb.lazy:
            recorded = build(weights, names)(**values)
        found, expected = fb.evaluate(recorded), build(weights, names)(**values)
        assert recorded.inputs.keys() == expected.inputs.keys()
        assert isinstance(found, build)
        assert list(found.inputs) == list(expected.inputs)
        np.testing.assert_array_equal(numbers(found, tuple(found.inputs)), numbers(expected, tuple(found.inputs)))


def test_advanced_indexing_of_jax_arrays() -> None:
    """The same numbers compiled, mapped and differentiated."""
    index = jnp.array([[2, 0], [1, 1]])

    def at(weights: jax.Array, index: jax.Array) -> jax.Array:
        return fb.Table(weights, ("a", "b"))(a=fb.Array(index, ("k",)))(k=1, b=0).log().data

    expected = np.log(F[[0, 1], 0])
    np.testing.assert_allclose(jax.jit(jax.vmap(at, (None, 0)))(jnp.asarray(F), index), expected, rtol=1e-6)
    gradient = jax.grad(at)(jnp.asarray(F), index[0])
    np.testing.assert_allclose(gradient, np.where(np.indices((3, 2)).sum(0) == 0, 1 / F[0, 0], 0.0), rtol=1e-6)
