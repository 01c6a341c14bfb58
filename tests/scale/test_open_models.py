"""Models that keep latents, over a mesh: densities, slopes, modes, labels, counts of words and draws of one device."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType
from scipy.special import gammaln

import fubini as fb
from fubini.infer.methods import METHODS
from fubini.infer.normal_approximation import svi

from .meshes import mesh_of, rows_of
from .plate_models import Case, cases, mixture, naive_bayes, tokens
from .test_plates import assert_close
from .watch import watched

KEY = jax.random.key(0)
ROWS = 2_000
CASES, LARGE, SMALL = cases(ROWS), cases(80_000), cases(203)
VALUES = {
    "logistic": {"w": np.array([0.4, -0.8, 1.5])},
    "mixture": {"p": np.array([0.2, 0.3, 0.5]), "m": np.array([-2.0, 0.1, 2.5])},
}


def rows_over(kind: AxisType) -> Callable[[np.ndarray], Any]:
    """All rows but one over eight devices, in the precision in force."""
    mesh = mesh_of(kind, rows=8)
    return lambda x: fb.shard(x[1:].astype(jnp.result_type(float)) if x.dtype.kind == "f" else x[1:], mesh, "rows")


def even(x: np.ndarray) -> Any:
    """Rows over eight devices, by JAX itself, on axes that types tell of."""
    return jax.device_put(x.astype(float) if x.dtype.kind == "f" else x, rows_of(AxisType.Explicit))


def all_but_one(x: np.ndarray) -> Any:
    return jnp.asarray(x[1:])


WIDTHS = {"float32": (rows_over(AxisType.Auto), 1e-6), "float64": (rows_over(AxisType.Explicit), 1e-10)}


def density(case: Case, place: Callable[[np.ndarray], Any]) -> Any:
    """The log-density of what remains, its labels summed out."""
    post = case.post(place)
    return post.eliminate("k") if "k" in post.names else post


def density_and_slopes(name: str, place: Callable[[np.ndarray], Any]) -> Any:
    post, values = density(LARGE[name], place), jax.tree_util.tree_map(np.float32, VALUES[name])
    given = jax.tree_util.tree_map(lambda value: jnp.asarray(value, float), values)
    return post.log_prob(**given), jax.grad(lambda given: post.log_prob(**given))(given)


@cache
def of_one_device(name: str) -> Any:
    """In double precision: in single, sums of 79,999 rows on one device are not known to seven digits."""
    with jax.enable_x64(True):
        return density_and_slopes(name, lambda x: jnp.asarray(x[1:].astype(float) if x.dtype.kind == "f" else x[1:]))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", VALUES)
def test_densities_and_slopes_of_79999_rows_are_those_of_one_device(name: str, width: str) -> None:
    place, rtol = WIDTHS[width]
    with jax.enable_x64(width == "float64"), watched() as seen:
        answers = density_and_slopes(name, place)
    seen.require_few_numbers(10_000)
    assert_close(answers, of_one_device(name), rtol)


def test_modes_are_those_of_one_device() -> None:
    with jax.enable_x64(True):
        with watched() as seen:
            mode = CASES["logistic"].post(even).map()
        seen.require_few_numbers(ROWS)
        assert_close(mode, CASES["logistic"].post(jnp.asarray).map(), 1e-8)


@pytest.mark.parametrize("width", WIDTHS)
def test_labels_given_their_components_are_those_of_one_device(width: str) -> None:
    place, rtol = WIDTHS[width]
    y = CASES["mixture"].observed
    with jax.enable_x64(width == "float64"):

        def labels(place: Callable[[np.ndarray], Any]) -> Any:
            given = jax.tree_util.tree_map(jnp.asarray, VALUES["mixture"])
            return mixture(place(y)).condition(y=place(y), **given).marginal("k").normalize()

        tables = [jax.tree_util.tree_map(jnp.asarray, labels(where)) for where in (place, all_but_one)]
        assert_close(*(table.weights for table in tables), rtol)


@pytest.mark.parametrize("options", [dict(method="nuts", warmup=5, chains=2), dict(method="svi", chains=1)], ids=str)
def test_draws_are_those_of_one_device(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the optimisation these are the first steps."""
    monkeypatch.setitem(METHODS, "svi", lambda target, settings: svi(target, 40, progress=False))
    case = CASES["logistic"]
    options = options | dict(draws=5, progress=False, log_likelihood=False, predictive=False)
    with jax.enable_x64(True):
        with watched() as seen:
            over_mesh = case.post(even).infer(KEY, **options)
        seen.require_few_numbers(ROWS)
        one_device = case.post(jnp.asarray).infer(KEY, **options)
    assert_close(*({n: run.posterior[n].values for n in run.posterior} for run in (over_mesh, one_device)), rtol=1e-9)
    if options["method"] == "nuts":
        np.testing.assert_array_equal(over_mesh.sample_stats["n_steps"], one_device.sample_stats["n_steps"])


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "in a store"])
def test_what_is_observed_stays_on_the_mesh(is_stored: bool, tmp_path: Path) -> None:
    """A number for each row and draw is there where it is asked for, as of one device."""
    case, options = SMALL["normal"], dict[str, Any](draws=3, chains=2, progress=False)
    whole, mesh = {"log_likelihood": True, "predictive": True}, mesh_of(AxisType.Explicit, rows=8)
    if is_stored:
        options["store"] = tmp_path / "draws.zarr"

    def place(x: np.ndarray) -> Any:
        return fb.shard(x, mesh, "rows")

    with jax.enable_x64(True):
        with watched() as seen:
            draws = case.post(place).infer(KEY, **options)
        seen.require_few_numbers(len(case.observed) // 8)
        assert draws.posterior.attrs["not_fetched"] == ["y"]
        assert not [group for group in ("observed_data", "log_likelihood", "posterior_predictive") if group in draws]
        if is_stored:
            return
        asked, one_device = (
            case.post(where).infer(KEY, **options, **whole, dims={"y": ["row"]}) for where in (place, jnp.asarray)
        )
    assert "observed_data" in one_device and "not_fetched" not in one_device.posterior.attrs
    for group in ("posterior", "log_likelihood", "posterior_predictive"):
        for name in one_device[group]:
            assert asked[group][name].dims == one_device[group][name].dims
            np.testing.assert_allclose(asked[group][name], one_device[group][name], rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("width", ["float32", "float64"])
def test_words_of_newsgroups_are_counted_where_they_are(width: str, data: Path) -> None:
    """Against the evidence and the means of Dirichlet–multinomials, from counts."""
    classes, words, count = 20, 60, 79_999
    topic, word = tokens(data / "newsgroups20", words, count)
    assert len(word) == count
    mesh = mesh_of(AxisType.Auto, rows=8)
    counts = np.zeros((classes, words))
    np.add.at(counts, (topic, word), 1)
    a = counts + 1.5
    evidence = np.sum(gammaln(1.5 * words) - words * gammaln(1.5) + gammaln(a).sum(1) - gammaln(a.sum(1)))
    with jax.enable_x64(width == "float64"), watched() as seen:
        post = naive_bayes(fb.shard(topic, mesh, "rows"), classes, words).condition(y=fb.shard(word, mesh, "rows"))
        rtol = {"float32": 1e-6, "float64": 1e-10}[width]
        assert_close(post.log_evidence().data, evidence, rtol)
        assert_close(post.marginal("rate").mean("rate").data, a / a.sum(1, keepdims=True), rtol)
        assert_close(post.map(), (a - 1) / (a - 1).sum(1, keepdims=True), rtol)
    seen.require_few_numbers(count // 8)
