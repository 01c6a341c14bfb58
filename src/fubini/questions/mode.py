"""The values at which a posterior density is greatest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.algebra.label_digits import is_finite
from fubini.base.arrays import Data, is_traced, namespace
from fubini.eliminate.ask import argmax
from fubini.errors import DataError, DomainError, Intractable, listed
from fubini.infer.normal_approximation import highest
from fubini.infer.target import Target
from fubini.models.data_numbers import require_numbers
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.paths import nested
from fubini.models.question_heads import exact_mode
from fubini.questions.sampler_target import SupportTransform, target_of
from fubini.terms.value import to_array

STARTS = 4  # local searches, of which the best counts


@exact_mode.rule
def mode(model: FlatModel) -> Any:
    """Of all sites together: exactly where each maximum has a closed form, else by search from several points."""
    if model.tables is not None:
        factors, variables = model.tables
        with model.represented():
            values = argmax(factors, [variable.name for variable in variables])
        return model.unflatten({str(name): value for name, value in values.items()})
    closed = _closed(model)
    if closed is not None:
        return model.unflatten(nested(closed))
    eliminated_model = eliminated(model, ())
    require_real(eliminated_model)
    if eliminated_model.is_traced:
        raise DomainError(
            f"map() of {listed(eliminated_model.kept)} under jit, vmap or grad",
            expected="data and arguments that are known: modes of real sites are computed by a search",
            advice="call map() outside; log_evidence, marginals and draws are traced",
        )
    with model.precision():
        try:
            values = highest_values(eliminated_model)
        except DataError:
            require_numbers(model.joint)  # what is wrong may be said better
            raise
    return model.unflatten(nested(values))


def _closed(model: FlatModel) -> dict[str, Data] | None:
    """Where the maximum over each site in turn has a closed form: of families by their modes, of a chain by its path.

    Finite sites that are summed out in one step have no others given which their maximum would be another.
    """
    greatest = model.density.at_greatest(model.reading.sites)
    if greatest.plan.blocked:
        if not all(map(is_finite, model.reading.sites.values())):
            return None
        greatest = model.density.without(model.reading.sites)
        if greatest.plan.blocked or len(greatest.plan.integrals) > 1:
            return None
    try:
        values = {str(name): to_array(value).array for name, value in greatest.modes.items()}
    except DataError:  # a density that is greatest at an end of its support
        return None
    if is_traced(*values.values()):
        return values
    if any(namespace(value).isnan(value).any() for value in values.values()):
        require_numbers(model.joint)
        return None
    return {name: model.numbers(value) for name, value in values.items()}


def require_real(eliminated_model: EliminatedModel) -> None:
    """No site is discrete: the mode is computed by following slopes."""
    discrete = [name for name, domain in eliminated_model.reading.domains.items() if domain.is_discrete]
    if discrete:
        raise Intractable(
            f"the mode of {listed(eliminated_model.kept)}",
            expected="sites that are all real, or all finite and summed out in one step, as a chain or scalars are",
            nearest=f"{listed(discrete)} are discrete beside other sites",
            advice="eliminate() them: the result has a density of real sites alone; `fb.Chain` has argmax()",
        )


def highest_values(eliminated_model: EliminatedModel) -> dict[str, np.ndarray]:
    """The density is that of the values: the Jacobian of the map to unconstrained numbers is not part of it."""
    target, support = target_of(eliminated_model)
    density, values = _compiled(eliminated_model.shared, support)
    plain = Target(target.shapes, density, target.numbers)
    starts = plain.start(jax.random.key(0), STARTS)
    zero = {name: jnp.zeros_like(value[0]) for name, value in starts.items()}
    maxima: list[tuple[float, Any]] = []
    error: DataError | None = None
    for place in range(STARTS + 1):
        start = zero if place == STARTS else {name: value[place] for name, value in starts.items()}
        try:
            free = highest(plain, start)
        except DataError as problem:
            error = problem
            continue
        maxima.append((float(density(free, target.numbers)), free))
    if not maxima:
        assert error is not None
        raise error
    best = max(maxima, key=lambda item: item[0])[1]
    return {name: np.asarray(value) for name, value in values(best, target.numbers).items()}


@lru_cache(maxsize=64)
def _compiled(eliminated_model: EliminatedModel, support: SupportTransform) -> tuple[Callable, Callable]:
    """The density of unconstrained numbers, and the values that they are; compiled once for a model."""

    def values(free: Mapping[str, Data], numbers: Any) -> dict[str, Data]:
        return support.values(free, numbers[0])[0]

    def density(free: Mapping[str, Data], numbers: Any) -> Data:
        return eliminated_model.log_density(values(free, numbers), numbers[1])

    return jax.jit(density), jax.jit(values)
