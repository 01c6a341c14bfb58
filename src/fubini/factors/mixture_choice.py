"""Choosing a point of a Delta or of a Mixture: first which component, then a value of it."""

from __future__ import annotations

from collections.abc import Sequence

from fubini.base.arrays import Data, namespace
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.errors import NoRule
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.factors.table_choice import draw_index
from fubini.numerics.mixed_radix import split_keys
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Factor, Product, Unit, product, substitute, terms_of
from fubini.terms.heads import CHOOSE, DISINTEGRATE, DRAW, exact_choose, exact_draw
from fubini.terms.value import Array, to_array


@exact_choose.rule
def choose_delta(f: Delta, names: tuple) -> dict:
    """x = v; the names that the weight has, by its own rule"""
    others = tuple(name for name in names if name not in f.names)
    chosen = interpret(CHOOSE, _weight_over(f, others), others) if others else {}
    return {**chosen, **_points(f, chosen)}


@exact_draw.rule
def draw_delta(randomness: Randomness, f: Delta, names: tuple) -> dict:
    """x = v; the names that the weight has, by its own rule"""
    others = tuple(name for name in names if name not in f.names)
    chosen = interpret(DRAW, randomness, _weight_over(f, others), others) if others else {}
    return {**chosen, **_points(f, chosen)}


def _weight_over(f: Delta, names: tuple) -> Factor:
    """The weight, as a function of names that only the points depend on too."""
    missing = Unit({name: f.inputs[name] for name in names if name not in f.weight.inputs})
    return promoted(product(f.weight, missing))


def _points(f: Delta, chosen: dict) -> dict[Name, Array]:
    return {name: to_array(point.replaced(chosen)) for name, point in f.located.items()}


@exact_draw.rule
def draw_product(randomness: Randomness, f: Product, names: tuple) -> dict:
    """x ~ f_k for each term f_k with names of its own, the bounded integers first; then y ~ p(y | x)"""
    others, conditionals = _parents_first(terms_of(f), names)
    chosen = _draw_coupled(randomness, product(*others), names) if others else {}
    for term in conditionals:
        chosen = {**chosen, **interpret(DRAW, randomness, substitute(term, chosen), (term.own,))}
    return dict(chosen)


def _draw_coupled(randomness: Randomness, f: Factor, names: tuple) -> dict:
    names = tuple(name for name in names if name in f.inputs)
    infinite = tuple(name for name in names if not f.inputs[name].is_finite)
    finite = tuple(name for name in names if name not in infinite)
    chosen = interpret(DRAW, randomness, promoted(f.sum(*infinite)), finite) if finite and infinite else {}
    given = substitute(f, chosen)
    if infinite and sum(any(name in term.inputs for name in infinite) for term in terms_of(given)) > 1:
        return {**chosen, **interpret(DISINTEGRATE, given, infinite).draw(randomness)}
    for term in terms_of(given):
        own = tuple(name for name in (infinite or finite) if name in term.inputs)
        if any(name in chosen for name in own):
            raise NoRule(
                f"a draw of {', '.join(map(repr, own))} from {f}",
                expected="each variable in one factor, or factors that multiply into one",
                advice="observe some of the variables, or sum them out first",
            )
        if own:
            chosen = {**chosen, **interpret(DRAW, randomness, promoted(term), own)}
    return dict(chosen)


def _parents_first(terms: Sequence[Factor], names: tuple) -> tuple[list[Factor], list[Factor]]:
    """The terms that are no conditionals, and the conditionals p(x | y), each after those of the y it reads."""
    rest, ordered = list(terms), []

    def is_last(term: Factor) -> bool:
        others = [other for other in rest if other is not term]
        return term.own in names and not any(term.own in other.inputs for other in others)

    while (last := next(filter(is_last, rest), None)) is not None:
        rest = [term for term in rest if term is not last]
        ordered.insert(0, last)
    return rest, ordered


