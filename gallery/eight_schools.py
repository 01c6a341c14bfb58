# %% [markdown]
# # Eight schools
#
# Does coaching for a test help, and where it seems to, is it the school or chance?
#
# Rubin's (1981) data: in each of eight schools an estimated effect and its standard error. Schools resemble each other
# as far as the data say so.

# %%
import jax
import numpy as np

import fubini as fb
from fubini import dist


@fb.model
def schools(spread):
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(mu, tau).expand(spread.shape)
    effect = yield dist.Normal(theta, spread)


effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
spread = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
post = schools(spread).condition(effect=effects)
fb.explain(post)

# %% [markdown]
# The eight effects and their mean are integrated out by two identities of the normal distribution, so that one number,
# tau, is left. Its density is drawn from independently; the others are then drawn given it. No chain has to mix, and
# the funnel between tau and the effects, which troubles samplers, does not occur.

# %% quick: size = 100
size = 1000

# %%
draws = post.infer(
    jax.random.key(0),
    draws=size,
    chains=2,
    progress=False,
    coords={"school": list("ABCDEFGH")},
    dims={"theta": ["school"]},
)
post.plot(draws)

# %% [markdown]
# School A's estimate of 28 points shrinks to about six. Exact: everything but tau, whose draws are
# independent ones of its exact density.
