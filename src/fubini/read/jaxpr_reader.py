"""From a jaxpr to index notation, one rule for each primitive; what has none becomes an opaque array, and is right."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jax.sharding import NamedSharding

from fubini.algebra.axes import Axes, aligned
from fubini.algebra.binding import replaced
from fubini.algebra.build import index
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.label_digits import MOST, configuration, is_finite, with_digits
from fubini.algebra.leaf import Response
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.responses import MOST_ENTRIES
from fubini.algebra.walk import rewrite
from fubini.base.arrays import Data, digest, double_precision, is_key, is_traced
from fubini.base.distant import DistantArray, distant, is_distant, is_unread
from fubini.base.jaxprs import NESTED, inner_program
from fubini.base.sharded_array import ShardedArray
from fubini.base.stream import Stream
from fubini.errors import FubiniError
from fubini.read.affine_results import affine_result
from fubini.read.fold import folded
from fubini.read.kronecker_products import large_product
from fubini.read.primitive import by_entry
from fubini.read.representable import is_represented, whole_range
from fubini.read.symbolic_array import SymbolicArray, facts_of, of_keys, of_leaf, of_numbers

Rule = Callable[..., SymbolicArray | list[SymbolicArray] | None]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register the rule of some primitives: rule(reader, equation, *operands); None where it does not apply.

    One whose result its type may not hold is to be named in `read/representable.py` too.
    """

    def register(function: Rule) -> Rule:
        for name in names:
            assert name not in RULES, f"two rules for {name}"
            RULES[name] = function
        return function

    return register


class Opaque:
    """An array computed from others by a function that is not read."""

    def __init__(self, function: Callable[..., Data], operands: tuple[SymbolicArray, ...]) -> None:
        self.function, self.operands = function, operands


