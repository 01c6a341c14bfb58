"""Blueprints: distributions without their parameters. From one, numpyro's distribution is built, and ops are traced."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.ops import Op, lift
from fubini.distributions.makers import maker_of
from fubini.distributions.parameter_checks import DEGREES_OF_FREEDOM, constraints_of, parameters_hold
from fubini.distributions.power import POWER, PowerDistribution
from fubini.distributions.random_counts import with_random_count
from fubini.distributions.summary_statistics import SummaryStatistic
from fubini.distributions.supports import domain_of, is_everywhere
from fubini.errors import DomainError
from fubini.terms.degree import degree
from fubini.terms.value import Array, Value

FOREIGN = "Foreign"  # a numpyro distribution that is none of its families, by its pytree


CENSORED = {  # distributions of which some values are bounds, and which
    "LeftCensoredDistribution": "left",
    "RightCensoredDistribution": "right",
    "IntervalCensoredDistribution": "interval",
}


class Constant:
    """An argument that cannot be hashed, a transform say: it is equal to itself alone."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return repr(self.value)


class Blueprint(NamedTuple):
    """A distribution without its Values: hashable, so that what is traced for it can be looked up."""

    family: str
    keys: tuple[str, ...]
    inner: tuple[Any, ...]
    statics: tuple[tuple[str, Any], ...]

    def build(self, leaves: Iterator[Data]) -> Any:
        """numpyro's distribution over these arrays, an iterator in the order of `leaf_values`."""
        args = [next(leaves) if inner is None else inner.build(leaves) for inner in self.inner]
        if self.family == FOREIGN:
            return jax.tree_util.tree_unflatten(dict(self.statics)["tree"], args)
        given = _closed(dict(zip(self.keys, args, strict=True)))
        given.update((key, value.value if isinstance(value, Constant) else value) for key, value in self.statics)
        maker: Any = PowerDistribution if self.family == POWER else maker_of(self.family)
        if "validate_args" in inspect.signature(maker).parameters:
            given["validate_args"] = False
        if isinstance(given.get("transforms"), tuple):
            given["transforms"] = list(given["transforms"])
        if self.family == "MaskedDistribution":
            given["mask"] = given["mask"] == 1
        if "batch_shape" in given and self.family == "ExpandedDistribution":
            return given["base_dist"].expand(given["batch_shape"])
        distribution = maker(**given)
        if self.family in CENSORED and isinstance(distribution.base_dist, numpyro_families.ExpandedDistribution):
            distribution.base_dist.cdf = distribution.base_dist.base_dist.cdf  # numpyro's expansions have none
        return with_random_count(distribution)


