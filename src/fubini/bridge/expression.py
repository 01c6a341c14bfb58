"""Expressions: nodes of index notation as Values."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.algebra.axes import Axes, aligned
from fubini.algebra.constant_parts import QUICK, largest
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.mesh_sums import rows_beside, without_rows
from fubini.algebra.node import Index, Leaf, Node
from fubini.base.arrays import Data, double_precision, in_force, is_jax, is_traced, is_tracing
from fubini.base.domains import Bint, Domain, Real, merge_inputs
from fubini.base.interpretations import current
from fubini.base.names import Name
from fubini.numerics.named_axes import align
from fubini.read.jaxpr_reader import Reader
from fubini.read.leaf_arrays import LeafArrays, sums_over_mesh
from fubini.show.notation import Notation, Symbol
from fubini.terms.exactness import Exactness, combined, exactly
from fubini.terms.fields import static_field, term_field
from fubini.terms.value import Array, Value, Variable, substitute_owner, to_array

KEPT = 64
FEW_CELLS = 64  # of the names of arguments: fewer are computed one by one sooner than compiled
_COMPILED: dict[tuple, Callable[..., Data]] = {}  # functions of the data, by all else of an expression


class Expression(Value):
    """A node as a Value: an array over the indices `event`, with a named axis for each of `axes`.

    `slots[k]` is the leaf that `args[k]` stands for; `reader` knows how leaves that were not read come from others;
    `mark` is the exactness of the factors it was read from.
    """

    args: tuple[Value, ...] = term_field()
    node: Node = static_field()
    event: tuple[Index, ...] = static_field()
    slots: tuple[Leaf, ...] = static_field()
    axes: tuple[Index, ...] = static_field()
    names: tuple[Name, ...] = static_field()
    reader: Reader = static_field()
    mark: Exactness = static_field()

    def __init__(
        self,
        node: Node,
        slots: Mapping[Leaf, Value],
        reader: Reader,
        axes: Mapping[Index, Name] | None = None,
        event: Sequence[Index] = (),
        output: Domain = Real,
        mark: Exactness = exactly,
    ) -> None:
        named = {index: name for index, name in (axes or {}).items() if index in node.free}
        own: dict[Name, Domain] = {name: Bint[index.size] for index, name in named.items()}
        self._set(
            node=node,
            event=tuple(event),
            slots=tuple(slots),
            args=tuple(slots.values()),
            axes=tuple(named),
            names=tuple(named.values()),
            reader=reader,
            mark=mark,
            output=output.with_shape(tuple(index.size for index in event)),
            inputs=merge_inputs(own, *(arg.inputs for arg in slots.values())),
        )

    def _with(self, args: Sequence[Value], names: Sequence[Name]) -> Expression:
        slots, axes = dict(zip(self.slots, args, strict=True)), dict(zip(self.axes, names, strict=True))
        return Expression(self.node, slots, self.reader, axes, self.event, self.output.with_shape(()), self.mark)

    @property
    def exactness(self) -> Exactness:
        """The exactness of the term that it was read from."""
        return combined(self.args) | self.mark

    def _remade(self, children: tuple) -> Value:
        return computed(self._with(children, self.names))

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        others = {name: value for name, value in values.items() if name not in self.names}
        args = [arg.replaced(others) for arg in self.args]
        taken = {name for arg in args for name in arg.inputs}
        new = {name: value.name for name, value in values.items() if isinstance(value, Variable)}
        names = [new.get(name, name) for name in self.names]
        if len(set(names)) == len(names) and not taken & set(names):
            moved = {name: value for name, value in values.items() if name in self.names and name not in new}
            made = computed(self._with(args, names))
            return substitute_owner(made, moved) if moved else made
        return substitute_owner(self._with(args, self.names), {n: v for n, v in values.items() if n in self.names})

    def _ground(self, *children: Array) -> Array:
        outer = merge_inputs(*(child.inputs for child in children))
        names = (*outer, *self.names)
        inputs: dict[Name, Domain] = {**outer, **{name: self.inputs[name] for name in self.names}}
        return Array._of(self._numbers(children, tuple(outer)), names, inputs, self.output)

    def _numbers(self, children: Sequence[Array], outer: tuple[Name, ...]) -> Data:
        """Compute on the trace in progress, compiled, or by NumPy in double precision where that is quicker."""
        data = [
            align(child.array, child.names, [name for name in outer if name in child.names], len(child.output.shape))
            for child in children
        ]
        known = [*(self.reader.known[leaf] for leaf in self._known), *(axes.data for axes in self._sums.values())]
        if is_traced(*data, *known):
            return self._mapped(children, outer)(*map(jnp.asarray, (*data, *known)))
        if any(map(is_jax, data)):
            return self._compiled(children, outer)(*map(jnp.asarray, (*data, *known)))
        if not without_rows([self.node], self._sums, self.reader.placed):
            with double_precision(), eval_context():
                numbers = self._compiled(children, outer)(*map(jnp.asarray, (*data, *known)))
            return in_force(jax.block_until_ready(numbers))
        with double_precision(), eval_context(), np.errstate(all="ignore"):
            if not self._is_quick or self.reader.opaque or self._cells(children) > FEW_CELLS:
                return np.asarray(self._compiled(children, outer)(*map(jnp.asarray, (*data, *known))))
            return self._cell_by_cell(children, outer, known)

    def in_program(self) -> Array | None:
        """Numbers of rows on a mesh as the program in progress computes them; None of others, and outside of one.

        Computed before it, rows that devices do not divide would lie whole on each device.
        """
        if without_rows([self.node], self._sums, self.reader.placed) or not is_tracing():
            return None
        known = [*(self.reader.known[leaf] for leaf in self._known), *(axes.data for axes in self._sums.values())]
        with double_precision():
            data = self._evaluated([*map(jnp.asarray, known)], jnp)
        return Array._of(in_force(data), self.names, {name: self.inputs[name] for name in self.names}, self.output)

    def _cells(self, children: Sequence[Array]) -> int:
        return math.prod(domain.extent for domain in merge_inputs(*(child.inputs for child in children)).values())

    def _cell_by_cell(self, children: Sequence[Array], outer: tuple[Name, ...], known: Sequence[Data]) -> Data:
        """Compute by NumPy, one cell of the names of the arguments after another."""
        domains = merge_inputs(*(child.inputs for child in children))
        shape = tuple(domains[name].extent for name in outer)
        entries = []
        for cell in np.ndindex(*shape):
            at = dict(zip(outer, cell, strict=True))
            data = [np.asarray(child.array)[tuple(at[name] for name in child.names)] for child in children]
            entries.append(self._evaluated((*data, *known), np))
        return np.stack(entries).reshape((*shape, *np.shape(entries[0]))) if outer else entries[0]

    @cached_property
    def _known(self) -> tuple[Leaf, ...]:
        """The leaves of numbers that it does not take as arguments; of rows on a mesh those that no sum stands for."""
        used = {leaf for leaf in self.reader.known if leaf in self.node.leaves and leaf not in self.slots}
        placed = self.reader.placed
        gone = placed.keys() - rows_beside([self.node], self._sums, placed) if placed else ()
        return tuple(leaf for leaf in self.reader.known if leaf in used and leaf not in gone)

    @cached_property
    def _sums(self) -> dict[Node, Axes]:
        """The sums over rows on a mesh in it."""
        return sums_over_mesh(self.reader, [self.node])

    @cached_property
    def _is_quick(self) -> bool:
        return all(size <= most for size, most in zip(largest([self.node], self._sums), QUICK, strict=True))

    def _mapped(self, children: Sequence[Array], outer: tuple[Name, ...]) -> Callable[..., Data]:
        """Map the function along the names of the arguments."""
        function: Callable[..., Data] = lambda *data: self._evaluated(data, jnp)  # noqa: E731
        for name in reversed(outer):
            along = [0 if name in child.names else None for child in children]
            function = jax.vmap(function, in_axes=(*along, *[None] * (len(self._known) + len(self._sums))))
        return function

    def _compiled(self, children: Sequence[Array], outer: tuple[Name, ...]) -> Callable[..., Data]:
        """Compile once for expressions that differ in their numbers alone."""
        along = tuple(tuple(name in child.names for name in outer) for child in children)
        fields = (value for name, value in self._statics().items() if name not in ("mark", "reader"))
        key = (id(self.reader), type(self), *fields, along)
        compiled = _COMPILED.get(key)
        if compiled is None:
            weakref.finalize(self.reader, _COMPILED.pop, key, None)
            compiled = _COMPILED[key] = jax.jit(self._bare()._mapped(children, outer))
            if len(_COMPILED) > KEPT:
                del _COMPILED[next(iter(_COMPILED))]
        return compiled

    def _bare(self) -> Expression:
        """Drop the numbers, since compiled code is kept longer than these."""
        bare = object.__new__(type(self))
        kept = {"_known": self._known, "_sums": self._sums}
        bare.__dict__.update({**self._statics(), "reader": copy(self.reader)}, inputs=self.inputs, **kept)
        bare.reader.known, bare.reader.sums = {}, {}
        return bare

    def _evaluated(self, data: Sequence[Data], xp: Any) -> Data:
        order = (*self.axes, *self.event)
        entries = self._evaluation(data, xp).of(self.node)
        return xp.broadcast_to(aligned(entries, order), tuple(index.size for index in order))

    def at_arguments(self) -> Evaluation | None:
        """An evaluation at arguments that are arrays without names, on NumPy unless they are traced; else None."""
        if not all(isinstance(arg, Array) and not arg.names for arg in self.args):
            return None
        data = [arg.array for arg in self.args if isinstance(arg, Array)]
        known = [*(self.reader.known[leaf] for leaf in self._known), *(axes.data for axes in self._sums.values())]
        return self._evaluation((*data, *known), jnp if is_traced(*data, *known) else np)

    def _evaluation(self, data: Sequence[Data], xp: Any) -> Evaluation:
        leaves = (*self.slots, *self._known)
        given = dict(zip(leaves, data, strict=False))
        sums = zip(self._sums.items(), data[len(leaves) :], strict=True)
        before = {this: Axes(numbers, axes.of) for (this, axes), numbers in sums}
        return Evaluation(LeafArrays(given, self.reader), before, xp)

    def notation(self) -> Notation:
        return Symbol(repr(self.node))


def computed(value: Value) -> Value:
    """The value, as an array where its arguments are arrays and the interpretation computes."""
    arrays = all(isinstance(child, Array) for child in value.children)
    return to_array(value) if arrays and not current().records else value
