"""Values of a model at one step of time: entries of its sites there are variables before and after the step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fubini.algebra.binding import remade
from fubini.algebra.build import ONE, ZERO, get, index, plus
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.walk import rewrite
from fubini.base.arrays import Data, is_jax, is_traced
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.bridge.expression import Expression
from fubini.models.reading import Reading
from fubini.questions.time_cells import NotInCells
from fubini.read.symbolic_array import SymbolicArray
from fubini.terms.value import Array, Value, Variable


class TimeState(NamedTuple):
    """A site along time: its entry before a step and after it, each as a variable and the leaf that stands for it."""

    before: Variable
    after: Variable
    before_leaf: Leaf
    after_leaf: Leaf


class StepValues:
    """Symbolic arrays as Values, at the first time, or before and after the steps along an index."""

    def __init__(
        self,
        reading: Reading,
        states: Mapping[Leaf, TimeState],
        numbers: Callable[[Any], Data],
        steps: Index | None,
        time: Name,
    ) -> None:
        self.reading, self.states, self.numbers = reading, states, numbers
        self.axes = {} if steps is None else {steps: time}
        self.here = ZERO if steps is None or steps.size == 1 else index(steps)
        self.is_first = steps is None
        self.variables: dict[Leaf, Variable] = {
            leaf: Variable(name, reading.domains[name]) for name, leaf in reading.sites.items() if leaf not in states
        }
        for state in states.values():
            self.variables |= {state.before_leaf: state.before, state.after_leaf: state.after}

    def array(self, array: SymbolicArray, domain: Domain) -> Value:
        """A symbolic array as a Value."""
        if array.constant is not None and not is_traced(array.constant):
            return Array(self.numbers(array.constant), (), domain.with_shape(array.shape))
        event = tuple(Index(size) for size in array.shape)
        return self.value(array.at(*map(index, event)), event, domain.with_shape(()))

    def value(self, node: Node, event: Sequence[Index], domain: Domain) -> Value:
        """A node over some indices as a Value: a variable where it is nothing else."""
        node = rewrite(node, self._at_step)
        entry = tuple(ZERO if i.size == 1 else index(i) for i in event)
        leaf = node.args[0] if node.kind == "get" else None
        if leaf in self.variables and node.args[1:] == entry:
            return self.variables[leaf]
        slots = {leaf: variable for leaf, variable in self.variables.items() if leaf in node.leaves}
        made = Expression(node, slots, self.reading.reader, self.axes, event, domain)
        if slots:
            return made
        known = made.in_program()
        if known is None:
            known = made._ground()
        data = known.array if is_jax(known.array) else self.numbers(known.array)
        data = data.astype(int) if domain.is_discrete else data
        return Array._of(data, known.names, known.inputs, known.output)

    def _at_step(self, this: Node, visit: Callable[[Node], Node]) -> Node:
        """Entries of states at the place of the step, as those before and after it."""
        if this.kind == "get":
            leaf, *places = this.args
            if leaf in self.states:
                return get(self._entry(leaf, visit(places[0])), *map(visit, places[1:]))
            if leaf.of & set(self.states):
                raise NotInCells(f"{leaf.name}, a function that is not read")
        return remade(this, visit)

    def _entry(self, leaf: Leaf, place: Node) -> Leaf:
        state = self.states[leaf]
        if place is self.here:
            return state.before_leaf
        if not self.is_first and place is plus(self.here, ONE):
            return state.after_leaf
        raise NotInCells(f"{leaf.name}[{place}]")
