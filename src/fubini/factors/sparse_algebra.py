"""Operations on sparse factors by name: joins, sums of groups, substitution, rows of a plate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace
from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Name
from fubini.base.semirings import Semiring, same_pair, sum_product
from fubini.errors import listed
from fubini.factors.sparse import Sparse, sort_over
from fubini.factors.sparse_checks import fault_of, multiply_capacity, require_capacity, require_keys
from fubini.factors.table import Table, contract_tables
from fubini.numerics.keyed_contraction import Operand, contract_keyed
from fubini.numerics.keyed_weights import (
    Keyed,
    add_groups,
    add_in_place,
    concatenate,
    count_groups,
    count_positive,
    drop_zeros,
    full_rows,
    list_pairs,
    look_up,
    mask,
    match,
    sort,
    spread,
    take,
)
from fubini.numerics.mixed_radix import to_keys
from fubini.numerics.named_axes import Index, align, require_in_range, substituted_names
from fubini.numerics.randomness import SAMPLES
from fubini.numerics.scaled import Scaled, exclusive, multiplied, multiplied_out
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor
from fubini.terms.value import Array

Inputs = Mapping[Name, Domain]
SMALL = 2**12  # cells that are not worth a search


def engine_of_all(*factors: Factor) -> ModuleType:
    """The engine that the data of factors decide."""
    return namespace(*(leaf for factor in factors for leaf in factor.leaves()))


def count_cells(inputs: Inputs, names: Sequence[Name]) -> int:
    """The number of cells over some names."""
    return math.prod(inputs[name].extent for name in names)


def closed_or_sparse(keyed: Keyed, absent: Data, inputs: dict[Name, Domain], capacity: int, mark: Exactness) -> Factor:
    """A sparse factor; a Table where no name is left."""
    factor = Sparse._of(keyed, absent, inputs, capacity, mark)
    return factor if inputs else factor.to_table()


def ones_over(inputs: Inputs, capacity: int) -> Sparse:
    """1 in every cell."""
    require_keys(np, inputs)
    cells = math.prod(domain.extent for domain in inputs.values())
    require_capacity(cells, capacity, f"the constant 1 over {cells:,} cells", 0.0)
    return Sparse._of(Keyed(np.arange(cells), Scaled(np.ones(cells), 0.0), cells), 0.0, dict(inputs), capacity)


# -- products -------------------------------------------------------------------------------------------------------


def join_sparse_factors(f: Sparse, g: Sparse, capacity: int | None = None) -> Sparse:
    """The natural join on the names shared, by merging keys in order; of the greater capacity unless one is given."""
    inputs, xp = merge_inputs(f.inputs, g.inputs), engine_of_all(f, g)
    require_keys(xp, inputs)
    shared = [name for name in f.names if name in g.inputs]
    extra = [name for name in g.names if name not in f.inputs]
    own, theirs, width = f.keyed_on(xp), sort_over(g, (*shared, *extra), xp), count_cells(g.inputs, extra)
    matches = match(f.key_over(shared, own, -1), theirs.keys // width)
    capacity = capacity or max(f.capacity, g.capacity)
    weights = (own.pair.weights, theirs.pair.weights)
    absent = require_capacity(matches.total, capacity, f"{f} * {g}", f.absent + g.absent, *weights)
    end = own.end * width
    alone = count_cells(f.inputs, [name for name in f.names if name not in shared])
    most = (own.slots * min(theirs.slots, width), theirs.slots * min(own.slots, alone), end, capacity)
    first, second, valid = list_pairs(matches, min(most))
    keys = xp.where(valid, own.keys[first] * width + theirs.keys[second] % width, end)
    pair = mask(multiplied(take(own.pair, first), take(theirs.pair, second)), valid)
    return Sparse._of(Keyed(keys, pair, end), absent, inputs, capacity, f.exactness | g.exactness)


def join_table(f: Sparse, g: Table) -> Sparse:
    """The join with the cells of a table that are not zero."""
    return join_sparse_factors(f, Sparse.from_table(g, g.pair.weights.size), capacity_beside(f, g))


def capacity_beside(f: Sparse, g: Factor) -> int:
    """The capacity of a product: for each of several samples that of the factor."""
    samples = g.inputs[SAMPLES].extent if SAMPLES in g.inputs and SAMPLES not in f.inputs else 1
    return multiply_capacity(f.capacity, samples)


def extend(f: Sparse, inputs: Inputs) -> Sparse:
    """The same function, constant over names that it lacks."""
    missing = {name: domain for name, domain in inputs.items() if name not in f.inputs}
    return join_sparse_factors(f, ones_over(missing, f.capacity)) if missing else f


def weights_at(g: Sparse | Table, f: Sparse, keyed: Keyed) -> Scaled:
    """The weights of a factor over some of f's names at the cells of f."""
    if isinstance(g, Sparse):
        theirs = g.keyed_on(namespace(keyed.keys))
        return look_up(theirs, f.key_over(g.names, keyed, theirs.end))
    xp, (weights, shift, *bounds) = namespace(keyed.keys), g.pair
    at = tuple(f.positions(name, keyed) for name in g.names)
    shift = xp.asarray(shift)[at] if np.ndim(shift) else shift
    return spread(Scaled(xp.asarray(weights)[at], shift, *bounds), keyed.slots)


