"""A model whose free sites are arrays over one plate, as factors of one cell of it: labels of rows, scores of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fubini.algebra.binding import replaced
from fubini.algebra.build import ZERO, index
from fubini.algebra.node import Index, Leaf
from fubini.algebra.sums import total
from fubini.base.domains import Domain
from fubini.distributions.density import Density
from fubini.models.flat_model import FlatModel
from fubini.questions.chain_of_sites import sums_of, weight_at
from fubini.questions.step_values import StepValues, TimeState
from fubini.questions.time_cells import NotInCells, cell_at, whole_distribution
from fubini.sequence.links import fixed_bound
from fubini.terms.factor import Factor
from fubini.terms.value import Variable

PLATE = fixed_bound("row")


@dataclass(frozen=True)
class PlateOfSites:
    """Factors of one cell, of which some are over all cells, and the variables of a cell."""

    factors: Sequence[Factor]
    variables: Sequence[Variable]


def plate_of_sites(model: FlatModel) -> PlateOfSites | None:
    """The cells of a model whose free sites are arrays over one plate; None where it is not such a model."""
    reading = model.reading
    lengths = {domain.shape[:1] for domain in reading.domains.values()}
    if len(lengths) != 1 or not (shape := lengths.pop()):
        return None
    try:
        return _cells(model, shape[0])
    except NotInCells:
        return None


def _cells(model: FlatModel, length: int) -> PlateOfSites:
    reading, over = model.reading, Index(length, "i")
    cells = {name: _cell(name, domain, reading.sites[name]) for name, domain in reading.domains.items()}
    by_leaf = {reading.sites[name]: cell for name, cell in cells.items()}
    values = StepValues(reading, by_leaf, model.numbers, over, PLATE)
    here, factors = ZERO if length == 1 else index(over), []
    for name, term in reading.terms.items():
        part = reading.parts.get(name) or reading.partial.get(name)
        if part is not None and part.source.domain.shape[:1] == (length,):
            factors.append(cell_at(part, here, values.array))
        elif part is not None and part.present is None:
            distribution = whole_distribution(part.source, iter(part.leaves), values.array)
            factors.append(Density(distribution, values.array(part.value, part.source.domain)))
        else:
            for indices, body in sums_of(term):
                along = next((i for i in indices if i.size == length), None)
                if along is None:
                    raise NotInCells(f"{term}")
                rest = [other for other in indices if other is not along]
                factors.append(weight_at(values, total(rest, replaced(body, {index(along): here}))))
    return PlateOfSites(factors, [cell.before for cell in cells.values()])


def _cell(name: str, domain: Domain, leaf: Leaf) -> TimeState:
    cell = domain.with_shape(domain.shape[1:])
    facts = {fact: getattr(leaf, fact) for fact in ("low", "high", "is_integer", "is_simplex", "is_positive_definite")}
    entry = Leaf(name, cell.shape, role=leaf.role, **facts)
    return TimeState(Variable(name, cell), Variable(name, cell), entry, entry)
