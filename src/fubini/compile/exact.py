"""Exact posteriors as one function of arrays: parameters of distributions, sums fused into few passes over the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fubini.algebra.binding import escapes, opened, remade, replaced
from fubini.algebra.build import get, index
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite
from fubini.compile.array_names import Evaluate, Names
from fubini.compile.emit import HEAD, LoopWriter, helpers
from fubini.compile.hoist import Store, hoisted
from fubini.errors import NoRule

FAST = '{"reassoc", "nsz", "contract", "arcp"}'  # sums in any order; nothing is assumed of infinities


class Output(NamedTuple):
    """A number for each place of some indices."""

    name: str
    at: tuple[Index, ...]
    value: Node


class Function(NamedTuple):
    """The text of a function of arrays, in this order; outputs come last."""

    source: str
    arguments: tuple[str, ...]
    data: Mapping[str, Leaf]
    outputs: Mapping[str, tuple[int, ...]]


def function_of(outputs: Sequence[Output], evaluate: Evaluate, known: frozenset[Leaf]) -> Function:
    """Write one function that fills all outputs."""
    outputs = [output._replace(value=settled(output.value)) for output in outputs]
    names = Names(evaluate)
    writer = LoopWriter(names, names.sizes.text)
    env: dict = {}
    for level in levels([output.value for output in outputs]):
        _passes(writer, level, env)
    results = {names.name(f"out_{output.name}"): output for output in outputs}
    for name, output in results.items():
        _fill(writer, name, output, env)
    data = {array.name: leaf for leaf, array in names.items() if leaf in known or leaf.role == "site"}
    rest = [array.name for leaf, array in names.items() if array.name not in data]
    if rest:
        raise NoRule(
            f"one function of arrays for {', '.join(output.name for output in outputs)}",
            expected="sums over data and arguments of the model as they are",
            nearest=f"{', '.join(rest)} is computed from them by a function that loops do not have",
        )
    arguments = (*data, *results)
    head = f'@njit(cache=True, fastmath={FAST}, error_model="numpy")\ndef value({", ".join(arguments)}):'
    body = "\n".join([head, *("    " + line for line in writer.lines)]) + "\n"
    source = "\n\n".join([HEAD, *filter(None, [helpers(body)]), body])
    return Function(source, arguments, data, {n: tuple(i.size for i in o.at) for n, o in results.items()})


def levels(roots: Sequence[Node]) -> list[list[Node]]:
    """Sums without free indices, those that others read first."""
    depth: dict[Node, int] = {}

    def is_whole_sum(of: Node) -> bool:
        return of.kind == "sum" and not of.free and not escapes(of)

    for root in roots:
        rewrite(root, lambda of, visit: max(map(visit, of.children), default=0) + is_whole_sum(of), depth)
    by_depth: dict[int, list[Node]] = {}
    for of, place in depth.items():
        if is_whole_sum(of):
            by_depth.setdefault(place, []).append(of)
    return [by_depth[place] for place in sorted(by_depth)]


def _passes(writer: LoopWriter, level: Sequence[Node], env: dict) -> None:
    """Sums over indices of the same sizes in one loop."""
    groups: dict[tuple[int, ...], list[Node]] = {}
    for of in level:
        groups.setdefault(of.args[0], []).append(of)
    for group in groups.values():
        over, _ = opened(group[0])
        bodies = _outside(writer, [_along(of, over) for of in group], over, env)
        sums = [writer.fresh("sum") for _ in group]
        for name in sums:
            writer.line(f"{name} = 0.0")
        depth = writer.depth
        inner = {**env, **{i: writer.fresh("j") for i in over}}
        for i in over:
            writer.line(f"for {inner[i]} in range({writer.size(i.size)}):")
            writer.depth += 1
        for name, body in zip(sums, bodies, strict=True):
            writer.line(f"{name} += {writer.bare(body, inner)}")
        writer.depth = depth
        env.update(zip(group, sums, strict=True))


def _outside(writer: LoopWriter, bodies: Sequence[Node], over: tuple[Index, ...], env: dict) -> list[Node]:
    """Bodies of a loop, with what is the same for all items in variables before it."""
    store = Store("a")
    inner = [hoisted(body, lambda node: not node.free and bool(node.leaves), store) for body in bodies]
    for kept in store.kept.values():
        env[get(kept.leaf)] = writer.fresh("a")
        writer.line(f"{env[get(kept.leaf)]} = {writer.bare(kept.value, env)}")
    return inner


def settled(of: Node) -> Node:
    """Rebuild every sum, with factors that are the same for all items before it."""

    def settle(this: Node, visit: Callable[[Node], Node]) -> Node:
        inner = remade(this, visit)
        return total(*opened(inner)) if inner.kind == "sum" else inner

    return rewrite(of, settle)


def _along(of: Node, over: tuple[Index, ...]) -> Node:
    own, body = opened(of)
    return replaced(body, dict(zip(map(index, own), map(index, over), strict=True)))


def _fill(writer: LoopWriter, name: str, output: Output, env: dict) -> None:
    inner, depth = dict(env), writer.depth
    for i in output.at:
        inner[i] = writer.fresh("i")
        writer.line(f"for {inner[i]} in range({writer.size(i.size)}):")
        writer.depth += 1
    places = ", ".join(inner[i] for i in output.at) or "()"
    writer.line(f"{name}[{places}] = {writer.bare(output.value, inner)}")
    writer.depth = depth


def room(function: Function) -> Iterator[np.ndarray]:
    """Allocate arrays for the outputs."""
    for shape in function.outputs.values():
        yield np.zeros(shape)
