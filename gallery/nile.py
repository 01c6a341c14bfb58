# %% [markdown]
# # The Nile
#
# How did the annual flow of the Nile change around 1900, when the dam at Aswan was built?
#
# A level that wanders, seen through noise, on the flows from 1871 to 1970: the local level model (Durbin and Koopman
# 2001). The hundred levels and the start are integrated out by a Kalman filter that nobody wrote; two scales are left.

# %%
import os
from pathlib import Path

import jax
import pandas as pd

import fubini as fb
from fubini import dist

table = pd.read_csv(Path(os.environ["FUBINI_DATA"]) / "classic" / "nile.csv")
years, flow = table["time"].to_numpy(), table["value"].to_numpy(float)


@fb.model
def local_level(n):
    start = yield dist.Normal(1000.0, 300.0)
    wander = yield dist.HalfNormal(100.0)
    noise = yield dist.HalfNormal(200.0)
    level = yield dist.Markov(dist.Normal(start, wander), lambda x: dist.Normal(x, wander), n)
    y = yield dist.Normal(level, noise)


post = local_level(len(flow)).condition(y=flow)
post.eliminate("level", "start").names

# %% quick: size = 50
size = 1000

# %%
draws = post.infer(jax.random.key(0), draws=size, chains=1, progress=False)
post.plot(draws, names=["level"], points={"level": flow}, at=years, along="year")

# %%
post.plot(draws, names=["wander", "noise"])

# %% [markdown]
# Durbin and Koopman's estimates of greatest likelihood are 38.3 and 122.9. Exact: the levels given the scales. The band
# is that of their posterior, with the scales' own uncertainty in it, which a plug-in smoother leaves out.
