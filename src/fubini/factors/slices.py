"""Slices of factors along a name, as a loop takes them: arrays that depend on it with it in front, the others once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_double_precision, is_jax, precision
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import SLICES, exact_slices
from fubini.terms.name_axis import name_axis
from fubini.terms.value import to_value


class Slices(NamedTuple):
    """A factor along a name: arrays with that axis in front, and how to make the factor of one slice of them."""

    stacked: tuple[Data, ...]
    at: Callable[[Sequence[Data]], Factor]


def slices(factor: Factor, name: Name) -> Slices:
    """A factor cut along a name; one that lacks the name is the same in every slice."""
    if name not in factor.inputs:
        return Slices((), lambda _: factor)
    return interpret(SLICES, factor, name)


def axis_in_front(data: Data, names: tuple[Name, ...], name: Name) -> Data:
    """An array with the axis of a name moved to the front."""
    return jnp.moveaxis(jnp.asarray(data), names.index(name), 0)


@exact_slices.rule
def slice_any(f: Factor, name: Name) -> Slices:
    """f(i = 0), f(i = 1), …  by substitution, mapped over all of them"""
    every = jax.vmap(lambda k: substitute(f, {name: to_value(k)}))(jnp.arange(f.inputs[name].extent))
    return Slices(tuple(every.leaves()), lambda leaves: every.rebuilt(iter(leaves)))


def put_in_front(first: Factor, many: Factor, name: Name, place: Name) -> Factor:
    """The factors along a name with one more in front of them, along `place`; all of one form."""
    start = first._ordered(tuple(n for n in many.inputs if n != name)) if len(first.inputs) > 1 else first
    is_numpy = not any(map(is_jax, (*start.leaves(), *many.leaves())))
    with precision(is_numpy or is_double_precision()):
        every = jax.vmap(lambda k: substitute(many, {name: to_value(k)}))(jnp.arange(many.inputs[name].extent))
        assert every.structure == start.structure, "all are of one form"
        pairs = zip(start.leaves(), every.leaves(), strict=True)
        leaves = [jnp.concatenate([jnp.asarray(one)[None], others]) for one, others in pairs]
    return name_axis(every.rebuilt(map(np.asarray, leaves) if is_numpy else iter(leaves)), place)


def alone_at(factor: Factor, place: Name) -> Factor:
    """One factor along `place`, which has one value."""
    leaves = [leaf[None] if is_jax(leaf) else np.asarray(leaf)[None] for leaf in factor.leaves()]
    return name_axis(factor.rebuilt(iter(leaves)), place)
