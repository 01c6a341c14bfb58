"""Circuits from constraints: clauses, formulas, cardinalities, permutations, parity, paths of a graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, as_floats, namespace, require
from fubini.base.names import Name
from fubini.errors import DataError, DomainError, NameClash, UnknownName, closest, listed
from fubini.factors.circuit import Circuit
from fubini.numerics import sdd
from fubini.numerics.circuit_weights import Weights, ones
from fubini.numerics.path_structure import Edge, path_structure
from fubini.numerics.permutation_structure import filling_order, permutation_structure
from fubini.numerics.scaled import positive_log
from fubini.numerics.vtree import Nested, Vtree, balanced
from fubini.terms.value import Apply, Array, Value, Variable

Clause = Mapping[Name, bool]


def from_constraints(names: Sequence[Name], constraints: Sequence[sdd.Constraint], vtree: Nested = None) -> Circuit:
    """1 where all constraints hold, 0 elsewhere; the vtree is nested pairs of positions of names, or balanced."""
    if not names or len(set(names)) != len(names):
        raise NameClash(f"a Circuit over {listed(names)}", expected="one name or more, all different")
    tree = Vtree.from_nested(balanced(range(len(names))) if vtree is None else vtree)
    if sorted(v for v in tree.variable.tolist() if v >= 0) != list(range(len(names))):
        raise DomainError(
            f"a vtree over {len(names)} names whose leaves are {sorted(v for v in tree.variable.tolist() if v >= 0)}",
            expected=f"each position from 0 to {len(names) - 1} once",
        )
    structure = sdd.compile_constraints(tree, constraints)
    if structure is None:
        raise DataError(
            f"a Circuit over {_shown(names)} of constraints that contradict each other",
            expected="at least one assignment that satisfies all of them",
            advice="leave constraints out until it compiles; the factor would be zero everywhere",
        )
    return Circuit(structure, tuple(names))


def _shown(names: Sequence[Name]) -> str:
    return listed(names) if len(names) <= 8 else f"{listed(names[:8])}, … {len(names) - 8} more"


def unconstrained(names: Sequence[Name], vtree: Nested = None) -> Circuit:
    """1 everywhere.

    >>> unconstrained(("a", "b")).count_models()
    4
    """
    return from_constraints(names, (), vtree)


def from_clauses(clauses: Iterable[Clause], names: Sequence[Name] = (), vtree: Nested = None) -> Circuit:
    """The conjunction of clauses, each a mapping {name: value} of which at least one holds.

    >>> from_clauses([{"a": True, "b": False}, {"b": True, "c": True}]).count_models()
    4
    """
    clauses = list(clauses)
    names = tuple(names) or tuple(dict.fromkeys(name for clause in clauses for name in clause))
    places = {name: position for position, name in enumerate(names)}
    for name in (name for clause in clauses for name in clause if name not in places):
        raise UnknownName(
            f"a clause over {name!r}",
            expected=f"a name of the circuit: {_shown(names)}",
            nearest=closest(name, names),
        )
    constraints = [sdd.clause([(places[name], bool(value)) for name, value in clause.items()]) for clause in clauses]
    return from_constraints(names, constraints, vtree)


def from_formula(formula: Value, names: Sequence[Name] = (), vtree: Nested = None) -> Circuit:
    """1 where a Boolean Value holds: `&`, `|`, `~`, `==` and `!=` of Variables of domain Bint[2].

    >>> a, b = fb.Variable("a", fb.Bint[2]), fb.Variable("b", fb.Bint[2])
    >>> from_formula((a == 1) | ~b).count_models()
    3
    """
    wrong = [name for name, domain in formula.inputs.items() if domain.size != 2 or domain.shape]
    if wrong:
        raise DomainError(
            f"a Circuit of {formula}", expected="Variables of domain Bint[2]", nearest=f"{formula.inputs[wrong[0]]!r}"
        )
    names = tuple(names) or tuple(formula.inputs)
    places = {name: position for position, name in enumerate(names)}
    for name in (name for name in formula.inputs if name not in places):
        raise UnknownName(f"a formula over {name!r}", expected=_shown(names), nearest=closest(name, names))
    return from_constraints(names, [lambda manager: _diagram(manager, formula, places)], vtree)


def _diagram(manager: Any, part: Value, places: Mapping[Name, int]) -> sdd.Diagram:
    """The diagram of a formula, from those of its parts."""
    if isinstance(part, Variable):
        return sdd.literal(manager, places[part.name], True)
    if isinstance(part, Array) and not part.names and part.array.size == 1 and int(part.array) in (0, 1):
        return manager.true() if int(part.array) else manager.false()
    if isinstance(part, Apply):
        args = [_diagram(manager, arg, places) for arg in part.args]
        if part.op is ops.logical_and:
            return args[0] & args[1]
        if part.op is ops.logical_or:
            return args[0] | args[1]
        if part.op is ops.logical_not:
            return ~args[0]
        if part.op in (ops.equal, ops.not_equal):
            same = (args[0] & args[1]) | (~args[0] & ~args[1])
            return same if part.op is ops.equal else ~same
    raise DomainError(
        f"{part} in the formula of a Circuit",
        expected="Variables of domain Bint[2], 0, 1, and `&`, `|`, `~`, `==`, `!=` of them",
    )


def exactly_one(names: Sequence[Name], vtree: Nested = None) -> Circuit:
    """1 where one of the names is 1 and the others 0.

    >>> exactly_one(("a", "b", "c")).count_models()
    3
    """
    return from_constraints(names, [sdd.exactly_one(range(len(names)))], vtree)


def parity(names: Sequence[Name], is_odd: bool, vtree: Nested = None) -> Circuit:
    """1 where the number of ones is odd, or even.

    >>> parity(("a", "b", "c", "d"), is_odd=True).count_models()
    8
    """
    return from_constraints(names, [sdd.parity(range(len(names)), is_odd)], vtree)


def permutations(n: int, names: Sequence[Sequence[Name]] | None = None) -> Circuit:
    """1 where an n by n matrix of Booleans has one 1 in each row and each column.

    The vtree has the rows in order, each of least height, so that a node stands for the set of columns that are taken:
    at most n 2^(n−1) elements lie above the rows. Names are `x[i,j]` unless given.

    >>> permutations(3).count_models()
    6
    """
    if names is None:
        names = [[f"x[{i},{j}]" for j in range(n)] for i in range(n)]
    if n < 1 or len(names) != n or any(len(row) != n for row in names):
        raise DomainError(f"permutations of {n} items", expected=f"{n} rows of {n} names")
    return Circuit(permutation_structure(n), [name for row in names for name in row])


def choices(probabilities: Data | Array, names: Sequence[Sequence[Name]] | None = None) -> Circuit:
    """The distribution over permutations that fills rows in order, the next one in column j with probability p[S, j].

    S, the set of columns that earlier rows have taken, is the number with their bits: p is a matrix of 2^n by n, or an
    Array of such with names. Every distribution on the circuit of `permutations` is of this kind; with p[S, j] ∝ w[j]
    it is Plackett and Luce's.

    >>> p = np.array([[0.25, 0.75], [0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    >>> float(choices(p)(**{"x[0,0]": 0, "x[0,1]": 1, "x[1,0]": 1, "x[1,1]": 0}))
    0.75
    """
    batch = probabilities.inputs if isinstance(probabilities, Array) else {}
    p = as_floats(probabilities.array if isinstance(probabilities, Array) else probabilities)
    n = p.shape[-1] if p.ndim else 0
    if p.shape[len(batch) :] != (2**n, n):
        raise DomainError(f"choices of shape {p.shape}", expected="a row for each set of n columns: (2^n, n)")
    f, xp = permutations(n, names), namespace(p)
    is_free = np.arange(2**n)[:, None] >> np.arange(n) & 1 == 0
    total = xp.sum(xp.where(is_free, p, 0.0), -1)[..., :-1]
    ok = xp.all(p >= 0) & xp.all(abs(total - 1) < 1e-5)
    sets, columns = filling_order(f.diagram, n)
    chosen = positive_log(p[..., np.maximum(sets, 0), np.maximum(columns, 0)])
    error = DataError("probabilities of choices", expected="rows that sum to one over the columns not yet taken")
    (theta,) = require(ok, lambda: error, xp.where(columns < 0, 0.0, chosen))
    leaves, shift = (xp.asarray(part)[(None,) * len(batch)] for part in ones(f.diagram)[:2])
    return Circuit._of(f.diagram, Weights(leaves, shift, theta), f, batch=batch)


def simple_paths(edges: Sequence[Edge], start: Any, end: Any, names: Sequence[Name] | None = None) -> Circuit:
    """1 where the edges chosen, one Boolean each, are a simple path between two nodes of an undirected graph.

    Paths are enumerated by the frontier method (Knuth 2009, exercise 7.1.4–225; Choi, Tavabi, Darwiche 2016): edges in
    order, a node of the circuit for each way in which the nodes between done and open edges are tied together. Names
    are `u-v` unless given.

    >>> square = [(0, 1), (0, 2), (1, 3), (2, 3)]
    >>> simple_paths(square, 0, 3).count_models()
    2
    """
    if names is None:
        names = [f"{u}-{v}" for u, v in edges]
    ends = {node for edge in edges for node in edge}
    for node in (start, end):
        if node not in ends:
            raise UnknownName(f"paths from {start!r} to {end!r}", expected=f"nodes of the graph: {listed(ends)}")
    if start == end:
        raise DataError(f"paths from {start!r} to {end!r}", expected="two different nodes")
    structure = path_structure(edges, start, end)
    if structure is None:
        raise DataError(f"paths from {start!r} to {end!r}", expected="a graph in which there is one")
    return Circuit(structure, tuple(names))
