"""Draws of observed sites given latents drawn from the posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.errors import DomainError, UnknownName, closest, listed
from fubini.models.call_values import prior_of
from fubini.models.checks import required
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Flavour
from fubini.models.options import require_options, whole_number
from fubini.models.paths import nested
from fubini.models.question_heads import exact_predict
from fubini.numerics.randomness import require_key
from fubini.questions.approximate import approximation
from fubini.questions.evidence import log_evidence

ADVICE = "predict(key, name, draws=infer(key)) predicts from draws of a sampler"


@exact_predict.rule
def predict(model: FlatModel, key: Any, names: tuple, options: dict) -> Any:
    """y* ~ p(y* | θ), θ ~ p(θ | data)"""
    others = {name: value for name, value in options.items() if name not in ("draws", "model")}
    require_options("predict", others, ("key", "draws", "model"))
    require_key(key)
    joint = model.joint if options["model"] is None else options["model"]
    if has_draws(options["draws"]):
        return predicted(key, joint, latents_of(model, options["draws"]), names)
    draws = whole_number("draws", options["draws"])
    whole = eliminated(model)
    first, second = jax.random.split(key)
    kept: dict[str, Data] = {}
    if whole.blocked:
        first, third = jax.random.split(first)
        whole, points, values = approximation(model, "predict(…)", whole, advice=ADVICE)
        chosen = jax.random.choice(third, len(points.points), (draws,), p=jnp.asarray(points.shares))
        kept = {name: value[chosen] for name, value in values.items()}
    else:
        log_evidence(model)
    latents = whole.draw_all(jax.random.split(first, draws), kept, many=True)
    return predicted(second, joint, latents, names)


def has_draws(draws: Any) -> bool:
    """Whether these are draws by name, as `infer` and samplers give them, and not how many to make."""
    return isinstance(draws, Mapping) or hasattr(draws, "posterior")


def latents_of(model: FlatModel, draws: Any) -> dict[str, Data]:
    """Draws of the latents by name, chains one after another: of ArviZ data, or of arrays [chain, draw, …]."""
    group = getattr(draws, "posterior", draws)
    latents = {}
    for name, domain in model.outline.free_domains():
        key = name if name in group else name.replace("/", ".")
        if key not in group:
            raise UnknownName(
                f"predictions from draws without the latent {name!r}",
                expected=f"draws of all latents: {listed(dict(model.outline.free_domains()))}",
                nearest=closest(name, list(group)),
                advice="those of infer(key) have all; recover(key, draws) draws eliminated ones back",
            )
        array = np.asarray(group[key])
        if array.shape[2:] != domain.shape or array.ndim < 2:
            raise DomainError(
                f"predictions from draws of {name!r} of shape {array.shape}",
                expected=f"the shape (chains, draws{''.join(f', {size}' for size in domain.shape)})",
            )
        latents[name] = array.reshape((-1, *domain.shape))
    return latents


def predicted(key: Data, joint: Flavour, latents: Mapping[str, Data], names: tuple[str, ...]) -> Any:
    """Draws of sites given draws of latents."""
    plain = prior_of(joint)
    order = plain.outline.names
    asked = names or tuple(name for name in order if name not in latents)
    for name in asked:
        required(name, plain, order)
    given = nested(latents)
    unknown = [name for name in given if name not in order]
    if unknown:
        raise UnknownName(
            f"predictions by a model without the site {unknown[0]!r}",
            expected=f"the latents {listed(given)}, by these names",
            nearest=closest(unknown[0], order),
        )
    sample = plain.sample(key, (), given)
    values = sample if isinstance(sample, Mapping) else plain.flatten(sample, order)
    chosen = {name: values[name] for name in asked}
    return chosen[names[0]] if len(names) == 1 else chosen
