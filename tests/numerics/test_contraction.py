"""Contractions of large tables in single precision."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb


@pytest.mark.parametrize("terms", [4, 16])
def test_a_table_shared_by_a_batch(terms: int) -> None:
    """Σ_z f(z, a, b) g(s, z, a, b), over so many cells that the sum is shared among threads."""
    random = np.random.default_rng(0)
    f, g = (random.random(shape).astype(np.float32) for shape in ((terms, 160, 160), (4, terms, 160, 160)))
    tables = [fb.Table(jnp.asarray(f), ("z", "a", "b")), fb.Table(jnp.asarray(g), ("s", "z", "a", "b"))]
    answer = fb.eliminate(tables, sum=("z",))
    made = np.exp(np.asarray(answer.log().data))
    order = [list(answer.log().inputs).index(name) for name in ("s", "a", "b")]
    expected = np.einsum("zab,szab->sab", f.astype(float), g)
    assert made.dtype == np.float32
    assert np.transpose(made, order) == pytest.approx(expected, rel=1e-5)
