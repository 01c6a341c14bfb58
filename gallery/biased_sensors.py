# %% [markdown]
# # Five sensors, each a little wrong
#
# Can one learn that a sensor is biased while one is tracking with it?
#
# Section 6.2 of the functional-tensor paper: an object moves in the plane, and five sensors see it, each with a bias
# that never changes. The biases are global latent variables of a Kalman filter: they are integrated out together with
# all states, by the same elimination.

# %%
import numpy as np

import fubini as fb
from fubini import dist

# %% quick: frames = 6
frames = 40

# %%
sensors, bias_scale, noise, process = 5, 3.0, 0.5, 0.3
move = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]])
jolt = np.linalg.cholesky(np.array([[1 / 3, 0, 1 / 2, 0], [0, 1 / 3, 0, 1 / 2], [1 / 2, 0, 1, 0], [0, 1 / 2, 0, 1]]))
see = np.tile(np.eye(2, 4), (sensors, 1))

random = np.random.default_rng(3)
bias = bias_scale * random.normal(size=(sensors, 2))
bias -= bias.mean(0)  # what all sensors have in common cannot be told from a shift of the track
state, track, sights = np.array([0.0, 0.0, 1.0, 0.4]), [], []
for _ in range(frames):
    state = move @ state + process * jolt @ random.normal(size=4)
    track.append(state[:2])
    sights.append(see @ state + bias.ravel() + noise * random.normal(size=2 * sensors))
track, sights = np.array(track), np.array(sights)


def tracker(biased):
    x, x_next = fb.Variable("x", fb.Reals[4]), fb.Variable("x_next", fb.Reals[4])
    b = fb.Variable("bias", fb.Reals[2 * sensors])
    start = dist.MultivariateNormal(np.zeros(4), 100.0 * np.eye(4))("x")
    step = dist.MultivariateNormal(move @ x, scale_tril=process * jolt)("x_next")
    where, spread = see @ x_next, noise if biased else (noise**2 + bias_scale**2) ** 0.5
    if biased:
        start *= dist.MultivariateNormal(np.zeros(2 * sensors), bias_scale**2 * np.eye(2 * sensors))("bias")
        where += b
    seen = dist.Normal(where, spread).to_event(1)(fb.Array(sights, ("t",)))
    return fb.Chain(init=start, factor=step * seen, time="t", step={"x": "x_next"}, sum=("bias",) if biased else ())


chains = {"biases modelled": tracker(True), "biases taken for noise": tracker(False)}
{name: round(float(chain.log_evidence()), 1) for name, chain in chains.items()}

# %%
paths = {name: np.asarray(chain.filter().mean("x_next").data)[:, :2] for name, chain in chains.items()}
error = {name: float(np.sqrt(((path - track) ** 2).sum(1).mean())) for name, path in paths.items()}
learnt = np.asarray(chains["biases modelled"].final().sum("x").mean("bias").data).reshape(sensors, 2)
error

# %%
from matplotlib.figure import Figure

figure = Figure(figsize=(6.4, 3.4), layout="constrained")
left, right = figure.subplots(1, 2, width_ratios=(3, 2))
left.plot(*sights.reshape(frames, sensors, 2).transpose(2, 0, 1).reshape(2, -1), ".", color="0.8", markersize=3)
left.plot(*track.T, "k", lw=1, label="truth")
for name, path in paths.items():
    left.plot(*path.T, "--" if "noise" in name else "-", label=name)
left.legend(frameon=False, fontsize="small")
left.set(xlabel="x", ylabel="y")
right.plot(*bias.T, "k+", markersize=10, label="bias")
right.plot(*learnt.T, "o", fillstyle="none", label="learnt")
right.legend(frameon=False, fontsize="small")
right.set(aspect="equal", adjustable="datalim", title="bias of each sensor")
fb.Picture(
    figure,
    "Left: a track, what five sensors saw of it, and two filtered paths; with biases in the model the error is "
    f"{error['biases modelled']:.2f}, without them {error['biases taken for noise']:.2f}. Right: the five "
    "biases, and their posterior means close to them.",
)

# %% [markdown]
# Exact: evidence, filter, and the posterior of the ten numbers of the biases. No plate is unrolled, and no state space
# is enlarged by hand.
