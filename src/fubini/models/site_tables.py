"""Networks of finite sites in plain JAX, as tables: each term of the density at all values of the sites in it."""

from __future__ import annotations

import math

import numpy as np

from fubini.algebra.axes import aligned
from fubini.algebra.binding import replaced
from fubini.algebra.build import get, index
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.node import Index, Node
from fubini.base.domains import Bint
from fubini.errors import Intractable, listed
from fubini.factors.table import Table
from fubini.models.reading import Reading
from fubini.terms.factor import Factor
from fubini.terms.value import Variable

LARGEST = 10_000_000  # entries of a table


def tables_of(reading: Reading) -> tuple[list[Factor], list[Variable]]:
    """The density of finite scalar sites as tables over them, and these as variables."""
    sizes = {name: leaf.first + leaf.count for name, leaf in reading.sites.items()}
    factors: list[Factor] = [_table(reading, term, sizes) for term in reading.terms.values()]
    lacking = [name for name in sizes if not any(name in factor.inputs for factor in factors)]
    factors.extend(_flat(reading, name, sizes[name]) for name in lacking)
    return factors, [Variable(name, Bint[size]) for name, size in sizes.items()]


def _table(reading: Reading, term: Node, sizes: dict[str, int]) -> Table:
    indices = {name: Index(sizes[name]) for name, leaf in reading.sites.items() if leaf in term.leaves}
    if math.prod(i.size for i in indices.values()) > LARGEST or _is_opaque(term, reading):
        raise Intractable(
            f"a table over {listed(indices)}",
            expected=f"functions that can be read, with at most {LARGEST:,} values",
            advice="infer(key) draws from the posterior",
        )
    sites = {get(reading.sites[name]): index(i) for name, i in indices.items()}
    with np.errstate(all="ignore"):
        values = Evaluation(reading.arrays({}), xp=np).of(replaced(term, sites))
    data = np.broadcast_to(aligned(values, tuple(indices.values())), [i.size for i in indices.values()]).astype(float)
    for axis, name in enumerate(indices):  # values before the first have no weight
        data[(slice(None),) * axis + (slice(reading.sites[name].first),)] = -np.inf
    return Table.from_log(data, tuple(indices))


def _flat(reading: Reading, name: str, size: int) -> Table:
    """Ones at the values of a site that no term depends on, as one under a mask."""
    first = reading.sites[name].first
    return Table(np.where(np.arange(size) < first, 0.0, 1.0), (name,))


def _is_opaque(of: Node, reading: Reading) -> bool:
    """Whether a node depends on a site through an array that was not read."""
    sites = frozenset(reading.sites.values())
    return any(leaf.of & sites for leaf in of.leaves)
