"""A numpyro distribution of one number, made of plain JAX functions of scalars."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as numpyro_families
from numpyro.distributions import constraints

from fubini.base.arrays import Data
from fubini.errors import NoRule


class Functions(NamedTuple):
    """A registered family: constraints of its parameters, and functions of numbers, with the parameters by name."""

    parameters: Mapping[str, Any]
    support: Any  # a constraint, or a function of the parameters that makes one
    log_density: Callable[..., Any]  # of x, on the support
    draw: Callable[..., Any] | None = None  # of a key
    mean: Callable[..., Any] | None = None
    variance: Callable[..., Any] | None = None
    mode: Callable[..., Any] | None = None
    is_whole: bool = False  # values are whole numbers

    def support_at(self, parameters: Mapping[str, Any]) -> Any:
        """The constraint of values, at parameters."""
        return self.support if isinstance(self.support, constraints.Constraint) else self.support(**parameters)


def distribution_class(name: str, functions: Functions) -> type:
    """The class of numpyro's that these functions make."""

    def __init__(self: Any, *, validate_args: bool | None = None, **parameters: Data) -> None:
        shape = jnp.broadcast_shapes(*map(jnp.shape, parameters.values()))
        for key, value in parameters.items():
            setattr(self, key, jnp.broadcast_to(value, shape))
        numpyro_families.Distribution.__init__(self, batch_shape=shape, validate_args=validate_args)

    kinds = inspect.Parameter
    own = [kinds(key, kinds.POSITIONAL_OR_KEYWORD) for key in functions.parameters]
    last = kinds("validate_args", kinds.KEYWORD_ONLY, default=None)
    __init__.__signature__ = inspect.Signature([kinds("self", kinds.POSITIONAL_ONLY), *own, last])  # type: ignore[attr-defined]
    fields = {
        "__doc__": f"{name}({', '.join(functions.parameters)})",
        "__init__": __init__,
        "arg_constraints": dict(functions.parameters),
        "reparametrized_params": [],
        "support": _support(functions),
        "log_prob": lambda self, value: _each(functions.log_density, value, **_values(self, functions)),
        "sample": lambda self, key, sample_shape=(): _draws(self, functions, key, sample_shape),
    }
    for what, function in (("mean", functions.mean), ("variance", functions.variance)):
        if function is not None:
            fields[what] = property(lambda self, of=function: _each(of, **_values(self, functions)))
    return type(numpyro_families.Distribution)(name, (numpyro_families.Distribution,), fields)


def _support(functions: Functions) -> Any:
    if isinstance(functions.support, constraints.Constraint):
        return functions.support

    def support(self: Any) -> Any:
        return functions.support(**_values(self, functions))

    return constraints.dependent_property(support, is_discrete=functions.is_whole, event_dim=0)  # type: ignore[arg-type]


def _values(self: Any, functions: Functions) -> dict[str, Data]:
    return {key: getattr(self, key) for key in functions.parameters}


def _each(function: Callable[..., Any], *args: Data, **parameters: Data) -> Data:
    """A function of numbers, for each entry of arrays that broadcast."""
    names = list(parameters)

    def of(*numbers: Data) -> Data:
        first, rest = numbers[: len(args)], numbers[len(args) :]
        return jnp.asarray(function(*first, **dict(zip(names, rest, strict=True))))

    return jnp.vectorize(of)(*(jnp.asarray(arg, jnp.result_type(float)) for arg in (*args, *parameters.values())))


def _draws(self: Any, functions: Functions, key: Data, sample_shape: tuple[int, ...]) -> Data:
    """One draw for each entry, each with a key of its own."""
    if functions.draw is None:
        name, first = type(self).__name__, ", ".join(("key", *functions.parameters))
        raise NoRule(
            f"a draw from dist.{name}, which was registered without `draw=`",
            expected="a family that can be sampled",
            advice=f"register it with a function of a key: fb.register_family({name!r}, …, draw=lambda {first}: …)",
        )
    shape = (*sample_shape, *self.batch_shape)
    size = math.prod(shape)
    flat = {name: jnp.broadcast_to(one, shape).reshape(size) for name, one in _values(self, functions).items()}
    draw = functions.draw
    return jax.vmap(lambda k, p: jnp.asarray(draw(k, **p)))(jax.random.split(key, size), flat).reshape(shape)
