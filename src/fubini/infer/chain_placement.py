"""Where chains run: each by a thread of its own, side by side, or in turn; over a mesh, some on each of its parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from fubini.base.fingerprints import spans_processes
from fubini.base.processes import on_host, placed
from fubini.base.sharded_array import auto_mesh, in_words, sharding_on_mesh
from fubini.errors import DomainError, UnknownName, closest, listed

CHAINS = "chains"  # the axis of a mesh


class Order(Enum):
    """How the chains of one device run."""

    THREADS = "each by a thread"
    TOGETHER = "side by side"
    IN_TURN = "one after another"


class ChainPlacement(NamedTuple):
    """How chains run, on what mesh, and along which of its axes they lie; the data may lie along the others."""

    order: Order
    mesh: Mesh | None = None
    axis: str | None = None

    @property
    def sharding(self) -> NamedSharding:
        """Of arrays [chain, …] on the mesh."""
        assert self.mesh is not None
        return NamedSharding(self.mesh, PartitionSpec(self.axis))

    def put(self, chains: Any, numbers: Any) -> tuple[Any, Any]:
        """Arrays [chain, …] and data on the mesh; data that lie on it stay where they are."""
        if self.mesh is None:
            return chains, numbers
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        return (
            jax.tree_util.tree_map(lambda x: placed(x, self.sharding), chains),
            jax.tree_util.tree_map(lambda x: x if _mesh_of(x) == self.mesh else placed(x, everywhere), numbers),
        )

    def whole(self, numbers: Any) -> Any:
        """Data on the mesh, whole on each device."""
        assert self.mesh is not None
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        return jax.jit(lambda arrays: arrays, out_shardings=everywhere)(numbers)

    def over_chains(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of arrays of one chain, and of what chains share, for all chains.

        On a mesh each of its parts along the axis goes on by itself: loops end there when its own chains have ended.
        """
        if self.order is Order.THREADS:
            return function
        every = jax.vmap if self.order is Order.TOGETHER else _in_turn

        def of_all(chains: Any, *shared: Any) -> Any:
            return every(lambda one: function(one, *shared))(chains)

        if self.axis is None:
            return of_all
        along, same = PartitionSpec(self.axis), PartitionSpec()

        def over_axis(chains: Any, *shared: Any) -> Any:
            spread = jax.shard_map(
                of_all,
                mesh=self.mesh,
                in_specs=(along, *(same for _ in shared)),
                out_specs=along,
                axis_names={self.axis},
                check_vma=False,  # the sampler's conditions mix what differs between chains with constants
            )
            return spread(chains, *shared)

        return over_axis

    @staticmethod
    def on_host(arrays: Any) -> Any:
        """Arrays as NumPy's, in each process."""
        return jax.tree_util.tree_map(on_host, arrays)


def _in_turn(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda chains: jax.lax.map(function, chains)


def chain_placement(order: Order, numbers: Any, mesh: Mesh | None) -> ChainPlacement:
    """Chains on the mesh that was asked for, else on that of the data, where they use all its devices together.

    Programs of several devices cannot be run by threads: each device would have to take them in the same order.
    """
    on = mesh if mesh is not None else next(filter(None, map(_mesh_of, jax.tree_util.tree_leaves(numbers))), None)
    if on is None:
        return ChainPlacement(order)
    order = Order.IN_TURN if order is Order.THREADS else order
    return ChainPlacement(order, auto_mesh(on), None if mesh is None else CHAINS)


def _mesh_of(array: Any) -> Mesh | None:
    """The mesh that an array lies on, also where each device holds all of it."""
    sharding = sharding_on_mesh(array)
    return None if sharding is None else sharding.mesh  # type: ignore[return-value]


def require_chains_axis(mesh: Any, chains: int, question: str = "infer", data: Mesh | None = None) -> None:
    """Raise unless chains can lie along the axis `chains` of a mesh, and as many in each of several processes.

    Data lie on the same mesh or on none.
    """
    asked = f"{question}(…, mesh={dict(mesh.shape) if isinstance(mesh, Mesh) else mesh!r})"
    advice = f'jax.make_mesh((2, 4), ("{CHAINS}", "rows")) has two groups of four devices; the data lie along "rows"'
    if not isinstance(mesh, Mesh):
        raise DomainError(asked, expected=f"a mesh of devices with an axis {CHAINS!r}", advice=advice)
    if CHAINS not in mesh.axis_names:
        raise UnknownName(
            asked,
            expected=f"an axis {CHAINS!r}",
            nearest=closest(CHAINS, mesh.axis_names) or f"its axes are {listed(mesh.axis_names)}",
            advice=advice,
        )
    parts, where = mesh.shape[CHAINS], "part of the mesh"
    if question != "infer" and spans_processes(mesh):
        parts, where = math.lcm(parts, jax.process_count()), "process"
    if chains % parts:
        raise DomainError(
            f"{asked} of {chains} chains",
            expected=f"a multiple of {parts}, so that each {where} has as many chains",
            nearest=f"chains={-(-chains // parts) * parts}",
        )
    if data is not None and data != auto_mesh(mesh):
        raise DomainError(
            f"{question}(…, mesh={in_words(mesh, data)}) of data on the mesh {in_words(data, mesh)}",
            expected="data on the same mesh, or on none",
            advice='fb.shard(x, mesh, "rows") moves an array to another mesh',
        )
