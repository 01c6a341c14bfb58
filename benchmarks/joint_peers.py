"""Joint models, ours and by others, at the same values: what each is asked for, as functions without arguments.

`simple` has three sites, `chain` fifty, and `plated` a plate of groups with a plate of observations inside it.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_families
from numpyro.infer import Predictive
from numpyro.infer.util import log_density

import fubini as fb
from fubini import dist

HAS_TFP = importlib.util.find_spec("tensorflow_probability") is not None
LENGTH, GROUPS, MEMBERS = 50, 1_000, 20
OURS, SEQUENTIAL, BATCHED, NUMPYRO = "ours", "TFP Sequential", "TFP AutoBatched", "NumPyro"
MODELS = ("simple", "chain", "plated")
NAMES = {
    "simple": ("s", "m", "x"),
    "chain": tuple(f"x{place}" for place in range(LENGTH)),
    "plated": ("mu", "tau", "theta", "y"),
}

if HAS_TFP:
    warnings.filterwarnings("ignore", module="tensorflow_probability")
    from tensorflow_probability.substrates import jax as tfp

    tfd = tfp.distributions


@dataclass(frozen=True)
class Contestant:
    """A model of one library: its density at a list of values, and draws."""

    log_prob: Callable[[list], Any]
    draw: Callable[[Any, int], Any]


def values(model: str) -> list[Any]:
    """Numbers for all sites, as a user has them."""
    if model == "simple":
        return [1.0, 0.0, 0.5]
    random = np.random.default_rng(0)
    shapes = {"chain": [()] * LENGTH, "plated": [(), (), (GROUPS,), (GROUPS, MEMBERS)]}[model]
    return [np.abs(random.normal(size=shape)).astype(np.float32) for shape in shapes]


def contestants(model: str) -> dict[str, Contestant]:
    """All that are installed."""
    found = {OURS: _of_joint(fb.JointSequential(our_items(model)))}
    if HAS_TFP:
        found[SEQUENTIAL] = _of_tfp(tfd.JointDistributionSequential(their_items(model)))
        found[BATCHED] = _of_tfp(tfd.JointDistributionSequentialAutoBatched(their_items(model)))
    found[NUMPYRO] = _of_numpyro(model)
    return found


def _of_joint(joint: fb.Joint) -> Contestant:
    return Contestant(joint.log_prob, lambda key, count: joint.sample(key, (count,)))


def _of_tfp(joint: Any) -> Contestant:
    return Contestant(joint.log_prob, lambda key, count: joint.sample(count, seed=key))


def _of_numpyro(model: str) -> Contestant:
    function, names = PROGRAMS[model], NAMES[model]
    return Contestant(
        lambda values: log_density(function, (), {}, dict(zip(names, values, strict=True)))[0],
        lambda key, count: Predictive(function, num_samples=count)(key),
    )


# -- the models -----------------------------------------------------------------------------------------------------
# In the chain `_` is the site before: an argument of any other name would name it, and all fifty the same.


def our_items(model: str) -> list[Any]:
    """For `fb.JointSequential`."""
    if model == "simple":
        return [dist.InverseGamma(3.0, 2.0), dist.Normal(0.0, 1.0), lambda m, s: dist.Normal(m, s)]
    if model == "chain":
        return [dist.Normal(0.0, 1.0)] + [lambda _: dist.Normal(_, 1.0)] * (LENGTH - 1)
    return [
        dist.Normal(0.0, 5.0),
        dist.HalfNormal(5.0),
        lambda tau, mu: dist.Normal(mu, tau).expand([GROUPS]),
        lambda theta: dist.Normal(theta[:, None], 1.0).expand([GROUPS, MEMBERS]),
    ]


def their_items(model: str) -> list[Any]:
    """For TFP's sequential joints, written for one sample."""
    if model == "simple":
        return [tfd.InverseGamma(3.0, 2.0), tfd.Normal(0.0, 1.0), lambda m, s: tfd.Normal(m, s)]
    if model == "chain":
        return [tfd.Normal(0.0, 1.0)] + [lambda _: tfd.Normal(_, 1.0)] * (LENGTH - 1)
    return [
        tfd.Normal(0.0, 5.0),
        tfd.HalfNormal(5.0),
        lambda tau, mu: tfd.Sample(tfd.Normal(mu, tau), GROUPS),
        lambda theta: tfd.Independent(tfd.Normal(jnp.broadcast_to(theta[:, None], (GROUPS, MEMBERS)), 1.0), 2),
    ]


def simple_program() -> None:
    s = numpyro.sample("s", numpyro_families.InverseGamma(3.0, 2.0))
    m = numpyro.sample("m", numpyro_families.Normal(0.0, 1.0))
    numpyro.sample("x", numpyro_families.Normal(m, s))


def chain_program() -> None:
    x: Any = 0.0
    for name in NAMES["chain"]:
        x = numpyro.sample(name, numpyro_families.Normal(x, 1.0))


def plated_program() -> None:
    mu = numpyro.sample("mu", numpyro_families.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", numpyro_families.HalfNormal(5.0))
    with numpyro.plate("groups", GROUPS):
        theta: Any = numpyro.sample("theta", numpyro_families.Normal(mu, tau))
    with numpyro.plate("groups", GROUPS, dim=-2), numpyro.plate("members", MEMBERS, dim=-1):
        numpyro.sample("y", numpyro_families.Normal(theta[:, None], 1.0))


PROGRAMS: dict[str, Callable[[], None]] = {"simple": simple_program, "chain": chain_program, "plated": plated_program}


def as_jax(numbers: list[Any]) -> list[jax.Array]:
    """The same in single precision, on the device."""
    return [jnp.asarray(value, jnp.float32) for value in numbers]
