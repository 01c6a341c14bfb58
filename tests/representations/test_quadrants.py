"""The quadrant model: one chain under every representation, against the figures of a fine grid.

The link reads the quadrant of the position by comparisons, and is written without mention of the quadrant before it
where it does not depend on it.
"""

from __future__ import annotations

import itertools
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from examples.quadrants import SETTINGS, distance, drift, mean_path, observations, quadrant, quadrants
from fubini import dist

EASY, HARD = SETTINGS["EASY"], SETTINGS["HARD"]
TRUNCATED = {"F": fb.rep.Truncated(), "S": fb.rep.Dense()}


@cache
def paths(name: str, representation: str) -> tuple[float, np.ndarray, np.ndarray]:
    """Log-evidence, and mean paths of filter and smoother."""
    with fb.represent(F={"Truncated": fb.rep.Truncated(), "Grid": fb.rep.Grid((-8, 8), 160)}[representation]):
        chain = quadrants(SETTINGS[name])
        return float(chain.log_evidence()), mean_path(chain.filter()), mean_path(smoothed(name, representation))


@cache
def smoothed(name: str, representation: str) -> fb.Factor:
    """The smoother, under a representation that is in force."""
    return quadrants(SETTINGS[name]).smooth()


def test_grid_easy() -> None:
    log_evidence, filtered, smooth = paths("EASY", "Grid")
    assert log_evidence == pytest.approx(-64.177, abs=0.01)
    assert filtered[7] == pytest.approx([1.6144, 3.8204], abs=2e-3)
    assert filtered[15] == pytest.approx([-1.2945, 3.5252], abs=2e-3)
    assert smooth[7] == pytest.approx([1.4096, 3.6046], abs=2e-3)
    assert smooth[62] == pytest.approx([3.7437, 0.9475], abs=2e-3)


@pytest.mark.parametrize(
    ("name", "n", "expected"), [("EASY", 161, -64.177), ("HARD", 160, -35.159), ("HARD", 161, -35.159)]
)
def test_a_cell_that_is_cut_counts_by_its_share(name: str, n: int, expected: float) -> None:
    with fb.represent(F=fb.rep.Grid((-8, 8), n)):
        answer = quadrants(SETTINGS[name]).log_evidence()
    assert float(answer) == pytest.approx(expected, abs=0.01)
    assert answer.exactness.marks == (f"projected(Grid((-8, 8), {n}))",)


def test_truncated_easy() -> None:
    log_evidence, filtered, smooth = paths("EASY", "Truncated")
    _, grid_filtered, grid_smooth = paths("EASY", "Grid")
    assert log_evidence == pytest.approx(-64.177, abs=0.1)
    assert distance(filtered, grid_filtered) <= 0.006
    assert distance(smooth, grid_smooth) <= 0.016
    counts = smoothed("EASY", "Truncated").exactness  # the start, 63 steps, and two projections for each step back
    assert repr(counts) == "projected(Truncated()) × 190, 0 quotients replaced"


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


def test_mixture_hard() -> None:
    with fb.represent(F=fb.rep.Mixture(8)):
        assert float(quadrants(HARD).log_evidence()) == pytest.approx(-35.44, abs=0.02)


def test_sticky_link() -> None:
    chain = quadrants(HARD, stickiness=0.2)
    answers = {}
    for name, made in (("grid", fb.rep.Grid((-6, 6), 120)), ("truncated", fb.rep.Truncated())):
        with fb.represent(F=made):
            answers[name] = float(chain.log_evidence())
    assert answers["truncated"] == pytest.approx(answers["grid"], abs=0.6)
    assert answers["grid"] != pytest.approx(-35.159, abs=0.05)


def test_particles() -> None:
    chain, estimates, errors = quadrants(EASY), [], []
    _, grid_filtered, _ = paths("EASY", "Grid")
    for seed in range(5):
        with fb.represent(F=fb.rep.Particles(1000, jax.random.key(seed))):
            estimates.append(float(chain.log_evidence()))
            errors.append(distance(mean_path(chain.filter()), grid_filtered))
    assert np.mean(errors) <= 0.022
    assert abs(np.mean(np.exp(np.array(estimates) + 64.177)) - 1) < 3 * np.std(np.exp(np.array(estimates) + 64.177)) / 2


def test_particles_hard() -> None:
    chain = quadrants(HARD)
    ratios = []
    for seed in range(8):
        with fb.represent(F=fb.rep.Particles(4000, jax.random.key(seed))):
            ratios.append(np.exp(float(chain.log_evidence()) + 35.159))
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
