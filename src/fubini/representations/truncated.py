"""Truncated: one Gaussian for each value of the bounded integers, of the moments that boxes and mixtures leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.errors import DomainError
from fubini.factors.carry import Advance, Carried, CarryLayout, default_layout, settled
from fubini.factors.gaussian import Gaussian
from fubini.factors.gaussian_carry import GaussianLayout, settle_gaussian
from fubini.factors.mixture import Mixture
from fubini.factors.mixture_moments import matched_over
from fubini.factors.piecewise import Piecewise
from fubini.factors.represent import Representation
from fubini.factors.tally import note_projection
from fubini.representations.projection import is_cut, named_where_opaque, require_moments, summed_without_boxes
from fubini.representations.quotients import kept_mass, mass_of, quotient, where_definite
from fubini.terms.factor import Factor, Product, rename
from fubini.terms.heads import exact_settle


class Truncated(Representation):
    """A Gaussian for each value of the bounded integers. Products with boxes are exact; after each step of a sequence,
    when every factor of the step is in, what is truncated or mixed becomes the Gaussian of its mass, mean and variance.

    >>> fb.rep.Truncated()
    Truncated()
    """

    stores = "a Gaussian for each value of the bounded integers"
    projects = True

    def layout(self, carried: Carried, names: tuple[Name, ...]) -> CarryLayout | None:
        """Gaussians, projected."""
        finite = [name for name, domain in carried.batch if name in names]
        if finite:
            raise DomainError(f"{self} of {finite[0]!r}", expected="a real variable", advice="use fb.rep.Dense()")
        plain = default_layout(carried)
        assert isinstance(plain, GaussianLayout), "real variables are handed on as Gaussians"
        return projected_layout(plain, repr(self)) if names else None

    def __repr__(self) -> str:
        return "Truncated()"


@dataclass(frozen=True)
class ProjectedLayout(GaussianLayout):
    """A Gaussian over everything: what is settled in it keeps its moments."""

    name: str = "Truncated()"

    @property
    def projects(self) -> bool:
        return True

    @property
    def holds(self) -> str:
        return "factors with moments: Gaussians, boxes of Gaussians, and sums of these"

    def advance(self, steps: Any, carry: Factor, terms: Sequence[Factor], key: Data | None) -> Advance:
        """Σ over the oldest states; where these are cut, the states before and after are projected together first."""
        if not is_cut(terms, steps.links.oldest):
            with named_where_opaque(terms, self.name):
                return super().advance(steps, carry, terms, key)
        joint = self.settled_joint(steps.joined([carry, *terms]))
        after = rename(steps.summed([joint], (*steps.links.oldest, *self.hidden)), steps.links.moves)
        return Advance(settled(after, self), None)

    def retreat(self, steps: Any, carry: Factor, terms: Sequence[Factor], after: Advance, later: Factor) -> Factor:
        """Σ over the newest states of carry · terms · later / after; where that has no moments, without later.

        A quotient of Gaussians need not be one that can be integrated, its product with the rest mostly can. It may
        grow without bound far from both, where a cell of small mass may be: so each cell after the step keeps its mass.
        """
        divided = quotient(later, after.carry, steps.links.before)
        oldest = [name for name in steps.links.oldest if not steps.domains[name].is_finite]
        if is_cut(terms, oldest):
            earlier = summed_without_boxes(steps.joined([carry, *terms]), oldest)
        else:
            earlier = steps.summed([carry, *terms], oldest)
        ratio = where_definite(divided.mapped(lambda part: rename(part, steps.links.moves_back)), earlier)
        joint = self.settled_joint(steps.joined([carry, *terms, ratio]))
        change = kept_mass(joint, rename(mass_of(later), steps.links.moves_back))
        return settled(steps.summed([joint, change], steps.links.newest), self)

    def settled_joint(self, joint: Factor) -> Factor:
        """Σ over the boxes of the states before and after a step, projected: their marginals have the same moments."""
        batch = tuple((name, domain) for name, domain in joint.inputs.items() if domain.is_finite)
        reals = tuple((name, domain) for name, domain in joint.inputs.items() if not domain.is_finite)
        names = tuple(name for name, _ in batch)
        return settled(joint, replace(self, batch=batch, reals=reals, vector_names=names, matrix_names=names))


def projected_layout(plain: GaussianLayout, name: str) -> ProjectedLayout:
    """The layout of precisions, which can be subtracted; all its arrays depend on every bounded integer."""
    full = plain.over_everything()
    return ProjectedLayout(
        full.batch, full.reals, full.dtype, full.homogeneous, full.vector_names, full.matrix_names, False, name
    )


@exact_settle.rule
def settle_projected(f: Mixture | Piecewise | Product, layout: ProjectedLayout) -> Gaussian:
    """f  →  w·N(m, V), its mass, mean and covariance for each value of the bounded integers"""
    require_moments(f, layout.name)
    made = settle_gaussian(matched_over(f, dict(layout.batch), layout.reals), layout)
    note_projection(type(f).__name__, made, layout.name)
    return made
