"""One latent alone: by its features or squares as it stands, between ends, folded, or after a change of variables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fubini.algebra.binding import transformed
from fubini.algebra.build import ZERO, call, const, get, index, plus
from fubini.algebra.features import Divergent, NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.families.family import family_of, is_family
from fubini.families.signature import Recognised
from fubini.integrate.between import ENDS, eliminate_between
from fubini.integrate.elimination import Eliminated, eliminated
from fubini.integrate.matrix_root import eliminate_matrix
from fubini.integrate.tails import eliminated_tail


def eliminate_one(terms: Sequence[Node], latent: Leaf, domain: str, is_plain: bool = False) -> Eliminated:
    """log ∫ exp(Σ terms) d latent, by the first rule that has a closed form."""
    if domain == "positive_definite":
        return eliminate_matrix(terms, latent)
    try:
        return eliminated(terms, latent, domain, is_plain)
    except Divergent:
        raise
    except NoClosedForm as error:
        attempts: list[Callable[[], Eliminated]] = []
        if domain in ENDS:
            attempts.append(lambda: eliminate_between(terms, latent, domain, is_plain))
        if domain == "positive":
            attempts.append(lambda: eliminate_folded(terms, latent))
            attempts.append(lambda: eliminate_exponential(terms, latent, is_plain))
        for attempt in attempts:
            try:
                return attempt()
            except NoClosedForm:
                continue
        raise error


def eliminate_folded(terms: Sequence[Node], latent: Leaf) -> Eliminated:
    """∫ f(x²) dx of positive x  =  ½ ∫ f(x²) dx of all x, where f(x²) is a power of a quadratic form"""
    whole = eliminated_tail(terms, latent)
    given, family = dict(whole.distribution.parameters), whole.distribution.family
    folded = family_of(family).folded if is_family(family) else None
    if folded is None or given.pop("loc") is not ZERO:
        raise NoClosedForm(latent, whole.distribution.log_normaliser, "a density that is the same at x and −x")
    half = const(-math.log(2))
    distribution = Recognised(folded, given, plus(whole.distribution.log_normaliser, half))
    return whole._replace(terms=(*whole.terms, total(whole.at, half)), distribution=distribution)


def eliminate_exponential(terms: Sequence[Node], latent: Leaf, is_plain: bool = False) -> Eliminated:
    """x = e^u:  ∫ exp f(log x) dx  =  ∫ exp(f(u) + u) du"""
    u = Leaf(latent.name, latent.shape, role=latent.role)
    at = tuple(Index(size, "i") for size in latent.shape)
    moved = [transformed(term, latent, lambda *places: call("exp", get(u, *places))) for term in terms]
    behind = next((term for term in moved if latent in term.leaves), None)
    if behind is not None:
        raise NoClosedForm(latent, behind, "no array of it that is not read")
    result = eliminated((*moved, total(at, get(u, *map(index, at)))), u, "real", is_plain)
    family = family_of(result.distribution.family).exponential
    assert family is not None, f"the family of e^x, with x from {result.distribution.family}"
    return result._replace(distribution=result.distribution._replace(family=family))
