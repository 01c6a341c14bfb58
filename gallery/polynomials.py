# %% [markdown]
# # How many powers?
#
# Which polynomial do these data want: does a better fit pay for more coefficients?
#
# The evidence of each degree is exact: coefficients and noise are integrated out. It rises as long as another power is
# needed, and falls after that, though the fit always improves.

# %%
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

random = np.random.default_rng(2)
x = np.linspace(-1.0, 1.0, 40)
y = 0.5 - 1.5 * x + 3.0 * x**3 + random.normal(0.0, 0.3, 40)


@fb.model
def polynomial(powers):
    variance = yield dist.InverseGamma(2.0, 0.2)
    weight = yield dist.Normal(0.0, 5.0 * jnp.sqrt(variance)).expand([powers.shape[1]])
    y = yield dist.Normal(powers @ weight, jnp.sqrt(variance))


posts = {f"degree_{d}": polynomial(np.vander(x, d + 1, increasing=True)).condition(y=y) for d in range(8)}
comparison = fb.compare(**posts)
comparison

# %%
from matplotlib.figure import Figure

logs = np.array([float(post.log_evidence()) for post in posts.values()])
shares = np.exp(logs - np.logaddexp.reduce(logs))
figure = Figure(figsize=(6.4, 2.6), layout="constrained")
left, right = figure.subplots(1, 2)
left.plot(x, y, "k.")
for degree in (1, 3, 7):
    powers = np.vander(x, degree + 1, increasing=True)
    mean = np.asarray(posts[f"degree_{degree}"].marginal("weight").mean("weight").data)
    left.plot(x, powers @ mean, label=f"degree {degree}")
left.set(xlabel="x", ylabel="y")
left.legend(frameon=False, fontsize="small")
right.bar(range(8), shares)
right.set(xlabel="degree", ylabel="posterior probability")
best = int(shares.argmax())
fb.Picture(
    figure,
    f"Left: the data and posterior means of degrees 1, 3 and 7. Right: the posterior probability of each "
    f"degree, greatest for degree {best} with {shares[best]:.2f}.",
)

# %% [markdown]
# The data were made of a cubic. Exact: all of it.
