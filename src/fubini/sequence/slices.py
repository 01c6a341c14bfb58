"""Slices of factors along time, as a scan takes them: arrays that depend on time with it in front, the others once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.factors.gaussian import Gaussian
from fubini.factors.table import Table
from fubini.numerics.quadratic import Names, Quadratic
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Factor, substitute
from fubini.terms.value import to_value


class Slices(NamedTuple):
    """A factor along a name: arrays with that axis in front, and how to make the factor of one slice of them."""

    stacked: tuple[Data, ...]
    at: Callable[[Sequence[Data]], Factor]


def slices(factor: Factor, time: Name) -> Slices:
    """A factor cut along a name; one that lacks the name is the same in every slice."""
    if time not in factor.inputs:
        return Slices((), lambda _: factor)
    if isinstance(factor, Table):
        return _slices_of_table(factor, time)
    if isinstance(factor, Gaussian):
        return _slices_of_gaussian(factor, time)
    return _slices_of_any(factor, time)


def _front(data: Data, names: Names, time: Name) -> Data:
    return jnp.moveaxis(jnp.asarray(data), names.index(time), 0)


def _slices_of_table(table: Table, time: Name) -> Slices:
    inputs = {name: domain for name, domain in table.inputs.items() if name != time}
    weights, shift, *_ = table.pair
    if np.ndim(shift) == 0:
        return Slices((_front(weights, table.names, time),), lambda w: Table._of(Scaled(w[0], shift), inputs))
    both = (_front(weights, table.names, time), _front(shift, table.names, time))
    return Slices(both, lambda pair: Table._of(Scaled(*pair), inputs))


def _slices_of_gaussian(gaussian: Gaussian, time: Name) -> Slices:
    v, v_names, M, M_names, white = gaussian.quadratic
    scale = slices(gaussian.scale, time)
    inputs = {name: domain for name, domain in gaussian.inputs.items() if name != time}
    moving = [time in v_names, time in M_names]
    stacked = [_front(data, names, time) for data, names in ((v, v_names), (M, M_names)) if time in names]
    untimed = [tuple(name for name in names if name != time) for names in (v_names, M_names)]

    def at(parts: Sequence[Data]) -> Factor:
        own = iter(parts)
        vector = next(own) if moving[0] else v
        matrix = next(own) if moving[1] else M
        quadratic = Quadratic(vector, untimed[0], matrix, untimed[1], white)
        return Gaussian._of(scale.at(tuple(own)), quadratic, gaussian.reals, inputs)  # type: ignore[arg-type]

    return Slices((*stacked, *scale.stacked), at)


def _slices_of_any(factor: Factor, time: Name) -> Slices:
    """Slice by substitution, mapped over all times."""
    every = jax.vmap(lambda k: substitute(factor, {time: to_value(k)}))(jnp.arange(factor.inputs[time].extent))
    return Slices(tuple(every.leaves()), lambda leaves: every.rebuilt(iter(leaves)))
