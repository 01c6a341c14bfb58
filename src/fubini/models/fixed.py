"""What is part of a model's structure and not a parameter."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import jax


@jax.tree_util.register_pytree_node_class
class Fixed:
    """A value without leaves, equal to others with the same key."""

    def __init__(self, value: Any, key: Hashable = None) -> None:
        self.value = value
        self.key = (type(value), value) if key is None else key

    def tree_flatten(self) -> tuple[tuple, Fixed]:
        return (), self

    @classmethod
    def tree_unflatten(cls, fixed: Fixed, children: tuple) -> Fixed:
        return fixed

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fixed) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)
