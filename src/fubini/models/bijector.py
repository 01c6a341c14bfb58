"""From unconstrained numbers to the values of a joint, site by site: a site's support may depend on its ancestors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from numpyro.distributions import biject_to

from fubini.base.arrays import Data, precision
from fubini.base.domains import Real
from fubini.distributions.array_distribution import log_density, support
from fubini.distributions.density import Distribution
from fubini.models.call_values import FlatJoint
from fubini.models.calls import ask
from fubini.models.flavour import Flavour
from fubini.models.outline import Outline, signature
from fubini.models.sample import Alike, Blank, Chosen, Given, Run, missing


class Constrain(Alike):
    """Each site at the image of its unconstrained number; discrete sites as they are given."""

    def __init__(self, free: Mapping[str, Any], log_dets: list[Data] | None = None) -> None:
        self.free = free
        self.log_dets: list[Data] = [] if log_dets is None else log_dets

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        if name not in self.free:
            raise missing(name, self.free)
        free = value = self.free[name]
        if not source.domain.is_discrete:
            transform = biject_to(support(source))
            value = transform(free)
            self.log_dets.append(jnp.sum(transform.log_abs_det_jacobian(free, value)))
        return Chosen(value, lambda: log_density(source, value))

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        return None, self._series

    def _series(self, site: Any) -> Data | None:
        """All values of a site inside a scan, whose support is the same at all times."""
        free, numpyro_distribution = self.free.get(site["name"]), site["fn"]
        return (
            free
            if free is None or numpyro_distribution.support.is_discrete
            else biject_to(numpyro_distribution.support)(free)
        )

    def with_value(self, name: str, source: Distribution, value: Data) -> Chosen:
        return self.at(0, name, source) if name in self.free else super().with_value(name, source, value)

    def within(self, place: int, name: str) -> Constrain:
        return Constrain(self.free.get(name, {}), self.log_dets)

    def beside(self, place: int) -> Constrain:
        return Constrain(self.free, self.log_dets if place == 0 else None)


def unconstrained(run: Run) -> dict[str, Any]:
    """The unconstrained numbers of a run, by name."""
    numbers: dict[str, Any] = {}
    for site in run.sites:
        if site.inner is not None and site.is_free:
            numbers[site.name] = unconstrained(site.inner)
        elif site.is_free:
            discrete = site.source.domain.is_discrete
            numbers[site.name] = site.value if discrete else biject_to(support(site.source)).inv(site.value)
    return numbers


def as_seen(run: Run, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, those of nested joints in their containers."""
    containers = dict(values)
    for site in run.sites:
        if site.name in containers and site.inner is not None:
            assert site.joint is not None
            containers[site.name] = site.joint.unflatten(as_seen(site.inner, containers[site.name]))
    return containers


class Bijector:
    """`joint.bijector()`: forward to values, inverse to unconstrained numbers, and the logarithm of the Jacobian.

    >>> model = fb.JointNamed(dict(u=fb.dist.Uniform(0.4, 1.5), v=lambda u: fb.dist.Uniform(0.0, u)))
    >>> {name: round(float(value), 6) for name, value in model.bijector().forward(u=0.0, v=0.0).items()}
    {'u': 0.95, 'v': 0.475}
    """

    def __init__(self, joint: Flavour) -> None:
        self.joint = joint

    def __repr__(self) -> str:
        return f"Bijector of {self.joint}: forward(…), inverse(…), log_det(…)"

    def forward(self, *values: Any, **named: Any) -> Any:
        """Values from unconstrained numbers; more axes than a site has are a batch.

        >>> fb.JointNamed(dict(p=fb.dist.Beta(1.0, 1.0))).bijector().forward(p=0.0)
        {'p': array(0.5)}
        """
        flat_joint = self._unconstrained_joint()
        return flat_joint.unflatten(ask(_forward, flat_joint, flat_joint.complete(values, named)))

    def inverse(self, *values: Any, **named: Any) -> Any:
        """Unconstrained numbers from values.

        >>> fb.JointNamed(dict(p=fb.dist.Beta(1.0, 1.0))).bijector().inverse(p=0.5)
        {'p': array(0.)}
        """
        flat_joint = FlatJoint(self.joint)
        return flat_joint.unflatten(ask(_inverse, flat_joint, flat_joint.complete(values, named)))

    def log_det(self, *values: Any, **named: Any) -> Data:
        """log |∂ values / ∂ unconstrained| at unconstrained numbers.

        >>> round(float(fb.JointNamed(dict(p=fb.dist.Beta(1.0, 1.0))).bijector().log_det(p=0.0)), 6)
        -1.386294
        """
        flat_joint = self._unconstrained_joint()
        return ask(_log_det, flat_joint, flat_joint.complete(values, named))

    @property
    def shape(self) -> Any:
        """The shapes of the unconstrained numbers, in the structure of a sample.

        >>> fb.JointNamed(dict(p=fb.dist.Dirichlet(np.ones(3)))).bijector().shape
        {'p': (2,)}
        """
        flat_joint = FlatJoint(self.joint)
        return flat_joint.unflatten(
            jax.tree_util.tree_map(lambda leaf: leaf.shape, unconstrained_shapes(flat_joint)[1])
        )

    def _unconstrained_joint(self) -> FlatJoint:
        """The joint as a function of unconstrained numbers."""
        flat_joint = FlatJoint(self.joint)
        return flat_joint.seen_as(_freed(flat_joint.outline, unconstrained_shapes(flat_joint)[0]))


def unconstrained_shapes(flat_joint: FlatJoint) -> tuple[dict, dict]:
    """The shapes of the unconstrained numbers, as dicts and in the containers that users see."""
    with precision(flat_joint.is_float64):
        return _shapes_of(flat_joint.tree, tuple(map(signature, flat_joint.leaves)), flat_joint.is_float64)


@lru_cache(maxsize=1024)
def _shapes_of(tree: Any, leaves: tuple, float64: bool) -> tuple[dict, dict]:
    def look(leaves: list[Data]) -> tuple[dict, dict]:
        run = jax.tree_util.tree_unflatten(tree, leaves).run(Blank())
        numbers = unconstrained(run)
        return numbers, as_seen(run, numbers)

    return jax.eval_shape(look, [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in leaves])


def _freed(outline: Outline, shapes: Mapping[str, Any]) -> Outline:
    sites = []
    for site in outline.sites:
        if site.inner is not None and site.name in shapes:
            site = replace(site, inner=_freed(site.inner, shapes[site.name]))
        elif site.name in shapes and site.domain is not None and not site.domain.is_discrete:
            site = replace(site, value=shapes[site.name], domain=Real.with_shape(shapes[site.name].shape))
        sites.append(site)
    return Outline(tuple(sites), outline.reached)


def _forward(joint: Flavour, key: Data, given: Mapping[str, Any]) -> dict[str, Any]:
    return joint.run(Constrain(given)).values


def _log_det(joint: Flavour, key: Data, given: Mapping[str, Any]) -> Data:
    choice = Constrain(given)
    joint.run(choice)
    return sum(choice.log_dets, start=jnp.zeros(()))


def _inverse(joint: Flavour, key: Data, given: Mapping[str, Any]) -> dict[str, Any]:
    run = joint.run(Given(given))
    return as_seen(run, unconstrained(run))
