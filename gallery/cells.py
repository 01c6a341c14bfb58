"""Cells of a program in the percent format: read, written as a notebook, run.

A cell begins with `# %%`, one of text with `# %% [markdown]`. `# %% quick: draws = 100` says what takes the place of
the cell's numbers in a quick run, after the cell.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import fubini as fb

HEADER = re.compile(r"^# %%(?: (\[markdown\])| quick: (.+))?$", re.MULTILINE)


@dataclass(frozen=True)
class Cell:
    """Text or code, and the numbers of a quick run."""

    is_code: bool
    source: str
    quick: str = ""


@dataclass(frozen=True)
class Output:
    """What a cell printed, the value of its last line, and its picture."""

    text: str
    picture: fb.Picture | None


def parse(program: str) -> list[Cell]:
    """The cells of a program; what stands before the first is not one."""
    headers = list(HEADER.finditer(program))
    ends = [*(header.start() for header in headers[1:]), len(program)]
    cells = []
    for header, end in zip(headers, ends, strict=True):
        body = program[header.end() : end].strip("\n")
        if header[1]:
            body = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.splitlines())
        cells.append(Cell(not header[1], body, header[2] or ""))
    return cells


def to_notebook(cells: Sequence[Cell]) -> dict[str, Any]:
    """A notebook without outputs (nbformat 4.5)."""
    return {
        "cells": [_notebook_cell(place, cell) for place, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _notebook_cell(place: int, cell: Cell) -> dict[str, Any]:
    metadata = {"quick": cell.quick} if cell.quick else {}
    shared = {"id": f"cell-{place}", "metadata": metadata, "source": cell.source.splitlines(keepends=True)}
    if not cell.is_code:
        return {"cell_type": "markdown", **shared}
    return {"cell_type": "code", "execution_count": None, **shared, "outputs": []}


def from_notebook(notebook: dict[str, Any]) -> list[Cell]:
    """The cells of a notebook."""
    return [
        Cell(cell["cell_type"] == "code", "".join(cell["source"]), cell["metadata"].get("quick", ""))
        for cell in notebook["cells"]
    ]


def run(cells: Sequence[Cell], name: str, *, quick: bool) -> Iterator[Output | None]:
    """Run the code in one namespace: an output for each cell of code, none for one of text."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for place, cell in enumerate(cells):
        yield _run_cell(cell, namespace, f"{name}, cell {place}") if cell.is_code else None
        if quick and cell.quick:
            exec(cell.quick, namespace)


def _run_cell(cell: Cell, namespace: dict[str, Any], where: str) -> Output:
    """What a notebook shows: what is printed, and the last line where it is an expression."""
    body = ast.parse(cell.source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), where, "exec"), namespace)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), namespace)
    if isinstance(value, fb.Picture):
        return Output(printed.getvalue(), value)
    return Output(printed.getvalue() + ("" if value is None else f"{value!r}\n"), None)
