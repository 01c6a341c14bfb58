"""The table of scalar functions: one record each, with all that any part of the library knows about it.

Its name is that of index notation, and of JAX's primitive where there is one. Whoever computes, bounds, solves, reads
or writes a function looks here; a new function is one more record.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import scipy.special

from fubini.base.arrays import Data, namespace

Bounds = tuple[float, float]
REAL: Bounds = (-math.inf, math.inf)


def unbounded(*_: Bounds) -> Bounds:
    """The bounds of a function of which none are known."""
    return REAL


@dataclass(frozen=True)
class Inverse:
    """x with f(x) = t, and log |dx/dt|, for t inside the image of f; `inside` is a point of the image.

    `solve(functions, t)` is written in functions of a namespace and operators: those of arrays, Values or nodes.
    """

    solve: Callable[[Any, Any], tuple[Any, Any]]
    image: Bounds = REAL
    inside: float = 0.0


@dataclass(frozen=True, eq=False)
class ScalarFunction:
    """A function of numbers.

    >>> FUNCTIONS["exp"](0.0), FUNCTIONS["log"].bounds((1.0, math.inf))
    (np.float64(1.0), (0.0, inf))
    """

    name: str
    array: Callable[..., Data]  # of a namespace and arrays
    number: Callable[[float], float] | None = None  # of one number that is known
    bounds: Callable[..., Bounds] = unbounded  # from those of its arguments
    inverse: Inverse | None = None
    exponent: float | None = None  # of a power, which index notation writes as one
    is_positive: bool = False
    is_whole: bool = False
    is_increasing: bool = False
    takes_whole: bool = False
    is_primitive: bool = False  # JAX has a primitive of this name
    formula: str = ""  # its name in formulas of whole arrays; none where they have an operator
    program: str = ""  # its name in programs of measures
    loop: str = ""  # its name in compiled loops, or the text with {0} and {1} for its arguments
    source: str = ""  # the definition of that name, where loops have to bring it along

    def __call__(self, *arrays: Data) -> Data:
        return self.array(namespace(*arrays), *arrays)

    def __repr__(self) -> str:
        return self.name


FUNCTIONS: dict[str, ScalarFunction] = {}


def register(name: str, array: Callable[..., Data] | None = None, **facts: Any) -> ScalarFunction:
    """Add a record to the table; the array function is NumPy's of the same name where none is given."""
    FUNCTIONS[name] = ScalarFunction(name, array or of_numpy(name), **facts)
    return FUNCTIONS[name]


def primitive(name: str, array: Callable[..., Data] | None = None, **facts: Any) -> ScalarFunction:
    """Add the record of a primitive of JAX."""
    return register(name, array, is_primitive=True, **{"formula": name, **facts})


def scalar_function(function: Any) -> ScalarFunction:
    """The record of a function in a node: by name, as it is, or of an opaque function with the little known of it.

    A name that the table lacks is NumPy's.
    """
    if isinstance(function, str):
        return FUNCTIONS.get(function) or ScalarFunction(function, of_numpy(function))
    if isinstance(function, ScalarFunction):
        return function
    is_whole = getattr(function, "is_whole", False)
    return ScalarFunction(str(function), lambda xp, *arrays: xp.asarray(function(*arrays)), is_whole=is_whole)


def of_numpy(name: str) -> Callable[..., Data]:
    """The function of this name in the namespace of the arrays."""
    return lambda xp, *arrays: getattr(xp, name)(*arrays)


def on_jax(**facts: Any) -> Callable[[Callable[..., Data]], ScalarFunction]:
    """A decorator: the record of a function that JAX computes, which nodes hold itself rather than its name."""

    def record(function: Callable[..., Data]) -> ScalarFunction:
        return ScalarFunction(function.__name__, lambda xp, *arrays: xp.asarray(function(*arrays)), **facts)

    return record


def _by_engine(on_jax: Callable[..., Data], on_numpy: Callable[..., Data]) -> Callable[..., Data]:
    return lambda xp, *arrays: (on_numpy if xp is np else on_jax)(*arrays)


