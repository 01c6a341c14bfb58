"""The programs of Figs. 2 and 3 of "Functional Tensors for Probabilistic Programming".

    Fig. 2  z ← sample(…);  y ← exp(z);  observe(Gaussian(y, …), x);  maximise Σ_z p over the parameters
    Fig. 3  the same with a guide q;  maximise Σ_z q log p/q over the guide

A sampled z is a variable, what is computed from it is a Value, and every statement multiplies a factor onto p. With a
discrete z the sum is exact whatever the function; with a real z it is exact where the function is affine, and an error
that names the obstacle where it is not.

    python -m examples.paper_programs
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

import fubini as fb
from fubini import dist

Parameters = Mapping[str, jax.Array]

# -- three programs ---------------------------------------------------------------------------------------------------


def discrete(parameters: Parameters, x: jax.Array) -> jax.Array:
    """log p(x), where every datum has a level z of its own: y = exp(level of z)."""
    z = fb.Variable("z", fb.Bint[len(parameters["level"])])
    p = dist.Categorical(logits=parameters["logits"])("z")
    y = fb.ops.exp(fb.Array(parameters["level"])[z])
    p = p * dist.Normal(y, jnp.exp(parameters["log_noise"]))(fb.Array(x, ("datum",)))
    return p.sum("z").product("datum").log().data


def affine(parameters: Parameters, x: jax.Array) -> jax.Array:
    """log p(x), where every datum has a real z of its own: y = shift + z."""
    z = fb.Variable("z", fb.Real)
    p = dist.Normal(0.0, jnp.exp(parameters["log_spread"]))("z")
    y = parameters["shift"] + z
    p = p * dist.Normal(y, 0.5)(fb.Array(x, ("datum",)))
    return p.sum("z").product("datum").log().data


def exponential(parameters: Parameters, x: jax.Array) -> jax.Array:
    """Fig. 2 to the letter, with y = exp(z) of a real z: no rule has this integral."""
    z = fb.Variable("z", fb.Real)
    p = dist.Normal(0.0, jnp.exp(parameters["log_spread"]))("z")
    y = fb.ops.exp(z)
    p = p * dist.Normal(y, 0.5)(fb.Array(x, ("datum",)))
    return p.sum("z").product("datum").log().data


def bound(parameters: Parameters, x: jax.Array) -> jax.Array:
    """Fig. 3: the evidence lower bound of a guide that sees the datum, every part of it exact."""
    data = fb.Array(x, ("datum",))
    z = fb.Variable("z", fb.Real)
    p = dist.Normal(0.0, 1.0)("z") * dist.Normal(z, 0.5)(data)
    q = dist.Normal(parameters["shift"] + parameters["slope"] * data, jnp.exp(parameters["log_spread"]))("z")
    return fb.weight(log=fb.expectation(q, p.log() - q.log(), "z")).product("datum").log().data


def drawn_bound(parameters: Parameters, x: jax.Array, key: jax.Array, n: int = 100) -> jax.Array:
    """Fig. 3 with y = exp(z): the prior and the guide exact, only the likelihood by draws of z."""
    data = fb.Array(x, ("datum",))
    z = fb.Variable("z", fb.Real)
    prior, likelihood = dist.Normal(0.0, 1.0)("z"), dist.Normal(fb.ops.exp(z), 0.5)(data)
    q = dist.Normal(parameters["shift"] + parameters["slope"] * data, jnp.exp(parameters["log_spread"]))("z")
    exact = fb.expectation(q, prior.log() - q.log(), "z")
    with fb.monte_carlo(key, n):
        drawn = fb.expectation(q, likelihood.log(), "z")
    return fb.weight(log=exact + drawn).product("datum").log().data


# -- inference --------------------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=0, static_argnames="steps")
def maximised(program: Callable, parameters: Parameters, x: jax.Array, *, steps: int) -> Parameters:
    """The parameters after some steps up the gradient of the log-evidence."""

    def improved(state: tuple, _: None) -> tuple[tuple, None]:
        parameters, moments = state
        gradient = jax.grad(lambda parameters: -program(parameters, x))(parameters)
        updates, moments = adam.update(gradient, moments)
        return (optax.apply_updates(parameters, updates), moments), None

    adam = optax.adam(0.05)
    return jax.lax.scan(improved, (parameters, adam.init(parameters)), length=steps)[0][0]


def simulate(size: int) -> jax.Array:
    """Data around exp(0) and exp(1.5), seven of ten around the latter."""
    random = np.random.default_rng(0)
    level = np.where(random.uniform(size=size) < 0.7, 1.5, 0.0)
    return jnp.asarray(np.exp(level) + 0.5 * random.normal(size=size), jnp.float32)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="200 data (the default)")
    parser.add_argument("--full", action="store_true", help="20,000 data")
    x = simulate(20_000 if parser.parse_args(argv).full else 200)

    first = {"logits": jnp.zeros(2), "level": jnp.array([-0.5, 0.5]), "log_noise": jnp.zeros(())}
    found = maximised(discrete, first, x, steps=400)
    print(f"discrete z: log-evidence {discrete(first, x):.2f} → {discrete(found, x):.2f}")
    print(f"  shares {jax.nn.softmax(found['logits'])}  (0.3, 0.7 made the data)")
    print(f"  levels {found['level']}  (0, 1.5)")
    print(f"  noise  {jnp.exp(found['log_noise']):.3f}  (0.5)")

    first = {"shift": jnp.zeros(()), "log_spread": jnp.zeros(())}
    found = maximised(affine, first, x, steps=400)
    print(f"real z, affine: log-evidence {affine(first, x):.2f} → {affine(found, x):.2f}")
    print(f"  shift {found['shift']:.3f}  (the mean of the data: {x.mean():.3f})")

    first = {"shift": jnp.zeros(()), "slope": jnp.zeros(()), "log_spread": jnp.zeros(())}
    found = maximised(bound, first, x, steps=400)
    evidence = dist.Normal(0.0, 1.25**0.5)(fb.Array(x, ("datum",))).product("datum").log()
    print(f"guide: bound {bound(first, x):.2f} → {bound(found, x):.2f}  (log-evidence {float(evidence):.2f})")
    print(f"  slope {found['slope']:.3f}  (0.8)")

    try:
        exponential(first, x)
    except fb.FubiniError as error:
        print(f"real z, exponential: {type(error).__name__}: {error}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
