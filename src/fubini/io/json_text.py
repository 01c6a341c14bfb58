"""JSON texts, read within limits: nesting, long numbers and repeated keys are refused before they do harm."""

from __future__ import annotations

import json
import re
from typing import Any

from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import FileFormatError
from fubini.io.text import SourceText

_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|(?P<open>[\[{])|(?P<close>[\]}])', re.DOTALL)
LONGEST_INTEGER = 309  # digits: no longer one is a double


def load_json(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> Any:
    """Parse a JSON text.

    >>> load_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    limits.require("depth", _depth(text), source)

    def integer(digits: str) -> int | float:
        return int(digits) if len(digits) <= LONGEST_INTEGER else float("inf")

    def unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for key, value in pairs:
            if key in made:
                raise FileFormatError(f"{source}: the key {key!r} twice in one object", expected="each key once")
            made[key] = value
        return made

    try:
        return json.loads(text, parse_int=integer, object_pairs_hook=unrepeated)
    except json.JSONDecodeError as error:
        raise SourceText(text, source).error(error.pos, f"not JSON: {error.msg}") from error


def _depth(text: str) -> int:
    """The depth of nested brackets, outside strings."""
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        if match["open"]:
            depth += 1
            deepest = max(deepest, depth)
        elif match["close"]:
            depth -= 1
    return deepest
