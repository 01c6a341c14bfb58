"""The picture of a network: its graph, with the probabilities of the variables given the evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import numpy as np

from fubini.errors import escaped
from fubini.models.graph_drawing import HEIGHT, LETTER, RADIUS, Node, place_nodes
from fubini.models.network import Network
from fubini.plots.canvas import figures
from fubini.plots.panels import DARK, LIGHT, MAIN
from fubini.report.exact_marginals import label_shares
from fubini.report.figure_axes import shown
from fubini.show.picture import Picture
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_plot

BOXES = 24  # variables that have bars without being asked for
VALUES = 5  # bars of a variable
LINE = 17  # height of a line in a box, in the units of the drawing
SPACE = 46  # between rows, for arrows
SPOKEN = 6  # variables that the text names
INCH = 72.0


@dataclass(frozen=True)
class Box:
    """A variable: its lines are bars of probability, or words."""

    name: str
    lines: Sequence[tuple[str, float | None]]
    is_observed: bool

    @property
    def height(self) -> float:
        """Of its name and its lines."""
        return LINE * (1 + len(self.lines)) + 8


@exact_plot.rule
def plot_network(network: Network, options: dict) -> Picture:
    """A box for each variable, parents above; what is observed is shaded."""
    names = options["names"]
    wanted = names if names is not None else network.hidden if len(network.variables) <= BOXES else ()
    marginals = network.marginals(*wanted) if wanted else {}
    boxes = {name: _box(network, name, marginals.get(name)) for name in network.variables}
    figure = figures().Figure()
    axes = figure.add_axes((0, 0, 1, 1))
    _draw(axes, boxes, parents_of(network))
    return Picture(figure, _text(network, boxes, marginals))


def parents_of(network: Network) -> dict[str, list[str]]:
    """The parents of each variable; of an undirected network, its neighbours that come before it."""
    parents: dict[str, list[str]] = {name: [] for name in network.variables}
    children = network.children if len(network.children) == len(network.factors) else [None] * len(network.factors)
    order = list(network.variables)
    for child, factor in zip(children, network.factors, strict=True):
        names = sorted(map(str, factor.inputs), key=order.index)
        for last in [child] if child is not None else names:
            before = names if child is not None else names[: names.index(last)]
            parents[last] += [name for name in before if name != last and name not in parents[last]]
    return parents


def _box(network: Network, name: str, marginal: Factor | None) -> Box:
    domain = network.variables[name]
    if name in network.evidence:
        value = network.evidence[name]
        return Box(name, [(str(domain.label(value)) if domain.is_finite else shown(float(np.mean(value))), None)], True)
    if marginal is None:
        return Box(name, [], False)
    if not domain.is_finite:
        mean, variance = float(np.mean(marginal.mean(name).data)), float(np.mean(marginal.variance(name).data))
        return Box(name, [(f"{shown(mean)} ± {shown(variance**0.5)}", None)], False)
    shares = label_shares(name, marginal)
    order = range(len(shares)) if len(shares) <= VALUES else np.sort(np.argsort(-shares)[:VALUES])
    return Box(name, [(str(domain.label(int(place))), float(shares[place])) for place in order], False)


# -- drawing ---------------------------------------------------------------------------------------------------------


def _draw(axes: Any, boxes: Mapping[str, Box], parents: Mapping[str, Sequence[str]]) -> None:
    letters = _letters(boxes)
    nodes = place_nodes(parents, dict.fromkeys(parents, ""), _depths(parents), letters)
    tops = _tops(nodes, boxes)
    half = max(RADIUS, LETTER * letters / 2 + 8)
    for name, node in nodes.items():
        for parent in parents[name]:
            _arrow(axes, nodes[parent], tops[parent] + boxes[parent].height, node, tops[name])
        _draw_box(axes, boxes[name], node.x, tops[name], half)
    left = min(node.x for node in nodes.values()) - half - 8
    right = max(node.x for node in nodes.values()) + half + 8
    bottom = max(tops[name] + box.height for name, box in boxes.items()) + 8
    axes.set(xlim=(left, right), ylim=(bottom, -8))
    axes.set_axis_off()
    axes.figure.set_size_inches((right - left) / INCH, (bottom + 8) / INCH)


def _letters(boxes: Mapping[str, Box]) -> int:
    """The longest line of any box."""
    labels = [len(label) + (6 if share is not None else 0) for box in boxes.values() for label, share in box.lines]
    return max([*labels, *(len(name) for name in boxes)], default=1)


def _depths(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    depths: dict[str, int] = {}
    for name in TopologicalSorter({child: set(before) for child, before in parents.items()}).static_order():
        depths[name] = 1 + max((depths[parent] for parent in parents[name]), default=-1)
    return depths


def _tops(nodes: Mapping[str, Node], boxes: Mapping[str, Box]) -> dict[str, float]:
    """Where each box begins: rows are as high as their highest box."""
    rows = sorted({node.y for node in nodes.values()})
    tops, top = {}, 0.0
    for y in rows:
        row = [name for name, node in nodes.items() if node.y == y]
        tops |= dict.fromkeys(row, top)
        top += max(boxes[name].height for name in row) + SPACE
    return tops


def _arrow(axes: Any, start: Node, y: float, end: Node, top: float) -> None:
    is_far = abs(end.y - start.y) > 1.5 * HEIGHT
    bend = 0.25 if is_far and end.x >= start.x else -0.25 if is_far else 0.0
    style = {"arrowstyle": "-|>", "color": "0.35", "shrinkA": 0, "shrinkB": 0, "connectionstyle": f"arc3,rad={bend}"}
    axes.annotate("", (end.x, top), (start.x, y), arrowprops=style, zorder=0)


def _draw_box(axes: Any, box: Box, x: float, top: float, half: float) -> None:
    colour = LIGHT if box.is_observed else "white"
    _draw_bar(axes, x - half, top, 2 * half, box.height, facecolor=colour, edgecolor=DARK, lw=0.8)
    axes.text(x, top + 4 + LINE / 2, escaped(box.name), ha="center", va="center", fontsize=9, fontweight="bold")
    for place, (label, share) in enumerate(box.lines):
        y = top + 4 + (place + 1.5) * LINE
        if share is None:
            axes.text(x, y, escaped(label), ha="center", va="center", fontsize=8.5)
            continue
        room = 2 * half - 10
        _draw_bar(axes, x - half + 5, y - 6.5, room * share, 13, facecolor=MAIN, alpha=0.35, lw=0)
        axes.text(x - half + 8, y, escaped(label), ha="left", va="center", fontsize=8.5)
        axes.text(x + half - 8, y, f"{100 * share:.1f} %", ha="right", va="center", fontsize=8.5)


def _draw_bar(axes: Any, left: float, top: float, width: float, height: float, **style: Any) -> None:
    axes.bar(left, height, width, bottom=top, align="edge", **style)


def _text(network: Network, boxes: Mapping[str, Box], marginals: Mapping[str, Factor]) -> str:
    observed = [f"{box.name} is {box.lines[0][0]}" for box in boxes.values() if box.is_observed]
    given = f", given that {', '.join(observed[:SPOKEN])}" if observed else ""
    words = []
    for name in list(marginals)[:SPOKEN]:
        lines = boxes[name].lines
        label, share = max(lines, key=lambda line: line[1] or 0.0)
        words.append(f"{name} {label}" + (f" with probability {share:.3g}" if share is not None else ""))
    said = f"; most probable: {', '.join(words)}" if words else ""
    count = len(network.variables)
    title = f"the network {network.name}" if network.name else "a network"
    return f"Graph of {title}, {count} variable{'s' if count != 1 else ''}{given}{said}."
