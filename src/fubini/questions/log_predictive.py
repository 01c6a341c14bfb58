"""log p(new data | data): the closed form, or an average over draws of the latents that have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp

from fubini.base.arrays import Data, is_traced
from fubini.base.domains import Real
from fubini.base.interpretations import interpret
from fubini.base.semirings import sum_product
from fubini.errors import DataError, DomainError, Intractable, NoRule, listed
from fubini.models.call_values import FlatJoint
from fubini.models.draw_arrays import has_draws
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.joint import Conditioned
from fubini.models.missing_entries import Partly
from fubini.models.new_data import WithNewData
from fubini.models.options import require_options
from fubini.models.paths import flat
from fubini.models.question_heads import LOG_EVIDENCE, exact_log_predictive
from fubini.numerics.randomness import require_key
from fubini.questions.draw_diagnostics import diagnose
from fubini.questions.given_draws import draws_of
from fubini.questions.new_inputs import Prediction
from fubini.questions.runs_at_draws import log_weight_of, run_at
from fubini.terms.exactness import Exactness, estimated
from fubini.terms.value import Array, Value

ADVICE = "log_predictive(model, draws=infer(key)) averages over draws of a sampler"


@exact_log_predictive.rule
def log_predictive(model: FlatModel, new: Any, options: dict) -> Value:
    """log p(y* | y)  =  log p(y, y*) − log p(y),  or  ≈  log 1/S Σ_s p(y* | θ_s, y)"""
    require_options("log_predictive", options, ("model", "draws", "key", "new"))
    _require_new_data(model, new)
    prediction = Prediction.by(FlatJoint(new), model, (), {**options, "model": new})
    both = WithNewData(model.joint, new, prediction.fresh)  # type: ignore[arg-type]
    if options["draws"] is None:
        return _by_evidence(model, both)
    if not has_draws(options["draws"]):
        raise DomainError(
            f"log_predictive(…, draws={options['draws']!r})",
            expected="draws of infer(key), or arrays [chain, draw, …] by name; none where all has a closed form",
        )
    if is_traced(*model.leaves, *prediction.new.leaves):
        raise DomainError(
            "log_predictive(…, draws=…) of numbers that are traced",
            expected="data, inputs and draws that are known: the standard error is a number",
            advice="ask outside of jit, vmap and grad; without draws it is a function of the data",
        )
    draws = draws_of(model, options["draws"], "log_predictive")
    latents = prediction.latents(draws.values)
    key = jax.random.key(0) if options["key"] is None else options["key"]
    require_key(key)
    at = prediction.checked(key, latents, draws)
    pair = _eliminated_pair(model, both)
    if pair is not None and not pair[0].kept:
        return _by_evidence(model, both)
    if pair is not None:
        return _averaged(model, _given_kept(*pair, latents), draws.lead)
    if options["key"] is None and prediction.new_names(latents):
        raise _needs_key(prediction, latents)
    terms = run_at(log_weight_of, key, FlatJoint(new), at._replace(observed={}), ())
    return _averaged(model, np.asarray(terms, np.float64), draws.lead)


def _given_kept(both: EliminatedModel, old: EliminatedModel, latents: Mapping[str, Data]) -> np.ndarray:
    """log p(y* | φ, y)  =  log p(y, y*, φ) − log p(y, φ), the other latents integrated out, for each draw of φ"""
    at = {name: latents[name] for name in both.kept}
    terms = both.compute_log_density(at, many=True) - old.compute_log_density(at, many=True)
    return np.asarray(terms, np.float64)


def _by_evidence(model: FlatModel, whole: WithNewData) -> Value:
    """log p(y, y*) − log p(y), as the interpretation in force has them"""
    try:
        both = interpret(LOG_EVIDENCE, FlatModel(whole), sum_product)
    except (Intractable, NoRule) as error:
        raise Intractable(
            f"log_predictive(…) of {listed(whole.new.observed)} without draws",
            expected="a closed form of the evidence with the new data, and of that without",
            nearest=str(error).splitlines()[0],
            advice=ADVICE,
        ) from error
    old = interpret(LOG_EVIDENCE, model, sum_product)
    errors = [each.exactness.error for each in (both, old) if each.exactness.error is not None]
    mark = both.exactness | old.exactness
    return _value(model, both.data - old.data, mark.with_error(sum(errors)) if errors else mark)


def _eliminated_pair(model: FlatModel, joint: WithNewData) -> tuple[EliminatedModel, EliminatedModel] | None:
    """Both models together and the old one, of the same remaining latents; None where some of these are new."""
    old = eliminated(model)
    try:
        whole = FlatModel(joint)
        own = [name for name in whole.reading.sites if name not in model.reading.sites]
        while True:
            both = eliminated(whole, [*old.eliminated, *own])
            gone = [name for name in old.eliminated if name in both.eliminated]
            if set(gone) == set(old.eliminated):
                return None if any(name in both.kept for name in own) else (both, old)
            old = eliminated(model, gone)
    except (Intractable, NoRule, DomainError):  # sites that cannot be split into old and new entries
        return None


def _averaged(model: FlatModel, terms: np.ndarray, lead: tuple[int, int]) -> Value:
    """log 1/S Σ_s exp(term_s), with its standard error: that of the mean of correlated draws"""
    if np.isnan(terms).any():
        raise DataError(
            "log_predictive(…)",
            expected="a density of the new data at every draw",
            nearest=f"it is not a number at {int(np.isnan(terms).sum()):,} of {terms.size:,} draws",
            advice="check the new inputs and the new data for NaN",
        )
    if np.max(terms) == -np.inf:
        raise DataError(
            "log_predictive(…)",
            expected="new data of positive density at some draw",
            nearest="p(new data) is 0 at every draw: some observation is impossible",
        )
    weights = np.exp(terms - np.max(terms)).reshape(lead)
    size = float(diagnose(weights[..., None])[1][0]) if np.ptp(weights) else float(terms.size)
    size = terms.size if not np.isfinite(size) else min(size, terms.size)
    error = float(weights.std() / weights.mean() / np.sqrt(size))
    return _value(model, logsumexp(terms) - np.log(terms.size), estimated(terms.size).with_error(error))


def _value(model: FlatModel, data: Data, mark: Exactness) -> Value:
    return Array._of(model.numbers(data), (), {}, Real, mark)


# -- checks ---------------------------------------------------------------------------------------------------------


def _require_new_data(model: FlatModel, new: Any) -> None:
    """Raise unless the new model has observations, which are not those of the old one again."""
    if not isinstance(new, Conditioned):
        raise DomainError(
            f"log_predictive({new if isinstance(new, FlatModel) else repr(new)[:80]})",
            expected="a model at the new inputs, conditioned on the new data: m(X_new).condition(y=y_new)",
        )
    old, held_out = flat(getattr(model.joint, "observed", {})), flat(new.observed)
    for name, value in held_out.items():
        if name in old and _begins_with(value, old[name]):
            raise DomainError(
                f"log_predictive(…) of new data {name!r} that begin with the data",
                expected="new data alone: those that were seen would count twice",
                advice=f"mask them, np.ma.array({name}, mask=…); or of a series that depends on its past take"
                " longer.log_evidence() − post.log_evidence()",
            )


def _begins_with(new: Any, old: Any) -> bool:
    """Whether an array is longer than another, and equal to it where that has entries."""
    if isinstance(new, Partly) or isinstance(old, Partly) or is_traced(new, old):
        return False
    a, b = np.asarray(new), np.asarray(old)
    longer = a.ndim == b.ndim and a.shape != b.shape and all(x >= y for x, y in zip(a.shape, b.shape, strict=True))
    return longer and bool(np.array_equal(a[tuple(map(slice, b.shape))], b))


def _needs_key(prediction: Prediction, latents: Mapping[str, Data]) -> DomainError:
    return DomainError(
        "log_predictive(…) without a key",
        expected=f"a key for draws of what is new and has no closed form: {listed(prediction.new_names(latents))}",
        advice="log_predictive(model, draws=draws, key=jax.random.key(0))",
    )
