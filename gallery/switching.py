# %% [markdown]
# # When did the eyelid move?
#
# An electrode on the forehead records brain waves: can a model that knows nothing of eyes tell when they close?
#
# A switching linear dynamical system, as in section 6.3 of the functional-tensor paper, on one channel of its data
# (every 20th sample). The level of the wave goes on in one of two regimes, each with a noise of its own, and is seen
# through noise. All numbers are learnt from the series alone.

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

# %% quick: length, steps = 20, 1
length, steps = 300, 60

# %%
table = pd.read_csv(Path(os.environ["FUBINI_DATA"]) / "eeg_eye_state" / "eeg_eye_state.csv.gz")[::20][:length]
series = table["AF3"].to_numpy(float)
series = np.clip((series - np.median(series)) / (1.4826 * np.median(np.abs(series - np.median(series)))), -8.0, 8.0)


def system(p, y):
    s_next = ("s_next",)
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    keep, noise = fb.Array(jnp.tanh(p["keep"]), s_next), fb.Array(jnp.exp(p["noise"]), s_next)
    stay = jax.nn.sigmoid(p["stay"])
    move = fb.Table(jnp.array([[stay, 1 - stay], [1 - stay, stay]]), ("s", "s_next"))
    return fb.Chain(
        init=fb.Table(jnp.array([0.5, 0.5]), ("s",)) * dist.Normal(0.0, 1.0)("x"),
        factor=move
        * dist.Normal(keep * x, noise)("x_next")
        * dist.Normal(x_next, jnp.exp(p["seen"]))(fb.Array(y, ("t",))),
        time="t",
        step={"s": "s_next", "x": "x_next"},
    )


def loss(p, y):
    with fb.moment_matching(window=1):
        return -system(p, y).log_evidence().data


p = {
    "keep": jnp.array([2.0, 2.0]),
    "noise": jnp.array([-2.0, 1.0]),
    "stay": jnp.array(2.0),
    "seen": jnp.array(-1.0),
}
optimiser, y, losses = optax.adam(0.05), jnp.asarray(series), []
state, gradient = optimiser.init(p), jax.jit(jax.value_and_grad(loss))
for _ in range(steps):
    value, slope = gradient(p, y)
    losses.append(float(value))
    updates, state = optimiser.update(slope, state)
    p = optax.apply_updates(p, updates)
print(f"log-evidence {-losses[0]:.1f} → {-losses[-1]:.1f}")

# %%
with fb.moment_matching(window=1):
    picture = system(p, y).plot(points={"x_next": series, "eyes closed": table["eyeDetection"].to_numpy()})
picture

# %% [markdown]
# The second regime stands out where the eyes close or open, and at blinks, which the record of the eyes does not have.
# Approximate: of the mixture over all past switches the last is kept apart and older ones are matched by their moments,
# as the text of the picture says; the sums and integrals of each step are exact.
