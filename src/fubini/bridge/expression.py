"""Expressions: nodes of index notation as Values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data, is_jax, is_traced
from fubini.domains import Bint, Domain, Real, merge_inputs
from fubini.index.axes import aligned
from fubini.index.lower import Evaluation
from fubini.index.node import Index, Leaf, Node
from fubini.interpretations import current
from fubini.read.leaf_arrays import LeafArrays
from fubini.read.reader import Reader
from fubini.terms.exactness import Exactness, combined, exactly
from fubini.terms.named import align
from fubini.terms.notation import Notation, Symbol
from fubini.terms.term import Name
from fubini.terms.value import Array, Value, Variable, substitute_owner, to_array


class Expression(Value):
    """A node as a Value: an array over the indices `event`, with a named axis for each of `axes`.

    `slots[k]` is the leaf that `args[k]` stands for; `reader` knows how leaves that were not read come from others;
    `mark` is the exactness of the factors it was read from.
    """

    _term_fields = ("args",)
    _static_fields = ("node", "event", "slots", "axes", "names", "reader", "output", "mark")
    args: tuple[Value, ...]
    node: Node
    event: tuple[Index, ...]
    slots: tuple[Leaf, ...]
    axes: tuple[Index, ...]
    names: tuple[Name, ...]
    reader: Reader
    mark: Exactness

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
        """That of what it was read from."""
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
        data = [child.array for child in children]
        if self._is_on_jax(data) or self.reader.opaque or outer:
            found = self._on_jax(children, tuple(outer))
        else:
            with np.errstate(all="ignore"):
                found = self._evaluated(data, np)
        names = (*outer, *self.names)
        inputs: dict[Name, Domain] = {**outer, **{name: self.inputs[name] for name in self.names}}
        return Array._of(found, names, inputs, self.output)

    def _is_on_jax(self, data: Sequence[Data]) -> bool:
        known = self.reader.known
        return any(map(is_jax, data)) or any(leaf in known and is_traced(known[leaf]) for leaf in self.node.leaves)

    def _on_jax(self, children: Sequence[Array], outer: tuple[Name, ...]) -> Data:
        """Mapped over the names of the arguments; NumPy's numbers in double precision, and back."""

        def run(*data: Data) -> Data:
            return self._evaluated(data, jnp)

        function: Any = run
        for name in reversed(outer):
            function = jax.vmap(function, in_axes=tuple(0 if name in child.names else None for child in children))
        data = [
            align(child.array, child.names, [name for name in outer if name in child.names], len(child.output.shape))
            for child in children
        ]
        if self._is_on_jax(data):
            return function(*map(jnp.asarray, data))
        with jax.enable_x64(True), jax.ensure_compile_time_eval():
            return np.asarray(function(*map(jnp.asarray, data)))

    def _evaluated(self, data: Sequence[Data], xp: Any) -> Data:
        arrays = LeafArrays(dict(zip(self.slots, data, strict=True)), self.reader)
        order = (*self.axes, *self.event)
        found = Evaluation(arrays, xp=xp).of(self.node)
        return xp.broadcast_to(aligned(found, order), tuple(index.size for index in order))

    def notation(self) -> Notation:
        return Symbol(repr(self.node))


def computed(value: Value) -> Value:
    """The value, as an array where its arguments are arrays and the interpretation computes."""
    arrays = all(isinstance(child, Array) for child in value.children)
    return to_array(value) if arrays and not current().records else value
