"""A posterior as a product: each site given those that are eliminated after it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini import dist
from fubini.arrays import Data, is_jax, is_traced
from fubini.bridge.conditionals import name_in_dist
from fubini.domains import Domain
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import CAP
from fubini.factors.table import Table
from fubini.families.family import family_of
from fubini.index.node import Leaf
from fubini.joint.approximate import POINTS, approximation
from fubini.joint.closed_form import require_evidence
from fubini.joint.collapse import Collapse, collapse
from fubini.joint.form import Form
from fubini.joint.posterior import factors_if_any, posterior
from fubini.ops import lift
from fubini.symbolic.block import Block
from fubini.symbolic.elimination import Eliminated
from fubini.symbolic.laws import family
from fubini.terms.factor import Factor, product, substitute
from fubini.terms.term import Name
from fubini.terms.value import Array, Value, Variable


def closed_posterior(joint: Any) -> Factor:
    """p(last | data) · p(last but one | last, data) · …, a normalised factor."""
    plan, is_double = collapse(joint), Form(joint).is_wide
    if plan.blocked:
        return _approximate(joint, plan, is_double)
    require_conditionals(plan)
    evidence = plan.asked("log_density", {}, wide=is_double)
    if not is_traced(evidence):
        require_evidence(float(evidence), joint)
    steps = plan.reduced.steps
    return product(*(term for place in range(len(steps)) for term in _conditionals(plan, place, is_double)))


def _approximate(joint: Any, blocked: Collapse, is_double: bool) -> Factor:
    """Σ_s w_s δ(θ = θ_s) p(the others | θ_s, data), over weighted points of the latents θ without a closed form."""
    plan, points, values = approximation(joint, "posterior()", blocked, CAP)
    require_conditionals(plan)
    numbers = np.asarray if is_double else jnp.asarray
    at: dict[Name, Value] = {
        name: Array(numbers(values[name]), (POINTS,), plan.reading.domains[name]) for name in plan.kept
    }
    weights = Table(numbers(points.shares), (POINTS,))._marked(points.exactness)
    steps = range(len(plan.reduced.steps))
    others = [substitute(term, at) for place in steps for term in _conditionals(plan, place, is_double)]
    return product(weights, Delta(at), *others).sum(POINTS)


def posterior_of(joint: Any) -> Factor:
    """The posterior by the rules of factors, or else by those of models, which know more families."""
    written = factors_if_any(joint)
    if written is not None:
        try:
            found = posterior(joint, *written)
            if found.exactness.is_exact:
                return found
        except (Intractable, NoRule):
            pass
    return closed_posterior(joint)


def require_posterior(joint: Any, plan: Collapse) -> None:
    """The posterior has a factor."""
    try:
        require_conditionals(plan)
    except NoRule:
        posterior_of(joint)


def require_conditionals(plan: Collapse) -> None:
    """Every step of a plan has a factor, given what is eliminated after it."""
    for place, step in enumerate(plan.reduced.steps):
        for name in step.names:
            hindrance = _hindrance(plan, place, name)
            if hindrance:
                raise NoRule(
                    f"posterior(): {name!r} given {listed(_later(plan, place))} as a factor",
                    expected="a family of `fubini.dist`, over a number, an array of independent ones or a vector",
                    nearest=hindrance,
                    advice="marginal(name), predict(key, name) and infer(key) answer without it",
                )


def _later(plan: Collapse, place: int) -> list[str]:
    return [*(other for later in plan.reduced.steps[place + 1 :] for other in later.names), *plan.kept]


def _hindrance(plan: Collapse, place: int, name: str) -> str:
    """Why a site of a step has no conditional as a factor, or nothing."""
    step, leaf = plan.reduced.steps[place], plan.reading.sites[name]
    kind = family(step)
    if not name_in_dist(kind):
        return f"{name!r} is a {'path of a chain' if kind == 'Chain' else family_of(kind).plain_words}"
    if kind == "Categorical" and leaf.low and not plan.reading.domains[name].is_finite:
        return f"{name!r} begins at {leaf.low:g}"
    if not isinstance(step.result, Eliminated) and math.prod(leaf.shape) > 1:
        apart = step.result.layout.axes[: len(step.result.layout.apart)]
        is_vector = apart == tuple(range(len(apart))) and len(leaf.shape) == len(apart) + 1
        if not is_vector and not _is_one_gaussian(plan, place):
            return f"entries of {name!r}, of shape {leaf.shape}, depend on each other along several axes"
    return ""


def _is_one_gaussian(plan: Collapse, place: int) -> bool:
    """A block of normal sites that nothing is eliminated after."""
    result = plan.reduced.steps[place].result
    return isinstance(result, Block) and not result.layout.apart and not _later(plan, place)


def _conditionals(plan: Collapse, place: int, is_double: bool) -> list[Factor]:
    """p(a | later) · p(b | a, later) · … for the sites a, b … of one step."""
    names = plan.reduced.steps[place].names
    if _is_one_gaussian(plan, place):
        return [_gaussian(plan, names, is_double)]
    later = _later(plan, place)
    return [_conditional(plan, name, names[:spot], later, is_double) for spot, name in enumerate(names)]


def _gaussian(plan: Collapse, names: tuple[str, ...], is_double: bool) -> Factor:
    """All sites of a block together."""
    inputs: dict[Name, Domain] = {name: plan.reading.domains[name] for name in names}
    found = plan.asked("block_of", {}, wide=is_double, names=names)
    return Gaussian(mean=found["loc"], covariance=found["covariance"], inputs=inputs).normalize()


def _conditional(plan: Collapse, name: str, known: tuple[str, ...], later: list[str], is_double: bool) -> Factor:
    kind, leaf, domains = family(plan.step_of(name)), plan.reading.sites[name], plan.reading.domains
    given = [*later, *known]
    if not given:
        found = plan.asked("conditional_of", {}, wide=is_double, about=name)
        return _density(kind, leaf, {key: Array(value) for key, value in _shaped(kind, leaf, found).items()})(name)

    def parameters(*values: Data) -> dict[str, Data]:
        found = plan.conditional_of(dict(zip(given, values, strict=True)), about=name, known=known)
        return _shaped(kind, leaf, found)

    keys = jax.eval_shape(parameters, *(jax.ShapeDtypeStruct(domains[n].shape, jnp.result_type(float)) for n in given))
    variables = [Variable(other, domains[other]) for other in given]
    return _density(kind, leaf, {key: lift(_one(parameters, key))(*variables) for key in keys})(name)


def _shaped(kind: str, leaf: Leaf, found: dict[str, Data]) -> dict[str, Data]:
    """Parameters as those of the density: of one number its scale, of labels from 0 on."""
    if kind == "Categorical":
        low, probs = int(leaf.low or 0), found["probs"]
        return {"probs": (jnp if is_jax(probs) else np).pad(probs, [(0, 0)] * (probs.ndim - 1) + [(low, 0)])}
    if "covariance" not in found:
        return found
    xp, covariance = jnp if is_jax(found["loc"]) else np, found["covariance"]
    df = {"df": found["df"]} if "df" in found else {}
    if math.prod(leaf.shape) == 1:
        return {**df, "loc": found["loc"].reshape(leaf.shape), "scale": xp.sqrt(covariance.reshape(leaf.shape))}
    return {**df, "loc": found["loc"], "scale_tril": xp.linalg.cholesky(covariance)}


def _density(kind: str, leaf: Leaf, parameters: dict[str, Value]) -> Any:
    if math.prod(leaf.shape) == 1:
        kind = {"MultivariateNormal": "Normal", "MultivariateStudentT": "StudentT"}.get(kind, kind)
    return getattr(dist, name_in_dist(kind))(**parameters)


def _one(parameters: Callable[..., dict[str, Data]], key: str) -> Callable[..., Data]:
    def one(*values: Data) -> Data:
        return parameters(*values)[key]

    one.__name__ = key
    return one
