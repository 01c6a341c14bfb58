"""One site given the observations, as a factor."""

from __future__ import annotations

from typing import Any

from fubini.bridge.open_marginal import Marginal
from fubini.bridge.open_marginal import marginal as marginal_of_density
from fubini.eliminate.ask import eliminate
from fubini.errors import Intractable, listed
from fubini.factors.delta import Delta
from fubini.factors.mixture import CAP
from fubini.factors.represent import restored
from fubini.models.checks import required
from fubini.models.eliminated_model import EliminatedModel
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import MARGINAL, exact_marginal
from fubini.questions.approximate import POINTS, approximation
from fubini.questions.closed_form import no_closed_form, with_mass
from fubini.terms.factor import Factor

ADVICE = "infer(key) gives draws of it"


@exact_marginal.rule
def marginal(model: FlatModel, name: Any) -> Factor:
    """p(x | observed)  =  ∫ p(x, others | observed) d others"""
    return model.once((MARGINAL, name), lambda: _marginal(model, required(name, model.joint, _sites(model))))


def _marginal(model: FlatModel, name: str) -> Factor:
    """The others integrated out first, this one last: what it is then is the answer."""
    if model.tables is not None:
        factors, variables = model.tables
        with model.represented():
            whole = eliminate(factors, [variable for variable in variables if variable.name != name])
            return restored(whole.normalize())
    try:
        closed = closed_marginal(model, name)
    except Intractable:
        return _approximate(model, name)
    return with_mass(closed.whole, model, lambda: model.rounded(closed.factor()))


def closed_marginal(model: FlatModel, name: str) -> Marginal:
    """The marginal of a site, or the error that says why it has no closed form."""
    closed = marginal_of_density(model.density, name, _others(model, name))
    if not closed.is_closed:
        raise no_closed_form(f"marginal({name!r})", EliminatedModel(model, closed.whole.plan), ADVICE)
    return closed


def _sites(model: FlatModel) -> list[str]:
    """The sites that may be asked for; those of nested joints by path, "inner.x"."""
    return [path for path, _ in model.joint.outline.free_domains()]


def _others(model: FlatModel, name: str) -> list[str]:
    return [other for other in model.reading.sites if other != name]


def _approximate(model: FlatModel, name: str) -> Factor:
    """p(x | data)  ≈  Σ_s w_s p(x | θ_s, data), over weighted points of the latents θ without a closed form."""
    last = EliminatedModel(model, model.density.without(model.reading.sites, name).plan)
    approximate = approximation(model, f"marginal({name!r})", last, CAP, ADVICE)
    if name in approximate.eliminated_model.kept:
        return (approximate.weights * Delta({name: approximate.at[name]})).sum(POINTS)
    others = [other for other in _others(model, name) if other not in approximate.eliminated_model.kept]
    given = marginal_of_density(model.density.given(approximate.at), name, others)
    if not given.is_closed:
        asked = f"marginal({name!r}) at points of {listed(approximate.eliminated_model.kept)}"
        raise no_closed_form(asked, EliminatedModel(model, given.whole.plan))
    return (approximate.weights * model.rounded(given.factor())).sum(POINTS)
