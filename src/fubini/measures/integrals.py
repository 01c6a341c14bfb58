"""The integral over one standard latent: each rule in turn, the first that has an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fubini.algebra.binding import replaced
from fubini.algebra.build import (
    ZERO,
    add,
    const,
    get,
    less,
    minus,
    negate,
    times,
    where,
)
from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.algebra.tidy import tidied
from fubini.algebra.walk import walk
from fubini.families.family import family_of
from fubini.families.functions import MINUS_INFINITY, exponential
from fubini.families.parameters import Vector
from fubini.families.signature import Recognised
from fubini.integrate.elimination import Eliminated, eliminated
from fubini.integrate.one_latent import eliminate_exponential
from fubini.integrate.ratio import summed_by_ratio
from fubini.integrate.tails import UNNAMED, eliminated_prime, eliminated_tail
from fubini.measures.draw_density import DrawDistribution
from fubini.measures.polynomial_weights import with_polynomial
from fubini.measures.quantiles import eliminated_quantile
from fubini.measures.standard import Case, Standard
from fubini.measures.state import State
from fubini.measures.truncated import DOMAINS, count_cut, cut, exponential_cut


class Integral(NamedTuple):
    """The remaining terms, the standard latent, and the distribution of the latent as it was where that is plainer."""

    result: Eliminated
    standard: Standard | None = None
    distribution: DrawDistribution | None = None


Terms = Sequence[Node]
ROUNDING = 1e-12


def integral(terms: Terms, moved: State, standard: Standard, case: Case, at: tuple[Index, ...]) -> Integral:
    """Of the standard latent in the terms moved to it; of the latent itself in the terms as they were."""
    leaf, new = standard.leaf, moved.terms
    rules: dict[str, tuple[Callable[[], Integral], ...]] = {
        "real": (
            lambda: Integral(eliminated(new, leaf, "real"), standard),
            lambda: Integral(eliminated_tail(new, leaf), standard),
            lambda: Integral(eliminated_quantile(terms, case), standard),
            lambda: _polynomial(new, standard),
        ),
        "positive": (
            lambda: Integral(eliminated(new, leaf, "positive"), standard),
            lambda: _prime(new, standard),
            lambda: Integral(eliminate_exponential(new, leaf), standard),
            *(lambda domain=domain: _cut(domain, terms, case, at, standard) for domain in ("real", "positive")),
            lambda: Integral(eliminated_quantile(terms, case), standard),
            lambda: _polynomial(new, standard),
        ),
        "unit": (
            lambda: Integral(eliminated(new, leaf, "unit"), standard),
            lambda: Integral(exponential_cut(new, leaf), standard),
            *(lambda domain=domain: _cut(domain, terms, case, at, standard) for domain in DOMAINS),
            lambda: Integral(eliminated_quantile(terms, case), standard),
            lambda: _polynomial(new, standard),
        ),
        "nat": (
            lambda: Integral(_counted(new, leaf, None), standard),
            lambda: Integral(count_cut(terms, case, at), standard),
            lambda: _polynomial(new, standard),
        ),
        "count": (lambda: Integral(_counted(new, leaf, standard.high), standard),),
    }
    try:
        require_untested(moved, leaf)
        return _finite(_first(rules[standard.domain]), leaf)
    except NoClosedForm:
        if standard.domain != "count" or leaf.high is None:
            raise
        return Integral(eliminated(_with_tests(moved, leaf), leaf, "bint"), standard)


def _finite(integrated: Integral, leaf: Leaf) -> Integral:
    """No shape is zero, or below, but for rounding."""
    shapes = [
        part
        for name, part in integrated.result.distribution.parameters.items()
        if name.startswith(("concentration", "df"))
    ]
    for part in shapes:
        if part.kind == "const" and part.args[0] <= ROUNDING:
            raise NoClosedForm(leaf, integrated.result.distribution.log_normaliser, "a finite integral")
    return integrated


def _first(rules: Sequence[Callable[[], Integral]]) -> Integral:
    """The answer of the first rule that has one, else what blocked the first."""
    blocked: NoClosedForm | None = None
    for rule in rules:
        try:
            return rule()
        except NoClosedForm as error:
            blocked = blocked or error
    assert blocked is not None
    raise blocked


def require_untested(state: State, leaf: Leaf) -> None:
    """No test that is not an inequality depends on a latent."""
    for test in state.tests:
        if leaf in test.node.leaves:
            raise NoClosedForm(leaf, test.node, "inequalities that can be solved for it")


def _with_tests(state: State, leaf: Leaf) -> tuple[Node, ...]:
    """Tests of a finite latent as terms, 0 or −∞."""
    tests = [test for test in state.tests if leaf in test.node.leaves]
    return (*state.terms, *(total(t.over, where(negate(t.node), MINUS_INFINITY, ZERO)) for t in tests))


def _counted(terms: Terms, leaf: Leaf, high: Node | None) -> Eliminated:
    log_density = add((term, 1.0) for term in terms if leaf in term.leaves)
    series = summed_by_ratio(log_density, leaf, high)
    rest = [term for term in terms if leaf not in term.leaves]
    return Eliminated(
        (*rest, *series.outside, total(series.at, series.distribution.log_normaliser)), series.at, series.distribution
    )


def _prime(terms: Terms, standard: Standard) -> Integral:
    """x = (c/d) u, with u a Beta prime"""
    result, ratio = eliminated_prime(terms, standard.leaf)
    u = get(standard.leaf)
    entry = replaced(standard.entry, {u: times(tidied(ratio), u)})
    if entry is u:
        return Integral(result, standard)
    new = Leaf(standard.leaf.name, (), low=0.0, role=standard.leaf.role)
    return Integral(result, standard._replace(leaf=new, entry=replaced(entry, {u: get(new)})))


def _polynomial(terms: Terms, standard: Standard) -> Integral:
    """∫ of a density of a known family times a polynomial"""
    leaf, domain = standard.leaf, standard.domain
    rule = (lambda of: _counted(of, leaf, None)) if domain == "nat" else (lambda of: eliminated(of, leaf, domain))
    return Integral(with_polynomial(terms, leaf, rule), standard)


def _cut(domain: str, terms: Terms, case: Case, at: tuple[Index, ...], standard: Standard) -> Integral:
    """∫ between two ends of a density of a known family: its mass there"""
    result, distribution = cut(domain, terms, case, at)
    return Integral(result, standard, distribution)


# -- distributions --------------------------------------------------------------------------------------------------


def distribution_of(result: Eliminated, leaf: Leaf) -> DrawDistribution:
    """A recognised family as a distribution, in the form that is most specific."""
    recognised = result.distribution
    if recognised.family in (UNNAMED, "Chain"):
        raise NoClosedForm(leaf, recognised.log_normaliser, "a distribution that has a name")
    record = family_of(recognised.family)
    given = {name: tidied(node) for name, node in recognised.parameters.items()}
    if record.is_of_vectors:
        ((name, entry),) = given.items()
        c = result.at[-1]
        return DrawDistribution(
            recognised.family, (Vector(c, entry if name in record.parameters else _probability(recognised, c.size)),)
        )
    return DrawDistribution(
        *(record.special_case(given) or (recognised.family, tuple(given[name] for name in record.parameters)))
    )


def _probability(recognised: Recognised, size: int) -> Node:
    """Of a label, by its logit."""
    return _defined(
        exponential(tidied(minus(recognised.parameters["logits"], recognised.log_normaliser))), recognised, size
    )


def _defined(probability: Node, recognised: Recognised, size: int) -> Node:
    """Where tests leave no value at all the weight is 0, and any distribution serves: a uniform one."""
    if MINUS_INFINITY not in walk(recognised.parameters["logits"]):
        return probability
    return where(less(MINUS_INFINITY, tidied(recognised.log_normaliser)), probability, const(1 / size))
