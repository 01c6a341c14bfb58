"""One latent alone: by its features or squares as it stands, between two ends, or after a change of variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fubini.algebra.binding import transformed
from fubini.algebra.build import call, get, index
from fubini.algebra.features import Divergent, NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.families.family import family_of
from fubini.integrate.between import ENDS, eliminate_between
from fubini.integrate.elimination import Eliminated, eliminated


def eliminate_one(terms: Sequence[Node], latent: Leaf, domain: str, is_plain: bool = False) -> Eliminated:
    """log ∫ exp(Σ terms) d latent, by the first rule that has a closed form."""
    try:
        return eliminated(terms, latent, domain, is_plain)
    except Divergent:
        raise
    except NoClosedForm as error:
        attempts: list[Callable[[], Eliminated]] = []
        if domain in ENDS:
            attempts.append(lambda: eliminate_between(terms, latent, domain, is_plain))
        if domain == "positive":
            attempts.append(lambda: eliminate_exponential(terms, latent, is_plain))
        for attempt in attempts:
            try:
                return attempt()
            except NoClosedForm:
                continue
        raise error


def eliminate_exponential(terms: Sequence[Node], latent: Leaf, is_plain: bool = False) -> Eliminated:
    """x = e^u:  ∫ exp f(log x) dx  =  ∫ exp(f(u) + u) du"""
    u = Leaf(latent.name, latent.shape, role=latent.role)
    at = tuple(Index(size, "i") for size in latent.shape)
    moved = [transformed(term, latent, lambda *places: call("exp", get(u, *places))) for term in terms]
    result = eliminated((*moved, total(at, get(u, *map(index, at)))), u, "real", is_plain)
    family = family_of(result.distribution.family).exponential
    assert family is not None, f"the family of e^x, with x from {result.distribution.family}"
    return result._replace(distribution=result.distribution._replace(family=family))
