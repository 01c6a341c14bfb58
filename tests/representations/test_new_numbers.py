"""New data and new keys compile nothing, whatever a chain of bounded integers is stored in; the numbers are tables'.

Chains with real states are in tests/test_northstar9.py, factors in test_finite.py.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from tests.counting import no_tracing

REPRESENTATIONS = [fb.rep.Dense(), fb.rep.Sparse(4), fb.rep.Diagram(), fb.rep.Train(4), fb.rep.Circuit()]


def chain(seed: int, xp: Any) -> fb.Chain:
    """Two states that move by themselves, and are seen together."""
    rng = np.random.default_rng(seed)

    def table(*names: str) -> fb.Table:
        return fb.Table(xp.asarray(rng.uniform(0.2, 1.0, [3 if name == "t" else 2 for name in names])), names)

    step = table("a", "a_next") * table("b", "b_next") * table("t", "a_next", "b_next")
    return fb.Chain(init=table("a", "b"), factor=step, time="t", step={"a": "a_next", "b": "b_next"})


def ask(model: fb.Chain, key: Any) -> dict[str, np.ndarray]:
    """Every answer, those of both states after each step for each of them."""
    filtered, smooth = model.filter(), model.smooth()
    others = {"a_next": "b_next", "b_next": "a_next"}
    return {
        "log_evidence": model.log_evidence().data,
        **{f"filtered {name}": numbers(filtered.sum(other), name) for name, other in others.items()},
        **{f"smoothed {name}": numbers(smooth.sum(other), name) for name, other in others.items()},
        **{f"best {name}": values for name, values in model.argmax().items()},
        **{f"drawn {name}": values for name, values in model.sample(key, n=500).items()},
    }


def numbers(factor: fb.Factor, name: str) -> np.ndarray:
    return np.asarray(fb.stack(fb.stack(factor.numbers(), name), "t").data)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
@pytest.mark.parametrize("rep", REPRESENTATIONS, ids=repr)
@pytest.mark.one_in(4)
def test_a_chain(rep: Any, xp: Any) -> None:
    first, second = chain(0, xp), chain(1, xp)
    expected, (key, other) = ask(chain(1, np), jax.random.key(0)), jax.random.split(jax.random.key(1))
    with fb.represent(a=rep, b=rep):
        ask(first, key)
        with no_tracing():
            answers = ask(second, other)
    for question, right in expected.items():
        if question.startswith("drawn"):
            assert np.mean(answers[question], axis=0) == pytest.approx(right.mean(axis=0), abs=4 * np.sqrt(0.5 / 500))
        else:
            assert np.asarray(answers[question]) == pytest.approx(right, abs=1e-9 if xp is np else 1e-5)


@pytest.mark.parametrize("rep", REPRESENTATIONS, ids=repr)
def test_factors(rep: Any) -> None:
    """Arrays of JAX: NumPy's are never compiled."""

    def marginal(seed: int) -> np.ndarray:
        weights = np.random.default_rng(seed).uniform(0.2, 1.0, (2, 2, 2))
        tables = [fb.Table(jnp.asarray(w), names) for w, names in zip(weights, (("a", "b"), ("b", "c")), strict=False)]
        answer = np.asarray(fb.marginals(tables, ("a", "b", "c"))["b"].weights)
        right = weights[0].sum(0) * weights[1].sum(1)
        assert answer == pytest.approx(right / right.sum(), abs=1e-6)
        return answer

    with fb.represent(a=rep, b=rep, c=rep):
        before = marginal(0)
        with no_tracing():
            assert np.abs(marginal(1) - before).max() > 1e-3
