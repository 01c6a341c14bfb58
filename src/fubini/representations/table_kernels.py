"""Chains of tables by the kernels of `engines/`: evidence with its gradient, and smoothing."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.names import Name
from fubini.base.semirings import sum_product
from fubini.engines.chain_evidence import ChainWeights, log_evidence, log_evidence_and_slopes
from fubini.engines.wide_chain_kernels import MOST_WIDE_STATES
from fubini.factors.table import Table
from fubini.factors.table_carry import TableLayout
from fubini.numerics.scaled import Scaled, read_log
from fubini.representations.laid_out_chain import LaidOutChain, extent_of, laid_out_chain
from fubini.sequence.links import Link, Links, fixed_bound
from fubini.sequence.recurrence import SmoothedStates
from fubini.sequence.scan import multiplied_in_pairs
from fubini.sequence.steps import Steps, summed
from fubini.terms.factor import Factor

TIME, BEFORE, AFTER, SEQUENCE = map(fixed_bound, ("time", "state before", "state after", "sequence"))


def served_by_kernels(steps: Steps, start: Factor, layout: TableLayout) -> LaidOutChain | None:
    """The chain laid out for kernels; None where there are none: of other terms than tables, many states, or lags."""
    chain = laid_out_chain(steps, start, layout)
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
