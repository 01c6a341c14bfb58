"""What a network file says: typed names and tables, before any of them becomes a factor."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np

from fubini.base.domains import Domain
from fubini.errors import DataError, FileFormatError, FileFormatWarning, listed, warn

SUM_TOLERANCE = 1e-3
"""How far from 1 a row of a conditional table may sum."""

SUM_ROUNDING = 1e-6
"""How far it may without a warning: probabilities written with a few digits."""

ROUNDING = 1e-12
"""Rows this close to 1 stay as they are, so that reading what was written changes nothing."""


@dataclass(frozen=True, eq=False)
class NetworkRecord:
    """Typed names, and tables whose axes they name; of a directed network, p(child | parents) with the child last.

    >>> from fubini.base.domains import Bint
    >>> NetworkRecord("coin", {"side": Bint[2]}, ((("side",), np.array([0.5, 0.5])),), directed=True).name
    'coin'
    """

    name: str
    variables: dict[str, Domain]
    tables: tuple[tuple[tuple[str, ...], np.ndarray], ...]
    directed: bool

    def __post_init__(self) -> None:
        for names, table in self.tables:
            _check_table(self.variables, names, table)
        children = [names[-1] for names, _ in self.tables if names]
        if self.directed and sorted(children) != sorted(self.variables):
            raise DataError(
                f"a directed network {self.name!r} with tables of {listed(children)}",
                expected=f"one table for each of {listed(self.variables)}, which is its last axis",
                advice="add the missing tables, or say directed=False",
            )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NetworkRecord):
            return NotImplemented
        return (
            (self.name, self.directed) == (other.name, other.directed)
            and list(self.variables.items()) == list(other.variables.items())
            and [names for names, _ in self.tables] == [names for names, _ in other.tables]
            and all(map(np.array_equal, (table for _, table in self.tables), (table for _, table in other.tables)))
        )


def _check_table(variables: Mapping[str, Domain], names: tuple[str, ...], table: np.ndarray) -> None:
    domains = [variables.get(name) for name in names]
    known = len(set(names)) == len(names) and all(domain is not None and domain.is_finite for domain in domains)
    shape = shape_of(domain for domain in domains if domain is not None)
    if known and table.shape == shape and table.dtype == np.float64 and table.flags.c_contiguous:
        return
    raise DataError(
        f"a table over {listed(names)} of shape {table.shape} and type {table.dtype}",
        expected=f"different names among {listed(variables)}, the sizes of their domains, float64 in C order",
        advice="build it with np.ascontiguousarray(values, dtype=np.float64).reshape(sizes)",
    )


def shape_of(domains: Iterable[Domain]) -> tuple[int, ...]:
    """The shape of a table over finite domains.

    >>> from fubini.base.domains import Bint
    >>> shape_of([Bint[2], Bint[3]])
    (2, 3)
    """
    return tuple(domain.size or 0 for domain in domains)


def first_invalid(values: np.ndarray) -> int | None:
    """The flat position of the first value that is negative, infinite or NaN.

    >>> first_invalid(np.array([0.5, np.nan])), first_invalid(np.array([0.0, 1.0]))
    (1, None)
    """
    wrong = ~((values >= 0) & (values < np.inf)).ravel()
    return int(wrong.argmax()) if wrong.any() else None


def first_unnormalised(rows: np.ndarray) -> int | None:
    """The first row whose sum is further from 1 than the tolerance.

    >>> first_unnormalised(np.array([[0.5, 0.5], [0.5, 0.4]]))
    1
    """
    with np.errstate(over="ignore"):
        wrong = np.abs(rows.sum(axis=-1) - 1) > SUM_TOLERANCE
    return int(wrong.argmax()) if wrong.any() else None


class RowSums:
    """The distance from 1 of the sums of rows in a file; each row is divided by its sum.

    >>> RowSums("net.bif").normalise(np.array([[0.3333333, 0.3333333, 0.3333333]])).sum().round(15)
    np.float64(1.0)
    """

    def __init__(self, source: str) -> None:
        self.source, self.count, self.worst = source, 0, 0.0

    def normalise(self, rows: np.ndarray) -> np.ndarray:
        """Each row over its sum, save rows that are off by rounding only."""
        divisors = self.divisors(rows.sum(axis=-1, keepdims=True))
        return rows / divisors if (divisors != 1).any() else rows

    def divisors(self, sums: np.ndarray) -> np.ndarray:
        """What rows of these sums are divided by: 1 where they are off by rounding only."""
        off = np.abs(sums - 1)
        self.count += int((off > SUM_ROUNDING).sum())
        self.worst = max(self.worst, float(off.max(initial=0.0)))
        return np.where(off > ROUNDING, sums, 1.0)

    def warn(self) -> None:
        """Warn once of a file with rows that are off by more than their digits."""
        if self.count:
            warning = FileFormatWarning(
                f"{self.source}: {self.count} rows do not sum to 1, by up to {self.worst:.2g}",
                expected=f"probabilities with a sum within {SUM_ROUNDING:g} of 1",
                nearest="each row was divided by its sum",
                advice="write the probabilities with more digits",
            )
            warn(warning)


def require_directed(record: NetworkRecord, form: str) -> None:
    """Raise where a format of conditional tables is to hold an undirected network."""
    if not record.directed:
        raise FileFormatError(
            f"the undirected network {record.name!r} as {form}",
            expected=f"a directed network: {form} holds conditional tables",
            advice="write it as UAI: a file called *.uai",
        )


def labels_of(domain: Domain) -> list[str]:
    """The labels of a domain; 0, 1, … of one without.

    >>> from fubini.base.domains import Bint
    >>> labels_of(Bint[2]), labels_of(Bint.labelled("no", "yes"))
    (['0', '1'], ['no', 'yes'])
    """
    return [str(domain.label(index)) for index in range(domain.extent)]


def find_cycle(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """A cycle parent → child → … → parent, or the empty list.

    >>> find_cycle({"a": ["b"], "b": ["a"], "c": []}), find_cycle({"a": [], "b": ["a"]})
    (['a', 'b', 'a'], [])
    """
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []
