"""Measures as the programs that make them: Python text, which run again gives the same measure."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable
from fractions import Fraction

from fubini.algebra.node import Index as IndexVariable
from fubini.algebra.node import Leaf, Node
from fubini.algebra.node_notation import NodeNotation
from fubini.errors import Intractable
from fubini.families.parameters import Vector
from fubini.measures.branch import Branch, DrawStatement, Items, Returned, Test, nodes_of
from fubini.show.notation import Call, Lambda, Notation, Subscript, Symbol
from fubini.show.python_source import LARGEST, number, source

WORDS = frozenset(("weight", "factor", "condition", "plate", "total", "array", "where", "sqrt", "measure", "superpose"))


def program(branches: tuple[Branch, ...], name: str = "program") -> str:
    """The text of a measure: one function, or one for each branch and their superposition."""
    if len(branches) == 1:
        return "\n".join(["@measure", f"def {name}():", *_body(branches[0])])
    lines = []
    names = [f"part{place + 1}" for place in range(len(branches))]
    for part, branch in zip(names, branches, strict=True):
        lines.extend(["@measure", f"def {part}():", *_body(branch), ""])
    parts = ", ".join(f"{part}()" for part in names)
    return "\n".join([*lines, "@measure", f"def {name}():", f"    return (yield superpose({parts}))"])


def _body(branch: Branch) -> list[str]:
    """Draws in order, each test and the weight as soon as all that it depends on is drawn."""
    writer = Writer(branch)
    is_weighted = not (branch.weight.kind == "const" and branch.weight.args[0] == 0)
    after: dict[int, list[str]] = {}
    for test in branch.tests:
        after.setdefault(_place(test.node, branch), []).append(writer.test(test))
    if is_weighted:
        after.setdefault(_place(branch.weight, branch), []).append(writer.weight(branch.weight))
    lines = after.get(0, [])
    for place, draw in enumerate(branch.draws):
        lines = [*lines, writer.draw(draw), *after.get(place + 1, [])]
    if not lines:
        lines.append("yield factor(0)")
    return [f"    {line}" for line in (*lines, f"return {writer.value(branch.value, outer=True)}")]


def _place(of: Node, branch: Branch) -> int:
    """How many draws there have to be before it."""
    return max((place + 1 for place, leaf in enumerate(branch.drawn) if leaf in of.leaves), default=0)


class Writer(NodeNotation):
    """Draws, tests and nodes as Python; names of what is drawn are made to differ from all others."""

    alphabet = "ijklmnpqrstuv"

    def __init__(self, branch: Branch | None = None, names: dict[Leaf, str] | None = None) -> None:
        self.names: dict[Leaf, str] = dict(names or {})
        if branch is not None:
            used = {leaf.name for leaf in _leaves(branch) if leaf not in branch.drawn}
            for leaf in branch.drawn:
                self.names[leaf] = _unused(leaf.name, used)
                used.add(self.names[leaf])
        taken = {leaf.name for leaf in (_leaves(branch) if branch else ())}
        super().__init__({}, set(self.names.values()) | taken)

    # -- statements --------------------------------------------------------------------------------------------------

    def draw(self, of: DrawStatement) -> str:
        """x = yield …"""
        return f"{self.names[of.leaf]} = yield {source(self._plated(of.at, lambda: self._distribution(of)))}"

    def test(self, of: Test) -> str:
        """yield condition(…)"""
        return f"yield {source(self._plated(of.over, lambda: Call('condition', (self.tree(of.node),))))}"

    def weight(self, of: Node) -> str:
        """yield weight(…) of a plain number, else yield factor(…) of the logarithm"""
        if of.kind == "const":
            plain = number(_near(math.exp(of.args[0]))) if of.args[0] < 700 else "inf"
            if plain != "inf" and _log_is(plain, of.args[0]):
                return f"yield weight({plain})"
        return f"yield factor({self.of(of)})"

    def value(self, of: Returned, outer: bool = False) -> str:
        """What is returned."""
        if isinstance(of, Items):
            return source(self.array(of.over, of.entry))
        if isinstance(of, tuple):
            parts = ", ".join(self.value(part) for part in of)
            return f"({parts},)" if len(of) == 1 else parts if outer and of else f"({parts})"
        return self.of(of)

    # -- notation ----------------------------------------------------------------------------------------------------

    def of(self, this: Node) -> str:
        """A node."""
        return source(self.tree(this))

    def entry(self, leaf: Leaf, at: tuple[Node, ...]) -> Notation:
        """An entry of an array."""
        name = Symbol(self.names.get(leaf, leaf.name))
        return Subscript(name, tuple(map(self.tree, at))) if at else name

    def _distribution(self, of: DrawStatement) -> Notation:
        parts = [
            self.array((part.over,), part.entry) if isinstance(part, Vector) else self.tree(part)
            for part in of.distribution.parameters
        ]
        return Call(of.distribution.label or of.distribution.family, tuple(parts))

    def _plated(self, over: tuple[IndexVariable, ...], body: Callable[[], Notation]) -> Notation:
        if not over:
            return body()
        first, *rest = over
        before = dict(self.letters)
        inner = Lambda((self.letter(first),), self._plated(tuple(rest), body))
        self.letters = before
        return Call("plate", (Symbol(str(first.size)), inner))

    def array(self, over: tuple[IndexVariable, ...], entry: Node) -> Notation:
        """An array that is there, or by its entries."""
        if entry.kind == "get" and (outer := outer_places(over, entry)) is not None:
            return self.entry(entry.args[0], outer)
        before = dict(self.letters)
        body = Lambda(tuple(map(self.letter, over)), self.tree(entry))
        self.letters = before
        return Call("array", (*(Symbol(str(i.size)) for i in over), body))

    def _without_text(self, this: Node) -> Notation:
        raise Intractable(
            f"the text of {this}", expected="numbers, sums and known functions", advice="ask str(node) for notation"
        )

    _chain = _rows = _slopes = _logdet = _rss = _without_text


def outer_places(over: tuple[IndexVariable, ...], entry: Node) -> tuple[Node, ...] | None:
    """The places along outer axes of an entry that goes over all of the others in order; None for any other entry."""
    leaf, *at = entry.args
    outer, last = at[: len(at) - len(over)], at[len(at) - len(over) :]
    own = all(
        part.kind == "index" and part.args[0] is i and i.size == size
        for part, i, size in zip(last, over, leaf.shape[len(outer) :], strict=False)
    )
    whole = own and len(last) == len(over) and not any(part.free & set(over) for part in outer)
    return tuple(outer) if whole else None


def _near(value: float) -> float:
    near = Fraction(value).limit_denominator(LARGEST)
    close = near.numerator / near.denominator
    return close if close and abs(close - value) <= 1e-15 * abs(value) else value


def _log_is(text: str, log: float) -> bool:
    """The number that is written has this logarithm."""
    if "sqrt" in text:
        return False
    above, _, below = text.partition("/")
    value = float(above) / float(below or "1")
    return value > 0 and math.log(value) == log


def _leaves(branch: Branch) -> set[Leaf]:
    nodes = [branch.weight, *nodes_of(branch.value), *(test.node for test in branch.tests)]
    leaves = set().union(*(node.leaves for node in nodes), *(draw.distribution.leaves for draw in branch.draws))
    return leaves | set(branch.drawn)


def _unused(name: str, used: set[str]) -> str:
    """The name, numbered where it is taken."""
    plain = name if name.isidentifier() and not keyword.iskeyword(name) and name not in WORDS else "x"
    taken = [plain, *(f"{plain}{number}" for number in range(1, len(used) + 2))]
    return next(candidate for candidate in taken if candidate not in used)
