"""Constraints compiled to circuits: sentential decision diagrams by the library PySDD (Darwiche 2011)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fubini.errors import FubiniError
from fubini.numerics.circuit_structure import CircuitStructure, Nodes
from fubini.numerics.vtree import Vtree

Diagram = Any  # a node of PySDD's
Constraint = Callable[[Any], Diagram]  # from its manager


def compile_constraints(vtree: Vtree, constraints: Sequence[Constraint]) -> CircuitStructure | None:
    """The structure of the conjunction of constraints; None where they contradict each other."""
    manager, diagram = compile_diagram(vtree, constraints)
    structure = None if diagram.is_false() else to_structure(vtree, diagram)
    del manager  # not before
    return structure


def compile_diagram(vtree: Vtree, constraints: Sequence[Constraint]) -> tuple[Any, Diagram]:
    """A manager of PySDD's, which must outlive its diagrams, and the diagram of the conjunction of constraints."""
    manager = _manager(vtree)
    diagram = manager.true()
    for constraint in constraints:
        diagram = diagram & constraint(manager)
        if diagram.is_false():
            break
    return manager, diagram


def _manager(vtree: Vtree) -> Any:
    library = _pysdd()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "constraints.vtree"
        path.write_text(_vtree_text(vtree))
        manager = library.SddManager.from_vtree(library.Vtree.from_file(bytes(path)))
    manager.auto_gc_and_minimize_off()
    return manager


def _pysdd() -> Any:
    try:
        from pysdd import sdd  # type: ignore[attr-defined]
    except ImportError as error:
        raise FubiniError(
            "a circuit from constraints",
            expected="the library PySDD, which compiles them",
            advice="install it: pip install 'fubini[circuits]'",
        ) from error
    return sdd  # type: ignore[reportUnknownVariableType]


def _vtree_text(vtree: Vtree) -> str:
    """The vtree in the format of the SDD library: children before parents, variables from 1."""
    lines = [f"vtree {len(vtree.left)}"]
    for node, variable in enumerate(vtree.variable):
        inner = f"I {node} {vtree.left[node]} {vtree.right[node]}"
        lines.append(f"L {node} {variable + 1}" if variable >= 0 else inner)
    return "\n".join(lines) + "\n"


def to_structure(vtree: Vtree, diagram: Diagram) -> CircuitStructure:
    """The structure of a diagram with a node at every vtree node that it passes (normalised and smooth)."""
    nodes = Nodes(vtree)
    known: dict[tuple[int, int], int] = {}

    def at(place: int, part: Diagram) -> int:
        key = (place, int(part.id))
        if key not in known:
            known[key] = make(place, part)
        return known[key]

    def make(place: int, part: Diagram) -> int:
        if part.is_true():
            return nodes.true(place)
        if vtree.variable[place] >= 0:
            return nodes.leaf(int(vtree.variable[place]), part.literal < 0, part.literal > 0)
        left, right = int(vtree.left[place]), int(vtree.right[place])
        own = _place(vtree, part)
        if own == place:
            inside = [(prime, sub) for prime, sub in part.elements() if not sub.is_false()]
            return nodes.total(place, [(at(left, prime), at(right, sub)) for prime, sub in inside])
        if vtree.scopes[own] <= vtree.scopes[left]:
            return nodes.total(place, [(at(left, part), nodes.true(right))])
        return nodes.total(place, [(nodes.true(left), at(right, part))])

    return nodes.finish(at(vtree.root, diagram)).structure


def _place(vtree: Vtree, part: Diagram) -> int:
    """The vtree node of a diagram: a variable's leaf, or the one over the variables of its vtree."""
    if part.is_literal():
        return int(vtree.leaf_of[abs(part.literal) - 1])
    own = part.vtree()
    first, last = own, own
    while not first.is_leaf():
        first = first.left()
    while not last.is_leaf():
        last = last.right()
    return _common(vtree, int(first.var()) - 1, int(last.var()) - 1)


def _common(vtree: Vtree, first: int, last: int) -> int:
    """The lowest vtree node over two variables."""
    both = {first, last}
    node = vtree.root
    while True:
        children = [int(vtree.left[node]), int(vtree.right[node])]
        below = [child for child in children if child >= 0 and both <= vtree.scopes[child]]
        if not below:
            return node
        node = below[0]


def literal(manager: Any, variable: int, value: bool) -> Diagram:
    """The diagram of a variable at one of its values."""
    return manager.literal(variable + 1 if value else -(variable + 1))


def exactly_one(variables: Sequence[int]) -> Constraint:
    """Of these variables one is true."""

    def constraint(manager: Any) -> Diagram:
        none, one = manager.true(), manager.false()
        for variable in variables:
            yes, no = literal(manager, variable, True), literal(manager, variable, False)
            none, one = none & no, (one & no) | (none & yes)
        return one

    return constraint


def parity(variables: Sequence[int], is_odd: bool) -> Constraint:
    """The number of true variables is odd, or even."""

    def constraint(manager: Any) -> Diagram:
        odd = manager.false()
        for variable in variables:
            yes, no = literal(manager, variable, True), literal(manager, variable, False)
            odd = (odd & no) | (~odd & yes)
        return odd if is_odd else ~odd

    return constraint


def clause(literals: Sequence[tuple[int, bool]]) -> Constraint:
    """At least one of these variables has the value beside it."""

    def constraint(manager: Any) -> Diagram:
        either = manager.false()
        for variable, value in literals:
            either = either | literal(manager, variable, value)
        return either

    return constraint
