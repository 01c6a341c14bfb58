"""Gaussian networks whose squares overflow or vanish: the numbers are right, or refused where a double has none."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DataError, FubiniError
from fubini.io.json_network import parse_json

pytestmark = pytest.mark.right_or_refused


def node(name, parents=(), coef=(), sd=1.0, intercept=0.0) -> dict:
    slopes = dict(zip(parents, coef, strict=True))
    return {
        "name": name,
        "type": "gaussian",
        "parents": list(parents),
        "intercept": intercept,
        "coef": slopes,
        "sd": sd,
    }


def network(*nodes: dict) -> fb.Network:
    return parse_json(json.dumps({"name": "n", "nodes": list(nodes)}))


def log_normal(x: float, sd: float) -> float:
    return -0.5 * math.log(2 * math.pi) - math.log(sd) - 0.5 * (x / sd) ** 2


SIZES = [1e-300, 1e-200, 1e-160, 1e-100, 1e100, 1e160, 1e200, 1e300]


@pytest.mark.parametrize("sd", SIZES)
def test_evidence_of_one_node_of_extreme_deviation(sd) -> None:
    found = network(node("a", sd=sd)).condition(a=1.5 * sd).log_evidence()
    assert float(found) == pytest.approx(log_normal(1.5 * sd, sd), rel=1e-12)


@pytest.mark.parametrize("sd", SIZES)
def test_evidence_and_marginal_beside_an_extreme_deviation(sd) -> None:
    """a ~ N(0, 1), b ~ N(a, sd): b ~ N(0, √(1 + sd²)), a | b ~ N(b / (1 + sd²), sd / √(1 + sd²))"""
    total = math.hypot(1.0, sd)
    seen = network(node("a"), node("b", ["a"], [1.0], sd)).condition(b=0.5 * total)
    assert float(seen.log_evidence()) == pytest.approx(log_normal(0.5 * total, total), rel=1e-12)
    marginal = seen.marginals("a")["a"]
    assert float(marginal.mean("a")) == pytest.approx(0.5 / total, rel=1e-9)
    assert float(marginal.variance("a")) == pytest.approx((sd / total) ** 2, rel=1e-9, abs=1e-310)


@pytest.mark.parametrize("slope", SIZES)
def test_evidence_and_marginal_with_an_extreme_coefficient(slope) -> None:
    total = math.hypot(1.0, slope)
    seen = network(node("a"), node("b", ["a"], [slope])).condition(b=0.5 * total)
    assert float(seen.log_evidence()) == pytest.approx(log_normal(0.5 * total, total), rel=1e-12)
    assert float(seen.marginals("a")["a"].mean("a")) == pytest.approx(0.5 * (slope / total), rel=1e-9)


@pytest.mark.parametrize("sd", SIZES)
def test_a_chain_of_extreme_deviations_is_integrated(sd) -> None:
    """Three nodes of one deviation: the last has √3 of it."""
    chain = network(node("a", sd=sd), node("b", ["a"], [1.0], sd), node("c", ["b"], [1.0], sd))
    found = chain.condition(c=sd).log_evidence()
    assert float(found) == pytest.approx(log_normal(1.0, math.sqrt(3.0)) - math.log(sd), rel=1e-12)


def test_evidence_below_the_least_logarithm_is_refused() -> None:
    """log p = −5e319: no double, and not −∞, which is the evidence of what cannot be."""
    with pytest.raises(DataError, match="a logarithm that a double can hold"):
        network(node("a", sd=1e-160)).condition(a=1.0).log_evidence()
    with pytest.raises(DataError, match="a logarithm that a double can hold"):
        network(node("a"), node("b", ["a"], [0.0], 1e-160)).condition(b=1.0).log_evidence()


def test_deviations_that_have_no_reciprocal_are_refused() -> None:
    with pytest.raises(FubiniError, match="that a double can hold"):
        network(node("a", sd=1e-310)).condition(a=0.0).log_evidence()


def test_a_variance_beyond_the_largest_number_is_refused() -> None:
    with pytest.raises(DataError, match="the variance of 'a'"):
        network(node("a", sd=1e160)).marginals("a")["a"].variance("a")


def test_a_precision_beyond_the_largest_number_is_refused() -> None:
    narrow = fb.dist.Normal(0.0, 1e-160)("a")
    with pytest.raises(DataError, match="precision"):
        (narrow / fb.dist.Normal(0.0, 1e-159)("a")).sum("a")


def _chain_evidence(sd):
    """p(c) of three normals one after another, on the engine of the deviation."""
    a, b = fb.Variable("a", fb.Real), fb.Variable("b", fb.Real)
    first, second = fb.dist.Normal(0.0, sd)("a"), fb.dist.Normal(a, sd)("b")
    third = fb.dist.Normal(b, sd)(sd)
    return fb.eliminate([first, second, third], ["a", "b"]).log().data


@pytest.mark.parametrize(
    ("dtype", "sd"), [("float32", 1e-25), ("float32", 1e25), ("float64", 1e-200), ("float64", 1e200)]
)
def test_jax_arrays_of_extreme_deviation_eager_jitted_and_eager_again(dtype, sd) -> None:
    with jax.enable_x64(dtype == "float64"):
        given = jnp.asarray(sd, dtype)
        want = log_normal(1.0, math.sqrt(3.0)) - math.log(float(given))
        for run in (_chain_evidence, jax.jit(_chain_evidence), _chain_evidence):
            found = run(given)
            assert found.dtype == dtype
            assert float(found) == pytest.approx(want, rel=1e-5 if dtype == "float32" else 1e-11)


@pytest.mark.parametrize("noise", [3e-2, 3e-4, 3.3e-5, 1e-5])
def test_a_precise_link_in_single_precision_keeps_its_digits(noise) -> None:
    """y = 2x + noise: var y = 4 + noise²; without pivots it was 3.9 at 1e-5."""
    x = fb.Variable("x", fb.Real)

    def variance(scale):
        joint = fb.dist.Normal(0.0, 1.0)("x") * fb.dist.Normal(2.0 * x, scale)("y")
        return joint.sum("x").variance("y").data

    for run in (variance, jax.jit(variance), variance):
        assert float(run(jnp.float32(noise))) == pytest.approx(4 + noise**2, rel=2e-6)


def test_cells_of_very_different_deviations() -> None:
    """One network with a cell for each scale of a discrete parent."""
    mixed = parse_json(
        json.dumps(
            {
                "name": "n",
                "nodes": [
                    {"name": "k", "type": "discrete", "states": ["s", "l"], "parents": [], "prob": [0.5, 0.5]},
                    node("a"),
                    {
                        "name": "b",
                        "type": "clg",
                        "discrete_parents": ["k"],
                        "levels": {"k": ["s", "l"]},
                        "continuous_parents": ["a"],
                        "intercept": [0.0, 0.0],
                        "coef": {"a": [1.0, 1.0]},
                        "sd": [1e-160, 1e160],
                    },
                ],
            }
        )
    ).condition(b=0.5)
    logs = [log_normal(0.5, 1.0) + math.log(0.5), log_normal(0.0, 1e160) + math.log(0.5)]
    assert float(mixed.log_evidence()) == pytest.approx(np.logaddexp(*logs), rel=1e-12)
