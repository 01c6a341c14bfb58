"""One site given the observations, as a factor."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from fubini import dist
from fubini.arrays import Data, is_jax, is_traced
from fubini.bridge.conditionals import name_in_dist
from fubini.domains import Bint, Domain, Real
from fubini.eliminate.ask import eliminate
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import CAP
from fubini.factors.table import Table
from fubini.families.family import family_of
from fubini.index.node import Leaf
from fubini.joint.approximate import POINTS, approximation
from fubini.joint.closed_form import is_network, no_closed_form, require_evidence
from fubini.joint.collapse import Collapse, collapse, collapse_real_first, collapse_together
from fubini.joint.form import Form
from fubini.joint.posterior import factors_if_any
from fubini.symbolic.block import Block
from fubini.symbolic.laws import family
from fubini.symbolic.student import Student
from fubini.terms.factor import Factor
from fubini.terms.term import Name
from fubini.terms.value import Array


class Method(NamedTuple):
    """How a marginal is found: a plan that ends with the site, for each value of finite sites that it leaves."""

    plan: Collapse
    labels: tuple[str, ...] = ()


def marginal(joint: Any, name: str) -> Factor:
    """The others integrated out first, this one last: what it is then is the answer."""
    if is_network(joint) and (written := factors_if_any(joint)) is not None:
        factors, variables = written
        return eliminate(factors, [variable for variable in variables if variable.name != name]).normalize()
    is_double = Form(joint).is_wide
    try:
        plan, labels = method_of(joint, name)
    except Intractable:
        return _approximate(joint, name, is_double)
    if labels:
        return _mixture(joint, name, plan, labels, is_double)
    evidence = plan.asked("log_density", {}, wide=is_double)
    if not is_traced(evidence):
        require_evidence(float(evidence), joint)
    return factor_of(name, plan, plan.asked("parameters_of", {}, wide=is_double, about=name))


def _approximate(joint: Any, name: str, is_double: bool) -> Factor:
    """p(x | data)  ≈  Σ_s w_s p(x | θ_s, data), over weighted points of the latents θ without a closed form."""
    last = collapse(joint, None, name)
    blocked = last if last.blocked else collapse(joint)
    plan, points, values = approximation(joint, f"marginal({name!r})", blocked, CAP, "infer(key) gives draws of it")
    shares = points.shares if is_double else jnp.asarray(points.shares)
    weights = Table(shares, (POINTS,))._marked(points.exactness)
    if name in plan.kept:
        at = np.asarray(values[name]) if is_double else jnp.asarray(values[name])
        return (weights * Delta({name: Array(at, (POINTS,), plan.reading.domains[name])})).sum(POINTS)
    direct = collapse(joint, plan.eliminated, name)
    given = collapse_together(joint, name, plan.kept) if direct.blocked else direct
    if given is None:
        raise no_closed_form(f"marginal({name!r}) at points of {listed(plan.kept)}", direct)
    require_factor(name, given)
    parameters = given.asked("parameters_of", values, wide=is_double, many=True, about=name)
    return (weights * factor_of(name, given, _regular(parameters), (POINTS,))).sum(POINTS)


def _regular(parameters: dict[str, Data]) -> dict[str, Data]:
    """Covariances that rounding made singular, as at points where a scale is next to 0, with a diagonal of as much."""
    if "covariance" not in parameters:
        return parameters
    covariance = parameters["covariance"]
    xp, size = jnp if is_jax(covariance) else np, covariance.shape[-1]
    greatest = xp.max(xp.diagonal(covariance, axis1=-2, axis2=-1), axis=-1)
    rounding = (
        8 * size * np.finfo(covariance.dtype).eps * greatest[..., None, None] * xp.eye(size, dtype=covariance.dtype)
    )
    return {**parameters, "covariance": covariance + rounding}


def method_of(joint: Any, name: str) -> Method:
    """How the marginal of a site is found, or the error that says why it has no closed form."""
    blocked = collapse(joint, None, name)
    found = Method(blocked) if not blocked.blocked else _otherwise(joint, name)
    if found is None:
        raise no_closed_form(f"marginal({name!r})", blocked, "infer(key) gives draws of it")
    require_factor(name, found.plan)
    return found


def _otherwise(joint: Any, name: str) -> Method | None:
    """Where the others cannot go one by one: normal sites together, another order of all, or given finite sites."""
    together = collapse_together(joint, name)
    if together is not None:
        return Method(together)
    plan = collapse_real_first(joint, name) or collapse(joint)
    is_last = not plan.blocked and plan.reduced.steps[-1].names == (name,)
    return Method(plan) if is_last else _given_labels(joint, name)


def _given_labels(joint: Any, name: str) -> Method | None:
    """Given one finite site, or all of them, where these have few values."""
    sites = collapse(joint, ()).reading.sites
    finite = [n for n, leaf in sites.items() if n != name and _values_of(leaf) <= CAP]
    choices: list[tuple[str, ...]] = [(label,) for label in finite]
    if len(finite) > 1 and math.prod(_values_of(sites[label]) for label in finite) <= CAP:
        choices.append(tuple(finite))
    for labels in choices:
        direct = collapse(joint, [n for n in sites if n not in labels], name)
        plan = collapse_together(joint, name, labels) if direct.blocked else direct
        if plan is not None:
            return Method(plan, labels)
    return None


def _values_of(leaf: Leaf) -> float:
    """How many values all entries of a site have together."""
    if not leaf.is_integer or leaf.low is None or leaf.high is None:
        return math.inf
    return float(leaf.high - leaf.low + 1) ** math.prod(leaf.shape)


def _mixture(joint: Any, name: str, plan: Collapse, labels: tuple[str, ...], is_double: bool) -> Factor:
    """p(x | data)  =  Σ_k p(k | data) p(x | k, data)"""
    given = _assignments({label: plan.reading.sites[label] for label in labels})
    logs = plan.asked("log_density", given, wide=True, many=True)
    parameters = plan.asked("parameters_of", given, wide=True, many=True, about=name)
    if not is_traced(logs):
        require_evidence(float(np.max(logs)), joint)
    logs = logs - (jnp if is_jax(logs) else np).max(logs)
    if not is_double:  # numbers that are known are rounded at the end
        logs, parameters = jnp.asarray(logs), {key: jnp.asarray(value) for key, value in parameters.items()}
    xp = jnp if is_jax(logs) else np
    index = labels[0] if len(labels) == 1 else "_".join(labels)
    weights = Table.from_log(logs - xp.log(xp.sum(xp.exp(logs))), (index,))
    return (weights * factor_of(name, plan, parameters, (index,))).sum(index)


def _assignments(labels: dict[str, Leaf]) -> dict[str, np.ndarray]:
    """All values of finite sites together, along the first axis."""
    ranges = [range(int(leaf.low or 0), int(leaf.high or 0) + 1) for leaf in labels.values() for _ in _entries(leaf)]
    every = np.array(list(itertools.product(*ranges)))
    ends = np.cumsum([len(_entries(leaf)) for leaf in labels.values()])
    parts = np.split(every, ends[:-1], axis=1)
    return {name: part.reshape(-1, *leaf.shape) for (name, leaf), part in zip(labels.items(), parts, strict=True)}


def _entries(leaf: Leaf) -> range:
    return range(math.prod(leaf.shape))


def require_factor(name: str, plan: Collapse) -> None:
    """The family of a site has a factor."""
    step, leaf = plan.step_of(name), plan.reading.sites[name]
    kind = family(step)
    asked, advice = f"the marginal of {name!r} as one factor", f"predict(key, {name!r}) gives draws of it"
    if kind != "Chain" and not name_in_dist(kind):
        nearest = f"a {family_of(kind).plain_words}"
        raise NoRule(asked, expected="a family that has a factor", nearest=nearest, advice=advice)
    if kind in ("Chain", "Categorical") and (leaf.low or 0) < 0:
        raise NoRule(asked, expected="values from 0 on", nearest=f"it begins at {leaf.low:g}", advice=advice)
    if isinstance(step.result, (Block, Student)) and math.prod(leaf.shape) > 1:
        apart = step.result.layout.axes[: len(step.result.layout.apart)]
        first = apart == tuple(range(len(apart))) and len(leaf.shape) == len(apart) + 1
        if not first and (apart or kind == "MultivariateStudentT"):
            raise NoRule(
                asked,
                expected="entries that depend on each other along the last axis alone",
                nearest=f"an array of shape {leaf.shape}",
                advice=advice,
            )


def factor_of(name: str, plan: Collapse, given: dict[str, Data], batch: tuple[str, ...] = ()) -> Factor:
    """The density of a site by its family and parameters, which have leading axes of these names."""
    kind, leaf = family(plan.step_of(name)), plan.reading.sites[name]
    if kind in ("Chain", "Categorical"):
        places = [f"{name}_place"] if len(leaf.shape) == 1 else [f"{name}_place{k}" for k in range(len(leaf.shape))]
        return Table(_from_zero(given["probs"], int(leaf.low or 0)), (*batch, *places, name))
    if kind == "MultivariateNormal":
        return _normal(name, leaf.shape, given["loc"], given["covariance"], batch)
    if kind == "MultivariateStudentT":
        return _student(name, leaf.shape, given, batch)
    parameters = {key: Array(value, batch) for key, value in given.items()}
    return getattr(dist, name_in_dist(kind))(**parameters)(name)


def _from_zero(probs: Data, low: int) -> Data:
    """Values of a table count from 0: those before the first have no weight."""
    xp = jnp if is_jax(probs) else np
    return xp.pad(probs, [(0, 0)] * (probs.ndim - 1) + [(low, 0)])


def _normal(name: str, shape: tuple[int, ...], loc: Data, covariance: Data, batch: tuple[str, ...]) -> Factor:
    xp, lead = jnp if is_jax(loc) else np, loc.shape[: len(batch)]
    if math.prod(shape) == 1:
        scale = xp.sqrt(covariance.reshape((*lead, *shape)))
        return dist.Normal(Array(loc.reshape((*lead, *shape)), batch), Array(scale, batch))(name)
    if loc.shape[len(batch) :] == shape:  # one vector, or one for each place of independent axes
        return dist.MultivariateNormal(Array(loc, batch), covariance_matrix=Array(covariance, batch))(name)
    cells: dict[Name, Domain] = {key: Bint[size] for key, size in zip(batch, lead, strict=True)}
    inputs: dict[Name, Domain] = {**cells, name: Real.with_shape(shape)}
    return Gaussian(mean=loc, covariance=covariance, inputs=inputs).normalize()


def _student(name: str, shape: tuple[int, ...], given: dict[str, Data], batch: tuple[str, ...]) -> Factor:
    df, loc, covariance = given["df"], given["loc"], given["covariance"]
    xp, lead = jnp if is_jax(loc) else np, loc.shape[: len(batch)]
    if math.prod(shape) == 1:
        scale = xp.sqrt(covariance.reshape((*lead, *shape)))
        return dist.StudentT(Array(df, batch), Array(loc.reshape((*lead, *shape)), batch), Array(scale, batch))(name)
    root = xp.linalg.cholesky(covariance)
    return dist.MultivariateStudentT(Array(df, batch), Array(loc, batch), Array(root, batch))(name)
