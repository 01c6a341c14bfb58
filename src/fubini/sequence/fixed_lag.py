"""Fixed-lag smoothing: each state given everything up to a few steps after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.eliminate.forward import embed
from fubini.errors import DataError, Intractable
from fubini.factors.carry import settled
from fubini.sequence.chain_questions import at_times, finish, pass_forward, time_index
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.steps import Steps, joined, summed
from fubini.terms.factor import Factor, Unit, rename, substitute
from fubini.terms.name_axis import name_axis


def smoothed_with_lag(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], kept: tuple[Name, ...], lag: int
) -> tuple[Factor, Factor]:
    """p(state after step t | everything up to step t + lag), and of the state before the first step."""
    steps, first = outline.steps(terms), joined(start)
    layout, later = steps.layout([first]), looked_ahead(steps, lag)
    after = joined([pass_forward(steps, outline, first), at_times(later, steps.time, 1, steps.length)])
    before = joined([first, substitute(later, {steps.time: time_index(0, steps.length + 1)})])
    last = rename(finish(outline, after, kept, layout), outline.links.to_after)
    return last, finish(outline, before, kept, layout)


def looked_ahead(steps: Steps, lag: int) -> Factor:
    """The density of the next steps after each time, at most `lag`, given the state there: all times at once.

    B_t of so many steps is Σ over x′ of the step t from x to x′, times B_(t+1) of one step less at x′; the last is 1.
    """
    layout, cut = steps.layout([]), steps.cut()
    last = settled(embed(steps.semiring, Unit({})), layout)

    def back(leaves: list[Data], parts: Any) -> list[Data]:
        later = rename(last.rebuilt(iter(leaves)), steps.links.moves_back)
        now = summed([later, *cut.at(parts)], steps.links.newest, steps.semiring)
        return list(settled(now, layout).leaves())

    def one_more(_: Data, every: list[Data]) -> list[Data]:
        made = jax.vmap(back, axis_size=steps.length)([data[1:] for data in every], cut.stacked)
        return [jnp.concatenate([new, old[-1:]]) for new, old in zip(made, every, strict=True)]

    none = [jnp.broadcast_to(data, (steps.length + 1, *jnp.shape(data))) for data in last.leaves()]
    every = lax_loops.fori_loop(0, lag, one_more, none)
    return name_axis(last.rebuilt(iter(every)), steps.time)


def require_lag(lag: Any) -> None:
    """Raise unless a lag is a number of steps."""
    if isinstance(lag, bool) or not isinstance(lag, (int, np.integer)) or lag < 0:
        raise DataError(
            f"smooth(lag={lag!r})",
            expected="a whole number of steps, at least 0, or None for all",
            advice="lag=0 is the filter, and a lag as long as the chain its smoother",
        )


def refuse_pairs(lag: int) -> NoReturn:
    """Raise: a fixed-lag smoother has states alone."""
    raise Intractable(
        f"pairs of states, of smooth(lag={lag})",
        expected="smooth(), whose states are given everything",
        advice="ask chain.smooth().pairs",
    )
