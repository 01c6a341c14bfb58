# %% [markdown]
# # Asia
#
# A patient is short of breath and has been to Asia: what is it?
#
# The network of Lauritzen and Spiegelhalter (1988), eight variables, written as tables. Networks in BIF, UAI and JSON
# files answer the same questions: `fb.io.read_bif`.

# %%
import fubini as fb

answer = fb.Bint.labelled("yes", "no")
tables = {
    "asia": ((), [0.01, 0.99]),
    "smoker": ((), [0.5, 0.5]),
    "tuberculosis": (("asia",), [[0.05, 0.95], [0.01, 0.99]]),
    "cancer": (("smoker",), [[0.1, 0.9], [0.01, 0.99]]),
    "bronchitis": (("smoker",), [[0.6, 0.4], [0.3, 0.7]]),
    "either": (("tuberculosis", "cancer"), [[[1.0, 0.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]]),
    "x_ray": (("either",), [[0.98, 0.02], [0.05, 0.95]]),
    "dyspnoea": (("bronchitis", "either"), [[[0.9, 0.1], [0.8, 0.2]], [[0.7, 0.3], [0.1, 0.9]]]),
}
net = fb.Network(
    {name: answer for name in tables},
    tuple(
        fb.Table(weights, {each: answer for each in (*parents, name)}) for name, (parents, weights) in tables.items()
    ),
    name="asia",
    children=tuple(tables),
)
patient = net.condition(asia="yes", dyspnoea="yes")
print("log P(evidence) =", patient.log_evidence())
patient.marginals("bronchitis")["bronchitis"]

# %%
patient.plot()

# %% [markdown]
# An X-ray that shows something changes the mind:

# %%
later = patient.condition(x_ray="yes")
print(later.map())
later.plot("tuberculosis", "cancer", "bronchitis", "smoker")

# %% [markdown]
# Exact: all marginals by one backward pass over the plan, and the most probable explanation by the same plan in another
# semiring.
