"""Operations on circuits: two of them brought over one vtree and one batch, then their weights combined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product as cells_of
from typing import NamedTuple

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace, require
from fubini.base.domains import Bint, Domain, merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product
from fubini.errors import DataError, Intractable, listed
from fubini.factors.circuit import DETERMINISTIC, MAXIMUM, SUM, Circuit, concrete, to_table
from fubini.factors.table import Table
from fubini.numerics.circuit_products import (
    Combined,
    add_structures,
    join_structures,
    multiply_structures,
    tabulate,
)
from fubini.numerics.circuit_structure import CircuitStructure, Nodes
from fubini.numerics.circuit_values import root_values
from fubini.numerics.circuit_weights import (
    Weights,
    count_positive,
    divide_weights,
    divides_by_zero,
    eliminate_leaves,
    gather_weights,
    multiply_leaves,
    multiply_weights,
    ones,
    taken_leaves,
    with_constants,
)
from fubini.numerics.named_axes import align, gather
from fubini.numerics.scaled import Scaled, gauged
from fubini.numerics.vtree import Vtree
from fubini.terms.heads import DIVIDE, MULTIPLY

MOST_TABULATED = 12  # variables of a table that is made into a circuit
MOST_ELEMENTS = 2**20  # of a sum over names of the batch


class Matched(NamedTuple):
    """Two circuits over one vtree: their weights over one batch, and what their product has."""

    f: Circuit
    g: Circuit
    batch: dict[Name, Domain]
    slots: tuple[Name | None, ...]
    present: tuple[bool, ...]

    @property
    def weights(self) -> tuple[Weights, Weights]:
        """The weights of both, aligned."""
        return self.f.batched_over(tuple(self.batch)), self.g.batched_over(tuple(self.batch))

    @property
    def wide(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The variables that the first has eliminated and the second has not, and the other way round."""
        pairs = list(enumerate(zip(self.f.present, self.g.present, strict=True)))
        return tuple(k for k, (f, g) in pairs if g and not f), tuple(k for k, (f, g) in pairs if f and not g)


def matched(f: Circuit, g: Circuit) -> Matched | None:
    """Both over one batch, where they have one vtree with the same names; None where they do not."""
    f, g = without_names(f, g.batch), without_names(g, f.batch)
    if f.diagram.vtree != g.diagram.vtree:
        return None
    slots: list[Name | None] = []
    for one, two, has_one, has_two in zip(f.slots, g.slots, f.present, g.present, strict=True):
        if has_one and has_two and one != two:
            return None
        slots.append(one if has_one or not has_two else two)
    present = tuple(one or two for one, two in zip(f.present, g.present, strict=True))
    named = [slot for slot, is_there in zip(slots, present, strict=True) if is_there]
    batch = merge_inputs(f.batch_domains, g.batch_domains)
    if len(set(named)) != len(named):
        return None
    return Matched(f, g, batch, tuple(slots), present)


def without_names(f: Circuit, names: Sequence[Name]) -> Circuit:
    """The circuit with some of its variables as names of the batch."""
    own = [name for name in names if name in f.variables]
    return at_values(f, {name: (np.arange(2), (name,)) for name in own}, {n: Bint[2] for n in own}) if own else f


def nodes_of(f: Circuit, g: Circuit) -> str | None:
    """The nodes of a product; None where one adds up and the other takes maxima."""
    kinds = {f.nodes, g.nodes} - {DETERMINISTIC}
    return None if len(kinds) == 2 else next(iter(kinds), DETERMINISTIC)


# -- products -------------------------------------------------------------------------------------------------------


def multiply(f: Circuit, g: Circuit) -> Circuit | Table:
    """f·g over one vtree, over two side by side, or, of few variables, as a table over the other's vtree."""
    nodes, pair = nodes_of(f, g), matched(f, g)
    if nodes is None:
        return as_table_product(f, g)
    if pair is not None:
        return _multiply_matched(pair, nodes)
    f, g = without_names(f, g.batch), without_names(g, f.batch)
    if not set(f.variables) & set(g.variables):
        return _beside(f, g, nodes)
    small, large = sorted((f, g), key=lambda circuit: len(circuit.variables))
    if len(small.variables) > MOST_TABULATED:
        raise incompatible(f, g, "*")
    return multiply_by_table(large, to_table(small))


