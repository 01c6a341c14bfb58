"""A component of a joint distribution with a name of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class Named:
    """`dist.Normal(0., 1.).named("x")`."""

    component: Any
    name: str

    def tree_flatten(self) -> tuple[tuple, str]:
        return (self.component,), self.name

    @classmethod
    def tree_unflatten(cls, name: str, children: tuple) -> Named:
        return cls(children[0], name)
