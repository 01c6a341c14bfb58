"""`fb.expectation_propagation`: factors without a closed form, each approximated in the light of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fubini.base.arrays import Data, is_traced
from fubini.base.interpretations import interpret
from fubini.base.names import Name, as_names
from fubini.base.semirings import sum_product
from fubini.eliminate.backward import normalized
from fubini.eliminate.forward import contract
from fubini.eliminate.prepare import Factors, covering_terms, split_terms
from fubini.errors import DomainError, FubiniError, listed
from fubini.factors.promotion import promoted
from fubini.factors.represent import restored
from fubini.propagate.answers import Answer, answer_on_engine, default_tolerance
from fubini.propagate.division_policy import Division, as_division, choose, damp, require_division
from fubini.propagate.factor_graph import stored_terms
from fubini.propagate.fixed_point import iterate, require_limits
from fubini.propagate.result import Marginals, Propagation, marked_value
from fubini.terms.exactness import combined, projected
from fubini.terms.factor import Factor, product
from fubini.terms.heads import DISTANCE, DIVIDE, MOMENTS, MULTIPLY_OUT, PROPER
from fubini.terms.value import Array

Project = Callable[[Factor], Factor]


@dataclass(frozen=True)
class Approximation:
    """All that is asked beside the numbers."""

    names: tuple[Name, ...]
    plates: tuple[Name, ...]
    batch: tuple[Name, ...]
    project: Project | None
    division: Division
    damping: float
    iterations: int
    tolerance: float


def expectation_propagation(
    factors: Factors,
    names: Sequence[Name],
    *,
    plates: Sequence[Name] = (),
    batch: Sequence[Name] = (),
    project: Project | None = None,
    division: str | Division = "allow",
    damping: float = 0.0,
    iterations: int = 100,
    tolerance: float | None = None,
) -> Propagation:
    """Approximate the product of factors by one factor over the names, q = Π sites, and its sum by that of q.

    A factor that `project` leaves as it is stands for itself. Each of the others has a site: cavity = q ⊘ site,
    tilted = project(f ⊗ cavity), site = tilted ⊘ cavity, in turn, until q no longer changes. The default projection is
    onto the Gaussian of the same mass, mean and covariance, by quadrature where these have no closed form; a factor of
    many variables is projected along the one or two linear functions of them that it depends on. The sites of a factor
    with `plates` among its inputs, one for each cell, are found all at once. The scale of a site is kept, and with it
    the evidence.

    >>> x, phi = fb.Variable("x", fb.Real), fb.lift(jax.scipy.special.ndtr)
    >>> likelihood = fb.dist.Bernoulli(probs=phi(2.0 * x))("y")(y=1)
    >>> result = expectation_propagation([fb.dist.Normal(0.0, 1.0)("x"), likelihood], ("x",))
    >>> round(float(result.log_evidence), 6), round(float(result.marginals["x"].mean("x")), 6)
    (-0.693147, 0.71365)
    """
    tolerance = default_tolerance(split_terms(factors)) if tolerance is None else tolerance
    asked = Approximation(
        as_names(names, "the names"),
        as_names(plates, "the plates"),
        as_names(batch, "the batch"),
        project,
        as_division(division),
        float(damping),
        iterations,
        float(tolerance),
    )
    with stored_terms(factors, asked.names, "fb.expectation_propagation") as stored:
        terms, exact = _prepared(stored, asked)
        answer = answer_on_engine(_approximate, (asked, exact), terms)
        found = [*map(restored, answer.marginals)]
    mark = combined(terms)
    mark = mark if all(exact) else mark | projected("moments")
    return Propagation(
        marginals=Marginals(asked.names, found, None, mark),
        log_evidence=marked_value(answer.log_evidence, mark),
        beliefs=tuple(answer.beliefs),
        assignment=None,
        iterations=answer.iterations,
        converged=True if all(exact) else answer.change <= tolerance,
        change=answer.change,
        divisions=answer.touched,
        exactness=mark,
    )


def _prepared(terms: list[Factor], asked: Approximation) -> tuple[list[Factor], tuple[bool, ...]]:
    """The factors with their own variables summed out, and which of them stand for themselves."""
    require_limits(asked.damping, asked.tolerance, asked.iterations)
    if not asked.names:
        raise DomainError("expectation propagation over no names", expected="at least one name")
    covering_terms(terms, asked.names, "expectation propagation over")
    covering_terms(terms, asked.plates, "the plates")
    covering_terms(terms, asked.batch, "the batch")
    terms = [_without_own(term, terms, asked) for term in terms]
    return terms, tuple(_is_held(term, asked) for term in terms)


def _without_own(term: Factor, terms: Sequence[Factor], asked: Approximation) -> Factor:
    """The factor with the variables summed out that it alone has."""
    own = [name for name in term.inputs if name not in (*asked.names, *asked.plates, *asked.batch)]
    for name in own:
        if any(name in other.inputs for other in terms if other is not term):
            raise DomainError(
                f"expectation propagation over {listed(asked.names)}, with {name!r} in several factors",
                expected="other variables in one factor each, which are summed out of it",
                advice=f"ask for {name!r} too, or sum it out first",
            )
    return promoted(term.sum(*own) if own else term)


def _project(factor: Factor, asked: Approximation) -> Factor:
    return asked.project(factor) if asked.project is not None else interpret(MOMENTS, factor, asked.names)


def _is_held(term: Factor, asked: Approximation) -> bool:
    """Whether the projection leaves a factor as it is."""
    if not any(name in term.inputs for name in asked.names):
        return True
    try:
        return _project(term, asked) is term
    except FubiniError:
        return False


# -- sites ----------------------------------------------------------------------------------------------------------


def _approximate(asked: Approximation, exact: tuple[bool, ...], terms: Sequence[Factor]) -> Answer:
    fixed = [_out_of_plates(term, asked) for term, held in zip(terms, exact, strict=True) if held]
    sites = _Sites(asked, fixed, [term for term, held in zip(terms, exact, strict=True) if not held])
    found, touched = sites.visit([None] * len(sites.factors))
    progress = iterate(sites.step, found, asked.iterations - 1, asked.tolerance, touched) if found else None
    state, change, count, touched = (found, 0.0, 0, 0) if progress is None else progress
    q = sites.join(state)
    marginals = [normalized(contract(sum_product, [q], frozenset((name, *asked.batch))), name) for name in asked.names]
    total = contract(sum_product, [q], frozenset(asked.batch))
    count = count + 1 if found else 0
    return Answer(marginals, total.log(), [q, *state], [], change, count, touched)


def _out_of_plates(factor: Factor, asked: Approximation) -> Factor:
    plates = tuple(plate for plate in asked.plates if plate in factor.inputs)
    return interpret(MULTIPLY_OUT, factor, plates) if plates else factor


@dataclass(frozen=True, eq=False)
class _Sites:
    """The factors that stand for themselves, and those that sites stand for."""

    asked: Approximation
    fixed: list[Factor]
    factors: list[Factor]

    def join(self, sites: Sequence[Factor | None]) -> Factor:
        """q = Π f ⊗ Π site"""
        parts = [*self.fixed, *(_out_of_plates(site, self.asked) for site in sites if site is not None)]
        return promoted(product(*parts))

    def step(self, sites: list[Factor]) -> tuple[list[Factor], Data, Data]:
        """Visit every site; how far q moves."""
        new, touched = self.visit(sites)
        return new, interpret(DISTANCE, self.join(new), self.join(sites)), touched

    def visit(self, sites: Sequence[Factor | None]) -> tuple[list[Factor], Data]:
        """Update each site in turn."""
        now = list(sites)
        touched: Data = 0
        for position, factor in enumerate(self.factors):
            now[position], more = self._update(factor, now, position)
            touched = touched + more
        return now, touched  # type: ignore[return-value]

    def _update(self, factor: Factor, sites: list, position: int) -> tuple[Factor, Data]:
        """cavity = q ⊘ site;  tilted = project(f ⊗ cavity);  site′ = tilted ⊘ cavity"""
        asked, old = self.asked, sites[position]
        others = (*asked.plates, *asked.batch)
        q = contract(sum_product, [self.join(sites)], frozenset((*factor.inputs, *asked.batch)))
        cavity, proper = self._cavity(q, old, others)
        tilted = promoted(_project(product(factor, cavity), asked))
        site, touched = asked.division.divide(tilted, cavity, old, batch=others)
        if old is not None and asked.damping:
            site = damp(old, site, 1.0 - asked.damping)
        if old is None or proper is None:
            return site, touched
        return choose(proper, site, old), touched + proper.array.size - proper.array.sum()

    def _cavity(self, q: Factor, site: Factor | None, others: tuple[Name, ...]) -> tuple[Factor, Array | None]:
        """q ⊘ site, and where it is proper; elsewhere q stands in, and the site is left as it is.

        The policy `allow` leaves an improper cavity to the projection, which refuses it.
        """
        if site is None:
            return q, None
        require_division(q, site)
        cavity = interpret(DIVIDE, q, site)
        if self.asked.division.policy == "allow":
            return cavity, None
        proper = interpret(PROPER, cavity, tuple(name for name in cavity.inputs if name not in others))
        if not is_traced(proper.array) and np.all(proper.array):
            return cavity, None
        return choose(proper, cavity, q), proper
