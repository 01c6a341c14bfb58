# %% [markdown]
# # A line among outliers
#
# Five of thirty points have nothing to do with the line: how does one keep them from bending it?
#
# Each point has a precision of its own, a gamma draw. Given the line these precisions are integrated out, which makes
# the noise Student's t: heavy tails, so that a point far away says little.

# %%
import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

random = np.random.default_rng(0)
x = np.sort(random.uniform(0.0, 10.0, 30))
y = 2.0 + 0.5 * x + random.normal(0.0, 0.4, 30)
y[[3, 9, 21, 25, 27]] += [7.0, 6.0, -8.0, -9.0, -7.0]


@fb.model
def robust(x):
    line = yield dist.Normal(0.0, 5.0).expand([2])
    precision = yield dist.Gamma(1.0, 0.2).expand(x.shape)
    y = yield dist.Normal(line[0] + line[1] * x, 1.0 / jnp.sqrt(precision))


@fb.model
def plain(x):
    variance = yield dist.InverseGamma(1.0, 0.2)
    line = yield dist.Normal(0.0, 5.0 * jnp.sqrt(variance)).expand([2])
    y = yield dist.Normal(line[0] + line[1] * x, jnp.sqrt(variance))


post = robust(x).condition(y=y)
post.eliminate("precision").names

# %% [markdown]
# Thirty precisions are integrated out; two numbers are left, and drawn independently on a grid.

# %% quick: size = 200
size = 2000

# %%
draws = post.infer(jax.random.key(0), draws=size, chains=1, progress=False)
lines = draws.posterior["line"].values.reshape(-1, 2)
weight = 1.0 / draws.posterior["precision"].values.reshape(-1, 30) ** 0.5
usual = np.asarray(plain(x).condition(y=y).marginal("line").mean("line").data)
lines.mean(0).round(2), usual.round(2)

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 3), layout="constrained")
axes = figure.subplots()
at = np.array([0.0, 10.0])
band = np.quantile(lines[:, :1] + lines[:, 1:] * np.linspace(0, 10, 50), (0.05, 0.95), axis=0)
axes.fill_between(np.linspace(0, 10, 50), *band, alpha=0.25, lw=0, label="90 % band")
axes.plot(at, lines.mean(0)[0] + lines.mean(0)[1] * at, label="Student's t")
axes.plot(at, usual[0] + usual[1] * at, "--", color="0.4", label="least squares")
points = axes.scatter(x, y, c=np.median(weight, axis=0), cmap="cividis", s=18, zorder=3)
figure.colorbar(points, ax=axes, label="noise of the point")
axes.set(xlabel="x", ylabel="y")
axes.legend(frameon=False, fontsize="small")
fb.Picture(
    figure,
    f"Thirty points, five of them far off. The robust line has slope {lines.mean(0)[1]:.2f}, that of least "
    f"squares {usual[1]:.2f}; 0.5 made the data. The points far off have the greatest noise.",
)

# %% [markdown]
# Exact: the integral over the thirty precisions; the draws of the line are independent ones of its exact density.