def cell_by_cell(f: Sparse, g: Sparse | Table, numerics: Callable[[Scaled, Scaled], Scaled]) -> tuple[Keyed, Scaled]:
    """An operation on the cells of f and those of g there, and the weights of g; g has no other names than f."""
    keyed = f.keyed_on(engine_of_all(f, g))
    theirs = weights_at(g, f, keyed)
    return keyed._replace(pair=mask(numerics(keyed.pair, theirs), keyed.used)), theirs


def absent_of(g: Sparse | Table) -> Data:
    """0, and NaN where a factor holds one."""
    return g.absent if isinstance(g, Sparse) else fault_of(g)


# -- contractions ---------------------------------------------------------------------------------------------------


def contract_sparse_factors(semiring: Semiring, f: Sparse, g: Sparse, keep: frozenset[Name], capacity: int) -> Factor:
    """⊕ over the names not kept of f·g, of which no more than the result is stored."""
    inputs, xp = merge_inputs(f.inputs, g.inputs), engine_of_all(f, g)
    rows = [name for name in f.names if name in keep]
    columns = [name for name in g.names if name in keep and name not in f.inputs]
    shared = [name for name in f.names if name in g.inputs]
    kept = {name: inputs[name] for name in (*rows, *columns)}
    require_keys(xp, kept)
    alone = [name for name in rows if name not in g.inputs]
    left, right = _operand(f, shared, rows, alone, xp), _operand(g, shared, columns, columns, xp)
    keyed, count, is_complete = contract_keyed(semiring, left, right, capacity)
    asked, weights = f"{f} * {g}, summed to {listed(kept) or 'a number'}", (left.pair.weights, right.pair.weights)
    absent = require_capacity(count, capacity, asked, f.absent + g.absent, *weights)
    if is_traced(is_complete):
        absent = require_capacity(xp.where(is_complete, 0, capacity + 1), capacity, asked, absent, *weights)
    return closed_or_sparse(keyed, absent, kept, capacity, f.exactness | g.exactness)


def are_full(f: Sparse, g: Sparse | Table, keep: frozenset[Name]) -> bool:
    """Whether tables of both and of the result take no more room than the cells stored with their keys, or little."""
    inputs = merge_inputs(f.inputs, g.inputs)
    stored = f.stored + (g.stored if isinstance(g, Sparse) else g.pair.weights.size)
    cells = sum(count_cells(inputs, [n for n in inputs if n in names]) for names in (f.inputs, g.inputs, keep))
    return cells <= max(2 * stored, SMALL)


def contract_as_tables(
    semiring: Semiring, f: Sparse, g: Sparse | Table, keep: frozenset[Name], capacity: int
) -> Factor:
    """⊕ over the names not kept of f·g, with every cell stored on the way."""
    table = contract_tables(semiring, f.to_table(), g.to_table() if isinstance(g, Sparse) else g, keep)
    return Sparse.from_table(table, capacity) if table.inputs else table


def _operand(f: Sparse, shared: list[Name], own: list[Name], alone: list[Name], xp: ModuleType) -> Operand:
    keyed = f.keyed_on(xp)
    ends = (count_cells(f.inputs, shared), count_cells(f.inputs, own))
    inner, outer = (f.key_over(names, keyed, end) for names, end in zip((shared, own), ends, strict=True))
    return Operand(inner, outer, keyed.pair, ends, count_cells(f.inputs, alone))


