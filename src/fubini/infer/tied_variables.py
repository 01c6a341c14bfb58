"""Whether a sampler that moves a few finite variables at a time gets from each possible value to all others.

Tables with zeros may separate them: where `either` is 1 if and only if a or b is, no single change of one of the three
leads from (0, 0, 0) to (1, 0, 1). Only which entries are zero matters.

A value b of a variable is dominated by another, a, if each table that allows b allows a as well, whatever the other
variables are. Then b may be changed to a at any time, so that it may be left out: what remains is connected if and only
if all was (dismantling, Brightwell and Winkler 2000, "Gibbs measures and dismantlable graphs"). Of what cannot be left
out, the variables that share tables are enumerated together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

MOST_VALUES = 50_000  # of tied variables together, that are enumerated


class ZeroPattern(NamedTuple):
    """Which entries of a table are possible: a name, the variables along its axes, and True where it is not zero."""

    name: str
    variables: tuple[int, ...]
    is_possible: np.ndarray


class TiedVariables(NamedTuple):
    """Variables that tables with zeros tie: moves of the given blocks do not connect their values, if `is_known`.

    Else they have too many values together to tell.
    """

    variables: tuple[int, ...]
    tables: tuple[str, ...]
    is_known: bool


class Connection(NamedTuple):
    """The variables that are tied, and a value of each variable: together possible, but for ties that are not known.

    These have possible values among `allowed`, True for each value of each variable that is not left out, whatever
    allowed values the others have. No start where nothing is possible.
    """

    tied: tuple[TiedVariables, ...]
    start: tuple[int, ...] | None
    allowed: tuple[np.ndarray, ...]


def connection_of(
    sizes: Sequence[int],
    patterns: Sequence[ZeroPattern],
    blocks: Iterable[Sequence[int]] = (),
    along: Iterable[int] = (),
) -> Connection:
    """The variables whose possible values are not connected by moves of one variable, or of one block, at a time.

    Variables that are summed out may change `along` with any other.
    """
    blocks, along = list(blocks), frozenset(along)
    dismantling = _Dismantling(sizes, patterns)
    dismantling.run()
    if any(not kept.any() for kept in dismantling.allowed) or any(not each.is_possible.any() for each in patterns):
        return Connection((), None, ())
    start = [int(np.argmax(kept)) for kept in dismantling.allowed]
    tied = []
    for variables, tables in dismantling.components():
        values = _values_of(dismantling, variables, tables)
        if values is not None and not len(values):
            return Connection((), None, ())
        if values is not None:
            for variable, value in zip(variables, values[0], strict=True):
                start[variable] = int(value)
        is_known = values is not None
        if values is None or not _are_connected(values, _moves(variables, blocks, along)):
            names = tuple(dict.fromkeys(patterns[table].name for table in tables))
            tied.append(TiedVariables(variables, names, is_known))
    return Connection(tuple(tied), tuple(start), tuple(dismantling.allowed))


class _Dismantling:
    """The values that are left of each variable, when those that are impossible or dominated are left out."""

    def __init__(self, sizes: Sequence[int], patterns: Sequence[ZeroPattern]) -> None:
        self.patterns = patterns
        self.allowed = [np.ones(size, bool) for size in sizes]
        self.tables_of: dict[int, list[int]] = {}
        for table, pattern in enumerate(patterns):
            for variable in pattern.variables:
                self.tables_of.setdefault(variable, []).append(table)

    def run(self) -> None:
        """Leave out values until none is impossible or dominated."""
        waiting = dict.fromkeys(self.tables_of)
        while waiting:
            variable = next(iter(waiting))
            del waiting[variable]
            if self._leave_out(variable):
                if not self.allowed[variable].any():
                    return  # nothing is possible
                near = (other for table in self.tables_of[variable] for other in self.patterns[table].variables)
                waiting.update(dict.fromkeys(other for other in near if other != variable))

    def _leave_out(self, variable: int) -> bool:
        """Leave out values of one variable; whether there were any."""
        values = np.flatnonzero(self.allowed[variable])
        is_possible = np.ones(len(values), bool)
        exceeds = np.zeros((len(values), len(values)), bool)  # b, a: somewhere b is possible and a is not
        for table in self.tables_of[variable]:
            rows = self._rows(table, variable)
            is_possible &= rows.any(axis=1)
            exceeds |= rows.astype(np.float32) @ (~rows).T.astype(np.float32) > 0
        kept = list(np.flatnonzero(is_possible))
        for b in reversed(kept[:]):
            if any(a != b and not exceeds[b, a] for a in kept):
                kept.remove(b)
        self.allowed[variable] = np.isin(np.arange(len(self.allowed[variable])), values[kept])
        return len(kept) < len(values)

    def rest_of(self, table: int) -> np.ndarray:
        """What is possible in a table, of the values that are left."""
        pattern = self.patterns[table]
        return pattern.is_possible[np.ix_(*(self.allowed[variable] for variable in pattern.variables))]

    def _rows(self, table: int, variable: int) -> np.ndarray:
        """The same, a row for each value of the variable."""
        rest = np.moveaxis(self.rest_of(table), self.patterns[table].variables.index(variable), 0)
        return rest.reshape(len(rest), -1)

    def components(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """The variables of which more than one value is left, in groups that share tables with zeros, and these."""
        tables = [table for table in range(len(self.patterns)) if not self.rest_of(table).all()]
        groups: list[tuple[set[int], set[int]]] = []
        for table in tables:
            free = {v for v in self.patterns[table].variables if np.count_nonzero(self.allowed[v]) > 1}
            together = [group for group in groups if group[0] & free]
            groups = [group for group in groups if not group[0] & free]
            groups.append((free.union(*(g[0] for g in together)), {table}.union(*(g[1] for g in together))))
        return [(tuple(sorted(variables)), tuple(sorted(those))) for variables, those in groups]


def _values_of(dismantling: _Dismantling, variables: Sequence[int], tables: Sequence[int]) -> np.ndarray | None:
    """All possible values [·, variable] of some variables together; None where they are too many."""
    order = _one_by_one(variables, [dismantling.patterns[table].variables for table in tables])
    values, known = np.zeros((1, 0), int), []
    waiting = list(tables)
    for variable in order:
        new = np.flatnonzero(dismantling.allowed[variable])
        if len(values) * len(new) > MOST_VALUES * 10:
            return None
        values = np.column_stack([np.repeat(values, len(new), axis=0), np.tile(new, len(values))])
        known.append(variable)
        for table in waiting[:]:
            pattern = dismantling.patterns[table]
            others = [v for v in pattern.variables if v not in known]
            if all(np.count_nonzero(dismantling.allowed[v]) == 1 for v in others):
                fixed = {v: int(np.argmax(dismantling.allowed[v])) for v in others}
                places = tuple(fixed[v] if v in fixed else values[:, known.index(v)] for v in pattern.variables)
                values = values[pattern.is_possible[places]]
                waiting.remove(table)
        if len(values) > MOST_VALUES:
            return None
    return values[:, [known.index(variable) for variable in variables]]


def _one_by_one(variables: Sequence[int], scopes: Sequence[Sequence[int]]) -> list[int]:
    """The variables in an order in which each, where it can, completes a table with those before."""
    order: list[int] = []
    left = list(variables)
    while left:
        near = [v for v in left if any(v in scope and set(scope) & set(order) for scope in scopes)] or left[:1]
        missing = {v: min(len(set(s) & set(left)) for s in scopes if v in s) for v in near}
        chosen = min(near, key=missing.__getitem__)
        order.append(chosen)
        left.remove(chosen)
    return order


def _moves(
    variables: Sequence[int], blocks: Iterable[Sequence[int]], along: frozenset[int] = frozenset()
) -> list[list[int]]:
    """The columns of values that one move changes: one variable, or the variables of a block."""
    column = {variable: place for place, variable in enumerate(variables)}
    always = [column[v] for v in along if v in column]
    together = [[column[v] for v in block if v in column] for block in blocks]
    moves = [*([place] for place in column.values()), *(move for move in together if len(move) > 1)]
    return [sorted({*move, *always}) for move in moves]


def _are_connected(values: np.ndarray, moves: Sequence[Sequence[int]]) -> bool:
    """Whether moves lead from each of these values to all others: from a value to those that agree elsewhere."""
    count, hubs, pairs = len(values), len(values), []
    for move in moves:
        elsewhere = np.delete(values, move, axis=1)
        _, group = np.unique(elsewhere, axis=0, return_inverse=True)
        group = np.reshape(group, -1)
        pairs.append((np.arange(count), hubs + group))
        hubs += int(group.max()) + 1
    rows, columns = (np.concatenate(each) for each in zip(*pairs, strict=True))
    graph = coo_matrix((np.ones(len(rows), bool), (rows, columns)), (hubs, hubs))
    return connected_components(graph, directed=False)[0] == 1
