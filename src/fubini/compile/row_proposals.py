"""Labels proposed from those of other items, where many classes make it slow to weigh them all.

Weights that are products of counts, w(k) = Π_f (a_f + S_f[r_f, k]) · g(k), need no table to draw from one factor: the
labels of the other items in row r are S[r, ·] draws, and one of them, or any class, with odds of n : K a, is a draw
k' from q(k) = a + S[r, k]. It is accepted with probability min(1, w(k') q(k) / w(k) q(k')) (Hastings 1970), in which
the factor itself cancels. Factors take turns (Yuan et al. 2015, "LightLDA", with stale tables in place of labels).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fubini.algebra.build import ZERO, index, minus, plus, scale
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import exceeds_zero
from fubini.algebra.sums import total
from fubini.compile.derive import Label
from fubini.compile.emit import Env, bare
from fubini.compile.fibre import is_data
from fubini.compile.hoist import Store
from fubini.compile.loop import LabelLoop, Weights, solved, weights_of

LEAST = 1000  # classes: with fewer, weighing all of them goes further in the same time
CYCLES = 2  # proposals from each factor, an update


class CountFactor(NamedTuple):
    """A factor a + S[row, k] of the weights, where S counts the entries of the label by row and class."""

    base: Node
    counts: Node  # S[row, k]
    rows: tuple[tuple[Node, int], ...]  # the row of an entry, and how many there are, along each axis
    prior: Node  # a, or its mean over classes


def count_factors(
    label: Label, weights: Weights, states: frozenset[Leaf], constants: Store
) -> tuple[CountFactor, ...] | None:
    """The factors that are counts, where the weights are a product of several of them, their totals and the class's.

    `states` are the statistics of this label alone; weights that may be 0 are weighed one by one.
    """
    if label.k.size < LEAST or weights.loops or weights.exponent is not ZERO:
        return None
    if not all(exceeds_zero(base) for base, _ in weights_of(label.score, label.at).factors):
        return None
    found = {base: _count_factor(base, label, states, constants) for base, _ in weights.factors}
    counts = tuple(one for base, power in weights.factors if power == 1 and (one := found[base]) is not None)
    others = [base for base, power in weights.factors if found[base] is None or power not in (1, -1)]
    is_product = len(counts) > 1 and all(base.free <= {label.k} for base in others)
    return counts if is_product else None


def _count_factor(base: Node, label: Label, states: frozenset[Leaf], constants: Store) -> CountFactor | None:
    rows = {leaf: _rows(label, leaf) for leaf in base.leaves & states}
    parts = dict(base.args) if base.kind == "add" else {}
    entries = [part for part, c in parts.items() if part.kind == "get" and part.args[0] in rows and c == 1]
    if len(entries) != 1 or len(rows) != 1:
        return None
    (counts,) = entries
    leaf, *at = counts.args
    row = rows[leaf]
    if row is None or tuple(at) != row:
        return None
    prior = _flat(minus(base, counts), label.k, constants)
    sizes = [(place, size) for place, size in zip(row, leaf.shape, strict=True) if place is not index(label.k)]
    return None if prior is None else CountFactor(base, counts, tuple(sizes), prior)


def _rows(label: Label, leaf: Leaf) -> tuple[Node, ...] | None:
    """Where an entry of the label is counted, once; None where it is not, or data alone do not decide the row."""
    axes, change = label.changes[leaf]
    if len(change) != 1:
        return None
    ((guards, value),) = change.items()
    targets, tests = solved(axes, tuple(guards))
    at = tuple(targets.get(index(axis), ZERO) for axis in axes)
    rows = [place for place in at if place is not index(label.k)]
    is_count = value.kind == "const" and value.args[0] == 1 and not tests and len(targets) == len(axes)
    return at if is_count and len(rows) == len(at) - 1 and all(map(is_data, rows)) else None


def _flat(prior: Node, k: Index, constants: Store) -> Node | None:
    """A prior that is the same for all classes: itself, or the mean of what data decide."""
    known = {one.leaf for one in constants.kept.values()}
    if not exceeds_zero(prior) or any(leaf.role == "state" for leaf in prior.leaves - known):
        return None
    if k not in prior.free:
        return prior
    mean = scale(1 / k.size, total((k,), prior))
    return constants.entry(mean) if is_data(prior) and not mean.free else None


def uniforms_of(factors: Mapping[Leaf, tuple[CountFactor, ...]]) -> int:
    """How many uniform numbers an update takes, at most: two for each proposal, or one to draw among all."""
    return max((2 * CYCLES * len(each) for each in factors.values()), default=1)


def write_proposals(loop: LabelLoop, factors: tuple[CountFactor, ...], stride: int) -> None:
    """Write the turns of the factors, each of which proposes one class."""
    writer, names, label = loop.writer, loop.names, loop.label
    env = loop.weighing()
    rows = []
    for one in factors:
        members = names.members(one.rows, label.at)
        row = _number(loop, one, env)
        first, others, mass = (writer.fresh(stem) for stem in ("p", "c", "a"))
        writer.line(f"{first} = {members.first}[{row}]")
        writer.line(f"{others} = {members.first}[{row} + 1] - {first} - 1")
        writer.line(f"{mass} = {loop.size} * {writer.value(one.prior, env)}")
        rows.append((members.item, first, others, mass))
    entries = f"{names[label.leaf].name}{'' if len(label.at) == 1 else '.flat'}"
    with writer.block(f"for c in range({CYCLES}):"):
        writer.line(f"j = {stride} * t + {2 * len(factors)} * c")
        for turn, (one, (item, first, others, mass)) in enumerate(zip(factors, rows, strict=True)):
            writer.line(f"level = uniforms[j + {2 * turn}] * ({others} + {mass})")
            with writer.block(f"if level < {others}:"):
                writer.line(f"p = {item}[{first} + int(level)]")
                writer.line(f"new = {entries}[{item}[{first} + {others}] if p == u else p]")
            with writer.block("else:"):
                writer.line(f"new = min(int((level - {others}) / {writer.value(one.prior, env)}), {loop.size} - 1)")
            old, new = (writer.product(_ratio(loop.weights, one), {**env, label.k: k}) for k in ("k", "new"))
            with writer.block(f"if uniforms[j + {2 * turn + 1}] * {old} < {bare(new)}:"):
                writer.line("k = new")
    writer.line(f"{loop.entry} = k")


def _number(loop: LabelLoop, one: CountFactor, env: Env) -> str:
    """The number of a row, the last axis first."""
    number = ""
    for row, size in one.rows:
        place = loop.writer.place(row, env)
        number = f"({number}) * {loop.names.sizes.text(size)} + {place}" if number else place
    return number or "0"


def _ratio(weights: Weights, one: CountFactor) -> list[tuple[Node, float]]:
    """w(k) / q(k)"""
    others = [(base, power) for base, power in weights.factors if base is not one.base]
    proposed = plus(one.prior, one.counts)
    return others if proposed is one.base else [*others, (one.base, 1.0), (proposed, -1.0)]
