"""Rows that are read chunk by chunk: every question of their sums alone has the answer that it has in memory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

ROWS, CHUNK = 1_003, 100  # chunks do not divide the rows
KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(ROWS, 3)) + 2.0
Y = X @ np.array([1.0, -0.5, 0.25]) + 5.0 + RNG.normal(size=ROWS)
LABELS = RNG.integers(0, 40, ROWS)
WORDS = RNG.integers(0, 9, ROWS)


@fb.model
def normal():
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, 3.0 * jnp.sqrt(v))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([ROWS])


@fb.model
def regression(X):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([X.shape[1]])
    y = yield dist.Normal(X @ w, jnp.sqrt(v))


@fb.model
def centred(X):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([X.shape[1]])
    y = yield dist.Normal((X - X.mean(0)) @ w, jnp.sqrt(v))


@fb.model
def groups(g):
    m = yield dist.Normal(0.0, 5.0)
    mu = yield dist.Normal(m, 2.0).expand([40])
    y = yield dist.Normal(mu[g], 1.5)


@fb.model
def slopes(g, x):
    a = yield dist.Normal(0.0, 5.0).expand([40])
    b = yield dist.Normal(0.0, 5.0).expand([40])
    y = yield dist.Normal(a[g] + b[g] * x[:, 0], 1.5)


@fb.model
def bayes(n):
    share = yield dist.Dirichlet(jnp.ones(40))
    rate = yield dist.Dirichlet(jnp.ones(9)).expand([40])
    c = yield dist.Categorical(share).expand([n])
    w = yield dist.Categorical(rate[c])


@fb.model
def counts():
    r = yield dist.Gamma(2.0, 3.0)
    y = yield dist.Poisson(r).expand([ROWS])


@fb.model
def weighted(s, x):
    b = yield dist.Normal(0.0, 3.0)
    y = yield dist.Normal(b * x[:, 1], s)


def stream(data: np.ndarray, chunk: int = CHUNK) -> fb.Stream:
    """The same rows, from a function that gives chunks of its own size."""
    return fb.Stream(lambda: (data[k : k + 77] for k in range(0, len(data), 77)), rows=len(data), chunk=chunk)


MODELS = {
    "normal": (lambda y: normal().condition(y=y), (Y,)),
    "regression": (lambda X, y: regression(X).condition(y=y), (X, Y)),
    "centred": (lambda X, y: centred(X).condition(y=y), (X, Y)),
    "groups": (lambda g, y: groups(g).condition(y=y), (LABELS, Y)),
    "slopes": (lambda g, x, y: slopes(g, x).condition(y=y), (LABELS, X, Y)),
    "bayes": (lambda c, w: bayes(ROWS).condition(c=c, w=w), (LABELS, WORDS)),
    "counts": (lambda y: counts().condition(y=y), (LABELS,)),
    "weighted": (lambda s, x, y: weighted(s, x).condition(y=y), (np.abs(Y) + 0.1, X, Y)),
}
PASSES = {"centred": 2}


def pair(name: str):
    """A model in memory, and over streams."""
    make, data = MODELS[name]
    return make(*data), make(*map(stream, data))


def assert_equal(answers, tolerance: float = 1e-10) -> None:
    in_memory, streamed = (list(map(np.asarray, jax.tree_util.tree_leaves(each))) for each in answers)
    for one, other in zip(in_memory, streamed, strict=True):
        np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MODELS)
def test_evidence_is_that_in_memory(name: str) -> None:
    in_memory, streamed = pair(name)
    assert_equal((in_memory.log_evidence().data, streamed.log_evidence().data))


def test_moments_densities_modes_and_draws_are_those_in_memory() -> None:
    def answers(post):
        w, v = post.marginal("w"), post.marginal("v")
        draws = post.eliminate("w", "v").recover(KEY, {})
        return (
            (w.mean("w").data, w.covariance("w", "w").data, v.mean("v").data, v.variance("v").data),
            (post.posterior()(v=1.1, w=np.ones(3)).log().data, post.log_prob(v=1.1, w=np.ones(3))),
            (*post.map(), post.eliminate("w").log_prob(v=1.3)),
            (draws, post.predict(KEY, "y", draws=3, model=regression(np.ones((4, 3))))),
        )

    assert_equal(tuple(map(answers, pair("regression"))))


def test_the_density_of_a_model_without_closed_form_is_sampled_from_its_sums() -> None:
    @fb.model
    def robust():
        s = yield dist.HalfNormal(2.0)
        m = yield dist.StudentT(4.0, 0.0, 1.0)
        far = yield fb.deterministic(m + 1.0)
        y = yield dist.Normal(m, s).expand([ROWS])

    streamed, in_memory = (robust().condition(y=y) for y in (stream(Y), Y))
    draws = streamed.infer(KEY, method="nuts", warmup=200, draws=400, chains=1, progress=False)
    np.testing.assert_allclose(draws.posterior["far"], draws.posterior["m"] + 1.0)
    assert "observed_data" not in draws and "log_likelihood" not in draws
    np.testing.assert_allclose(
        draws.posterior["s"].mean(), np.sqrt(np.sum((Y - Y.mean()) ** 2) / (ROWS - 1)), rtol=0.01
    )
    with fb.quadrature():
        np.testing.assert_allclose(streamed.log_evidence().data, in_memory.log_evidence().data, rtol=1e-10)


def test_parameters_are_learnt_and_slopes_taken_through_the_sums() -> None:
    def make(y, scale):
        sites = dict(m=dist.Normal(0.0, 3.0), y=lambda m: dist.Normal(m, scale).expand([ROWS]))
        return fb.JointNamed(sites).condition(y=y)

    fits = [fb.fit(make(y, fb.param(2.0, fb.Positive)), steps=20, progress=False).history for y in (Y, stream(Y))]
    assert_equal(fits, 1e-9)
    with jax.enable_x64(True):
        slopes = [jax.grad(lambda s, y=y: make(y, s).log_evidence().data)(1.5) for y in (Y, stream(Y))]
    assert_equal(slopes)


def test_answers_are_the_same_compiled_and_in_both_precisions() -> None:
    def evidence(y, scale):
        sites = dict(m=dist.Normal(0.0, 3.0), y=lambda m: dist.Normal(m, scale).expand([ROWS]))
        return fb.JointNamed(sites).condition(y=y).log_evidence().data

    y, expected = stream(Y), evidence(Y, 1.5)
    for compiled in (jax.jit(lambda scale: evidence(y, scale)), lambda scale: jax.jit(evidence)(y, scale)):
        np.testing.assert_allclose(evidence(y, 1.5), expected, rtol=1e-12)
        np.testing.assert_allclose(compiled(1.5), expected, rtol=1e-6)
        np.testing.assert_allclose(evidence(y, 1.5), expected, rtol=1e-12)
        with jax.enable_x64(True):
            np.testing.assert_allclose(compiled(1.5), expected, rtol=1e-12)
    single = Y.astype(np.float32)
    np.testing.assert_allclose(evidence(stream(single), 1.5), evidence(single, 1.5), rtol=1e-12)
    np.testing.assert_allclose(evidence(y, jnp.asarray(1.5)), evidence(Y, jnp.asarray(1.5)), rtol=1e-6)
    batch = jax.vmap(lambda scale: evidence(y, scale))(jnp.array([1.0, 1.5]))
    np.testing.assert_allclose(batch[1], expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["regression", "centred"])
def test_there_are_as_many_passes_as_sums_nest(name: str) -> None:
    _, streamed = pair(name)
    text = str(fb.explain(streamed))
    assert f"rows in chunks: 1 pass for ranges, {PASSES.get(name, 1)} for sums over 1,003 rows, of 0.0321 MB; " in text


# -- sources ---------------------------------------------------------------------------------------------------------


def test_files_are_read_in_chunks(tmp_path) -> None:
    zarr, parquet = pytest.importorskip("zarr"), pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    np.save(tmp_path / "X.npy", X)
    zarr.save_array(tmp_path / "X.zarr", X)
    np.save(tmp_path / "y.npy", np.asfortranarray(Y.astype(np.float32)))
    table = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y.astype(np.float32)}
    parquet.write_table(pa.table(table), tmp_path / "all.parquet", row_group_size=300)
    expected = regression(X).condition(y=Y.astype(np.float32)).log_evidence().data
    options = dict(rows=ROWS, chunk=90)
    sources = [
        (fb.Stream(tmp_path / "X.npy", **options), fb.Stream(str(tmp_path / "y.npy"), **options)),
        (fb.Stream(tmp_path / "X.zarr", **options), fb.Stream(tmp_path / "y.npy", chunk=64)),
        (
            fb.Stream(tmp_path / "all.parquet", columns=["a", "b", "c"], **options),
            fb.Stream(tmp_path / "all.parquet", columns="y", **options),
        ),
        (fb.Stream(zarr.open_array(tmp_path / "X.zarr"), rows=ROWS), Y.astype(np.float32)),
    ]
    for X_, y in sources:
        np.testing.assert_allclose(regression(X_).condition(y=y).log_evidence().data, expected, rtol=1e-12)


def test_parquet_without_pyarrow_is_an_error(tmp_path, monkeypatch) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(fb.FubiniError, match=r"pyarrow, which reads Parquet[\s\S]*fubini\[parquet\]"):
        fb.Stream(tmp_path / "x.parquet")


# -- what needs all rows ---------------------------------------------------------------------------------------------


def test_a_term_that_needs_all_rows_is_named() -> None:
    @fb.model
    def logistic(X):
        w = yield dist.Normal(0.0, 1.0).expand([3])
        y = yield dist.Bernoulli(logits=X @ w)

    rows = stream(X)
    with pytest.raises(fb.FubiniError, match=r"the term of 'y', which needs all rows of a stream") as error:
        logistic(rows).condition(y=stream(LABELS % 2)).log_evidence()
    assert "it depends on latents in each row" in str(error.value)
    assert rows.passes == 1  # its range


@pytest.mark.parametrize(
    "ask",
    [
        lambda post: post.predict(KEY, "y", draws=2),
        lambda post: post.log_prob_parts(v=1.0, w=np.ones(3)),
        lambda post: post.uncondition().sample(KEY),
        lambda post: post.infer(KEY, draws=2, chains=1, log_likelihood=True, progress=False),
    ],
)
def test_questions_that_need_all_rows_are_refused(ask) -> None:
    post = pair("regression")[1]
    with pytest.raises(fb.FubiniError, match=r"an answer that reads all rows of Stream"):
        ask(post)


# -- bad input -------------------------------------------------------------------------------------------------------


def evidence_of(y: fb.Stream) -> float:
    return float(normal().condition(y=y).log_evidence())


def test_rows_that_can_be_read_once_are_an_error() -> None:
    chunks = (Y[k : k + 100] for k in range(0, ROWS, 100))
    with pytest.raises(fb.FubiniError, match=r"fb\.Stream of a generator, which can be gone over once"):
        fb.Stream(chunks, rows=ROWS)
    with pytest.raises(fb.FubiniError, match=r"it returned the same iterator again"):
        evidence_of(fb.Stream(lambda: chunks, rows=ROWS))
    with pytest.raises(fb.FubiniError, match=r"gives ndarray[\s\S]*is given itself: fb\.Stream\(rows\)"):
        fb.Stream(lambda: Y, rows=ROWS)
    rows = iter([Y[:100]])
    with pytest.raises(fb.FubiniError, match=r"a second time[\s\S]*no rows came"):
        evidence_of(fb.Stream(lambda: (chunk for chunk in rows), rows=ROWS))


def test_rows_that_change_between_passes_are_an_error() -> None:
    with pytest.raises(fb.FubiniError, match=r"the rows of the function <lambda>, a second time[\s\S]*have changed"):
        evidence_of(fb.Stream(lambda: iter([RNG.normal(size=ROWS)]), rows=ROWS))


def test_numbers_that_are_none_are_an_error_with_chunk_and_row() -> None:
    data = Y.copy()
    data[234] = np.nan
    with pytest.raises(fb.FubiniError, match=r"NaN in chunk 2, row 234"):
        evidence_of(fb.Stream(data, rows=ROWS, chunk=100))
    data[234] = np.inf
    with pytest.raises(fb.FubiniError, match=r"inf in chunk 2, row 234"):
        evidence_of(fb.Stream(data, rows=ROWS, chunk=100))


def test_entries_that_are_masked_are_an_error() -> None:
    masked = np.ma.masked_greater(Y, 1.0)
    for source in (masked, lambda: [masked]):
        with pytest.raises(fb.FubiniError, match=r"of a masked array\s*expected: numbers in every row"):
            fb.Stream(source, rows=ROWS)


def test_a_wrong_number_of_rows_is_an_error(tmp_path) -> None:
    np.save(tmp_path / "y.npy", Y)
    with pytest.raises(fb.FubiniError, match=r"expected: 1,000 rows\s*nearest:  it has 1,003"):
        fb.Stream(tmp_path / "y.npy", rows=1000)
    with pytest.raises(fb.FubiniError, match=r"rows=True\)\s*expected: a positive whole number"):
        fb.Stream(lambda: iter([Y]), rows=True)
    with pytest.raises(fb.FubiniError, match=r"without a number of rows"):
        fb.Stream(lambda: iter([Y]))
    with pytest.raises(fb.FubiniError, match=r"expected: 1,003 rows\s*nearest:  1,000 came"):
        evidence_of(fb.Stream(lambda: iter([Y[:1000]]), rows=ROWS))
    with pytest.raises(fb.FubiniError, match=r"more came"):
        evidence_of(fb.Stream(lambda: iter([Y, Y]), rows=ROWS))


def test_files_that_cannot_be_read_are_an_error(tmp_path) -> None:
    (tmp_path / "y.npy").write_bytes(b"no array")
    for name in ("y.npy", "absent.npy", "absent.zarr"):
        with pytest.raises(fb.FubiniError, match=rf"the rows of .*{name}[\s\S]*a .npy file, a Zarr array"):
            fb.Stream(tmp_path / name)
    np.save(tmp_path / "names.npy", np.array(["a", "b"]))
    with pytest.raises(fb.FubiniError, match=r"expected: numbers"):
        fb.Stream(tmp_path / "names.npy")


def test_streams_of_different_lengths_are_an_error() -> None:
    with pytest.raises(fb.FubiniError, match=r"a value of shape \(1000,\) for the site 'y'\s*expected: the shape"):
        regression(stream(X)).condition(y=stream(Y[:1000]))


def test_values_outside_of_the_domain_are_an_error() -> None:
    with pytest.raises(fb.FubiniError, match=r"the value -1 of the site 'y'"):
        counts().condition(y=stream(LABELS - 1))
    wrong = fb.Stream(np.where(np.arange(ROWS) == 500, 40, LABELS), rows=ROWS)
    with pytest.raises(fb.FubiniError):
        groups(wrong).condition(y=stream(Y)).log_evidence()