def incompatible(f: Circuit, g: Circuit, symbol: str) -> Intractable:
    """The error of two circuits over different vtrees."""
    shared = [name for name in f.variables if name in g.variables]
    return Intractable(
        f"{f} {symbol} {g}",
        expected="circuits over the same vtree, with the same names at its leaves",
        nearest=f"they share {listed(shared[:8])}, and their vtrees differ",
        advice=f"compile both with the same names in the same order and the same vtree=, or sum one down to at most "
        f"{MOST_TABULATED} variables",
    )


def as_table_product(f: Circuit, g: Circuit) -> Table:
    """f·g as a table; an error where there are too many cells."""
    return interpret(MULTIPLY, to_table(f), to_table(g))


def _multiply_matched(pair: Matched, nodes: str) -> Circuit | Table:
    f, g = pair.f, pair.g
    combined = multiply_structures(f.diagram, g.diagram, *pair.wide)
    mark = f.exactness | g.exactness
    if combined is None:
        return _zero(pair, nodes)
    a, b = pair.weights
    weights = multiply_weights(combined, *_taken(pair, combined), a, b)
    fields = {"slots": pair.slots, "present": pair.present, "batch": pair.batch, "nodes": nodes, "mark": mark}
    return Circuit._of(combined.structure, weights, f, **fields)


def _taken(pair: Matched, combined: Combined) -> tuple[Scaled, Scaled]:
    """The leaves of both operands in the order of the combined structure."""
    (a, b), (wide_a, wide_b) = pair.weights, pair.wide
    i, j = combined.leaves.T
    return taken_leaves(pair.f.diagram, a, i, wide_a), taken_leaves(pair.g.diagram, b, j, wide_b)


def _zero(pair: Matched, nodes: str) -> Circuit:
    """The circuit that is zero everywhere: every assignment without weight."""
    structure = _everything(pair.f.diagram.vtree, pair.present)
    a, b = pair.weights
    xp = namespace(*a, *b)
    weights = ones(structure)
    lead = (1,) * len(pair.batch)
    zeros = Weights(*(xp.zeros((*lead, *part.shape)) for part in weights))
    mark = pair.f.exactness | pair.g.exactness
    fields = {"slots": pair.slots, "present": pair.present, "batch": pair.batch, "nodes": nodes, "mark": mark}
    return Circuit._of(structure, zeros, pair.f, **fields)


def _everything(vtree: Vtree, present: Sequence[bool]) -> CircuitStructure:
    """The structure that admits all assignments of the variables that are present."""
    nodes = Nodes(vtree)
    structure = nodes.finish(nodes.true(vtree.root)).structure
    return structure.with_constants([k for k, is_there in enumerate(present) if not is_there])


def ones_over(f: Circuit) -> Circuit:
    """1 at every assignment of the variables of a circuit."""
    structure = _everything(f.diagram.vtree, f.present)
    xp = namespace(*f.weights_of_nodes)
    weights = Weights(*(xp.asarray(part) for part in ones(structure)))
    return Circuit._of(structure, weights, f, batch={}, nodes=DETERMINISTIC)


def _beside(f: Circuit, g: Circuit, nodes: str) -> Circuit:
    """f(x)·g(y), over a vtree with both below its root."""
    batch = merge_inputs(f.batch_domains, g.batch_domains)
    combined = join_structures(f.diagram, g.diagram)
    weights = gather_weights(combined, [circuit.batched_over(tuple(batch)) for circuit in (f, g)])
    fields = {"batch": batch, "nodes": nodes, "mark": f.exactness | g.exactness}
    slots = (*f.slots, *(slot if slot not in f.slots or there else None for slot, there in _slots(g)))
    slots = tuple(s if k >= len(f.slots) or f.present[k] or s not in g.slots else None for k, s in enumerate(slots))
    return Circuit._of(combined.structure, weights, f, slots=slots, present=(*f.present, *g.present), **fields)


def _slots(f: Circuit) -> list[tuple[Name | None, bool]]:
    return list(zip(f.slots, f.present, strict=True))


# -- tables ---------------------------------------------------------------------------------------------------------


def variables_of(f: Circuit, table: Table) -> list[Name]:
    """The names of a table that are variables of the circuit's vtree."""
    return [name for name, domain in table.inputs.items() if name in f.slots and domain.size == 2]


