"""`gibbs` and `metropolis`: samplers of the labels of a model."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from fubini.errors import NoRule
from fubini.infer.sampler import Sampler
from fubini.models.eliminated_model import EliminatedModel
from fubini.models.options import require_options
from fubini.models.question_heads import exact_gibbs, exact_metropolis
from fubini.questions.label_sampler import RUN_OPTIONS, LabelSampler, Options


def compiled_gibbs(eliminated_model: EliminatedModel, warmup: int) -> Sampler | None:
    """Make a compiled sampler of the remaining latents, or None where no rule makes one.

    Over data on a mesh labels are drawn whole, where their rows are; and so are those that zeros of the density tie.
    """
    try:
        made = LabelSampler(eliminated_model, (), Options(blocked=eliminated_model.is_distant))
        if made.ties.tied:
            with suppress(NoRule):
                return LabelSampler(eliminated_model, (), Options(blocked=True)).sampler(warmup)
        return made.sampler(warmup)
    except NoRule:
        return None


@exact_gibbs.rule
def gibbs(eliminated_model: EliminatedModel, names: tuple, options: dict) -> LabelSampler:
    """A sampler of labels, one entry after another"""
    require_options("gibbs", _unknown(options), ("without", "specialise", "blocked", "engine"), RUN_OPTIONS)
    given = {**options, "without": tuple(options.get("without", ()))}
    return LabelSampler(eliminated_model, names, Options(**given))


@exact_metropolis.rule
def metropolis(eliminated_model: EliminatedModel, names: tuple, options: dict) -> LabelSampler:
    """A sampler of labels by proposals"""
    require_options("metropolis", _unknown(options), ("proposal", "engine"), RUN_OPTIONS)
    return LabelSampler(eliminated_model, names, Options(**options))


def _unknown(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in Options._fields}
