"""The variable that a generator assigns to what it is sent: the name of a site, or of a draw."""

from __future__ import annotations

import dis
import types
from functools import lru_cache
from typing import Any

STORES = ("STORE_FAST", "STORE_DEREF", "STORE_NAME", "STORE_GLOBAL")
STORES_AND_MORE = ("STORE_FAST_LOAD_FAST", "STORE_FAST_STORE_FAST")  # two instructions in one; the store comes first
BETWEEN = ("RESUME", "EXTENDED_ARG", "NOP", "CACHE")  # instructions that leave the value sent where it is


def target(generator: Any) -> str | None:
    """The variable that the value sent to a generator will be assigned to."""
    while isinstance(inner := generator.gi_yieldfrom, types.GeneratorType):
        generator = inner
    frame = generator.gi_frame
    return _targets(frame.f_code).get(frame.f_lasti)


@lru_cache(maxsize=1024)
def _targets(code: types.CodeType) -> dict[int, str]:
    """The name that the value of a yield is stored to at once, by the offsets of the yield and what follows it.

    A generator stops at its yield up to Python 3.12, from 3.13 on at the RESUME behind it.
    """
    names = {}
    instructions = list(dis.get_instructions(code))
    for position, instruction in enumerate(instructions):
        if instruction.opname == "YIELD_VALUE":
            offsets, store = _store_after(instructions, position)
            if store is not None:
                names.update(dict.fromkeys(offsets, store))
    return names


def _store_after(instructions: list[dis.Instruction], position: int) -> tuple[list[int], str | None]:
    """Offsets from a yield to the next instruction that uses its value, and the name which that one stores to."""
    offsets = [instructions[position].offset]
    for instruction in instructions[position + 1 :]:
        if instruction.opname not in BETWEEN:
            return offsets, _stored(instruction)
        offsets.append(instruction.offset)
    return offsets, None


def _stored(instruction: dis.Instruction) -> str | None:
    if instruction.opname in STORES_AND_MORE:
        return instruction.argval[0]
    return instruction.argval if instruction.opname in STORES else None