class Reader:
    """The arrays of one program. `known` are numbers of leaves, `opaque` the functions behind the others.

    Where parameters that data alone decide were checked when they were given, `is_checked` says so.
    """

    def __init__(self, is_checked: bool = False) -> None:
        self.is_checked = is_checked
        self.known: dict[Leaf, np.ndarray] = {}
        self.rows: dict[Leaf, Stream] = {}  # that are read chunk by chunk, where some term needs all of them
        self.needs_rows: FubiniError | None = None  # why it does; None where some of the rows will do
        self.opaque: dict[Leaf, Opaque] = {}
        self.sums: dict[Node, Axes] = {}  # over rows on a mesh, in numbers
        self.placed: dict[Leaf, NamedSharding] = {}  # how arrays lie on a mesh
        self._by_content: dict[tuple, Leaf] = {}
        self._names: dict[tuple, str] = {}
        self._roots: dict[tuple[Leaf, int], Leaf] = {}
        self.marks: list[tuple[Any, SymbolicArray, Node]] = []  # of parameters that may leave their constraint

    def name(self, array: np.ndarray, name: str) -> None:
        """Leaves of these numbers, whole ones as real ones too, go by this name, unless they are given another."""
        kinds = (np.int32, np.int64, np.float32, np.float64) if array.dtype.kind in "iub" else ()
        for dtype in (array.dtype, *kinds):
            self._names.setdefault(_content(array.astype(dtype)), name)

    def constant(self, data: Any, name: str = "") -> SymbolicArray:
        """Known numbers; of those that are traced, nothing but the shape is known."""
        if is_traced(data):
            return self.given(data, name)
        if (record := distant(data)) is not None:
            return self._distant(record, name)
        return of_numbers(data, lambda array: self._leaf_of(array, name))

    def _distant(self, record: DistantArray, name: str) -> SymbolicArray:
        """An array of which only the shape and the range are known."""
        leaf = self._by_content.get((record.key,))
        if leaf is None:
            name = name or f"data{len(self._by_content)}"
            leaf = self._by_content[record.key,] = Leaf(name, record.shape, **record.facts)
            self.known[leaf] = record.known
            if isinstance(record, ShardedArray):
                self.placed[leaf] = record.sharding
        return of_leaf(leaf)

    def _leaf_of(self, array: np.ndarray, name: str) -> Leaf:
        """One leaf for equal numbers, whatever axes of one entry they have."""
        plain = array.reshape([size for size in array.shape if size != 1])
        key = _content(plain)
        leaf = self._by_content.get(key)
        if leaf is None:
            name = name or self._names.get(key) or f"data{len(self._by_content)}"
            leaf = self._by_content[key] = Leaf(name, plain.shape, **facts_of(plain))
            self.known[leaf] = plain
        return leaf

    def read(
        self, jaxpr: Any, consts: Sequence[Any], inputs: Sequence[SymbolicArray], only: int | None = None
    ) -> list[SymbolicArray]:
        """The results of a program over these inputs, or one of them alone."""
        results = jaxpr.outvars if only is None else [jaxpr.outvars[only]]
        scope: dict[Any, SymbolicArray] = dict(zip(jaxpr.invars, inputs, strict=True))
        scope.update((var, self.constant(value)) for var, value in zip(jaxpr.constvars, consts, strict=True))

        def operand(var: Any) -> SymbolicArray:
            return self.constant(np.asarray(var.val)) if isinstance(var, Literal) else scope[var]

        equations, needed = _alive(jaxpr, results)
        for equation in equations:
            outputs = self._equation(equation, [operand(var) for var in equation.invars], needed)
            scope.update(zip(equation.outvars, outputs, strict=True))
        return [operand(var) for var in results]

    def _equation(self, equation: Any, operands: list[SymbolicArray], needed: Collection[Any]) -> list[SymbolicArray]:
        name = equation.primitive.name
        if (product := large_product(equation, operands)) is not None:
            return [product]
        if all(part.constant is not None for part in operands) and name not in ("iota", *NESTED):
            return [self.constant(one) for one in folded(equation, [part.constant for part in operands])]  # type: ignore[misc]
        if (inner := inner_program(equation)) is not None:
            closed = hasattr(inner, "jaxpr")
            return self.read(inner.jaxpr if closed else inner, inner.consts if closed else (), operands)
        reading = RULES[name](self, equation, *operands) if name in RULES else None
        if reading is None:
            return self._opaque(equation, operands, needed)
        results = reading if isinstance(reading, list) else [reading]
        return results if is_represented(equation, results) else self._opaque(equation, operands, needed)

    def _opaque(self, equation: Any, operands: list[SymbolicArray], needed: Collection[Any]) -> list[SymbolicArray]:
        """Arrays that are computed as they stand; nothing is eliminated through them."""
        known = [self.numbers(part) for part in operands]
        if all(numbers is not None for numbers in known) and not is_unread(*known):
            cast = [np.asarray(n, var.aval.dtype) for n, var in zip(known, equation.invars, strict=True)]
            return [self.constant(one) for one in folded(equation, cast)]
        if any(numbers is None for numbers in known) and (entries := by_entry(equation, operands)) is not None:
            return [entries]
        made = []
        for place, var in enumerate(equation.outvars):
            compute = _one_result(equation, place)
            if var not in needed:
                made.append(SymbolicArray(var.aval.shape, _not_needed))
            elif all(numbers is not None for numbers in known):  # data that are traced: as they come out
                made.append(self.given(self._rounded(compute(*known))))
            elif (affine := affine_result(self, equation, place, operands, compute)) is not None:
                made.append(affine)
            else:
                made.append(self.computed(equation.primitive.name, var.aval.shape, compute, tuple(operands)))
        return made

    def _rounded(self, data: Data) -> Data:
        """Numbers that were computed in double precision, in that of the traced data they come from."""
        kinds = [known.dtype for known in self.known.values() if is_traced(known) and known.dtype.kind == "f"]
        return data.astype(jnp.result_type(*kinds)) if kinds and data.dtype.kind == "f" else data

    def computed(
        self, name: str, shape: tuple[int, ...], function: Callable[..., Data], operands: tuple[SymbolicArray, ...]
    ) -> SymbolicArray:
        """What a function makes of arrays: an entry of a table, where labels of few values together decide it."""
        labels = sorted(frozenset().union(*map(self.leaves_of, operands)), key=lambda leaf: leaf.serial)
        labels = [leaf for leaf in labels if leaf.role == "site" and is_finite(leaf)]
        counts = [leaf.count ** math.prod(leaf.shape) for leaf in labels if math.prod(leaf.shape) <= MOST]
        is_small = math.prod(counts) <= MOST and math.prod((*counts, *shape)) <= MOST_ENTRIES
        if not labels or len(counts) < len(labels) or not is_small:
            return self.made_of(name, shape, function, *operands)
        numbers = tuple(Index(count, "c") for count in counts)
        at_numbers = operands
        for leaf, number in zip(labels, numbers, strict=True):
            rule_ = with_digits(leaf, range(len(leaf.shape)), index(number))
            at_numbers = tuple(map(partial(_rewritten, rule_), at_numbers))
        if any(self.leaves_of(part) & set(labels) for part in at_numbers):  # behind what is opaque
            return self.made_of(name, shape, function, *operands)
        every = function
        for _ in numbers:
            every = jax.vmap(every)
        table = self.made_of(name, (*counts, *shape), every, *(_along(part, numbers) for part in at_numbers))
        places = tuple(map(configuration, labels))
        return SymbolicArray(shape, lambda *at: table.at(*places, *at))

    def opaque_array(
        self, name: str, shape: tuple[int, ...], function: Callable[..., Data], operands: tuple[SymbolicArray, ...]
    ) -> SymbolicArray:
        """An array that a function makes of others; where these stand under an index, one for each of its values."""
        outer = tuple(sorted(frozenset().union(*map(_outer, operands)), key=lambda i: i.serial))
        if outer:
            over = tuple(_along(part, outer) for part in operands)
            every = function
            for _ in outer:
                every = jax.vmap(every)
            stacked = self.opaque_array(name, (*(i.size for i in outer), *shape), every, over)
            return SymbolicArray(shape, lambda *at: stacked.at(*map(index, outer), *at))
        behind = frozenset(leaf for part in operands for leaf in self.leaves_of(part))
        leaf = Leaf(f"{name}{len(self.opaque)}", shape, of=behind, role="opaque")
        self.opaque[leaf] = Opaque(function, operands)
        return of_leaf(leaf)

    def response(
        self,
        name: str,
        shape: tuple[int, ...],
        function: Callable[..., Data],
        operands: tuple[SymbolicArray, ...],
        response: Response,
    ) -> SymbolicArray:
        """A matrix that a function makes of arrays, and that follows from a linear recursion."""
        behind = frozenset(leaf for part in operands for leaf in self.leaves_of(part)) | response.transition.leaves
        leaf = Leaf(f"{name}{len(self.opaque)}", shape, of=behind, role="opaque", response=response)
        self.opaque[leaf] = Opaque(function, operands)
        return of_leaf(leaf)

    def root(self, of: Leaf, exponent: int, function: Callable[..., Data]) -> SymbolicArray:
        """A with AᵀA = X^exponent, of positive definite matrices X: the same leaf whenever it is asked for."""
        leaf = self._roots.get((of, exponent))
        if leaf is None:
            name = f"root{len(self.opaque)}"
            low = float(np.finfo(float).tiny) if of.shape[-1] == 1 else None  # of a number, the positive root
            leaf = Leaf(name, of.shape, low=low, of=of.of | {of}, role="opaque", root_of=(of, exponent))
            self._roots[of, exponent] = leaf
            self.opaque[leaf] = Opaque(function, (of_leaf(of),))
        return of_leaf(leaf)

    def made_of(
        self, name: str, shape: tuple[int, ...], function: Callable[..., Data], *operands: SymbolicArray
    ) -> SymbolicArray:
        """What a function makes of arrays: numbers where these are known."""
        known = [self.numbers(part) if part.constant is None else part.constant for part in operands]
        if any(numbers is None for numbers in known):
            return self.opaque_array(name, shape, function, operands)
        if is_traced(*known):
            return self.given(self._rounded(function(*known)))
        with double_precision(), jax.ensure_compile_time_eval():
            return self.constant(np.asarray(function(*map(jnp.asarray, known))))

    def numbers(self, array: SymbolicArray) -> Data | None:
        """The numbers of an array that depends on known ones alone, which are not distant; traced where those are."""
        order = tuple(Index(size) for size in array.shape)
        entry = array.at(*map(index, order))
        if entry.leaves - set(self.known) or entry.free - set(order):
            return None
        if is_distant(*(self.known[leaf] for leaf in entry.leaves)):
            return None
        if is_traced(*(self.known[leaf] for leaf in entry.leaves)):
            return jnp.broadcast_to(aligned(Evaluation(self.known).of(entry), order), array.shape)
        with double_precision(), jax.ensure_compile_time_eval():
            entries = Evaluation(self.known).of(entry)
            return np.broadcast_to(np.asarray(aligned(entries, order)), array.shape)

    def truth(self, test: Node) -> bool | None:
        """Whether a test holds at all of its indices; None where known numbers alone do not decide it."""
        if test.leaves - set(self.known) or is_unread(*(self.known[leaf] for leaf in test.leaves)):
            return None
        with double_precision(), jax.ensure_compile_time_eval():
            return bool(np.all(np.asarray(Evaluation(self.known).of(test).data)))

    def given(self, data: Data, name: str = "") -> SymbolicArray:
        """Numbers of which nothing is known yet."""
        if is_key(data):
            return of_keys(data.shape)
        whole = data.dtype.kind in "biu"
        low, high = whole_range(data.dtype) if whole and data.dtype.itemsize < 4 else (None, None)
        leaf = Leaf(name or f"given{len(self.known)}", data.shape, low=low, high=high, is_integer=whole, role="traced")
        self.known[leaf] = data
        return of_leaf(leaf)

    def leaves_of(self, array: SymbolicArray) -> frozenset[Leaf]:
        """The leaves that its entries depend on."""
        from_entry = array.at(*(_fresh(size) for size in array.shape)).leaves
        return frozenset(from_entry)


