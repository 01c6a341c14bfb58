"""Elements of HTML: text is escaped wherever it comes from, and only what was made here is not."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

from fubini.errors import escaped

VOID = frozenset({"meta", "br"})
NAMES = re.compile(r"[a-zA-Z][\w:-]*")


class Markup(str):
    """HTML that is written as it is."""


Part = str | Markup | Iterable["Part"] | None


def element(tag: str, *parts: Part, **attributes: str | int | float | None) -> Markup:
    """An element with its parts; `class_` stands for class, and an underscore for a hyphen.

    >>> element("p", "a < b", element("b", "c"), class_="note")
    '<p class="note">a &lt; b<b>c</b></p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(escaped(str(value)))}"'
        for key, value in attributes.items()
        if value is not None
    )
    assert NAMES.fullmatch(tag)
    return Markup(f"<{tag}{written}>" if tag in VOID else f"<{tag}{written}>{joined(*parts)}</{tag}>")


def joined(*parts: Part) -> Markup:
    """Parts one after another."""
    return Markup("".join(_written(part) for part in parts))


def _written(part: Part) -> str:
    if part is None or isinstance(part, Markup):
        return part or ""
    if isinstance(part, str):
        return escape(escaped(part, keep="\n\t"))
    return "".join(map(_written, part))


def table(caption: str, head: Iterable[Part], rows: Iterable[Iterable[Part]]) -> Markup:
    """A table that scrolls sideways where the window is narrow; the first cell of a row is its heading."""
    columns = element("tr", [element("th", name, scope="col") for name in head])
    body = [element("tr", [_cell(place, cell) for place, cell in enumerate(row)]) for row in rows]
    inside = element("table", element("caption", caption), element("thead", columns), element("tbody", body))
    return element("div", inside, class_="wide", tabindex="0", role="region", aria_label=caption)


def _cell(place: int, cell: Part) -> Markup:
    return element("td", cell) if place else element("th", cell, scope="row")


def section(identifier: str, title: str, *parts: Part) -> Markup:
    """A part of the report under a heading."""
    heading = element("h2", title, id=f"{identifier}-title")
    return element("section", heading, *parts, id=identifier, aria_labelledby=f"{identifier}-title")
