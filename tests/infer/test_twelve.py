"""Twelve models inferred: what is integrated out, and posterior means against long runs of another sampler."""

import json
import warnings
from collections.abc import Iterator

import jax
import numpy as np
import pytest

from examples.twelve.cases import Case, cases
from fubini.questions.draw_diagnostics import arviz
from tests.infer.reference import FILE, summary

pytestmark = pytest.mark.filterwarnings("ignore::fubini.errors.Disagreement")  # of labels and signs; R-hat is checked

REFERENCE = json.loads(FILE.read_text())
ERRORS = 4.0  # how many Monte Carlo standard errors a mean may be off
DRAWS = {"eight schools": 1000, "item response": 1000}  # others need fewer for R-hat below 1.01
RUNS_LONG = ("factor analysis",)  # longer than it compiles: worth XLA's polish
WITH_FILES = ("radon", "Gaussian mixture", "local level", "change point", "batting")
WITHOUT = tuple(case.name for case in cases(None))


def case_of(name: str, folder) -> Case:
    return next(case for case in cases(folder) if case.name == name)


def check(case: Case) -> None:
    """The sites left, means and R-hat; and that ArviZ leaves one observation out."""
    data = case.post().infer(
        jax.random.key(0), draws=DRAWS.get(case.name, 500), warmup=500, progress=False, predictive=False
    )
    found = data.posterior
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of observations that weigh much
        loo = arviz().loo(data)
        assert np.isfinite(float(loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo))  # its name before ArviZ 1
    gone = found.attrs["eliminated"]
    assert set(found) - set(gone) == set(case.left)
    assert found.attrs["method"] == case.method
    stored = REFERENCE[case.name]
    moments = summary(case.quantities({name: np.asarray(value) for name, value in found.items()}))
    assert set(moments) == set(stored)
    for name, of in moments.items():
        expected, error = np.asarray(stored[name]["mean"]), np.asarray(stored[name]["mcse"])
        assert of["mean"].shape == expected.shape
        assert np.all(of["rhat"] < 1.01), f"R-hat of {name}: {np.max(of['rhat']):.4f}"
        off = np.abs(of["mean"] - expected) / np.hypot(of["mcse"], error)
        assert np.all(off < ERRORS), f"{name}: {np.max(off):.2f} standard errors"


@pytest.fixture(autouse=True)
def polish(request) -> Iterator[None]:
    """Optimised code for models that are slow without."""
    rough = jax.config.read("jax_disable_most_optimizations")
    long = getattr(request.node, "callspec", None) is not None and request.node.callspec.params["name"] in RUNS_LONG
    jax.config.update("jax_disable_most_optimizations", rough and not long)
    yield
    jax.config.update("jax_disable_most_optimizations", rough)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITHOUT)
def test_inferred(name: str) -> None:
    check(case_of(name, None))


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_FILES)
def test_inferred_from_files(name: str, data) -> None:
    check(case_of(name, data))


def test_the_reference_is_of_all_twelve(data) -> None:
    """And says how it was made."""
    assert set(REFERENCE) == {case.name for case in cases(data)} | {"made by"}
    assert len(REFERENCE) == 13 and REFERENCE["made by"].startswith("python -m tests.infer.reference")


def test_the_reference_is_sharper_than_a_run_of_ours() -> None:
    """Its errors are small beside the spread of what it describes."""
    for name in WITHOUT + WITH_FILES:
        for of in REFERENCE[name].values():
            assert np.all(np.asarray(of["mcse"]) < 0.03 * np.asarray(of["sd"])), name
