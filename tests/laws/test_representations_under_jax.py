"""Every representation on JAX arrays: eagerly, and under jit, vmap and grad."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb

from .oracles import DOMAINS, Example, integral
from .representations import EXAMPLES, all_names, assert_total, priors, product

FIRST = (
    "table",
    "diagram",
    "sparse",
    "train",
    "log linear",
    "circuit",
    "batched gaussian",
    "delta at a real name",
    "atoms",
    "truncated gaussian",
    "gaussian plus delta",
    "box",
)


def _of_arrays(key: str) -> object:
    """Compiling takes its time: one example of each representation beside the slow tests."""
    return pytest.param(key, marks=[] if key in FIRST else [pytest.mark.slow])


NO_ARRAYS = {"gamma density", "poisson density", "quadratic weight", "quartic weight", "categorical density"}
FEW = {"log table", "gaussian", "sum of gaussians", "multivariate normal density"}  # others of their kind are there
ARRAYS = [key for key, example in EXAMPLES.items() if example.parameters and key not in NO_ARRAYS | FEW]
arrays = pytest.mark.parametrize("key", [_of_arrays(key) for key in ARRAYS])
SINGLE = 1e-4


def on_jax(parameters: dict) -> dict:
    return {name: jnp.asarray(value) for name, value in parameters.items()}


def beside(example: Example) -> list[Example]:
    """What makes the evidence of an example finite, and depend on all of it."""
    return [EXAMPLES["table"], *priors([example])]


def evidence(example: Example, factor: fb.Factor) -> fb.Factor:
    return (factor * product(*beside(example))).sum(*all_names(example, EXAMPLES["table"]))


@pytest.mark.slow
@pytest.mark.parametrize("key", ["table", "batched gaussian", "delta at a discrete name", "gaussian plus delta", "box"])
def test_on_jax_eagerly(key):
    example = EXAMPLES[key]
    found = evidence(example, example.build(on_jax(example.parameters)))
    assert any(isinstance(leaf, jax.Array) for leaf in found.leaves())
    assert_total(found, integral([example, *beside(example)]), rtol=SINGLE)


@arrays
def test_under_jit(key):
    """A factor goes in; its evidence and the factor itself come out, and the next one is not traced again."""
    example, traced = EXAMPLES[key], []

    @jax.jit
    def run(factor: fb.Factor) -> tuple[fb.Factor, fb.Factor]:
        traced.append(factor)
        return factor, evidence(example, factor)

    for factor in [example.build(on_jax(example.parameters)) for _ in range(2)]:
        back, total = run(factor)
        assert type(back) is type(factor)
        assert back.inputs == factor.inputs
        assert_total(total, integral([example, *beside(example)]), rtol=SINGLE)
    assert len(traced) == 1


@pytest.mark.parametrize("key", FIRST)
def test_under_vmap(key):
    """A batch of factors built under vmap, its axis named, is the same as building each."""
    example, scales = EXAMPLES[key], (1.0, 1.25, 0.8)
    scaled = [{name: scale * value for name, value in example.parameters.items()} for scale in scales]
    stacked = {name: jnp.stack([jnp.asarray(one[name]) for one in scaled]) for name in example.parameters}

    @jax.jit
    def run(parameters: dict) -> tuple[fb.Factor, fb.Factor]:
        batch = fb.name_axis(jax.vmap(example.build)(parameters), "i")
        return batch, evidence(example, batch)

    batch, total = run(stacked)
    assert batch.inputs == {"i": fb.Bint[3], **{name: DOMAINS[name] for name in example.names}}
    expected = [float(evidence(example, example.build(parameters))) for parameters in scaled]
    np.testing.assert_allclose(_over_batch(total), expected, rtol=SINGLE)


def _over_batch(factor: fb.Factor) -> np.ndarray:
    return np.exp(np.asarray(fb.stack(factor.log(), "i").data, np.float64))


@pytest.mark.parametrize("key", FIRST)
def test_under_grad(key):
    """The derivative of the log-evidence along a direction, against central differences in double precision.

    One example of each representation; test_pairs_under_jax.py has the pairs.
    """
    example = EXAMPLES[key]
    direction = {name: 0.3 * value + (0.1 if value.ndim < 2 else 0.0) for name, value in example.parameters.items()}

    def log_evidence(parameters: dict) -> object:
        return evidence(example, example.build(parameters)).log().data

    def moved(step: float) -> float:
        return float(log_evidence({name: value + step * direction[name] for name, value in example.parameters.items()}))

    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(log_evidence))(on_jax(example.parameters))
        found = sum(float(jnp.vdot(slopes[name], direction[name])) for name in direction)
    np.testing.assert_allclose(found, (moved(1e-5) - moved(-1e-5)) / 2e-5, rtol=1e-7, atol=1e-8)
