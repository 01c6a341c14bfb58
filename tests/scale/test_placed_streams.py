"""Streams over a mesh: each process reads its share, each device sums a part of a chunk, and answers are the same."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini import dist
from fubini.cli import main
from fubini.numerics.row_statistics import GroupedSquares, RowTotal, Squares
from fubini.numerics.row_statistics_on_devices import grouped_squares, squares
from tests.scale.meshes import mesh_of

ROWS = 1_003  # devices divide neither these nor the chunks
KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3)) + 2.0
Y = X @ np.array([1.0, -0.5, 0.25]) + 5.0 + RNG.normal(size=ROWS)
LABELS = RNG.integers(0, 40, ROWS)


@fb.model
def centred(X):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([3])
    y = yield dist.Normal((X - X.mean(0)) @ w, jnp.sqrt(v))


@fb.model
def slopes(g, x):
    a = yield dist.Normal(0.0, 5.0).expand([40])
    b = yield dist.Normal(0.0, 5.0).expand([40])
    y = yield dist.Normal(a[g] + b[g] * x[:, 0], 1.5)


@fb.model
def poisson(g):
    r = yield dist.Gamma(2.0, 3.0).expand([40])
    y = yield dist.Poisson(r[g])


MODELS = {
    "centred": (lambda X, y: centred(X).condition(y=y), (X, Y), "w"),
    "slopes": (lambda g, x, y: slopes(g, x).condition(y=y), (LABELS, X, Y), "a"),
    "poisson": (lambda g, y: poisson(g).condition(y=y), (LABELS, LABELS[::-1].copy()), "r"),
}


def stream(data: np.ndarray) -> fb.Stream:
    return fb.Stream(lambda: (data[k : k + 77] for k in range(0, len(data), 77)), rows=len(data), chunk=100)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_answers_over_a_mesh_are_those_in_memory(name: str, kind: AxisType) -> None:
    make, data, latent = MODELS[name]
    mesh = mesh_of(kind, rows=4, others=2)
    in_memory, streamed = make(*data), make(*map(stream, data))
    placed = make(*(fb.shard(stream(each), mesh, "rows") for each in data))
    assert "over 4 devices" in repr(placed)

    def answers(post):
        marginal = post.marginal(latent)
        return post.log_evidence().data, marginal.mean(latent).data, marginal.variance(latent).data

    for one, other in zip(answers(in_memory), answers(placed), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10)
    assert "kept; each chunk in 4 parts, one a device" in str(fb.explain(placed))
    draws = [post.infer(KEY, draws=3, chains=1, progress=False).posterior[latent] for post in (streamed, placed)]
    np.testing.assert_allclose(*draws, rtol=1e-9)


@pytest.mark.parametrize("columns", ["apart", "dependent", "empty", "few"])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("is_centred", [False, True])
def test_programs_for_devices_find_what_numpy_does(columns: str, is_weighted: bool, is_centred: bool) -> None:
    rows = X.T[:, : 5 if columns == "few" else None].copy()
    if columns == "dependent":
        rows[2] = rows[0] + 1e-13 * rows[1]
    if columns == "empty":
        rows[1] = 0.0
    count = rows.shape[1]
    weights = np.abs(Y[:count]) * (Y[:count] > 4) if is_weighted else None
    group = np.where(LABELS[:count] == 7, -1, LABELS[:count])
    with jax.enable_x64(True):
        own, other = Squares(3, is_centred), Squares(3, is_centred)
        own.add(rows, weights)
        other.join(*map(np.asarray, squares(jnp.asarray(rows), weights, is_centred)))
        for root in (own.triangle, other.triangle):
            np.testing.assert_allclose(root.T @ root, own.triangle.T @ own.triangle, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(other.mean, own.mean, rtol=1e-12)
        grouped, others = GroupedSquares(40, 3, is_centred), GroupedSquares(40, 3, is_centred)
        grouped.add(rows, weights, group)
        others.join(*map(np.asarray, grouped_squares(jnp.asarray(rows), weights, group, 40, is_centred)))
        for one, two in zip(grouped.parts, others.parts, strict=True):
            np.testing.assert_allclose(two, one, rtol=1e-9, atol=1e-9)


def test_sums_of_parts_are_sums_of_all() -> None:
    whole, joined = RowTotal(), RowTotal()
    for part in (1e16, 1.0, -1e16, 1.0):
        own = RowTotal()
        own.add(np.asarray(part))
        whole.add(np.asarray(part))
        joined.join(*own.parts)
    assert float(whole.total) == float(joined.total)


SCRIPT = """
import json, sys
import jax, numpy as np
import fubini as fb
from fubini import dist

