"""What sites are called, and which cache code comes from, does not matter."""

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.engines import code_cache as cache

S = np.array([-2.0, -1.5, 0.3, 2.2])


def mixture(names):
    """A mixture whose sites have these names."""
    theta, mu, y, s = names
    return fb.JointNamed(
        {
            theta: dist.Dirichlet(jnp.ones(2)),
            mu: dist.Normal(0.0, 3.0).expand([2]),
            y: eval(f"lambda {theta}: dist.Categorical({theta}).expand([4])", {"dist": dist}),
            s: eval(f"lambda {mu}, {y}: dist.Normal({mu}[{y}], 1.0)", {"dist": dist}),
        }
    )


@pytest.mark.parametrize(
    "names",
    [("k", "u", "w", "e"), ("j1", "p1", "u0", "a1"), ("S0", "C0", "total", "math"), ("σ", "μ", "ζ", "uniforms")],
)
def test_names_that_loops_use_themselves(names) -> None:
    labels = np.array([0, 1, 1, 0])
    found = []
    for mine in (("theta", "mu", "y", "s"), names):
        sampler = mixture(mine).condition(**{mine[3]: S}).eliminate(*mine[:2]).gibbs(mine[2], engine="python")
        found.append([sampler.conditional(mine[2], place, **{mine[2]: labels}) for place in range(4)])
    assert np.array_equal(found[0], found[1])


SOURCE = "from numba import njit\n\n\n@njit(cache=True)\ndef double(x):\n    return 2 * x\n"


def test_code_is_kept_in_memory_and_on_disk(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FUBINI_CACHE", str(tmp_path))
    module = cache.loaded(SOURCE)
    assert module.double(2.0) == 4.0
    assert cache.loaded(SOURCE) is module
    assert len(list(tmp_path.glob("loops_*.py"))) == 1
    assert list(tmp_path.glob("**/*.nbc"))  # what Numba compiled lies beside it


def test_a_folder_that_cannot_be_written_is_replaced(tmp_path, monkeypatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FUBINI_CACHE", str(tmp_path / "file"))
    assert cache.folder().is_dir()
    assert cache.folder() != tmp_path / "file"
