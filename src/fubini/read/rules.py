"""The rules of the reader: elementwise operations, shapes, indexing, sums."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini.index.build import (
    ONE,
    ZERO,
    add,
    bounds,
    call,
    const,
    divide,
    equal,
    index,
    is_whole,
    less,
    minus,
    negate,
    plus,
    power,
    scale,
    times,
    where,
)
from fubini.index.node import Index, Node, node
from fubini.index.sums import total
from fubini.read.reader import Reader, rule
from fubini.read.symbolic_array import SymbolicArray

# -- elementwise ----------------------------------------------------------------------------------------------------


def _elementwise(name: str, of: Any) -> None:
    @rule(name)
    def read(reader: Reader, equation: Any, *operands: SymbolicArray) -> SymbolicArray:
        shape = equation.outvars[0].aval.shape
        return SymbolicArray(shape, lambda *at: of(*(part.at(*at[len(at) - part.rank :]) for part in operands)))


def _not_equal(a: Node, b: Node) -> Node:
    return negate(equal(a, b))


for _name, _of in {
    "add": plus,
    "add_any": plus,
    "sub": minus,
    "mul": times,
    "neg": lambda a: scale(-1.0, a),
    "square": lambda a: power(a, 2.0),
    "sqrt": lambda a: power(a, 0.5),
    "rsqrt": lambda a: power(a, -0.5),
    "exp": lambda a: call("exp", a),
    "log": lambda a: call("log", a),
    "log1p": lambda a: call("log1p", a),
    "expm1": lambda a: call("expm1", a),
    "lgamma": lambda a: call("lgamma", a),
    "digamma": lambda a: call("digamma", a),
    "erf": lambda a: call("erf", a),
    "tanh": lambda a: call("tanh", a),
    "sin": lambda a: call("sin", a),
    "cos": lambda a: call("cos", a),
    "abs": lambda a: call("abs", a),
    "sign": lambda a: call("sign", a),
    "floor": lambda a: a if is_whole(a) else call("floor", a),
    "logistic": lambda a: call("logistic", a),
    "max": lambda a, b: _greater(a, b),
    "min": lambda a, b: _smaller(a, b),
    "pow": lambda a, b: power(a, b.args[0]) if b.kind == "const" else call("pow", a, b),
    "lt": less,
    "gt": lambda a, b: less(b, a),
    "le": lambda a, b: negate(less(b, a)),
    "ge": lambda a, b: negate(less(a, b)),
    "stop_gradient": lambda a: a,
    "copy": lambda a: a,
    "copy_p": lambda a: a,
    "real": lambda a: a,
    "optimization_barrier": lambda a: a,
}.items():
    _elementwise(_name, _of)

OTHERS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e", "cbrt", "ceil", "cosh"),
    *("erf_inv", "erfc", "exp2", "igamma", "igammac", "is_finite", "polygamma", "round", "sinh", "tan", "zeta"),
)


class Primitive:
    """A function of numbers that has no algebra here: nothing is eliminated through it, but entries stay entries."""

    def __init__(self, equation: Any) -> None:
        self.bind, self.params, self.name = equation.primitive.bind, equation.params, equation.primitive.name

    def __call__(self, *arrays: Any) -> Any:
        spread = jnp.broadcast_arrays(*(jnp.asarray(array, float) for array in arrays))
        return self.bind(*spread, **self.params)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Primitive) and (self.name, str(self.params)) == (other.name, str(other.params))

    def __hash__(self) -> int:
        return hash((self.name, str(self.params)))

    def __repr__(self) -> str:
        return self.name


@rule(*OTHERS)
def read_function(reader: Reader, equation: Any, *operands: SymbolicArray) -> SymbolicArray:
    """A function of each entry"""
    function = Primitive(equation)
    shape = equation.outvars[0].aval.shape
    return SymbolicArray(shape, lambda *at: node("call", function, *(_same_shape(part, at) for part in operands)))


@rule("div", "rem")
def read_division(reader: Reader, equation: Any, a: SymbolicArray, b: SymbolicArray) -> SymbolicArray | None:
    """a / b; of whole numbers the quotient, or what it leaves, where neither is negative"""
    shape, name = equation.outvars[0].aval.shape, equation.primitive.name
    if np.issubdtype(equation.outvars[0].aval.dtype, np.floating):
        if name == "rem":
            function = Primitive(equation)
            return SymbolicArray(shape, lambda *at: node("call", function, *(_same_shape(x, at) for x in (a, b))))
        return SymbolicArray(shape, lambda *at: divide(_same_shape(a, at), _same_shape(b, at)))
    fresh = [index(Index(size)) for size in shape]
    if bounds(_same_shape(a, tuple(fresh)))[0] < 0 or bounds(_same_shape(b, tuple(fresh)))[0] < 1:
        return None

    def at(*where_: Node) -> Node:
        over, under = _same_shape(a, where_), _same_shape(b, where_)
        quotient = call("quotient", over, under)
        return quotient if name == "div" else minus(over, times(under, quotient))

    return SymbolicArray(shape, at)


@rule("and", "or", "not")
def read_logic(reader: Reader, equation: Any, *operands: SymbolicArray) -> SymbolicArray | None:
    """Of truth values; the bits of whole numbers are none"""
    if equation.outvars[0].aval.dtype != np.bool_:
        return None
    of = {"and": times, "or": lambda a, b: where(a, ONE, b), "not": negate}[equation.primitive.name]
    shape = equation.outvars[0].aval.shape
    return SymbolicArray(shape, lambda *at: of(*(_same_shape(part, at) for part in operands)))


def _greater(a: Node, b: Node) -> Node:
    (low, high), (other_low, other_high) = bounds(a), bounds(b)
    return a if low >= other_high else b if other_low >= high else call("max", a, b)


def _smaller(a: Node, b: Node) -> Node:
    (low, high), (other_low, other_high) = bounds(a), bounds(b)
    return a if high <= other_low else b if other_high <= low else call("min", a, b)


def _same_shape(part: SymbolicArray, at: tuple[Node, ...]) -> Node:
    return part.at(*at[len(at) - part.rank :])


@rule("eq", "ne")
def read_equality(reader: Reader, equation: Any, a: SymbolicArray, b: SymbolicArray) -> SymbolicArray | None:
    """[a = b] of whole numbers; of others it is opaque"""
    if any(np.issubdtype(var.aval.dtype, np.floating) for var in equation.invars):
        return None
    of = equal if equation.primitive.name == "eq" else _not_equal
    shape = equation.outvars[0].aval.shape
    return SymbolicArray(shape, lambda *at: of(_same_shape(a, at), _same_shape(b, at)))


@rule("integer_pow")
def read_integer_pow(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """a^n"""
    return SymbolicArray(a.shape, lambda *at: power(a.at(*at), float(equation.params["y"])))


@rule("convert_element_type")
def read_convert(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray | None:
    """The same number; from real to whole ones it is cut"""
    new, old = equation.params["new_dtype"], equation.invars[0].aval.dtype
    if np.issubdtype(old, np.floating) and not np.issubdtype(new, np.floating):
        return None
    if new == np.bool_ and old != np.bool_:
        return SymbolicArray(a.shape, lambda *at: _not_equal(a.at(*at), ZERO))
    return SymbolicArray(a.shape, a.at)


@rule("select_n")
def read_select(reader: Reader, equation: Any, test: SymbolicArray, *cases: SymbolicArray) -> SymbolicArray | None:
    """cases[test]"""
    if len(cases) != 2:
        return None
    second, first = cases
    if test.constant is not None and test.constant.shape == first.shape:
        first, second = _only(reader, first, test.constant), _only(reader, second, ~test.constant)
    return SymbolicArray(first.shape, lambda *at: where(_same_shape(test, at), first.at(*at), second.at(*at)))


def _only(reader: Reader, case: SymbolicArray, where_: np.ndarray) -> SymbolicArray:
    """Known numbers where they are chosen; elsewhere one of those, so that their bounds are what is chosen."""
    if case.constant is None or not where_.any():
        return case
    return reader.constant(np.where(where_, case.constant, case.constant[where_].flat[0]))


@rule("clamp")
def read_clamp(
    reader: Reader, equation: Any, low: SymbolicArray, a: SymbolicArray, high: SymbolicArray
) -> SymbolicArray:
    """min(max(a, low), high)"""
    return SymbolicArray(
        a.shape, lambda *at: _smaller(_greater(a.at(*at), _same_shape(low, at)), _same_shape(high, at))
    )


# -- shapes ---------------------------------------------------------------------------------------------------------


@rule("broadcast_in_dim")
def read_broadcast(reader: Reader, equation: Any, a: SymbolicArray, *_: Any) -> SymbolicArray:
    """Axes that are new, or of one entry, are not looked at"""
    axes = equation.params["broadcast_dimensions"]
    return SymbolicArray(equation.params["shape"], lambda *at: a.at(*(at[axis] for axis in axes)))


@rule("transpose")
def read_transpose(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """Axes in another order"""
    order = equation.params["permutation"]
    shape = tuple(a.shape[axis] for axis in order)
    return SymbolicArray(shape, lambda *at: a.at(*(at[order.index(axis)] for axis in range(a.rank))))


@rule("squeeze", "expand_dims", "reshape")
def read_reshape(reader: Reader, equation: Any, a: SymbolicArray, *_: Any) -> SymbolicArray | None:
    """Axes of one entry come and go; an axis is split, or several are merged"""
    shape = equation.outvars[0].aval.shape
    groups = _groups(a.shape, shape)
    if groups is None:
        return None

    def at(*where: Node) -> Node:
        found: list[Node] = []
        for old, new in groups:
            found.extend(
                _split(
                    _merged([where[axis] for axis in new], [shape[axis] for axis in new]),
                    [a.shape[axis] for axis in old],
                )
            )
        return a.at(*found)

    whole = all(
        len([x for x in old if a.shape[x] != 1]) <= 1 or len([x for x in new if shape[x] != 1]) <= 1
        for old, new in groups
    )
    return SymbolicArray(shape, at) if whole else None


def _groups(old: tuple[int, ...], new: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """Axes of both shapes that hold the same entries."""
    if 0 in old or 0 in new:
        return None
    found, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        mine, theirs = ([i], [j]) if i < len(old) and j < len(new) else ([i], []) if i < len(old) else ([], [j])
        i, j = i + len(mine), j + len(theirs)
        while math.prod(old[x] for x in mine) != math.prod(new[x] for x in theirs):
            if math.prod(old[x] for x in mine) < math.prod(new[x] for x in theirs):
                mine, i = [*mine, i], i + 1
            else:
                theirs, j = [*theirs, j], j + 1
        found.append((mine, theirs))
    return found


def _merged(at: list[Node], sizes: list[int]) -> Node:
    """One position from several, the last axis fastest"""
    found = ZERO
    for part, size in zip(at, sizes, strict=True):
        found = plus(scale(float(size), found), part)
    return found


def _split(place: Node, sizes: list[int]) -> list[Node]:
    """Several positions from one"""
    wide = [axis for axis, size in enumerate(sizes) if size != 1]
    if len(wide) <= 1:
        return [place if axis in wide else ZERO for axis in range(len(sizes))]
    found: list[Node] = []
    for size in reversed(sizes):
        quotient = call("quotient", place, const(float(size)))
        found.append(minus(place, scale(float(size), quotient)))
        place = quotient
    return found[::-1]


@rule("slice")
def read_slice(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """start + stride · i"""
    starts = equation.params["start_indices"]
    strides = equation.params["strides"] or (1,) * a.rank
    shape = equation.outvars[0].aval.shape

    def at(*where: Node) -> Node:
        moved = (
            add(((part, float(stride)), (const(start), 1.0)))
            for part, start, stride in zip(where, starts, strides, strict=True)
        )
        return a.at(*moved)

    return SymbolicArray(shape, at)


@rule("rev")
def read_rev(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """n − 1 − i"""
    axes = equation.params["dimensions"]
    sizes = a.shape

    def at(*where: Node) -> Node:
        return a.at(*(minus(const(sizes[k] - 1), part) if k in axes else part for k, part in enumerate(where)))

    return SymbolicArray(a.shape, at)


choose = where


@rule("concatenate")
def read_concatenate(reader: Reader, equation: Any, *parts: SymbolicArray) -> SymbolicArray:
    """The part in whose range the index lies"""
    axis = equation.params["dimension"]
    ends = np.cumsum([part.shape[axis] for part in parts])

    def at(*where: Node) -> Node:
        found = None
        for part, end in reversed(list(zip(parts, ends, strict=True))):
            moved = minus(where[axis], const(float(end - part.shape[axis])))
            mine = part.at(*where[:axis], moved, *where[axis + 1 :])
            found = mine if found is None else choose(less(where[axis], const(float(end))), mine, found)
        assert found is not None
        return found

    return SymbolicArray(equation.outvars[0].aval.shape, at)


@rule("stack")
def read_stack(reader: Reader, equation: Any, *parts: SymbolicArray) -> SymbolicArray:
    """The part that the index along the new axis says"""
    axis = equation.params["axis"]

    def at(*where_: Node) -> Node:
        rest = (*where_[:axis], *where_[axis + 1 :])
        found = parts[-1].at(*rest)
        for place, part in reversed(list(enumerate(parts[:-1]))):
            found = where(equal(where_[axis], const(float(place))), part.at(*rest), found)
        return found

    return SymbolicArray(equation.outvars[0].aval.shape, at)


@rule("unstack")
def read_unstack(reader: Reader, equation: Any, a: SymbolicArray) -> list[SymbolicArray]:
    """One slice for each place along an axis"""
    axis = equation.params["axis"]

    def part(place: int) -> SymbolicArray:
        shape = equation.outvars[place].aval.shape
        return SymbolicArray(shape, lambda *at: a.at(*at[:axis], const(float(place)), *at[axis:]))

    return [part(place) for place in range(len(equation.outvars))]


@rule("split")
def read_split(reader: Reader, equation: Any, a: SymbolicArray) -> list[SymbolicArray]:
    """Stretches along an axis"""
    axis, sizes = equation.params["axis"], equation.params["sizes"]
    starts = np.cumsum([0, *sizes[:-1]])

    def part(place: int) -> SymbolicArray:
        shape, start = equation.outvars[place].aval.shape, const(float(starts[place]))
        return SymbolicArray(shape, lambda *at: a.at(*at[:axis], plus(at[axis], start), *at[axis + 1 :]))

    return [part(place) for place in range(len(sizes))]


@rule("tile")
def read_tile(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """a[i mod n]"""
    reps = equation.params["reps"]

    def at(*where_: Node) -> Node:
        places = []
        for part, size, count in zip(where_, a.shape, reps, strict=True):
            turns = scale(float(size), call("quotient", part, const(float(size))))
            places.append(part if count == 1 else minus(part, turns))
        return a.at(*places)

    return SymbolicArray(equation.outvars[0].aval.shape, at)


@rule("iota")
def read_iota(reader: Reader, equation: Any) -> SymbolicArray:
    """The index itself"""
    axis = equation.params["dimension"]
    return SymbolicArray(equation.params["shape"], lambda *at: at[axis])


# -- indexing -------------------------------------------------------------------------------------------------------


@rule("gather")
def read_gather(reader: Reader, equation: Any, a: SymbolicArray, starts: SymbolicArray) -> SymbolicArray | None:
    """a[start + offset], where the starts are in range"""
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    shape = equation.outvars[0].aval.shape
    offsets = list(numbers.offset_dims)
    removed = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    kept = [axis for axis in range(a.rank) if axis not in removed]
    batch = [axis for axis in range(len(shape)) if axis not in offsets]
    paired = dict(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))

    def at(*where: Node) -> Node:
        places: list[Node] = [ZERO] * a.rank
        for axis, out in zip(kept, offsets, strict=True):
            places[axis] = where[out]
        outer = [where[axis] for axis in batch]
        for operand_axis, start_axis in paired.items():
            places[operand_axis] = outer[start_axis]
        for place, axis in enumerate(numbers.start_index_map):
            places[axis] = plus(places[axis], starts.at(*outer, const(float(place))))
        return a.at(*places)

    fresh = [index(Index(size)) for size in starts.shape[:-1]]
    for place, axis in enumerate(numbers.start_index_map):
        low, high = bounds(starts.at(*fresh, const(float(place))))
        if low < 0 or high > a.shape[axis] - sizes[axis]:
            return None
    return SymbolicArray(shape, at)


@rule("dynamic_slice")
def read_dynamic_slice(reader: Reader, equation: Any, a: SymbolicArray, *starts: SymbolicArray) -> SymbolicArray | None:
    """a[start + i], where the start is in range"""
    sizes = equation.params["slice_sizes"]
    for start, size, whole in zip(starts, sizes, a.shape, strict=True):
        low, high = bounds(start.at())
        if low < 0 or high > whole - size:
            return None
    return SymbolicArray(
        sizes, lambda *at: a.at(*(plus(part, start.at()) for part, start in zip(at, starts, strict=True)))
    )


@rule("scatter", "scatter-add")
def read_scatter(
    reader: Reader, equation: Any, a: SymbolicArray, starts: SymbolicArray, new: SymbolicArray
) -> SymbolicArray | None:
    """Entries, or slices, replaced or added to: where(i = place, new, a)"""
    numbers = equation.params["dimension_numbers"]
    if "CLIP" in str(equation.params["mode"]):
        return None
    if equation.primitive.name == "scatter-add":
        return _added(numbers, a, starts, new)
    if starts.constant is not None and starts.rank == 2:
        return _scattered(reader, numbers, a, starts.constant, new)
    point = starts.rank == 1 and not numbers.operand_batching_dims
    if not point or tuple(sorted(numbers.inserted_window_dims)) != tuple(sorted(numbers.scatter_dims_to_operand_dims)):
        return None
    window = [axis for axis in range(a.rank) if axis not in numbers.inserted_window_dims]
    if [a.shape[axis] for axis in window] != list(new.shape):
        return None

    def at(*where_: Node) -> Node:
        test = times(
            *(
                equal(where_[axis], starts.at(const(float(k))))
                for k, axis in enumerate(numbers.scatter_dims_to_operand_dims)
            )
        )
        return where(test, new.at(*(where_[axis] for axis in window)), a.at(*where_))

    return SymbolicArray(a.shape, at)


def _scattered(
    reader: Reader, numbers: Any, a: SymbolicArray, starts: np.ndarray, new: SymbolicArray
) -> SymbolicArray | None:
    """At known places along one axis, each once"""
    axes = tuple(numbers.scatter_dims_to_operand_dims)
    places = starts[:, 0]
    plain = len(axes) == 1 and tuple(numbers.inserted_window_dims) == axes and not numbers.operand_batching_dims
    axis = axes[0]
    size = a.shape[axis]
    inside = plain and bool(np.all((places >= 0) & (places < size))) and len(set(places.tolist())) == len(places)
    if not inside or tuple(numbers.update_window_dims) != tuple(range(1, new.rank)):
        return None
    hit, which = np.zeros(size, bool), np.zeros(size, int)
    hit[places], which[places] = True, np.arange(len(places))
    touched, source = reader.constant(hit), reader.constant(which)

    def at(*where_: Node) -> Node:
        rest = (*where_[:axis], *where_[axis + 1 :])
        fresh = new.at(source.at(where_[axis]), *rest)
        return where(touched.at(where_[axis]), fresh, a.at(*where_))

    return SymbolicArray(a.shape, at)


def _added(numbers: Any, a: SymbolicArray, starts: SymbolicArray, new: SymbolicArray) -> SymbolicArray | None:
    """a[i] + Σ_j [place[j] = i] new[j], along one axis"""
    axes = tuple(numbers.scatter_dims_to_operand_dims)
    plain = len(axes) == 1 and tuple(numbers.inserted_window_dims) == axes and not numbers.operand_batching_dims
    if not plain or starts.rank != 2 or tuple(numbers.update_window_dims) != tuple(range(1, new.rank)):
        return None
    axis = axes[0]

    def at(*where_: Node) -> Node:
        j = Index(starts.shape[0])
        rest = (*where_[:axis], *where_[axis + 1 :])
        here = equal(starts.at(index(j), ZERO), where_[axis])
        return plus(a.at(*where_), total([j], times(here, new.at(index(j), *rest))))

    return SymbolicArray(a.shape, at)


@rule("pad")
def read_pad(reader: Reader, equation: Any, a: SymbolicArray, value: SymbolicArray) -> SymbolicArray | None:
    """The value outside, a[i − low] inside"""
    spans = equation.params["padding_config"]
    if any(inner != 0 or low < 0 or high < 0 for low, high, inner in spans):
        return None

    def at(*where_: Node) -> Node:
        moved = [minus(part, const(float(low))) for part, (low, _, _) in zip(where_, spans, strict=True)]
        inside = ONE
        for part, size in zip(moved, a.shape, strict=True):
            inside = times(inside, negate(less(part, ZERO)), less(part, const(float(size))))
        return where(inside, a.at(*moved), value.at())

    return SymbolicArray(equation.outvars[0].aval.shape, at)


# -- sums -----------------------------------------------------------------------------------------------------------


@rule("reduce_sum")
def read_sum(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """Σ over some axes"""
    axes = equation.params["axes"]
    shape = equation.outvars[0].aval.shape

    def at(*where_: Node) -> Node:
        fresh = {axis: Index(a.shape[axis]) for axis in axes}
        outer = iter(where_)
        return total(fresh.values(), a.at(*(index(fresh[k]) if k in fresh else next(outer) for k in range(a.rank))))

    return SymbolicArray(shape, at)


@rule("cumsum")
def read_cumsum(reader: Reader, equation: Any, a: SymbolicArray) -> SymbolicArray:
    """Σ_{k ≤ i}"""
    axis, reverse = equation.params["axis"], equation.params["reverse"]

    def at(*where_: Node) -> Node:
        fresh = Index(a.shape[axis])
        place, k = where_[axis], index(fresh)
        inside = negate(less(k, place) if reverse else less(place, k))
        return total([fresh], times(inside, a.at(*where_[:axis], k, *where_[axis + 1 :])))

    return SymbolicArray(a.shape, at)


@rule("dot_general")
def read_dot(reader: Reader, equation: Any, a: SymbolicArray, b: SymbolicArray) -> SymbolicArray:
    """Σ_k a[…, k] b[k, …]"""
    (inner_a, inner_b), (batch_a, batch_b) = equation.params["dimension_numbers"]
    rest_a = [axis for axis in range(a.rank) if axis not in (*inner_a, *batch_a)]
    rest_b = [axis for axis in range(b.rank) if axis not in (*inner_b, *batch_b)]

    def at(*where_: Node) -> Node:
        fresh = [Index(a.shape[axis]) for axis in inner_a]
        outer = list(where_)
        batch, left = outer[: len(batch_a)], outer[len(batch_a) :]
        of_a: dict[int, Node] = {**dict(zip(batch_a, batch, strict=True)), **dict(zip(rest_a, left, strict=False))}
        of_b: dict[int, Node] = {
            **dict(zip(batch_b, batch, strict=True)),
            **dict(zip(rest_b, left[len(rest_a) :], strict=True)),
        }
        for i, axis_a, axis_b in zip(fresh, inner_a, inner_b, strict=True):
            of_a[axis_a] = of_b[axis_b] = index(i)
        entries = a.at(*(of_a[k] for k in range(a.rank))), b.at(*(of_b[k] for k in range(b.rank)))
        return total(fresh, times(*entries))

    return SymbolicArray(equation.outvars[0].aval.shape, at)