def multiply_by_table(f: Circuit, table: Table) -> Circuit | Table:
    """f·t: into the leaves of one variable, or as a circuit over the same vtree."""
    merge_inputs(f.inputs, table.inputs)
    own = variables_of(f, table)
    if len(own) > 1 or (own and own[0] not in f.variables):
        return multiply(f, table_over(f, table))
    rest = {name: domain for name, domain in table.inputs.items() if name not in own}
    batch = merge_inputs(f.batch_domains, rest)
    pair = gauged(table.aligned((*batch, *own)))
    if not own:
        pair = Scaled(*(part[..., None] for part in pair[:2]))
    leaves = f.diagram.variable == (f.position(own[0]) if own else 0)
    weights = multiply_leaves(f.batched_over(tuple(batch)), leaves, pair)
    return Circuit._of(f.diagram, weights, f, batch=batch, mark=f.mark | table.exactness)


def table_over(f: Circuit, table: Table) -> Circuit:
    """A table over some of the variables of a circuit as a circuit over the same vtree."""
    own = variables_of(f, table)
    if len(own) > MOST_TABULATED:
        raise Intractable(
            f"{f} * {table}",
            expected=f"tables over at most {MOST_TABULATED} variables of a circuit",
            nearest=f"this one has {len(own)}",
            advice="sum variables out first",
        )
    vtree = f.diagram.vtree
    structure, order, cells = tabulate(vtree, frozenset(map(f.position, own)))
    batch = {name: domain for name, domain in table.inputs.items() if name not in own}
    pair = gauged(table.aligned((*batch, *(f.slots[position] for position in order))))  # type: ignore[arg-type]
    flat = [part.reshape(*part.shape[: len(batch)], -1) for part in pair[:2]]
    xp = namespace(*flat)
    taken = (xp.take(part, np.maximum(cells, 0), axis=len(batch)) for part in flat)
    gone = [position for position in range(vtree.count) if position not in order]
    structure = structure.with_constants(gone)
    known = ones(structure)
    weights, shift = (xp.where(cells < 0, one, part) for one, part in zip(known[:2], taken, strict=True))
    theta = xp.zeros((*(1,) * len(batch), structure.size))
    present = tuple(position in order for position in range(vtree.count))
    fields = {"present": present, "batch": batch, "nodes": DETERMINISTIC, "mark": table.exactness}
    return Circuit._of(structure, Weights(weights, shift, theta), f, **fields)


# -- quotients ------------------------------------------------------------------------------------------------------


def divide(f: Circuit, g: Circuit) -> Circuit | Table:
    """f/g over one vtree, g deterministic, 0/0 = 0; an error where f is positive and g is zero."""
    pair = matched(f, g)
    if not g.is_deterministic or pair is None:
        if len({*f.variables, *g.variables}) > MOST_TABULATED:
            raise incompatible(f, g, "/") if g.is_deterministic else _not_a_divisor(f, g)
        return interpret(DIVIDE, to_table(f), to_table(g))
    combined = multiply_structures(pair.f.diagram, pair.g.diagram, *pair.wide)
    wide = pair.f.diagram.widened(pair.wide[0])
    every = np.ones(pair.f.size, bool)
    is_covered = combined is not None and combined.structure.supports == pair.f.diagram.count_models(wide, every)
    if combined is None:  # nowhere are both positive
        zero = _zero(pair, f.nodes)
        (leaves,) = require(_is_zero(pair)[..., None, None], lambda: _over_zero(f, g), zero._leaves)
        return Circuit._of(zero.diagram, zero.weights_of_nodes._replace(leaves=leaves), zero)
    x, y = _taken(pair, combined)
    a, b = pair.weights
    weights = divide_weights(combined, x, y, a, b)
    if is_traced(*a, *b, *x[:2], *y[:2]):
        ok = is_covered & ~divides_by_zero(combined, x, y, a, b)
    else:
        ok = _covers(pair, combined, x, y, is_covered)
    leaves, theta = (
        require(ok.reshape(*ok.shape, *[1] * event), lambda: _over_zero(f, g), part)[0]
        for part, event in ((weights.leaves, 2), (weights.log_theta, 1))
    )
    fields = {"slots": pair.slots, "present": pair.present, "batch": pair.batch, "mark": f.mark | g.mark}
    return Circuit._of(combined.structure, Weights(leaves, weights.shift, theta), pair.f, **fields)


