"""Which site depends on which, and its drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fubini.errors import escaped
from fubini.models.graph_drawing import draw
from fubini.models.outline import Outline
from fubini.show.printed_form import Block, Drawing, Shown

DRAWN = 40  # sites of a graph that is drawn


class Graph(Shown, Mapping[str, tuple[str, ...]]):
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

    def _form(self) -> Iterable[Block]:
        yield self.drawing()

    def drawing(self, indent: int = 0) -> Drawing:
        """The sites as statements in a terminal, drawn above them in a notebook where they are few."""
        lines = [" " * indent + line for line in self.lines()]
        return Drawing(self.to_svg if len(self) <= DRAWN else lambda: "", lines)

    def lines(self) -> list[str]:
        """The sites as statements, with the parents of those whose parameters are too long to write."""
        lines = []
        for name, statement in self.statements().items():
            parents = self.parents.get(name, ())
            given = f", given {', '.join(parents)}" if parents and "…" in statement else ""
            lines.append(f"{name} {statement}{given}")
        return lines

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

    def to_svg(self, roles: Mapping[str, str] | None = None) -> str:
        """A drawing: roots on top, observed sites shaded, computed ones dashed.

        With roles by name ("observed", "sampled"), each site is a button that keyboard and screen reader find.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0))).graph().to_svg()[:4]
        '<svg'
        """
        return draw(self.parents, {site.name: site.kind for site in self.outline.sites}, self.depths(), roles)

    def _repr_svg_(self) -> str:
        return self.to_svg()


def _dot_name(name: str) -> str:
    """A name in quotes: quotes and backslashes in it have a backslash before them, control characters are escapes."""
    quoted = escaped(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _dot_style(kind: str) -> str:
    return {"observed": " [style=filled]", "deterministic": " [style=dashed]", "weight": " [shape=box]"}.get(kind, "")
