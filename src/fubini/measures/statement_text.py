"""Measures as a statistician writes them: `x[i] ~ Normal(mu, √(3/2)) for i < 4`, tests, a weight, what is returned."""

from __future__ import annotations

from collections.abc import Iterator

from fubini.algebra.node import Index as IndexVariable
from fubini.algebra.node import Node
from fubini.algebra.node_notation import NodeNotation
from fubini.measures.branch import Branch, DrawStatement, Items, Returned, Test
from fubini.measures.python_text import Writer, outer_places
from fubini.show.notation import Notation, Phrase, Subscript, Symbol
from fubini.show.paper_style import on_paper


def statements(branches: tuple[Branch, ...]) -> Iterator[str]:
    """Yield the lines of a measure: those of its only branch, or of each under its number."""
    if len(branches) == 1:
        yield from branch_statements(branches[0])
        return
    yield f"the sum of {len(branches):,} measures" if branches else "the zero measure"
    for place, branch in enumerate(branches, 1):
        yield f"measure {place}"
        yield from (f"  {line}" for line in branch_statements(branch))


def branch_statements(branch: Branch) -> Iterator[str]:
    """Yield draws in order, tests, the weight unless it is 1, and what is returned."""
    writer = Statements(branch)
    yield from map(writer.draw, branch.draws)
    yield from map(writer.test, branch.tests)
    if not (branch.weight.kind == "const" and branch.weight.args[0] == 0):
        yield writer.weight(branch.weight)
    yield f"returns {writer.value(branch.value, outer=True)}"


class Statements(Writer):
    """Draws, tests and nodes on paper."""

    def draw(self, of: DrawStatement) -> str:
        """x[i] ~ … for i < n"""
        name, before = self.names[of.leaf], dict(self.letters)
        places = tuple(Symbol(self.letter(i)) for i in of.at)
        drawn = Subscript(Symbol(name), places) if places else Symbol(name)
        line = f"{on_paper(drawn)} ~ {on_paper(self._distribution(of))}{self.ranges(of.at)}"
        self.letters = before
        return line

    def test(self, of: Test) -> str:
        """given … for i < n"""
        before = dict(self.letters)
        for i in of.over:
            self.letter(i)
        line = f"given {self.of(of.node)}{self.ranges(of.over)}"
        self.letters = before
        return line

    def weight(self, of: Node) -> str:
        """weight 1/2, or weight exp(…) of the logarithm"""
        plain = super().weight(of)
        if plain.startswith("yield weight("):
            return f"weight {plain.removeprefix('yield weight(').removesuffix(')')}"
        return f"weight exp({self.of(of)})"

    def value(self, of: Returned, outer: bool = False) -> str:
        if isinstance(of, Items):
            return on_paper(self.array(of.over, of.entry))
        return super().value(of, outer)

    def ranges(self, over: tuple[IndexVariable, ...]) -> str:
        """For i < n, j < m"""
        return f" for {', '.join(f'{self.letter(i)} < {i.size:,}' for i in over)}" if over else ""

    def of(self, this: Node) -> str:
        return on_paper(self.tree(this))

    def array(self, over: tuple[IndexVariable, ...], entry: Node) -> Notation:
        """An array that is there by its name, another by its entries: [x[i] + 1 for i < 3]."""
        if entry.kind == "get" and (outer := outer_places(over, entry)) is not None:
            return self.entry(entry.args[0], outer)
        before = dict(self.letters)
        for i in over:
            self.letter(i)
        shown = f"[{self.of(entry)}{self.ranges(over)}]"
        self.letters = before
        return Phrase(shown)

    _chain = _rows = _slopes = NodeNotation._binder
    _logdet, _rss = NodeNotation._logdet, NodeNotation._rss
