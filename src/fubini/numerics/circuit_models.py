"""The number of models of a circuit inside a trace: whole numbers by their residues.

Numbers below a product of primes are equal where their residues by each are (the Chinese remainder theorem), and these
fit into 32 bits. So a trace compares counts of 2¹⁰⁰ assignments exactly.
"""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.numerics.circuit_blocks import Block, blocks_of
from fubini.numerics.circuit_passes import on_jax
from fubini.numerics.circuit_structure import CircuitStructure

LARGEST = 2**16  # a product of two residues is below 2³²


@lru_cache
def _all_primes() -> list[int]:
    """The primes below 2¹⁶, the greatest first."""
    is_prime = np.ones(LARGEST, bool)
    is_prime[:2] = False
    for number in range(2, int(LARGEST**0.5) + 1):
        if is_prime[number]:
            is_prime[number * number :: number] = False
    return np.flatnonzero(is_prime)[::-1].tolist()


@lru_cache(maxsize=64)
def primes_beyond(bound: int) -> NDArray[np.uint32]:
    """Primes whose product is greater than a bound.

    >>> primes_beyond(2**30)
    array([65521, 65519], dtype=uint32)
    """
    chosen: list[int] = []
    product = 1
    for prime in _all_primes():
        if product > bound:
            break
        chosen.append(prime)
        product *= prime
    return np.asarray(chosen, np.uint32)


def count_residues(structure: CircuitStructure, leaves: Data, theta: Data, primes: NDArray[np.uint32]) -> Data:
    """The residues, (batch…, primes), of the number of choices of positive leaves (batch…, K, 2) and elements."""
    blocks, room = blocks_of(structure)
    batch = np.broadcast_shapes(leaves.shape[:-2], theta.shape[:-1])
    own = jnp.moveaxis(jnp.sum(leaves, -1, dtype=jnp.uint32), -1, 0)
    first = jnp.broadcast_to(own[..., None], (structure.leaves, *batch, len(primes)))
    rest = jnp.zeros((structure.count + room - structure.leaves, *batch, len(primes)), jnp.uint32)
    counts = jnp.concatenate([first, rest])
    is_open = jnp.moveaxis(theta, -1, 0).astype(jnp.uint32)[..., None]
    is_open = jnp.concatenate([is_open, jnp.ones((1, *is_open.shape[1:]), jnp.uint32)])

    def step(counts: Data, block: Block) -> tuple[Data, None]:
        terms = counts[block.prime] * counts[block.sub] % primes * is_open[block.elements]
        total = jnp.sum(terms, 1, dtype=jnp.uint32) % primes  # of fewer than 2¹⁶ elements
        return jax.lax.dynamic_update_slice_in_dim(counts, total, block.first, 0), None

    for block in blocks:
        counts, _ = lax_loops.scan(step, counts, on_jax(block))
    return counts[structure.count - 1]


def is_positive_everywhere(structure: CircuitStructure, leaves: Data, theta: Data, variables: int) -> Data:
    """Whether a deterministic circuit has as many models as there are assignments, for each cell of the batch."""
    primes = primes_beyond(max(structure.supports, 2**variables))
    every = np.asarray([pow(2, variables, int(prime)) for prime in primes], np.uint32)
    return jnp.all(count_residues(structure, leaves, theta, primes) == every, -1)


Positive = tuple[CircuitStructure, Data, Data]  # a structure, and which of its leaves and elements are positive


def have_equally_many_models(first: Positive, second: Positive, bound: int) -> Data:
    """Whether two circuits have the same number of models, at most the bound, for each cell of the batch."""
    primes = primes_beyond(bound)
    return jnp.all(count_residues(*first, primes) == count_residues(*second, primes), -1)
