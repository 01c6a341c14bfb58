"""f(x, y) = p(x | y) · Z(y): open products of densities, integrated in index notation.

A plan is made once for factors of one structure whose numbers have the same ranges; new numbers run it again.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np

from fubini.algebra.features import require_convergent
from fubini.algebra.node import Index, Leaf
from fubini.algebra.node_notation import written
from fubini.base.arrays import Data, is_jax, is_traced
from fubini.base.closure import Closure
from fubini.base.names import Name
from fubini.base.ops import Lifted
from fubini.bridge.bounds import known_bounds
from fubini.bridge.factor_reader import FactorReader, Facts, Unreadable, leaf_of, parts_of_density
from fubini.bridge.indexed_density import Disintegration, IndexedDensity
from fubini.bridge.integrand import Integrand
from fubini.distributions.blueprint import interval_tests
from fubini.eliminate.plan import PLANS
from fubini.errors import Intractable, listed
from fubini.factors.delta import Delta
from fubini.factors.mixture import Mixture
from fubini.terms.factor import Factor, Weight, product, terms_of
from fubini.terms.heads import exact_disintegrate, exact_maximise
from fubini.terms.term import Term
from fubini.terms.value import Apply, Array, Value, Variable


@dataclass(frozen=True, eq=False)
class Recipe:
    """The integrand of factors of one structure; `slots` are the leaves of their arrays, in order."""

    integrand: Integrand
    slots: tuple[Leaf, ...]
    places: tuple[int | Name, ...]  # where the value of each slot is: the place of an array, or the name of a variable
    read: Captured  # what its functions read when it was made, kept so that no other array takes its place


LARGEST = 100_000  # numbers that a plan may keep


def arrays_of(term: Term) -> list[Array]:
    """The arrays in a term, in a fixed order."""
    if isinstance(term, Array):
        return [term]
    return [array for child in term.children for array in arrays_of(child)]


class Captured(NamedTuple):
    """The values that functions in a term capture: a key to compare them by, and the JAX arrays among them."""

    key: tuple
    arrays: tuple[Data, ...]


def captured(term: Term) -> Captured:
    """Numbers that lifted functions capture are part of a plan: changed, they make another."""
    functions = [lifted.function for lifted in _lifted(term)]
    flat = [jax.tree_util.tree_flatten(Closure(f)) for f in functions if isinstance(f, types.FunctionType)]
    arrays = tuple(leaf for leaves, _ in flat for leaf in leaves)
    return Captured((tuple(tree for _, tree in flat), tuple(map(id, arrays))), arrays)


def _lifted(term: Term) -> Iterator[Lifted]:
    if isinstance(term, Apply) and isinstance(term.op.function, Lifted):
        yield term.op.function
    for child in term.children:
        yield from _lifted(child)


def _decisive(term: Term) -> Iterator[Array]:
    """The arrays whose entries decide the form of a density: ends of intervals, and the tests of which ends count."""
    if (parts := parts_of_density(term)) is not None and (places := interval_tests(parts.blueprint)):
        for part in (parts.value, *(parts.parameters[place] for place in places)):
            yield from arrays_of(part)
    for child in term.children:
        yield from _decisive(child)


@exact_disintegrate.rule
def disintegrate(f: Factor, names: tuple) -> Disintegration:
    """f(x, y)  =  p(x | y) · Z(y)"""
    return disintegrated(f, names)


@exact_maximise.rule
def maximise(f: Factor, names: tuple) -> Disintegration:
    """max_x f(x, y), and where"""
    disintegration = indexed(f, names, has_axes=False).at_greatest(names)
    if disintegration.plan.blocked:
        raise not_integrable(f, disintegration, "the maximum")
    return disintegration


def disintegrated(f: Factor, names: Sequence[Name]) -> Disintegration:
    """The names integrated out of a product of factors that no rule joins, or the error that says why not."""
    disintegration = indexed(f, names).without(names)
    if disintegration.plan.blocked:
        raise not_integrable(f, disintegration)
    return replace(disintegration, otherwise=lambda: indexed(f, names, has_axes=False).without(names))


def not_integrable(f: Factor, disintegration: Disintegration, what: str = "the integral") -> Intractable:
    """Return the error of names that were asked for and remain."""
    require_convergent(disintegration.plan.blocked)
    why = "; ".join(
        f"{name!r} needs {error.why}, in {written(error.node)[:160]}"  # type: ignore[attr-defined]
        for name, error in disintegration.plan.blocked.items()
    )
    return _blocked(f, list(disintegration.plan.blocked), why, disintegration.plan.eliminated, what)


def indexed(f: Factor, names: Sequence[Name], has_axes: bool = True) -> IndexedDensity:
    """A product of factors in index notation, over these names; others of finite domains are indices if it has axes."""
    as_written = (Delta, Mixture)  # the reader says why they stand in the way
    terms = [term if term.promotes or isinstance(term, as_written) else Weight(term.log()) for term in terms_of(f)]
    whole = product(*terms)
    names = tuple(name for name in whole.inputs if name in names)  # as they first occur: orders begin with the last
    arrays = arrays_of(whole)
    decisive = {id(array.array) for array in _decisive(whole)}
    facts = {
        id(array.array): (Facts.of_entries if id(array.array) in decisive else Facts.of)(array.array)
        for array in arrays
    }
    first: dict[int, int] = {}
    pattern = tuple(first.setdefault(id(array.array), place) for place, array in enumerate(arrays))
    read = captured(whole)
    key = (
        *(whole.structure, tuple(whole.inputs), names, has_axes, pattern),  # names that are bound differ
        *(tuple(facts[id(array.array)] for array in arrays), read.key),
    )
    recipe: Recipe = PLANS.get_or_make(key, lambda: _recipe(whole, names, facts, first, read, has_axes))
    known = recipe.integrand.reader.known.values()
    if is_traced(*read.arrays, *known) or sum(np.size(array) for array in known) > LARGEST:
        PLANS.forget(key)
    slots = {
        leaf: _held(arrays[place]) if isinstance(place, int) else Variable(place, whole.inputs[place])
        for leaf, place in zip(recipe.slots, recipe.places, strict=True)
    }
    is_on_jax = any(is_jax(array.array) for array in arrays)
    return IndexedDensity(recipe.integrand, slots, whole.inputs, whole.exactness, is_on_jax)


def _held(array: Array) -> Value:
    """An array with its named axes as the first of its event."""
    return Array._of(array.array, (), {}, array.output.with_shape(array.array.shape), array.mark)


def _recipe(
    f: Factor,
    names: Sequence[Name],
    facts: Mapping[int, Facts],
    first: Mapping[int, int],
    read: Captured,
    has_axes: bool,
) -> Recipe:
    bounded = known_bounds(f)
    latents = {name: leaf_of(name, f.inputs[name], bounded.get(name)) for name in names}
    kept = [name for name, domain in f.inputs.items() if name not in latents and domain.is_finite and not domain.shape]
    indices = {name: Index(f.inputs[name].extent, str(name)) for name in kept} if has_axes else {}
    reading = FactorReader(latents, indices, facts)
    try:
        terms = tuple(reading.terms(f))
    except Unreadable as error:
        infinite = [name for name in names if not f.inputs[name].is_finite]
        raise _blocked(f, infinite or names, str(error).splitlines()[0]) from error
    places: list[int | Name] = []
    for value in reading.slots.values():
        if isinstance(value, Variable):
            places.append(value.name)
        else:
            assert isinstance(value, Array)
            places.append(first[id(value.array)])
    domains = {name: f.inputs[name] for name in latents}
    supports = {name: bounds.domain for name, bounds in bounded.items() if name in latents}
    integrand = Integrand(terms, latents, domains, reading.reader, {of: n for n, of in indices.items()}, supports)
    return Recipe(integrand, tuple(reading.slots), tuple(places), read)


def _blocked(
    f: Factor, names: Sequence[Name], why: str, gone: Sequence[Name] = (), what: str = "the integral"
) -> Intractable:
    """Return the error of an integral without a closed form."""
    done = f"; {listed(gone)} can be integrated out" if gone else ""
    return Intractable(
        f"{what} over {listed(names)} of {f}",
        expected="factors that multiply into one Table, Gaussian, Delta or Mixture, or into a family that is known",
        nearest=f"{why}{done}",
        advice="observe or keep these variables, record the sum with `with fb.lazy:`, or approximate it",
    )
