"""The arrays that generated loops read and write: a name and a layout for each, and the numbers of data."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy

from fubini.algebra.binding import replaced
from fubini.algebra.build import get, index
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.compile.derive import Label
from fubini.compile.emit import HELPERS, LOOPS, ArrayAccess, Sparse
from fubini.compile.fibre import grouped
from fubini.compile.hoist import HoistedArray, Store
from fubini.compile.specialise import Sizes
from fubini.errors import NoRule, listed

Evaluate = Callable[[Node, Sequence[Index]], np.ndarray]
Recipe = Callable[[Evaluate], dict[str, np.ndarray]]  # arrays by name, from data

VARIABLES = (
    "k",
    "u",
    "t",
    "w",
    "e",
    "p",
    "j",
    "c",
    "a",
    "sum",
    "total",
    "level",
    "top",
    "uniforms",
    "items",
    "sizes",
    "old",
    "new",
    "bias",
    "score",
    "propose",
)
BUILT_IN = ("math", "np", "njit", "range", "int", "min", "max")
RESERVED = frozenset((*VARIABLES, *LOOPS.values(), *HELPERS, *BUILT_IN))  # what the text of loops has names for
NUMBERED = re.compile(r"(a|c|i|j|p|sum|u)\d+")  # and what it makes up


class SparseRows(NamedTuple):
    """A data-only sum F(u, l) by rows: first[u] … first[u + 1] are the p with F(u, place[p]) = value[p]."""

    first: np.ndarray
    place: np.ndarray
    value: np.ndarray


class Members(NamedTuple):
    """The entries of a label by rows: first[r] … first[r + 1] are the p with item[p] the number of one in row r."""

    first: str
    item: str


class Names(dict):
    """Names by leaf; data are named, and evaluated, when they are first read."""

    def __init__(self, evaluate: Evaluate, specialised: bool = True, hoists: bool = True) -> None:
        super().__init__()
        self.evaluate, self.sizes, self.hoists = evaluate, Sizes(specialised), hoists
        self.numbers: dict[str, np.ndarray] = {}  # of data
        self.recipes: list[Recipe] = []
        self.latents: dict[str, Leaf] = {}  # whose numbers are given with each sweep
        self.stores: dict[Leaf, Store] = {}
        self._rows: dict[Node, Sparse] = {}
        self._members: dict[tuple, Members] = {}
        self._taken: set[str] = set(RESERVED)

    def __missing__(self, leaf: Leaf) -> ArrayAccess:
        order = tuple(range(len(leaf.shape)))
        if leaf.role == "site":
            self[leaf] = ArrayAccess(self.name(leaf.name), order)
            self.latents[self[leaf].name] = leaf
            return self[leaf]
        if any(of.role == "site" for of in leaf.of):
            raise NoRule(
                f"a compiled sampler of {listed(sorted(of.name for of in leaf.of if of.role == 'site'))}",
                expected="functions of the labels that can be read",
                nearest=f"{leaf.name!r} is one that cannot",
                advice="write it with sums, products, tests and entries of arrays, or give infer(key) the model",
            )
        axes = tuple(Index(size) for size in leaf.shape)
        return self.data(leaf, get(leaf, *map(index, axes)), axes)

    def data(self, leaf: Leaf, value: Node, axes: tuple[Index, ...]) -> ArrayAccess:
        """An array that the data decide: the numbers of a node over these axes."""
        name, kind = self.name(leaf.name), np.int64 if leaf.is_integer else float
        self[leaf] = ArrayAccess(name, tuple(range(len(axes))))

        def recipe(evaluate: Evaluate) -> dict[str, np.ndarray]:
            return {name: np.array(np.broadcast_to(evaluate(value, axes), leaf.shape), kind, order="C")}

        self._made(recipe)
        return self[leaf]

    def _made(self, recipe: Recipe) -> None:
        self.recipes.append(recipe)
        self.numbers.update(recipe(self.evaluate))

    def name(self, wanted: str) -> str:
        """A name like the one that is wanted, and not in use."""
        name = re.sub(r"\W", "_", wanted, flags=re.ASCII)
        if not name or name[0].isdigit() or keyword.iskeyword(name):
            name = f"x_{name}"
        while name in self._taken or NUMBERED.fullmatch(name):
            name += "_"
        self._taken.add(name)
        return name

    def state(self, leaf: Leaf, last: int | None) -> ArrayAccess:
        """An array of statistics, the axis of candidates last."""
        order = [axis for axis in range(len(leaf.shape)) if axis != last]
        self[leaf] = ArrayAccess(self.name(leaf.name), (*order, *(() if last is None else (last,))))
        return self[leaf]

    def env(self, at: tuple[Index, ...]) -> dict[Index, str]:
        """Names of the place of a label."""
        return {i: "u" if len(at) == 1 else f"u{axis}" for axis, i in enumerate(at)}

    def kept(self, label: Label) -> list[HoistedArray]:
        """What is kept by class for a label."""
        return list(self.stores[label.leaf].kept.values()) if label.leaf in self.stores else []

    def sparse(self, rows: Node, u: Index) -> Sparse:
        """The names of a data-only sum by rows."""
        (l,) = rows.free - {u}  # noqa: E741
        key = _key(rows, u, l)
        if key not in self._rows:
            names = Sparse(*(self.name(f"F{len(self._rows)}_{part}") for part in SparseRows._fields))
            self._made(lambda evaluate: dict(zip(names, by_rows(rows, u, evaluate), strict=True)))
            self._rows[key] = names
        return self._rows[key]

    def members(self, rows: tuple[tuple[Node, int], ...], at: tuple[Index, ...]) -> Members:
        """The names of the entries of a label by rows, each row with how many there are along an axis."""
        key = (rows, at)
        if key not in self._members:
            names = Members(*(self.name(f"M{len(self._members)}_{part}") for part in Members._fields))
            self._made(lambda evaluate: dict(zip(names, by_members(rows, at, evaluate), strict=True)))
            self._members[key] = names
        return self._members[key]


def _key(rows: Node, u: Index, l: Index) -> Node:  # noqa: E741
    """The same for sums that differ in the names of the indices alone."""
    return replaced(rows, {index(u): node("index", "row", 0, u.size), index(l): node("index", "place", 0, l.size)})


def by_rows(of: Node, u: Index, evaluate: Evaluate) -> SparseRows:
    """A data-only sum F(u, l), without the entries that are 0."""
    group = grouped(of, u)
    assert group is not None
    (l,) = of.free - {u}  # noqa: E741
    shape = tuple(i.size for i in group.over)
    row, place, weight = (
        np.broadcast_to(evaluate(part, group.over), shape).ravel() for part in (group.row, group.place, group.weight)
    )
    if not (_is_within(row, u.size) and _is_within(place, l.size)):
        inside = (row >= 0) & (row < u.size) & (place >= 0) & (place < l.size)
        row, place, weight = row[inside], place[inside], weight[inside]
    kind = np.int32 if max(u.size, l.size) < 2**31 else np.int64  # short ones are sorted faster
    at = (row.astype(kind), place.astype(kind))
    matrix = scipy.sparse.coo_array((weight.astype(float), at), (u.size, l.size)).tocsr()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return SparseRows(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)


def by_members(
    rows: tuple[tuple[Node, int], ...], at: tuple[Index, ...], evaluate: Evaluate
) -> tuple[np.ndarray, np.ndarray]:
    """Where each row begins, and the numbers of the entries of a label, row by row."""
    shape = tuple(i.size for i in at)
    number, count = np.zeros(shape, np.int64), math.prod(size for _, size in rows)
    for row, size in rows:
        entry = np.broadcast_to(evaluate(row, at), shape).astype(np.int64)
        number = np.where((entry >= 0) & (entry < size) & (number < count), number * size + entry, count)
    first = np.concatenate([[0], np.cumsum(np.bincount(number.ravel(), minlength=count)[:count])])
    kind = np.int32 if number.size < 2**31 else np.int64  # half of what is read at random
    return first, np.argsort(number, axis=None, kind="stable").astype(kind)


def _is_within(entries: np.ndarray, size: int) -> bool:
    return not entries.size or bool(entries.min() >= 0 and entries.max() < size)
