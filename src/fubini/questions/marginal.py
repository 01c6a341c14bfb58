"""Sites given the observations, as a factor."""

from __future__ import annotations

import math
from typing import Any

from fubini.base.names import Name
from fubini.bridge.open_marginal import Marginal, count
from fubini.bridge.open_marginal import marginal as marginal_of_density
from fubini.eliminate.ask import eliminate
from fubini.errors import Intractable, NameClash, listed
from fubini.factors.delta import Delta
from fubini.factors.mixture import CAP
from fubini.factors.represent import restored
from fubini.models.checks import required
from fubini.models.eliminated_model import EliminatedModel
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import MARGINAL, exact_marginal
from fubini.questions.approximate import POINTS, approximation
from fubini.questions.closed_form import no_closed_form, with_mass
from fubini.terms.factor import Factor, product
from fubini.terms.value import Value

ADVICE = "infer(key) gives draws of it"


@exact_marginal.rule
def marginal(model: FlatModel, name: Any) -> Factor:
    """p(x | observed)  =  ∫ p(x, others | observed) d others"""
    return marginal_of_names(model, (name,))


@exact_marginal.rule
def marginal_of_several(model: FlatModel, names: tuple) -> Factor:
    """p(x, y | observed)  =  ∫ p(x, y, others | observed) d others"""
    if not names or len(set(names)) < len(names):
        raise NameClash(f"the marginal of {listed(names)}", expected="one site or more, each once")
    return marginal_of_names(model, names)


def marginal_of_names(model: FlatModel, names: tuple[Any, ...]) -> Factor:
    """The marginal of sites, computed once for the same model and numbers."""
    sites = _sites(model)
    return model.once(
        (MARGINAL, names), lambda: _marginal(model, tuple(required(n, model.joint, sites) for n in names))
    )


def _marginal(model: FlatModel, names: tuple[str, ...]) -> Factor:
    """The others integrated out first, these last: what they are then is the answer."""
    if model.tables is not None:
        factors, variables = model.tables
        with model.represented():
            whole = eliminate(factors, [variable for variable in variables if variable.name not in names])
            return restored(whole.normalize())
    try:
        closed = closed_marginal(model, names)
    except Intractable:
        return _approximate(model, names)
    return with_mass(closed.whole, model, lambda: model.rounded(closed.factor()))


def closed_marginal(model: FlatModel, names: tuple[str, ...]) -> Marginal:
    """The marginal of sites, or the error that says why it has no closed form."""
    closed = marginal_of_density(model.density, names, _others(model, names))
    if not closed.is_closed:
        raise no_closed_form(_asked(names), EliminatedModel(model, closed.whole.plan), _advice(model))
    return closed


def _asked(names: tuple[str, ...]) -> str:
    return f"marginal({', '.join(map(repr, names))})"


def _advice(model: FlatModel) -> str:
    """What to do; and where labels are too many to be summed one by one, that they are."""
    counts = {name: count(leaf) for name, leaf in model.density.integrand.latents.items()}
    many = {name: number for name, number in counts.items() if CAP < number < math.inf}
    words = [f"{name!r} has {_shown(number)} values together" for name, number in many.items()]
    return f"{ADVICE}, as {' and '.join(words)}, more than the {CAP:,} that are summed one by one" if many else ADVICE


def _shown(number: float) -> str:
    return f"{number:,.0f}" if number < 10**9 else f"about 10^{math.log10(number):.0f}"


def _sites(model: FlatModel) -> list[str]:
    """The sites that may be asked for; those of nested joints by path, "inner.x"."""
    return [path for path, _ in model.joint.outline.free_domains()]


def _others(model: FlatModel, names: tuple[str, ...]) -> list[str]:
    return [other for other in model.reading.sites if other not in names]


def _approximate(model: FlatModel, names: tuple[str, ...]) -> Factor:
    """p(x | data)  ≈  Σ_s w_s p(x | θ_s, data), over weighted points of the latents θ without a closed form."""
    last = EliminatedModel(model, model.density.without(model.reading.sites, names).plan)
    approximate = approximation(model, _asked(names), last, CAP, _advice(model))
    kept = approximate.eliminated_model.kept
    points: dict[Name, Value] = {name: approximate.at[name] for name in names if name in kept}
    parts: list[Factor] = []
    if points:
        parts.append(Delta(points))
    closed = tuple(name for name in names if name not in kept)
    if closed:
        others = [other for other in _others(model, closed) if other not in kept]
        given = marginal_of_density(model.density.given(approximate.at), closed, others)
        if not given.is_closed:
            asked = f"{_asked(names)} at points of {listed(kept)}"
            raise no_closed_form(asked, EliminatedModel(model, given.whole.plan))
        parts.append(model.rounded(given.factor()))
    return product(approximate.weights, *parts).sum(POINTS)
