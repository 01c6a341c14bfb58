"""Random factors over a few small names, and their enumeration in NumPy: the oracle of the laws.

Nothing here uses the library except to build tables and to read results.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fubini as fb

NAMES = ("a", "b", "c", "d", "e")
POSITIVE = st.floats(0.0625, 8.0, width=32)
WEIGHTS = POSITIVE | st.just(0.0)


class Raw(NamedTuple):
    """A factor as an oracle sees it: plain weights, one axis for each name."""

    weights: np.ndarray
    names: tuple

    @property
    def table(self) -> fb.Table:
        return fb.Table(self.weights, self.names)

    @property
    def single(self) -> fb.Table:
        """The table on JAX, in single precision."""
        return fb.Table(jnp.asarray(self.weights, jnp.float32), self.names)


def arrays(*shape: int, elements: st.SearchStrategy = WEIGHTS) -> st.SearchStrategy[np.ndarray]:
    """Weights of a fixed shape, some of them zero."""
    return hnp.arrays(np.float64, shape, elements=elements, fill=st.nothing())


def raws(*names: str, sizes: Mapping[str, int], elements: st.SearchStrategy = WEIGHTS) -> st.SearchStrategy[Raw]:
    """One factor over these names."""
    return arrays(*(sizes[name] for name in names), elements=elements).map(lambda weights: Raw(weights, names))


@st.composite
def factor_sets(draw: Callable, least: int = 1, most: int = 4, elements: st.SearchStrategy = WEIGHTS) -> list[Raw]:
    """A few factors of up to three names each, of sizes 1 to 4."""
    sizes = {name: draw(st.integers(1, 4)) for name in NAMES}
    scopes = st.lists(st.sampled_from(NAMES), max_size=3, unique=True)
    return [draw(raws(*draw(scopes), sizes=sizes, elements=elements)) for _ in range(draw(st.integers(least, most)))]


def names_of(factors: Sequence[Raw]) -> tuple:
    """All names, in order of first appearance."""
    return tuple(dict.fromkeys(name for factor in factors for name in factor.names))


def spread(weights: np.ndarray, names: Sequence, order: Sequence) -> np.ndarray:
    """The weights with axes in the given order, of extent 1 for other names."""
    axes = [names.index(name) for name in order if name in names]
    return weights.transpose(axes).reshape([weights.shape[names.index(n)] if n in names else 1 for n in order])


def joint(factors: Sequence[Raw], order: Sequence, times: Callable = np.multiply) -> np.ndarray:
    """⊗ of the factors over all cells of `order`."""
    sizes = {name: size for raw in factors for name, size in zip(raw.names, raw.weights.shape, strict=True)}
    whole = None
    for weights, names in factors:
        part = spread(weights, names, order)
        whole = part if whole is None else times(whole, part)
    shape = tuple(sizes.get(name, 1) for name in order)
    return np.ones(shape) if whole is None else np.broadcast_to(whole, shape)


def total(factors: Sequence[Raw], keep: Sequence = (), times: Callable = np.multiply, plus: Callable = np.sum) -> Any:
    """⊕ over every name not kept of the ⊗ of the factors, by enumeration."""
    order = (*keep, *(name for name in names_of(factors) if name not in keep))
    return plus(joint(factors, order, times), axis=tuple(range(len(keep), len(order))))


def unroll(factors: Sequence[Raw], scopes: Mapping[str, Sequence[str]], plates: Sequence[str]) -> list[Raw]:
    """Each factor once for each cell of its plates; a variable inside plates is one variable for each cell.

    The variable z of scope ("i", "j") becomes ("z", 0, 1) in the cell i = 0, j = 1; one outside plates becomes ("z",).
    """
    pieces = []
    for weights, names in factors:
        mine = [name for name in names if name in plates]
        for cell in np.ndindex(*(weights.shape[names.index(plate)] for plate in mine)):
            at = dict(zip(mine, cell, strict=True))
            inside = tuple((name, *(at[p] for p in scopes.get(name, ()))) for name in names if name not in plates)
            pieces.append(Raw(weights[tuple(at.get(name, slice(None)) for name in names)], inside))
    return pieces


def repeated(raw: Raw, times: Mapping[str, int]) -> Raw:
    """The factor with every cell of a plate repeated, as often as given."""
    weights = raw.weights
    for name, count in times.items():
        weights = np.repeat(weights, count, raw.names.index(name)) if name in raw.names else weights
    return Raw(weights, raw.names)


def logs(factor: fb.Factor, order: Sequence[str] = ()) -> np.ndarray:
    """The log-weights of a factor, axes in the given order."""
    value = factor.log()
    assert set(value.inputs) == set(order), f"inputs {set(value.inputs)}, not {set(order)}"
    for name in reversed(order):
        value = fb.stack(value, name)
    return np.asarray(value.data, np.float64)


def numbers(factor: fb.Factor, order: Sequence[str] = ()) -> np.ndarray:
    """The weights of a factor, axes in the given order."""
    return np.exp(logs(factor, order))


def linear(table: fb.Table) -> Any:
    """The numbers of a table without a logarithm, so that they can be differentiated at zero."""
    return table.weights


def assert_factor(
    factor: fb.Factor, expected: Any, order: Sequence[str] = (), kind: type = fb.Table, rtol: float = 1e-9
) -> None:
    """The factor is of this kind, exact, over these names, and has these weights; zeros are zeros exactly."""
    expected = np.asarray(expected)
    assert isinstance(factor, kind), type(factor)
    assert factor.exactness.is_exact
    assert factor.inputs == {name: fb.Bint[size] for name, size in zip(order, expected.shape, strict=True)}
    np.testing.assert_allclose(numbers(factor, order), expected, rtol=rtol, atol=0)


def assert_close(actual: Any, expected: Any, rtol: float = 1e-9, atol: float = 1e-9) -> None:
    """Numbers that may be near zero by cancellation."""
    np.testing.assert_allclose(np.asarray(actual, np.float64), expected, rtol=rtol, atol=atol)


def derivative(function: Callable[[np.ndarray], Any], at: np.ndarray) -> np.ndarray:
    """The Jacobian of an analytic NumPy function by complex steps, exact to rounding: output axes, then input axes."""
    columns = []
    for cell in np.ndindex(at.shape):
        moved = at.astype(complex)
        moved[cell] += 1e-30j
        columns.append(np.imag(function(moved)) / 1e-30)
    shape = np.shape(columns[0])
    return np.stack([np.asarray(column) for column in columns], axis=-1).reshape(*shape, *at.shape)


def in_double_precision(function: Callable, at: np.ndarray) -> np.ndarray:
    """The Jacobian of a function of a JAX array, in double precision."""
    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.jacrev(function))(jnp.asarray(at)))
