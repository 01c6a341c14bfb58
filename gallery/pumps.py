# %% [markdown]
# # Pumps
#
# Ten pumps of a power plant failed so and so often: which of them are bad?
#
# Failures and hours of operation (in thousands) of Gaver and O'Muircheartaigh (1987). Each pump has a rate of its own,
# a draw from a gamma distribution whose rate is unknown.

# %%
import numpy as np

import fubini as fb
from fubini import dist

failures = np.array([5, 1, 5, 14, 3, 19, 1, 1, 4, 22])
hours = np.array([94.3, 15.7, 62.9, 126.0, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5])


@fb.model
def pumps(hours):
    beta = yield dist.Gamma(0.1, 1.0)
    rate = yield dist.Gamma(1.8, beta).expand(hours.shape)
    failed = yield dist.Poisson(rate * hours)


post = pumps(hours).condition(failed=failures)
small = post.eliminate("rate")
small.names

# %% [markdown]
# The ten rates are integrated out: given beta, each failure count is negative binomial. What is left is a density of
# one number, and quadrature gives its evidence with a bound on the error.

# %%
with fb.quadrature():
    evidence = post.log_evidence()
print(evidence, evidence.exactness)

# %% quick: size = 200
size = 2000

# %%
import jax

draws = post.infer(jax.random.key(0), draws=size, chains=1, progress=False)
post.plot(draws, names=["rate", "beta"])

# %% [markdown]
# The first four pumps ran for long and rarely failed; the last two fail more than ten times as often. Of pumps 6 and 7,
# with one failure in a thousand hours each, little is known beyond what the others say. Exact: the rates given beta, in
# closed form.
