"""Measures as the programs that make them: Python text, which run again gives the same measure."""

from __future__ import annotations

import keyword
import math
from fractions import Fraction

from fubini.algebra.node import Index, Leaf, Node
from fubini.base.scalar_functions import scalar_function
from fubini.errors import Intractable
from fubini.families.parameters import Vector
from fubini.measures.branch import Branch, Draw, Items, Returned, Test, nodes_of

LETTERS = "ijklmnpqrstuv"
LARGEST = 1000  # of the numerators and denominators that are written as such
WORDS = frozenset(("weight", "factor", "condition", "plate", "total", "array", "where", "sqrt", "measure", "superpose"))


def number(value: float) -> str:
    """A number as a person writes it, where that is exactly it.

    >>> number(0.5), number(2**0.5), number(1.5**0.5), number(0.1234567)
    ('1/2', 'sqrt(2)', 'sqrt(3/2)', '0.1234567')
    """
    if math.isinf(value) or math.isnan(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "nan")
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    near = Fraction(value).limit_denominator(LARGEST)
    if near.numerator / near.denominator == value and abs(near.numerator) < LARGEST:
        return f"{near.numerator}/{near.denominator}"
    square = Fraction(value * value).limit_denominator(LARGEST)
    if 0 < square.numerator < LARGEST and (square.numerator / square.denominator) ** 0.5 == abs(value):
        inside = f"{square.numerator}/{square.denominator}" if square.denominator > 1 else f"{square.numerator}"
        return f"{'-' if value < 0 else ''}sqrt({inside})"
    return repr(value)


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


