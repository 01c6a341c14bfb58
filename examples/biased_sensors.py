"""Tracking with biased sensors: a Kalman filter with a global latent variable.

An object moves in the plane at nearly constant velocity. Five sensors see its position in every frame, each with noise
and with a bias of its own that never changes. All scales are unknown: they maximise the evidence, in which the states
and the biases are summed out exactly. To neglect the biases is to take them for noise, and to smooth too much.

The experiment of section 6.2 of "Functional Tensors for Probabilistic Programming": the error of the position in the
last frame, over the number of frames, without and with biases in the model.

    python -m examples.biased_sensors --full --out pictures
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.figure
import numpy as np
import optax

import fubini as fb
from fubini import dist

SENSORS = 5
QUICK, FULL = (3, 5), (5, 10, 15, 20, 25, 30)
BIAS, NOISE, PROCESS = 4.0, 1.0, 0.3  # the scales that make the data
PAPER = {False: "2.4 to 2.6", True: "2.2 to 2.4"}  # read off Fig. 6, over all numbers of frames

# A state is a position and a velocity. Its noise is that of an acceleration which is white in continuous time.
MOVE = jnp.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]])
JOLT = jnp.linalg.cholesky(jnp.array([[1 / 3, 0, 1 / 2, 0], [0, 1 / 3, 0, 1 / 2], [1 / 2, 0, 1, 0], [0, 1 / 2, 0, 1]]))
SEE = jnp.tile(jnp.eye(2, 4), (SENSORS, 1))

Scales = Mapping[str, jax.Array]

# -- the model --------------------------------------------------------------------------------------------------------


def tracker(scales: Scales, sights: jax.Array, frames: Sequence[int], *, biased: bool) -> fb.Chain:
    """The states of one track, once for each number of frames that are seen: a batch named "seen".

    Scales are over "seen", sights over time, with sensor and coordinate as their event.
    """
    x, x_next = fb.Variable("x", fb.Reals[4]), fb.Variable("x_next", fb.Reals[4])
    bias = fb.Variable("bias", fb.Reals[2 * SENSORS])
    process, noise, spread = (fb.Array(scales[name], ("seen",)) for name in ("process", "noise", "bias"))

    start = dist.Normal(jnp.zeros(4), 100.0).to_event(1)("x")
    move = dist.MultivariateNormal(MOVE @ x, scale_tril=process * JOLT)("x_next")
    place = SEE @ x_next
    if biased:
        start *= dist.Normal(jnp.zeros(2 * SENSORS), spread).to_event(1)("bias")
        place += bias
    sight = dist.Normal(place, noise).to_event(1)(fb.Array(sights, ("t",)))
    is_seen = np.arange(len(sights)) < np.array(frames)[:, None]
    return fb.Chain(
        init=start,
        factor=move * sight ** fb.Array(is_seen.astype(np.float32), ("seen", "t")),
        time="t",
        step={"x": "x_next"},
        sum=("bias",) if biased else (),
    )


def learn(sights: jax.Array, frames: Sequence[int], steps: int, *, biased: bool) -> Scales:
    """The scales of greatest evidence for each number of frames, by gradient from scales of one."""

    def loss(log_scales: Scales) -> jax.Array:
        return -tracker(jax.tree.map(jnp.exp, log_scales), sights, frames, biased=biased).log_evidence().data.sum()

    def improved(state: tuple, _: None) -> tuple[tuple, None]:
        log_scales, moments = state
        updates, moments = adam.update(jax.grad(loss)(log_scales), moments)
        return (optax.apply_updates(log_scales, updates), moments), None

    adam = optax.adam(0.1, b1=0.5, b2=0.8)
    first = {name: jnp.zeros(len(frames)) for name in ("process", "noise", "bias")}
    (log_scales, _), _ = jax.lax.scan(improved, (first, adam.init(first)), length=steps)
    return jax.tree.map(jnp.exp, log_scales)


def locate(scales: Scales, sights: jax.Array, frames: Sequence[int], *, biased: bool) -> jax.Array:
    """The position expected in the last frame seen: [number of frames, coordinate]."""
    last = fb.Array(np.array(frames) - 1, ("seen",), fb.Bint[len(sights)])
    return tracker(scales, sights, frames, biased=biased).filter()(t=last).mean("x_next").data[:, :2]


# -- the experiment ---------------------------------------------------------------------------------------------------


def simulate(seed: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """What the sensors see, and where the object is. Its velocity is damped, which the model does not know."""
    random = np.random.default_rng(seed)
    move, jolt, see = np.asarray(MOVE), np.asarray(JOLT), np.asarray(SEE)
    damped = move @ np.diag([1.0, 1.0, np.exp(-0.1), np.exp(-0.1)])
    state = np.concatenate([10.0 * random.normal(size=2), random.uniform(size=2)])
    bias = BIAS * random.normal(size=2 * SENSORS)
    sights, places = [], []
    for _ in range(length):
        state = damped @ state + PROCESS * jolt @ random.normal(size=4)
        sights.append(see @ state + bias + NOISE * random.normal(size=2 * SENSORS))
        places.append(state[:2])
    return np.stack(sights).astype(np.float32), np.stack(places)


def errors(seeds: int, frames: Sequence[int], steps: int, *, biased: bool) -> np.ndarray:
    """The distance of the last position from the one expected: [seed, number of frames]."""
    tracks = [simulate(seed, max(frames)) for seed in range(seeds)]
    sights, places = (np.stack(parts) for parts in zip(*tracks, strict=True))

    def of_track(sights: jax.Array) -> jax.Array:
        scales = learn(sights, frames, steps, biased=biased)
        return locate(scales, sights, frames, biased=biased)

    found = jax.jit(jax.vmap(of_track))(sights)
    return np.linalg.norm(places[:, np.array(frames) - 1] - found, axis=-1)


def root_mean_square(error: np.ndarray) -> np.ndarray:
    """The root of the mean square over seeds."""
    return np.sqrt((error**2).mean(axis=0))


def paired(without: np.ndarray, with_bias: np.ndarray) -> tuple[float, float]:
    """The mean of the difference, and its standard error; the track lengths of a seed are pooled, being dependent."""
    by_seed = (without - with_bias).mean(axis=1)
    return float(by_seed.mean()), float(by_seed.std(ddof=1) / np.sqrt(len(by_seed)))


def report(error: Mapping[bool, np.ndarray], frames: Sequence[int]) -> None:
    """A line for each number of frames, and the pooled difference."""
    print(f"Position error (root mean square over {len(error[True])} seeds); the paper's Fig. 6 in brackets")
    print(f"  frames   without bias [{PAPER[False]}]   with bias [{PAPER[True]}]")
    rows = zip(frames, root_mean_square(error[False]), root_mean_square(error[True]), strict=True)
    for count, without, with_bias in rows:
        print(f"  {count:6}   {without:12.3f}                {with_bias:9.3f}")
    print(
        f"The mean of the biases cannot be told from a shift of the track: {BIAS * np.sqrt(2 / SENSORS):.3f} expected"
    )
    mean, deviation = paired(error[False], error[True])
    print(f"Paired difference of errors, pooled: {mean:.4f} ± {deviation:.4f} ({mean / deviation:.1f} standard errors)")


def draw(error: Mapping[bool, np.ndarray], frames: Sequence[int], path: Path) -> None:
    """The errors over the number of frames, with a band of one standard error: Fig. 6."""
    figure = matplotlib.figure.Figure(figsize=(5, 2.5), layout="constrained")
    axes = figure.subplots()
    for biased, style, label in ((False, "k--", "neglecting bias"), (True, "r-", "modelling bias")):
        square = error[biased] ** 2
        middle, band = square.mean(axis=0), square.std(axis=0) / np.sqrt(len(square))
        axes.plot(frames, np.sqrt(middle), style, label=label)
        axes.fill_between(frames, np.sqrt(middle - band), np.sqrt(middle + band), color=style[0], alpha=0.15, lw=0)
    axes.set(xlabel="frames", ylabel="position error")
    axes.legend()
    figure.savefig(path)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="4 seeds, two short tracks, few steps (the default)")
    parser.add_argument("--full", action="store_true", help="50 seeds, 5 to 30 frames")
    parser.add_argument("--data", help="not needed: the data are simulated")
    parser.add_argument("--out", type=Path, help="a folder for the picture")
    options = parser.parse_args(argv)
    seeds, frames, steps = (50, FULL, 50) if options.full else (4, QUICK, 10)
    error = {biased: errors(seeds, frames, steps, biased=biased) for biased in (False, True)}
    report(error, frames)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        draw(error, frames, options.out / "biased_sensors.png")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
