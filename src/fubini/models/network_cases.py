"""Many cases of evidence on one network: the same questions, one row for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from fubini.base.domains import Bint
from fubini.eliminate.observed_tables import WIDTH, ObservedTables, observed_tables
from fubini.errors import DataError, DomainError
from fubini.factors.table import Table
from fubini.models.case_columns import Findings, at_row, column_of, is_soft, positions
from fubini.models.network_evidence import finding_name
from fubini.show.printed_form import Block, Shown, Words

SHOWN = 6  # columns that are printed
MOST_PATTERNS = 16  # of observed variables, each with a plan of its own


class _Group(NamedTuple):
    """Rows, the positions of what is observed in all of them, and the findings in each."""

    rows: np.ndarray
    positions: Mapping[str, np.ndarray]
    findings: Mapping[str, Findings]


class NetworkCases(Shown):
    """A network given each row of a table of labels or positions; a cell that is missing (None, NaN) is not observed.

    A cell that is a list of weights, one for each value, is soft evidence; a column of them may be an array [row,
    value]. Rows in which the same variables are observed are answered together; where few rows are alike, all are.

    >>> net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
    >>> net.condition_many({"b": [0, 1, 0]})
    3 cases of b, given to
    Network(unnamed: 2 variables)
      a: Bint[2]
      b: Bint[2]
    """

    def __init__(self, network: Any, cases: Any) -> None:
        self.network = network
        columns = {str(name): column_of(cases[name]) for name in cases}
        network._require(tuple(columns), "evidence")
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            shown = ", ".join(f"{name}: {len(column):,}" for name, column in columns.items()) or "no columns"
            raise DomainError("cases of evidence", expected="columns of the same length", nearest=shown)
        self.count = lengths.pop()
        for name in columns:
            if name in network.evidence:
                raise DataError(f"a column {name!r} of cases", expected="variables that are not observed already")
            if not network.variables[name].is_finite:
                raise DomainError(f"a column {name!r} of cases", expected="variables of finitely many values")
        domains = network.variables
        soft = {name: column for name, column in columns.items() if is_soft(column)}
        self.positions = {name: positions(domains[name], name, c) for name, c in columns.items() if name not in soft}
        self.findings = {name: Findings.read(domains[name], name, column) for name, column in soft.items()}

    def _groups(self) -> Iterator[_Group]:
        """Rows in which the same variables are observed; where nearly each row has others, all rows together."""
        names = list(self.positions)
        seen = np.stack([self.positions[name] >= 0 for name in names], axis=1) if names else np.ones((self.count, 0))
        patterns, inverse = np.unique(seen, axis=0, return_inverse=True)
        if MOST_PATTERNS < len(patterns) > self.count / WIDTH:
            gaps = [name for name, whole in zip(names, np.all(seen, axis=0).tolist(), strict=True) if not whole]
            cells = {name: Findings.of_cells(self.network.variables[name], self.positions[name]) for name in gaps}
            whole = {name: at for name, at in self.positions.items() if name not in cells}
            yield _Group(np.arange(self.count), whole, {**self.findings, **cells})
            return
        for k, pattern in enumerate(patterns):
            rows = np.flatnonzero(inverse.ravel() == k)
            own = {name: self.positions[name][rows] for name, has in zip(names, pattern, strict=True) if has}
            yield _Group(rows, own, {name: each.of_rows(rows) for name, each in self.findings.items()})

    def log_evidence(self) -> np.ndarray:
        """log P(evidence) of each row; −inf of one that is impossible.

        >>> net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition_many({"b": [0, 1]}).log_evidence().round(4)
        array([-0.2877, -1.3863])
        """
        logs = np.empty(self.count)
        for group in self._groups():
            many = self._many(group)
            found = many.log_evidence() if many is not None else None
            alone = (float(case.log_evidence()) for case in self._cases(group.rows)) if found is None else found
            logs[group.rows] = list(alone)
        return logs

    def marginals(self) -> dict[str, np.ndarray]:
        """P(variable | evidence) [row, value] of every variable that some row does not observe.

        Where a row observes it, all its probability is at the observed value.

        >>> net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition_many({"b": [1, None]}).marginals()["b"]
        array([[0.  , 1.  ],
               [0.75, 0.25]])
        """
        made: dict[str, np.ndarray] = {}
        for name, domain in self.network.variables.items():
            at = self.positions.get(name)
            if name in self.network.evidence or (at is not None and (at >= 0).all()):
                continue
            made[name] = np.zeros((self.count, domain.extent))
            if at is not None:
                observed = np.flatnonzero(at >= 0)
                made[name][observed, at[observed]] = 1.0
        for group in self._groups():
            many = self._many(group)
            found = many.marginals() if many is not None else None
            if found is None:
                found = self._one_by_one(group.rows)
            for name, table in found.items():
                if name in made:
                    made[name][group.rows] = table
        return made

    def most_probable(self, name: str, marginals: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
        """The most probable position of a variable in each row, by itself; the observed one where it is observed.

        >>> net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition_many({"b": [1, None, 0]}).most_probable("a")
        array([0, 0, 1])
        """
        own = (self.marginals() if marginals is None else marginals).get(name)
        return self.positions[name] if own is None else own.argmax(axis=1)

    def _many(self, group: _Group) -> Any:
        """The rows as cases of the network's tables, with what was observed before; None where these are no tables."""
        tables = self._tables(group.findings)
        if tables is None:
            return None
        before = self.network.evidence
        columns = {**group.positions, **{name: np.full(len(group.rows), value) for name, value in before.items()}}
        columns |= {finding_name(name, self.network.variables): each.at for name, each in group.findings.items()}
        cases = np.stack(list(columns.values()), axis=1) if columns else np.empty((len(group.rows), 0), np.int64)
        return tables.many(list(columns), cases, None)

    def _tables(self, findings: Mapping[str, Findings]) -> ObservedTables | None:
        """The tables, with those of findings: each is one more variable, observed, whose parent is its own."""
        if not findings:
            return self.network._tables
        domains, tables = dict(self.network.variables), list(self.network._weighted_factors)
        for name, each in findings.items():
            made = finding_name(name, self.network.variables)
            domains[made] = Bint[len(each.weights)]
            tables.append(Table(each.weights, {made: domains[made], name: domains[name]}))
        return observed_tables(domains, tables)

    def _cases(self, rows: np.ndarray) -> Iterator[Any]:
        """The network given one row after another."""
        before = self.network.findings
        for row in rows:
            seen = {name: int(at[row]) for name, at in self.positions.items() if at[row] >= 0}
            soft = {n: before.get(n, 1.0) * each.weights[each.at[row]] for n, each in self.findings.items()}
            yield self.network._given({**self.network.evidence, **seen}, soft)

    def _one_by_one(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Marginals row by row: where one has no mass, the error says which; what it observes has no mass elsewhere."""
        made: dict[str, np.ndarray] = {}
        for place, (row, case) in enumerate(zip(rows, self._cases(rows), strict=True)):
            try:
                found = case.marginals()
            except DataError as error:
                raise at_row(int(row), error) from None
            for name, domain in self.network.variables.items():
                table = made.setdefault(name, np.zeros((len(rows), domain.extent)))
                if name in found:
                    table[place] = np.exp(np.asarray(found[name].log().data))
                else:
                    table[place, case.evidence[name]] = 1.0
        return made

    def _form(self) -> Iterable[Block]:
        """How many cases, which columns, and the network."""
        names = [*self.positions, *self.findings]
        shown = [*names[:SHOWN], *(["…"] if len(names) > SHOWN else [])]
        count = f"{self.count:,} case{'s' * (self.count != 1)}"
        yield Words(f"{count} of {', '.join(shown) or 'no variables'}, given to")
        yield from self.network._form()
