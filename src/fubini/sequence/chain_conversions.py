"""The conversions and projections of a chain under representations, from its questions traced without numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from fubini.base.arrays import precision
from fubini.base.names import Name
from fubini.eliminate.engine import engine_of, fixed
from fubini.eliminate.forward import embed
from fubini.errors import Intractable, NoRule
from fubini.factors.carry import settled
from fubini.factors.promotion import promoted
from fubini.factors.tally import Conversion, conversion_of, tallied
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.steps import Steps
from fubini.terms.factor import Factor, Unit

FIRST, LATER = "before the first step", "once, for all steps"  # where factors are converted


class FlatCarry(NamedTuple):
    """A constant in the form of a state between steps, and its hidden indices."""

    factor: Factor
    hidden: tuple[Name, ...]


def flat_carry(steps: Steps, start: Factor) -> FlatCarry | None:
    """What a step starts from, without its numbers; None where it draws."""
    layout = steps.layout([start])
    if layout.keys(1) is not None:
        return None
    carry = settled(embed(steps.semiring, Unit({})), layout)
    is_numpy = engine_of([start, *steps.terms]) == "numpy"
    return FlatCarry(jax.tree.map(np.asarray, carry) if is_numpy else carry, tuple(layout.hidden))


class ChainConversions(NamedTuple):
    """The conversions, and the questions that have no answer, with the reason."""

    conversions: tuple[Conversion, ...]
    refused: tuple[tuple[str, str], ...]


def chain_conversions(
    outline: SequenceOutline,
    start: Sequence[Factor],
    steps: Sequence[Factor],
    questions: dict[str, Callable],
    kept: tuple[Name, ...],
) -> ChainConversions:
    """Those of the factors, and those of the first question that has an answer."""
    factors = [*start, *steps]
    told = [each for term in start for each in conversion_of(term, [promoted(term)], FIRST)]
    told += [each for term in steps for each in conversion_of(term, [promoted(term)], LATER)]
    refused: list[tuple[str, str]] = []
    for name, question in questions.items():
        asked = partial(question, outline, [*map(fixed, start)], [*map(fixed, steps)], kept=kept)
        with tallied() as tally, precision(engine_of(factors) == "numpy"):
            try:
                jax.eval_shape(asked)
            except (Intractable, NoRule) as error:
                refused.append((name, " ".join(str(error).split())))
            else:
                return ChainConversions((*told, *tally.conversions), tuple(refused))
    return ChainConversions(tuple(told), tuple(refused))
