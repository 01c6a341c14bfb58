"""Messages of log_evidence() for models and data without one, and numbers for those at the edge."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints

import fubini as fb
from fubini import dist
from fubini.errors import DataError, FubiniError, Intractable


@fb.model
def grouped(labels):
    mu = yield dist.Normal(0.0, 2.0).expand([3])
    y = yield dist.Normal(mu[labels], 1.0)


@fb.model
def rates(labels):
    rate = yield dist.Gamma(2.0, 2.0).expand([3])
    y = yield dist.Poisson(rate[labels])


@fb.model
def categories(n, k):
    p = yield dist.Dirichlet(jnp.ones(k))
    z = yield dist.Categorical(p).expand([n])


@fb.model
def flat(n):
    mu = yield dist.ImproperUniform(constraints.real, (), ())
    y = yield dist.Normal(mu, 1.0).expand([n])


@fb.model
def flat_groups(labels):
    mu = yield dist.ImproperUniform(constraints.real, (3,), ())
    y = yield dist.Normal(mu[labels], 1.0)


@fb.model
def flat_variance(n):
    v = yield dist.ImproperUniform(constraints.positive, (), ())
    y = yield dist.Normal(0.0, jnp.sqrt(v)).expand([n])


@fb.model
def flat_mean(n):
    v = yield dist.InverseGamma(1.0, 1.0)
    mu = yield dist.ImproperUniform(constraints.real, (), ())
    y = yield dist.Normal(mu, jnp.sqrt(v)).expand([n])


@fb.model
def exposed(exposure):
    rate = yield dist.Gamma(2.0, 1.0)
    y = yield dist.Poisson(rate * exposure)


@pytest.mark.parametrize("model", [grouped, rates])
def test_labels_out_of_range(model) -> None:
    with pytest.raises(DataError, match=r"(?s)label 3 at \(1,\).*labels from 0 to 2"):
        model(np.array([0, 3, 1, 1])).condition(y=np.zeros(4)).log_evidence()


def test_categories_out_of_range() -> None:
    for bad in (3, -1):
        with pytest.raises(DataError, match=rf"(?s)the value {bad} of the site 'z'"):
            categories(3, 3).condition(z=np.array([0, bad, 1])).log_evidence()


def test_no_data() -> None:
    """The evidence of nothing is 1."""
    none = np.zeros(0, int)
    assert float(categories(0, 3).condition(z=none).log_evidence()) == pytest.approx(0.0, abs=1e-12)
    assert float(grouped(none).condition(y=np.zeros(0)).log_evidence()) == pytest.approx(0.0, abs=1e-12)
    assert float(rates(none).condition(y=none).log_evidence()) == pytest.approx(0.0, abs=1e-12)


def test_empty_classes() -> None:
    """A class without items keeps its prior, and the evidence is that of the others."""
    y = np.array([0.3, -1.2])
    covariance = np.array([[5.0, 4.0], [4.0, 5.0]])
    right = -0.5 * y @ np.linalg.solve(covariance, y) - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert float(grouped(np.array([1, 1])).condition(y=y).log_evidence()) == pytest.approx(right, rel=1e-6)


IMPROPER = [
    (flat(0), np.zeros(0)),
    (flat_groups(np.array([0, 0, 1])), np.zeros(3)),
    (flat_mean(0), np.zeros(0)),
    (flat_variance(0), np.zeros(0)),
    (flat_variance(1), np.ones(1)),
    (flat_variance(2), np.ones(2)),
    (exposed(np.array([-3.0, -2.0])), np.array([2, 2])),
]


@pytest.mark.parametrize("joint, y", IMPROPER)
def test_no_evidence_where_the_integral_diverges(joint, y) -> None:
    with pytest.raises(FubiniError) as error:
        joint.condition(y=y).log_evidence()
    assert isinstance(error.value, DataError | Intractable)
    assert "integral" in str(error.value) or "rate=[-3. -2.]" in str(error.value)
