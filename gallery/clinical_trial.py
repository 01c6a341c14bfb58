# %% [markdown]
# # Does the treatment work?
#
# Two groups of a thousand patients each: is the treatment effective at all?
#
# A program of Hakaru's paper (and of R2 before it): a coin says whether the treatment is effective; if it is, the two
# groups have rates of their own, otherwise one rate for both.

# %%
import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd

import fubini as fb
from fubini import dist

table = pd.read_csv(Path(os.environ["FUBINI_DATA"]) / "r2" / "clinical_trial.csv")


@fb.model
def trial(n):
    effective = yield dist.Bernoulli(0.5)
    alone = yield dist.Beta(1.0, 1.0)
    with_it = yield dist.Beta(1.0, 1.0)
    both = yield dist.Beta(1.0, 1.0)
    control = yield dist.Bernoulli(jnp.where(effective == 1, alone, both)).expand([n])
    treated = yield dist.Bernoulli(jnp.where(effective == 1, with_it, both)).expand([n])


def ask(n):
    return trial(n).condition(control=table["control"].to_numpy()[:n], treated=table["treated"].to_numpy()[:n])


post = ask(20)
print("log-evidence", post.log_evidence())
post.marginal("effective")

# %% [markdown]
# The three rates are integrated out, and the coin is summed: the answer is a ratio of beta functions, computed for as
# many patients as one likes. How the answer changes as they come in:

# %%
sizes = [5, 10, 20, 50, 100, 200, 400, 700, 1000]
chances = [float(np.exp(ask(n).marginal("effective")(effective=1).log().data)) for n in sizes]
dict(zip(sizes, np.round(chances, 4).tolist(), strict=True))

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 2.4), layout="constrained")
axes = figure.subplots()
axes.plot(sizes, chances, "o-")
axes.axhline(0.5, color="0.6", lw=0.8)
axes.set(xscale="log", xlabel="patients in each group", ylabel="P(effective)", ylim=(0, 1.02))
fb.Picture(
    figure,
    f"Probability that the treatment is effective over the number of patients: {chances[0]:.2f} with five in "
    f"each group, {chances[-1]:.3f} with a thousand.",
)

# %% [markdown]
# Exact: all of it.
