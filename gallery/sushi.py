# %% [markdown]
# # Rankings of sushi
#
# Somebody likes sea urchin best: what else will they order?
#
# Five thousand people ranked ten kinds of sushi (Kamishima 2003). A hundred Booleans, "tuna is third", and the
# constraint that they are a ranking, as a probabilistic sentential decision diagram: 10! rankings in a circuit of some
# thousand elements, whose weights are learnt in one pass.

# %%
import os
from pathlib import Path

import numpy as np
import pandas as pd

import fubini as fb
from fubini import circuits

# %% quick: kinds = 5
kinds = 10

# %%
ranks = pd.read_csv(Path(os.environ["FUBINI_DATA"]) / "sushi" / "sushi_rankings.csv.gz").iloc[:, :kinds]
ranks = ranks.rank(axis=1).astype(int)  # of these kinds among themselves
names = [[f"{kind}@{rank}" for kind in ranks] for rank in range(1, kinds + 1)]
base = circuits.permutations(kinds, names)
rows = np.eye(kinds, dtype=np.int8)[np.argsort(ranks.to_numpy(), axis=1)].reshape(len(ranks), -1)
model = circuits.learn(base, rows, pseudo_count=2.0)
print(f"{base.count_models():,} rankings, {base.size:,} elements")

# %%
first = ranks.columns[4]


def expected(circuit):
    at = dict(zip(circuit.variables, circuit.marginal_probabilities(), strict=True))
    return np.arange(1, kinds + 1) @ np.array([[at[name] for name in row] for row in names])


given = model.multiply(fb.Table([0.0, 1.0], (f"{first}@1",)))
chance = float(given.sum(*given.variables))
print(f"P({first} is liked best) = {chance:.3f}; {np.mean(ranks[first] == 1):.3f} of the people")
before, after = expected(model), expected(given)
pd.DataFrame({"of all": before, f"{first} first": after}, index=ranks.columns).round(2)

# %%
from matplotlib.figure import Figure

order = np.argsort(before)
figure = Figure(figsize=(6.4, 3), layout="constrained")
axes = figure.subplots()
axes.hlines(range(kinds), before[order], after[order], color="0.7")
axes.plot(before[order], range(kinds), "o", label="all people")
axes.plot(after[order], range(kinds), "D", label=f"who like {first} best")
axes.set_yticks(range(kinds), ranks.columns[order])
axes.invert_yaxis()
axes.set(xlabel="expected rank")
axes.legend(frameon=False, fontsize="small")
moved = int(np.argmax(np.where(ranks.columns == first, 0, np.abs(after - before))))
fb.Picture(
    figure,
    f"Expected rank of each kind of sushi, for all people and for those who like {first} best, of whom "
    f"{ranks.columns[moved]} moves most: from {before[moved]:.1f} to {after[moved]:.1f}.",
)

# %% [markdown]
# Exact: the probability of any evidence on the hundred Booleans, and all marginals, by two passes over the circuit.
