"""A site that is a chain: log p(x₀) + Σ_t log p(x_t | x_(t−1)) in index notation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.algebra.build import ONE, ZERO, index, plus
from fubini.algebra.node import Index, Node
from fubini.algebra.sums import total
from fubini.base.arrays import Data
from fubini.distributions.array_distribution import parameters
from fubini.distributions.blueprint import LogProbability
from fubini.distributions.density import Distribution
from fubini.distributions.markov_chain import MarkovChain
from fubini.read.jaxpr_reader import Reader
from fubini.read.log_density import log_density
from fubini.read.symbolic_array import SymbolicArray


class ChainSite(NamedTuple):
    """A site that is a chain: the distribution of its first value, and that of the others, at an index of time."""

    init: Distribution
    step: Distribution | None
    lead: int  # axes before that of time: an array of chains

    @property
    def arrays(self) -> int:
        """How many arrays its term has: its value, and the parameters of the first and of the others."""
        return 1 + len(self.init.leaf_values) + (0 if self.step is None else len(self.step.leaf_values))


class ChainPart(NamedTuple):
    """A site that is one chain: its distributions, and the arrays in its term as they were read."""

    site: ChainSite
    numbers: Sequence[SymbolicArray]

    @property
    def value(self) -> SymbolicArray:
        """The values at all times."""
        return self.numbers[0]

    @property
    def first(self) -> Sequence[SymbolicArray]:
        """The parameters of the first value."""
        return self.numbers[1 : 1 + len(self.site.init.leaf_values)]

    @property
    def later(self) -> Sequence[SymbolicArray]:
        """The parameters of the others, time in front."""
        return self.numbers[1 + len(self.site.init.leaf_values) :]


def chain_numbers(chain: MarkovChain, value: Data) -> tuple[ChainSite, list[Data]]:
    """The distributions of a chain; and its value, the parameters of the first, and those of the others along time."""
    steps: list[Distribution] = []

    def after(before: Data, t: Data) -> list[Data]:
        steps.append(chain.after(before, t))
        return parameters(steps[-1])

    several, lead = chain.length > 1, value.ndim - chain.event_dim
    times = jnp.arange(1, chain.length)
    every = lambda value: jax.vmap(after)(value[:-1], times)  # noqa: E731
    for _ in range(lead):
        every = jax.vmap(every)
    later = every(value) if several else []
    site = ChainSite(chain.init, steps[-1] if several else None, lead)
    return site, [value, *parameters(chain.init), *later]


def chain_term(chain: ChainSite, numbers: Sequence[SymbolicArray], reader: Reader) -> Node:
    """log p(x₀) + Σ_t log p(x_t | x_(t−1)); of a family that is not read, as one function of the numbers."""
    term = _read_chain(chain, iter(numbers), reader)
    return term if term is not None else _opaque_chain(chain, numbers, reader)


def _read_chain(chain: ChainSite, outputs: Iterator[SymbolicArray], reader: Reader) -> Node | None:
    """The sum over time, where both families are read."""
    value = next(outputs)
    first = [next(outputs) for _ in chain.init.leaf_values]
    leaves = [next(outputs) for _ in chain.step.leaf_values] if chain.step is not None else []
    which = [Index(size) for size in value.shape[: chain.lead]]
    for i in which:
        value = _slice(value, index(i))
        leaves = [_slice(leaf, index(i)) for leaf in leaves]
    initial = _density_at(chain.init, first, _slice(value, ZERO), reader)
    if initial is None:
        return None
    if chain.step is None:
        return total(which, initial)
    t = Index(value.shape[0] - 1, "t")
    here = ZERO if t.size == 1 else index(t)
    later = [_slice(leaf, here) for leaf in leaves]
    step = _density_at(chain.step, later, _slice(value, plus(here, ONE)), reader)
    return None if step is None else total(which, plus(initial, total([t], step)))


def _slice(array: SymbolicArray, t: Node) -> SymbolicArray:
    numbers = array.constant
    alike = numbers is not None and len(numbers) and bool(np.all(numbers == numbers[0]))
    return SymbolicArray(array.shape[1:], lambda *at: array.at(t, *at), numbers[0] if alike else None)  # type: ignore[index]


def _density_at(source: Distribution, leaves: list[SymbolicArray], value: SymbolicArray, reader: Reader) -> Node | None:
    batch = len(source.signature.shape) - source.signature.event_rank
    return log_density(source.blueprint, leaves, value, batch, None, reader)


def _opaque_chain(chain: ChainSite, parts: Sequence[SymbolicArray], reader: Reader) -> Node:
    """A chain of a family that is not read, as one function of its numbers."""
    count = len(chain.init.leaf_values)
    first = LogProbability(chain.init.blueprint)
    later = None if chain.step is None else jax.vmap(LogProbability(chain.step.blueprint))

    def one(value: Data, init: tuple[Data, ...], steps: tuple[Data, ...]) -> Data:
        log_p = first(value[0], *init)
        return log_p if later is None else log_p + jnp.sum(later(value[1:], *steps))

    def whole(value: Data, *leaves: Data) -> Data:
        every = one
        for _ in range(chain.lead):
            every = jax.vmap(every, in_axes=(0, None, 0))
        return jnp.sum(every(value, leaves[:count], leaves[count:]))

    return reader.opaque_array("log p(chain)", (), whole, tuple(parts)).at()
