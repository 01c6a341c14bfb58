"""The north-star program 6 as written, with the values it promises."""

import jax
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist

key = jax.random.key(0)

seq = fb.JointSequential([dist.InverseGamma(3.0, 2.0), dist.Normal(0.0, 1.0), lambda m, s: dist.Normal(m, s)])
named = fb.JointNamed(
    dict(s=dist.InverseGamma(3.0, 2.0), m=dist.Normal(0.0, 1.0), x=lambda m, s: dist.Normal(m, s)),
)


@fb.model  # the coroutine flavour: a plain assignment target names the site; .named("x") otherwise; x_1, x_2 … in loops
def simple():
    s = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(m, s)


@fb.model
def walk(steps: int):
    x = yield dist.Normal(0.0, 1.0)
    for _ in range(steps):
        x = yield dist.Normal(x, 1.0)
    yield dist.Normal(x, 1.0).named("end")


def test_log_prob() -> None:
    assert float(seq.log_prob([1.0, 0.0, 0.5])) == pytest.approx(-2.576583, abs=1e-6)
    assert float(simple().log_prob(s=1.0, m=0.0, x=0.5)) == pytest.approx(
        float(seq.log_prob([1.0, 0.0, 0.5])), rel=1e-14
    )
    assert float(named.log_prob(s=1.0, m=0.0, x=0.5)) == float(seq.log_prob([1.0, 0.0, 0.5]))


def test_names() -> None:
    assert seq.names == named.names == simple().names == ("s", "m", "x")
    assert walk(2).names == ("x", "x_1", "x_2", "end")


def test_sample() -> None:
    """A structure of arrays with leading 4; written for one sample, batched by construction."""
    draws = simple().sample(key, (4,))
    assert draws._fields == ("s", "m", "x") and all(draw.shape == (4,) for draw in draws)
    assert simple().log_prob(draws).shape == (4,)


def test_sample_distributions() -> None:
    dists, values = simple().sample_distributions(key, s=2.0)
    assert values.s == 2.0 and dists.x.family == "Normal"
    want = stats.norm(values.m, 2.0).logpdf(0.3)
    assert float(dists.x("x")(x=0.3).log()) == pytest.approx(want, abs=1e-6)


def test_condition() -> None:
    """post.log_prob is the joint at the data."""
    post = simple().condition(x=0.5)
    assert post.names == ("s", "m")
    assert float(post.log_prob(s=1.0, m=0.0)) == pytest.approx(-2.576583, abs=1e-6)


def test_posterior() -> None:
    """post.posterior() is normalised, or an error."""
    with pytest.raises(fb.FubiniError, match="'s'"):
        simple().condition(x=0.5).posterior()
    post = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 2.0))).condition(x=0.5)
    p = post.posterior()
    assert float(p.sum("m").log()) == pytest.approx(0.0, abs=1e-12)
    assert (p.mean("m").data, p.variance("m").data) == pytest.approx((0.1, 0.8), abs=1e-12)
    assert float(post.log_evidence()) == pytest.approx(stats.norm(0, np.sqrt(5)).logpdf(0.5), abs=1e-12)
