"""The mean, the deviation and the 90 % interval beneath a printed density, against SciPy's distributions."""

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fubini import dist
from fubini.distributions.family_summaries import SUMMARIES
from fubini.distributions.printed_summary import EDGES, summary_of

A, B = np.array([2.5, 4.0]), np.array([1.5, 0.5])
ROOT = np.array([[1.5, 0.0], [0.7, 0.4]])
COVARIANCE = ROOT @ ROOT.T
DEVIATION = np.sqrt(np.diagonal(COVARIANCE))
SHARES = np.array([0.5, 2.0, 3.0])

FAMILIES: dict[str, tuple[Any, Any]] = {
    "Normal": (dist.Normal(A, B), stats.norm(A, B)),
    "HalfNormal": (dist.HalfNormal(B), stats.halfnorm(scale=B)),
    "Cauchy": (dist.Cauchy(A, B), stats.cauchy(A, B)),
    "HalfCauchy": (dist.HalfCauchy(B), stats.halfcauchy(scale=B)),
    "Laplace": (dist.Laplace(A, B), stats.laplace(A, B)),
    "Gamma": (dist.Gamma(A, B), stats.gamma(A, scale=1 / B)),
    "Exponential": (dist.Exponential(B), stats.expon(scale=1 / B)),
    "Chi2": (dist.Chi2(A), stats.chi2(A)),
    "InverseGamma": (dist.InverseGamma(A, B), stats.invgamma(A, scale=B)),
    "Beta": (dist.Beta(A, B), stats.beta(A, B)),
    "Dirichlet": (dist.Dirichlet(SHARES), stats.beta(SHARES, SHARES.sum() - SHARES)),
    "StudentT": (dist.StudentT(A, 1.0, B), stats.t(A, 1.0, B)),
    "LogNormal": (dist.LogNormal(A, B), stats.lognorm(B, scale=np.exp(A))),
    "Uniform": (dist.Uniform(B, A), stats.uniform(B, A - B)),
    "MultivariateNormal": (dist.MultivariateNormal(A, covariance_matrix=COVARIANCE), stats.norm(A, DEVIATION)),
    "MultivariateStudentT": (dist.MultivariateStudentT(5.0, A, ROOT), stats.t(5.0, A, DEVIATION)),
    "Poisson": (dist.Poisson(A), stats.poisson(A)),
    "Bernoulli": (dist.Bernoulli(0.3), stats.bernoulli(0.3)),
    "Binomial": (dist.Binomial(7, 0.3), stats.binom(7, 0.3)),
    "GammaPoisson": (dist.GammaPoisson(A, B), stats.nbinom(A, B / (1 + B))),
    "Geometric": (dist.Geometric(0.3), stats.geom(0.3, loc=-1)),
}
DISCRETE = ("Poisson", "Bernoulli", "Binomial", "GammaPoisson", "Geometric")
SAME = {"BernoulliProbs": "Bernoulli", "BinomialProbs": "Binomial", "GeometricProbs": "Geometric"}


def test_every_family_is_tested() -> None:
    assert {SAME.get(name, name) for name in SUMMARIES} == set(FAMILIES)


def numbers(text: str) -> list[float]:
    return [float(word) for word in re.findall(r"-?(?:\d[\d.]*(?:e[-+]\d+)?|inf)\b|nan", text.replace("90 %", ""))]


@pytest.mark.parametrize("name", FAMILIES)
def test_summary(name: str) -> None:
    density, oracle = FAMILIES[name]
    text = summary_of(density, density.domain.shape)
    assert ("interval" in text) is (name not in DISCRETE)
    expected = [oracle.mean(), oracle.std(), *(() if name in DISCRETE else map(oracle.ppf, EDGES))]
    shape = density.domain.shape
    wanted = np.concatenate([np.broadcast_to(part, shape).ravel() for part in expected])
    found = numbers(text)
    if name == "HalfCauchy":
        wanted = np.where(np.isnan(wanted), np.inf, wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


@pytest.mark.parametrize("matrix", ["scale_tril", "covariance_matrix", "precision_matrix"])
def test_matrices(matrix: str) -> None:
    given = {"scale_tril": ROOT, "covariance_matrix": COVARIANCE, "precision_matrix": np.linalg.inv(COVARIANCE)}
    density = dist.MultivariateNormal(A, **{matrix: given[matrix]})
    assert summary_of(density, (2,)) == summary_of(dist.Normal(A, DEVIATION), (2,))


def test_no_numbers_where_parameters_have_none() -> None:
    x = dist.Normal(0.0, 1.0)("x").value
    assert summary_of(dist.Normal(x, 1.0), ()) == ""
    assert summary_of(dist.VonMises(0.0, 1.0), ()) == summary_of(dist.Bernoulli(logits=0.5), ()) == ""
    assert repr(dist.Normal(0.0, 1.0)(0.5)) == "Normal(loc=0, scale=1)(0.5)"


def test_arrays_of_copies() -> None:
    text = repr(dist.Normal(0.0, 2.0).expand([3])("x"))
    assert text.splitlines()[1] == "  x: mean 0, sd 2, 90 % interval -3.29 to 3.29"
