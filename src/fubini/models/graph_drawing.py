"""The drawing of a graph of sites: parents above, arrows around what lies between."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from fubini.errors import escaped

HEIGHT, RADIUS, GAP = 80, 24, 26  # of a row, of a node, and between two nodes
LETTER = 8.0  # width of a letter
LONGEST = 18  # letters of a name that are written
MARGIN = 8
MOST_IN_ROW = 8


@dataclass(frozen=True)
class Node:
    """A site of the drawing: where it is, how wide, and what it is."""

    name: str
    kind: str
    x: float
    y: float
    half: float  # of its width

    @property
    def label(self) -> str:
        """Its name; of a long one, both ends."""
        shown = escaped(self.name)
        return shown if len(shown) <= LONGEST else f"{shown[: LONGEST // 2]}…{shown[1 - LONGEST // 2 :]}"

    def edge_towards(self, x: float, y: float) -> tuple[float, float]:
        """The point of its outline in the direction of another point."""
        a, b = x - self.x, y - self.y
        size = math.hypot(a / self.half, b / RADIUS) or 1.0
        return self.x + a / size, self.y + b / size


def draw(
    parents: Mapping[str, Sequence[str]],
    kinds: Mapping[str, str],
    depths: Mapping[str, int],
    roles: Mapping[str, str] | None = None,
) -> str:
    """The graph as SVG; with roles by name, each node is a button that says its role."""
    nodes = place_nodes(parents, kinds, depths)
    arrows = [_arrow(nodes[parent], node, nodes.values()) for node in nodes.values() for parent in parents[node.name]]
    edges = [node.x + sign * node.half for node in nodes.values() for sign in (-1, 1)]
    edges += [x for _, reach in arrows for x in reach]
    left, right = min(edges, default=0.0) - MARGIN, max(edges, default=0.0) + MARGIN
    height = max((node.y for node in nodes.values()), default=0.0) + RADIUS + MARGIN
    shapes = [_shape(node, place, roles) for place, node in enumerate(nodes.values())]
    tip = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="currentColor"/></marker></defs>'
    )
    box = f'viewBox="{left:.0f} 0 {right - left:.0f} {height:.0f}"'
    size = f'width="{right - left:.0f}" height="{height:.0f}" {box}'
    group = ' role="group" aria-label="The graph of the model: each site is a button"' if roles is not None else ""
    drawn = "".join([*(path for path, _ in arrows), *shapes])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} color="currentColor"{group}>{tip}{drawn}</svg>'


def place_nodes(
    parents: Mapping[str, Sequence[str]], kinds: Mapping[str, str], depths: Mapping[str, int], letters: int = 0
) -> dict[str, Node]:
    """Rows by depth, each site as near to its parents as the others of its row allow; wide enough for some letters."""
    letters = max([letters, *(min(len(escaped(name)), LONGEST) for name in parents)])
    half = max(RADIUS, LETTER * letters / 2 + 8)
    cell = 2 * half + GAP
    nodes: dict[str, Node] = {}
    for number, row in enumerate(_rows(parents, depths)):
        wished = {name: _mean([nodes[parent].x for parent in parents[name] if parent in nodes]) for name in row}
        ordered = sorted(row, key=lambda name: wished[name])
        middle = _mean(list(wished.values()))
        for place, name in enumerate(ordered):
            x = middle + (place - (len(ordered) - 1) / 2) * cell
            half_width = max(RADIUS, LETTER * min(len(escaped(name)), LONGEST) / 2 + 8)
            nodes[name] = Node(name, kinds[name], x, MARGIN + RADIUS + number * HEIGHT, half_width)
    return {name: nodes[name] for name in parents}


def _rows(names: Iterable[str], depths: Mapping[str, int]) -> list[list[str]]:
    """Sites of one depth beside each other; many of them in several rows."""
    by_depth: dict[int, list[str]] = {}
    for name in names:
        by_depth.setdefault(depths[name], []).append(name)
    return [
        row[start : start + MOST_IN_ROW]
        for _, row in sorted(by_depth.items())
        for start in range(0, len(row), MOST_IN_ROW)
    ]


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0


def _arrow(start: Node, end: Node, nodes: Iterable[Node]) -> tuple[str, tuple[float, ...]]:
    """The arrow from a parent, bent around nodes between the two; and how far to the sides it reaches."""
    bend = _bend(start, end, [node for node in nodes if start.y < node.y < end.y])
    middle = (start.x + end.x) / 2, (start.y + end.y) / 2
    control = (2 * bend - middle[0], middle[1]) if bend is not None else middle
    (x, y), (u, v) = start.edge_towards(*control), end.edge_towards(*control)
    path = f"M{x:.1f} {y:.1f}Q{control[0]:.1f} {control[1]:.1f} {u:.1f} {v:.1f}"
    reach = ((x + 2 * control[0] + u) / 4,)
    return f'<path d="{path}" fill="none" stroke="currentColor" marker-end="url(#tip)"/>', reach


def _bend(start: Node, end: Node, between: Sequence[Node]) -> float | None:
    """Where an arrow must pass at half its way so as not to cross a node between its ends."""
    straight = (start.x + end.x) / 2
    bends = [straight]
    for node in between:
        share = (node.y - start.y) / (end.y - start.y)
        line = start.x + share * (end.x - start.x)
        if abs(line - node.x) < node.half + 6:
            side = 1 if line >= node.x else -1
            away = node.x + side * (node.half + 14) - line
            bends.append(straight + away / (4 * share * (1 - share)))
    furthest = max(bends, key=lambda bend: abs(bend - straight))
    return None if furthest == straight else furthest


def _shape(node: Node, place: int, roles: Mapping[str, str] | None) -> str:
    dashed = ' stroke-dasharray="4 3"' if node.kind == "deterministic" else ""
    filled = 'fill="currentColor" fill-opacity="0.18"' if node.kind == "observed" else 'fill="transparent"'
    shape = f'cx="{node.x:.1f}" cy="{node.y:.1f}" rx="{node.half:.1f}" ry="{RADIUS}"'
    ellipse = f'<ellipse {shape} {filled} stroke="currentColor"{dashed}/>'
    label = (
        f'<text x="{node.x:.1f}" y="{node.y + 5:.1f}" text-anchor="middle" font-family="sans-serif" font-size="14" '
        f'fill="currentColor">{escape(node.label)}</text>'
    )
    title = f"<title>{escape(escaped(node.name))}</title>" if node.label != escaped(node.name) else ""
    if roles is None:
        return f"<g>{title}{ellipse}{label}</g>"
    role = roles.get(node.name, node.kind)
    button = (
        f'class="site" tabindex="0" role="button" aria-pressed="false" data-site="{place}" '
        f'aria-label="{escape(escaped(node.name))}, {escape(role)}" aria-controls="site-{place}"'
    )
    return f"<g {button}>{title}{ellipse}{label}</g>"
