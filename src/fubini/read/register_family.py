"""A user's family: plain JAX functions of numbers, read into index notation, and checked to have mass 1."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from numpyro.distributions import constraints

from fubini.algebra.build import const, get, where
from fubini.algebra.node import Leaf, Node
from fubini.base.arrays import double_precision
from fubini.distributions.families import DistributionMaker
from fubini.distributions.families import family as dist_family
from fubini.distributions.makers import maker_names, register_maker
from fubini.distributions.registered import Functions, distribution_class
from fubini.distributions.supports import domain_of
from fubini.errors import DataError, DomainError, NameClash, listed
from fubini.families.family import Family, is_family, register
from fubini.families.functions import MINUS_INFINITY, is_inside
from fubini.families.parameters import Support
from fubini.read.jaxpr_reader import Reader
from fubini.read.symbolic_array import SymbolicArray

EXAMPLES = (  # numbers that a constraint allows, for which the mass is checked
    (constraints.positive, (0.7, 2.3)),
    (constraints.nonnegative, (0.7, 2.3)),
    (constraints.real, (-0.4, 1.2)),
    (constraints.unit_interval, (0.3, 0.8)),
    (constraints.nonnegative_integer, (3.0, 8.0)),
    (constraints.positive_integer, (3.0, 8.0)),
)
SLACK = 1e-4  # of the mass
MOST = 20_000  # whole numbers that are summed over


def register_family(
    name: str,
    *,
    parameters: Mapping[str, Any],
    support: Any,
    log_density: Callable[..., Any],
    draw: Callable[..., Any] | None = None,
    mean: Callable[..., Any] | None = None,
    variance: Callable[..., Any] | None = None,
    mode: Callable[..., Any] | None = None,
    examples: Sequence[Mapping[str, float]] = (),
) -> DistributionMaker:
    """A family of `fubini.distributions` by its log-density, a JAX function of a number and of the parameters by name.

    `examples` are parameters for which the density is checked to have mass 1. A family that is registered again with
    the same definition, as when a cell of a notebook runs twice, stays as it is.

    >>> import jax.numpy as jnp
    >>> Triangle = register_family(
    ...     "Triangle", parameters={}, support=constraints.unit_interval, log_density=lambda x: jnp.log(2 * x)
    ... )
    >>> round(float(Triangle()(0.5).log()), 3)
    0.0
    """
    _require_constraints(name, parameters, support)
    functions = Functions(dict(parameters), support, log_density, draw, mean, variance, mode)
    _require_names(name, functions)
    _require_jax(name, functions)
    if _is_registered(name, functions):
        return dist_family(name)
    numbers = list(examples or _examples(name, parameters))
    functions = functions._replace(is_whole=_is_whole(name, functions, numbers))
    for some in numbers:
        _require_mass_one(name, functions, some)
    maker = distribution_class(name, functions)
    record = _record(name, functions, maker)
    _DEFINITIONS[name] = _definition(name, functions)
    register_maker(name, maker)
    register(record)
    return dist_family(name)


# -- definitions ----------------------------------------------------------------------------------------------------

_DEFINITIONS: dict[str, tuple[str, ...]] = {}  # of the families that are registered


def _is_registered(name: str, functions: Functions) -> bool:
    """A family of this name has this definition; an error where it has another."""
    if name not in maker_names() and not is_family(name):
        return False
    if name in _DEFINITIONS and _DEFINITIONS[name] == _definition(name, functions):
        return True
    raise NameClash(
        f"a family {name!r}",
        expected="a name that no family of `fubini.distributions` has",
        nearest=f"{name!r} is registered, with another definition" if name in _DEFINITIONS else "",
        advice="choose another name" + (", or start Python anew" if name in _DEFINITIONS else ""),
    )


def _definition(name: str, functions: Functions) -> tuple[str, ...]:
    """Constraints, and what each function computes, as text."""
    key, numbers = jax.eval_shape(lambda: jax.random.key(0)), jax.ShapeDtypeStruct((), float)
    given = dict.fromkeys(functions.parameters, numbers)
    support = functions.support
    ends = None if isinstance(support, constraints.Constraint) else lambda **p: ends_of(support(**p), name)
    return (
        repr(functions.parameters),
        repr(support) if ends is None else _trace(ends, (), given),
        _trace(functions.log_density, (numbers,), given),
        _trace(functions.draw, (key,), given),
        *(_trace(function, (), given) for function in (functions.mean, functions.variance, functions.mode)),
    )


def _trace(function: Callable[..., Any] | None, first: tuple, given: Mapping[str, Any]) -> str:
    """What a JAX function computes, as text, without addresses in memory."""
    if function is None:
        return ""
    with double_precision():
        traced = jax.make_jaxpr(lambda first, given: function(*first, **given))(first, dict(given))
    constants = [np.asarray(constant).tolist() for constant in traced.consts]
    return re.sub(r" at 0x[0-9a-f]+", "", f"{traced} {constants}")


def _require_constraints(name: str, parameters: Any, support: Any) -> None:
    """Parameters are constraints by name, and the support is a constraint or a function that gives one."""
    if not isinstance(parameters, Mapping) or not all(map(_is_constraint, parameters.values())):
        raise DomainError(
            f"parameters={parameters!r} of the family {name!r}",
            expected="a constraint of numpyro.distributions.constraints for each name",
            advice="parameters={'scale': constraints.positive}",
        )
    if not _is_constraint(support) and not callable(support):
        raise DomainError(
            f"support={support!r} of the family {name!r}",
            expected="a constraint of numpyro.distributions.constraints, or a function from parameters to one",
            advice="support=constraints.positive",
        )


def _is_constraint(value: Any) -> bool:
    return isinstance(value, constraints.Constraint)


def _functions_given(functions: Functions) -> list[tuple[str, Callable[..., Any], list[str]]]:
    """Those that are given: what each is called, and what it takes before the parameters."""
    first = {"log_density": ["x"], "draw": ["key"], "mean": [], "variance": [], "mode": []}
    every = ((what, getattr(functions, what), names) for what, names in first.items())
    return [(what, function, names) for what, function, names in every if function is not None]


def _require_jax(name: str, functions: Functions) -> None:
    """Each function can be traced."""
    key, number = jax.eval_shape(lambda: jax.random.key(0)), jax.ShapeDtypeStruct((), float)
    for what, function, first in _functions_given(functions):
        try:
            _trace(
                function,
                tuple(key if one == "key" else number for one in first),
                dict.fromkeys(functions.parameters, number),
            )
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError) as error:
            raise DomainError(
                f"{what} of the family {name!r}",
                expected="a function that JAX can trace",
                nearest=str(error).splitlines()[0],
                advice="write it in jax.numpy, with jnp.where in place of `if`",
            ) from error


def _require_names(name: str, functions: Functions) -> None:
    """Each function takes the parameters by name."""
    for what, function, first in _functions_given(functions):
        try:
            inspect.signature(function).bind(*first, **functions.parameters)
        except TypeError as error:
            raise DomainError(
                f"{what} of the family {name!r}",
                expected=f"a function {what}({', '.join([*first, *functions.parameters])})",
                nearest=str(error),
            ) from error


def _examples(name: str, parameters: Mapping[str, Any]) -> list[dict[str, float]]:
    """Two numbers for each parameter, by its constraint."""
    known = {key: next((some for one, some in EXAMPLES if one == of), None) for key, of in parameters.items()}
    lacking = [key for key, some in known.items() if some is None]
    if lacking:
        raise DataError(
            f"the family {name!r} with parameters {listed(lacking)}",
            expected="examples of parameters, to check that the density has mass 1",
            advice=f"examples=[{{{', '.join(f'{key!r}: 1.0' for key in parameters)}}}]",
        )
    return [{key: some[place] for key, some in known.items() if some} for place in (0, 1)]


# -- mass -----------------------------------------------------------------------------------------------------------


def ends_of(constraint: Any, name: str) -> tuple[Any, Any, bool]:
    """The ends of a support, and whether its values are whole."""
    if constraint == constraints.real:
        return -math.inf, math.inf, False
    is_whole = bool(getattr(constraint, "is_discrete", False))
    low = 0 if constraint == constraints.boolean else getattr(constraint, "lower_bound", None)
    high = 1 if constraint == constraints.boolean else getattr(constraint, "upper_bound", math.inf)
    if low is None and high is math.inf:
        raise DomainError(
            f"the family {name!r} on {constraint}",
            expected="a support of numbers: all, those beyond an end, an interval, or whole numbers from an end on",
        )
    return (-math.inf if low is None else low), high, is_whole


def _is_whole(name: str, functions: Functions, examples: Sequence[Mapping[str, float]]) -> bool:
    """Values are whole numbers, at all of the examples or at none."""
    kinds = {ends_of(functions.support_at(numbers), name)[2] for numbers in examples}
    if len(kinds) > 1:
        raise DomainError(
            f"the family {name!r} with a support of whole numbers at some parameters",
            expected="whole numbers at all parameters, or at none",
        )
    return kinds.pop()


def _require_mass_one(name: str, functions: Functions, numbers: Mapping[str, float]) -> None:
    """∫ or Σ of the density is 1 at these parameters."""
    low, high, is_whole = ends_of(functions.support_at(numbers), name)
    with double_precision():
        given = {key: jnp.asarray(number, float) for key, number in numbers.items()}
        density = jax.jit(lambda x: jnp.exp(functions.log_density(x, **given)))
        if is_whole:
            counts = jnp.arange(float(low), min(float(high), float(low) + MOST) + 1)
            mass = float(jnp.sum(jax.vmap(density)(counts)))
        else:
            mass = _integral(lambda x: float(density(x)), float(low), float(high))
    if not abs(mass - 1) < SLACK:
        shown = ", ".join(f"{key}={number:g}" for key, number in numbers.items())
        raise DataError(
            f"the family {name!r}: its density at {shown or 'no parameters'} has mass {mass:.6g}",
            expected="mass 1",
            nearest=f"it misses by {mass - 1:.3g}",
            advice=f"subtract log({mass:.6g}) from log_density there; is a factor of the parameters missing?",
        )


def _integral(density: Callable[[float], float], low: float, high: float) -> float:
    """∫ from low to high, on both sides of a point in between."""
    middle = (low + high) / 2 if math.isfinite(low + high) else max(low, min(high, 0.0)) + (1.0 if low == 0 else 0.0)
    sides = [(low, middle), (middle, high)]
    return sum(scipy.integrate.quad(density, *ends, limit=200, full_output=1)[0] for ends in sides if ends[0] < ends[1])


# -- index notation -------------------------------------------------------------------------------------------------


class Read:
    """A JAX function of numbers as a function of nodes."""

    def __init__(self, function: Callable[..., Any], names: Sequence[str], free: int) -> None:
        def of(*numbers: Any) -> Any:
            result = function(*numbers[:free], **dict(zip(names, numbers[free:], strict=True)))
            return [jnp.asarray(one) for one in result] if isinstance(result, tuple) else jnp.asarray(result)

        with double_precision():
            self.traced = jax.make_jaxpr(of)(*[jax.ShapeDtypeStruct((), np.float64)] * (free + len(names)))
        self.names = names

    def all(self, *values: Node, **parameters: Node) -> list[Node]:
        """The nodes of all results."""
        nodes = (*values, *(parameters[name] for name in self.names))
        inputs = [SymbolicArray((), lambda node=node: node) for node in nodes]
        return [array.at() for array in Reader().read(self.traced.jaxpr, self.traced.consts, inputs)]

    def __call__(self, *values: Node, **parameters: Node) -> Node:
        return self.all(*values, **parameters)[0]

    def is_read(self, free: int) -> bool:
        """Its nodes depend on nothing but its arguments: no operation of it is opaque."""
        leaves = [Leaf(name, (), role="site") for name in (*("x" * free), *self.names)]
        nodes = self.all(*map(get, leaves[:free]), **dict(zip(self.names, map(get, leaves[free:]), strict=True)))
        return all(node.leaves <= set(leaves) for node in nodes)


def _record(name: str, functions: Functions, maker: Any) -> Family:
    """The record of a user's family."""
    names = list(functions.parameters)
    density = Read(functions.log_density, names, 1)
    ends = Read(lambda **p: ends_of(functions.support_at(p), name)[:2], names, 0)
    fixed = _fixed_support(functions.support, name)

    def support(parameters: Mapping[str, Node]) -> Support:
        low, high = ends.all(**parameters)
        return Support(low, high, functions.is_whole)

    def everywhere(x: Node, parameters: Mapping[str, Node]) -> Node:
        low, high, _ = fixed or support(parameters)
        return where(is_inside(x, low, high), density(x, **parameters), MINUS_INFINITY)

    def function(of: Callable[..., Any] | None) -> Any:
        read = None if of is None else Read(of, names, 0)
        return None if read is None else lambda parameters: read(**parameters)

    return Family(
        name,
        functions.parameters,
        fixed or support,
        lambda x, parameters: density(x, **parameters),
        log_density_everywhere=None if fixed and _is_domain(functions.support) else everywhere,
        names=(name,),
        draw=None if functions.draw is None else lambda key, parameters: maker(**parameters).sample(key),
        mean=function(functions.mean),
        variance=function(functions.variance),
        mode=function(functions.mode),
        is_read=density.is_read(1) and ends.is_read(0),
    )


def _fixed_support(support: Any, name: str) -> Support | None:
    """The ends of a support that no parameter decides."""
    if not isinstance(support, constraints.Constraint):
        return None
    low, high, is_whole = ends_of(support, name)
    return Support(const(float(low)), const(float(high)), is_whole)


def _is_domain(support: Any) -> bool:
    """All values of the domain are in the support, so that no test is needed."""
    low, high, is_whole = ends_of(support, "")
    domain = domain_of(support, ())
    if is_whole:
        return low == 0 and (high == math.inf or domain.is_finite)
    return (low, high, domain.kind) in ((-math.inf, math.inf, "real"), (0, math.inf, "positive"), (0, 1, "unit"))