# -- sums -----------------------------------------------------------------------------------------------------------


def embedded(semiring: Semiring, f: Sparse) -> Sparse:
    """The weights in the carrier of a semiring of weights, in which 0 stays 0."""
    if semiring.embed is same_pair:
        return f
    keyed = f.keyed
    pair = Scaled(*semiring.embed(namespace(keyed.pair.weights), *keyed.pair[:2]))
    return Sparse._of(keyed._replace(pair=pair), f.absent, f.inputs, f.capacity, f.exactness)


def sum_groups(semiring: Semiring, f: Sparse, names: Sequence[Name]) -> Factor:
    """⊕ over names: the cells with the same key over the other names."""
    kept = {name: domain for name, domain in f.inputs.items() if name not in names}
    own = f.keyed
    keyed = f.keyed_on(namespace(own.keys, *own.pair[:2]))
    end = math.prod(domain.extent for domain in kept.values())
    groups = Keyed(f.key_over(tuple(kept), keyed, end), keyed.pair, end)
    summed = add_in_place(semiring, groups)
    if summed is None:
        summed = _masked(add_groups(semiring, sort(groups), min(end, keyed.slots)))
    return closed_or_sparse(summed, f.absent, kept, f.capacity, f.exactness)


def add_sparse_factors(f: Sparse, g: Sparse, capacity: int | None = None) -> Sparse:
    """f + g, over the union of the keys; of the greater capacity unless one is given."""
    inputs, xp = merge_inputs(f.inputs, g.inputs), engine_of_all(f, g)
    capacity, names = capacity or max(f.capacity, g.capacity), tuple(inputs)
    wide = [extend(h.with_capacity(capacity), inputs) for h in (f, g)]
    first, second = (sort_over(h, names, xp) for h in wide)
    keys = xp.concatenate([first.keys, second.keys])
    both = sort(Keyed(keys, concatenate((first.pair, second.pair)), first.end))
    count = count_groups(both.keys, both.end)
    absent = require_capacity(count, capacity, f"{f} + {g}", wide[0].absent + wide[1].absent, both.pair.weights)
    summed = add_groups(sum_product, both, min(capacity, both.end, both.slots))
    return Sparse._of(_masked(summed), absent, inputs, capacity, f.exactness | g.exactness)


def _masked(keyed: Keyed) -> Keyed:
    return keyed._replace(pair=mask(keyed.pair, keyed.used))


# -- substitution ---------------------------------------------------------------------------------------------------


def substitute_positions(f: Sparse, args: Mapping[Name, Array]) -> Factor:
    """f(x = v(j), y): the cells of f joined with the cells j on x = v(j); each of several samples has the capacity."""
    xp = namespace(*f.leaves(), *(arg.array for arg in args.values()))
    indices: dict[Name, Index] = {name: (arg.array, arg.names) for name, arg in args.items()}
    kept = {name: domain for name, domain in f.inputs.items() if name not in args}
    fresh = merge_inputs(*(arg.inputs for arg in args.values()))
    domains = merge_inputs(kept, fresh)
    inputs = {name: domains[name] for name in substituted_names(f.names, indices)}
    require_keys(xp, inputs)
    shape = tuple(_extents(fresh))
    replaced, fault = _replaced(f, args, tuple(fresh), shape, xp)
    rows = {name: at.reshape(-1) for name, at in zip(fresh, np.indices(shape), strict=True)}
    own, both = f.keyed_on(xp), [name for name in kept if name in fresh]
    order = (*args, *both)
    shared = to_keys([*replaced.values(), *(rows[name] for name in both)], [f.inputs[name].extent for name in order])
    by_key = xp.argsort(shared, stable=True)
    matches = match(f.key_over(order, own, -1), shared[by_key])
    asked = f"{f} at {', '.join(f'{name}={value}' for name, value in args.items())}"
    samples = fresh[SAMPLES].extent if SAMPLES in fresh and SAMPLES not in f.inputs else 1
    capacity = multiply_capacity(f.capacity, samples)
    absent = require_capacity(matches.total, capacity, asked, f.absent + fault, own.pair.weights)
    apart = count_cells(f.inputs, [name for name in kept if name not in both])
    count = shared.shape[0] * min(own.slots, apart)
    first, second, valid = list_pairs(matches, min(count, capacity))
    chosen = by_key[second]
    places = [xp.asarray(rows[name])[chosen] if name in fresh else f.positions(name, own)[first] for name in inputs]
    end = math.prod(domain.extent for domain in inputs.values())
    keys = xp.where(valid, to_keys(places, _extents(inputs)), end) if inputs else xp.where(valid, 0, end)
    result = sort(Keyed(keys, mask(take(own.pair, first), valid), end))
    mark = f.exactness
    for arg in args.values():
        mark = mark | arg.exactness
    return closed_or_sparse(result, absent, inputs, capacity, mark)


