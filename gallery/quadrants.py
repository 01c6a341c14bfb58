# %% [markdown]
# # One model, four representations
#
# A point is pushed around a circle by the quadrant that it is in: which approximation follows it best?
#
# The experiment of the paper on representation-agnostic factors. The next push depends on the sign of both coordinates,
# so that no filter is exact. The model is written once, and `fb.represent` says how the position is stored.

# %%
import jax
import numpy as np

import fubini as fb
from fubini import dist

# %% quick: steps, cells, particles = 4, 48, 50
steps, cells, particles = 16, 160, 1000

# %%
radius, seen, moved = 1.0, 1.0, 0.3
angle = 2 * np.pi * np.arange(steps) / steps + np.pi / 8
circle = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
middle = np.pi / 4 + np.arange(4) * np.pi / 2
push = 2 * np.pi * radius / steps * np.stack([-np.sin(middle), np.cos(middle)], axis=1)


def quadrant(point):
    x, y = point[0], point[1]
    return fb.ops.where(y > 0, fb.ops.where(x > 0, 0, 1), fb.ops.where(x > 0, 3, 2))


F, F_next = fb.Variable("F", fb.Reals[2]), fb.Variable("F_next", fb.Reals[2])
same = fb.Array(np.eye(4), ("q",))
move = dist.MultivariateNormal(F + fb.Array(push, ("S",)), moved**2 * np.eye(2))("F_next")
sight = dist.MultivariateNormal(F_next, seen**2 * np.eye(2))(fb.Array(circle[1:], ("t",)))
start = dist.MultivariateNormal(circle[0], 0.25 * np.eye(2))("F") * dist.Categorical(probs=same(q=quadrant(F)))("S")
chain = fb.Chain(
    init=start,
    factor=move * dist.Categorical(probs=same(q=quadrant(F_next)))("S_next") * sight,
    time="t",
    step={"S": "S_next", "F": "F_next"},
)

# %% quick: del stored["mixture of 8"], stored["truncated Gaussians"]
stored = {
    "grid": fb.rep.Grid((-8, 8), cells),
    "truncated Gaussians": fb.rep.Truncated(),
    "mixture of 8": fb.rep.Mixture(8),
    "particles": fb.rep.Particles(particles, jax.random.key(0)),
}

# %%
paths = {}
for name, form in stored.items():
    with fb.represent(F=form):
        evidence = chain.log_evidence()
        paths[name] = np.asarray(chain.filter().sum("S_next").mean("F_next").data)
    print(f"{name:20} log-evidence {float(evidence):9.4f}   {evidence.exactness}")

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 2.2), layout="constrained")
for (name, path), axes in zip(paths.items(), figure.subplots(1, len(paths), sharex=True, sharey=True), strict=True):
    axes.plot(*circle.T, "k.", markersize=3)
    axes.plot(*path.T, "-")
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    axes.axvline(0, color="0.8", lw=0.8, zorder=0)
    axes.set(aspect="equal")
    axes.set_title(name, fontsize="small")
far = {name: float(np.sqrt(((path - paths["grid"]) ** 2).sum(1).mean())) for name, path in paths.items()}
fb.Picture(
    figure,
    "Filtered paths around a circle under four representations of the position. Distances from the path of the "
    "grid: " + ", ".join(f"{name} {value:.3f}" for name, value in list(far.items())[1:]) + ".",
)

# %% [markdown]
# Approximate, each in its own way, as the exactness of each number says; the model, the chain and the questions are the
# same objects throughout.
