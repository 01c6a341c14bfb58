"""Sums over rows that are read chunk by chunk, as few numbers: a density that needs no rows.

  Σ_j w_j f(θ)                =  f(θ) Σ_j w_j
  Σ_j w_j f(x_j, θ[g_j])      =  Σ_c Σ_j [g_j = c] w_j f(x_j, θ[c])
  Σ_j w_j (Σ_k a_jk s_k(θ))²  =  n (Σ_k m_k s_k(θ))² + Σ_r (Σ_k R_rk s_k(θ))²

with n, m and R of `fubini.numerics.row_statistics`, for latents θ and known rows w, g, x, a. Sums that need other ones
wait for these: there are as many passes over the rows as they nest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fubini.algebra.binding import closed, inside, opened, opened_once, remade, replaced
from fubini.algebra.build import ONE, add, equal, factors_in, index, multiply, negate, plus, power, scale, times
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds, is_whole
from fubini.algebra.row_chunks import RowSum, SquareSum, Total
from fubini.algebra.row_passes import read_sums
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite, walk
from fubini.base.stream import Stream

MOST_COLUMNS = 2_000  # of rows whose squares are summed
MOST_NUMBERS = 5_000_000  # of one sum over rows, for all of its groups

Constant = Callable[[np.ndarray], Callable[..., Node]]  # the entry of an array of known numbers, at indices


class NeedsRows(Exception):
    """A sum over rows that depends on latents in a way that no few numbers say."""

    def __init__(self, node: Node, why: str) -> None:
        self.node, self.why = node, why


@dataclass(frozen=True)
class Passes:
    """How rows were read: passes over how many of them, and the numbers that were kept."""

    rows: tuple[int, ...]  # of each pass
    numbers: int

    @property
    def counts(self) -> dict[int, int]:
        """How many passes there were over so many rows."""
        return {rows: self.rows.count(rows) for rows in self.rows}


def sum_rows(
    terms: Mapping[str, Node], known: Mapping[Leaf, Any], constant: Constant, in_part: bool = False
) -> tuple[dict[str, Node], Passes, dict[str, NeedsRows]]:
    """The terms with their sums over rows as numbers, how the rows were read, and the terms that need all rows.

    Where some term needs all rows, none are read any more, unless what can be summed of it is asked for.
    """
    streams = {leaf: data for leaf, data in known.items() if isinstance(data, Stream)}
    new, passes, numbers = dict(terms), list[int](), 0
    while True:
        reduction = Reduction(streams, known)
        planned = {name: reduction.rewritten(term) for name, term in new.items() if term.leaves & set(streams)}
        if not reduction.sums or (reduction.blocked and not in_part):
            why = {name: reduction.why(term) for name, term in new.items() if term.leaves & set(streams)}
            errors = {name: error for name, error in why.items() if error is not None}
            return new, Passes(tuple(passes), numbers), errors
        values, lengths = read_sums(reduction.sums, streams, known)
        passes += lengths
        numbers += sum(value.size for each in values.values() for value in each)
        entries = {leaf: constant(value) for one in values for leaf, value in zip(one.leaves, values[one], strict=True)}
        for name, term in planned.items():
            new[name] = _with_numbers(term, entries)


def _with_numbers(of: Node, entries: Mapping[Leaf, Callable[..., Node]]) -> Node:
    """With numbers in place of the leaves that stood for them."""

    def change(this: Node, visit: Callable[[Node], Node]) -> Node:
        if not this.leaves & set(entries):
            return this
        if this.kind == "get" and this.args[0] in entries:
            return entries[this.args[0]](*map(visit, this.args[1:]))
        if this.kind == "sum":
            over, body = opened_once(this)
            return total(over, visit(body))
        return remade(this, visit)

    return rewrite(of, change)


# -- from terms to sums ----------------------------------------------------------------------------------------------


class Reduction:
    """Terms in which leaves stand for the sums over rows that can be read now; `sums` are these."""

    def __init__(self, streams: Mapping[Leaf, Stream], known: Mapping[Leaf, Any]) -> None:
        self.streams, self.known = streams, known
        self.sums: list[RowSum] = []
        self.waiting: set[Leaf] = set()  # stand for these sums
        self.blocked: list[NeedsRows] = []

    def is_data(self, of: Node) -> bool:
        """Known numbers alone decide it."""
        return all(map(self._is_known, of.leaves))

    def _is_known(self, leaf: Leaf) -> bool:
        return isinstance(self.known.get(leaf), np.ndarray | Stream)

    def rows_of(self, over: Sequence[Index], body: Node) -> list[Index]:
        """The indices among these that go over the rows of a stream."""
        rows = {
            this.args[1].args[0]
            for this in walk(body, parts=inside)
            if this.kind == "get" and this.args[0] in self.streams and this.args[1].kind == "index"
        }
        return [i for i in over if i in rows]

    def rewritten(self, of: Node) -> Node:
        """With leaves for the sums over rows that need no others."""

        def change(this: Node, visit: Callable[[Node], Node]) -> Node:
            if not this.leaves & set(self.streams):
                return this
            if this.kind == "sum":
                over, body = opened_once(this)
                if rows := self.rows_of(over, body):
                    inner = visit(body)
                    if inner.leaves & self.waiting:  # for these
                        return closed("sum", over, inner)
                    return self._sum(this, over, body, rows)
            return remade(this, visit)

        return rewrite(of, change)

    def _sum(self, this: Node, over: tuple[Index, ...], body: Node, rows: list[Index]) -> Node:
        sums = list(self.sums)
        try:
            if len(rows) > 1:
                raise NeedsRows(this, "it goes over pairs of rows")
            self._require_in_order(rows[0], body)
            return self.sum_over(rows[0], tuple(i for i in over if i is not rows[0]), body)
        except NeedsRows as error:
            self.sums = sums
            far = [leaf.shape for leaf in body.leaves if leaf in self.known and not self._is_known(leaf)]
            if far:
                why = (
                    f"an array of shape {far[0]} is no stream, and its numbers are not here: it is traced, or on a mesh"
                )
                error = NeedsRows(error.node, why)
            self.blocked.append(error)
            return this

    def _require_in_order(self, row: Index, body: Node) -> None:
        """Raise unless each row of streams is read by itself."""
        for this in walk(body, parts=inside):
            if this.kind == "get" and this.args[0] in self.streams:
                if this.args[1] is not index(row):
                    raise NeedsRows(body, "it reads other rows beside each one")
                if self.streams[this.args[0]].rows != row.size:
                    raise NeedsRows(body, "it reads a part of the rows")

    def _add(self, one: RowSum) -> None:
        self.sums.append(one)
        self.waiting.update(one.leaves)

    def why(self, of: Node) -> NeedsRows | None:
        """Why a term needs all rows; None where it does not."""
        self.blocked.clear()
        left = self.rewritten(of)
        if self.blocked:
            return self.blocked[0]
        return NeedsRows(of, "it reads rows outside of a sum over them") if left is of else None

    def sum_over(self, row: Index, over: tuple[Index, ...], body: Node) -> Node:
        """Σ_j Σ_over body"""
        if body.kind == "add":
            return add((self.sum_over(row, over, part), c) for part, c in body.args)
        if row not in body.free:
            return times(total(over, body), total([row], ONE))
        labels = self._labels(row, body)
        body = replaced(body, {entry: index(i) for i, entry in labels.items()})
        if body.kind == "add":
            factors: list[tuple[Node, float]] = [(body, 1.0)]
        else:
            factors = list(factors_in(body))
        data = [(base, e) for base, e in factors if self.is_data(base)]
        mixed = [(base, e) for base, e in factors if row in base.free and not self.is_data(base)]
        front = [(base, e) for base, e in factors if row not in base.free and not self.is_data(base)]
        if any(e != int(e) or e < 0 for _, e in mixed):
            raise NeedsRows(body, "a power of it depends on latents in each row")
        if not mixed:
            return self._total(row, over, labels, multiply(data), multiply(front))
        order = sum(e for _, e in mixed)
        if order == 2 and bounds(multiply(data))[0] >= 0:
            bases = [base for base, e in mixed for _ in range(int(e))]
            return self._squares(row, over, labels, multiply(data), multiply(front), bases)
        (base, e), *others = mixed
        tests = [(equal(entry, index(i)), 1.0) for i, entry in labels.items()]
        rest = multiply([*data, *front, *others, (base, e - 1), *tests])
        return self._distributed(row, (*over, *labels), base, rest)

    def _distributed(self, row: Index, over: tuple[Index, ...], base: Node, rest: Node) -> Node:
        """Σ_j Σ_over base · rest, for each term of the base"""
        match base.kind:
            case "add":
                return add((self.sum_over(row, over, times(part, rest)), c) for part, c in base.args)
            case "sum":
                inner, body = opened(base)
                return self.sum_over(row, (*over, *inner), times(body, rest))
            case "where" if self.is_data(base.args[0]):
                test, first, second = base.args
                cases = (times(test, first, rest), times(negate(test), second, rest))
                return plus(*(self.sum_over(row, over, case) for case in cases))
            case "mul":
                return self.sum_over(row, over, times(base, rest))
            case _:
                raise NeedsRows(base, "it depends on latents in each row")

    def _labels(self, row: Index, body: Node) -> dict[Index, Node]:
        """Known whole numbers of rows by which entries of latents are taken, each as an index over these entries."""
        labels: dict[Node, Index] = {}
        for this in walk(body, parts=inside):
            if this.kind != "get" or self._is_known(this.args[0]):
                continue
            for place, size in zip(this.args[1:], this.args[0].shape, strict=True):
                if place.kind == "index" or row not in place.free or not self.is_data(place) or not is_whole(place):
                    continue
                low, high = bounds(place)
                if low < 0 or high > size - 1:
                    raise NeedsRows(place, f"it is beyond the {size} entries of {this.args[0]}")
                if place not in labels or labels[place].size > size:
                    labels[place] = Index(size, "c")
        return {i: place for place, i in labels.items()}

    # -- totals

    def _total(
        self, row: Index, over: tuple[Index, ...], labels: Mapping[Index, Node], data: Node, front: Node
    ) -> Node:
        body = times(data, *(equal(entry, index(i)) for i, entry in labels.items()))
        outside = body.free - {row, *over}
        kept = _in_order(outside | (front.free & body.free & set(over)))
        self._require_room(body, kept)
        inner = tuple(i for i in over if i in body.free and i not in kept)
        unused = tuple(i for i in over if i not in body.free)
        sums = Total(row, inner, body, kept)
        self._add(sums)
        spread = tuple(i for i in (*kept, *unused) if i in over or i in labels)
        return total(spread, times(front, sums.entry))

    def _require_room(self, of: Node, kept: Sequence[Index], more: int = 1) -> None:
        if math.prod(i.size for i in kept) * more > MOST_NUMBERS:
            raise NeedsRows(of, f"its sums for all groups are more than {MOST_NUMBERS:,} numbers")

    # -- squares

    def _squares(
        self,
        row: Index,
        over: tuple[Index, ...],
        labels: Mapping[Index, Node],
        weight: Node,
        front: Node,
        bases: Sequence[Node],
    ) -> Node:
        """Σ_j w_j (Σ_k a_jk s_k)(Σ_k b_jk t_k)"""
        labels, weight = _labels_of_tests(row, labels, weight)
        axes = _in_order((weight.free - {row}) | set(labels))
        first = _joined(row, self._products(row, bases[0]))
        sides = [first, first if bases[1] is bases[0] else _joined(row, self._products(row, bases[1]))]
        read = dict.fromkeys(product.data for side in sides for product in side)
        columns = {data: _in_order(data.free - {row, *axes}) for data in read if data is not ONE}
        squares = SquareSum(row, columns, weight, axes, labels, is_centred=ONE in read)
        if squares.width > MOST_COLUMNS:
            raise NeedsRows(bases[0], f"its rows have more than {MOST_COLUMNS:,} columns")
        self._require_room(bases[0], axes, (squares.width + 1) ** 2)
        self._add(squares)
        outer = (*over, *(i for i in labels if i not in over))
        terms: list[Node] = []
        if squares.is_centred:
            means = [_sum_of((p, squares.mean_at(p.data)) for p in side) for side in sides]
            terms.append(total(outer, times(front, squares.count, *means)))
        if columns:
            r = Index(squares.width, "r")
            roots = [
                _sum_of((p, squares.root_at(index(r), p.data)) for p in side if p.data in columns) for side in sides
            ]
            terms.append(total((*outer, r), times(front, *roots)))
        return plus(*terms)

    def _products(self, row: Index, of: Node) -> list[Product]:
        """An affine expression as known numbers of rows, each times what does not depend on the row."""
        if row not in of.free:
            return [Product(ONE, of)]
        if self.is_data(of):
            return [Product(of, ONE)]
        match of.kind:
            case "add":
                return [product.scaled(k) for part, k in of.args for product in self._products(row, part)]
            case "sum":
                over, body = opened(of)
                return [product._replace(over=(*over, *product.over)) for product in self._products(row, body)]
            case "where" if self.is_data(of.args[0]):
                test, first, second = of.args
                return [*self._products(row, times(test, first)), *self._products(row, times(negate(test), second))]
            case "mul":
                products = [Product(ONE, ONE)]
                for base, exponent in of.args:
                    products = [a.times(b) for a in products for b in self._power(row, base, exponent)]
                return products
            case _:
                raise NeedsRows(of, "it depends on latents in each row")

    def _power(self, row: Index, base: Node, exponent: float) -> list[Product]:
        """base^exponent"""
        if row not in base.free or self.is_data(base):
            return self._products(row, power(base, exponent))
        if exponent != int(exponent) or exponent < 0:
            raise NeedsRows(base, "a power of it depends on latents in each row")
        products = [Product(ONE, ONE)]
        for _ in range(int(exponent)):
            products = [a.times(b) for a in products for b in self._products(row, base)]
        return products


class Product(NamedTuple):
    """Known numbers of each row, times what does not depend on the row, summed over indices."""

    data: Node
    site: Node
    over: tuple[Index, ...] = ()

    def scaled(self, by: float) -> Product:
        """A number times it; of known numbers alone, these."""
        if self.site is ONE and self.data is not ONE:
            return self._replace(data=scale(by, self.data))
        return self._replace(site=scale(by, self.site))

    def times(self, other: Product) -> Product:
        """The product of two."""
        data, site = times(self.data, other.data), times(self.site, other.site)
        return Product(data, site, (*self.over, *other.over))


def _sum_of(products: Iterable[tuple[Product, Node]]) -> Node:
    """Σ of products with numbers in place of what is known of rows."""
    return plus(*(total(product.over, times(numbers, product.site)) for product, numbers in products))


def _joined(row: Index, products: Sequence[Product]) -> list[Product]:
    """Products with equal rows together, and all that no latent multiplies as one."""
    is_plain = [product.site is ONE and not product.over and row in product.data.free for product in products]
    known = plus(*(product.data for product, plain in zip(products, is_plain, strict=True) if plain))
    others = [product for product, plain in zip(products, is_plain, strict=True) if not plain]
    sites: dict[tuple[Node, tuple[Index, ...]], list[Node]] = {}
    for product in ([Product(known, ONE)] if any(is_plain) else []) + others:
        changes = row in product.data.free
        key = (product.data if changes else ONE, product.over)
        sites.setdefault(key, []).append(product.site if changes else times(product.data, product.site))
    return [Product(data, plus(*each), over) for (data, over), each in sites.items()]


def _in_order(indices: Iterable[Index]) -> tuple[Index, ...]:
    return tuple(sorted(indices, key=lambda i: i.serial))


def _labels_of_tests(row: Index, labels: Mapping[Index, Node], weight: Node) -> tuple[dict[Index, Node], Node]:
    """The tests [e_j = c] among the factors of a weight, for known labels e_j, as labels of c; and others."""
    found, others = dict(labels), list[tuple[Node, float]]()
    for base, exponent in factors_in(weight):
        for one, entry in (base.args, base.args[::-1]) if base.kind == "eq" else ():
            if one.kind == "index" and one.args[0] is not row and one.args[0] not in found and row in entry.free:
                found[one.args[0]] = entry
                break
        else:
            others.append((base, exponent))
    return found, multiply(others)
