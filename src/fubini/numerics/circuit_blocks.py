"""Layers of a circuit in blocks of one shape: a loop over a block is compiled once, however many layers it has.

The nodes of a layer, each with its elements, are a matrix of element numbers; rows and columns that a layer lacks are
filled up. The blocks are chosen so that little is filled up and few have to be compiled.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fubini.numerics.circuit_structure import CircuitStructure, Integers

SHARE_OF_A_BLOCK = 0.1  # of all elements: the filling that one block less to compile is worth


class Block(NamedTuple):
    """Consecutive layers, (layers, nodes, elements): numbers of elements, their primes and subs, and first nodes.

    What is filled up has the number after the last element, and as prime and sub the row after the last node.
    """

    elements: Integers
    prime: Integers
    sub: Integers
    first: Integers  # the first node of each layer


class Blocks(NamedTuple):
    """All blocks, lowest first, and the rows after the nodes: room for what is filled up, then one row of zeros."""

    blocks: tuple[Block, ...]
    room: int


@lru_cache(maxsize=256)
def blocks_of(structure: CircuitStructure) -> Blocks:
    """The layers of a structure in blocks."""
    shapes = [_shape(structure, number) for number in range(len(structure.layers))]
    cuts = _cut(shapes, SHARE_OF_A_BLOCK * structure.size)
    room = 1 + max((nodes for nodes, _ in shapes), default=0)
    blocks = tuple(_block(structure, shapes, begin, end, room) for begin, end in cuts)
    return Blocks(blocks, room)


def _shape(structure: CircuitStructure, number: int) -> tuple[int, int]:
    """The number of nodes of a layer, and the most elements that one of them has."""
    layer = structure.layers[number]
    return len(layer.starts), int(np.bincount(layer.owners).max())


def _cut(shapes: list[tuple[int, int]], price: float) -> list[tuple[int, int]]:
    """The runs of layers with the least cells in all, each run costing its price besides (dynamic programming)."""
    best: list[tuple[float, list[tuple[int, int]]]] = [(0.0, [])]
    for end in range(1, len(shapes) + 1):
        options: list[tuple[float, int]] = []
        nodes = elements = 0
        for begin in reversed(range(end)):
            nodes, elements = max(nodes, shapes[begin][0]), max(elements, shapes[begin][1])
            options.append((best[begin][0] + (end - begin) * nodes * elements + price, begin))
        cost, begin = min(options)
        best.append((cost, [*best[begin][1], (begin, end)]))
    return best[-1][1]


def _block(structure: CircuitStructure, shapes: list[tuple[int, int]], begin: int, end: int, room: int) -> Block:
    """These layers as one block."""
    nodes, elements = (max(shape[axis] for shape in shapes[begin:end]) for axis in (0, 1))
    numbers = np.full((end - begin, nodes, elements), structure.size, np.int32)
    for step, layer in enumerate(structure.layers[begin:end]):
        column = np.arange(len(layer.owners)) - layer.starts[layer.owners]
        numbers[step, layer.owners, column] = np.arange(layer.elements.start, layer.elements.stop)
    last = structure.count + room - 1
    prime, sub = (
        np.append(part, np.int32(last)).astype(np.int32)[numbers] for part in (structure.prime, structure.sub)
    )
    first = np.asarray([layer.nodes.start for layer in structure.layers[begin:end]], np.int32)
    return Block(numbers, prime, sub, first)
