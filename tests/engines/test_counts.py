"""Counts that do not depend on time: Python calls and bytes for each step of a plan, equations and launches of chains.

Bounds are about a quarter above what was counted when they were written.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.engines import chain_kernels
from fubini.sequence import method
from tests.counting import equations, launches, peak_bytes, python_calls

QUESTIONS: dict[str, Callable] = {"sum": fb.eliminate, "marginals": fb.marginals}
FEW, MANY = 50, 100


def chained(steps: int, seed: int) -> tuple[list[fb.Table], list[str]]:
    random, names = np.random.default_rng(seed), [f"x{k}" for k in range(steps + 1)]
    return [fb.Table(random.random((3, 3)), (names[k], names[k + 1])) for k in range(steps)], names


def for_each_step(count: Callable[[Callable[[], object]], int], question: Callable) -> float:
    """The count for each step more, of plans that are known and numbers that are new."""
    counts = []
    for steps in (FEW, MANY):
        question(*chained(steps, 0))
        given = chained(steps, 1)
        counts.append(count(lambda given=given: question(*given)))
    return (counts[1] - counts[0]) / (MANY - FEW)


@pytest.mark.parametrize(
    ("engine", "question", "most_calls", "most_bytes"),
    [
        ("rules", "sum", 100, 750),
        ("rules", "marginals", 240, 5_000),
        ("flat", "sum", 60, 850),
        ("flat", "marginals", 75, 2_000),
    ],
)
def test_calls_and_bytes_for_each_step(engine: str, question: str, most_calls: int, most_bytes: int) -> None:
    with fb.engine(engine):
        calls = for_each_step(python_calls, QUESTIONS[question])
        held = for_each_step(peak_bytes, QUESTIONS[question])
    assert calls <= most_calls and held <= most_bytes, (calls, held)


# -- chains ---------------------------------------------------------------------------------------------------------


def chain(moves: jax.Array, seen: jax.Array) -> fb.Chain:
    step = fb.Table(moves, ("x", "y")) * fb.Table(seen, ("t", "b", "y"))
    return fb.Chain(init=fb.Table(jnp.full(2, 0.5), ("x",)), factor=step, time="t", step={"x": "y"})


def evidence(moves: jax.Array, seen: jax.Array) -> jax.Array:
    return jnp.sum(chain(moves, seen).log_evidence().data)


# The most equations of each on a CPU, and the launches on a GPU.
CHAINS: dict[str, tuple[Callable, int, int]] = {
    "evidence and gradient": (jax.value_and_grad(evidence, (0, 1)), 820, 3),
    "smoothing": (lambda *given: chain(*given).smooth().weights, 1_000, 3),
    "pairs": (lambda *given: chain(*given).smooth_pairs().weights, 1_000, 3),
    "best path": (lambda *given: chain(*given).argmax(), 640, 4),
    "draws": (lambda *given: chain(*given).sample(jax.random.key(0), n=3), 760, 4),
}


def given(length: int) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
    return jax.ShapeDtypeStruct((2, 2), "float32"), jax.ShapeDtypeStruct((length, 3, 2), "float32")


@pytest.mark.parametrize("question", CHAINS)
def test_equations_of_a_chain_do_not_grow_with_its_length(question: str) -> None:
    ask, most, _ = CHAINS[question]
    few, many = (equations(jax.make_jaxpr(ask)(*given(length))) for length in (10, 1_000))
    assert few == many <= most


@pytest.mark.filterwarnings("ignore:The Pallas Triton backend is deprecated:DeprecationWarning")
@pytest.mark.parametrize("question", CHAINS)
def test_launches_of_a_chain(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask, _, expected = CHAINS[question]
    for module in (method, chain_kernels):
        monkeypatch.setattr(module, "has_gpu", lambda leaves=(): True)
    with fb.engine("kernel"):
        assert launches(ask, *given(10)) == expected