def _extents(inputs: Inputs) -> list[int]:
    return [domain.extent for domain in inputs.values()]


def _replaced(
    f: Sparse, args: Mapping[Name, Array], fresh: Sequence[Name], shape: tuple[int, ...], xp: ModuleType
) -> tuple[dict[Name, Data], Data]:
    """The positions that replace names, for each cell of the fresh names; NaN after an index outside its domain."""
    replaced: dict[Name, Data] = {}
    fault: Data = 0.0
    for name, arg in args.items():
        index = require_in_range(name, arg.array, f.inputs[name])
        if is_traced(index):
            fault = fault + xp.where(xp.any(index < 0), xp.nan, 0.0)
        replaced[name] = xp.broadcast_to(align(index, arg.names, fresh), shape).reshape(-1)
    return replaced, fault


# -- plates ---------------------------------------------------------------------------------------------------------


def multiply_rows(f: Sparse, names: Sequence[Name]) -> Factor:
    """Π over names: of the rows that have a weight in every cell of the names."""
    rest, width = _beside(f, names)
    rows, pair = _block(f, (*rest, *names), width, width)
    result = multiplied_out(sum_product, pair, 1)
    end = math.prod(_extents(rest))
    keys = namespace(rows).where(rows < 0, end, rows)
    keyed = sort(Keyed(keys, mask(result, rows >= 0), end))
    return closed_or_sparse(keyed, f.absent, rest, f.capacity, f.exactness)


def exclude_rows(semiring: Semiring, f: Sparse, names: Sequence[Name]) -> Sparse:
    """Π over all cells of the names but one's own: of the rows that lack one cell at most."""
    rest, width = _beside(f, names)
    inputs = {**rest, **{name: f.inputs[name] for name in names}}
    rows, pair = _block(f, tuple(inputs), width, width - 1)
    xp, end = namespace(rows), math.prod(_extents(inputs))
    others = exclusive(semiring, pair, (1,))
    shift = others.shift if others.is_linear else xp.reshape(others.shift, -1)
    cells = rows[:, None] * width + xp.arange(width)
    keys = xp.where(rows[:, None] < 0, end, cells).reshape(-1)
    keyed = sort(Keyed(keys, mask(Scaled(xp.reshape(others.weights, -1), shift), keys < end), end))
    count = count_positive(keyed)
    asked = f"the products over {listed(names)} but one of {f}"
    absent = require_capacity(count, f.capacity, asked, f.absent, keyed.pair.weights)
    return Sparse._of(drop_zeros(keyed, f.capacity), absent, inputs, f.capacity, f.exactness)


def _beside(f: Sparse, names: Sequence[Name]) -> tuple[dict[Name, Domain], int]:
    rest = {name: domain for name, domain in f.inputs.items() if name not in names}
    return rest, count_cells(f.inputs, names)


def _block(f: Sparse, order: Sequence[Name], width: int, least: int) -> tuple[Data, Scaled]:
    """The rows of `width` cells with at least so many of them, −1 if unused, and the weights of all their cells."""
    keyed = sort_over(f, order, engine_of_all(f))
    rows = full_rows(keyed, width, least)
    xp = namespace(rows)
    cells = xp.where(rows[:, None] < 0, keyed.end, rows[:, None] * width + xp.arange(width))
    weights, shift, low, high = look_up(keyed, cells.reshape(-1))
    shift = shift if np.ndim(shift) == 0 else xp.reshape(shift, cells.shape)
    return rows, Scaled(xp.reshape(weights, cells.shape), shift, low, high)
