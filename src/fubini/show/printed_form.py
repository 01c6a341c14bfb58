"""How objects show themselves: a few blocks each, as text of at most 25 lines in a terminal and as HTML in a notebook.

A class says what it shows once, in `_form`; text and HTML follow. Nothing is raised here: where a form fails, what came
before is shown, and that there is more.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from fubini.errors import escaped
from fubini.show.identities import identity
from fubini.show.markup import to_html
from fubini.show.mathml import mathml
from fubini.show.notation import Notation
from fubini.show.styles import text

LINES, COLUMNS = 25, 120  # of a printed form, at most


@dataclass(frozen=True)
class Words:
    """A line of words."""

    words: str
    indent: int = 0

    def lines(self) -> Iterator[str]:
        """The text, indented."""
        yield " " * self.indent + self.words

    def html(self) -> str:
        """A paragraph."""
        return _element("div", _safe(self.words), self.indent)


@dataclass(frozen=True)
class Expression:
    """A term on a line, and words after it."""

    notation: Notation
    words: str = ""

    def lines(self) -> Iterator[str]:
        """The notation as text."""
        yield text(self.notation) + self.words

    def html(self) -> str:
        """The notation with indices below the line."""
        return _element("div", to_html(self.notation) + _safe(self.words))


@dataclass(frozen=True)
class Formula:
    """An equation: name = notation, or an identity as it is written in Unicode."""

    name: str
    notation: Notation | str
    indent: int = 0
    text: str = ""  # in place of the notation, where that is long

    def lines(self) -> Iterator[str]:
        """The equation as text."""
        shown = self.text or (self.notation if isinstance(self.notation, str) else text(self.notation))
        yield " " * self.indent + (f"{self.name} = {shown}" if self.name else shown)

    def html(self) -> str:
        """The equation in MathML."""
        before = f"{_safe(self.name)} = " if self.name else ""
        drawn = identity(self.notation) if isinstance(self.notation, str) else mathml(self.notation)
        return _element("div", before + _to_the_left(drawn), self.indent)


@dataclass(frozen=True)
class Grid:
    """A table: cells under headings, numbers to the right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_numeric: bool = True
    more: str = ""  # said beneath, of rows that are not shown

    def lines(self) -> Iterator[str]:
        """Columns of equal width; those in the middle are left out where a line would be too long."""
        return self._written(_narrowed([list(row) for row in (self.head, *self.rows)]))

    def whole_lines(self) -> Iterator[str]:
        """Columns of equal width, however long the lines."""
        return self._written([list(row) for row in (self.head, *self.rows)])

    def _written(self, cells: list[list[str]]) -> Iterator[str]:
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for first, *others in cells:
            placed = [each.rjust(w) if self.is_numeric else each.ljust(w) for each, w in zip(others, widths[1:])]  # noqa: B905
            line = "  ".join([first.ljust(widths[0]), *placed])
            yield line if self.is_numeric else line.rstrip()
        if self.more:
            yield self.more

    def html(self) -> str:
        """A table, each row under its heading."""
        side = ' style="text-align:right"' if self.is_numeric else ' style="text-align:left"'
        head = "".join(f'<th scope="col"{side}>{_safe(cell)}</th>' for cell in self.head)
        rows = (
            f'<tr><th scope="row" style="text-align:left">{_safe(first)}</th>'
            + "".join(f"<td{side}>{_safe(cell)}</td>" for cell in others)
            + "</tr>"
            for first, *others in self.rows
        )
        more = _element("div", _safe(self.more)) if self.more else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{more}"


@dataclass(frozen=True)
class Drawing:
    """A drawing in a notebook, lines in a terminal."""

    draw: Callable[[], str]  # as SVG
    text: Sequence[str]

    def lines(self) -> Iterator[str]:
        """Its text."""
        yield from self.text

    def html(self) -> str:
        """The drawing itself, and its text."""
        return self.draw() + "".join(_element("div", _safe(line.strip()), 2) for line in self.text)


