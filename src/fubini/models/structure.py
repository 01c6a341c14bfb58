"""What a model computes apart from its numbers: models that differ in their data alone are compiled for once."""

from __future__ import annotations

import dataclasses
import hashlib
import types
from collections.abc import Hashable, Mapping
from typing import Any

from fubini.algebra.node import Index, Leaf, Node

PLAIN = (bool, int, float, complex, str, bytes, type(None))
OBJECTS = (type, types.FunctionType, types.BuiltinFunctionType)


class NotComparable(Exception):
    """Something whose structure is not known, such as an opaque function."""


class Structure:
    """Digests of terms in which leaves and indices are known by their places, and sums and products have no order."""

    def __init__(self, leaves: Mapping[Leaf, Hashable]) -> None:
        self.leaves = leaves
        self.indices: dict[Index, int] = {}
        self.nodes: dict[Node, bytes] = {}
        self.objects: list[Any] = []  # functions and classes, which are compared themselves

    def of(self, thing: Any) -> bytes:
        """Equal for two things that are the same but for the numbers of their leaves, if their objects are too."""
        if isinstance(thing, Node):
            known = self.nodes.get(thing)
            if known is None:
                known = self.nodes[thing] = self._of_node(thing)
            return known
        if isinstance(thing, Leaf):
            if thing not in self.leaves:
                raise NotComparable(thing.name)
            return _digest("leaf", repr(self.leaves[thing]))
        if isinstance(thing, Index):
            return _digest("index", self.indices.setdefault(thing, len(self.indices)), thing.size)
        if isinstance(thing, PLAIN):
            return _digest(type(thing).__name__, repr(thing))
        if isinstance(thing, OBJECTS):
            self.objects.append(thing)
            return _digest("object", thing.__qualname__)
        if isinstance(thing, tuple | list):
            return _digest(type(thing).__qualname__, *map(self.of, thing))
        if isinstance(thing, Mapping):
            return _digest("mapping", *(part for pair in thing.items() for part in map(self.of, pair)))
        if isinstance(thing, set | frozenset):
            return _digest("set", *sorted(map(self.of, thing)))
        if dataclasses.is_dataclass(thing):
            fields = (self.of(getattr(thing, field.name)) for field in dataclasses.fields(thing))
            return _digest(type(thing).__qualname__, *fields)
        raise NotComparable(repr(type(thing)))

    def _of_node(self, node: Node) -> bytes:
        parts = [self.of(part) for part in node.args]
        return _digest(node.kind, *(sorted(parts) if node.is_commutative else parts))


def _digest(*parts: Any) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode()
        found.update(len(content).to_bytes(4, "little"))
        found.update(content)
    return found.digest()
