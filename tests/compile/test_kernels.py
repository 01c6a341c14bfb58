"""Exact distributions as one function of arrays."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln

import fubini as fb
from benchmarks.array_compiler.models import clinical_trial, linear_regression
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable

g = np.random.default_rng(0)


def test_clinical_trial() -> None:
    n = 50
    control, treated = g.integers(0, 2, n), g.binomial(1, 0.8, n)
    kernel = clinical_trial(n).condition(control=control, treated=treated).kernel("effective", engine="python")
    for c, t in ((control, treated), (treated, control), (control, control)):
        a, b = c.sum(), t.sum()
        exact = betaln(a + 1, n - a + 1) + betaln(b + 1, n - b + 1) - betaln(a + b + 1, 2 * n - a - b + 1)
        logits = kernel(control=c, treated=t)["effective"]["logits"]
        assert abs(logits[1] - logits[0] - exact) < 1e-9


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_linear_regression(kind: type) -> None:
    """x up to 32 767: the normal equations in extended precision; narrow data do not ruin it."""
    n = 400
    x = g.integers(0, 32768, n).astype(kind)
    y = g.normal(0.5 * x + 3, 2.0).astype(kind)
    kernel = linear_regression(x).condition(y=y).kernel("tau", "a", engine="python")
    found = kernel(y=y, tau=2.0)
    wide, right = x.astype(np.longdouble), y.astype(np.longdouble)
    whole, sx, sy = n + np.longdouble(0.3), wide.sum(), right.sum() + np.longdouble(1.5)
    precision = (wide**2).sum() + 1 - sx**2 / whole
    slope = ((wide * right).sum() - sx * sy / whole) / precision
    rate = 1 + ((right**2).sum() + np.longdouble(7.5) - sy**2 / whole - slope**2 * precision) / 2
    assert found["tau"]["concentration"] == 1 + n / 2
    assert abs(found["tau"]["rate"] / rate - 1) < 1e-9
    assert abs(found["a"]["loc"] / slope - 1) < 1e-12
    assert abs(found["a"]["scale"] * np.sqrt(2.0 * precision) - 1) < 1e-12


def test_compiled_is_the_same() -> None:
    n = 30
    x = g.normal(size=n)
    post = linear_regression(x).condition(y=g.normal(size=n))
    fast, slow = (post.kernel("tau", engine=engine)()["tau"] for engine in ("numba", "python"))
    assert abs(fast["rate"] - slow["rate"]) < 1e-12
    assert "for j" in post.kernel("tau").source()


def test_laws_of_arrays() -> None:
    @fb.model
    def groups(group):
        mu = yield dist.Normal(0.0, 2.0).expand([3])
        y = yield dist.Normal(mu[group], 1.0)

    group, y = np.array([0, 0, 1, 1, 1]), np.array([1.0, 3.0, -1.0, 0.0, 2.0])
    found = groups(group).condition(y=y).kernel("mu", engine="python")()["mu"]
    count, total = np.bincount(group, minlength=3), np.bincount(group, y, minlength=3)
    assert np.abs(found["loc"] - total / (count + 0.25)).max() < 1e-12
    assert np.abs(found["scale"] - (count + 0.25) ** -0.5).max() < 1e-12


def test_messages() -> None:
    n = 10
    post = clinical_trial(n).condition(control=np.arange(n) % 2, treated=np.arange(n) % 3 // 2)
    kernel = post.kernel("effective", engine="python")
    with pytest.raises(DomainError, match=r"(?s)an array 'control' of shape \(3,\).*the shape \(10,\)"):
        kernel(control=np.zeros(3))
    with pytest.raises(DataError, match=r"numbers from 0 to 1"):
        kernel(control=np.full(n, 2))
    with pytest.raises(DomainError, match=r"(?s)kernel\(w=…\).*'control', 'treated'"):
        kernel(w=1.0)
    with pytest.raises(DataError, match=r"no value for 'effective'"):
        post.kernel("common_rate", engine="python")()

    twins = clinical_trial(n).condition(control=np.arange(n) % 2, treated=np.arange(n) % 2)
    with pytest.raises(DataError, match=r"(?s)other data for 'control'.*no two arrays are equal"):
        twins.kernel("effective", engine="python")(control=np.zeros(n))

    @fb.model
    def blocked():
        m = yield dist.Normal(0.0, 1.0)
        x = yield dist.Normal(jnp.exp(m), 1.0)

    with pytest.raises(Intractable, match=r"the conditional of 'm' given the remaining latents has no closed form"):
        blocked().condition(x=1.0).kernel("m")


def test_whole_numbers_that_are_read_as_real_ones_too() -> None:
    @fb.model
    def model():
        rate = yield dist.Gamma(2.0, 1.0)
        a = yield dist.Normal(0.0, 1.0)
        x = yield dist.Poisson(rate).expand([4])
        w = yield dist.Normal(a * x, 1.0)

    kernel = model().condition(x=np.array([1, 2, 3, 0]), w=np.zeros(4)).kernel("a", "rate", engine="python")
    with pytest.raises(DataError, match=r"(?s)other data for 'x'.*none was computed with"):
        kernel(x=np.array([4, 0, 0, 1]))


def test_values_that_a_kernel_cannot_take() -> None:
    @fb.model
    def model():
        tau = yield dist.Gamma(1.0, 1.0)
        a = yield dist.Normal(0.0, 1 / jnp.sqrt(tau))
        y = yield dist.Normal(a, 1 / jnp.sqrt(tau)).expand([3])

    post = model().condition(y=np.array([1.0, 2.0, 4.0]))
    with pytest.raises(DataError, match=r"an array 'y' with masked entries"):
        post.kernel("tau", engine="python")(y=np.ma.masked_equal([1.0, 2.0, 3.0], 2.0))
    with pytest.raises(DataError, match=r"(?s)an array 'tau'.*numbers from 0"):
        post.kernel("a", engine="python")(tau=-1.0)
    with pytest.raises(DomainError, match=r"(?s)engine='foo'.*'numba', 'python'"):
        post.kernel("a", engine="foo")


def test_other_data_reach_all_that_is_made_of_them() -> None:
    """An observed number in the mean of another site, and an array of which the model makes another."""

    @fb.model
    def chained(x):
        m = yield dist.Normal(0.0, 1.0)
        s = yield dist.Normal(m * (x - x.mean()), 1.0)
        t = yield dist.Normal(2 * s + m, 1.0)

    x, s, t = g.normal(size=(3, 4))
    new_s = g.normal(size=4)
    found = chained(x).condition(s=s, t=t).kernel("m", engine="python")(s=new_s)["m"]
    exact = chained(x).condition(s=new_s, t=t).kernel("m", engine="python")()["m"]
    centred = x - x.mean()
    precision = 1 + (centred**2).sum() + 4
    assert abs(found["loc"] - ((centred * new_s).sum() + (t - 2 * new_s).sum()) / precision) < 1e-12
    assert found == exact