Block = Words | Expression | Formula | Grid | Drawing


class HasForm(Protocol):
    """Anything with a form."""

    def _form(self) -> Iterable[Block]: ...


class Shown:
    """The base of objects that show themselves by `_form`."""

    __slots__ = ()

    def _form(self) -> Iterable[Block]:
        """The blocks that show the object."""
        yield Words(type(self).__name__)

    def __repr__(self) -> str:
        return print_form(self)

    def _repr_html_(self) -> str:
        return display_form(self)


def print_form(shown: HasForm) -> str:
    """Print an object in at most 25 lines of at most 120 characters.

    >>> class Note(Shown):
    ...     def _form(self):
    ...         yield Words("a < b")
    >>> Note(), Note()._repr_html_()
    (a < b, '<div><div>a &lt; b</div></div>')
    """
    lines: list[str] = []
    try:
        lines.extend(line for block in shown._form() for line in block.lines())
    except Exception as error:  # an error in a printed form would hide the one that is being read
        lines.append(_kind(shown, error))
    return "\n".join(bounded(lines))


def write_out(shown: HasForm) -> str:
    """Write all of a form, whatever its size."""
    blocks = shown._form()
    return "\n".join(line for b in blocks for line in (b.whole_lines() if isinstance(b, Grid) else b.lines()))


def display_form(shown: HasForm) -> str:
    """Write an object as HTML; every name in it is escaped."""
    parts: list[str] = []
    try:
        parts.extend(block.html() for block in shown._form())
    except Exception as error:
        parts.append(escape(_kind(shown, error)))
    return f"<div>{''.join(parts)}</div>"


def _kind(shown: object, error: Exception) -> str:
    return f"<{type(shown).__name__} that cannot be shown: {type(error).__name__}>"


def bounded(lines: Iterable[str], most: int = LINES) -> list[str]:
    """Lines of at most 120 characters, longer ones continued below, and at most `most` of them, from both ends.

    >>> bounded(["one", "two", "three", "four", "five", "six"], most=4)
    ['one', 'two', '… 3 more lines', 'six']
    """
    kept = [part for line in lines for part in _wrapped(escaped(line))]
    if len(kept) <= most:
        return kept
    last = most // 4
    first = most - last - 1
    return [*kept[:first], f"… {len(kept) - most + 1:,} more lines", *kept[len(kept) - last :]]


def _wrapped(line: str) -> list[str]:
    if len(line) <= COLUMNS:
        return [line]
    margin = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line.strip(), COLUMNS, initial_indent=margin, subsequent_indent=f"{margin}    ", break_on_hyphens=False
    )


def _narrowed(cells: list[list[str]]) -> list[list[str]]:
    """Shorter cells, and columns of the middle left out, until a line is short enough."""
    for width in (40, 24, 16, 12):
        cells = [[cut(cell, width) for cell in row] for row in cells]
        if _width(cells) <= COLUMNS:
            return cells
    while _width(cells) > COLUMNS and len(cells[0]) > 4:
        middle = len(cells[0]) // 2
        beside = middle + 1 if cells[0][middle] == "…" else middle  # of the mark of those left out before
        cells = [[*row[:middle], "…", *row[beside + 1 :]] for row in cells]
    return cells


def _width(cells: list[list[str]]) -> int:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return sum(widths) + 2 * (len(widths) - 1)


def cut(cell: str, width: int) -> str:
    """A long text without its middle."""
    return cell if len(cell) <= width else f"{cell[: width // 2]}…{cell[-(width - width // 2 - 1) :]}"


def _to_the_left(formula: str) -> str:
    """A formula within a line, as large as one of its own."""
    return formula.replace(' display="block"', ' displaystyle="true"', 1)


def _safe(words: str) -> str:
    return escape(escaped(words))


def _element(tag: str, inside: str, indent: int = 0) -> str:
    style = f' style="margin-left:{indent / 2:g}em"' if indent else ""
    return f"<{tag}{style}>{inside}</{tag}>"