def _ends(function: Callable[[float], float]) -> Callable[[Bounds], Bounds]:
    """The bounds of an increasing function: its values at both ends."""
    return lambda ends: (function(ends[0]), function(ends[1]))


def _within(low: float, high: float) -> Callable[..., Bounds]:
    return lambda *_: (low, high)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _floor(x: float) -> float:
    return math.floor(x) if math.isfinite(x) else x


def _quotient_bounds(over: Bounds, under: Bounds) -> Bounds:
    high = over[1]
    return 0.0, (high // max(under[0], 1.0) if math.isfinite(high) else high)


def _lgamma_if_positive(xp: Any, x: Data) -> Data:
    return xp.where(x > 0, LGAMMA.array(xp, xp.where(x > 0, x, 1.0)), xp.inf)


# -- exponentials and logarithms -------------------------------------------------------------------------------------

EXP = primitive(
    "exp",
    number=math.exp,
    bounds=_within(0.0, math.inf),
    inverse=Inverse(lambda f, t: (f.log(t), -f.log(t)), (0.0, math.inf), 1.0),
    is_positive=True,
    is_increasing=True,
    program="exp",
    loop="math.exp",
)
LOG = primitive(
    "log",
    number=math.log,
    bounds=_ends(_log),
    inverse=Inverse(lambda f, t: (f.exp(t), t)),
    is_increasing=True,
    program="log",
    loop="log",
    source='''\
@njit(error_model="numpy")
def log(x):
    """log x, −inf at 0"""
    return math.log(x) if x > 0.0 else (-math.inf if x == 0.0 else math.nan)
''',
)
LOG1P = primitive(
    "log1p",
    number=math.log1p,
    inverse=Inverse(lambda f, t: (f.expm1(t), t)),
    loop="log1p",
    source='''\
@njit(error_model="numpy")
def log1p(x):
    """log(1 + x), −inf at −1"""
    return math.log1p(x) if x > -1.0 else (-math.inf if x == -1.0 else math.nan)
''',
)
EXPM1 = primitive(
    "expm1",
    inverse=Inverse(lambda f, t: (f.log1p(t), -f.log1p(t)), (-1.0, math.inf), 0.0),
    loop="math.expm1",
)

# -- the gamma function and its relatives ----------------------------------------------------------------------------

LGAMMA = primitive(
    "lgamma",
    _by_engine(jax.scipy.special.gammaln, scipy.special.gammaln),
    number=math.lgamma,
    program="lgamma",
    loop="math.lgamma",
)
LARGE_GAMMA = 16.0  # from which on four terms of Stirling's series are as good as the numbers


def _log_rising(xp: Any, x: Any, r: Any) -> Any:
    """log Γ(x + r) / Γ(x), by Stirling's series where x is large: the difference of two logarithms would cancel."""
    is_large = xp.minimum(x, x + r) >= LARGE_GAMMA
    far = xp.where(is_large, x, LARGE_GAMMA)
    end = xp.where(is_large, x + r, LARGE_GAMMA)
    by = xp.where(is_large, r, 0.0)
    large = by * xp.log(far) + (end - 0.5) * xp.log1p(by / far) - by + _stirling(end) - _stirling(far)
    near, above = xp.where(is_large, 1.0, x), xp.where(is_large, 1.0, x + r)
    return xp.where(is_large, large, LGAMMA.array(xp, above) - LGAMMA.array(xp, near))


def _stirling(x: Any) -> Any:
    """log Γ(x) − (x − ½) log x + x − ½ log 2π, as a series in 1/x"""
    y = 1 / (x * x)
    return (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y / 1188)))) / x


LOG_RISING = register(
    "log_rising",
    _log_rising,
    loop="log_rising",
    source='''\
@njit(error_model="numpy")
def log_rising(x, r):
    """log Γ(x + r) / Γ(x), a product for small whole r"""
    low, count = (x, r) if r >= 0.0 else (x + r, -r)
    if count > 16.0 or count != math.floor(count) or low <= 0.0:
        return math.lgamma(x + r) - math.lgamma(x)
    product = 1.0
    for i in range(int(count)):
        product *= low + i
    return math.log(product) if r > 0.0 else -math.log(product)
''',
)
LGAMMA_IF_POSITIVE = register(
    "lgamma_if_positive",
    _lgamma_if_positive,
    loop="lgamma_if_positive",
    source='''\
@njit(error_model="numpy")
def lgamma_if_positive(x):
    """log Γ(x), infinite where x is not positive"""
    return math.lgamma(x) if x > 0.0 else math.inf
''',
)
DIGAMMA = primitive("digamma", _by_engine(jax.scipy.special.digamma, scipy.special.digamma))
ERF = primitive("erf", _by_engine(jax.scipy.special.erf, scipy.special.erf), loop="math.erf")