class Writer:
    """Nodes as Python; names of what is drawn are made to differ from all others."""

    def __init__(self, branch: Branch | None = None, names: dict[Leaf, str] | None = None) -> None:
        self.names: dict[Leaf, str] = dict(names or {})
        self.letters: dict[object, str] = {}
        if branch is not None:
            used = {leaf.name for leaf in _leaves(branch) if leaf not in branch.drawn}
            for leaf in branch.drawn:
                self.names[leaf] = _unused(leaf.name, used)
                used.add(self.names[leaf])
        self.taken = set(self.names.values()) | {leaf.name for leaf in (_leaves(branch) if branch else ())}

    # -- statements --------------------------------------------------------------------------------------------------

    def draw(self, of: Draw) -> str:
        """x = yield …"""
        return f"{self.names[of.leaf]} = yield {self._plated(of.at, lambda: self._distribution(of))}"

    def test(self, of: Test) -> str:
        """yield condition(…)"""
        return f"yield {self._plated(of.over, lambda: f'condition({self.of(of.node)})')}"

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
            return self.array(of.over, of.entry)
        if isinstance(of, tuple):
            parts = ", ".join(self.value(part) for part in of)
            return f"({parts},)" if len(of) == 1 else parts if outer and of else f"({parts})"
        return self.of(of)

    def _distribution(self, of: Draw) -> str:
        parts = [
            self.array((part.over,), part.entry) if isinstance(part, Vector) else self.of(part)
            for part in of.distribution.parameters
        ]
        return f"{of.distribution.label or of.distribution.family}({', '.join(parts)})"

    def _plated(self, over: tuple[Index, ...], body) -> str:
        if not over:
            return body()
        first, *rest = over
        before = dict(self.letters)
        text = f"plate({first.size}, lambda {self.letter(first)}: {self._plated(tuple(rest), body)})"
        self.letters = before
        return text

    def array(self, over: tuple[Index, ...], entry: Node) -> str:
        """An array that is there, or by its entries."""
        if entry.kind == "get":
            leaf, *at = entry.args
            outer, last = at[: len(at) - len(over)], at[len(at) - len(over) :]
            own = all(
                part.kind == "index" and part.args[0] is i and i.size == size
                for part, i, size in zip(last, over, leaf.shape[len(outer) :], strict=False)
            )
            if own and len(last) == len(over) and not any(part.free & set(over) for part in outer):
                places = ", ".join(map(self.of, outer))
                return f"{self.name(leaf)}[{places}]" if places else self.name(leaf)
        before = dict(self.letters)
        letters = ", ".join(map(self.letter, over))
        text = f"array({', '.join(str(i.size) for i in over)}, lambda {letters}: {self.of(entry)})"
        self.letters = before
        return text

    # -- nodes -------------------------------------------------------------------------------------------------------

    def name(self, leaf: Leaf) -> str:
        """What a leaf is called."""
        return self.names.get(leaf, leaf.name)

    def letter(self, key: object) -> str:
        """The name of an index."""
        if key not in self.letters:
            used = self.taken | set(self.letters.values())
            self.letters[key] = next((c for c in LETTERS if c not in used), f"i{len(used)}")
        return self.letters[key]

    def of(self, this: Node) -> str:
        """A node."""
        method = getattr(self, f"_{this.kind}", None)
        if method is None:
            raise Intractable(
                f"the text of {this}", expected="numbers, sums and known functions", advice="ask str(node) for notation"
            )
        return method(this)

    def inside(self, this: Node) -> str:
        """As a factor."""
        text = self.of(this)
        plain = this.kind in ("get", "index", "call", "where", "sum", "lse", "eq", "lt")
        return text if plain or (this.kind == "const" and text.isdigit()) else f"({text})"

    def _const(self, this: Node) -> str:
        return number(this.args[0])

    def _index(self, this: Node) -> str:
        return self.letter(this.args[0] if len(this.args) == 1 else this.args[:2])

    def _get(self, this: Node) -> str:
        leaf, *at = this.args
        return f"{self.name(leaf)}[{', '.join(map(self.of, at))}]" if at else self.name(leaf)

    def _add(self, this: Node) -> str:
        terms = []
        for part, coefficient in this.args:
            size = abs(coefficient)
            if part.kind == "const":
                text = number(size)
            elif size == 1:
                text = self.of(part)
            else:
                text = f"{self.inside_number(size)}*{self._factor(part)}"
            terms.append((coefficient < 0, part.kind == "const", text))
        written = ""
        for negative, _, text in sorted(terms, key=lambda term: (term[0], term[1], term[2])):
            sign = "-" if negative else "+"
            written += f" {sign} {text}" if written else (f"-{text}" if negative else text)
        return written

    def inside_number(self, value: float) -> str:
        """A number as a factor."""
        text = number(value)
        return f"({text})" if "/" in text and not text.startswith("sqrt") else text

    def _factor(self, part: Node) -> str:
        if part.kind != "mul":
            return self.inside(part)
        text = self.of(part)
        sums = any(base.kind == "add" for base, _ in part.args)  # into which a number before them would be multiplied
        return f"({text})" if sums or text.startswith("1/") else text

    def _mul(self, this: Node) -> str:
        above = sorted(self._raised(base, power) for base, power in this.args if power > 0)
        below = sorted(self._raised(base, -power) for base, power in this.args if power < 0)
        top = "*".join(above) or "1"
        if not below:
            return top
        return f"{top}/{below[0]}" if len(below) == 1 else f"{top}/({'*'.join(below)})"

    def _raised(self, base: Node, power: float) -> str:
        if power == 0.5:
            return f"sqrt({self.of(base)})"
        text = self.inside(base)
        return text if power == 1 else f"{text}**{self.inside_number(power)}"

    def _call(self, this: Node) -> str:
        name, *args = this.args
        parts = ", ".join(map(self.of, args))
        word = scalar_function(name).program
        return f"{word}({parts})" if word else f"function({name!r}, {parts})"

    def _eq(self, this: Node) -> str:
        a, b = sorted(map(self.of, this.args), key=lambda text: (text.isdigit(), text))
        return f"({a} == {b})"

    def _lt(self, this: Node) -> str:
        return f"({self.of(this.args[0])} < {self.of(this.args[1])})"

    def _where(self, this: Node) -> str:
        return f"where({', '.join(map(self.of, this.args))})"

    def _binder(self, this: Node) -> str:
        sizes, body = this.args
        before = dict(self.letters)
        letters = []
        for place in range(len(sizes)):
            self.letters.pop((this.height, place), None)
            letters.append(self.letter((this.height, place)))
        name = "total" if this.kind == "sum" else "log_total"
        text = f"{name}({', '.join(map(str, sizes))}, lambda {', '.join(letters)}: {self.of(body)})"
        self.letters = before
        return text

    _sum = _lse = _binder


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
