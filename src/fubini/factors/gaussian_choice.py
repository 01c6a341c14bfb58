"""Choosing a point of a Gaussian: its mode, or a draw; the bounded integers first, the real variables given them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fubini.base.arrays import Data, is_jax, require
from fubini.base.domains import Real
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.errors import Intractable, listed
from fubini.factors.gaussian import Gaussian, improper
from fubini.factors.no_mass import nothing_to_choose
from fubini.numerics import quadratic as numerics
from fubini.numerics import quadratic_elimination as elimination
from fubini.numerics.quadratic import Names
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import CHOOSE, DRAW, exact_choose, exact_draw
from fubini.terms.value import Array


@exact_choose.rule
def choose_gaussian(f: Gaussian, names: tuple) -> dict:
    """max over z at K⁻¹h; of the bounded integers the arg max of what that leaves"""
    integers, given = _integers_first(f, names, False, lambda table, few: interpret(CHOOSE, table, few))
    everything = tuple(range(given.quadratic.size))
    conditional = elimination.conditional(given.quadratic, everything, ())
    return {**integers, **_placed(given, conditional.mean, conditional.mean_names, conditional.ok)}


@exact_draw.rule
def draw_gaussian(randomness: Randomness, f: Gaussian, names: tuple) -> dict:
    """z ~ N(K⁻¹h, K⁻¹) given the bounded integers, which are drawn with the mass they have"""
    integers, given = _integers_first(f, names, True, lambda table, few: interpret(DRAW, randomness, table, few))
    batch = {SAMPLES: randomness.domain, **given.batch}
    shape = (*(domain.extent for domain in batch.values()), given.quadratic.size)
    noise = randomness.normal(shape)
    drawn, drawn_names, ok = elimination.drawn(given.quadratic, noise, tuple(batch))
    return {**integers, **_placed(given, drawn, drawn_names, ok, {**given.inputs, **batch})}


def _integers_first(f: Gaussian, names: tuple, integrate: bool, choose: Callable) -> tuple[dict, Gaussian]:
    """Values of the bounded integers among the names, and the Gaussian given them; all its real inputs are named."""
    others = [name for name, _ in f.reals if name not in names]
    if others:
        raise Intractable(
            f"a value of {listed(names)} under {f}",
            expected=f"{listed(others)} to be chosen with them, summed out or known",
        )
    few = tuple(name for name in names if name not in dict(f.reals))
    if not few:
        return {}, f
    chosen: Mapping[Name, Array] = choose(f.reduced(frozenset(dict(f.reals)), integrate), few)
    given: Factor = substitute(f, chosen)
    assert isinstance(given, Gaussian)
    return dict(chosen), given


def _placed(f: Gaussian, data: Data, names: Names, ok: Data, domains: Mapping | None = None) -> dict[Name, Array]:
    """The elements of z as one Array for each variable; no value where the weight is zero or the precision singular."""
    whole = frozenset(dict(f.reals))
    (data,) = require(_all(ok), lambda: improper(f, whole), data)
    positive = f.scale.pair.weights > 0
    (data,) = require(_all(positive), lambda: nothing_to_choose(list(whole)), data)
    domains = f.inputs if domains is None else domains
    chosen = {}
    for name, place in numerics.places(f.reals).items():
        shape = dict(f.reals)[name].shape
        part = data[..., place.start : place.stop].reshape((*data.shape[:-1], *shape))
        chosen[name] = Array._of(part, names, domains, Real.with_shape(shape))
    return chosen


def _all(ok: Data) -> Data:
    return ok.all() if is_jax(ok) else np.all(ok)
