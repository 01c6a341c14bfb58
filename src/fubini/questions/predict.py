"""Draws of sites of a model, at new inputs too, given latents drawn from the posterior."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.engines.host_keys import split, split_apart
from fubini.models.draw_arrays import has_draws
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.options import require_options, whole_number
from fubini.models.question_heads import exact_predict
from fubini.numerics.randomness import require_key
from fubini.questions.approximate import approximation
from fubini.questions.evidence import log_evidence
from fubini.questions.given_draws import GivenDraws, draws_of
from fubini.questions.new_inputs import Prediction, predicted

ADVICE = "predict(key, name, draws=infer(key)) predicts from draws of a sampler"
OPTIONS = ("key", "draws", "model", "new", "arviz", "dims", "coords")


@exact_predict.rule
def predict(model: FlatModel, key: Any, names: tuple, options: dict) -> Any:
    """y* ~ p(y* | θ), θ ~ p(θ | data)"""
    return predict_from(model, key, names, options, posterior_draws)


def predict_from(model: FlatModel, key: Any, names: tuple, options: dict, draw: Any) -> Any:
    """Predictions given draws of the latents, or so many as `draw` makes."""
    require_options("predict", options, OPTIONS)
    require_key(key)
    model.require_agreement("predict(key, …)", {"key": key, "names": names})
    asked = Prediction.asked(model, names, options)
    if has_draws(options["draws"]):
        return predicted(key, asked, draws_of(model, options["draws"]))
    count = whole_number("draws", options["draws"])
    first, second = split_apart(key, 2)
    return predicted(second, asked, GivenDraws(draw(model, first, count), (1, count)))


def posterior_draws(model: FlatModel, key: Data, count: int) -> dict[str, Data]:
    """θ ~ p(θ | data), or from the weighted points of the interpretation in force"""
    whole = eliminated(model)
    kept: dict[str, Data] = {}
    if whole.blocked:
        key, choice = split_apart(key, 2)
        whole, points, values = approximation(model, "predict(…)", whole, advice=ADVICE)
        chosen = jax.random.choice(choice, len(points.points), (count,), p=jnp.asarray(points.shares))
        kept = {name: value[chosen] for name, value in values.items()}
    else:
        log_evidence(model)
    return whole.draw_all(split(key, count), kept, many=True)
