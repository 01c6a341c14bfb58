"""Factors of real variables as tables over the cells of a grid, one table for each group of axes that are coupled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace
from fubini.base.domains import Bint, Domain, Real
from fubini.base.names import Bound, Name
from fubini.errors import Intractable, MemoryLimit, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture
from fubini.factors.piecewise import Piecewise
from fubini.factors.piecewise_moments import Cut
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic, places
from fubini.terms.factor import Factor, product, substitute, terms_of
from fubini.terms.value import Array

LIMIT = 2**32  # bytes of one table


@dataclass(frozen=True)
class GridAxis:
    """Cells of one element of a real variable: `index` is the bounded integer in its place.

    `support` are the ends of the variable itself.
    """

    name: Name
    element: int
    index: Name
    low: float
    high: float
    n: int
    support: tuple[float, float] = (-math.inf, math.inf)

    @property
    def width(self) -> float:
        """The width of a cell."""
        return (self.high - self.low) / self.n

    @property
    def centres(self) -> np.ndarray:
        """The middle of each cell."""
        return self.low + self.width * (np.arange(self.n) + 0.5)

    @property
    def edges(self) -> np.ndarray:
        """The ends of all cells."""
        return self.low + self.width * np.arange(self.n + 1)


Axes = Mapping[Name, Sequence[GridAxis]]  # of each variable, in the order of its elements


def to_tables(factor: Factor, axes: Axes) -> list[Factor]:
    """Tables whose product is the factor at the centres of the cells; a cell that is cut counts by its shares."""
    return [table for term in terms_of(factor) for table in _tables_of(promoted(term), axes)]


def _tables_of(term: Factor, axes: Axes) -> Iterator[Factor]:
    present = [name for name in term.inputs if name in axes]
    if not present:
        yield term
    elif isinstance(term, Gaussian):
        _require_covered(term, axes)
        yield Table._of(term.scale.pair, term.scale.inputs, term.scale.exactness)
        for block in _blocks(term, axes):
            yield _block_table(term, block, axes)
    elif isinstance(term, Piecewise):
        yield from _shares(term, axes)
    else:
        require_size(term, axes)
        yield promoted(substitute(term, {name: _points(axes[name]) for name in present}))


def _points(axes: Sequence[GridAxis]) -> Array:
    """The centres of the cells, as an array over the indices of all axes."""
    sizes = {axis.index: Bint[axis.n] for axis in axes}
    grid = np.stack(np.meshgrid(*(axis.centres for axis in axes), indexing="ij"), axis=-1)
    if len(axes) == 1 and axes[0].element < 0:
        return Array._of(grid[..., 0], tuple(sizes), sizes, Real)
    return Array._of(grid, tuple(sizes), sizes, Real[len(axes)])


# -- Gaussians ------------------------------------------------------------------------------------------------------


def _blocks(g: Gaussian, axes: Axes) -> list[list[int]]:
    """Elements of the real variables in groups that the exponent does not couple; one group where that is unknown."""
    size = g.quadratic.size
    matrix = g.quadratic.matrix
    if is_traced(matrix):
        return [list(range(size))]
    data = np.abs(np.asarray(matrix)).reshape(-1, *matrix.shape[-2:]).max(axis=0)
    near = (data.T @ data > 0) if g.quadratic.white else data > 0
    groups: list[set[int]] = []
    for element in range(size):
        own = {element, *np.flatnonzero(near[element])}
        joined = [group for group in groups if group & own]
        groups = [group for group in groups if not group & own]
        groups.append(own.union(*joined))
    return [sorted(map(int, group)) for group in groups]


def _require_covered(g: Gaussian, axes: Axes) -> None:
    others = [name for name, _ in g.reals if name not in axes]
    if others:
        raise Intractable(
            f"{g} on a grid of {listed(axes)}",
            expected=f"a grid for {listed(others)} too, which it couples",
            advice=f"name one: fb.represent({others[0]}=fb.rep.Grid((low, high), n)), and fb.Chain(…, sum=("
            f"{others[0]!r},)) where it is no state",
        )


def _block_table(g: Gaussian, block: Sequence[int], axes: Axes) -> Table:
    """exp(h·z − ½ z·K z) over the cells of some elements, as a table over their indices and the batch."""
    place = {p: (name, p - each.start) for name, each in places(g.reals).items() for p in each}
    own = [axes[place[p][0]][place[p][1]] for p in block]
    v, v_names, M, M_names, white = g.quadratic
    batch = tuple(dict.fromkeys((*v_names, *M_names)))
    sizes: dict[Name, Domain] = {**{n: g.inputs[n] for n in batch}, **{axis.index: Bint[axis.n] for axis in own}}
    _require_cells(sizes, g)
    xp = namespace(v, M)
    rows = _rows_of(M, block, white)
    part = Quadratic(v[..., rows], v_names, M[..., rows, :][..., :, list(block)], M_names, white)
    points = [axis.centres.reshape([-1 if k == j else 1 for k in range(len(own))]) for j, axis in enumerate(own)]
    log = _exponent(xp, part, points, batch, len(own))
    return Table.from_log(xp.broadcast_to(log, [domain.extent for domain in sizes.values()]), sizes)


def _rows_of(matrix: Data, block: Sequence[int], white: bool) -> list[int]:
    """The rows that a group of elements has to itself."""
    if not white:
        return list(block)
    if is_traced(matrix):
        return list(range(matrix.shape[-2]))
    data = np.abs(np.asarray(matrix)).reshape(-1, *matrix.shape[-2:]).max(axis=0)
    return [int(row) for row in np.flatnonzero(data[:, list(block)].max(axis=1) > 0)]


def _exponent(xp: object, q: Quadratic, points: Sequence[np.ndarray], batch: tuple[Name, ...], count: int) -> Data:
    """h·z − ½ z·K z, or −½ |R z − r|², over the batch and the cells."""
    vector = align(q.vector, q.vector_names, batch, 1)
    matrix = align(q.matrix, q.matrix_names, batch, 2)

    def cells(data: Data) -> Data:
        return data.reshape((*data.shape, *(1,) * count))

    if q.white:
        total = 0.0
        for row in range(matrix.shape[-2]):
            gap = sum(cells(matrix[..., row, k]) * z for k, z in enumerate(points)) - cells(vector[..., row])
            total = total - 0.5 * gap * gap
        return total
    total = sum(cells(vector[..., k]) * z for k, z in enumerate(points))
    for k, z in enumerate(points):
        for j, u in enumerate(points):
            total = total - 0.5 * cells(matrix[..., k, j]) * z * u
    return total


# -- cells that are cut ---------------------------------------------------------------------------------------------


def _shares(f: Piecewise, axes: Axes) -> Iterator[Factor]:
    """Σ over the boxes of their parts, times the share of each cell that lies in them."""
    parts = promoted(f.parts)
    pieces: list[Factor] = []
    for cut, edge in zip(f.cuts, f.edges, strict=True):
        axis = axes[cut.name][cut.element]
        pieces.append(_share(axis, edge, cut.interval))
    rest = [part for table in to_tables(parts, axes) for part in terms_of(table)]
    if isinstance(parts, Mixture):
        rest = [parts]
    yield promoted(product(*rest, *pieces).sum(*f.indices))


def _share(axis: GridAxis, edge: Array, index: Name) -> Table:
    """The share of each cell that lies between two edges."""
    xp = namespace(edge.array)
    end = xp.full((*edge.array.shape[:-1], 1), np.inf)
    low, high = (
        xp.concatenate([-end, edge.array], -1)[..., None, :],
        xp.concatenate([edge.array, end], -1)[..., None, :],
    )
    left, right = axis.edges[:-1, None], axis.edges[1:, None]
    weights = xp.clip(xp.minimum(high, right) - xp.maximum(low, left), 0.0, None) / axis.width
    sizes = {**edge.inputs, axis.index: Bint[axis.n], index: Bint[edge.output.shape[0] + 1]}
    return Table(weights, sizes)


# -- sizes ----------------------------------------------------------------------------------------------------------


def require_size(term: Factor, axes: Axes) -> None:
    """Raise where a factor that couples all axes needs too large a table."""
    sizes = {name: domain for name, domain in term.inputs.items() if domain.is_finite}
    for name in term.inputs:
        sizes.update({axis.index: Bint[axis.n] for axis in axes.get(name, ())})
    _require_cells(sizes, term)


def _require_cells(sizes: Mapping[Name, Domain], term: Factor) -> None:
    cells = math.prod(domain.extent for domain in sizes.values())
    if 8 * cells > LIMIT:
        raise MemoryLimit(
            f"{term} on a grid: a table of {8 * cells:,} bytes",
            expected=f"at most {LIMIT:,} bytes",
            nearest="it couples " + ", ".join(f"{name} ({domain.extent:,})" for name, domain in sizes.items()),
            advice="use fewer cells, or factors whose axes are independent given the others",
        )


def volume(axes: Sequence[GridAxis]) -> float:
    """The volume of one cell."""
    return reduce(lambda a, axis: a * axis.width, axes, 1.0)


def array_at(values: Mapping[Name, Data], axes: Sequence[GridAxis]) -> Data:
    """The centres of the cells with these indices, elements last."""
    xp = namespace(*values.values())
    parts = [xp.asarray(axis.centres)[values[axis.index]] for axis in axes]
    return parts[0] if axes[0].element < 0 else xp.stack(parts, axis=-1)


def back_to_reals(table: Factor, axes: Axes, domains: Mapping[Name, Domain]) -> Factor:
    """A table over cells as a density of the real variables, zero outside of the grid.

    At a point it is that of the cell; its moments and draws are those of the middles, a rule of quadrature: for smooth
    densities these converge faster than any power of the width, where cells of uniform density add width²/12.
    """
    parts = promoted(table)
    assert isinstance(parts, Table), "what is on a grid is a table"
    cuts, edges, at = [], [], {}
    for each in axes.values():
        for axis in each:
            if axis.index in parts.inputs:
                cut = Cut(axis.name, max(axis.element, 0), Bound(f"{axis.name}[{axis.element}]"), True)
                cuts.append(cut)
                edges.append(Array(axis.edges))
                inside = np.clip(np.arange(axis.n + 2) - 1, 0, axis.n - 1)
                at[axis.index] = Array._of(inside, (cut.interval,), {cut.interval: Bint[axis.n + 2]}, Bint[axis.n])
                mask = np.r_[0.0, np.full(axis.n, 1.0 / axis.width), 0.0]
                parts = product(parts, Table(mask, {cut.interval: Bint[axis.n + 2]}))
    made = promoted(substitute(parts, at))
    reals = [(name, domains[name]) for name in dict.fromkeys(cut.name for cut in cuts)]
    return Piecewise._of(made, cuts, edges, reals)
