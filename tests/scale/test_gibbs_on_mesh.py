"""Labels over rows on a mesh: drawn whole where their rows are; compiled loops refuse them; what explain says."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini.base.digests import bytes_of
from fubini.infer.sampler import Sampler
from fubini.models.eliminated_model import EliminatedModel
from fubini.questions import infer
from fubini.questions.label_sampler import LabelSampler, Options

from .meshes import mesh_of
from .plate_models import cases, mixture
from .watch import watched

KEY = jax.random.key(0)
CASES = cases(999)


def on_mesh(x: np.ndarray) -> object:
    return fb.shard(x, mesh_of(AxisType.Auto, rows=8), "rows")


def test_blocked_labels_are_those_of_one_device() -> None:
    with jax.enable_x64(True):
        runs = []
        for place in (on_mesh, jnp.asarray):
            with watched() as seen:
                sampler = CASES["mixture"].post(place).eliminate().gibbs("k", blocked=True)
                runs.append(sampler.run(KEY, 5, 2))
            assert not seen.fetched
    np.testing.assert_array_equal(*(run["k"] for run in runs))
    np.testing.assert_allclose(*(run["m"] for run in runs), rtol=1e-10)


@fb.model
def switching(count: int):
    w = yield fb.dist.Normal(0.0, 1.0).expand([2]).named("w")
    z = yield fb.dist.Bernoulli(0.4).expand([count]).named("z")
    yield fb.dist.Bernoulli(logits=w[z]).named("y")


def by_jax(eliminated_model: EliminatedModel, warmup: int) -> Sampler | None:
    """As over a mesh: labels drawn whole, where there is a closed form of all others."""
    try:
        return LabelSampler(eliminated_model, (), Options(blocked=True)).sampler(warmup)
    except fb.FubiniError:
        return None


@pytest.mark.parametrize("name", ["mixture", "switching"])
def test_labels_of_infer_are_those_of_one_device(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn whole given what could be integrated out; where other latents have no closed form, by NumPyro."""
    y, draws = CASES["mixture"].observed[:37], []
    options = dict[str, Any](draws=3, chains=2, warmup=3, method="gibbs", progress=False)
    for place in (on_mesh, jnp.asarray):
        if name == "mixture":
            post = mixture(y).condition(y=place(y))
        else:
            post = switching(len(y)).condition(y=place((y > 0).astype(np.int32)))
        with jax.enable_x64(True), monkeypatch.context() as patch:
            if place is not on_mesh:
                patch.setattr(infer, "compiled_gibbs", by_jax)
                options["eliminate"] = []
            draws.append(post.infer(KEY, **options).posterior)
    for site in draws[0]:
        np.testing.assert_allclose(*(one[site].values for one in draws), rtol=1e-8, err_msg=site)


def test_compiled_loops_refuse_labels_over_rows_on_a_mesh() -> None:
    post = CASES["mixture"].post(on_mesh)
    with pytest.raises(fb.FubiniError, match="gibbs of the labels 'k' over data on a mesh") as error:
        post.eliminate().gibbs("k")
    for part in ("expected: data that one process holds", "nearest:  ShardedArray(float32[999] over 8", "blocked=True"):
        assert part in str(error.value)


def test_chains_lie_on_the_mesh_of_the_data() -> None:
    sampler = CASES["mixture"].post(on_mesh).eliminate().gibbs("k", blocked=True)
    with pytest.raises(fb.FubiniError, match=r"run\(…, mesh=\{'chains': 8\}\) of data on the mesh \{'rows': 8\}"):
        sampler.run(KEY, 2, 8, mesh=mesh_of(AxisType.Auto, chains=8))


def test_explain_says_what_is_exchanged() -> None:
    text = str(fb.explain(CASES["regression"].post(on_mesh)))
    assert "on a mesh (rows 8): data0[999, 3], axis 0 along rows, 1,500 bytes a device; y[999]" in text
    assert "exchanged once: 1 triangle of 128 numbers gathered" in text
    assert "for each density" not in text
    assert "exchanged once: 7 sums of 73 numbers all-reduced" in str(fb.explain(CASES["groups"].post(on_mesh)))
    for name, latents, numbers in (("logistic", "w", 3), ("mixture", "p, m", 6)):
        text = str(fb.explain(CASES[name].post(on_mesh)))
        assert f"exchanged for each density of {latents}: its sums over rows; for each slope {numbers} numbers" in text


def test_a_digest_tells_numbers_from_others_on_any_mesh() -> None:
    y = CASES["normal"].observed
    one = fb.shard(y, mesh_of(AxisType.Auto, rows=4, chains=2), "rows")
    assert bytes_of(on_mesh(y)) == bytes_of(one)
    other = y.copy()
    other[[3, 4]] = other[[4, 3]]
    assert bytes_of(on_mesh(other)) != bytes_of(one)
