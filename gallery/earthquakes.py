# %% [markdown]
# # Calm and violent years of the earth
#
# Do great earthquakes come in spells, and in which state was the earth in 1950?
#
# Earthquakes of magnitude 7 or more in each year from 1900 to 2006 (Zucchini and MacDonald 2009): a hidden Markov model
# with three Poisson rates. All paths of states are summed, and rates and transitions climb the evidence.

# %%
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

text = """
13 14 8 10 16 26 32 27 18 32 36 24 22 23 22 18 25 21 21 14 8 11 14 23 18 17 19 20 22 19 13 26 13 14 22 24 21
22 26 21 23 24 27 41 31 27 35 26 28 36 39 21 17 22 17 19 15 34 10 15 22 18 15 20 15 22 19 16 30 27 29 23 20 16
21 21 25 16 18 15 18 14 10 15 8 15 6 11 8 7 18 16 13 12 13 20 15 16 12 18 15 16 13 15 16 11 11
"""
counts = np.array(text.split(), int)
years = np.arange(1900, 2007)


@fb.model
def hidden(rate, move, n):
    states = rate.shape[0]
    state = yield dist.Markov(dist.Categorical(jnp.ones(states) / states), lambda s: dist.Categorical(move[s]), n)
    count = yield dist.Poisson(rate[state])


def start(states):
    rate = fb.param(np.linspace(12.0, 30.0, states), fb.Positive)
    move = fb.param(np.full((states, states), 0.1 / states) + 0.9 * np.eye(states), fb.Simplex)
    return hidden(rate, move, len(counts)).condition(count=counts)


# %% quick: steps = 20
steps = 400

# %%
fits = {states: fb.fit(start(states), steps=steps, progress=False).model for states in (2, 3)}
{states: round(float(model.log_evidence()), 2) for states, model in fits.items()}

# %% [markdown]
# Zucchini and MacDonald report log-likelihoods of −342.32 with two states and −329.46 with three, with the first state
# at its stationary distribution.

# %%
post = fits[3]
post.plot(names=["state"], points={"count": counts}, at=years, along="year")

# %% [markdown]
# Exact: the sum over 3¹⁰⁷ paths, its gradient, and the probability of each state in each year.
