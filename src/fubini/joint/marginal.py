"""One site given the observations, as a factor."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from fubini import dist
from fubini.arrays import Data, is_jax, is_traced
from fubini.domains import Real
from fubini.eliminate.ask import eliminate
from fubini.errors import NoRule
from fubini.factors.gaussian import Gaussian
from fubini.factors.table import Table
from fubini.joint.closed_form import is_network, no_closed_form, require_evidence
from fubini.joint.collapse import Collapse, collapse, collapse_real_first, collapse_together
from fubini.joint.form import Form
from fubini.joint.posterior import factors_if_any
from fubini.symbolic.laws import family
from fubini.terms.factor import Factor

NUMPYRO = {"NegativeBinomial": "NegativeBinomialProbs"}  # families that have another name there


def marginal(joint: Any, name: str) -> Factor:
    """The others integrated out first, this one last: what it is then is the answer."""
    if is_network(joint) and (written := factors_if_any(joint)) is not None:
        factors, variables = written
        return eliminate(factors, [variable for variable in variables if variable.name != name]).normalize()
    plan = collapse(joint, None, name)
    if plan.blocked:
        plan = _otherwise(joint, name, plan)
    wide = Form(joint).is_wide
    evidence = plan.asked("log_density", {}, wide=wide)
    if not is_traced(evidence):
        require_evidence(float(evidence), joint)
    return _factor(name, plan, plan.asked("parameters_of", {}, wide=wide, about=name))


def _otherwise(joint: Any, name: str, blocked: Collapse) -> Collapse:
    """Where the others cannot go one by one: normal sites that meet as one, or another order of all."""
    found = collapse_together(joint, name)
    if found is None:
        found = collapse_real_first(joint, name) or collapse(joint)
        if found.blocked or found.reduced.steps[-1].names != (name,):
            raise no_closed_form(f"marginal({name!r})", blocked, "infer(key) gives draws of it")
    return found


def _factor(name: str, plan: Collapse, given: dict[str, Data]) -> Factor:
    kind = family(plan.step_of(name))
    leaf = plan.reading.sites[name]
    if kind in ("Chain", "Categorical"):
        places = [f"{name}_place"] if len(leaf.shape) == 1 else [f"{name}_place{k}" for k in range(len(leaf.shape))]
        return Table(_from_zero(name, given["probs"], int(leaf.low or 0)), (*places, name))
    if kind == "MultivariateNormal":
        return _normal(name, leaf.shape, given["loc"], given["covariance"])
    if kind == "MultivariateStudentT":
        return _student(name, leaf.shape, given)
    if kind == "GeneralizedGamma":
        raise NoRule(
            f"the marginal of {name!r} as one factor",
            expected="a family that has a factor",
            nearest="a root of a Gamma",
            advice=f"predict(key, {name!r}) gives draws of it",
        )
    return getattr(dist, NUMPYRO.get(kind, kind))(**given)(name)


def _from_zero(name: str, probs: Data, low: int) -> Data:
    """Values of a table count from 0: those before the first have no weight."""
    if low < 0:
        raise NoRule(f"the marginal of {name!r} as a table", expected="values from 0 on", nearest=f"it begins at {low}")
    xp = jnp if is_jax(probs) else np
    return xp.pad(probs, [(0, 0)] * (probs.ndim - 1) + [(low, 0)])


def _normal(name: str, shape: tuple[int, ...], loc: Data, covariance: Data) -> Factor:
    xp = jnp if is_jax(loc) else np
    if loc.size == 1:
        return dist.Normal(loc.reshape(shape), xp.sqrt(covariance.reshape(shape)))(name)
    if loc.shape == shape:  # one vector, or one for each place of axes apart
        return dist.MultivariateNormal(loc, covariance_matrix=covariance)(name)
    if loc.ndim > 1:
        raise NoRule(
            f"the marginal of {name!r} as one factor",
            expected="axes apart that come first",
            advice=f"predict(key, {name!r}) gives draws of it",
        )
    precision = xp.linalg.inv(covariance)
    return Gaussian(info=precision @ loc, precision=precision, inputs={name: Real.with_shape(shape)}).normalize()


def _student(name: str, shape: tuple[int, ...], given: dict[str, Data]) -> Factor:
    df, loc, covariance = given["df"], given["loc"], given["covariance"]
    xp = jnp if is_jax(loc) else np
    if loc.size == 1:
        return dist.StudentT(df, loc.reshape(shape), xp.sqrt(covariance.reshape(shape)))(name)
    if loc.shape != shape:
        raise NoRule(
            f"the marginal of {name!r} as one factor",
            expected="one axis of entries that meet",
            advice=f"predict(key, {name!r}) gives draws of it",
        )
    return dist.MultivariateStudentT(df, loc, xp.linalg.cholesky(covariance))(name)
