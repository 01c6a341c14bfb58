"""Diagram: a factor over bounded integers as a multi-valued decision diagram, small where many cells are equal.

The nodes are static data. The numbers are a Table of terminals, whose other names are a *batch*: one diagram for all of
its cells. Terminals of equal weight are merged where weights are known; in a trace the nodes come from the operands
alone, and a number may stand at several terminals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from fubini.base.arrays import Data, is_traced, require_room
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound, Name
from fubini.errors import NameClash, listed
from fubini.factors.finite_storage import DiagramStorage, extents_of, round_up
from fubini.factors.table import Axes, Table
from fubini.numerics.decision_nodes import Nodes, from_cells, reduce_nodes, to_cells, unique_rows
from fubini.numerics.decision_refinement import cofactors, move_to_end, restrict
from fubini.numerics.scaled import SAFE_LOG, Scaled, bounded, gauged
from fubini.show.notation import Call, Notation, Symbol
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor
from fubini.terms.fields import static_field, term_field
from fubini.terms.storage import Storage
from fubini.terms.term import typed_names
from fubini.terms.value import Value


class _Axis(Bound):
    """The name of an axis of terminals: one object, also after pickling."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return self.label.upper()


TERMINAL = _Axis("terminal")  # the last axis of the table of terminals
OPERAND = _Axis("operand")  # the axis along which the terminals of several operands stand


Fold = Callable[[Table, tuple[Name, ...]], Table]  # over the names
Change = Callable[[Table], Table]  # of the numbers


def _unchanged(table: Table) -> Table:
    return table


