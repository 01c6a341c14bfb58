# %% [markdown]
# # Seals on their way
#
# What does a seal do at sea: rest, feed or travel, and do individuals differ in their habits?
#
# Steps of 17 harbour seals in two hours each (McClintock et al. 2013), the data of section 6.1 of the functional-tensor
# paper. Three hidden states with gamma steps; each seal has one of two habits, which decides how it moves between
# states. All paths and habits are summed.

# %%
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd

import fubini as fb
from fubini import dist

# %% quick: length, steps = 20, 2
length, steps = 400, 150

# %%
table = pd.read_csv(Path(os.environ["FUBINI_DATA"]) / "harbour_seals" / "seal_steps_2h.csv.gz")
tracks = [seal["step_m"].to_numpy(float)[:length] / 1000 for _, seal in table.groupby("id")]
km = np.full((len(tracks), length), np.nan)
for place, track in enumerate(tracks):
    km[place, : len(track)] = track
is_seen = km > 0  # missing steps, and the few that are zero, say nothing
km = np.where(is_seen, km, 1.0)


def step(p):
    shape, mean = fb.Array(jnp.exp(p["shape"]), ("x_next",)), fb.Array(jnp.exp(p["mean"]), ("x_next",))
    move = fb.Table(jax.nn.softmax(p["move"]), ("habit", "x", "x_next"))
    seen = dist.Gamma(shape, shape / mean)(fb.Array(jnp.asarray(km), ("seal", "t")))
    return move * seen ** fb.Array(jnp.asarray(is_seen * 1.0), ("seal", "t"))


def chain(factor):
    return fb.Chain(init=fb.Table(jnp.ones(3) / 3, ("x",)), factor=factor, time="t", step={"x": "x_next"})


def joint(p):
    return chain(step(p)).evidence() * fb.Table(jax.nn.softmax(p["share"]), ("habit",))


def loss(p):
    return -joint(p).sum("habit").product("seal").log().data


p = {
    "shape": jnp.zeros(3),
    "mean": jnp.log(jnp.array([0.2, 1.0, 5.0])),
    "move": jnp.stack([2.0 * jnp.eye(3), 4.0 * jnp.eye(3)]),
    "share": jnp.zeros(2),
}
optimiser, gradient, losses = optax.adam(0.05), jax.jit(jax.value_and_grad(loss)), []
state = optimiser.init(p)
for _ in range(steps):
    value, slope = gradient(p)
    losses.append(float(value))
    updates, state = optimiser.update(slope, state)
    p = optax.apply_updates(p, updates)
print(f"log-evidence {-losses[0]:.0f} → {-losses[-1]:.0f}; mean steps {np.exp(p['mean']).round(2)} km")

# %%
logs = np.stack([np.asarray(joint(p)(habit=h).log().data) for h in range(2)], axis=1)
habits = np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True))
habits[:, 1].round(2)  # the probability that a seal has the second habit

# %% [markdown]
# One of them on its way:

# %%
own = int(habits[0].argmax())
chain(step(p)(seal=0, habit=own)).plot(points={"km in two hours": km[0]}, along="step of two hours")

# %% [markdown]
# Exact: the sum over the paths of all seals and over their habits, its gradient, and the probability of each state. The
# paper's models, with turning angles, dives and effects of sex, are in `examples/harbour_seals`.
