"""A posterior as a product: each site given those that are eliminated after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fubini import dist
from fubini.arrays import Data, is_traced
from fubini.errors import NoRule, listed
from fubini.joint.closed_form import no_closed_form, require_evidence
from fubini.joint.collapse import Collapse, collapse
from fubini.joint.form import Form
from fubini.ops import lift
from fubini.symbolic.laws import family
from fubini.terms.factor import Factor, product
from fubini.terms.value import Array, Value, Variable

FAMILIES = ("Normal", "Gamma", "InverseGamma", "Beta", "Dirichlet", "Categorical", "MultivariateNormal")


def closed_posterior(joint: Any) -> Factor:
    """p(last | data) · p(last but one | last, data) · …, a normalised factor."""
    plan = collapse(joint)
    if plan.blocked:
        raise no_closed_form("posterior()", plan)
    wide = Form(joint).is_wide
    evidence = plan.asked("log_density", {}, wide=wide)
    if not is_traced(evidence):
        require_evidence(float(evidence), joint)
    return product(*(_law(plan, place, wide) for place in range(len(plan.reduced.steps))))


def _law(plan: Collapse, place: int, wide: bool) -> Factor:
    """The sites of one step given those of later ones."""
    step = plan.reduced.steps[place]
    kind, domains = family(step), plan.reading.domains
    (name, *others) = step.names
    leaf = plan.reading.sites[name]
    if others or kind not in FAMILIES or leaf.low or (kind == "MultivariateNormal" and len(leaf.shape) != 1):
        raise NoRule(
            f"the posterior of {listed(step.names)} as a factor",
            expected=f"sites that are eliminated one by one, as {listed(FAMILIES)}",
            nearest=_hindrance(step.names, kind, leaf.low),
            advice="marginal(name), predict(key, name) and infer(key) answer without it",
        )
    given = [other for later in plan.reduced.steps[place + 1 :] for other in later.names]
    if not given:
        found = plan.asked("parameters_of", {}, wide=wide, about=name)
        return _made(kind, {key: Array(value) for key, value in found.items()})(name)

    def parameters(*values: Data) -> dict[str, Data]:
        return plan.parameters_of(dict(zip(given, values, strict=True)), about=name)

    keys = jax.eval_shape(parameters, *(jax.ShapeDtypeStruct(domains[n].shape, jnp.result_type(float)) for n in given))
    variables = [Variable(other, domains[other]) for other in given]
    return _made(kind, {key: lift(_one(parameters, key))(*variables) for key in keys})(name)


def _hindrance(names: tuple[str, ...], kind: str, low: float | None) -> str:
    name, *others = names
    if others:
        return f"{listed(names)} go together, as {kind}"
    return f"{name!r} begins at {low:g}" if low else f"{name!r} is {kind}"


def _made(kind: str, parameters: dict[str, Value]) -> Any:
    if kind == "MultivariateNormal":
        parameters["covariance_matrix"] = parameters.pop("covariance")
    return getattr(dist, kind)(**parameters)


def _one(parameters: Callable[..., dict[str, Data]], key: str) -> Callable[..., Data]:
    def one(*values: Data) -> Data:
        return parameters(*values)[key]

    one.__name__ = key
    return one
