"""Nodes as the text of scalar Python, for Numba to compile: sums are loops, entries are reads of arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from fubini.algebra.binding import opened
from fubini.algebra.build import is_test
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds, exceeds_zero
from fubini.base.scalar_functions import FUNCTIONS
from fubini.errors import NoRule

HEAD = """\
import math

import numpy as np
from numba import njit
"""

LOOPS = {name: function.loop for name, function in FUNCTIONS.items() if function.loop}

# Functions that loops may call, by name; only those in use are written.
HELPERS = {
    **{function.loop: function.source for function in FUNCTIONS.values() if function.source},
    "exp_below": '''\
@njit(fastmath={"contract"}, error_model="numpy")
def exp_below(x):
    """e^x for x ≤ 0, without branches: 2^n · e^r with |r| ≤ ½ log 2, e^r by its series"""
    shifted = x * 1.4426950408889634 + 6755399441055744.0  # n in the lowest bits
    n = shifted - 6755399441055744.0
    r = (x - n * 0.6931471803691238) - n * 1.9082149292705877e-10
    square = r * r
    even = (2.08767569878681e-09 * square + 2.755731922398589e-07) * square + 2.48015873015873e-05
    even = ((even * square + 0.001388888888888889) * square + 0.041666666666666664) * square + 0.5
    odd = (1.6059043836821613e-10 * square + 2.505210838544172e-08) * square + 2.7557319223985893e-06
    odd = ((odd * square + 0.0001984126984126984) * square + 0.008333333333333333) * square + 0.16666666666666666
    series = 1.0 + (r + square * (even + r * odd))
    bits = np.float64(series).view(np.int64) + (np.float64(shifted).view(np.int64) << 52)
    return 0.0 if x < -708.0 else np.int64(bits).view(np.float64)
''',
    "summed": '''\
@njit(fastmath={"reassoc", "nsz"}, error_model="numpy")
def summed(w, size):
    """Σ w, in any order"""
    total = 0.0
    for k in range(size):
        total += w[k]
    return total
''',
    "first_above": '''\
@njit(fastmath={"reassoc", "nsz"}, error_model="numpy")
def first_above(w, level, size):
    """The first k at which w[0] + … + w[k] exceeds a level; whole blocks are passed over first"""
    k = 0
    while k + 32 < size:
        block = 0.0
        for j in range(k, k + 32):
            block += w[j]
        if block > level:
            break
        level -= block
        k += 32
    level -= w[k]
    while level >= 0.0 and k < size - 1:
        k += 1
        level -= w[k]
    return k
''',
}


def helpers(text: str) -> str:
    """The functions that a text calls."""
    return "\n\n".join(body for name, body in HELPERS.items() if re.search(rf"\b{name}\(", text))


class ArrayAccess(NamedTuple):
    """How a leaf is read: its array, the order of axes there, what is added to an entry, and whether it is a log."""

    name: str
    order: tuple[int, ...]
    low: int = 0
    is_log: bool = False


class Sparse(NamedTuple):
    """A data-only sum F(u, l) by rows: the names of its arrays first[u], place[p], value[p], and of the value read."""

    first: str
    place: str
    value: str


Env = Mapping[Index | Node, str]


class LoopWriter:
    """Lines of a function; what needs a loop is written before the line that uses it."""

    def __init__(self, arrays: Mapping[Leaf, ArrayAccess], size: Callable[[int], str] = str) -> None:
        self.arrays, self.size = arrays, size
        self.lines: list[str] = []
        self.depth = 0
        self.count = 0

    def line(self, text: str) -> None:
        """Write one line at the present depth."""
        self.lines.append("    " * self.depth + text if text else "")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a head, and indent what is written inside it."""
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, stem: str) -> str:
        """Return a name that is not in use."""
        self.count += 1
        return f"{stem}{self.count}"

    # -- numbers -----------------------------------------------------------------------------------------------------

    def value(self, this: Node, env: Env) -> str:
        """Write a node as an expression."""
        if this in env:
            return env[this]
        return getattr(self, f"_{this.kind}", self._missing)(this, env)

    def bare(self, this: Node, env: Env) -> str:
        """Write a node as an expression without brackets around it."""
        return bare(self.value(this, env))

    def _missing(self, this: Node, env: Env) -> str:
        what = this.args[0] if this.kind == "call" else this.kind
        raise NoRule(
            f"a compiled loop with {what!r} in it",
            expected=f"sums, products, tests and the functions {', '.join(sorted(LOOPS))}",
            nearest=f"in {this!r}"[:200],
        )

    def _const(self, this: Node, env: Env) -> str:
        value = this.args[0]
        if math.isfinite(value):
            return repr(value)
        return "math.nan" if value != value else "math.inf" if value > 0 else "-math.inf"

    def _index(self, this: Node, env: Env) -> str:
        return env[this.args[0]]

    def _get(self, this: Node, env: Env) -> str:
        leaf, *at = this.args
        array = self.arrays[leaf]
        if not at:
            return f"{array.name}[()]" if not array.low else f"({array.name}[()] + {array.low})"
        places = ", ".join(self._within(at[axis], leaf.shape[axis], env) for axis in array.order) or "()"
        return f"({array.name}[{places}] + {array.low})" if array.low else f"{array.name}[{places}]"

    def _within(self, this: Node, size: int, env: Env) -> str:
        """Write the place of an entry that is read, at an end of the axis where a test alone keeps it within."""
        low, high = bounds(this)
        text = self.place(this, env)
        text = f"max({bare(text)}, 0)" if low < 0 else text
        return f"min({bare(text)}, {self.size(size)} - 1)" if high > size - 1 else text

    def place(self, this: Node, env: Env) -> str:
        """Write a node as a whole number."""
        if this in env:
            return env[this]
        if this.kind == "const":
            return str(int(this.args[0]))
        if this.kind == "index" or (this.kind == "get" and this.args[0].is_integer and this.args[0].role != "state"):
            return self.value(this, env)
        if this.kind == "add" and all(c == int(c) for _, c in this.args):
            return "(" + " + ".join(_times(int(c), self.place(part, env)) for part, c in this.args) + ")"
        return f"int({self.value(this, env)})"

    def _add(self, this: Node, env: Env) -> str:
        terms = ""
        for part, coefficient in sorted(this.args, key=lambda item: item[1] < 0):
            text = _times(abs(coefficient), self.value(part, env)) if part.kind != "const" else repr(abs(coefficient))
            terms += (" - " if terms else "-") + text if coefficient < 0 else (" + " if terms else "") + text
        return f"({terms})"

    def _mul(self, this: Node, env: Env) -> str:
        tests = [base for base, exponent in this.args if exponent > 0 and is_test(base)]
        rest = [(base, exponent) for base, exponent in this.args if base not in tests]
        product = self.product(rest, env)
        if not tests:
            return product
        return f"({product} if {' and '.join(self.test(base, env) for base in tests)} else 0.0)"

    def product(self, factors: Sequence[tuple[Node, float]], env: Env) -> str:
        """Π base^exponent; 0 log 0 is 0"""
        above = " * ".join(_raised(self.value(base, env), exponent) for base, exponent in factors if exponent > 0)
        below = " * ".join(_raised(self.value(base, env), -exponent) for base, exponent in factors if exponent < 0)
        text = f"({above or '1.0'}) / ({below})" if below else above or "1.0"
        logs = [base for base, exponent in factors if exponent == 1 and self._is_log(base)]
        others = [(base, exponent) for base, exponent in factors if base not in logs]
        if logs and others and not all(exceeds_zero(base) for base, _ in others):
            return f"({text} if {self.product(others, env)} != 0.0 else 0.0)"
        return f"({text})"

    def _is_log(self, of: Node) -> bool:
        """Whether a node is a logarithm, or a kept one."""
        array = self.arrays.get(of.args[0]) if of.kind == "get" else None
        return is_log(of) if array is None else array.is_log

    def _call(self, this: Node, env: Env) -> str:
        name, *args = this.args
        if name not in LOOPS:
            return self._missing(this, env)
        written = self.place if FUNCTIONS[name].takes_whole else self.value
        parts, text = [written(part, env) for part in args], LOOPS[name]
        return text.format(*parts) if "{" in text else f"{text}({', '.join(map(bare, parts))})"

    def test(self, this: Node, env: Env) -> str:
        """Write a node that is 0 or 1 as a condition."""
        if this.kind in ("eq", "lt"):
            a, b = (self.value(part, env) for part in this.args)
            return f"{a} {'==' if this.kind == 'eq' else '<'} {b}"
        if this.kind == "where" and this.args[1:] != ():
            test, first, second = (self.test(part, env) for part in this.args)
            if (first, second) == ("False", "True"):
                return f"not ({test})"
            return f"(({first}) if ({test}) else ({second}))"
        if this.kind == "const":
            return str(bool(this.args[0]))
        return f"{self.value(this, env)} != 0.0"

    def _eq(self, this: Node, env: Env) -> str:
        return f"(1.0 if {self.test(this, env)} else 0.0)"

    _lt = _eq

    def _where(self, this: Node, env: Env) -> str:
        test, first, second = this.args
        return f"({self.value(first, env)} if {self.test(test, env)} else {self.value(second, env)})"

    def _sum(self, this: Node, env: Env) -> str:
        over, body = opened(this)
        name, inner = self.fresh("sum"), dict(env)
        self.line(f"{name} = 0.0")
        depth = self.depth
        for i in over:
            inner[i] = self.fresh("j")
            self.line(f"for {inner[i]} in range({self.size(i.size)}):")
            self.depth += 1
        self.line(f"{name} += {bare(self.value(body, inner))}")
        self.depth = depth
        return name


def is_log(of: Node) -> bool:
    """Whether a node may be −inf, and 0 times it is 0."""
    if of.kind in ("add", "mul"):
        return any(is_log(part) for part, _ in of.args)
    return of.kind == "call" and of.args[0] in ("log", "log1p") and not exceeds_zero(of.args[1])


def _times(coefficient: float, text: str) -> str:
    if coefficient == 1:
        return text
    return f"-{text}" if coefficient == -1 else f"{coefficient!r} * {text}"


def _raised(text: str, exponent: float) -> str:
    if exponent == 1:
        return text
    if exponent == 0.5:
        return f"math.sqrt({bare(text)})"
    if exponent in (2.0, 3.0):
        return f"{text} ** {int(exponent)}"
    return f"{text} ** {exponent!r}"


def bare(text: str) -> str:
    """Remove the brackets around a whole expression."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and place < len(text) - 1:
            return text
    return text[1:-1]
