"""Which states of a sequence are drawn, where a Monte Carlo interpretation is in force: the fewest that need to be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax

from fubini.base.arrays import precision
from fubini.base.names import Name
from fubini.eliminate.engine import engine_of
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.represent import represent_by_draws
from fubini.sequence.chain_questions import evidence
from fubini.sequence.compiled import SequenceOutline
from fubini.terms.factor import Factor


def drawn_states(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], asked: frozenset[Name]
) -> tuple[Name, ...]:
    """The states that particles draw: those asked for, or the fewest without which no step has a closed form."""
    links, domains = outline.links, dict(outline.domains)
    by_name = {name: link.before[-1] for link in links.chains for name in (link.newest, link.before[-1])}
    wanted = tuple(dict.fromkeys(by_name[name] for name in asked if name in by_name))
    finite = tuple(name for name in links.before if domains[name].is_finite)
    infinite = tuple(name for name in links.before if name not in finite)
    if (links.lag > 1 or outline.globals) and (wanted or not _works(outline, start, terms, ())):
        raise Intractable(
            f"a particle filter of {listed(links.before)}",
            expected="states of lag 1 and no global variables to sum",
            advice="condition on the global variables, or make one state of the lagged ones",
        )
    if wanted:
        return wanted
    for candidate in ((), finite, infinite, links.before):
        if _works(outline, start, terms, candidate):
            return candidate
    raise Intractable(
        f"a particle filter of {listed(links.before)}",
        expected="states that can be drawn: densities of each state after a step given those before it",
        advice="write the step as densities, parents first",
    )


def _works(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], names: tuple[Name, ...]) -> bool:
    """One step goes through, without its numbers."""
    try:
        with precision(engine_of([*start, *terms]) == "numpy"):
            if not names:
                jax.eval_shape(partial(evidence, outline), tuple(start), tuple(terms))
                return True
            with represent_by_draws(names, 2, jax.random.key(0)):
                jax.eval_shape(partial(evidence, outline), tuple(start), tuple(terms))
    except (Intractable, NoRule):
        return False
    return True
