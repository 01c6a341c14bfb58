"""Simulation-based calibration: uniform ranks of right draws, planted errors, every door, nothing compiled anew."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as npd
import pytest

import fubini as fb
from examples.twelve.cases import SCHOOLS, SPREAD
from examples.twelve.models import change_point, eight_schools
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, UnknownName
from fubini.questions import simulated_ranks
from fubini.questions.simulated_ranks import Calibration
from tests.counting import TRACED

KEY = jax.random.key(1)


@fb.model
def normal(scale):
    m = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(m, scale).expand([3])


RIGHT = {
    "normal": (normal(1.0), "exact"),
    "change point": (change_point(12), "exact"),
    "eight schools": (eight_schools(SPREAD), "grid"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_draws(name):
    """Some of the models of examples/twelve and their like; python -m benchmarks.calibration has all of them."""
    model, method = RIGHT[name]
    found = fb.sbc(model, KEY, simulations=40, draws=39, observed="y", progress=False)
    assert found.is_calibrated, found
    assert found.methods == {method: 40} and not found.failed and found.simulations == 40
    assert all(np.all((ranks >= 0) & (ranks <= 39)) for ranks in found.ranks.values())


def test_planted_errors():
    """Data with more noise than the model says: draws are too narrow. Data with a larger mean: draws are too low."""
    noisy = fb.sbc(normal(1.0), KEY, 50, observed="y", simulator=normal(2.0), progress=False)
    assert not noisy.is_calibrated and "draws of m are too narrow" in noisy.verdict and noisy.p_value < 1e-4

    @fb.model
    def shifted():
        m = yield dist.Normal(1.0, 1.0)
        y = yield dist.Normal(m, 1.0).expand([3])

    moved = fb.sbc(normal(1.0), KEY, 50, observed="y", simulator=shifted(), progress=False)
    assert not moved.is_calibrated and "draws of m are too low" in moved.verdict
    schools = eight_schools(SPREAD).condition(y=SCHOOLS)
    found = fb.sbc(schools, KEY, 40, draws=39, simulator=eight_schools(4.0 * SPREAD), progress=False)
    assert not found.is_calibrated and "not calibrated" in repr(found)


def test_an_approximation_is_found():
    """A normal at the mode of a skewed posterior."""

    @fb.model
    def skewed():
        m = yield dist.Cauchy(0.0, 1.0)
        y = yield dist.Poisson(jnp.exp(m)).expand([2])

    assert not fb.sbc(skewed(), KEY, 60, 19, observed="y", method="laplace", progress=False).is_calibrated


def test_nothing_is_compiled_for_each_simulation():
    def compiled(count):
        before = len([event for event in TRACED if "backend" in event])
        fb.sbc(eight_schools(SPREAD), KEY, count, draws=9, observed="y", progress=False)
        return len([event for event in TRACED if "backend" in event]) - before

    compiled(2), compiled(4)  # prior draws are compiled for as many as there are
    assert compiled(4) == compiled(2) == 0


def numpyro_model(y=None):
    m = numpyro.sample("m", npd.Normal(0.0, 1.0))
    numpyro.sample("y", npd.Normal(m, 1.0).expand([3]), obs=y)


INNER = fb.JointNamed(dict(a=dist.Normal(0.0, 1.0), b=lambda a: dist.Normal(a, 1.0).expand([2])))
DOORS = {
    "conditioned": (normal(1.0).condition(y=np.zeros(3)), {}, {"m"}),
    "NumPyro": (fb.from_numpyro(numpyro_model, np.zeros(3)), {}, {"m"}),
    "nested": (fb.JointNamed(dict(inner=INNER)), {"observed": "inner.b"}, {"inner.a"}),
    "missing": (normal(1.0).condition(y=np.ma.masked_invalid([0.1, np.nan, 0.2])), {}, {"m"}),
    "JAX": (normal(jnp.asarray(1.0)).condition(y=jnp.zeros(3)), {}, {"m"}),
    "labels": (
        fb.JointNamed(dict(k=dist.Bernoulli(0.3), y=lambda k: dist.Normal(3.0 * k, 1.0).expand([2]))),
        {"observed": ("y",)},
        {"k"},
    ),
    "quantities": (
        normal(1.0),
        {"observed": "y", "quantities": lambda draws: {"square": draws["m"] ** 2}},
        {"square"},
    ),
    "chains": (normal(1.0), {"observed": "y", "chains": 3, "draws": 30}, {"m"}),
}


@pytest.mark.parametrize("name", DOORS)
def test_doors(name):
    model, options, sites = DOORS[name]
    found = fb.sbc(model, KEY, 20, progress=False, **options)
    assert set(found.ranks) == sites and found.is_calibrated, found
    if name == "conditioned":
        again = fb.sbc(model, KEY, 20, progress=False, **options)
        assert np.array_equal(found.ranks["m"], again.ranks["m"])


def test_simulations_that_fail_are_counted(monkeypatch):
    drawn = simulated_ranks.draw_latents
    calls = iter(range(100))

    def some(*arguments):
        if next(calls) == 4:
            raise DataError("a draw of one simulation", expected="a number")
        return drawn(*arguments)

    monkeypatch.setattr(simulated_ranks, "draw_latents", some)
    found = fb.sbc(normal(1.0), KEY, 10, observed="y", progress=False)
    assert found.simulations == 9 and found.failed == ("a draw of one simulation",)


def test_printed():
    ranks = {"m": np.arange(40) % 20, "w": np.zeros((40, 3), int)}
    shown = repr(Calibration(ranks, 19, {"grid": 30, "nuts": 10}, ("few effective draws",) * 2, ("a grid",)))
    assert "40 simulations of 19 draws each, by grid 30×, nuts 10×" in shown
    assert "2 simulations gave warnings; 2 times: few effective draws" in shown
    assert "1 simulation failed, without ranks; 1 times: a grid" in shown
    assert shown.splitlines()[-1].startswith("not calibrated: draws of w are too high")


def test_plot():
    ranks = {"m": np.arange(100) % 20, "w": np.concatenate([np.zeros((50, 2), int), np.full((50, 2), 19)])}
    check = Calibration(ranks, 19, {"exact": 100})
    picture = check.plot()
    assert len(picture.figure.axes) == 2 and picture.figure.axes[1].get_xlabel() == "rank of w[0]"
    assert "20 bins of 5 to 5, all in the 99 % band" in picture.text and "outside the 99 % band" in picture.text
    assert len(check.plot("m").figure.axes) == 1
    with pytest.raises(UnknownName, match="ranks of 'z'"):
        check.plot("z")


BAD = {
    "no data": (lambda: fb.sbc(normal(1.0), KEY), DomainError, ["without data", "'m', 'y'", 'observed=("y",)']),
    "unknown": (lambda: fb.sbc(normal(1.0), KEY, observed="z"), UnknownName, ["observed site 'z'", "'m', 'y'"]),
    "no key": (lambda: fb.sbc(normal(1.0), observed="y"), DataError, ["a JAX random key"]),
    "no simulations": (lambda: fb.sbc(normal(1.0), KEY, 0, observed="y"), DomainError, ["simulations=0"]),
    "uneven": (lambda: fb.sbc(normal(1.0), KEY, chains=2, observed="y"), DomainError, ["draws=99 by chains=2"]),
    "method": (lambda: fb.sbc(normal(1.0), KEY, observed="y", method="hmc"), DomainError, ["method='hmc'"]),
    "option": (
        lambda: fb.sbc(normal(1.0), KEY, observed="y", num_samples=3),
        DomainError,
        ["num_samples", "did you mean 'draws'"],
    ),
    "a function": (lambda: fb.sbc(normal, KEY, observed="y"), DomainError, ["sbc of", "a joint distribution"]),
    "simulator": (
        lambda: fb.sbc(normal(1.0), KEY, 5, observed="y", simulator=INNER),
        UnknownName,
        ["a model of the same sites: 'm', 'y'", "no site 'm'"],
    ),
    "all fail": (
        lambda: fb.sbc(eight_schools(SPREAD), KEY, 9, observed="y", method="gibbs", progress=False),
        Intractable,
        ["method='gibbs'", "a label that remains"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad(name):
    ask, kind, expected = BAD[name]
    with pytest.raises(kind) as caught:
        ask()
    for word in expected:
        assert word in str(caught.value), str(caught.value)
