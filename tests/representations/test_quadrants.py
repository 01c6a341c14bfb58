"""The quadrant model: one chain under every representation, against the figures of a fine grid.

The link reads the quadrant of the position by comparisons, and is written without mention of the quadrant before it
where it does not depend on it.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from examples.quadrants import SETTINGS, Setting, distance, drift, mean_path, observations, quadrant, quadrants
from fubini import dist
from tests.representations.quadrant_grid import by_grid

EASY, HARD = SETTINGS["EASY"], SETTINGS["HARD"]
TRUNCATED = {"F": fb.rep.Truncated(), "S": fb.rep.Dense()}
STICKY = 0.1


def made_of(name: str, seed: int = 0) -> fb.rep.Dense:
    return {
        "Truncated": fb.rep.Truncated(),
        "Mixture": fb.rep.Mixture(8),
        "Grid": fb.rep.Grid((-8, 8), 160),
        "Particles": fb.rep.Particles(1000, jax.random.key(seed)),
    }[name]


class Paths(NamedTuple):
    """Mean positions after each step, and the probabilities of the quadrants."""

    means: np.ndarray
    shares: np.ndarray


def paths_of(answer: fb.Factor) -> Paths:
    return Paths(mean_path(answer), np.asarray(answer.sum("F_next").weights))


@cache
def evidence(setting: Setting, stickiness: float, name: str) -> float:
    with fb.represent(F=made_of(name)):
        return float(quadrants(setting, stickiness).log_evidence())


@cache
def filtered(setting: Setting, stickiness: float, name: str) -> Paths:
    with fb.represent(F=made_of(name)):
        return paths_of(quadrants(setting, stickiness).filter())


@cache
def smoothed(setting: Setting, stickiness: float, name: str) -> Paths:
    with fb.represent(F=made_of(name)):
        return paths_of(quadrants(setting, stickiness).smooth())


exactly = cache(by_grid)


# -- the grid ---------------------------------------------------------------------------------------------------------


def test_grid_easy() -> None:
    assert evidence(EASY, 0.0, "Grid") == pytest.approx(-64.177, abs=0.01)
    means = filtered(EASY, 0.0, "Grid").means
    assert means[7] == pytest.approx([1.6144, 3.8204], abs=2e-3)
    assert means[15] == pytest.approx([-1.2945, 3.5252], abs=2e-3)
    means = smoothed(EASY, 0.0, "Grid").means
    assert means[7] == pytest.approx([1.4096, 3.6046], abs=2e-3)
    assert means[62] == pytest.approx([3.7437, 0.9475], abs=2e-3)


@pytest.mark.parametrize("stickiness", [0.0, STICKY])
def test_grid_as_written_out_in_numpy(stickiness: float) -> None:
    right = exactly(HARD, stickiness, 160)
    assert evidence(HARD, stickiness, "Grid") == pytest.approx(right.log_evidence, abs=1e-9)
    for answer, expected in (
        (filtered(HARD, stickiness, "Grid"), (right.filtered, right.filtered_quadrants)),
        (smoothed(HARD, stickiness, "Grid"), (right.smoothed, right.smoothed_quadrants)),
    ):
        assert answer.means == pytest.approx(expected[0], abs=1e-9)
        assert answer.shares == pytest.approx(expected[1], abs=1e-9)


def test_grid_in_jax_as_written_out_in_numpy() -> None:
    plain, right = quadrants(HARD, STICKY), exactly(HARD, STICKY, 160)
    init, factor = jax.tree.map(jnp.asarray, (plain.init, plain.factor))
    chain = fb.Chain(init=init, factor=factor, time="t", step={"S": "S_next", "F": "F_next"})
    with fb.represent(F=made_of("Grid")):
        answer = chain.smooth()
    means = answer.sum("S_next").mean("F_next").data
    assert means.dtype == jnp.float32
    assert np.asarray(means) == pytest.approx(right.smoothed, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "n", "expected"),
    [("EASY", 161, -64.177), ("MEDIUM", 160, -69.739), ("HARD", 160, -35.159), ("HARD", 161, -35.159)],
)
def test_a_cell_that_is_cut_counts_by_its_share(name: str, n: int, expected: float) -> None:
    with fb.represent(F=fb.rep.Grid((-8, 8), n)):
        answer = quadrants(SETTINGS[name]).log_evidence()
    assert float(answer) == pytest.approx(expected, abs=0.01)
    assert answer.exactness.marks == (f"projected(Grid((-8, 8), {n}))",)


# -- Gaussians --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stickiness", [0.0, STICKY])
def test_truncated_easy(stickiness: float) -> None:
    right = exactly(EASY, stickiness, 160)
    expected = right.log_evidence if stickiness else -64.177
    assert evidence(EASY, stickiness, "Truncated") == pytest.approx(expected, abs=0.1)
    assert distance(filtered(EASY, stickiness, "Truncated").means, right.filtered) <= 0.006
    assert distance(smoothed(EASY, stickiness, "Truncated").means, right.smoothed) <= 0.016


def test_truncated_medium() -> None:
    assert evidence(SETTINGS["MEDIUM"], 0.0, "Truncated") == pytest.approx(-70.012, abs=0.02)


def in_order(order: tuple[int, ...], link_mentions_quadrant: bool) -> fb.Chain:
    """HARD, with the factors of a step in another order, and the link with or without the quadrant before."""
    F, F_next = fb.Variable("F", fb.Reals[2]), fb.Variable("F_next", fb.Reals[2])
    y = observations(HARD)
    table = fb.Array(np.eye(4), ("q",))
    if link_mentions_quadrant:
        table = fb.Array(np.repeat(np.eye(4)[:, None], 4, axis=1), ("q", "S"))
    factors = [
        dist.MultivariateNormal(F + fb.Array(drift(HARD), ("S",)), HARD.moved**2 * np.eye(2))("F_next"),
        dist.Categorical(probs=table(q=quadrant(F_next)))("S_next"),
        dist.MultivariateNormal(F_next, HARD.seen**2 * np.eye(2))(fb.Array(y[1:], ("t",))),
    ]
    step = factors[order[0]] * factors[order[1]] * factors[order[2]]
    return fb.Chain(init=quadrants(HARD).init, factor=step, time="t", step={"S": "S_next", "F": "F_next"})


ORDERS = list(itertools.permutations(range(3)))


@pytest.mark.parametrize(("order", "mentions"), [(ORDERS[0], False), (ORDERS[3], False), (ORDERS[5], True)])
def test_truncated_hard_whatever_the_order_of_the_factors(order: tuple[int, ...], mentions: bool) -> None:
    with fb.represent(**TRUNCATED):
        answer = in_order(order, mentions).log_evidence()
    assert float(answer) == pytest.approx(-35.5901315, abs=1e-6)
    assert repr(answer.exactness) == "projected(Truncated()) × 16"


@pytest.mark.parametrize(
    "representation",
    [fb.rep.Mixture(8), fb.rep.Grid((-8, 8), 80), fb.rep.Particles(300, jax.random.key(3))],
    ids=repr,
)
def test_the_order_of_the_factors_makes_no_difference(representation: Any) -> None:
    found = []
    for order, mentions in ((ORDERS[0], False), (ORDERS[3], True)):
        with fb.represent(F=representation):
            found.append(float(in_order(order, mentions).log_evidence()))
    assert found[1] == pytest.approx(found[0], abs=1e-9)


def test_components_that_are_split_where_they_are_cut() -> None:
    """A small circle, of which most is cut: without splitting the evidence is off by 0.114, the smoother by 0.009."""
    setting = HARD._replace(steps=6, radius=0.4)
    right, chain = exactly(setting, STICKY, 160), quadrants(setting, STICKY)
    with fb.represent(F=fb.rep.Mixture(6, split=3)):
        assert float(chain.log_evidence()) == pytest.approx(right.log_evidence, abs=0.03)
        assert distance(mean_path(chain.smooth()), right.smoothed) <= 0.006


def test_mixture_hard() -> None:
    assert evidence(HARD, 0.0, "Mixture") == pytest.approx(-35.44, abs=0.02)


@pytest.mark.parametrize(
    ("name", "nats", "filter_error", "smoother_error"),
    [("Truncated", 0.4, 0.056, 0.045), ("Mixture", 0.3, 0.045, 0.032), ("Particles", None, 0.05, 0.05)],
)
def test_sticky_link(name: str, nats: float | None, filter_error: float, smoother_error: float) -> None:
    """The chain of the deterministic link with other numbers: nothing is compiled anew."""
    right = exactly(HARD, STICKY, 160)
    if nats is not None:
        assert evidence(HARD, STICKY, name) == pytest.approx(right.log_evidence, abs=nats)
    assert distance(filtered(HARD, STICKY, name).means, right.filtered) <= filter_error
    assert distance(smoothed(HARD, STICKY, name).means, right.smoothed) <= smoother_error


@pytest.mark.parametrize(
    ("name", "setting", "stickiness"),
    [
        ("Truncated", Setting(1.5, 16, 0.3, 0.1), 0.1),
        ("Truncated", Setting(1.5, 16, 0.3, 0.1), 0.5),
        ("Mixture", Setting(1.0, 16, 0.25, 0.06), 0.1),
        ("Mixture", Setting(4.0, 16, 0.5, 0.15), 0.3),
    ],
)
def test_a_smoother_keeps_the_mass_of_each_quadrant(name: str, setting: Setting, stickiness: float) -> None:
    """A quotient of Gaussians grows without bound: in a quadrant of negligible mass it must not create any."""
    answer, right = smoothed(setting, stickiness, name), exactly(setting, stickiness, 160)
    assert distance(answer.means, right.smoothed) <= 0.03
    assert np.abs(answer.shares - right.smoothed_quadrants).sum(axis=1).max() / 2 <= 0.05


# -- particles --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("optimised")  # most of it is running, not compiling
def test_particles() -> None:
    chain, estimates, errors, smoother_errors = quadrants(EASY), [], [], []
    right = exactly(EASY, 0.0, 160)
    for seed in range(5):
        with fb.represent(F=fb.rep.Particles(1000, jax.random.key(seed))):
            estimates.append(float(chain.log_evidence()))
            errors.append(distance(mean_path(chain.filter()), right.filtered))
            smoother_errors.append(distance(mean_path(chain.smooth()), right.smoothed))
    assert np.mean(errors) <= 0.022 and np.mean(smoother_errors) <= 0.026
    assert abs(np.mean(np.exp(np.array(estimates) + 64.177)) - 1) < 3 * np.std(np.exp(np.array(estimates) + 64.177)) / 2


@pytest.mark.parametrize("stickiness", [0.0, STICKY])
def test_particles_hard(stickiness: float) -> None:
    chain, right = quadrants(HARD, stickiness), exactly(HARD, stickiness, 160).log_evidence
    ratios = []
    for seed in range(8):
        with fb.represent(F=fb.rep.Particles(4000, jax.random.key(seed))):
            ratios.append(np.exp(float(chain.log_evidence()) - right))
    assert abs(np.mean(ratios) - 1) < 3 * np.std(ratios, ddof=1) / np.sqrt(len(ratios))


def test_particles_of_labels_beside_gaussians() -> None:
    with fb.represent(S=fb.rep.Particles(100, jax.random.key(0)), F=fb.rep.Truncated()):
        answer = quadrants(HARD).log_evidence()
    assert float(answer) == pytest.approx(-35.159, abs=0.6)
    assert set(answer.exactness.marks) == {"estimated(100)", "projected(Truncated())"}


def test_under_jit_and_in_single_precision() -> None:
    link = quadrants(HARD)

    def log_evidence(y: jax.Array) -> jax.Array:
        F_next = fb.Variable("F_next", fb.Reals[2])
        seen = dist.MultivariateNormal(F_next, HARD.seen**2 * np.eye(2))(fb.Array(y, ("t",)))
        step = fb.Chain(init=link.init, factor=move_and_link() * seen, time="t", step={"S": "S_next", "F": "F_next"})
        with fb.represent(**TRUNCATED):
            return step.log_evidence().data

    y = jnp.asarray(observations(HARD)[1:], jnp.float32)
    assert float(jax.jit(log_evidence)(y)) == pytest.approx(-35.59013, abs=2e-3)


def move_and_link() -> fb.Factor:
    F, F_next = fb.Variable("F", fb.Reals[2]), fb.Variable("F_next", fb.Reals[2])
    move = dist.MultivariateNormal(F + fb.Array(drift(HARD), ("S",)), HARD.moved**2 * np.eye(2))("F_next")
    return move * dist.Categorical(probs=fb.Array(np.eye(4), ("q",))(q=quadrant(F_next)))("S_next")


def test_in_a_model_the_same_numbers() -> None:
    y, b = observations(HARD)[:6], drift(HARD)

    @fb.model
    def written_out(steps):
        F = yield dist.MultivariateNormal(y[0], 0.25 * np.eye(2))
        for t in range(steps):
            if t:
                F = yield dist.MultivariateNormal(F + jnp.asarray(b)[S], HARD.moved**2 * np.eye(2))  # noqa: F821
            q = jnp.where(F[1] > 0, jnp.where(F[0] > 0, 0, 1), jnp.where(F[0] > 0, 3, 2))
            S = yield dist.Categorical(probs=jnp.eye(4)[q])
            Y = yield dist.MultivariateNormal(F, HARD.seen**2 * np.eye(2))

    model = written_out(6)
    seen = [name for name in model.names if name.startswith("Y")]
    post = model.condition(**dict(zip(seen, y, strict=True)))
    F_next = fb.Variable("F_next", fb.Reals[2])
    now = dist.MultivariateNormal(F_next, HARD.seen**2 * np.eye(2))(fb.Array(y[1:], ("t",)))
    step = {"S": "S_next", "F": "F_next"}
    chain = fb.Chain(init=quadrants(HARD).init, factor=move_and_link() * now, time="t", step=step)
    with fb.represent(F=fb.rep.Truncated()):
        assert float(post.log_evidence()) == pytest.approx(float(chain.log_evidence()), abs=1e-9)
        mean = post.marginal("F_3").mean("F_3").data
        assert mean == pytest.approx(mean_path(chain.smooth())[2], abs=1e-9)
