"""Normal latents that are coupled in squares, together: a least-squares problem over all of their entries.

∫ exp(−½ |A x − b|²) dx  =  (2π)^(d/2) · |AᵀA|^(−1/2) · exp(−½ min |A x − b|²)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.algebra.binding import closed
from fubini.algebra.build import ONE, ZERO, add, factors_in, index, multiply, plus, scale, times
from fubini.algebra.features import Divergent, NoClosedForm, Slope, Square, linear, squares
from fubini.algebra.node import Leaf, Node, node
from fubini.algebra.sums import total
from fubini.families.functions import is_never_positive, log_rate
from fubini.integrate.coupling import CoupledSquare, LatentLayout, layout_of
from fubini.integrate.kronecker_layout import KroneckerBlock, kronecker_block
from fubini.integrate.recursion_layout import recursion_block
from fubini.integrate.shared_root import shared_root
from fubini.integrate.sparse_layout import sparse_layout
from fubini.integrate.whitened_layout import WhitenedBlock, whitened_block


class Block(NamedTuple):
    """The remaining terms, and the problem whose solution and precision are those of the latents together."""

    terms: tuple[Node, ...]
    latents: tuple[Leaf, ...]
    layout: LatentLayout
    scale: Node
    rows: tuple[Node, ...]
    log_determinant: Node  # of the precision
    is_of_shared_root: bool = False  # the covariance is a matrix times a number, and the solution does not depend on it


def eliminated_together(terms: Sequence[Node], latents: Sequence[Leaf]) -> Block:
    """log ∫ exp(Σ terms) over all entries of these latents."""
    rest = [term for term in terms if not term.leaves & set(latents)]
    squared, outside = _problem(add((t, 1.0) for t in terms if t.leaves & set(latents)), tuple(latents))
    for latent in latents:
        if not any(latent is one for square in squared for one, _ in square.slopes):
            raise NoClosedForm(latent, outside, "a quadratic term: its integral is infinite")
    if all(is_never_positive(square.weight) for square in squared):
        raise Divergent(latents[0], add((t, 1.0) for t in terms if t.leaves & set(latents)))
    for square in squared:
        if is_never_positive(square.weight):
            raise NoClosedForm(square.slopes[0][0], square.weight, "squares with positive weights")
    common = _common([square.weight for square in squared])
    if (kronecker := kronecker_block(squared, latents, common)) is not None:
        return _of_kronecker(kronecker, common, (*rest, *([outside] if outside is not ZERO else [])), tuple(latents))
    if (whitened := whitened_block(squared, latents, common)) is not None:
        return _of_whitened(whitened, common, rest, outside, tuple(latents))
    recursive = recursion_block(squared, tuple(latents), common)
    if recursive is not None:
        layout, rows = recursive
    else:
        layout = layout_of(squared, tuple(latents))
        layout = sparse_layout(layout, squared, latents) or layout
        rows = tuple(row(square, common, layout) for square in squared)
    front, size = multiply(common.items()), float(layout.size)
    shared = shared_root(squared, latents)
    if shared is not None:
        logdet, rss = shared
    else:
        logdet = plus(scale(size, log_rate(front)), total(layout.independent, node("logdet", layout.frame, *rows)))
        rss = times(front, total(layout.independent, node("rss", layout.frame, *rows)))
    value = add(((ONE, 0.5 * size * math.log(2 * math.pi)), (logdet, -0.5), (rss, -0.5)))
    remaining = (*rest, *([outside] if outside is not ZERO else []), value)
    return Block(remaining, tuple(latents), layout, front, rows, logdet, shared is not None)


def _of_kronecker(
    problem: KroneckerBlock, common: Mapping[Node, float], rest: tuple[Node, ...], latents: tuple[Leaf, ...]
) -> Block:
    """The integral over an array whose precision is a Kronecker product and a multiple of the identity."""
    layout, rows, scatter = problem
    front, size = multiply(common.items()), float(layout.size)
    logdet = plus(scale(size, log_rate(front)), node("logdet", layout.frame, *rows))
    rss = plus(times(front, node("rss", layout.frame, *rows)), scatter)
    value = add(((ONE, 0.5 * size * math.log(2 * math.pi)), (logdet, -0.5), (rss, -0.5)))
    return Block((*rest, value), latents, layout, front, rows, logdet)


def _of_whitened(
    problem: WhitenedBlock,
    common: Mapping[Node, float],
    rest: Sequence[Node],
    outside: Node,
    latents: tuple[Leaf, ...],
) -> Block:
    """The integral over a vector by the covariance of its data: |P|  =  |w AᵀA| |C|; log |A| is outside too."""
    layout, prior, data, log_prior = problem
    rows = (*prior, *(row(square, common, layout) for square in data))
    front, size = multiply(common.items()), float(layout.size)
    logdet = plus(log_prior, node("logdet", layout.frame, *rows))
    rss = times(front, node("rss", layout.frame, *rows))
    value = add(((outside, 1.0), (ONE, 0.5 * size * math.log(2 * math.pi)), (logdet, -0.5), (rss, -0.5)))
    return Block((*rest, value), latents, layout, front, rows, logdet)


def _problem(with_latents: Node, latents: tuple[Leaf, ...]) -> tuple[list[CoupledSquare], Node]:
    """All squares, and what has none of the latents."""
    squared: list[CoupledSquare] = []
    outside: list[tuple[Node, float]] = []
    for part in _parts(with_latents, latents):
        if isinstance(part, CoupledSquare):
            squared.append(part)
        else:
            outside.append((part, 1.0))
    return squared, add(outside)


def _parts(with_latents: Node, latents: tuple[Leaf, ...]) -> list[CoupledSquare | Node]:
    """Squares of forms that are linear in all latents; of each square the offset is looked into again."""
    parts: list[CoupledSquare | Node] = []
    head = next((latent for latent in latents if latent in with_latents.leaves), None)
    if head is None:
        return [with_latents]
    for part in squares(with_latents, head):
        if any(i.size == 0 for i in part.over):
            continue  # a sum of nothing
        if not isinstance(part, Square):
            if part.features:
                raise NoClosedForm(
                    head, with_latents, "squares alone: a term of degree one has no room in a least-squares problem"
                )
            parts.extend(_parts(total(part.over, part.coefficient), latents))
            continue
        if part.weight.leaves & set(latents):
            raise NoClosedForm(head, part.weight, "a weight without the latents of the block")
        slopes = [(head, slope) for slope in part.slopes]
        offset = part.offset
        for latent in latents:
            if latent is head or latent not in offset.leaves:
                continue
            more, negative = linear(offset, latent)
            slopes.extend((latent, slope._replace(coefficient=scale(-1.0, slope.coefficient))) for slope in more)
            offset = negative
        if any(slope.coefficient.leaves & set(latents) for _, slope in slopes):
            raise NoClosedForm(head, offset, "a form that is linear in the latents of the block together")
        parts.append(CoupledSquare(part.over, part.weight, tuple(slopes), offset))
    return parts


def _common(weights: Sequence[Node]) -> Mapping[Node, float]:
    """Powers that all weights have: the precision of regression with unknown noise is one number times known ones."""
    shared: dict[Node, float] | None = None
    for weight in weights:
        base = dict(weight.args) if weight.kind == "mul" else dict(_scaled(weight))
        powers = {part: exponent for part, exponent in base.items() if not part.free}
        shared = powers if shared is None else {p: e for p, e in shared.items() if powers.get(p) == e}
    return shared or {}


def _scaled(weight: Node) -> tuple[tuple[Node, float], ...]:
    if weight.kind == "add" and len(weight.args) == 1:
        part = weight.args[0][0]
        return factors_in(part)
    return ((weight, 1.0),)


def row(square: CoupledSquare, common: Mapping[Node, float], layout: LatentLayout) -> Node:
    """One block of rows, closed over its indices, those of the frame first."""
    placed = layout.placed(square)
    weight = multiply([(placed.weight, 1.0), *((base, -exponent) for base, exponent in common.items())])
    slopes = [
        _slope(latent, slope, lag, layout) for (latent, slope), lag in zip(placed.slopes, placed.lags, strict=True)
    ]
    frame = [index(i) for i in placed.frame]
    return closed("rows", placed.over, node("call", "row", *frame, weight, placed.offset, *slopes))


def _slope(latent: Leaf, slope: Slope, lag: int, layout: LatentLayout) -> Node:
    entry = node("call", "slope", layout.column(latent, slope.place, lag), slope.coefficient)
    return closed("slopes", slope.over, entry)
