"""All sites given the observations, as one factor."""

from __future__ import annotations

import numpy as np

from fubini.base.arrays import is_traced
from fubini.base.interpretations import interpret
from fubini.bridge.large_conditional import is_large
from fubini.eliminate.ask import eliminate
from fubini.errors import DataError, FubiniError, Intractable, NoRule
from fubini.factors.delta import Delta
from fubini.factors.mixture import CAP
from fubini.factors.promotion import is_open
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import POSTERIOR, exact_posterior
from fubini.questions.approximate import POINTS, approximation
from fubini.questions.closed_form import with_mass
from fubini.terms.factor import Factor, product, terms_of
from fubini.terms.heads import NORMALIZE


@exact_posterior.rule
def posterior(model: FlatModel) -> Factor:
    """p(free | observed)"""
    return model.once(POSTERIOR, lambda: _posterior(model))


def _posterior(model: FlatModel) -> Factor:
    """As it is written, by the rules of factors; or each site given those that are eliminated after it."""
    if _is_large(model):
        return _closed(model)
    written = _of_written(model)
    if written is not None and written.exactness.is_exact:
        return written
    try:
        return _closed(model)
    except (Intractable, NoRule):
        if written is None:
            raise
        return written


def _is_large(model: FlatModel) -> bool:
    """Whether all latents have a closed form, and some are more than the rules of factors have dense matrices for."""
    if not model.reading.sites:
        return False
    plan = model.density.without(model.reading.sites).plan
    return not plan.blocked and any(map(is_large, plan.integrals))


def _of_written(model: FlatModel) -> Factor | None:
    """p(free | observed)  =  p(free, observed) / p(observed), where there is a rule for it."""
    given = model.tables or model.written
    if given is None:
        return None
    factors, variables = given
    known = model.represented()
    try:
        with known:
            evidence = eliminate(factors, variables)
    except FubiniError:  # it may have a closed form none the less
        return None
    data = evidence.log().data  # type: ignore[attr-defined]
    if not is_traced(data) and not data > -np.inf:
        raise DataError(f"the posterior of {model.joint}", expected="observations of positive density")
    whole = product(*factors)
    try:
        return interpret(NORMALIZE, whole, evidence) if any(map(is_open, terms_of(whole))) else whole / evidence
    except (Intractable, NoRule):
        return None


def _closed(model: FlatModel) -> Factor:
    """p(last | data) · p(last but one | last, data) · …"""
    disintegration = model.density.without(model.reading.sites)
    if disintegration.plan.blocked:
        return _approximate(model)
    return with_mass(disintegration, model, lambda: product(*map(model.rounded, disintegration.conditionals)))


def _approximate(model: FlatModel) -> Factor:
    """Σ_s w_s δ(θ = θ_s) p(the others | θ_s, data), over weighted points of the latents θ without a closed form."""
    approximate = approximation(model, "posterior()", eliminated(model), CAP)
    others = model.density.given(approximate.at).without(approximate.eliminated_model.eliminated)
    closed = map(model.rounded, others.conditionals)
    return product(approximate.weights, Delta(approximate.at), *closed).sum(POINTS)
