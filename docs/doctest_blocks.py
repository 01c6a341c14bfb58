"""Doctests in docstrings as blocks of code, for the reference: Markdown takes their prompts for quotations."""

import re
from typing import Any

import griffe

DOCTEST = re.compile(r"^>>> .*\n?(?:^.*\S.*\n?)*", re.MULTILINE)


def fence_doctests(text: str) -> str:
    """Each run of lines from a prompt to an empty line, fenced."""
    return DOCTEST.sub(lambda lines: f"\n```pycon\n{lines[0].rstrip()}\n```\n", text)


class DoctestBlocks(griffe.Extension):
    """Fences the doctests of every docstring."""

    def on_object(self, *, obj: Any, **others: Any) -> None:
        """Called for each object once it is loaded."""
        if obj.docstring is not None:
            obj.docstring.value = fence_doctests(obj.docstring.value)
