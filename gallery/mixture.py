# %% [markdown]
# # Galaxies in classes
#
# Do 82 galaxies come in groups of velocity, and which galaxy is in which?
#
# Velocities of Postman, Huchra and Geller (1986), in thousands of km/s, as a mixture of normal distributions: the model
# with which Hakaru's paper begins. Weights and means are integrated out, and labels are drawn one at a time.

# %%
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

import fubini as fb
from fubini import dist

velocity = np.sort(pd.read_csv(Path(os.environ["FUBINI_DATA"]) / "classic" / "galaxies.csv")["dat"].to_numpy()) / 1000


@fb.model
def galaxies(n, classes):
    share = yield dist.Dirichlet(jnp.ones(classes))
    centre = yield dist.Normal(20.0, 10.0).expand([classes])
    group = yield dist.Categorical(share).expand([n])
    v = yield dist.Normal(centre[group], 1.5)


post = galaxies(82, 4).condition(v=velocity)
small = post.eliminate("share", "centre")
sampler = small.gibbs("group")
print(sampler.source().partition("def start")[2].partition("@njit")[2].partition("total = ")[0])

# %% [markdown]
# That is the loop of the sampler, derived from the density: taking a galaxy out of its class and putting it into
# another costs a few additions, however many galaxies there are.

# %% quick: sweeps = 50
sweeps = 2000

# %%
start = {"group": np.digitize(velocity, [14.0, 21.5, 28.0])}
draws = sampler.run(jax.random.key(0), sweeps=sweeps, warmup=sweeps // 4, start=start)
post.plot(draws, points={"velocity": velocity}, along="galaxies, by velocity")

# %% [markdown]
# Exact: the conditional of each label, with shares and centres integrated out. The draws are those of a Markov chain.
