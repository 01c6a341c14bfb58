"""Draws from densities: numpyro's samplers, mapped over named axes with a key for each cell."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, cached_for_precision, double_precision
from fubini.distributions.array_distribution import sample_numpyro, without_slopes
from fubini.distributions.blueprint import Blueprint
from fubini.distributions.density import Density
from fubini.errors import Intractable, listed
from fubini.factors.open_choice import at_greatest
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.terms.heads import exact_choose, exact_draw
from fubini.terms.value import Array, to_array


@exact_draw.rule(when=lambda randomness, f, names: names == (f.own,))
def draw_density(randomness: Randomness, f: Density, names: tuple) -> dict:
    """x ~ p(x; θ)"""
    (name,) = names
    leaves = [to_array(value) for value in f.distribution.leaf_values]
    batch = {SAMPLES: randomness.domain, **{key: domain for key, domain in f.inputs.items() if key != name}}
    shape = tuple(domain.extent for domain in batch.values())
    data = _mapped(f.distribution.blueprint, randomness, leaves, tuple(batch), shape)
    if f.inputs[name].is_discrete and data.dtype.kind not in "iu":  # some of numpyro's samplers count in floats
        data = data.astype(int)
    return {name: Array._of(data, tuple(batch), batch, f.inputs[name])}


@exact_choose.rule
def choose_density(f: Density, names: tuple) -> dict:
    """x at max_x p(x; y)"""
    return at_greatest(f, names)


@exact_draw.rule
def draw_no_density(randomness: Randomness, f: Density, names: tuple) -> dict:
    """x ~ f has no known sampler where x is not the variable of the density"""
    raise Intractable(
        f"a draw of {listed(names)} from {f}",
        expected="a density of its own variable, or a Table or Gaussian",
        advice="draw the parameters of a density before its value",
    )


def _mapped(blueprint: Blueprint, randomness: Randomness, leaves: list, names: tuple, shape: tuple) -> Data:
    order = [[name for name in names if name in leaf.names] for leaf in leaves]
    arrays = [
        align(leaf.array, leaf.names, own, len(leaf.output.shape)) for leaf, own in zip(leaves, order, strict=True)
    ]
    axes = tuple(tuple(0 if name in own else None for own in order) for name in names)
    if randomness.xp is jnp:
        keys = jax.random.split(randomness.next_key(), math.prod(shape)).reshape(shape)
        return _sampler(blueprint, axes)(keys, *arrays)
    with double_precision(), jax.ensure_compile_time_eval():
        keys = jax.random.split(randomness.next_key(), math.prod(shape))
        keys = keys.reshape(shape if keys.ndim == 1 else (*shape, 2))
        return np.asarray(_sampler(blueprint, axes)(keys, *map(jnp.asarray, arrays)))


@cached_for_precision(1024)
def _sampler(blueprint: Blueprint, axes: tuple) -> Any:
    def one(key: Data, *leaves: Data) -> Data:
        return sample_numpyro(without_slopes(blueprint, leaves), key)

    function = one
    for own in reversed(axes):
        function = jax.vmap(function, in_axes=(0, *own))
    return jax.jit(function)
