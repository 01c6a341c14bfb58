"""Sums over rows that lie on a mesh and that data alone decide: computed where the rows are, and few numbers then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fubini.algebra.binding import inside, opened_once
from fubini.algebra.build import factors_in
from fubini.algebra.node import Leaf, Node, node
from fubini.algebra.placement import Placed, spread_indices
from fubini.algebra.rows import front_of
from fubini.algebra.walk import walk

OVER_ROWS = ("sum", "greatest", "lse")


def mesh_sums(roots: Iterable[Node], placed: Placed, is_unknown: Callable[[Leaf], bool]) -> list[Node]:
    """The sums and triangles in nodes that go over rows on a mesh, without others in them."""
    sums: dict[Node, None] = {}
    if not placed:
        return []

    def keep(this: Node) -> bool:
        """Look no further where nothing lies on a mesh, or where a sum is kept."""
        if not reads_rows(this.leaves, placed):
            return False
        if this.kind in OVER_ROWS and not any(map(is_unknown, this.leaves)):
            over, body = opened_once(this)
            spread = spread_indices([body], placed)
            if set(over) & set(spread) and not this.free & set(spread):
                sums.setdefault(this)
                return False
        if this.kind in ("logdet", "rss"):
            sums.update((triangle, None) for triangle in _triangles(this, placed, is_unknown))
        return True

    for _ in walk(*roots, descend=keep, parts=inside):
        pass
    return list(sums)


def reads_rows(leaves: Iterable[Leaf], placed: Placed) -> bool:
    """Whether any of these arrays lies on a mesh, or is computed from one that does."""
    return any(leaf in placed or any(behind in placed for behind in leaf.of) for leaf in leaves)


def _triangles(problem: Node, placed: Placed, is_unknown: Callable[[Leaf], bool]) -> Iterator[Node]:
    """Of the rows of one least-squares problem that data alone decide, up to a weight in front of them."""
    frame, *rows = problem.args
    if frame.length is not None or not frame.is_dense or frame.is_whitened:
        return
    for part in rows:
        if part.free or not reads_rows(part.leaves, placed):
            continue
        front, body = front_of(part)
        inner = [base for base, exponent in factors_in(body.args[1]) if (base, exponent) not in front]
        leaves = frozenset[Leaf]().union(*(each.leaves for each in (*inner, *body.args[2:])))
        if spread_indices([body], placed) and not any(map(is_unknown, leaves)):
            yield node("triangle", frame, part)


def without_rows(roots: Iterable[Node], sums: Iterable[Node], placed: Placed) -> bool:
    """Whether these nodes read nothing on a mesh but by these sums."""
    return not rows_beside(roots, sums, placed)


def rows_beside(roots: Iterable[Node], sums: Iterable[Node], placed: Placed) -> set[Leaf]:
    """The arrays on a mesh that nodes read beside these sums."""
    known, read = set(sums), set[Leaf]()

    def descend(this: Node) -> bool:
        return this not in known and reads_rows(this.leaves, placed)

    def parts(this: Node) -> tuple[Node, ...]:
        if this.kind not in ("logdet", "rss"):
            return tuple(inside(this))
        frame, *rows = this.args
        return tuple(
            part
            for row in rows
            for part in ([f for f, _ in front_of(row)[0]] if node("triangle", frame, row) in known else (row,))
        )

    for this in walk(*roots, descend=descend, parts=parts):
        if this.kind == "get" and reads_rows((this.args[0],), placed):
            read.update(leaf for leaf in (this.args[0], *this.args[0].of) if leaf in placed)
    return read
