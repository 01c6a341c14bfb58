# %% [markdown]
# # O-rings of the Challenger
#
# On the morning of 28 January 1986 it was 31 °F: how likely was damage?
#
# Whether an O-ring was damaged in 23 earlier flights, and the temperature (Dalal, Fowlkes and Hoadley 1989): logistic
# regression. Nothing has a closed form; there are two numbers, and a grid is laid around their mode.

# %%
import jax
import numpy as np

import fubini as fb
from fubini import dist

temperature = np.array([66, 70, 69, 68, 67, 72, 73, 70, 57, 63, 70, 78, 67, 53, 67, 75, 70, 81, 76, 79, 75, 76, 58.0])
damage = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1])


@fb.model
def flights(t):
    at_70 = yield dist.Normal(0.0, 3.0)
    per_degree = yield dist.Normal(0.0, 0.5)
    damaged = yield dist.Bernoulli(logits=at_70 + per_degree * (t - 70.0))


post = flights(temperature).condition(damaged=damage)
with fb.quadrature():
    print("log-evidence by quadrature", post.log_evidence())

# %% quick: size = 200
size = 2000

# %%
draws = post.infer(jax.random.key(0), draws=size, chains=1, progress=False)
at = np.linspace(30.0, 82.0, 53)
a, b = (draws.posterior[name].values.reshape(-1, 1) for name in ("at_70", "per_degree"))
chance = 1.0 / (1.0 + np.exp(-(a + b * (at - 70.0))))
draws.posterior.attrs["method"]

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 2.8), layout="constrained")
axes = figure.subplots()
axes.fill_between(at, *np.quantile(chance, (0.05, 0.95), axis=0), alpha=0.25, lw=0, label="90 % band")
axes.plot(at, chance.mean(0), label="probability of damage")
axes.plot(temperature, damage, "k.", label="flights")
axes.axvline(31.0, color="0.5", ls=":")
axes.set(xlabel="temperature (°F)", ylabel="damage")
axes.legend(frameon=False, fontsize="small", loc="center right")
cold = chance[:, 1]
fb.Picture(
    figure,
    f"Probability of damage over temperature, falling from {cold.mean():.2f} at 31 °F, 90 % interval "
    f"{np.quantile(cold, 0.05):.2f} to {np.quantile(cold, 0.95):.2f}, to {chance[:, -1].mean():.2f} at 82 °F.",
)

# %% [markdown]
# Approximate: the evidence, by quadrature with a bound on its error. The draws are independent ones of the density
# itself.
