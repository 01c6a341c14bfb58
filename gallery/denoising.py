# %% [markdown]
# # An image through noise
#
# A quarter of the pixels were flipped: which were?
#
# A Markov random field: neighbouring pixels tend to be alike. Its graph has cycles, and is too wide to be summed
# exactly at this size, so that messages are passed along it until they settle.

# %%
import numpy as np

import fubini as fb

# %% quick: side = 8
side = 32

# %%
at = np.linspace(-1.0, 1.0, side)
right, down = np.meshgrid(at, at)
image = ((np.hypot(right + 0.25, down + 0.2) < 0.55) | ((np.abs(right - 0.45) < 0.2) & (down > 0.0))).astype(int)
noisy = np.where(np.random.default_rng(0).uniform(size=image.shape) < 0.25, 1 - image, image)

alike, flipped = np.array([[0.85, 0.35], [0.35, 0.85]]), np.array([[0.75, 0.25], [0.25, 0.75]])
factors = [fb.Table(flipped[noisy[i, j]], (f"p{i}_{j}",)) for i in range(side) for j in range(side)]
factors += [fb.Table(alike, (f"p{i}_{j}", f"p{i + 1}_{j}")) for i in range(side - 1) for j in range(side)]
factors += [fb.Table(alike, (f"p{i}_{j}", f"p{i}_{j + 1}")) for i in range(side) for j in range(side - 1)]
result = fb.propagate(factors, method="belief propagation")
print(f"{len(factors)} factors, converged: {result.converged} after {result.iterations} rounds, {result.exactness}")
belief = np.array([[result.marginals[f"p{i}_{j}"].weights[1] for j in range(side)] for i in range(side)])

# %%
from matplotlib.figure import Figure

wrong = [int((noisy != image).sum()), int(((belief > 0.5) != image).sum())]
figure = Figure(figsize=(6.4, 2.4), layout="constrained")
for axes, shown, title in zip(
    figure.subplots(1, 3),
    (image, noisy, belief),
    ("image", f"seen, {wrong[0]} wrong", f"P(dark), {wrong[1]} wrong"),
    strict=True,
):
    axes.imshow(shown, cmap="gray_r", vmin=0, vmax=1)
    axes.set(xticks=[], yticks=[])
    axes.set_title(title, fontsize="medium")
fb.Picture(
    figure,
    f"An image of a disc and a bar, the same with {wrong[0]} of {side**2} pixels flipped, and the probability "
    f"that a pixel is dark, of which {wrong[1]} are on the wrong side of one half.",
)

# %% [markdown]
# Approximate: belief propagation on a graph with cycles; the result says so. A narrow strip can be summed exactly, and
# the two nearly agree:

# %%
strip = [f for f in factors if all(int(name[1:].split("_")[0]) < 4 for name in f.inputs)]
exact, near = fb.marginals(strip, ("p1_3",))["p1_3"], fb.propagate(strip, method="belief propagation").marginals["p1_3"]
exact.weights.round(4), near.weights.round(4)
