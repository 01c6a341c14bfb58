# %% [markdown]
# # Radon in Minnesota
#
# How much radon is in the houses of a county of which only two were measured?
#
# 919 houses in 85 counties (Gelman and Hill 2007): an intercept for each county, drawn around a common mean, and a
# slope for the floor on which it was measured. The 85 intercepts, their mean and the slope are integrated out as one
# block of normal latents.

# %%
import os
from pathlib import Path

import jax
import numpy as np
import pandas as pd

import fubini as fb
from fubini import dist

table = pd.read_csv(Path(os.environ["FUBINI_DATA"]) / "classic" / "radon_minnesota.csv")
county, houses = table["county"].to_numpy() - 1, table["county"].value_counts(sort=False).sort_index()
floor, radon = table["basement"].to_numpy(float), table["log.radon"].to_numpy()  # 1: first floor, 0: basement


@fb.model
def counties(county, floor):
    between = yield dist.HalfNormal(1.0)
    within = yield dist.HalfNormal(1.0)
    mean = yield dist.Normal(0.0, 5.0)
    slope = yield dist.Normal(0.0, 5.0)
    level = yield dist.Normal(mean, between).expand([85])
    y = yield dist.Normal(level[county] + slope * floor, within)


post = counties(county, floor).condition(y=radon)
post.eliminate("level", "mean", "slope").names

# %% quick: size = 50
size = 1000

# %%
from matplotlib.figure import Figure

draws = post.infer(jax.random.key(0), draws=size, chains=1, progress=False)
level = draws.posterior["level"].values.reshape(-1, 85)
low, high = np.quantile(level, (0.05, 0.95), axis=0)
figure = Figure(figsize=(6.4, 2.8), layout="constrained")
axes = figure.subplots()
count = houses.to_numpy() * np.exp(np.random.default_rng(0).uniform(-0.07, 0.07, 85))
axes.vlines(count, low, high, lw=1, alpha=0.6)
axes.plot(count, level.mean(0), ".")
axes.axhline(float(draws.posterior["mean"].mean()), color="0.4", lw=0.8)
axes.set(xscale="log", xlabel="houses measured in the county", ylabel="level (log radon)")
wide = np.argmax(high - low)
fb.Picture(
    figure,
    f"Level of each of 85 counties with its 90 % interval, over the number of houses measured. Intervals are "
    f"widest, {high[wide] - low[wide]:.2f}, with few houses, and shrink to {np.min(high - low):.2f}.",
)

# %% [markdown]
# Counties with few houses lean on the others. Of 89 numbers two were left to draw, and they were drawn independently:

# %%
post.plot(draws, names=["between", "within", "mean", "slope"])

# %% [markdown]
# Exact: the integral over 87 normal latents, by least squares; the draws of the two scales are independent.
