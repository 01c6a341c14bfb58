# %% [markdown]
# # Twelve hospitals
#
# Is one hospital worse than the others, or was it unlucky?
#
# Deaths after heart operations on infants (Spiegelhalter et al., the "Surgical" example of BUGS). Three answers
# compete: one rate for all, a rate for each, and two kinds of hospitals.

# %%
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

operations = np.array([47, 148, 119, 810, 211, 196, 148, 215, 207, 97, 256, 360])
deaths = np.array([0, 18, 8, 46, 8, 13, 9, 31, 14, 8, 29, 24])


@fb.model
def one_rate():
    rate = yield dist.Beta(1.0, 9.0)
    died = yield dist.Binomial(operations, rate)


@fb.model
def own_rates():
    rate = yield dist.Beta(1.0, 9.0).expand([12])
    died = yield dist.Binomial(operations, rate)


@fb.model
def two_kinds():
    rate = yield dist.Beta(jnp.array([2.0, 4.0]), jnp.array([30.0, 28.0]))
    kind = yield dist.Bernoulli(0.25).expand([12])
    died = yield dist.Binomial(operations, rate[kind])


models = {"one rate": one_rate(), "own rates": own_rates()}
posts = {name: model.condition(died=deaths) for name, model in models.items()}
fb.compare(**{name.replace(" ", "_"): post for name, post in posts.items()})

# %% [markdown]
# Both evidences are exact: beta-binomial probabilities, recognised from the density. Given the rates, the kinds of the
# third model are summed out; its two rates are what is drawn.

# %% quick: size = 200
size = 1000

# %%
import jax

post = two_kinds().condition(died=deaths)
draws = post.infer(jax.random.key(0), draws=size, chains=1, progress=False)
post.plot(draws, names=["kind"], at=np.arange(1, 13), along="hospital")

# %%
post.plot(draws, names=["rate"])

# %% [markdown]
# The second, eighth and eleventh hospital are of the risky kind, each with a probability above 0.9; their rate is twice
# that of the others. Exact: the evidence of the first two models, and the sum over the 4096 assignments of kinds in the
# third.
