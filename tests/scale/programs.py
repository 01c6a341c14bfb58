"""The compiled programs behind questions, and what devices communicate in them."""

import math
import re
from collections.abc import Callable
from typing import Any

import jax
import pytest

from fubini.numerics import in_range

COLLECTIVE = re.compile(r"\b(all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(-start)?\(")
SHAPE = re.compile(r"\b[a-z]+\d+\[([\d,]*)\]")
CALLED = re.compile(
    r"\b(?:body|condition|to_apply|calls|branch_computations|true_computation|false_computation)=([^=]*)"
)


def programs(ask: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text of the programs that answer a question to known arrays, and nothing of it fetched."""
    texts: list[str] = []
    compiled = in_range._compiled

    def recorded(*key: Any) -> Callable[..., Any]:
        function = compiled(*key)

        def run(*given: Any) -> Any:
            texts.append(function.lower(*given).compile().as_text())
            return function(*given)

        return run

    monkeypatch.setattr(in_range, "_compiled", recorded)
    ask()
    monkeypatch.undo()
    assert texts, "a compiled question"
    return texts


def program(function: Callable[..., Any], *given: Any) -> str:
    """The text of a compiled function."""
    return jax.jit(function).lower(*given).compile().as_text()


def _computations(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if (begun := re.match(r"(?:ENTRY )?%?([\w.\-]+) \(.*\{$", line)) is not None:
            name = begun.group(1)
            found[name] = []
        elif name:
            found[name].append(line)
    return found


def in_loops(text: str) -> list[str]:
    """The lines that communicate inside of the body of a loop."""
    computations = _computations(text)
    waiting = [name for lines in computations.values() for line in lines for name in _bodies(line)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += [called for line in computations.get(name, []) for called in _called(line)]
    return [line.strip() for name in seen for line in computations.get(name, []) if COLLECTIVE.search(line)]


def _bodies(line: str) -> list[str]:
    return re.findall(r"(?:body|condition)=%?([\w.\-]+)", line) if " while(" in line else []


def _called(line: str) -> list[str]:
    return [name for group in CALLED.findall(line) for name in re.findall(r"%([\w.\-]+)", group)]


def most_communicated(text: str) -> int:
    """The most numbers that one result of a collective has."""
    sizes = [0]
    for line in text.splitlines():
        if (found := COLLECTIVE.search(line)) is not None:
            shapes = SHAPE.findall(line[: found.start()])
            sizes.append(sum(math.prod(int(size) for size in shape.split(",") if size) for shape in shapes))
    return max(sizes)