class Diagram(Factor):
    """f(x) = the weight of the terminal that the values of x lead to, from the root; `names` are the levels in order.

    `order` has names beside its own: diagrams that are given one order keep to it in all that is made of them.

    >>> f = Diagram([[0.5, 0.5], [0.25, 0.5]], ("a", "b"))
    >>> f
    Diagram(a: Bint[2], b: Bint[2], nodes=2, terminals=2)
    >>> float(f.sum("a", "b"))
    1.75
    """

    names: tuple[Name, ...] = static_field()
    order: tuple[Name, ...] = static_field()
    nodes: Nodes = static_field()
    terminals: Table = term_field()

    def __init__(self, weights: Data, names: Axes = (), *, order: Sequence[Name] = ()) -> None:
        made = Diagram.from_table(Table(weights, names), order)
        self.__dict__.update(made.__dict__)

    @classmethod
    def from_table(cls, table: Table, order: Sequence[Name] = (), batch: Sequence[Name] = ()) -> Diagram:
        """The reduced diagram of a table; levels in the order of the names in `order`, then in that of the axes.

        >>> Diagram.from_table(fb.Table([[1.0, 2.0], [1.0, 2.0]], ("a", "b")), order=("b", "a")).node_count
        1
        """
        if len(set(order)) != len(order):
            raise NameClash(f"a Diagram with levels {listed(order)}", expected="different names")
        known = set(order)
        order = (*order, *(name for name in table.names if name not in known and name not in batch))
        levels = [name for name in order if name in table.inputs and name not in batch]
        table = table.transposed([*(name for name in table.names if name in batch), *levels])
        sizes = [table.inputs[name].extent for name in levels]
        outer = {name: table.inputs[name] for name in table.names if name in batch}
        flat = _reshaped(table, outer, {TERMINAL: int(np.prod(sizes))})
        nodes = from_cells(np.arange(flat.inputs[TERMINAL].extent).reshape(sizes), flat.inputs[TERMINAL].extent)
        return cls._of(levels, nodes, flat, table.inputs, order)

    @classmethod
    def _of(
        cls,
        names: Sequence[Name],
        nodes: Nodes,
        terminals: Table,
        domains: Mapping[Name, Domain],
        order: tuple[Name, ...],
    ) -> Diagram:
        """Make a diagram from numerics; terminals that are known to be equal are merged."""
        nodes, terminals = _merged(nodes, _portable(_with_terminals_last(terminals)))
        batch = {name: domain for name, domain in terminals.inputs.items() if name is not TERMINAL}
        new = object.__new__(cls)
        inputs = {**batch, **{name: domains[name] for name in names}}
        new._set(names=tuple(names), order=order, nodes=nodes, terminals=terminals, inputs=inputs)
        return new

    @property
    def node_count(self) -> int:
        """The number of nodes, terminals left out.

        >>> Diagram([[1.0, 2.0], [2.0, 1.0]], ("a", "b")).node_count
        3
        """
        return self.nodes.count

    @property
    def terminal_count(self) -> int:
        """The number of terminals.

        >>> Diagram([[1.0, 2.0], [2.0, 1.0]], ("a", "b")).terminal_count
        2
        """
        return self.nodes.terminals

    @property
    def entry_count(self) -> int:
        """The numbers stored: the children of all nodes, and the weights of terminals.

        >>> Diagram([[1.0, 2.0], [2.0, 1.0]], ("a", "b")).entry_count
        8
        """
        return sum(rows.size for rows in self.nodes.children) + self.terminals.pair.weights.size

    @property
    def batch(self) -> tuple[Name, ...]:
        """The inputs that are no levels: for each of their values there are other weights at the same nodes.

        >>> Diagram([[1.0, 2.0], [2.0, 1.0]], ("a", "b"))(a=fb.Array([0, 1, 1], ("i",), fb.Bint[2])).batch
        ('i',)
        """
        return tuple(name for name in self.inputs if name not in self.names)

    @property
    def weights(self) -> Data:
        """The weight of every cell, axes in the order of `inputs`.

        >>> Diagram([[1.0, 2.0], [2.0, 1.0]], ("a", "b")).weights
        array([[1., 2.],
               [2., 1.]])
        """
        return to_table(self).weights

    @property
    def storage(self) -> Storage:
        return DiagramStorage(extents_of(self.inputs), round_up(self.entry_count))

    @property
    def is_known_zero(self) -> bool:
        return self.terminals.is_known_zero

    def _renamed(self, names: Mapping[Name, Name]) -> Diagram:
        levels = tuple(names.get(name, name) for name in self.names)
        domains = {names.get(name, name): self.inputs[name] for name in self.names}
        batch = {old: new for old, new in names.items() if old in self.terminals.inputs}
        terminals = self.terminals._renamed(batch) if batch else self.terminals
        others = {name for name in self.order if name not in self.names and name not in names.values()}
        order = tuple(names.get(name, name) for name in self.order if name in self.names or name in others)
        return Diagram._of(levels, self.nodes, terminals, domains, order)

    def _marked(self, mark: Exactness) -> Diagram:
        return self.weighted(self.terminals._marked(mark))

    def _evaluated(self, children: tuple) -> Factor:
        return self.weighted(children[0])

    def notation(self) -> Notation:
        counts = (("nodes", Symbol(str(self.node_count))), ("terminals", Symbol(str(self.terminal_count))))
        return Call("Diagram", typed_names(self.inputs), counts)

    def _log(self) -> Value:
        return to_table(self)._log()

    def _mean(self, name: Name) -> Value:
        return to_table(self)._mean(name)

    def _covariance(self, name: Name) -> Value:
        return to_table(self)._covariance(name)

    def _entropy(self) -> Value:
        return to_table(self)._entropy()

    def _kl(self, other: Factor) -> Value:
        return to_table(self)._kl(to_table(other) if isinstance(other, Diagram) else other)

    # -- levels -----------------------------------------------------------------------------------------------------

    def ordered(self, order: Sequence[Name]) -> Diagram:
        """The same function with its levels in the order of the names in `order`, then as they are.

        >>> Diagram([[1.0, 2.0], [3.0, 3.0]], ("a", "b")).ordered(("b", "a")).node_count
        3
        """
        if tuple(order) == self.order:
            return self
        known = set(order)
        order = (*order, *(name for name in self.order if name not in known))
        names = [name for name in order if name in self.names]
        nodes, left = self.nodes, list(self.names)
        kept = next((k for k, (old, new) in enumerate(zip(left, names, strict=True)) if old != new), len(names))
        for name in names[kept:]:
            nodes = move_to_end(nodes, left.index(name))
            left.append(left.pop(left.index(name)))
        return Diagram._of(names, nodes, self.terminals, self.inputs, order)

    def with_batch(self, names: Iterable[Name]) -> Diagram:
        """The same function with some levels as names of the batch.

        f(x, y) = w(x, t(y)), where the levels of y lead to the terminals of all f(x = v, ·) together.
        """
        moved = set(self.names).intersection(names)
        if not moved:
            return self
        levels, nodes, terminals = list(self.names), self.nodes, self.terminals
        for name in [name for name in self.names if name in moved]:
            nodes, tuples = cofactors(nodes, levels.index(name))
            terminals = take(terminals, tuples)._renamed({OPERAND: name})
            domains = {other: self.inputs.get(other, domain) for other, domain in terminals.inputs.items()}
            terminals = Table._of(terminals.pair, domains, terminals.exactness)
            levels.remove(name)
        return Diagram._of(levels, nodes, terminals, self.inputs, self.order)

    def restricted(self, values: Mapping[Name, int]) -> Factor:
        """f(x = v, ·) for known values of some levels."""
        levels, nodes, terminals = list(self.names), self.nodes, self.terminals
        for name, value in values.items():
            nodes, tuples = restrict(nodes, levels.index(name), value)
            terminals = take(terminals, tuples[:, 0])
            levels.remove(name)
        return Diagram._of(levels, nodes, terminals, self.inputs, self.order).simplified()

    def folded(
        self, names: Sequence[Name], fold: Fold, embed: Change = _unchanged, read: Change = _unchanged
    ) -> Factor:
        """A commutative operation over all values of some names, the last level first: a fold of its cofactors."""
        levels, nodes, terminals = list(self.names), self.nodes, embed(self.terminals)
        for name in [name for name in reversed(self.names) if name in names]:
            nodes, tuples = cofactors(nodes, levels.index(name), is_symmetric=True)
            nodes, terminals = _merged(nodes, fold(take(terminals, tuples), (OPERAND,)))
            levels.remove(name)
        batch = tuple(name for name in names if name not in self.names)
        terminals = read(fold(terminals, batch) if batch else terminals)
        return Diagram._of(levels, nodes, terminals, self.inputs, self.order).simplified()

    def weighted(self, terminals: Table) -> Diagram:
        """The same nodes with other weights."""
        return Diagram._of(self.names, self.nodes, terminals, self.inputs, self.order)

    def simplified(self) -> Factor:
        """The diagram, or, where it has no level, the table of its batch."""
        return self if self.names else self.terminals.at({TERMINAL: self.nodes.root})