def _is_zero(pair: Matched) -> Data:
    """Whether the first is zero everywhere, for each cell of the batch."""
    return root_values(pair.f.diagram, pair.weights[0], None, pair.f.nodes == MAXIMUM).weights == 0


def _covers(pair: Matched, combined: Combined, x: Scaled, y: Scaled, is_covered: bool) -> np.ndarray:
    """Whether f has as many assignments where g is positive as it has at all, for each cell of the batch."""
    a, b = pair.weights
    structure = pair.f.diagram
    own = concrete(taken_leaves(structure, a, np.arange(structure.leaves, dtype=np.int32), pair.wide[0]).weights) > 0
    theta = concrete(a.log_theta) > -np.inf
    i, j = combined.elements.T
    both = (concrete(x.weights) > 0) & (concrete(y.weights) > 0)
    steps = (concrete(a.log_theta)[..., i] > -np.inf) & (concrete(b.log_theta)[..., j] > -np.inf)
    if (both == combined.structure.support).all() and steps.all() and theta.all() and is_covered:
        return np.asarray(True)
    parts = ((structure, own, theta), (combined.structure, both, steps))
    counts = [count_positive(s, Weights(leaves, leaves, np.where(t, 0.0, -np.inf))) for s, leaves, t in parts]
    return np.asarray(counts[0] == counts[1])


def _over_zero(f: Circuit, g: Circuit | Table) -> DataError:
    return DataError(
        f"{f} / {g}: a positive number over zero",
        expected="a divisor that is positive wherever the dividend is (0/0 is 0)",
    )


def _not_a_divisor(f: Circuit, g: Circuit) -> Intractable:
    return Intractable(
        f"{f} / {g}",
        expected="a divisor that is deterministic (a PSDD)",
        nearest=f"variables of this one were eliminated: its nodes are {g.nodes} nodes, and a quotient by a sum is not "
        "a circuit of this size",
        advice=f"divide before the sum, or sum the divisor down to at most {MOST_TABULATED} variables",
    )


def divide_by_table(f: Circuit, table: Table) -> Circuit | Table:
    """f/t, 0/0 = 0; an error where f is positive and t is zero."""
    merge_inputs(f.inputs, table.inputs)
    if variables_of(f, table):
        return divide(f, table_over(f, table))
    batch = merge_inputs(f.batch_domains, table.inputs)
    pair = gauged(table.aligned(tuple(batch)))
    mass = root_values(f.diagram, f.batched_over(tuple(batch)), None, f.nodes == MAXIMUM)
    xp = namespace(*pair[:2], mass.weights)
    zero = pair.weights == 0
    (weights,) = require(~(zero & (mass.weights > 0)), lambda: _over_zero(f, table), pair.weights)
    inverse = xp.where(zero, 0.0, 1.0 / xp.where(zero, 1.0, weights))
    return multiply_by_table(f, Table._of(Scaled(inverse, -pair.shift), batch, table.exactness))


# -- sums, values ---------------------------------------------------------------------------------------------------


def eliminate_variables(f: Circuit, semiring: Semiring, names: Sequence[Name]) -> Circuit | Table:
    """⊕ over variables: their leaves become constants; a closed form remains where all are gone."""
    gone = [f.position(name) for name in names]
    is_maximum = semiring is max_product
    if len(gone) == len(f.positions):
        weights, shift, *_ = f.value_at(None, semiring)
        shape = tuple(domain.extent for domain in f.batch_domains.values())
        xp = namespace(weights, shift)
        spread = Scaled(*(xp.broadcast_to(part, shape) for part in (weights, shift)))
        return Table._of(spread, f.batch_domains, f.mark)
    weights = eliminate_leaves(f.diagram, f.weights_of_nodes, gone, semiring)
    present = tuple(is_there and k not in gone for k, is_there in enumerate(f.present))
    nodes = MAXIMUM if is_maximum else SUM
    remaining = Circuit._of(f.diagram.with_constants(gone), weights, f, present=present, nodes=nodes)
    return remaining if sum(present) > 1 else to_table(remaining)


