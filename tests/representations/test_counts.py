"""Answers say how often they were projected, and how many quotients were replaced; explanations list each."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist

SLOPE, MOVED = 0.9, 0.5
EDGES = (-0.5, 0.5)
# Log-weights of the three boxes at each step: a narrow middle, then none of it, and again.
WEIGHTS = np.array([[-6.0, 14.0, -6.0], [13.0, -3.0, 13.0], [2.0, 8.0, 2.0], [-5.0, -11.0, -5.0]])


def chain(weights: Any) -> fb.Chain:
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    box = fb.ops.where(x_next > EDGES[1], 2, fb.ops.where(x_next > EDGES[0], 1, 0))
    step = dist.Normal(SLOPE * x, MOVED)("x_next") * fb.weight(log=fb.Array(weights, ("t", "box"))(box=box))
    return fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})


@cache
def smoothed() -> Any:
    with fb.represent(x=fb.rep.Truncated()):
        return chain(WEIGHTS).smooth()


def cut(mean: float, variance: float, weights: np.ndarray) -> tuple[float, float]:
    """Mean and variance of a Gaussian whose boxes are weighed."""
    deviation, ends = np.sqrt(variance), np.array([-np.inf, *EDGES, np.inf])
    a, b = (ends[:-1] - mean) / deviation, (ends[1:] - mean) / deviation
    masses = np.exp(weights - weights.max()) * (stats.norm.cdf(b) - stats.norm.cdf(a))
    boxes = list(zip(a, b, strict=True))
    first, second = (np.array([stats.truncnorm.moment(k, *box, mean, deviation) for box in boxes]) for k in (1, 2))
    shares = masses / masses.sum()
    return shares @ first, shares @ second - (shares @ first) ** 2


def by_hand(weights: np.ndarray) -> tuple[list[float], int]:
    """The variances of a smoother that projects after each step, and how many of its quotients are indefinite."""
    states = [(0.0, 1.0)]
    for log in weights:
        mean, variance = states[-1]
        states.append(cut(SLOPE * mean, SLOPE**2 * variance + MOVED**2, log))
    later, variances, count = states[-1], [states[-1][1]], 0
    for (mean, variance), after, log in zip(states[-2::-1], states[:0:-1], weights[::-1], strict=True):
        ahead, spread = SLOPE * mean, SLOPE**2 * variance + MOVED**2
        precision = 1 / later[1] - 1 / after[1] + 1 / spread
        if precision > 0:
            linear = later[0] / later[1] - after[0] / after[1] + ahead / spread
            target = cut(linear / precision, 1 / precision, log)
        else:
            count, target = count + 1, cut(ahead, spread, log)
        gain = variance * SLOPE / spread
        later = mean + gain * (target[0] - ahead), variance - gain**2 * (spread - target[1])
        variances.append(later[1])
    return variances[::-1], count


def test_indefinite_quotients_are_counted() -> None:
    smooth = smoothed()
    variances, count = by_hand(WEIGHTS)
    assert smooth.divisions == count == 2
    assert smooth.initial.variance("x").data == pytest.approx(variances[0], abs=1e-6)
    assert smooth.variance("x_next").data == pytest.approx(variances[1:], abs=1e-6)
    assert repr(smooth.exactness) == "projected(Truncated()) × 8, 2 quotients replaced"  # each step there and back


def test_counts_under_jit() -> None:
    def smooth(weights: jax.Array) -> Any:
        with fb.represent(x=fb.rep.Truncated()):
            return chain(weights).smooth()

    result = jax.jit(smooth)(jnp.asarray(WEIGHTS))
    assert result.divisions == 2 and result.exactness == smoothed().exactness


def test_projections_are_counted_where_there_are_some() -> None:
    with fb.represent(x=fb.rep.Truncated()):
        cut, plain = chain(WEIGHTS).filter(), chain(np.zeros((4, 3))).init
    assert repr(cut.exactness) == "projected(Truncated()) × 4" and plain.exactness.is_exact
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    step = dist.Normal(SLOPE * x, MOVED)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(np.zeros(4), ("t",)))
    linear = fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=step, time="t", step={"x": "x_next"})
    with fb.represent(x=fb.rep.Truncated()):
        assert repr(linear.smooth().exactness) == "projected(Truncated()), 0 quotients replaced"


def test_moment_matching_is_counted() -> None:
    x = fb.Variable("x", fb.Real)
    step = dist.Normal(x + fb.Array([0.5, -0.5], ("s_next",)), 0.4)("x_next") * fb.Table(
        [[0.9, 0.1], [0.2, 0.8]], ("s", "s_next")
    )
    start = dist.Normal(0.0, 1.0)("x") * fb.Table([0.5, 0.5], ("s",))
    switching = fb.Chain(init=start, factor=step, time="t", step={"x": "x_next", "s": "s_next"}, length=3)
    with fb.moment_matching():
        assert repr(switching.filter().exactness) == "projected(moment_matching(window=1)) × 3"


# -- explanations -----------------------------------------------------------------------------------------------------


def rows(explanation: Any) -> list[str]:
    lines = str(explanation).splitlines()
    start = lines.index("conversions and projections") + 2
    return [" ".join(line.split()) for line in lines[start:] if not line.startswith("not ")]


def test_a_chain_lists_its_projections() -> None:
    with fb.represent(x=fb.rep.Truncated()):
        told = chain(WEIGHTS).explain()
    text = str(told)
    assert "x: Truncated(), a Gaussian for each value of the bounded integers" in text
    assert text.index("each step is") < text.index("conversions and projections")
    conversions = {(each.where, each.times): each for each in told.conversions}
    densities = [each for each in told.conversions if each.exactness.is_exact]
    assert [each.target for each in densities] == ["Gaussian", "Gaussian", "Piecewise"]
    assert densities[1].source == "Normal(loc=0.9 * x, scale=0.5)(x_next)" and densities[1].names == ("x", "x_next")
    forth, back = conversions["each step", 4], conversions["each step back", 4]
    assert (forth.source, forth.target, forth.names) == ("Piecewise", "Gaussian", ("x",))
    assert back.names == ("x", "x_next") and repr(back.exactness) == "projected(Truncated())"
    assert sum(each.times for each in told.conversions if not each.exactness.is_exact) == 8
    assert rows(told)[-1] == "x, x_next Piecewise Gaussian each step back 4 8 projected(Truncated())"
    assert ">over</th>" in told.to_html()


def test_draws_and_tables_are_listed() -> None:
    with fb.represent(x=fb.rep.Particles(20, jax.random.key(0))):
        drawn = chain(WEIGHTS).explain()
    assert [(each.where, each.times) for each in drawn.conversions if each.source == "draws"] == [
        ("before the first step", 1),
        ("each step", 4),
    ]
    with fb.represent(x=fb.rep.Grid((-6, 6), 60)):
        cells = chain(WEIGHTS).explain()
    assert {each.target for each in cells.conversions} == {"Table"}
    assert {repr(each.exactness) for each in cells.conversions} == {"projected(Grid((-6, 6), 60))"}
    assert "x: Grid((-6, 6), 60), tables over cells" in str(cells)


def test_questions_without_an_answer_are_listed() -> None:
    made = chain(WEIGHTS)
    opaque = made.factor * fb.weight(log=fb.ops.sin(fb.Variable("x_next", fb.Real)))
    with fb.represent(x=fb.rep.Truncated()):
        told = fb.Chain(init=made.init, factor=opaque, time="t", step={"x": "x_next"}).explain()
    assert [question for question, _ in told.refused] == ["smooth()", "filter()"]
    assert "not filter(): " in str(told) and "sin" in str(told)


def test_factors_list_their_conversions() -> None:
    f, g = fb.Table([[0.5, 0.0], [0.25, 0.0]], ("a", "b")), fb.Table([1.0, 2.0], ("b",))
    with fb.represent(a=fb.rep.Sparse(4), b=fb.rep.Sparse(4)):
        told = fb.explain([f, g], sum=("a", "b"))
    assert rows(told) == [
        "a, b Table(a: Bint[2], b: Bint[2]) Sparse before the plan 1 4 exact",
        "b Table(b: Bint[2]) Sparse before the plan 1 4 exact",
    ]
    assert not fb.explain([f, g], sum=("a", "b")).conversions


def test_a_model_is_explained_as_the_chain_that_it_is() -> None:
    @fb.model
    def walk():
        x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(SLOPE * x, MOVED), 3)
        side = yield dist.Bernoulli(jnp.where(x > 0, 0.9, 0.2))

    with fb.represent(x=fb.rep.Truncated()):
        told = fb.explain(walk().condition(side=np.array([1, 0, 1])))
    text = str(told)
    assert text.startswith("walk(") and "Chain of 2 steps in step: x → x next; sequential" in text
    assert [each.target for each in told.conversions][:3] == ["Gaussian", "Piecewise", "Gaussian"]
    assert "exact" not in text.splitlines()[-1]
