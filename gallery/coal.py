# %% [markdown]
# # When did mines become safer?
#
# Disasters in British coal mines became rarer towards the end of the 19th century: in which year?
#
# Counts of each year from 1851 to 1962 (Jarrett 1979), a Poisson rate before a year of change and another after it.
# Both rates are integrated out, so that the year has an exact distribution, and the rates are mixtures over it.

# %%
import os
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd

import fubini as fb
from fubini import dist

table = pd.read_csv(Path(os.environ["FUBINI_DATA"]) / "classic" / "coal_disaster_yearly.csv")
years, counts = table["year"].to_numpy(), table["count"].to_numpy()


@fb.model
def disasters(n):
    change = yield dist.DiscreteUniform(0, n - 1)
    early = yield dist.Gamma(2.0, 1.0)
    late = yield dist.Gamma(2.0, 1.0)
    y = yield dist.Poisson(jnp.where(jnp.arange(n) < change, early, late))


post = disasters(len(years)).condition(y=counts)
print("log-evidence", post.log_evidence())
fb.explain(post)

# %%
chance = post.marginal("change").weights
chance = chance / chance.sum()
early, late = (float(post.marginal(name).mean(name)) for name in ("early", "late"))
print(f"most probable year {years[chance.argmax()]}; {early:.2f} disasters a year before the change, {late:.2f} after")

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 3.6), layout="constrained")
above, below = figure.subplots(2, 1, sharex=True)
above.bar(years, counts, color="0.4")
above.set(ylabel="disasters")
below.bar(years, chance)
below.set(xlabel="year of change", ylabel="probability")
likely = years[np.flatnonzero(chance > 0.02)]
fb.Picture(
    figure,
    f"Above, disasters in each year, many before 1890 and few after. Below, the probability that the rate "
    f"changed in a year: greatest in {years[chance.argmax()]}, above 2 % from {likely[0]} to {likely[-1]}.",
)

# %%
post.plot(names=["early", "late"])

# %% [markdown]
# Exact: evidence, the distribution of the year, and both rates, whose densities are mixtures of 112 gamma densities.