def add(f: Circuit, g: Circuit) -> Circuit | Table:
    """f + g over one vtree: one root with the elements of both."""
    pair = matched(f, g)
    assert pair is not None, "the guard requires one vtree"
    parts = [_widened(circuit, pair) for circuit in (pair.f, pair.g)]
    combined = add_structures(tuple(part.diagram for part in parts))
    weights = gather_weights(combined, [part.batched_over(tuple(pair.batch)) for part in parts])
    fields = {"slots": pair.slots, "present": pair.present, "batch": pair.batch}
    return Circuit._of(combined.structure, weights, f, nodes=SUM, mark=f.mark | g.mark, **fields)


def _widened(f: Circuit, pair: Matched) -> Circuit:
    """The circuit over all variables that are present in a pair."""
    missing = [k for k, (own, there) in enumerate(zip(f.present, pair.present, strict=True)) if there and not own]
    slots = tuple(pair.slots[k] if k in missing else slot for k, slot in enumerate(f.slots))
    f = Circuit._of(f.diagram, f.weights_of_nodes, f, slots=slots)
    for position in missing:
        f = multiply_by_table(f, Table(np.ones(2), (slots[position],)))  # type: ignore[assignment,arg-type]
    return f


def eliminate_batch(f: Circuit, semiring: Semiring, names: Sequence[Name]) -> Circuit:
    """⊕ over names of the batch: a copy of the circuit for each of their cells, below one root."""
    sizes = [f.inputs[name].extent for name in names]
    count = int(np.prod(sizes))
    if count * f.size > MOST_ELEMENTS:
        raise Intractable(
            f"a sum over {listed(names)} of {f}",
            expected=f"at most {MOST_ELEMENTS:,} elements",
            nearest=f"a copy of {f.size:,} elements for each of {count:,} cells",
            advice="sum the variables of the circuit out first, or keep these names",
        )
    rest = {name: domain for name, domain in f.batch_domains.items() if name not in names}
    weights = f.batched_over((*names, *rest))
    parts = [
        Weights(*(part[tuple(0 if part.shape[k] == 1 else at for k, at in enumerate(cell))] for part in weights))
        for cell in cells_of(*map(range, sizes))
    ]
    combined = add_structures((f.diagram,) * count)
    nodes = MAXIMUM if semiring is max_product else SUM
    return Circuit._of(combined.structure, gather_weights(combined, parts), f, batch=rest, nodes=nodes)


def at_values(f: Circuit, indices: Mapping[Name, tuple[Data, tuple[Name, ...]]], domains: Mapping) -> Circuit:
    """f at x = v(j): the leaves of x become constants, gathered along j."""
    fresh = {name: domains[name] for _, names in indices.values() for name in names}
    batch = merge_inputs(f.batch_domains, fresh)
    weights, structure = f.batched_over(tuple(batch)), f.diagram
    gone = [f.position(name) for name in indices]
    for name, (index, names) in indices.items():
        at = align(index, names, tuple(batch))[..., None]
        xp = namespace(*weights, at)
        pair = gauged(weights.pair)
        mark = xp.where(at < 0, xp.nan, 1.0)  # of an index out of range, in a trace
        chosen = [xp.where(at == 1, part[..., 1], part[..., 0]) for part in pair[:2]]
        weights = with_constants(structure, weights, [f.position(name)], Scaled(chosen[0] * mark, chosen[1]))
    present = tuple(is_there and k not in gone for k, is_there in enumerate(f.present))
    return Circuit._of(structure.with_constants(gone), weights, f, present=present, batch=batch)


def gather_batch(f: Circuit, indices: Mapping[Name, tuple[Data, tuple[Name, ...]]], domains: Mapping) -> Circuit:
    """f at i = v(j), i a name of the batch: the weights gathered along j."""
    extents = tuple(domain.extent for domain in f.batch_domains.values())
    parts: list[Data] = []
    order: tuple[Name, ...] = ()
    for part, event in zip(f.weights_of_nodes, (2, 2, 1), strict=True):
        full = namespace(part).broadcast_to(part, (*extents, *part.shape[part.ndim - event :]))
        taken, order = gather(full, f.batch_domains, indices)
        parts.append(taken)
    known = {**f.batch_domains, **domains}
    return Circuit._of(f.diagram, Weights(*parts), f, batch={name: known[name] for name in order})
