"""Normal latents integrated out in natural form, ½ B²/P: what statistics of the labels can be updated in.

The eliminator writes squares around means, which lose nothing but are new for every label that changes. Here the
precision P and the push B are plain sums over items; `difference` writes what they change by around means again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from fubini.algebra.binding import remade
from fubini.algebra.build import ONE, ZERO, add, call, multiply, scale, times
from fubini.algebra.features import Monomial, NoClosedForm, monomials
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.node_notation import written
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite
from fubini.compile.unroll import short_axes, unrolled
from fubini.errors import DataError
from fubini.integrate.finite import tests
from fubini.integrate.one_latent import eliminate_one
from fubini.integrate.search import Latent


def without(
    terms: Sequence[Node], latents: Mapping[str, Latent], labels: frozenset[Leaf] = frozenset()
) -> tuple[Node, ...]:
    """log ∫ exp(Σ terms) over latents, one after another; blocked where entries of a normal one are coupled."""
    for leaf, domain in latents.values():
        if domain.kind == "real":
            terms = natural_or_unrolled(terms, leaf, labels)
        else:
            terms = eliminate_one(terms, leaf, domain.kind).terms
    return tuple(term for term in terms if term is not ZERO)


def natural_or_unrolled(terms: Sequence[Node], latent: Leaf, labels: frozenset[Leaf]) -> tuple[Node, ...]:
    """A normal latent, or its slices along a short axis one after another where entries along it are coupled."""
    try:
        return natural(terms, latent, labels)
    except NoClosedForm:
        for axis in short_axes(latent):
            try:
                remaining, slices = unrolled(terms, latent, axis)
                for part in slices:
                    remaining = natural_or_unrolled(remaining, part, labels)
                return tuple(remaining)
            except NoClosedForm:
                continue
        raise


def natural(terms: Sequence[Node], latent: Leaf, labels: frozenset[Leaf] = frozenset()) -> tuple[Node, ...]:
    """∫ exp(−½ P x² + B x) dx  =  √(2π/P) exp(½ B²/P), at every entry"""
    rest = [term for term in terms if latent not in term.leaves]
    log_density = add((term, 1.0) for term in terms if latent in term.leaves)
    at = tuple(Index(size, "i") for size in latent.shape)
    coefficients: dict[float, list[Node]] = {0.0: [], 1.0: [], 2.0: []}
    for part in monomials(log_density, latent):
        coefficients[_degree(part, log_density, latent)].append(_at_entry(part, at))
    precision, push = scale(-2.0, _whole(coefficients[2.0])), _whole(coefficients[1.0])
    if precision is ZERO:
        raise NoClosedForm(latent, log_density, "a quadratic term: its integral is infinite")
    if labels and without_items(precision, labels) is ZERO:
        raise DataError(
            f"a sampler with {latent.name!r} integrated out",
            expected="a proper prior of it: a class without items has no density else",
            nearest=f"its precision is {written(precision)[:160]}",
        )
    quadratic = scale(0.5, multiply(((push, 2.0), (precision, -1.0))))
    normaliser = add(((ONE, 0.5 * math.log(2 * math.pi)), (call("log", precision), -0.5), (quadratic, 1.0)))
    return (*rest, _whole(coefficients[0.0]), total(at, normaliser))


def without_items(of: Node, labels: frozenset[Leaf]) -> Node:
    """Set all sums over labels in a node to 0."""

    def change(this: Node, visit: Callable[[Node], Node]) -> Node:
        if not this.leaves & labels:
            return this
        return ZERO if this.kind == "sum" else remade(this, visit)

    return rewrite(of, change)


def _degree(of: Monomial, log_density: Node, latent: Leaf) -> float:
    if not of.features:
        return 0.0
    feature, *others = of.features
    if others or feature.kind != "power" or feature.power not in (1.0, 2.0):
        raise NoClosedForm(latent, log_density, "one of its entries in a square: entries of one square are coupled")
    return feature.power


def _at_entry(of: Monomial, at: tuple[Index, ...]) -> Node:
    """The coefficient of x[i], or of what has no x."""
    where = tests(of.features[0].place, at) if of.features else ONE
    return total(of.over, times(of.coefficient, where))


def _whole(parts: Iterable[Node]) -> Node:
    return add((part, 1.0) for part in parts)
