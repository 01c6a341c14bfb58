"""One site given the observations, as a factor."""

from __future__ import annotations

from typing import Any

from fubini import dist
from fubini.arrays import is_traced
from fubini.eliminate.ask import eliminate
from fubini.factors.table import Table
from fubini.joint.closed_form import is_network, no_closed_form, require_evidence
from fubini.joint.collapse import collapse
from fubini.joint.form import Form
from fubini.joint.posterior import factors_of
from fubini.symbolic.laws import family
from fubini.terms.factor import Factor


def marginal(joint: Any, name: str) -> Factor:
    """The others integrated out first, this one last: what it is then is the answer."""
    if is_network(joint):
        factors, variables = factors_of(joint)
        others = [variable for variable in variables if variable.name != name]
        found = eliminate(factors, others)
        return found.normalize()
    plan = collapse(joint, None, name)
    if plan.blocked:
        raise no_closed_form(f"marginal({name!r})", plan, "infer(key) gives draws of it")
    wide = Form(joint).is_wide
    evidence = plan.asked("log_density", {}, wide=wide)
    if not is_traced(evidence):
        require_evidence(float(evidence), joint)
    given = plan.asked("last_parameters", {}, wide=wide)
    kind = family(plan.reduced.steps[-1])
    if kind == "Chain":
        return Table(given["probs"], (f"{name}_place", name))
    return getattr(dist, kind)(**given)(name)
