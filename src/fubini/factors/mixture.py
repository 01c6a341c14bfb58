"""Mixture: a sum of factors, Σ_c Σ_k f_c(k, …), with the indices k bound. Exact, and of limited size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data
from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Bound, Name
from fubini.base.semirings import sum_product
from fubini.errors import DataError, Intractable, listed
from fubini.factors.printed import moments_form
from fubini.factors.table import Table
from fubini.factors.table_rules import add_tables, divide_tables
from fubini.show.notation import Big, Infix, Notation
from fubini.show.printed_form import Block
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor, Product, rename
from fubini.terms.fields import static_field, term_field
from fubini.terms.indexing import fold
from fubini.terms.term import Term
from fubini.terms.value import Value

# The most terms a mixture may have.
CAP = 2**14


class Mixture(Factor):
    """Σ_c Σ_k f_c: each component is summed over those of the bound indices that it has.

    Sums of bounded integers out of Gaussians and Deltas make mixtures, and so does `f + g`.

    >>> f = fb.dist.Normal(-1.0, 1.0)("x") + fb.dist.Normal(1.0, 1.0)("x")
    >>> type(f).__name__, f.mean("x"), f.variance("x")
    ('Mixture', 0, 2)
    """

    grows = True
    components: tuple[Factor, ...] = term_field()
    bounds: tuple[Bound, ...] = static_field()

    def __init__(self, components: Sequence[Factor], bounds: Sequence[Bound] = ()) -> None:
        both = merge_inputs(*(component.inputs for component in components))
        inputs = {name: domain for name, domain in both.items() if name not in bounds}
        self._set(components=tuple(components), bounds=tuple(bounds), inputs=inputs)

    @property
    def size(self) -> int:
        """The number of terms that are added up in each cell of the batch.

        >>> (fb.dist.Normal(-1.0, 1.0)("x") + fb.dist.Normal(1.0, 1.0)("x")).size
        2
        """
        return sum(map(self._terms_of, self.components))

    def _terms_of(self, component: Factor) -> int:
        """The number of terms of one component."""
        return math.prod(domain.extent for domain in self.bound_in(component).values())

    @property
    def pins(self) -> tuple[Name, ...]:
        return tuple(dict.fromkeys(name for component in self.components for name in component.pins))

    @property
    def is_known_zero(self) -> bool:
        return all(component.is_known_zero for component in self.components)

    def require_one_measure(self, names: Sequence[Name], asked: str) -> None:
        """A density and a point mass of one real variable cannot be compared at a point."""
        for name in names:
            pinned = [name in component.pins for component in self.components]
            if any(pinned) and not all(pinned) and not self.inputs[name].is_finite:
                raise Intractable(
                    asked,
                    expected=f"components that all have a density in {name!r}, or all a point mass",
                    nearest="some have one and some the other: a point mass outweighs any density, so their sum at a "
                    "point is not a number",
                    advice=f"condition on the discrete variables that choose between them, or integrate over {name!r}",
                )

    def bound_in(self, component: Factor) -> dict[Name, Domain]:
        """The bound indices of a component."""
        return {name: component.inputs[name] for name in self.bounds if name in component.inputs}

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Mixture(tuple(rename(component, names) for component in self.components), self.bounds)

    def _marked(self, mark: Exactness) -> Factor:
        return Mixture(tuple(component._marked(mark) for component in self.components), self.bounds)

    def _relabelled(self, labels: Mapping[str, str]) -> Factor:
        fresh: dict[Name, Name] = {bound: Bound(labels.get(bound.label, bound.label)) for bound in self.bounds}
        components = tuple(rename(component, fresh) for component in self.components)
        return Mixture(components, tuple(fresh.values()))  # type: ignore[arg-type]

    def _evaluated(self, children: tuple) -> Factor:
        return mixture(children, self.bounds)

    def _log(self) -> Value:
        self.require_one_measure(tuple(self.inputs), f"the logarithm of {self}")
        logs = [fold(ops.logaddexp, component.log(), *self.bound_in(component)) for component in self.components]
        return reduce(ops.logaddexp, logs)

    def notation(self) -> Notation:
        parts = [component.notation() for component in self.components]
        total = parts[0] if len(parts) == 1 else Infix("+", tuple(parts))
        return Big("Σ", tuple(map(str, self.bounds)), total) if self.bounds else total

    def _form(self) -> Iterable[Block]:
        return moments_form(self)

    # -- moments ----------------------------------------------------------------------------------------------------

    def _shares(self, name: Name) -> list[tuple[Factor, Value]]:
        """Each component with its share of the mass, for each cell of its bound indices and of the batch."""
        parts = [component._joined() for component in self.components]
        masses = [part.sum(name)._joined() for part in parts]
        total = mixture(masses, self.bounds)
        return [(part, share_of(mass, total)) for part, mass in zip(parts, masses, strict=True)]

    def _mean(self, name: Name) -> Value:
        """Σ_c share_c · mean_c"""
        return reduce(ops.add, [self._averaged(share, part.mean(name)) for part, share in self._shares(name)])

    def _covariance(self, name: Name) -> Value:
        """Σ_c share_c · (covariance_c + (mean_c − mean)(mean_c − mean)ᵀ)"""
        mean = self._mean(name)
        spread = [(share, part.covariance(name), part.mean(name) - mean) for part, share in self._shares(name)]
        return reduce(ops.add, [self._averaged(share, within + _outer(gap)) for share, within, gap in spread])

    def _variance(self, name: Name) -> Value:
        """Σ_c share_c · (variance_c + (mean_c − mean)²)"""
        mean = self._mean(name)
        spread = [(share, part.variance(name), part.mean(name) - mean) for part, share in self._shares(name)]
        return reduce(ops.add, [self._averaged(share, within + gap * gap) for share, within, gap in spread])

    def _averaged(self, share: Value, value: Value) -> Value:
        weighted = share * value
        return fold(ops.add, weighted, *(name for name in self.bounds if name in weighted.inputs))


def share_of(mass: Factor, total: Factor) -> Value:
    """mass / total as numbers; of tables with a derivative where the mass is zero."""
    if isinstance(mass, Table) and isinstance(total, Table):
        return divide_tables(mass, total).numbers()
    log = total.log()
    empty = ops.equal(log, -np.inf)  # where there is no mass there are no shares
    return ops.exp(mass.log() - ops.where(empty, 0.0, log)) + ops.where(empty, np.nan, 0.0)


def _outer(value: Value) -> Value:
    return value * value if not value.output.shape else _outer_product(value)


@ops.lift
def _outer_product(value: Data) -> Data:
    return (value.reshape(-1, 1) * value.reshape(1, -1)).reshape(value.shape + value.shape)


def mixture(components: Sequence[Factor], bounds: Sequence[Bound] = ()) -> Factor:
    """Σ over components and bound indices, in as few components as it takes: tables are added, mixtures opened."""
    flat: list[Factor] = []
    bounds = tuple(bounds)
    for component in components:
        if isinstance(component, Mixture):
            flat.extend(component.components)
            bounds = (*bounds, *component.bounds)
        else:
            flat.append(component._joined() if isinstance(component, Product) else component)
    bounds = tuple(dict.fromkeys(bounds))
    tables = [component for component in flat if isinstance(component, Table)]
    others = [component for component in flat if not isinstance(component, Table)]
    if tables:
        summed = [table.reduced(sum_product, [name for name in bounds if name in table.inputs]) for table in tables]
        others.append(reduce(add_tables, summed))
    others = _without_zeros(others)
    used = tuple(bound for bound in bounds if any(bound in component.inputs for component in others))
    if len(others) == 1 and not used:
        return others[0]
    made = Mixture(others, used)
    require_within_cap(sum(made._terms_of(component) for component in others if not _is_stored(made, component)), made)
    return made


def _is_stored(made: Mixture, component: Factor) -> bool:
    """Whether atoms, particles say, are stored one by one already: their sum takes no more room."""
    return bool(component.pins) and any(np.size(leaf) >= made._terms_of(component) for leaf in component.leaves())


def summed(factor: Factor, names: Sequence[Name]) -> Factor:
    """Σ over bounded integers of one factor, as a mixture with fresh bound names in their place."""
    fresh: dict[Name, Name] = {name: Bound(name) for name in names}
    return mixture((rename(factor, fresh),), tuple(fresh.values()))  # type: ignore[arg-type]


def _without_zeros(components: list[Factor]) -> list[Factor]:
    """The components that are not known to be zero everywhere; all inputs stay."""
    if len(components) < 2:
        return components
    nonzero = [component for component in components if not component.is_known_zero]
    inputs = {name for component in components for name in component.inputs}
    return nonzero if nonzero and inputs == {name for component in nonzero for name in component.inputs} else components


def bounds_within(term: Term) -> set[Bound]:
    """The bound indices of all mixtures in a term."""
    own = set(term.bounds) if isinstance(term, Mixture) else set()
    return own.union(*map(bounds_within, term.children))


def freshened(f: Mixture, other: Factor) -> Mixture:
    """The same mixture with bound names that the other factor does not have."""
    taken = bounds_within(other)
    fresh: dict[Name, Name] = {bound: Bound(bound) for bound in f.bounds if bound in taken}
    if not fresh:
        return f
    components = tuple(rename(component, fresh) for component in f.components)
    return Mixture(components, tuple(fresh.get(bound, bound) for bound in f.bounds))  # type: ignore[arg-type]


def require_within_cap(size: int, what: Factor, blocking: str = "") -> None:
    """Raise where a mixture would have more terms than the cap allows."""
    if size > CAP:
        raise Intractable(
            blocking or f"a mixture over {listed(what.bounds if isinstance(what, Mixture) else what.inputs)}",
            expected=f"at most {CAP:,} terms",
            nearest=f"it would have {_count(size)} terms",
            advice="project it onto one Gaussian: `with fb.moment_matching():`; or observe a discrete variable, or "
            "integrate the real ones out first",
        )


def _count(size: int) -> str:
    return f"{size:,}" if size < 10**9 else f"about 10^{math.log10(size):.0f}"


def require_discrete(f: Factor, names: Sequence[Name]) -> None:
    """Raise unless a product is taken over bounded integers alone."""
    reals = [name for name in names if not f.inputs[name].is_finite]
    if reals:
        raise DataError(
            f"a product over {reals[0]!r}: {f.inputs[reals[0]]!r}",
            expected="a bounded integer: there is no product over the reals",
        )