# -- sizes, signs and whole numbers ----------------------------------------------------------------------------------

ABS = primitive(
    "abs",
    number=abs,
    bounds=lambda ends: (0.0, max(map(abs, ends))),
    program="abs",
    loop="abs",
)
SIGN = primitive("sign", loop="(({0} > 0) - ({0} < 0))")
MAXIMUM = primitive(
    "max",
    of_numpy("maximum"),
    bounds=lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    formula="maximum",
    program="maximum",
    loop="max",
)
MINIMUM = primitive(
    "min",
    of_numpy("minimum"),
    bounds=lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    formula="minimum",
    program="minimum",
    loop="min",
)
FLOOR = primitive("floor", number=math.floor, bounds=_ends(_floor), is_whole=True, loop="math.floor")
QUOTIENT = register(
    "quotient",
    lambda xp, a, b: a // b,
    bounds=_quotient_bounds,
    is_whole=True,
    takes_whole=True,
    loop="({0} // {1})",
)
NONZERO = register(
    "nonzero",
    lambda xp, x: xp.where(x == 0, 1.0, x),
    number=lambda x: x or 1.0,
    loop="nonzero",
    source='''\
@njit(error_model="numpy")
def nonzero(x):
    """x, 1 where it is 0"""
    return 1.0 if x == 0.0 else x
''',
)
POSITIVE = register(
    "positive",
    lambda xp, x: xp.where(x > 0, x, xp.nan),
    number=lambda x: x if x > 0 else math.nan,
    bounds=lambda ends: (max(ends[0], 0.0), max(ends[1], 0.0)),
    is_positive=True,
    loop="positive",
    source='''\
@njit(error_model="numpy")
def positive(x):
    """x, not a number where it is not positive"""
    return x if x > 0.0 else np.nan
''',
)
SAME = register("same", lambda xp, x: x, loop="{0}")

# -- smooth steps, waves and powers ----------------------------------------------------------------------------------

LOGISTIC = primitive(
    "logistic",
    _by_engine(jax.scipy.special.expit, scipy.special.expit),
    bounds=_within(0.0, 1.0),
    inverse=Inverse(lambda f, t: (f.log(t) - f.log1p(-t), -f.log(t) - f.log1p(-t)), (0.0, 1.0), 0.5),
    formula="sigmoid",
    loop="logistic",
    source='''\
@njit(error_model="numpy")
def logistic(x):
    """1 / (1 + e^−x)"""
    return 1.0 / (1.0 + math.exp(-x))
''',
)
SOFTPLUS = register(
    "softplus",
    lambda xp, x: xp.logaddexp(0.0, x),
    bounds=_within(0.0, math.inf),
    inverse=Inverse(lambda f, t: (f.log(f.expm1(t)), t - f.log(f.expm1(t))), (0.0, math.inf), 1.0),
)
TANH = primitive(
    "tanh",
    number=math.tanh,
    inverse=Inverse(lambda f, t: (0.5 * (f.log1p(t) - f.log1p(-t)), -f.log1p(-t * t)), (-1.0, 1.0), 0.0),
    loop="math.tanh",
)
SIN = primitive("sin", loop="math.sin")
COS = primitive("cos", loop="math.cos")
TAN = register("tan")
POWER = primitive("pow", of_numpy("power"), formula="", loop="pow")
SQRT = primitive("sqrt", exponent=0.5)
SQUARE = primitive("square", formula="", exponent=2.0)
RECIPROCAL_ROOT = primitive("rsqrt", lambda xp, x: 1.0 / xp.sqrt(x), formula="", exponent=-0.5)
