"""Tables of a network learnt from data: counts, and where cells are missing expected counts, again and again.

A table is θ(x | parents) ∝ N(x, parents) + α: the mean of its distribution given complete data under a Dirichlet prior
with parameters α for each cell. With missing cells N is the sum of P(x, parents | row) over rows under the tables so
far; no step lowers log p(data) + Σ α log θ (Dempster, Laird and Rubin 1977; Lauritzen 1995), of which the tables are a
stationary point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from fubini.base.domains import Bint, Domain
from fubini.eliminate.observed_tables import ManyCases, ObservedTables, observed_tables
from fubini.errors import DataError, DomainError, MemoryLimit, UnknownName, closest
from fubini.factors.table import Table
from fubini.models.case_columns import Findings
from fubini.models.network_evidence import finding_name
from fubini.models.network_rows import Rows, require_observed
from fubini.models.network_structure import Structure
from fubini.show.printed_form import Block, Shown, Words

Counts = dict[str, np.ndarray]  # by variable [parent, …, child]


@dataclass(frozen=True, repr=False)
class Learning(Shown):
    """How the tables of a network were learnt: the data, the counts, and the objective before each step and at the end.

    The objective is log p(data) + Σ α log θ, α the pseudo-counts of the prior.
    """

    rows: int
    missing: int
    counts: Mapping[str, np.ndarray]
    history: np.ndarray
    converged: bool = True

    def _form(self) -> Iterable[Block]:
        cells = f", {self.missing:,} cell{'s' * (self.missing != 1)} missing" if self.missing else ""
        steps = len(self.history) - 1
        how = f", {steps} step{'s' * (steps != 1)} of expectation–maximisation" if self.missing else ""
        ended = "" if self.converged else ", not converged"
        yield Words(f"learnt from {self.rows:,} rows{cells}{how}{ended}; objective {self.history[-1]:.8g}")


def learn_tables(
    frame: Any,
    structure: Any,
    *,
    domains: Mapping[str, Domain] | None,
    prior: Any,
    steps: int,
    tolerance: float,
    progress: bool,
) -> tuple[dict[str, Domain], dict[str, Table], Learning]:
    """The domains in order, the table of each variable given its parents, and how they were learnt."""
    graph = Structure.of_parents(structure)
    known = {**graph.domains, **(domains or {})}
    order = [*(name for name in graph.domains if name in graph), *(name for name in graph if name not in graph.domains)]
    for name in domains or {}:
        if name not in graph:
            raise UnknownName(
                f"the values of {name!r}", expected="a variable of the structure", nearest=closest(name, graph)
            )
    if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1:
        raise DataError(f"learning in {steps!r} steps", expected="a positive whole number")
    rows = Rows.read(frame, order, known)
    require_observed(rows)
    pseudo = {name: _pseudo_counts(prior, name, _shape(rows, graph, name)) for name in graph}
    learner = _Learner(rows, graph, pseudo)
    tables, counts, history, converged = learner.run(int(steps), tolerance, progress)
    missing = sum(map(rows.missing, order))
    made = {name: learner.table(name, tables[name]) for name in graph}
    return dict(rows.domains), made, Learning(rows.count, missing, counts, np.array(history), converged)


class _Learner:
    """Rows, a structure, and the pseudo-counts of each table."""

    def __init__(self, rows: Rows, structure: Structure, pseudo: Counts) -> None:
        self.rows, self.structure, self.pseudo = rows, structure, pseudo
        complete = rows if not rows.has_gaps.any() else rows.of(~rows.has_gaps)
        self.complete = {name: complete.counts(self._family(name)) for name in structure}
        self.gaps = _Gaps(rows.of(rows.has_gaps), structure) if rows.has_gaps.any() else None

    def _family(self, name: str) -> tuple[str, ...]:
        return (*self.structure[name], name)

    def table(self, name: str, weights: np.ndarray) -> Table:
        """A table over the parents and the variable itself."""
        return Table(weights, {each: self.rows.domains[each] for each in self._family(name)})

    def run(self, steps: int, tolerance: float, progress: bool) -> tuple[Counts, Counts, list[float], bool]:
        """The tables, the counts that they come from, the objective before each step and at the end; has it ended?"""
        if self.gaps is None:
            tables = self._maximise(self.complete)
            return tables, self.complete, [self._objective(tables, self.complete)], True
        seen = {name: self.rows.counts(self._family(name)) for name in self.structure}
        tables = {name: _normalised(count + self.pseudo[name] + 1.0) for name, count in seen.items()}
        history: list[float] = []
        with tqdm(total=steps, disable=not progress, desc="learn", unit="step") as bar:
            while True:
                log_evidence, expected = self.gaps.expect([self.table(name, tables[name]) for name in self.structure])
                history.append(log_evidence + self._objective(tables, self.complete))
                converged = len(history) > 1 and history[-1] - history[-2] <= tolerance * (1 + abs(history[-1]))
                counts = {name: self.complete[name] + expected[name] for name in self.structure}
                if converged or len(history) > steps:
                    return tables, counts, history, converged
                tables = self._maximise(counts)
                bar.update(1)
                bar.set_postfix(objective=f"{history[-1]:.8g}")

    def _maximise(self, counts: Counts) -> Counts:
        made = {}
        for name, count in counts.items():
            total = count + self.pseudo[name]
            sums = total.sum(axis=-1)
            if not np.all(sums > 0):
                raise self._not_seen(name, np.argwhere(~(sums > 0))[0])
            made[name] = _normalised(total)
        return made

    def _not_seen(self, name: str, cell: np.ndarray) -> DataError:
        parents = self.structure[name]
        values = ", ".join(f"{p}={self.rows.domains[p].label(int(k))}" for p, k in zip(parents, cell, strict=True))
        return DataError(
            f"the distribution of {name!r}{' given ' + values if values else ''}, of which no row tells anything",
            expected="rows with these values of its parents, or a prior: with none nothing is known",
            advice="prior=1.0 adds a pseudo-count to each cell",
        )

    def _objective(self, tables: Counts, counts: Counts) -> float:
        """Σ (N + α) log θ over complete rows."""
        return sum(_times_log(counts[name] + self.pseudo[name], tables[name]) for name in self.structure)


class _Gaps:
    """Rows with missing cells: what they tell of each table, given the tables so far.

    A cell is a finding, of its value alone where it is observed, of all where it is missing: all rows have one plan.
    """

    def __init__(self, rows: Rows, structure: Structure) -> None:
        self.rows, self.weights = rows.distinct()
        self.structure = structure
        self.domains: dict[str, Domain] = dict(rows.domains)
        self.findings: list[Table] = []
        for name, domain in rows.domains.items():
            made = finding_name(name, rows.domains)
            weights = Findings.of_cells(domain, np.empty(0, np.int64)).weights
            self.domains[made] = Bint[len(weights)]
            self.findings.append(Table(weights, {made: self.domains[made], name: domain}))
        self.names = [finding_name(name, rows.domains) for name in rows.domains]
        self.cases = np.ascontiguousarray(self.rows.codes.T, np.int64)
        self.tables: ObservedTables | None = None

    def expect(self, tables: Sequence[Table]) -> tuple[float, Counts]:
        """log p(rows), and the expected counts of each table."""
        factors = [*tables, *self.findings]
        self.tables = (
            observed_tables(self.domains, factors) if self.tables is None else self.tables.with_numbers(factors)
        )
        assert self.tables is not None, "tables of NumPy"
        logs, counts = self._expected(self.tables)
        own = dict(zip(self.structure, counts, strict=False))
        return float(logs @ self.weights), own

    def _expected(self, tables: ObservedTables) -> tuple[np.ndarray, list[np.ndarray]]:
        many = tables.many(self.names, self.cases, None)
        found = many.expected_counts(self.weights)
        if found is not None:
            return found
        if tables.is_sliced(self.names, None):
            raise MemoryLimit(
                "expectation–maximisation of a network whose intermediate results do not fit into memory",
                expected="a network that can be summed out exactly",
                advice="learn from the rows without missing cells: frame.dropna()",
            )
        return self._expected_one_by_one(tables)

    def _expected_one_by_one(self, tables: ObservedTables) -> tuple[np.ndarray, list[np.ndarray]]:
        """The same row by row: no single scale keeps the weights of all within range, or one row has none."""
        logs, totals = np.empty(len(self.cases)), []
        names = tables.many(self.names, self.cases, None).names
        for row in range(len(self.cases)):
            here = slice(row, row + 1)
            found = ManyCases(tables, names, self.cases[here], None).expected_counts(self.weights[here])
            if found is None:
                raise DataError(
                    f"a row of the data that is impossible under the tables so far: {self._said(row)}",
                    expected="rows that the tables allow",
                    advice="prior=1.0 keeps every cell of a table possible",
                )
            logs[row] = found[0][0]
            totals = found[1] if not totals else [a + b for a, b in zip(totals, found[1], strict=True)]
        return logs, totals

    def _said(self, row: int) -> str:
        """What is observed in a row."""
        cells = zip(self.rows.domains.items(), self.rows.codes[:, row].tolist(), strict=True)
        seen = [f"{name}={domain.label(code)}" for (name, domain), code in cells if code < domain.extent]
        return ", ".join(seen) or "every cell is missing"


def _shape(rows: Rows, structure: Structure, name: str) -> tuple[int, ...]:
    return tuple(rows.domains[each].extent for each in (*structure[name], name))


def _pseudo_counts(prior: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The pseudo-counts of a table: one number for all cells, or by variable numbers for its table."""
    own = prior.get(name, 0.0) if isinstance(prior, Mapping) else prior
    try:
        made = np.broadcast_to(np.asarray(own, np.float64), shape)
    except (TypeError, ValueError):
        raise DomainError(
            f"the prior of {name!r}, {own!r}",
            expected=f"a pseudo-count for each cell: a number, or an array of shape {shape}, the variable itself last",
        ) from None
    if not np.all(np.isfinite(made)) or np.any(made < 0):
        raise DataError(f"the prior of {name!r}, {own!r}", expected="finite pseudo-counts from 0 on")
    return made


def _normalised(counts: np.ndarray) -> np.ndarray:
    return counts / counts.sum(axis=-1, keepdims=True)


def _times_log(counts: np.ndarray, table: np.ndarray) -> float:
    """Σ n log θ, with 0 log 0 = 0."""
    seen = counts > 0
    with np.errstate(divide="ignore"):
        return float(counts[seen] @ np.log(table[seen]))
