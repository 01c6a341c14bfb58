"""Pages of the gallery: cells and what they gave, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gallery.cells import Cell, Output

OUTPUT = re.compile(r"```text\n.*?\n```\n\n|!\[[^\n]*\n\n", re.DOTALL)  # what a run adds to a page
WIDTH = 320  # of a picture on the index


def title(cells: Sequence[Cell]) -> str:
    """The heading of the first cell."""
    return cells[0].source.splitlines()[0].removeprefix("# ")


def first_sentence(cells: Sequence[Cell]) -> str:
    """The question that a model answers: the first paragraph."""
    return cells[0].source.split("\n\n")[1].replace("\n", " ")


def page(name: str, cells: Sequence[Cell], outputs: Sequence[Output | None] | None = None) -> str:
    """The page of a model; without outputs, what does not depend on a run."""
    parts, pictures = [], 0
    for cell, output in zip(cells, outputs or [None] * len(cells), strict=True):
        parts.append(f"```python\n{cell.source}\n```" if cell.is_code else cell.source)
        if output is not None and output.text:
            parts.append(f"```text\n{output.text.rstrip()}\n```")
        if output is not None and output.picture is not None:
            pictures += 1
            file = f"pictures/{name}{f'_{pictures}' if pictures > 1 else ''}.png"
            parts.append(f"![{_escaped(output.picture.text)}]({file})")
    parts.append(f"As a notebook: [{name}.ipynb](notebooks/{name}.ipynb).")
    return "\n\n".join(parts) + "\n"


def without_outputs(text: str) -> str:
    """A page less what a run added to it."""
    return OUTPUT.sub("", text)


def _escaped(text: str) -> str:
    return re.sub(r"([\[\]*_`<>|])", r"\\\1", text)


def index(rows: Mapping[str, Sequence[tuple[str, str, str]]]) -> str:
    """The list of all models: by theme, each with its picture and its question."""
    parts = [
        "# Gallery",
        "Models as one writes them, what is integrated out of each, and a picture. All numbers and pictures come from "
        "running the pages: `python -m gallery` makes them again. Each is a notebook too; those that read data look in "
        "the folder that the variable `FUBINI_DATA` names.",
    ]
    for theme, models in rows.items():
        parts.append(f"## {theme}")
        for name, heading, question in models:
            parts.append(f"### [{heading}]({name}.md)\n\n{question}")
            parts.append(f'<a href="{name}/"><img src="pictures/{name}.png" alt="{heading}" width="{WIDTH}"></a>')
    return "\n\n".join(parts) + "\n"
