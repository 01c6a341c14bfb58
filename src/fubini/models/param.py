"""Learnable parameters: a value within a support, held as an unconstrained number."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro.distributions import biject_to, constraints

from fubini.base.arrays import Data, as_floats, double_precision, is_jax, is_traced
from fubini.base.domains import Domain, Positive, PositiveDefinite, Real, Simplex, Unit
from fubini.errors import DataError, DomainError
from fubini.models.fixed import Fixed
from fubini.show.notation import Call, Notation, Symbol
from fubini.terms.fields import array_field, static_field
from fubini.terms.numbers import shown_array
from fubini.terms.value import Array, Value

_SUPPORTS = {"real": constraints.real, "positive": constraints.positive, "unit": constraints.unit_interval}


# The maps from unconstrained numbers as NumPy has them: nothing is compiled to print a parameter.
_WRITTEN = {
    type(constraints.real): lambda free: free,
    type(constraints.positive): np.exp,
    type(constraints.unit_interval): lambda free: 1 / (1 + np.exp(-free)),
}


AS_IT_IS = Fixed(constraints.real, (type(constraints.real), ()))  # the support of values that are leaves themselves


class Param(Value):
    """A Value to be learnt. Its leaf is the unconstrained number: a step along a gradient stays within the support."""

    free: Data = array_field()
    support: Fixed = static_field()
    name: str = static_field()

    def __init__(self, free: Data, constraint: Any, output: Domain, name: str = "") -> None:
        bounds = tuple(np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(constraint))
        support = Fixed(constraint, (type(constraint), bounds))
        self._set(free=free, support=support, name=name, output=output, inputs={})

    @property
    def value(self) -> Data:
        """The value within its support."""
        if is_jax(self.free):
            return biject_to(self.support.value)(self.free)
        with double_precision(), jax.ensure_compile_time_eval():
            return np.asarray(biject_to(self.support.value)(jnp.asarray(self.free)))

    def at(self, value: Data) -> Param:
        """The parameter at a value within its support, which becomes its leaf."""
        new = object.__new__(type(self))
        new._set(free=value, support=AS_IT_IS, name=self.name, output=self.output, inputs={})
        return new

    def _ground(self, *children: Array) -> Array:
        return Array._of(self.value, (), {}, self.output)

    @property
    def printed(self) -> str:
        """The value as it is printed, for which nothing is compiled where its support is known in closed form."""
        written = _WRITTEN.get(type(self.support.value))
        value = np.asarray(self.value if written is None else written(np.asarray(self.free)))
        return shown_array(value) if value.ndim else f"{value.item():.7g}"

    def notation(self) -> Notation:
        return Call("param", (Symbol("…" if is_traced(self.free) else self.printed),))


def param(value: Any, support: Domain | Any = Real, *, name: str = "") -> Param:
    """A parameter to be learnt, starting at `value`: `fb.param(1.0, fb.Positive)`. `fb.fit` moves nothing else.

    Its name is that of the argument of the model function that it is, unless one is given.

    >>> scale = param(2.0, Positive)
    >>> round(float(scale.value), 6), round(float(scale.free), 6)  # the leaf is log 2
    (2.0, 0.693147)
    """
    constraint = _constraint(support)
    array = as_floats(value)
    if not is_traced(array) and not _is_within(constraint, array):
        raise DataError(f"a parameter {value!r}", expected=f"a value within {support}")
    output = Real.with_shape(array.shape)
    if is_jax(array):
        return Param(biject_to(constraint).inv(array), constraint, output, name)
    with double_precision(), jax.ensure_compile_time_eval():
        return Param(np.asarray(biject_to(constraint).inv(jnp.asarray(array))), constraint, output, name)


def _is_within(constraint: Any, array: Data) -> bool:
    with jax.ensure_compile_time_eval():  # also where a model that is being traced makes the parameter
        return bool(jnp.all(constraint(jnp.asarray(array))))


def _constraint(support: Domain | Any) -> Any:
    if isinstance(support, constraints.Constraint):
        return support
    if support is Simplex or (isinstance(support, Domain) and support.kind == "simplex"):
        return constraints.simplex
    if support is PositiveDefinite or (isinstance(support, Domain) and support.kind == "positive_definite"):
        return constraints.positive_definite
    if not isinstance(support, Domain) or support.kind not in _SUPPORTS:
        raise DomainError(
            f"a parameter with the support {support!r}",
            expected=f"{Real}, {Positive}, {Unit}, Simplex, PositiveDefinite or a constraint",
        )
    return _SUPPORTS[support.kind]
