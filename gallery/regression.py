# %% [markdown]
# # A line, and what comes next
#
# How far can one trust a straight line beyond the data?
#
# Linear regression with unknown noise, all conjugate: weights, variance, evidence and predictions have closed forms,
# and the predictions are those of Student's t.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

random = np.random.default_rng(4)
x = np.sort(random.uniform(0.0, 6.0, 12))
y = 1.0 + 0.7 * x + random.normal(0.0, 0.6, 12)


@fb.model
def line(x):
    variance = yield dist.InverseGamma(2.0, 1.0)
    weight = yield dist.Normal(0.0, 3.0 * jnp.sqrt(variance)).expand([2])
    y = yield dist.Normal(weight[0] + weight[1] * x, jnp.sqrt(variance))


post = line(x).condition(y=y)
print("log-evidence", post.log_evidence())
post.marginal("variance")

# %% [markdown]
# Predictions at new inputs use draws of the exact posterior.

# %% quick: size = 200
size = 4000

# %%
from matplotlib.figure import Figure

new = np.linspace(-2.0, 10.0, 61)
ahead = post.predict(jax.random.key(0), "y", draws=size, model=line(new))
low, middle, high = np.quantile(ahead, (0.05, 0.5, 0.95), axis=0)
figure = Figure(figsize=(6.4, 3), layout="constrained")
axes = figure.subplots()
axes.fill_between(new, low, high, alpha=0.25, lw=0, label="90 % of new data")
axes.plot(new, middle, label="median")
axes.plot(x, y, "k.", label="data")
axes.set(xlabel="x", ylabel="y")
axes.legend(frameon=False)
fb.Picture(
    figure,
    f"A line through 12 points, with a band for new data that widens outside of them: at x = 10 it reaches "
    f"from {low[-1]:.1f} to {high[-1]:.1f}.",
)

# %%
post.plot(names=["weight", "variance"])

# %% [markdown]
# Exact: evidence, both posteriors, and the distribution that predictions are drawn from.
