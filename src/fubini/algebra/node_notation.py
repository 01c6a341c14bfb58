"""Nodes as they are written on paper."""

from __future__ import annotations

from collections.abc import Mapping

LETTERS = "jklmnopqrstuvw"
RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
SUMS = {"sum": "Σ", "lse": "log Σ", "chain": "log Σ over paths of", "rows": "rows", "slopes": "Σ"}


def written(of, names: Mapping | None = None) -> str:
    """A node with its indices as letters.

    >>> from fubini.algebra.build import get, index, power
    >>> from fubini.algebra.node import Index, Leaf
    >>> from fubini.algebra.sums import total
    >>> i = Index(3)
    >>> written(total([i], power(get(Leaf("x", (3,)), index(i)), 2.0)))
    'Σ_j x[j]²'
    """
    writer = _Writer(dict(names or {}))
    for i in sorted(of.free, key=lambda i: i.serial):
        writer.letter(i)  # before those of sums, which end with them
    return writer.of(of)


class _Writer:
    def __init__(self, names: dict) -> None:
        self.names = names

    def of(self, this) -> str:
        return getattr(self, f"_{this.kind}")(this)

    def inside(self, this) -> str:
        """As a factor: what is a sum stands in brackets."""
        text = self.of(this)
        return f"({text})" if this.kind in ("add", "sum", "lse", "chain", "where") else text

    def _const(self, this) -> str:
        return f"{this.args[0]:g}".replace("-", "−").replace("inf", "∞")

    def _index(self, this) -> str:
        return self.letter(this.args[0] if len(this.args) == 1 else this.args[:2])

    def letter(self, key) -> str:
        """The letter of an index."""
        if key not in self.names:
            used = set(self.names.values())
            self.names[key] = next((c for c in LETTERS if c not in used), f"i{len(used)}")
        return self.names[key]

    def _get(self, this) -> str:
        leaf, *at = this.args
        places = [self.of(part) for part, size in zip(at, leaf.shape, strict=True) if size != 1]
        return f"{leaf.name}[{', '.join(places)}]" if places else leaf.name

    def _add(self, this) -> str:
        written = ""
        order = sorted(this.args, key=lambda item: (item[0].kind == "const", item[1] < 0, self.of(item[0])))
        for part, coefficient in order:
            sign = "−" if coefficient < 0 else "+"
            size = abs(coefficient)
            text = (
                f"{size:g}"
                if part.kind == "const"
                else self.inside(part)
                if part.kind in ("add", "where")
                else self.of(part)
            )
            if size != 1 and part.kind != "const":
                text = f"{'½' if size == 0.5 else f'{size:g}'} {self.inside(part)}"
            written += f" {sign} {text}" if written else (f"−{text}" if sign == "−" else text)
        return written

    def _mul(self, this) -> str:
        above = sorted((self._raised(base, power) for base, power in this.args if power > 0), key=_plain_first)
        below = sorted((self._raised(base, -power) for base, power in this.args if power < 0), key=_plain_first)
        top = " ".join(above) or "1"
        if not below:
            return top
        bottom = " ".join(below)
        return f"{top}/{bottom}" if len(below) == 1 else f"{top}/({bottom})"

    def _raised(self, base, power: float) -> str:
        text = self.inside(base)
        if power == 1:
            return text
        if power == 0.5:
            return f"√{text}"
        return f"{text}{str(int(power)).translate(RAISED)}" if power == int(power) else f"{text}^{power:g}"

    def _call(self, this) -> str:
        return f"{this.args[0]}({', '.join(self.of(part) for part in this.args[1:])})"

    def _eq(self, this) -> str:
        return f"[{' = '.join(sorted(map(self.of, this.args)))}]"

    def _lt(self, this) -> str:
        return f"[{self.of(this.args[0])} < {self.of(this.args[1])}]"

    def _where(self, this) -> str:
        test, first, second = map(self.of, this.args)
        return f"{first} if {test} else {second}"

    def _binder(self, this) -> str:
        sizes, body = this.args
        before = dict(self.names)
        letters = []
        for place in range(len(sizes)):
            self.names.pop((this.height, place), None)
            letters.append(self.letter((this.height, place)))
        exp = " exp" if this.kind in ("lse", "chain") else ""
        text = f"{SUMS[this.kind]}_{','.join(letters)}{exp} {self.inside(body)}"
        self.names = before
        return text

    _sum = _lse = _chain = _rows = _slopes = _binder

    def _logdet(self, this) -> str:
        return f"log|AᵀA| of {this.args[0].size} unknowns"

    def _rss(self, this) -> str:
        return f"min|A x − b|² of {this.args[0].size} unknowns"


def _plain_first(text: str) -> tuple[bool, str]:
    """Names before brackets, so that what is written does not depend on what was made first."""
    return text[0] in "([", text
