"""Chains of tables by the kernels of `engines/`: evidence with its gradient, smoothing, best paths and draws."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.names import Name
from fubini.base.semirings import Semiring, sum_product
from fubini.engines.chain_evidence import ChainWeights, log_evidence, log_evidence_and_slopes, logs_of
from fubini.engines.chain_kernels import MOST_STATES, ChainLogs
from fubini.engines.path_kernels import best_pointers, drawn_pointers, states_from
from fubini.engines.wide_chain_kernels import MOST_WIDE_STATES
from fubini.engines.wide_path_kernels import wide_best_pointers, wide_drawn_pointers
from fubini.factors.table import Table
from fubini.factors.table_carry import TableLayout
from fubini.numerics.mixed_radix import split_keys, to_keys
from fubini.numerics.scaled import Scaled, read_log
from fubini.representations.laid_out_chain import LaidOutChain, extent_of, laid_out_chain
from fubini.sequence.links import Link, Links, fixed_bound
from fubini.sequence.recurrence import Descent, SmoothedStates
from fubini.sequence.scan import multiplied_in_pairs
from fubini.sequence.steps import Steps, summed
from fubini.terms.factor import Factor

TIME, BEFORE, AFTER, SEQUENCE = map(fixed_bound, ("time", "state before", "state after", "sequence"))


def served_by_kernels(
    steps: Steps, start: Factor, layout: TableLayout, semiring: Semiring = sum_product
) -> LaidOutChain | None:
    """The chain laid out for kernels; None where there are none: of other terms than tables, many states, or lags."""
    chain = laid_out_chain(steps, start, layout, semiring)
    return chain if chain is not None and extent_of(chain.before) <= MOST_WIDE_STATES else None


def evidence_by_kernels(chain: LaidOutChain) -> Table:
    """Σ over all states, for each sequence."""
    total = log_evidence(scan_evidence, chain.weights())
    return chain.sequences(*_scaled(jnp.ones_like(total), total))


def smoothed_by_kernels(chain: LaidOutChain) -> SmoothedStates:
    """The weights of the states after each step and of the first, all of them those of the evidence together."""
    weights = chain.weights()
    total, slopes = log_evidence_and_slopes(scan_evidence, weights)
    after = chain.states_in_time(*_scaled(slopes.seen * weights.ones.seen, total))
    return SmoothedStates(after, chain.states(*_scaled(slopes.first * weights.ones.first, total)))


def smoothed_pairs_by_kernels(chain: LaidOutChain) -> Table:
    """The weights of the states before and after each step, all of them those of the evidence together."""
    weights = chain.weights()
    length = weights.ones.seen.shape[0]

    def in_time(part: ChainLogs) -> ChainLogs:
        """Moves for each step: so are their slopes."""
        return part._replace(moves=jnp.broadcast_to(part.moves, (length, *part.moves.shape[1:])))

    weights = ChainWeights(*map(in_time, weights))
    total, slopes = log_evidence_and_slopes(scan_evidence, weights)
    return chain.pairs_in_time(*_scaled(slopes.moves * weights.ones.moves, total))


def descent_by_kernels(chain: LaidOutChain, uniforms: Data | None) -> Descent:
    """Where each state came from: the best one, or one drawn by numbers for each step, sequence and draw."""
    logs, is_wide = logs_of(chain.weights()), extent_of(chain.before) > MOST_STATES
    if uniforms is None:
        pointers = wide_best_pointers(logs) if is_wide else best_pointers(logs)
    else:
        numbers = uniforms.reshape(uniforms.shape[0], -1)
        pointers = wide_drawn_pointers(logs, numbers) if is_wide else drawn_pointers(logs, numbers)
    sizes = [domain.extent for domain in chain.before.values()]

    def states(last: Mapping[Name, Data]) -> dict[Name, Data]:
        each = [last[name] for name in chain.before]
        is_none = reduce(jnp.logical_or, [value < 0 for value in each])
        index = jnp.where(is_none, -1, to_keys(each, sizes))
        every = states_from(pointers, index.reshape(-1)).reshape(-1, *index.shape)
        found = split_keys(jnp.maximum(every, 0), sizes)
        return {
            name: jnp.where(every < 0, -1, value).astype(index.dtype)
            for name, value in zip(chain.before, found, strict=True)
        }

    end = chain.states(*_scaled(jnp.ones_like(pointers.last), pointers.last))
    return Descent(end, states, pointers.safe)


def _scaled(weights: Data, logs: Data) -> tuple[Data, Data]:
    """Weights and logarithms of one shape, where these are for each sequence; −∞ is a weight of zero."""
    is_zero = logs == -jnp.inf
    return jnp.where(is_zero, 0.0, weights), jnp.broadcast_to(jnp.where(is_zero, 0.0, logs), weights.shape)


def scan_evidence(weights: ChainWeights) -> Data:
    """The log-evidence of each sequence by pairs of steps: a function that has derivatives of all orders."""
    length, size, count = weights.ones.seen.shape
    state: Domain = Bint[size]
    sequence: dict[Name, Domain] = {SEQUENCE: Bint[count]}
    domains: dict[Name, Domain] = {BEFORE: state, AFTER: state}
    named: tuple[dict[Name, Domain], ...] = (
        {BEFORE: state, **sequence},
        {TIME: Bint[length], BEFORE: state, AFTER: state, **sequence},
        {TIME: Bint[length], AFTER: state, **sequence},
    )
    shapes = [tuple(domain.extent for domain in names.values()) for names in named]
    first, *terms = (
        Table._of(Scaled(jnp.broadcast_to(one, shape), jnp.broadcast_to(log, shape)), names)
        for one, log, shape, names in zip(*weights, shapes, named, strict=True)
    )
    links = Links((Link((BEFORE,), (AFTER,)),))
    steps = Steps(tuple(terms), TIME, length, links, domains, sum_product)
    total: Any = summed([first, multiplied_in_pairs(steps)], (BEFORE, AFTER))
    return jnp.broadcast_to(read_log(total.aligned((SEQUENCE,))), (count,))
