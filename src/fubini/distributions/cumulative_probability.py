"""P(x ≤ t) of each number of a distribution of numpyro: of one number its own, of vectors those of their entries."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data
from fubini.base.ops import Op, lift
from fubini.distributions.blueprint import Blueprint
from fubini.numerics.incomplete_beta import incomplete_beta
from fubini.numerics.quantile_search import invert


def _of_normal_entries(made: Any) -> Any:
    """x_i ~ N(m_i, V_ii)"""
    return numpyro_families.Normal(made.loc, jnp.sqrt(made.variance))


def _of_student_entries(made: Any) -> Any:
    """x_i ~ t_ν(m_i, (L Lᵀ)_ii)"""
    scale = jnp.sqrt(jnp.sum(made.scale_tril**2, axis=-1))
    return numpyro_families.StudentT(made.df[..., None], made.loc, scale)


def _of_shares(made: Any) -> Any:
    """x_i ~ Beta(a_i, Σ a − a_i)"""
    a = made.concentration
    return numpyro_families.Beta(a, jnp.sum(a, axis=-1, keepdims=True) - a)


# The distributions of the entries of vectors.
ENTRIES: dict[type, Callable[[Any], Any]] = {
    numpyro_families.MultivariateNormal: _of_normal_entries,
    numpyro_families.LowRankMultivariateNormal: _of_normal_entries,
    numpyro_families.MultivariateStudentT: _of_student_entries,
    numpyro_families.Dirichlet: _of_shares,
}


def _below_student(made: Any, x: Data) -> Data:
    """½ (1 ± I(½, ν/2; z²/(ν + z²))), and the tail by its complement: numpyro's rounds to 1e-8 at the centre."""
    z = (x - made.loc) / made.scale
    share, half = z**2 / (made.df + z**2), made.df / 2
    near = 0.5 + 0.5 * jnp.sign(z) * incomplete_beta(0.5, half, share)
    tail = 0.5 * incomplete_beta(half, 0.5, made.df / (made.df + z**2))
    return jnp.where(share < 0.5, near, jnp.where(z < 0, tail, 1 - tail))


# Those that numpyro has not, or not to the last digits.
PROBABILITIES: dict[type, Callable[[Any, Data], Data]] = {
    numpyro_families.StudentT: _below_student,
    numpyro_families.GeometricProbs: lambda made, k: -jnp.expm1((k + 1) * jnp.log1p(-made.probs)),
    numpyro_families.Kumaraswamy: lambda made, x: (
        -jnp.expm1(made.concentration0 * jnp.log1p(-(x**made.concentration1)))
    ),
}


def single_numbers(made: Any) -> Any:
    """The distribution whose numbers are independent along all axes, or are entries of vectors taken alone."""
    while isinstance(made, (numpyro_families.ExpandedDistribution, numpyro_families.Independent)):
        made = made.base_dist
    return ENTRIES[type(made)](made) if type(made) in ENTRIES else made


def probability_below(made: Any, at: Data) -> Data:
    """P(x ≤ t), 0 below the support and 1 above it."""
    single = single_numbers(made)
    if single.event_shape:
        raise NotImplementedError
    at = jnp.floor(at) if single.support.is_discrete else at
    inside = single.support(at)
    within = single.support.feasible_like(at).astype(at.dtype)
    safe = jnp.where(inside, at, within)
    known = PROBABILITIES.get(type(single))
    value = single.cdf(safe) if known is None else known(single, safe)
    return jnp.where(inside, value, jnp.where(at < within, 0.0, 1.0) + 0.0 * value)


@lru_cache(maxsize=4096)
def lift_probability(blueprint: Blueprint) -> Op:
    """P(x ≤ t) as an op of t and the leaves."""

    def probability(at: Data, *leaves: Data) -> Data:
        return probability_below(blueprint.build(iter(leaves)), at)

    return _named(probability, f"cdf_of_{blueprint.family}")


@lru_cache(maxsize=4096)
def lift_quantile(blueprint: Blueprint, kind: str, shape: tuple[int, ...], is_whole: bool) -> Op:
    """The inverse of it as an op of levels and the leaves."""

    def quantile(levels: Data, *leaves: Data) -> Data:
        made = blueprint.build(iter(leaves))
        full = jnp.broadcast_to(levels.reshape(levels.shape + (1,) * len(shape)), levels.shape + shape)
        root = invert(lambda at: probability_below(made, at), full, kind, is_whole)
        return jnp.where(jnp.isnan(root), -1, root).astype(int) if is_whole else root

    return _named(quantile, f"quantile_of_{blueprint.family}")


def _named(function: Any, name: str) -> Op:
    function.__name__, function.reads_arguments_alone = name, True
    return lift(function)
