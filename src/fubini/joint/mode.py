"""The values at which a posterior density is greatest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data
from fubini.eliminate.ask import argmax
from fubini.errors import DataError, DomainError, Intractable, listed
from fubini.infer.normal import highest
from fubini.infer.target import Target
from fubini.joint.closed_form import is_network, require_numbers
from fubini.joint.collapse import Collapse, collapse
from fubini.joint.form import Form
from fubini.joint.paths import nested
from fubini.joint.posterior import factors_if_any
from fubini.joint.target import target_of

STARTS = 4  # local searches, of which the best counts


def mode(joint: Any) -> Any:
    """Of all sites together: of tables exactly, of real sites by search from several points."""
    form = Form(joint)
    if is_network(joint) and (written := factors_if_any(joint)) is not None:
        factors, variables = written
        found = argmax(factors, [variable.name for variable in variables])
        return form.unflatten({str(name): value for name, value in found.items()})
    plan = collapse(joint, ())
    require_real(plan)
    if plan.is_traced:
        raise DomainError(
            f"map() of {listed(plan.kept)} under jit, vmap or grad",
            expected="data and arguments that are known: modes of real sites are found by a search",
            advice="call map() outside; log_evidence, marginals and draws are traced",
        )
    with form.width():
        try:
            values = highest_values(joint, plan)
        except DataError:
            require_numbers(joint)  # what is wrong may be said better
            raise
    return form.unflatten(nested(values))


def require_real(plan: Collapse) -> None:
    """No site is discrete: the mode is found by following slopes."""
    discrete = [name for name, domain in plan.reading.domains.items() if domain.is_discrete]
    if discrete:
        raise Intractable(
            f"the mode of {listed(plan.kept)}",
            expected="sites that are all finite and scalar, or all real",
            nearest=f"{listed(discrete)} are discrete, and not finite from 0 on and scalar, or beside real ones",
            advice="eliminate() them: the result has a density of real sites alone",
        )


def highest_values(joint: Any, plan: Any) -> dict[str, np.ndarray]:
    """The density is that of the values: the Jacobian of the map to unconstrained numbers is left out."""
    target, support = target_of(joint, plan)

    def density(free: Mapping[str, Data], numbers: Any) -> Data:
        leaves, mine = numbers
        return plan.log_density(support.values(free, leaves)[0], mine)

    plain = Target(target.shapes, density, target.numbers)
    starts = plain.start(jax.random.key(0), STARTS)
    zero = {name: jnp.zeros_like(value[0]) for name, value in starts.items()}
    found: list[tuple[float, Any]] = []
    error: DataError | None = None
    for place in range(STARTS + 1):
        start = zero if place == STARTS else {name: value[place] for name, value in starts.items()}
        try:
            free = highest(plain, start)
        except DataError as problem:
            error = problem
            continue
        found.append((float(density(free, target.numbers)), free))
    if not found:
        assert error is not None
        raise error
    best = max(found, key=lambda item: item[0])[1]
    return {name: np.asarray(value) for name, value in support.values(best, target.numbers[0])[0].items()}
