"""More particles than a mixture may have terms, and smoothers that weigh them in blocks."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.representations import particles


def walk(name: str) -> fb.Chain:
    """Three steps of a random walk, observed."""
    x, x_next = fb.Variable(name, fb.Real), fb.Variable(f"{name}_next", fb.Real)
    y = fb.Array(np.array([0.5, -0.2, 1.0]), ("t",))
    factor = dist.Normal(x, 1.0)(x_next.name) * dist.Normal(x_next, 0.5)(y)
    return fb.Chain(init=dist.Normal(0.0, 1.0)(name), factor=factor, time="t", step={name: x_next.name})


def test_more_particles_than_terms_of_a_mixture() -> None:
    chain = walk("x")
    with fb.represent(x=fb.rep.Particles(20_000, jax.random.key(0))):
        found, evidence = chain.filter(), float(chain.log_evidence())
    right = chain.filter()
    assert evidence == pytest.approx(float(chain.log_evidence()), abs=0.03)
    np.testing.assert_allclose(found.mean("x_next").data, right.mean("x_next").data, atol=0.02)


def test_a_smoother_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 points in blocks of 32: the last block has 4 of its own. Under another name, so that it is compiled anew."""
    key = jax.random.key(1)
    with fb.represent(x=fb.rep.Particles(100, key)):
        whole = walk("x").smooth()
    monkeypatch.setattr(particles, "BLOCK", 32)
    with fb.represent(z=fb.rep.Particles(100, key)):
        in_blocks = walk("z").smooth()
    np.testing.assert_allclose(in_blocks.mean("z_next").data, whole.mean("x_next").data, atol=1e-12)
    np.testing.assert_allclose(in_blocks.variance("z_next").data, whole.variance("x_next").data, atol=1e-12)
    np.testing.assert_allclose(in_blocks.initial.mean("z").data, whole.initial.mean("x").data, atol=1e-12)
