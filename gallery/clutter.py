# %% [markdown]
# # A signal in clutter
#
# Half of the points come from a signal of unknown place, half from clutter that is everywhere: where is the signal?
#
# The clutter problem, with which Minka (2001) introduced expectation propagation. The posterior is a mixture of 2ⁿ
# normal densities; expectation propagation replaces each factor by a Gaussian in the light of the others.

# %%
import numpy as np

import fubini as fb
from fubini import dist

random = np.random.default_rng(5)
n, place = 20, 2.0
is_signal = random.uniform(size=n) < 0.5
y = np.where(is_signal, random.normal(place, 1.0, n), random.normal(0.0, 10.0**0.5, n))

x = fb.Variable("x", fb.Real)
prior = dist.Normal(0.0, 10.0)("x")
likelihood = [0.5 * dist.Normal(x, 1.0)("y")(y=each) + 0.5 * dist.Normal(0.0, 10.0**0.5)("y")(y=each) for each in y]
result = fb.expectation_propagation([prior, *likelihood], ("x",))
near = result.marginals["x"]
print(result.converged, "log-evidence", result.log_evidence)
near

# %% [markdown]
# With one unknown number the truth is at hand, on a grid:

# %%
at = np.linspace(-4.0, 6.0, 501)
grid = fb.Array(at, ("at",))
log = sum((f(x=grid).log().data for f in likelihood), start=np.asarray(prior(x=grid).log().data))
evidence = np.log(np.trapezoid(np.exp(log - log.max()), at)) + log.max()
true = np.exp(log - evidence)
mean, sd = float(near.mean("x")), float(near.variance("x")) ** 0.5
print(f"log-evidence {evidence:.4f}, mean {np.trapezoid(at * true, at):.4f}")

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 2.8), layout="constrained")
axes = figure.subplots()
axes.plot(at, true, label="posterior")
axes.plot(at, np.exp(np.asarray(near(x=grid).log().data)), "--", label="expectation propagation")
axes.plot(y, np.full(n, -0.05), "k|", label="data")
axes.set(xlabel="place of the signal", ylabel="density", xlim=(at[0], at[-1]))
axes.legend(frameon=False, fontsize="small")
fb.Picture(
    figure,
    f"The posterior of the place, and the Gaussian of expectation propagation close to it: mean {mean:.2f}, "
    f"standard deviation {sd:.2f}. The signal is at {place:g}.",
)

# %% [markdown]
# Approximate: one Gaussian for a mixture of a million, and its log-evidence, both marked as such.
