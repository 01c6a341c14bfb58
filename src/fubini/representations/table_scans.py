"""Chains of tables by the scans of `engines/`: evidence with its gradient, and smoothing, forward and backward."""

from __future__ import annotations

import jax.numpy as jnp

from fubini.engines.chain_products import product
from fubini.engines.chain_scans import evidence, smoothed
from fubini.factors.table import Table
from fubini.factors.table_carry import TableLayout
from fubini.numerics.scaled import Scaled
from fubini.representations.laid_out_chain import LaidOutChain, extent_of, laid_out_chain
from fubini.sequence.recurrence import Products, SmoothedStates
from fubini.sequence.steps import Steps
from fubini.terms.factor import Factor

MOST_JOINT_STATES = 32  # of several states that are taken as one
FEW_CELLS = 2**22  # weights that may be laid out whatever the tables hold themselves


def served_by_scans(steps: Steps, start: Factor, layout: TableLayout) -> LaidOutChain | None:
    """The chain laid out for scans; None where that would take much longer or hold much more than its tables do."""
    chain = laid_out_chain(steps, start, layout)
    if chain is None or (len(chain.before) > 1 and extent_of(chain.before) > MOST_JOINT_STATES):
        return None
    return chain if chain.cells <= max(FEW_CELLS, 4 * chain.own_cells) else None


def evidence_by_scans(chain: LaidOutChain) -> Table:
    """Σ over all states, for each sequence."""
    return chain.sequences(*evidence(chain.weights(), chain.steps.drops_small))


def smoothed_by_scans(chain: LaidOutChain) -> SmoothedStates:
    """The weights of the states after each step and of the first, all of one sum, and the scale of the evidence."""
    first, after, log = smoothed(chain.weights(), chain.steps.drops_small)
    scale = chain.sequences(jnp.ones_like(log), log)
    return SmoothedStates(chain.states_in_time(*after), chain.states(*first), scale=scale)


def product_by_scans(steps: Steps, layout: TableLayout) -> Products | None:
    """The product of all steps, from the state before the first to the state after the last."""
    one = Table._of(Scaled(jnp.ones((), layout.dtype), jnp.zeros((), layout.dtype)), {})
    chain = served_by_scans(steps, one, layout)
    if chain is None:
        return None
    made, log, safe = product(chain.weights())
    names = {**chain.before, **chain.after, **chain.others}
    shape = tuple(domain.extent for domain in names.values())
    return Products(
        Table._of(Scaled(made.reshape(shape), jnp.broadcast_to(log, made.shape).reshape(shape)), names), safe
    )