def _one_result(equation: Any, place: int) -> Callable[..., Data]:
    """A function that computes one result of an equation as it stands."""
    bind, params, several = equation.primitive.bind, equation.params, equation.primitive.multiple_results
    kinds = [var.aval.dtype for var in equation.invars]

    def compute(*arrays: Data) -> Data:
        with double_precision():  # the precision it was traced in
            given = (jnp.asarray(array).astype(kind) for array, kind in zip(arrays, kinds, strict=True))
            output = bind(*given, **params)
        output = output[place] if several else output
        return output.astype(jax.dtypes.canonicalize_dtype(output.dtype))

    return compute


def _alive(jaxpr: Any, results: Sequence[Any]) -> tuple[list[Any], set[Any]]:
    """The equations that some result needs, and all that is needed; validity tests of parameters are needed by none."""
    needed = {var for var in results if not isinstance(var, Literal)}
    kept = []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            kept.append(equation)
            needed.update(var for var in equation.invars if not isinstance(var, Literal))
    return kept[::-1], needed


def _not_needed(*at: Node) -> Node:
    raise AssertionError("a result that no other reads")


def _outer(array: SymbolicArray) -> frozenset[Index]:
    """Indices that its entries depend on, besides those of its own axes."""
    fresh = [Index(size) for size in array.shape]
    return array.at(*map(index, fresh)).free - set(fresh)


def _along(array: SymbolicArray, outer: tuple[Index, ...]) -> SymbolicArray:
    """With an axis for each of these indices before its own."""

    def entry(*at: Node) -> Node:
        own, names = at[len(outer) :], dict(zip(map(index, outer), at, strict=False))
        return replaced(array.at(*own), names)

    return SymbolicArray((*(i.size for i in outer), *array.shape), entry)


def _rewritten(rule_: Callable[[Node, Callable[[Node], Node]], Node], array: SymbolicArray) -> SymbolicArray:
    return SymbolicArray(array.shape, lambda *at: rewrite(array.at(*at), rule_))


def _fresh(size: int) -> Any:
    return index(Index(size))


def _content(array: np.ndarray) -> tuple:
    """What distinguishes numbers, whatever axes of one entry they have."""
    return tuple(size for size in array.shape if size != 1), array.dtype.str, digest(array)