def take(terminals: Table, index: np.ndarray) -> Table:
    """The terminals at an index; along the axis `OPERAND` where there is a tuple of them for each terminal."""
    terminals = _with_terminals_last(terminals)
    weights, shift, low, high = terminals.pair
    shift = shift[..., index] if np.ndim(shift) else shift
    outer = {name: domain for name, domain in terminals.inputs.items() if name is not TERMINAL}
    inner = dict(zip((TERMINAL, OPERAND), map(Bint.__getitem__, index.shape), strict=False))
    return Table._of(Scaled(weights[..., index], shift, low, high), {**outer, **inner}, terminals.exactness)


def _with_terminals_last(terminals: Table) -> Table:
    return terminals.transposed([*(name for name in terminals.names if name is not TERMINAL), TERMINAL])


def _portable(terminals: Table) -> Table:
    """NumPy's numbers as single precision holds them too: their range is in the shift where it is wide."""
    pair = terminals.pair
    if type(pair.weights) is not np.ndarray or not pair.is_linear or _is_narrow(pair):
        return terminals
    pair = bounded(pair)  # the bounds of a product are loose
    return Table._of(pair if _is_narrow(pair) else gauged(pair), terminals.inputs, terminals.exactness)


def _is_narrow(pair: Scaled) -> bool:
    return abs(pair.low) < SAFE_LOG["float32"] and abs(pair.high) < SAFE_LOG["float32"]


def _reshaped(table: Table, outer: Mapping[Name, Domain], inner: Mapping[Name, int]) -> Table:
    """The table with the axes that follow the outer ones in another shape."""
    weights, shift, low, high = table.pair
    shape = (*(domain.extent for domain in outer.values()), *inner.values())
    shift = shift.reshape(shape) if np.ndim(shift) else shift
    domains = {**outer, **{name: Bint[size] for name, size in inner.items()}}
    return Table._of(Scaled(weights.reshape(shape), shift, low, high), domains, table.exactness)


def _merged(nodes: Nodes, terminals: Table) -> tuple[Nodes, Table]:
    """The reduced diagram with each number once, where the numbers are known; the terminals have their axis last."""
    weights, shift, *_ = terminals.pair
    if is_traced(weights, shift) or nodes.terminals == 1:
        return nodes, terminals
    columns = np.asarray(weights).reshape(-1, nodes.terminals)
    if np.ndim(shift):
        shifts = np.asarray(shift).reshape(-1, nodes.terminals)
        columns = np.concatenate([columns, np.where(columns == 0, 0.0, shifts)])
    different, classes = unique_rows((columns.T + 0.0).view(f"i{columns.itemsize}"))  # + 0.0: a zero has no sign
    if len(different) == nodes.terminals:
        return nodes, terminals
    first = np.full(len(different), nodes.terminals)
    np.minimum.at(first, classes, np.arange(nodes.terminals))
    rank = np.argsort(np.argsort(first))  # in order of appearance: which numbers are equal decides, not their size
    return reduce_nodes(nodes, rank[classes], len(different)), take(terminals, np.sort(first))


def to_table(f: Diagram) -> Table:
    """The table of a diagram, where memory holds all its cells."""
    batch = {name: f.inputs[name] for name in f.batch}
    shape = [domain.extent for domain in f.inputs.values()]
    require_room(f"the {int(np.prod(shape, dtype=object)):,} cells of {f}", tuple(shape))
    cells = to_cells(f.nodes)
    table = _reshaped(take(f.terminals, cells.reshape(-1)), batch, dict(zip(f.names, cells.shape, strict=True)))
    return Table._of(table.pair, f.inputs, table.exactness)
