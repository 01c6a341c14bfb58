"""f(x, y) = p(x | y) · Z(y): open products of densities, integrated in index notation.

A plan is found once for factors of one structure whose numbers have the same ranges; new numbers run it again.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax

from fubini.arrays import Data, is_traced
from fubini.bridge.bounds import known_bounds
from fubini.bridge.conditionals import Setting, conditionals
from fubini.bridge.expression import Expression
from fubini.bridge.reader import FactorReader, Facts, Unreadable, leaf_of
from fubini.closure import Closure
from fubini.domains import Domain
from fubini.errors import Intractable, listed
from fubini.factors.delta import Delta
from fubini.factors.mixture import Mixture
from fubini.factors.table import Table
from fubini.index.build import plus
from fubini.index.node import Index, Leaf
from fubini.index.notation import written
from fubini.ops import Lifted
from fubini.read.reader import Reader
from fubini.symbolic.collect import require_convergent
from fubini.symbolic.search import Latent, Reduced, reduced
from fubini.terms.factor import Factor, Unit, Weight, product, terms_of
from fubini.terms.heads import exact_disintegrate
from fubini.terms.term import Name, Term
from fubini.terms.value import Apply, Array, Value, Variable, is_enumerable, to_array


@dataclass(frozen=True, eq=False)
class Recipe:
    """How names are integrated out of factors of one structure; `slots` are the leaves of their arrays, in order."""

    reader: Reader
    latents: Mapping[Name, Leaf]
    domains: Mapping[Name, Domain]
    axes: Mapping[Index, Name]
    slots: tuple[Leaf, ...]
    places: tuple[int | Name, ...]  # where the value of each slot is: the place of an array, or the name of a variable
    reduced: Reduced
    read: Captured  # what its functions read when it was made, kept so that no other array takes its place


@dataclass(frozen=True, eq=False)
class Disintegration:
    """Z and the conditionals of what was integrated out of a factor, made when they are asked for."""

    recipe: Recipe
    slots: Mapping[Leaf, Value]
    factor: Factor

    @cached_property
    def remaining(self) -> Factor:
        """Z, over all names that are left: a Table where these are finite."""
        whole, recipe = plus(*self.recipe.reduced.terms), self.recipe
        used = {leaf: value for leaf, value in self.slots.items() if leaf in whole.leaves}
        found = Expression(whole, used, recipe.reader, recipe.axes, mark=self.factor.exactness)
        rest = {name: domain for name, domain in self.factor.inputs.items() if name not in recipe.latents}
        missing = {name: domain for name, domain in rest.items() if name not in found.inputs}
        if is_enumerable(found):
            logs = to_array(found)
            made: Factor = Table.from_log(logs.array, tuple(logs.names))._marked(found.exactness)
        else:
            made = Weight(found)
        return product(Unit(missing), made) if missing else made

    @cached_property
    def conditionals(self) -> tuple[Factor, ...]:
        """p(x | y, what is eliminated after x), in the order of elimination."""
        recipe, found = self.recipe, []
        setting = Setting(recipe.latents, recipe.domains, recipe.reader, recipe.axes, self.factor.exactness)
        for place, step in enumerate(recipe.reduced.steps):
            later = [name for after in recipe.reduced.steps[place + 1 :] for name in after.names]
            slots = {**self.slots, **{recipe.latents[n]: Variable(n, recipe.domains[n]) for n in later}}
            found.extend(reversed(conditionals(step, slots, setting)))
        return tuple(found)


_RECIPES: dict[tuple, Recipe] = {}
_KEPT = 1024


def arrays_of(term: Term) -> list[Array]:
    """The arrays in a term, in a fixed order."""
    if isinstance(term, Array):
        return [term]
    return [array for child in term.children for array in arrays_of(child)]


class Captured(NamedTuple):
    """What the functions in a term read from around them: how it compares, and the JAX arrays among it."""

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


@exact_disintegrate.rule
def disintegrate(f: Factor, names: tuple) -> Disintegration:
    """f(x, y)  =  p(x | y) · Z(y)"""
    return disintegrated(f, names)


def disintegrated(f: Factor, names: Sequence[Name]) -> Disintegration:
    """The names integrated out of a product of factors that no rule joins, or the error that says why not."""
    as_written = (Delta, Mixture)  # the reader says why they stand in the way
    terms = [term if term.promotes or isinstance(term, as_written) else Weight(term.log()) for term in terms_of(f)]
    whole = product(*terms)
    names = [name for name in whole.inputs if name in names]  # as they are first met: orders are tried from the last
    arrays = arrays_of(whole)
    facts = {id(array.array): Facts.of(array.array) for array in arrays}
    first: dict[int, int] = {}
    pattern = tuple(first.setdefault(id(array.array), place) for place, array in enumerate(arrays))
    read = captured(whole)
    key = (
        *(whole.structure, tuple(whole.inputs), tuple(names), pattern),  # names that are bound are told apart
        *(tuple(facts[id(array.array)] for array in arrays), read.key),
    )
    recipe = _RECIPES.get(key)
    if recipe is None:
        recipe = _recipe(whole, names, facts, first, read)
        if not is_traced(*read.arrays, *recipe.reader.known.values()):
            _RECIPES[key] = recipe
            if len(_RECIPES) > _KEPT:
                del _RECIPES[next(iter(_RECIPES))]
    slots = {
        leaf: _held(arrays[place]) if isinstance(place, int) else Variable(place, whole.inputs[place])
        for leaf, place in zip(recipe.slots, recipe.places, strict=True)
    }
    return Disintegration(recipe, slots, whole)


def _held(array: Array) -> Value:
    """An array with its named axes as the first of its event."""
    return Array._of(array.array, (), {}, array.output.with_shape(array.array.shape), array.mark)


def _recipe(
    f: Factor, names: Sequence[Name], facts: Mapping[int, Facts], first: Mapping[int, int], read: Captured
) -> Recipe:
    bounded = known_bounds(f)
    latents = {name: leaf_of(name, f.inputs[name], bounded.get(name)) for name in names}
    kept = [name for name, domain in f.inputs.items() if name not in latents and domain.is_finite and not domain.shape]
    indices = {name: Index(f.inputs[name].extent, str(name)) for name in kept}
    reading = FactorReader(latents, indices, facts)
    try:
        terms = reading.terms(f)
    except Unreadable as error:
        infinite = [name for name in names if not f.inputs[name].is_finite]
        raise _blocked(f, infinite or names, str(error).splitlines()[0]) from error
    found = reduced(terms, {name: Latent(leaf, f.inputs[name]) for name, leaf in latents.items()})  # type: ignore[arg-type]
    if found.blocked:
        require_convergent(found.blocked)
        why = "; ".join(
            f"{name!r} needs {error.why}, in {written(error.node)[:160]}" for name, error in found.blocked.items()
        )
        raise _blocked(f, list(found.blocked), why, [name for step in found.steps for name in step.names])
    places: list[int | Name] = []
    for value in reading.slots.values():
        if isinstance(value, Variable):
            places.append(value.name)
        else:
            assert isinstance(value, Array)
            places.append(first[id(value.array)])
    axes = {of: name for name, of in indices.items()}
    domains = {name: f.inputs[name] for name in latents}
    return Recipe(reading.reader, latents, domains, axes, tuple(reading.slots), tuple(places), found, read)


def _blocked(f: Factor, names: Sequence[Name], why: str, gone: Sequence[Name] = ()) -> Intractable:
    """What stands in the way of an integral."""
    done = f"; {listed(gone)} can be integrated out" if gone else ""
    return Intractable(
        f"the integral over {listed(names)} of {f}",
        expected="factors that multiply into one Table, Gaussian, Delta or Mixture, or into a family that is known",
        nearest=f"{why}{done}",
        advice="observe or keep these variables, record the sum with `with fb.lazy:`, or approximate it",
    )