here = fb.distributed()
jax.config.update("jax_enable_x64", False)
mesh = jax.make_mesh((len(jax.devices()),), ("rows",))
Y = np.load("y.npy")

def rows():
    return (Y[k : k + 77] for k in range(0, len(Y), 77))

@fb.model
def normal():
    m = yield dist.Normal(0.0, 3.0)
    y = yield dist.Normal(m, 1.0).expand([len(Y)])

answers = []
for stream in (fb.Stream("y.npy", chunk=100), fb.Stream(rows, rows=len(Y), chunk=100)):
    y = fb.shard(stream, mesh, "rows")
    answers.append(float(normal().condition(y=y).log_evidence()))
    print(here.index, y.share)
with open(f"answers-{here.index}", "w") as file:
    json.dump([answers, y.share, y.range], file)
"""


def test_each_process_reads_its_share(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("y.npy", Y)
    Path("script.py").write_text(SCRIPT)
    assert main(["launch", "-n", "2", "--devices", "4", "script.py"]) == 0
    known = dict(m=dist.Normal(0.0, 3.0), y=lambda m: dist.Normal(m, 1.0).expand([ROWS]))
    expected = float(fb.JointNamed(known).condition(y=Y).log_evidence())
    each = [json.loads(Path(f"answers-{index}").read_text()) for index in range(2)]
    assert [share for _, share, _ in each] == [[0, 501], [501, 1003]]
    assert each[0][0] == each[1][0]
    for answers, _, ends in each:
        np.testing.assert_allclose(answers, expected, rtol=1e-12)
        assert ends == [Y.min(), Y.max(), True]


# -- bad input -------------------------------------------------------------------------------------------------------


def test_streams_over_two_meshes_are_an_error() -> None:
    mesh = jax.make_mesh((8,), ("rows",))
    with pytest.raises(fb.FubiniError, match=r"rows of streams over two meshes[\s\S]*for each of them"):
        centred(fb.shard(stream(X), mesh, "rows")).condition(y=stream(Y)).log_evidence()


def test_an_array_that_is_elsewhere_beside_a_stream_is_named() -> None:
    far = fb.shard(LABELS, jax.make_mesh((8,), ("rows",)), "rows")
    with pytest.raises(fb.FubiniError, match=r"the term of 'y'[\s\S]*an array of shape \(1003,\) is no stream"):
        poisson(far).condition(y=stream(LABELS)).log_evidence()
    jitted = jax.jit(lambda g: poisson(g).condition(y=stream(LABELS)).log_evidence().data)
    with pytest.raises(fb.FubiniError, match=r"is no stream, and its numbers are not here: it is traced, or on a mesh"):
        jitted(jnp.asarray(LABELS))


def test_a_stream_lies_along_one_axis_of_the_mesh() -> None:
    mesh = jax.make_mesh((4, 2), ("rows", "columns"))
    with pytest.raises(fb.FubiniError, match=r"expected: axes of the mesh: 'rows', 'columns'"):
        fb.shard(stream(X), mesh, "row")
    with pytest.raises(fb.FubiniError, match=r"of an array of shape \(1003,\)\s*expected: at most 1 axes"):
        fb.shard(stream(X), mesh, "rows", "columns")


def test_numbers_that_are_none_are_found_where_they_are() -> None:
    data = Y.copy()
    data[500] = np.nan
    with pytest.raises(fb.FubiniError, match=r"NaN in chunk 5, row 500"):
        fb.shard(fb.Stream(data, chunk=100), jax.make_mesh((8,), ("rows",)), "rows").range  # noqa: B018
