"""The variable that a generator assigns to what it is sent: the name of a site, or of a draw."""

from __future__ import annotations

import dis
import types
from functools import lru_cache
from typing import Any


def target(generator: Any) -> str | None:
    """The variable that the value sent to a generator will be assigned to."""
    while isinstance(inner := generator.gi_yieldfrom, types.GeneratorType):
        generator = inner
    frame = generator.gi_frame
    return _targets(frame.f_code).get(frame.f_lasti)


@lru_cache(maxsize=1024)
def _targets(code: types.CodeType) -> dict[int, str]:
    """Where a yield stands in the code: the name that its value is stored to at once."""
    found = {}
    instructions = list(dis.get_instructions(code))
    for place, instruction in enumerate(instructions):
        if instruction.opname == "YIELD_VALUE":
            after = next((other for other in instructions[place + 1 :] if other.opname != "RESUME"), None)
            if after is not None and after.opname in ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL"):
                found[instruction.offset] = after.argval
            elif after is not None and after.opname in ("STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST"):
                found[instruction.offset] = after.argval[0]
    return found
