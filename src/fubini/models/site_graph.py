"""Which site depends on which, and its drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape

from fubini.errors import escaped
from fubini.models.outline import Outline

WIDTH, HEIGHT, RADIUS = 110, 80, 24  # of a cell and a node of the drawing
SHADES = {"observed": "#d9d9d9", "deterministic": "none"}


class Graph(Mapping[str, tuple[str, ...]]):
    """The parents of each site.

    >>> from fubini import dist
    >>> fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0))).graph()
    m ~ Normal(0, 1)
    x ~ Normal(m, 1)
    """

    def __init__(self, outline: Outline, statements: Callable[[], Mapping[str, str]]) -> None:
        self.outline, self.statements = outline, statements
        self.parents = {site.name: outline.parents.get(site.name, ()) for site in outline.sites}

    def __getitem__(self, name: str) -> tuple[str, ...]:
        return self.parents[name]

    def __iter__(self):
        return iter(self.parents)

    def __len__(self) -> int:
        return len(self.parents)

    def __repr__(self) -> str:
        """The sites as statements, with the parents of those whose parameters are too long to write."""
        lines = []
        for name, statement in self.statements().items():
            parents = self.parents.get(name, ())
            given = f", given {', '.join(parents)}" if parents and "…" in statement else ""
            lines.append(f"{name} {statement}{given}")
        return "\n".join(lines)

    def depths(self) -> dict[str, int]:
        """The distance of each site from a site without parents.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0))).graph().depths()
        {'m': 0, 'x': 1}
        """
        depths: dict[str, int] = {}
        for name, parents in self.parents.items():
            depths[name] = 1 + max((depths.get(parent, 0) for parent in parents), default=-1)
        return depths

    def to_dot(self) -> str:
        """Write the graph in the language of Graphviz.

        >>> print(fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0))).graph().to_dot())
        digraph {
          "m";
          "x";
          "m" -> "x";
        }
        """
        nodes = [f"  {_dot_name(site.name)}{_dot_style(site.kind)};" for site in self.outline.sites]
        edges = [f"  {_dot_name(parent)} -> {_dot_name(name)};" for name, parents in self.items() for parent in parents]
        return "\n".join(["digraph {", *nodes, *edges, "}"])

    def to_svg(self) -> str:
        """A drawing: roots on top, observed sites shaded, computed ones dashed.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0))).graph().to_svg()[:4]
        '<svg'
        """
        places = self._places()
        width = WIDTH * (1 + max((x for x, _ in places.values()), default=0))
        height = HEIGHT * (1 + max((y for _, y in places.values()), default=0))
        edges = [_edge(places[parent], places[name]) for name, parents in self.items() for parent in parents]
        nodes = [_node(site.name, site.kind, places[site.name]) for site in self.outline.sites]
        arrow = (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z"/></marker></defs>'
        )
        size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{arrow}{"".join(edges)}{"".join(nodes)}</svg>'

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _places(self) -> dict[str, tuple[float, int]]:
        rows: dict[int, list[str]] = {}
        for name, depth in self.depths().items():
            rows.setdefault(depth, []).append(name)
        widest = max(map(len, rows.values()), default=0)
        return {
            name: (place + (widest - len(names)) / 2, depth)
            for depth, names in rows.items()
            for place, name in enumerate(names)
        }


def _dot_name(name: str) -> str:
    """A name in quotes: quotes and backslashes in it have a backslash before them, control characters are escapes."""
    quoted = escaped(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _dot_style(kind: str) -> str:
    return {"observed": " [style=filled]", "deterministic": " [style=dashed]", "weight": " [shape=box]"}.get(kind, "")


def _centre(place: tuple[float, int]) -> tuple[float, float]:
    return (place[0] + 0.5) * WIDTH, (place[1] + 0.5) * HEIGHT


def _edge(start: tuple[float, int], end: tuple[float, int]) -> str:
    (x, y), (u, v) = _centre(start), _centre(end)
    length = max(((u - x) ** 2 + (v - y) ** 2) ** 0.5, 1.0)
    a, b = (u - x) / length * RADIUS, (v - y) / length * RADIUS
    ends = f'x1="{x + a:.1f}" y1="{y + b:.1f}" x2="{u - a:.1f}" y2="{v - b:.1f}"'
    return f'<line {ends} stroke="black" marker-end="url(#tip)"/>'


def _node(name: str, kind: str, place: tuple[float, int]) -> str:
    x, y = _centre(place)
    dashed = ' stroke-dasharray="4 3"' if kind == "deterministic" else ""
    shape = f'cx="{x:.1f}" cy="{y:.1f}" rx="{max(RADIUS, 4.2 * len(name)):.1f}" ry="{RADIUS}"'
    ellipse = f'<ellipse {shape} fill="{SHADES.get(kind, "white")}" stroke="black"{dashed}/>'
    label = f'<text x="{x:.1f}" y="{y + 5:.1f}" text-anchor="middle" font-family="sans-serif" font-size="14">'
    return f"{ellipse}{label}{escape(escaped(name))}</text>"
