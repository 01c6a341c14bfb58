"""Questions to a model whose latents have no closed form: the interpretation in force gives weighted points of these.

What has a closed form stays exact, at each of the points.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.approximate.open_integral import OpenDensity, OpenIntegral, WeightedPoints
from fubini.base.arrays import Data, double_precision
from fubini.base.interpretations import uninterpreted
from fubini.base.names import Bound, Name
from fubini.errors import DataError, DomainError, Intractable, listed
from fubini.factors.table import Table
from fubini.infer.normals_at_modes import normals_at_modes
from fubini.infer.target import Target
from fubini.infer.target_points import by_name, evaluation, flat_density, plausible_box
from fubini.models.eliminated_model import EliminatedModel
from fubini.models.flat_model import FlatModel
from fubini.questions.closed_form import no_closed_form, require_proper
from fubini.questions.draw_elimination import elimination_for_draws
from fubini.questions.infer import warn_of_restriction
from fubini.questions.sampler_target import SupportTransform, target_of
from fubini.terms.value import Array, Value

POINTS = Bound("point")  # the index of weighted points


class Approximation(NamedTuple):
    """The elimination of what has a closed form, and weighted points of the other latents, by name [point, …]."""

    eliminated_model: EliminatedModel
    points: WeightedPoints
    values: dict[str, Data]

    @property
    def at(self) -> dict[Name, Value]:
        """The points as values along a named axis."""
        domains, numbers = self.eliminated_model.reading.domains, self.eliminated_model.model.numbers
        return {name: Array(numbers(value), (POINTS,), domains[name]) for name, value in self.values.items()}

    @property
    def weights(self) -> Table:
        """Their shares."""
        return Table(self.eliminated_model.model.numbers(self.points.shares), (POINTS,))._marked(self.points.exactness)


def approximation(
    model: FlatModel, asked: str, blocked: EliminatedModel, most: int | None = None, advice: str = ""
) -> Approximation:
    """Weighted points of the latents that have no closed form, at most so many; under `exact`, the error."""
    require_proper(blocked, blocked.blocked)
    error = partial(no_closed_form, asked, blocked, advice)
    eliminated_model = _elimination(model, blocked, error)

    @cache
    def target() -> tuple[Target, SupportTransform]:
        with uninterpreted():  # it is the same whatever approximates it
            return _target(eliminated_model)

    integral = OpenIntegral(eliminated_model.kept, error, lambda: _open_density(target()[0]))
    with double_precision(), eval_context():
        points = integral.points()
        if not points.log_total > -np.inf:
            raise DataError(
                asked, expected="observations of positive density under the model", nearest="p(observed) is 0"
            )
        points = points.without_negligible()
        points = points if most is None else points.at_most(most)
        with uninterpreted():
            return Approximation(eliminated_model, points, _values(points.points, *target()))


def _elimination(model: FlatModel, blocked: EliminatedModel, error: Callable[[], Intractable]) -> EliminatedModel:
    """All that can be eliminated; all but the blocked sites where, in another order, these can be too."""
    eliminated_model = elimination_for_draws(model)
    if eliminated_model.kept:
        return eliminated_model
    try:
        return elimination_for_draws(
            model, [name for name in eliminated_model.eliminated if name not in blocked.blocked]
        )
    except Intractable:
        raise error() from None


def _target(eliminated_model: EliminatedModel) -> tuple[Target, SupportTransform]:
    """The density of the latents that are not eliminated, where points of them can be computed."""
    discrete = [name for name in eliminated_model.kept if eliminated_model.reading.domains[name].is_discrete]
    if discrete or eliminated_model.is_traced:
        raise DomainError(
            f"an approximate integral over {listed(eliminated_model.kept)}",
            expected="real latents, and data and arguments that are known",
            nearest=f"discrete: {listed(discrete)}" if discrete else "the numbers are traced by jit, vmap or grad",
            advice="infer(key) draws the latents" if discrete else "ask outside of jit, vmap and grad",
        )
    warn_of_restriction(jax.random.key(0), eliminated_model)
    return target_of(eliminated_model)


def _open_density(target: Target) -> OpenDensity:
    """A target, with the box of its prior and its modes."""
    density = cache(lambda: evaluation(target))
    return OpenDensity(
        target.size,
        lambda points: density()(points),
        cache(lambda: plausible_box(target)),
        lambda: normals_at_modes(target, density()),
        lambda: (flat_density(target), target.numbers),
    )


def _values(points: np.ndarray, target: Target, support: SupportTransform) -> dict[str, Data]:
    """Values of the sites, by name [point, …], at points [point, number]."""
    free = by_name(jnp.asarray(points)[None], target.shapes)
    return {name: value[0] for name, value in support.of_draws(free, target.numbers[0]).items()}
