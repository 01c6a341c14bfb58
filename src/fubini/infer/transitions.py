"""A sampler of transitions that are JAX functions of one chain: compiled once, for all runs of a target.

On a CPU each chain is a thread of its own: side by side in one vectorised loop, every chain would wait for the longest
transition of all, and take both branches of every condition. On an accelerator they are side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from fubini.base.arrays import Data, is_double_precision
from fubini.errors import Intractable
from fubini.infer.chain_placement import CHAINS, ChainPlacement, Order, chain_placement
from fubini.infer.sampler import Draw, State
from fubini.infer.target import Abstract, abstract

MOST_DRAWS = 64  # that are made by one call of compiled code
MOST_ON_MESH = 1024
MEMORY = 2**26  # bytes that they may take for a chain
SENT_ON = " collective-permute"  # of which XLA makes one for all devices of a mesh; other exchanges are within groups
MEMORY_OF_THREAD = 2**21  # the same where each chain is a thread of its own, for which a call costs little


class Transition(NamedTuple):
    """How one chain begins, moves, and is read; `numbers` are the data that each of them reads."""

    init: Callable[[Data, Any, Any], State]  # of a key, a starting point, and numbers
    step: Callable[[State, Any], State]  # of a state, and numbers
    draw: Callable[[State, Any], Draw]
    fault: Callable[[State, Draw, int], str | None] = lambda state, drawn, transitions: None  # as that of a sampler
    is_vectorised: bool = False  # chains are side by side on a CPU too


class Transitions:
    """The sampler of a transition.

    `starts`, of a key and a number of chains, makes a tree of arrays [chain, …] to begin with. With a mesh, chains lie
    along its axis `chains`.
    """

    def __init__(
        self,
        name: str,
        transition: Transition,
        numbers: Any = (),
        warmup: int = 0,
        starts: Callable[[Data, int], Any] | None = None,
        mesh: Mesh | None = None,
    ) -> None:
        self.name, self.transition, self.numbers, self.warmup = name, transition, numbers, warmup
        self._starts, self._mesh = starts, mesh

    def init(self, key: Data, chains: int) -> State:
        """Start chains: a tree of arrays [chain, …]."""
        starts, keys = (), jax.random.split(key, chains)
        if self._starts is not None:
            first, second = jax.random.split(key)
            starts, keys = self._starts(first, chains), jax.random.split(second, chains)
        is_together = self.transition.is_vectorised or not is_on_cpu(keys)
        order = Order.TOGETHER if is_together else Order.THREADS
        self._placement = chain_placement(order, self.numbers, self._mesh)
        begin, self.numbers = self._placement.put((keys, starts), self.numbers)
        if self._is_threaded:
            each = _apart(begin)
            self._code = self._compiled(each[0])
            return _stacked(self._in_threads(lambda one: self._code.init(one, self.numbers), each))
        self._code = self._compiled(begin)
        if self._code.waits:  # for parts of data that lie on other devices
            self.numbers = self._placement.whole(self.numbers)
            self._code = self._compiled(begin)
        if self._code.waits:
            raise Intractable(
                f"chains along the axis {CHAINS!r} of a mesh with data along others",
                expected="a density for which the devices of each chain communicate by themselves",
                nearest="the compiled program exchanges parts between the devices of all chains",
                advice="leave mesh= out: chains take turns on all devices",
            )
        return self._code.init(begin, self.numbers)

    def _compiled(self, begin: Any) -> Compiled:
        return compiled(self.transition, self._placement, abstract((begin, self.numbers)), is_double_precision())

    @property
    def _is_threaded(self) -> bool:
        return self._placement.order is Order.THREADS

    def _in_threads(self, function: Callable[[Any], Any], items: list) -> list:
        if len(items) == 1:
            return [function(items[0])]
        with ThreadPoolExecutor(min(len(items), os.cpu_count() or 1)) as pool:
            return list(pool.map(function, items))

    def step(self, state: State, skip: int, draws: int, thin: int) -> tuple[State, Draw]:
        """Move all chains."""
        if not self._is_threaded:
            return self._moved(state, skip, draws, thin, 1)
        moved = self._in_threads(lambda one: self._moved(one, skip, draws, thin, 0), _apart(state))
        return _stacked([one for one, _ in moved]), _stacked([drawn for _, drawn in moved])

    def _moved(self, state: State, skip: int, draws: int, thin: int, axis: int) -> tuple[State, Draw]:
        """A state moved, and its draws, which lie along an axis; so many are made at a time."""
        code, parts, made = self._code, [], 0
        while True:
            count = min(code.capacity, draws - made)
            state, buffers = code.step(state, self.numbers, skip, count, thin)
            kept = (slice(None),) * axis + (slice(count),)
            parts.append([{n: x[kept] for n, x in part.items()} for part in self._placement.on_host(buffers)])
            skip, made = 0, made + count
            if made >= draws:
                break
        return state, Draw(
            *({n: np.concatenate([p[i][n] for p in parts], axis) for n in parts[0][i]} for i in range(2))
        )

    def draw(self, state: State) -> Draw:
        """Read the present draws [chain, …]."""
        if not self._is_threaded:
            return Draw(*self._placement.on_host(self._code.draw(state, self.numbers)))
        each = [self._placement.on_host(self._code.draw(one, self.numbers)) for one in _apart(state)]
        return Draw(*_stacked(each))

    def fault(self, state: State, drawn: Draw, transitions: int) -> str | None:
        """The fault of a state."""
        return self.transition.fault(self._placement.on_host(state), drawn, transitions)


def _apart(arrays: Any) -> list[Any]:
    """Trees of arrays, one for each chain, of arrays [chain, …]."""
    leaves, tree = jax.tree_util.tree_flatten(arrays)
    return [jax.tree_util.tree_unflatten(tree, [leaf[c] for leaf in leaves]) for c in range(len(leaves[0]))]


def _stacked(chains: list[Any]) -> Any:
    """Arrays [chain, …] of trees of arrays, one for each chain."""
    return jax.tree_util.tree_map(
        lambda *each: np.stack(each) if isinstance(each[0], np.ndarray) else jnp.stack(each), *chains
    )


def is_on_cpu(array: Data) -> bool:
    """Whether an array is held by CPUs alone."""
    return all(device.platform == "cpu" for device in array.devices())


class Compiled(NamedTuple):
    """The functions of a transition, compiled for one chain, or for all."""

    init: Callable[..., State]
    step: Callable[..., tuple[State, Draw]]
    draw: Callable[[State, Any], Draw]
    capacity: int  # how many draws a call makes at most
    waits: bool  # whether chains on other devices, which may have more steps to make, are waited for


@lru_cache(maxsize=64)
def compiled(transition: Transition, placement: ChainPlacement, given: Abstract, float64: bool) -> Compiled:
    """Compile before threads begin, which would each do it again; `float64` is the precision in force."""
    chains, numbers = jax.tree_util.tree_unflatten(*given)
    jit = jax.jit if placement.mesh is None else partial(jax.jit, out_shardings=placement.sharding)
    begin = jit(placement.over_chains(partial(_begun, transition)))
    state = _lying(jax.eval_shape(begin, chains, numbers), placement)
    read = jit(placement.over_chains(transition.draw))
    many = 1 if placement.order is Order.THREADS else len(jax.tree_util.tree_leaves(chains)[0])
    capacity = _capacity(jax.eval_shape(read, state, numbers), many, placement)

    def advance(state: State, numbers: Any, skip: Data, draws: Data, thin: Data) -> tuple[State, Draw]:
        def one(number: Data, carried: tuple[State, Draw]) -> tuple[State, Draw]:
            state = transition.step(carried[0], numbers)
            place = jnp.clip((number - skip) // thin, 0, capacity - 1)  # overwritten up to the last of `thin`
            put = partial(jax.lax.dynamic_update_index_in_dim, index=place, axis=0)
            return state, jax.tree_util.tree_map(put, carried[1], transition.draw(state, numbers))

        drawn = jax.eval_shape(transition.draw, state, numbers)
        empty = jax.tree_util.tree_map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), drawn)
        return jax.lax.fori_loop(0, skip + draws * thin, one, (state, empty))

    count = jax.ShapeDtypeStruct((), np.int32)
    executable = jit(placement.over_chains(advance)).lower(state, numbers, count, count, count).compile()
    first, last = begin.lower(chains, numbers).compile(), read.lower(state, numbers).compile()
    waits = placement.axis is not None and any(SENT_ON in (one.as_text() or "") for one in (first, executable, last))
    return Compiled(first, partial(_called, executable), last, capacity, waits)


def _begun(transition: Transition, one: tuple[Data, Any], numbers: Any) -> State:
    """The state with which one chain begins."""
    return transition.init(*one, numbers)


def _lying(state: Any, placement: ChainPlacement) -> Any:
    """Shapes of a state, on the devices of the placement."""
    if placement.mesh is None:
        return state

    def lying(x: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=placement.sharding, weak_type=x.weak_type)

    return jax.tree_util.tree_map(lying, state)


def _called(executable: Callable, state: State, numbers: Any, skip: int, draws: int, thin: int) -> tuple[State, Draw]:
    return executable(state, numbers, *(np.asarray(count, np.int32) for count in (skip, draws, thin)))


def _capacity(drawn: Any, chains: int, placement: ChainPlacement) -> int:
    """How many draws there is room for; over a mesh more, as chains wait for each other after these."""
    size = sum(x.size * x.dtype.itemsize for x in jax.tree_util.tree_leaves(drawn)) // chains
    memory = MEMORY_OF_THREAD if placement.order is Order.THREADS else MEMORY
    return int(np.clip(memory // max(size, 1), 1, MOST_DRAWS if placement.mesh is None else MOST_ON_MESH))