@exact_choose.rule
def choose_mixture(f: Mixture, names: tuple) -> dict:
    """the maximum of a sum has no closed form"""
    raise NoRule(
        f"the arg max over {', '.join(map(repr, names))} of {f}",
        expected="a Table or a Gaussian",
        nearest="the mode of a mixture has no closed form",
        advice="ask for the arg max over its discrete variables too, draw samples, or project it first",
    )


@exact_draw.rule
def draw_mixture(randomness: Randomness, f: Mixture, names: tuple) -> dict:
    """a component with the mass it has, then a value of it"""
    parts = [promoted(component) for component in f.components]
    masses = [promoted(part.sum(*names)) for part in parts]
    batch = {SAMPLES: randomness.domain, **{name: domain for name, domain in f.inputs.items() if name not in names}}
    logs, sizes = _flat_masses(f, parts, masses, batch)
    index = draw_index(randomness, logs, names)
    drawn: dict[Name, Array] = {}
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        bounds = f.bound_in(part)
        xp = namespace(index)
        inside = (index >= start) & (index < start + size)
        cell = xp.where(inside, index - start, 0)
        positions = split_keys(cell, [domain.extent for domain in bounds.values()])
        at = {
            name: Array._of(position, tuple(batch), batch, domain)
            for (name, domain), position in zip(bounds.items(), positions, strict=True)
        }
        values = interpret(DRAW, randomness, _assured(substitute(part, at), inside, batch), names)
        drawn = {name: _chosen(inside, batch, values[name], drawn.get(name)) for name in names}
        start += size
    return drawn


def _assured(f: Factor, inside: Data, batch: dict) -> Factor:
    """The factor with weight where its component was not chosen: what is drawn there is not used."""
    if isinstance(f, Delta):
        return Delta._of(f.located, _assured(promoted(f.weight), inside, batch))
    if isinstance(f, Gaussian):
        scale = _assured(f.scale, inside, batch)
        assert isinstance(scale, Table)
        return Gaussian._of(scale, f.quadratic, f.reals, f.inputs)
    if isinstance(f, Product):
        return product(*(_assured(term, inside, batch) for term in f.terms))
    if not isinstance(f, Table):
        return f
    inputs = {**batch, **{name: domain for name, domain in f.inputs.items() if name not in batch}}
    names = tuple(inputs)
    shape = [domain.extent for domain in inputs.values()]
    weights, shift, *_ = f.aligned(names)
    xp = namespace(weights, inside)
    keep = align(inside, tuple(batch), names)
    weights = xp.broadcast_to(xp.where(keep, weights, 1.0), shape)
    shift = xp.broadcast_to(xp.where(keep, shift, 0.0), shape)
    return Table._of(Scaled(weights, shift), inputs, f.exactness)


def _flat_masses(f: Mixture, parts: list, masses: list, batch: dict) -> tuple[Data, list[int]]:
    """The log-mass of every component and bound cell along one last axis, for each cell of the batch."""
    flat, sizes = [], []
    for part, mass in zip(parts, masses, strict=True):
        assert isinstance(mass, Table), "a component summed over all its real variables is a table"
        bounds = f.bound_in(part)
        array = to_array(mass.log())
        order = (*batch, *bounds)
        data = align(array.array, array.names, order)
        extents = [domain.extent for domain in (*batch.values(), *bounds.values())]
        data = namespace(data).broadcast_to(data, extents)
        flat.append(data.reshape((*data.shape[: len(batch)], -1)))
        sizes.append(flat[-1].shape[-1])
    return namespace(*flat).concatenate(flat, axis=-1), sizes


def _chosen(inside: Data, batch: dict, new: Array, old: Array | None) -> Array:
    """The new draw where its component was chosen, the old one elsewhere."""
    names, event = tuple(batch), new.output.shape
    shape = (*(domain.extent for domain in batch.values()), *event)
    xp = namespace(inside, new.array)
    data = xp.broadcast_to(align(new.array, new.names, names, len(event)), shape)
    if old is not None:
        data = xp.where(inside.reshape((*inside.shape, *(1,) * len(event))), data, old.array)
    return Array._of(data, names, batch, new.output)
