"""A sampler of transitions that are JAX functions of one chain: compiled once, for all runs of a target.

On a CPU each chain is a thread of its own: side by side in one vectorised loop, every chain would wait for the longest
transition of all, and take both branches of every condition. On an accelerator they are side by side. Where the data
lie on a mesh, chains take turns: each uses all devices, and of two programs at once each may wait for the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from fubini.base.arrays import Data, is_double_precision
from fubini.base.sharded_array import same_mesh
from fubini.infer.sampler import Draw, State
from fubini.infer.stored_states import first_fault
from fubini.infer.target import Abstract, abstract

MOST_DRAWS = 64  # that are made by one call of compiled code
MEMORY = 2**26  # bytes that they may take for a chain


class Transition(NamedTuple):
    """How one chain begins, moves, and is read; `numbers` are the data that each of them reads."""

    init: Callable[[Data, Any, Any], State]  # of a key, a starting point, and numbers
    step: Callable[[State, Any], State]  # of a state, and numbers
    draw: Callable[[State, Any], Draw]
    fault: Callable[[State, Draw, int], str | None] = lambda state, drawn, transitions: None  # as that of a sampler
    is_vectorised: bool = False  # chains are side by side on a CPU too


class Transitions:
    """The sampler of a transition.

    `starts`, of a key and a number of chains, makes a tree of arrays [chain, …] to begin with.
    """

    def __init__(
        self,
        name: str,
        transition: Transition,
        numbers: Any = (),
        warmup: int = 0,
        starts: Callable[[Data, int], Any] | None = None,
    ) -> None:
        self.name, self.transition, self.warmup = name, transition, warmup
        self.numbers, self._everywhere = same_mesh(numbers)
        self._starts = starts

    def init(self, key: Data, chains: int) -> State:
        """Start chains: a list of states, one for each thread."""
        starts, keys = (), jax.random.split(key, chains)
        if self._starts is not None:
            first, second = jax.random.split(key)
            starts, keys = self._starts(first, chains), jax.random.split(second, chains)
        if self._everywhere is not None:
            keys, starts = jax.device_put((keys, starts), self._everywhere)
        if self._is_vectorised(keys):
            return [self._compiled(keys, starts).init(keys, starts, self.numbers)]
        each = [(keys[c], jax.tree_util.tree_map(lambda x, c=c: x[c], starts)) for c in range(chains)]
        begin = self._compiled(*each[0]).init
        return self._in_threads(lambda one: begin(*one, self.numbers), each)

    def _is_vectorised(self, keys: Data) -> bool:
        return self.transition.is_vectorised or not is_on_cpu(keys)

    def _compiled(self, keys: Data, starts: Any) -> Compiled:
        self._code = compiled(
            self.transition,
            self._is_vectorised(keys),
            abstract((keys, starts, self.numbers)),
            is_double_precision(),
            self._everywhere,
        )
        return self._code

    def _in_threads(self, function: Callable[[Any], Any], items: list) -> list:
        if len(items) == 1 or self._everywhere is not None:
            return [jax.block_until_ready(function(item)) for item in items]
        with ThreadPoolExecutor(min(len(items), os.cpu_count() or 1)) as pool:
            return list(pool.map(function, items))

    def step(self, state: list[State], skip: int, draws: int, thin: int) -> tuple[list[State], Draw]:
        """Move all chains."""
        moved = self._in_threads(lambda one: self._moved(one, skip, draws, thin), state)
        return [one for one, _ in moved], self._joined([drawn for _, drawn in moved])

    def _moved(self, state: State, skip: int, draws: int, thin: int) -> tuple[State, Draw]:
        """One state moved, and its draws [draw, …], so many at a time."""
        code, parts, made = self._code, [], 0
        while True:
            count = min(code.capacity, draws - made)
            state, buffers = code.step(state, self.numbers, skip, count, thin)
            parts.append([{n: np.asarray(x)[:count] for n, x in part.items()} for part in buffers])
            skip, made = 0, made + count
            if made >= draws:
                break
        return state, Draw(*({n: np.concatenate([p[i][n] for p in parts]) for n in parts[0][i]} for i in range(2)))

    def _joined(self, each: list[Draw]) -> Draw:
        """Draws [chain, draw, …] of those of each thread, [draw, …] or [draw, chain, …]."""
        if self._code.is_vectorised:
            return Draw(*({n: np.swapaxes(x, 0, 1) for n, x in part.items()} for part in each[0]))
        return Draw(*({n: np.stack([one[i][n] for one in each]) for n in each[0][i]} for i in range(2)))

    def draw(self, state: list[State]) -> Draw:
        """Read the present draws [chain, …]."""
        each = [self._code.draw(one, self.numbers) for one in state]
        if self._code.is_vectorised:
            return Draw(*each[0])
        return Draw(*({n: np.stack([np.asarray(one[i][n]) for one in each]) for n in each[0][i]} for i in range(2)))

    def fault(self, state: list[State], drawn: Draw, transitions: int) -> str | None:
        """The first fault of a state."""
        return first_fault(self.transition.fault(one, drawn, transitions) for one in state)


def is_on_cpu(array: Data) -> bool:
    """Whether an array is held by CPUs alone."""
    return all(device.platform == "cpu" for device in array.devices())


class Compiled(NamedTuple):
    """The functions of a transition, compiled for one chain, or for all side by side."""

    init: Callable[..., State]
    step: Callable[..., tuple[State, Draw]]
    draw: Callable[[State, Any], Draw]
    capacity: int  # how many draws a call makes at most
    is_vectorised: bool


@lru_cache(maxsize=64)
def compiled(
    transition: Transition,
    is_vectorised: bool,
    given: Abstract,
    float64: bool,
    everywhere: NamedSharding | None = None,
) -> Compiled:
    """Compile before threads begin, which would each do it again; `float64` is the precision in force.

    Of numbers on a mesh, states and draws are the same on each of its devices: `everywhere`.
    """
    over_chains: Callable[[Callable], Callable] = lambda function: function  # noqa: E731
    if is_vectorised:
        over_chains = lambda function: jax.vmap(function, in_axes=(0, None))  # noqa: E731
    step, draw = over_chains(transition.step), over_chains(transition.draw)

    def init(key: Data, start: Any, numbers: Any) -> State:
        return jax.vmap(transition.init, in_axes=(0, 0, None))(key, start, numbers)

    key, start, numbers = jax.tree_util.tree_unflatten(*given)
    begin = jax.jit(init if is_vectorised else transition.init, out_shardings=everywhere)
    state = jax.eval_shape(begin, key, start, numbers)
    if everywhere is not None:
        state = jax.tree_util.tree_map(partial(_placed, everywhere), state)
    drawn = jax.eval_shape(draw, state, numbers)
    capacity = _capacity(drawn)

    def advance(state: State, numbers: Any, skip: Data, draws: Data, thin: Data) -> tuple[State, Draw]:
        def one(number: Data, carried: tuple[State, Draw]) -> tuple[State, Draw]:
            state = step(carried[0], numbers)
            place = jnp.clip((number - skip) // thin, 0, capacity - 1)  # overwritten up to the last of `thin`
            put = partial(jax.lax.dynamic_update_index_in_dim, index=place, axis=0)
            return state, jax.tree_util.tree_map(put, carried[1], draw(state, numbers))

        empty = jax.tree_util.tree_map(lambda x: jnp.zeros((capacity, *x.shape), x.dtype), drawn)
        return jax.lax.fori_loop(0, skip + draws * thin, one, (state, empty))

    count = jax.ShapeDtypeStruct((), np.int32)
    executable = jax.jit(advance, out_shardings=everywhere).lower(state, numbers, count, count, count).compile()
    return Compiled(
        begin.lower(key, start, numbers).compile(),
        partial(_called, executable),
        jax.jit(draw, out_shardings=everywhere).lower(state, numbers).compile(),
        capacity,
        is_vectorised,
    )


def _placed(sharding: NamedSharding, shape: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return shape.update(sharding=sharding)


def _called(executable: Callable, state: State, numbers: Any, skip: int, draws: int, thin: int) -> tuple[State, Draw]:
    return executable(state, numbers, *(np.asarray(count, np.int32) for count in (skip, draws, thin)))


def _capacity(drawn: Mapping | tuple) -> int:
    """How many draws there is room for."""
    size = sum(x.size * x.dtype.itemsize for x in jax.tree_util.tree_leaves(drawn))
    return int(np.clip(MEMORY // max(size, 1), 1, MOST_DRAWS))
