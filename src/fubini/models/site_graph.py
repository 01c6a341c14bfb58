"""Which site depends on which, and its drawing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from fubini.errors import NameClash, UnknownName, closest, escaped, listed
from fubini.models.graph_drawing import draw
from fubini.models.outline import Outline
from fubini.show.printed_form import Block, Drawing, Shown

DRAWN = 40  # sites of a graph that is drawn
Names = str | Iterable[str]


class Graph(Shown, Mapping[str, tuple[str, ...]]):
    """The parents of each site.

    >>> from fubini import dist
    >>> fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0))).graph()
    m ~ Normal(0, 1)
    x ~ Normal(m, 1)
    """

    def __init__(
        self,
        parents: Mapping[str, tuple[str, ...]],
        kinds: Mapping[str, str],
        statements: Callable[[], Mapping[str, str]],
    ) -> None:
        self.parents, self.kinds, self.statements = dict(parents), dict(kinds), statements

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

    def is_separated(self, first: Names, second: Names, given: Names = ()) -> bool:
        """Whether two sites, or two groups, are d-separated by others: then they are independent given these.

        Sites that are observed, and weights, are given anyway. Where there is no separation, some numbers of the model
        make the two dependent.

        >>> graph = fb.JointNamed(
        ...     dict(a=fb.dist.Normal(0, 1), b=fb.dist.Normal(0, 1), x=lambda a, b: fb.dist.Normal(a + b, 1))
        ... ).graph()
        >>> graph.is_separated("a", "b"), graph.is_separated("a", "b", given="x")
        (True, False)
        """
        sides = [self._known(side) for side in (first, second, given)]
        for one, other in itertools.combinations(sides, 2):
            if set(one) & set(other):
                raise NameClash(
                    f"d-separation of {listed(sides[0])} and {listed(sides[1])} given {listed(sides[2])}",
                    expected="three groups without a name in common",
                    nearest=f"{min(set(one) & set(other))!r} is in two",
                )
        return not any(set(self.reached(name, given)) & set(sides[1]) for name in sides[0])

    def reached(self, name: str, given: Names = ()) -> tuple[str, ...]:
        """The sites that are not d-separated from one by others: all that it can tell something about, given these.

        >>> chain = fb.JointNamed(
        ...     dict(a=fb.dist.Normal(0, 1), b=lambda a: fb.dist.Normal(a, 1), c=lambda b: fb.dist.Normal(b, 1))
        ... ).graph()
        >>> chain.reached("a"), chain.reached("a", given="b")
        (('b', 'c'), ())
        """
        (start,) = self._known(name)
        known = {*self._known(given), *(n for n, kind in self.kinds.items() if kind in ("observed", "weight"))}
        return reachable(self.parents, start, known)

    def _known(self, names: Names) -> tuple[str, ...]:
        """Names as a tuple, all of them there."""
        asked = (names,) if isinstance(names, str) else tuple(names)
        for name in asked:
            if name not in self.parents:
                raise UnknownName(
                    f"the site {name!r} of a graph",
                    expected=f"one of its {len(self.parents)} sites",
                    nearest=closest(name, self.parents),
                )
        return asked

    def to_dot(self) -> str:
        """Write the graph in the language of Graphviz.

        >>> print(fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0))).graph().to_dot())
        digraph {
          "m";
          "x";
          "m" -> "x";
        }
        """
        nodes = [f"  {_dot_name(name)}{_dot_style(kind)};" for name, kind in self.kinds.items()]
        edges = [f"  {_dot_name(parent)} -> {_dot_name(name)};" for name, parents in self.items() for parent in parents]
        return "\n".join(["digraph {", *nodes, *edges, "}"])

    def to_svg(self, roles: Mapping[str, str] | None = None) -> str:
        """A drawing: roots on top, observed sites shaded, computed ones dashed.

        With roles by name ("observed", "sampled"), each site is a button that keyboard and screen reader find.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0))).graph().to_svg()[:4]
        '<svg'
        """
        return draw(self.parents, self.kinds, self.depths(), roles)

    def _repr_svg_(self) -> str:
        return self.to_svg()


def reachable(parents: Mapping[str, Sequence[str]], start: str, given: Collection[str]) -> tuple[str, ...]:
    """The nodes that some path connects to one where others are given (the Bayes ball, Shachter 1998).

    A path goes through a node that is not given, unless it meets there head to head; through such a meeting where it,
    or what descends from it, is given.
    """
    children: dict[str, list[str]] = {name: [] for name in parents}
    for name, above in parents.items():
        for parent in above:
            children[parent].append(name)
    opened, waiting = set(), list(given)
    while waiting:
        name = waiting.pop()
        if name not in opened:
            opened.add(name)
            waiting.extend(parents[name])
    seen, paths = set(), [(start, True)]  # whether a node is reached from below
    while paths:
        name, is_from_below = paths.pop()
        if (name, is_from_below) in seen:
            continue
        seen.add((name, is_from_below))
        if name not in given:
            paths.extend((child, False) for child in children[name])
        if name in opened if not is_from_below else name not in given:
            paths.extend((parent, True) for parent in parents[name])
    found = {name for name, _ in seen}
    return tuple(name for name in parents if name in found and name not in given and name != start)


def _dot_name(name: str) -> str:
    """A name in quotes: quotes and backslashes in it have a backslash before them, control characters are escapes."""
    quoted = escaped(name).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'


def _dot_style(kind: str) -> str:
    return {"observed": " [style=filled]", "deterministic": " [style=dashed]", "weight": " [shape=box]"}.get(kind, "")


def graph_of(outline: Outline, statements: Callable[[], Mapping[str, str]]) -> Graph:
    """The graph of a model's sites."""
    parents = {site.name: outline.parents.get(site.name, ()) for site in outline.sites}
    return Graph(parents, {site.name: site.kind for site in outline.sites}, statements)
