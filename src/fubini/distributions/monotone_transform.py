"""Functions of one number that only rise or only fall, read from their jaxpr: transforms of numpyro, with inverses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal
from numpyro.distributions import constraints
from numpyro.distributions.transforms import Transform
from scipy import special

from fubini.base.arrays import Data, is_traced, namespace

Ends = tuple[float, float]


class Step(NamedTuple):
    """One primitive of a function of one number, with the number that it is given besides, if any."""

    name: str
    number: float = 0.0
    is_first: bool = True  # the place of what moves

    def __call__(self, x: Data) -> Data:
        """The value."""
        xp, compute = namespace(x), FORWARD[self.name]
        return compute(xp, x, self.number) if self.is_first else compute(xp, self.number, x)

    def solve(self, t: Data) -> Data:
        """The x with step(x) = t."""
        if self.name in ("sub", "div") and not self.is_first:
            return self(t)
        return INVERSE[self.name](namespace(t), t, self.number)

    def allows(self, ends: Ends) -> bool:
        """Whether it only rises or only falls between these ends."""
        low, high = ends
        match self.name:
            case "log" | "sqrt" | "rsqrt" | "pow":
                return low >= 0 and (self.name != "pow" or (self.is_first and self.number != 0))
            case "log1p":
                return low >= -1
            case "mul":
                return self.number != 0
            case "div":
                return self.number != 0 and (self.is_first or low >= 0 or high <= 0)
            case "integer_pow" | "square":
                return self.number != 0 and (low >= 0 or (self.number % 2 == 1 and self.number > 0))
        return True


def _logistic(xp: Any, x: Data) -> Data:
    return jax.nn.sigmoid(x) if xp is jnp else special.expit(x)


FORWARD: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, x, c: x + c,
    "sub": lambda xp, x, c: x - c,
    "mul": lambda xp, x, c: x * c,
    "div": lambda xp, x, c: x / c,
    "neg": lambda xp, x, c: -x,
    "exp": lambda xp, x, c: xp.exp(x),
    "log": lambda xp, x, c: xp.log(x),
    "expm1": lambda xp, x, c: xp.expm1(x),
    "log1p": lambda xp, x, c: xp.log1p(x),
    "logistic": lambda xp, x, c: _logistic(xp, x),
    "tanh": lambda xp, x, c: xp.tanh(x),
    "sqrt": lambda xp, x, c: xp.sqrt(x),
    "rsqrt": lambda xp, x, c: 1 / xp.sqrt(x),
    "pow": lambda xp, x, c: x**c,
    "integer_pow": lambda xp, x, c: x ** int(c),
    "square": lambda xp, x, c: x * x,
}
INVERSE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda xp, t, c: t - c,
    "sub": lambda xp, t, c: t + c,
    "mul": lambda xp, t, c: t / c,
    "div": lambda xp, t, c: t * c,
    "neg": lambda xp, t, c: -t,
    "exp": lambda xp, t, c: xp.log(t),
    "log": lambda xp, t, c: xp.exp(t),
    "expm1": lambda xp, t, c: xp.log1p(t),
    "log1p": lambda xp, t, c: xp.expm1(t),
    "logistic": lambda xp, t, c: xp.log(t) - xp.log1p(-t),
    "tanh": lambda xp, t, c: xp.arctanh(t),
    "sqrt": lambda xp, t, c: t * t,
    "rsqrt": lambda xp, t, c: t ** (-2.0),
    "pow": lambda xp, t, c: t ** (1 / c),
    "integer_pow": lambda xp, t, c: xp.sign(t) * xp.abs(t) ** (1 / c),
    "square": lambda xp, t, c: xp.sqrt(t),
}
SLOPES: dict[str, Callable[[Step], float]] = {  # of the steps that are affine
    "add": lambda step: 1.0,
    "sub": lambda step: 1.0 if step.is_first else -1.0,
    "mul": lambda step: step.number,
    "div": lambda step: 1.0 / step.number,
    "neg": lambda step: -1.0,
}
NESTED = ("pjit", "jit", "closed_call", "custom_jvp_call", "custom_vjp_call")


class Monotone(Transform):
    """x ↦ steps(x), from a set of numbers onto another."""

    def __init__(self, steps: tuple[Step, ...], source: Ends, target: Ends, sign: int) -> None:
        self.steps, self.source, self.target, self._sign = steps, source, target, sign

    @property
    def domain(self) -> Any:
        return _between(self.source)

    @property
    def codomain(self) -> Any:
        return _between(self.target)

    @property
    def sign(self) -> int:
        return self._sign

    @property
    def is_affine(self) -> bool:
        """Whether it is a x + b."""
        return all(step.name in SLOPES and (step.is_first or step.name != "div") for step in self.steps)

    @property
    def slope(self) -> float:
        """The a of a x + b."""
        return math.prod(SLOPES[step.name](step) for step in self.steps)

    def __call__(self, x: Data) -> Data:
        for step in self.steps:
            x = step(x)
        return x

    def _inverse(self, y: Data) -> Data:
        for step in reversed(self.steps):
            y = step.solve(y)
        return y

    def log_abs_det_jacobian(self, x: Data, y: Data, intermediates: Any = None) -> Data:
        slope = jax.jvp(self.__call__, (x,), (jnp.ones_like(x),))[1]
        return jnp.log(jnp.abs(slope))

    def tree_flatten(self) -> Any:
        return (), ((), {"steps": self.steps, "source": self.source, "target": self.target, "_sign": self._sign})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Monotone) and (self.steps, self.source) == (other.steps, other.source)

    def __hash__(self) -> int:
        return hash((self.steps, self.source))

    def __repr__(self) -> str:
        return " then ".join(_shown(step) for step in self.steps)


def _shown(step: Step) -> str:
    return step.name if step.number == 0 else f"{step.name} {step.number:g}"


def _between(ends: Ends) -> Any:
    low, high = ends
    if (low, high) == (0.0, 1.0):
        return constraints.unit_interval
    if math.isinf(low) and math.isinf(high):
        return constraints.real
    if math.isinf(high):
        return constraints.positive if low == 0 else constraints.greater_than(low)
    return constraints.less_than(high) if math.isinf(low) else constraints.interval(low, high)


class FunctionOfEntry(NamedTuple):
    """A function of one entry of an array; without a transform it is that entry."""

    entry: tuple[int, ...]
    transform: Monotone | None


def read_function_of_entry(
    function: Callable[[Data], Data], shape: tuple[int, ...], source: Ends
) -> FunctionOfEntry | None:
    """The entry and the transform that a function is; None where it is not known to rise or to fall throughout."""
    size = math.prod(shape)
    places = Selection(np.arange(size).reshape(shape))
    moved = _run(jax.make_jaxpr(function)(jnp.zeros(shape)), places)
    result = None if moved is None else _chain(moved)
    if result is None:
        return None
    entry = tuple(map(int, np.unravel_index(result.place, shape))) if shape else ()
    if not result.steps:
        return FunctionOfEntry(entry, None)
    transform = _monotone(result.steps, source)
    return None if transform is None else FunctionOfEntry(entry, transform)


def _monotone(steps: tuple[Step, ...], source: Ends) -> Monotone | None:
    ends = source
    for step in steps:
        if not step.allows((min(ends), max(ends))):
            return None
        ends = _image(step, ends)
        if any(map(math.isnan, ends)):
            return None
    return Monotone(steps, source, (min(ends), max(ends)), 1 if ends[0] < ends[1] else -1)


def _image(step: Step, ends: Ends) -> Ends:
    """The values at the ends, which may be exchanged by a step that falls."""
    with np.errstate(all="ignore"), jax.enable_x64(True):
        first, second = (float(step(jnp.asarray(_inside(end, ends)))) for end in ends)
    return first, second


def _inside(end: float, ends: Ends) -> float:
    """Zero as the limit from within: 1/x is then an infinity of the right sign."""
    if end != 0:
        return end
    return 0.0 if max(ends) > 0 else -0.0


# -- reading ----------------------------------------------------------------------------------------------------------


class Selection(NamedTuple):
    """Entries of the array that are taken as they are, by their places in it."""

    places: np.ndarray


class Chain(NamedTuple):
    """Steps from the entry at a place."""

    place: int
    steps: tuple[Step, ...]


Moving = Selection | Chain
SELECT = frozenset(
    ("slice", "squeeze", "reshape", "gather", "dynamic_slice", "transpose", "rev", "expand_dims", "broadcast_in_dim")
)


def _run(closed: ClosedJaxpr, start: Moving) -> Moving | None:
    """What becomes of the one input; None where equations are not a chain from one entry."""
    known: dict[Any, Data] = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    moving: dict[Any, Moving] = {closed.jaxpr.invars[0]: start}
    for equation in closed.jaxpr.eqns:
        at = [k for k, var in enumerate(equation.invars) if not isinstance(var, Literal) and var in moving]
        given = [var.val if isinstance(var, Literal) else known.get(var) for var in equation.invars]
        if not at:
            values = equation.primitive.bind(*given, **equation.params)
            many = equation.primitive.multiple_results
            known.update(zip(equation.outvars, values if many else [values], strict=True))
            continue
        result = _apply(equation, at, given, moving[equation.invars[at[0]]]) if len(at) == 1 else None
        if result is None:
            return None
        moving[equation.outvars[0]] = result
    last = closed.jaxpr.outvars[0]
    return None if isinstance(last, Literal) else moving.get(last)


def _apply(equation: Any, at: list[int], given: list[Any], operand: Moving) -> Moving | None:
    name = equation.primitive.name
    others = [value for k, value in enumerate(given) if k != at[0]]
    if any(value is None for value in others) or is_traced(*others):
        return None
    if name in NESTED:
        inner = equation.params.get("jaxpr") or equation.params.get("call_jaxpr")
        return _run(inner, operand) if not others else None
    if name in SELECT and at == [0] and isinstance(operand, Selection):
        places = equation.primitive.bind(jnp.asarray(operand.places, float), *others, **equation.params)
        return Selection(np.asarray(places).astype(int)) if np.isfinite(places).all() else None
    chain = _chain(operand)
    if chain is None or equation.outvars[0].aval.shape:
        return None
    if name in ("convert_element_type", "copy", *SELECT):
        return chain
    return _step(name, equation.params, at[0], others, chain)


def _chain(operand: Moving) -> Chain | None:
    """The chain that has no steps yet, of one entry that was taken."""
    if isinstance(operand, Chain):
        return operand
    return Chain(int(operand.places), ()) if not operand.places.shape else None


def _step(name: str, params: Any, at: int, others: list[Any], operand: Chain) -> Chain | None:
    if name not in FORWARD or any(np.size(value) != 1 for value in others):
        return None
    number = float(np.asarray(others[0]).item()) if others else float(params.get("y", 2 if name == "square" else 0))
    return Chain(operand.place, (*operand.steps, Step(name, number, at == 0 or name in ("add", "mul"))))