def _closed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments `key:0`, `key:1` … as one list."""
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        name, several, _ = key.partition(":")
        if several:
            arguments.setdefault(name, []).append(value)
        else:
            arguments[name] = value
    return arguments


def interval_tests(blueprint: Blueprint, first: int = 0) -> list[int]:
    """The places among its leaves, from the first on, of the tests that say which ends of an interval count."""
    places, place = [], first
    for inner in blueprint.inner:
        if inner is not None:
            places += interval_tests(inner, place)
        elif CENSORED.get(blueprint.family) == "interval":
            places.append(place)
        place += 1 if inner is None else leaf_count(inner)
    return places


def leaf_count(blueprint: Blueprint) -> int:
    """The number of arrays that it is built from."""
    return sum(1 if inner is None else leaf_count(inner) for inner in blueprint.inner)


class DistributionSignature(NamedTuple):
    """The facts that follow from a blueprint and the domains of its leaves."""

    shape: tuple[int, ...]
    event_rank: int
    domain: Domain
    constraints: Mapping[str, Any]
    is_proper: bool


@lru_cache(maxsize=4096)
def signature_of(blueprint: Blueprint, domains: tuple[Domain, ...]) -> DistributionSignature:
    """The signature of a blueprint over leaves of these domains, or the error of parameters that do not fit."""
    _require_square(blueprint, domains)
    built: list[Any] = []

    def inspect_built(*leaves: Data) -> Data:
        made = blueprint.build(iter(leaves))
        built.append((made, made.support))
        return jnp.zeros(())

    kinds = [jnp.result_type(int if domain.is_discrete else float) for domain in domains]
    given = [jax.ShapeDtypeStruct(domain.shape, kind) for domain, kind in zip(domains, kinds, strict=True)]
    try:
        jax.eval_shape(inspect_built, *given)
    except (TypeError, ValueError, IndexError, AssertionError, NotImplementedError) as error:
        shapes = ", ".join(map(repr, domains))
        raise DomainError(f"dist.{blueprint.family} of parameters {shapes}", expected=_first_line(error)) from error
    made, support = built[0]
    shape = tuple(made.batch_shape) + tuple(made.event_shape)
    checks = constraints_of(made)
    return DistributionSignature(shape, len(made.event_shape), domain_of(support, shape), checks, _is_proper(made))


def _require_square(blueprint: Blueprint, domains: tuple[Domain, ...]) -> None:
    """Matrices of a Wishart distribution have as many rows as columns."""
    if blueprint.family not in DEGREES_OF_FREEDOM:
        return
    for key, domain in zip(blueprint.keys, domains, strict=True):
        shape = domain.shape
        if key != "concentration" and (len(shape) < 2 or shape[-1] != shape[-2]):
            raise DomainError(
                f"dist.{blueprint.family} with {key} of shape {shape}",
                expected="a square matrix, or an array of them along its first axes",
                advice=f"{key}=np.eye(p), for matrices of p rows and columns",
            )


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["parameters that fit together"])[0]


def _is_proper(made: Any) -> bool:
    """It has total mass one over its own values."""
    improper = (
        *(numpyro_families.ImproperUniform, numpyro_families.Unit, numpyro_families.MaskedDistribution),
        *(numpyro_families.Delta, PowerDistribution),  # a point has a density of its own, a power a mass of its own
    )
    censored = tuple(getattr(numpyro_families, name) for name in CENSORED)
    while True:
        if isinstance(made, (*improper, *censored)):
            return False
        inner = getattr(made, "base_dist", None)
        if inner is None:
            return True
        made = inner


# -- numerics as ops ------------------------------------------------------------------------------------------------


class LogProbability:
    """log p(value; leaves), summed over the array of independent values; −inf outside the support.

    Where a parameter is not one that the family allows, it is not a number.
    """

    reads_arguments_alone = True

    def __init__(self, blueprint: Blueprint) -> None:
        self.blueprint = blueprint
        self.__name__ = f"log_{blueprint.family}"

    def __call__(self, value: Data, *leaves: Data) -> Data:
        made = self.blueprint.build(map(jnp.asarray, leaves))
        value, support = jnp.asarray(value), made.support
        allowed = jnp.where(jnp.all(parameters_hold(made)), 0.0, jnp.nan)
        if is_everywhere(support) or isinstance(made, numpyro_families.Delta):
            return jnp.sum(made.log_prob(value)) + allowed
        inside = _in_support(made, support, value)
        rank = jnp.ndim(value) - jnp.ndim(inside)
        spread = jnp.reshape(inside, jnp.shape(inside) + (1,) * max(rank, 0))
        safe = jnp.where(spread, value, support.feasible_like(value).astype(jnp.asarray(value).dtype))
        return jnp.sum(jnp.where(inside | _is_masked(made), made.log_prob(safe), -jnp.inf)) + allowed


def _in_support(made: Any, support: Any, value: Data) -> Data:
    """Test values of the support: of an interval, the ends that count."""
    inside = support(value)
    if not isinstance(made, numpyro_families.IntervalCensoredDistribution):
        return inside
    is_below, is_above = made.left_censored & ~made.right_censored, made.right_censored & ~made.left_censored
    return (inside[..., 0] | is_below) & (inside[..., 1] | is_above)


def _is_masked(made: Any) -> Data:
    """Test where a mask leaves values out, whatever they are."""
    while isinstance(made, numpyro_families.ExpandedDistribution):
        made = made.base_dist
    masked = isinstance(made, numpyro_families.MaskedDistribution) and made._mask is not None
    return ~jnp.asarray(made._mask, bool) if masked else jnp.asarray(False)


@lru_cache(maxsize=4096)
def log_probability(blueprint: Blueprint) -> Op:
    """The op of the log-density: the value, then the leaves."""
    return lift(LogProbability(blueprint))


@lru_cache(maxsize=4096)
def lift_statistic(blueprint: Blueprint, statistic: SummaryStatistic) -> Op:
    """A summary statistic as an op of the leaves."""

    def compute(*leaves: Data) -> Data:
        return statistic.compute(blueprint.build(iter(leaves)))

    compute.__name__ = f"{statistic.name}_of_{blueprint.family}"
    compute.reads_arguments_alone = True  # type: ignore[attr-defined]
    return lift(compute)


def leaves_its_constraint(value: Value, constraint: Any) -> bool:
    """A parameter that is an odd polynomial of unconstrained variables takes every sign; other forms are trusted."""
    if isinstance(value, Array) or is_everywhere(constraint):
        return False
    free = [name for name, domain in value.inputs.items() if domain.kind == "real"]
    return bool(free) and degree(value, free) % 2 == 1
