"""Means, deviations, quantiles and distribution functions of families, in SciPy's special functions on the host.

Nothing is compiled for them: printed forms, plots and quantiles of known numbers use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from fubini.base.arrays import is_traced
from fubini.base.names import Name
from fubini.distributions.monotone_transform import Monotone
from fubini.numerics.named_axes import align
from fubini.terms.value import Array

MOST = 10**5  # numbers of the parameters
WRAPPERS = frozenset({"ExpandedDistribution", "Independent"})
SYMMETRIC = frozenset({"Normal", "Cauchy", "Laplace", "StudentT"})  # around loc
VECTORS = frozenset({"Dirichlet", "MultivariateNormal", "MultivariateStudentT"})

OfNumbers = Callable[[Any], Any]  # of a number, or an array of them


class Summary(NamedTuple):
    """The moments, quantiles and P(x ≤ t) of each number; None where they are not known."""

    mean: Any
    sd: Any
    quantile: OfNumbers | None = None
    cdf: OfNumbers | None = None


def summary_at(distribution: Any, names: Sequence[Name] = (), rank: int = 0) -> Summary | None:
    """The summary of a Distribution whose parameters are known numbers, along named axes and of numbers of a rank."""
    while distribution.family in WRAPPERS:
        distribution = distribution["base_dist"]
    if distribution.family == "TransformedDistribution":
        return _transformed(distribution, names, rank)
    if distribution.family == "FoldedDistribution":
        return _folded(distribution["base_dist"], names, rank)
    known = SUMMARIES.get(distribution.family)
    numbers = None if known is None else _numbers(distribution, names, 0 if distribution.family in VECTORS else rank)
    if known is None or numbers is None:
        return None
    try:
        return known(numbers)
    except (KeyError, np.linalg.LinAlgError):  # by other parameters, as logits, or a matrix without an inverse
        return None


def _transformed(distribution: Any, names: Sequence[Name], rank: int) -> Summary | None:
    """Quantiles and probabilities of v = f(x), where f only rises or only falls; the moments are not known."""
    (transform, *more) = dict(distribution.statics).get("transforms", (None,))
    base = None if more or not isinstance(transform, Monotone) else summary_at(distribution.args[0], names, rank)
    if base is None or base.quantile is None or base.cdf is None:
        return None
    quantile, cdf, (low, high) = base.quantile, base.cdf, transform.target
    middle = transform(quantile(0.5))

    def below(t: Any) -> Any:
        inside = (t > low) & (t < high)
        share = cdf(transform._inverse(np.where(inside, t, middle)))
        return np.where(inside, share if transform.sign > 0 else 1 - share, np.where(t <= low, 0.0, 1.0))

    rises = transform.sign > 0
    return Summary(None, None, lambda edge: transform(quantile(edge if rises else 1 - edge)), below)


def _folded(base: Any, names: Sequence[Name], rank: int) -> Summary | None:
    """Quantiles and probabilities of |x|, where x is one number that is symmetric around 0."""
    whole, given = summary_at(base, names, rank), None if base.family not in SYMMETRIC else _numbers(base, names, rank)
    if whole is None or whole.quantile is None or whole.cdf is None or given is None or np.any(given["loc"] != 0):
        return None
    quantile, cdf = whole.quantile, whole.cdf
    return Summary(None, None, lambda edge: quantile(0.5 + 0.5 * edge), lambda t: np.maximum(2 * cdf(t) - 1, 0.0))


def _numbers(distribution: Any, names: Sequence[Name], rank: int) -> Mapping[str, np.ndarray] | None:
    """The parameters as arrays of the host, named axes first; None where they are not known, or very many."""
    arrays = dict(zip(distribution.keys, distribution.args, strict=True))
    if not all(isinstance(arg, Array) and set(arg.names) <= set(names) for arg in arrays.values()):
        return None
    if is_traced(*(arg.array for arg in arrays.values())) or sum(np.size(arg.array) for arg in arrays.values()) > MOST:
        return None
    fixed = {key: np.asarray(value) for key, value in distribution.statics if isinstance(value, int | float)}
    return {key: _aligned(arg, names, rank) for key, arg in arrays.items()} | fixed


def _aligned(arg: Array, names: Sequence[Name], rank: int) -> np.ndarray:
    data = np.asarray(arg.array, np.float64)
    if not names:
        return data
    own = len(arg.output.shape)
    data = align(data, arg.names, names, own)
    return data.reshape(data.shape[: len(names)] + (1,) * (rank - own) + data.shape[len(names) :])


# -- the families -----------------------------------------------------------------------------------------------------


def _located(quantile: OfNumbers, cdf: OfNumbers, mean: float, sd: float) -> Callable[[Mapping[str, Any]], Summary]:
    """A family of location and scale, from the moments, quantiles and probabilities of its standard member."""

    def summary(given: Mapping[str, Any]) -> Summary:
        loc, scale = given.get("loc", 0.0), given["scale"]
        return Summary(
            loc + mean * scale, sd * scale, lambda edge: loc + scale * quantile(edge), lambda t: cdf((t - loc) / scale)
        )

    return summary


def _gamma(a: Any, rate: Any) -> Summary:
    return Summary(
        *(a / rate, np.sqrt(a) / rate),
        lambda edge: special.gammaincinv(a, edge) / rate,
        lambda t: special.gammainc(a, rate * np.maximum(t, 0.0)),
    )


def _inverse_gamma(a: Any, b: Any) -> Summary:
    """Inverses of gamma numbers: means from a > 1 on, variances from a > 2 on."""
    mean = np.where(a > 1, b / (a - 1), np.inf)
    sd = np.where(a > 2, mean / np.sqrt(np.maximum(a - 2, 0)), np.inf)
    return Summary(
        *(mean, sd),
        lambda edge: b / special.gammainccinv(a, edge),
        lambda t: np.where(t > 0, special.gammaincc(a, b / np.where(t > 0, t, 1.0)), 0.0),
    )


def _beta(a: Any, b: Any) -> Summary:
    sd = np.sqrt(a * b / (a + b + 1)) / (a + b)
    return Summary(
        *(a / (a + b), sd),
        lambda edge: special.betaincinv(a, b, edge),
        lambda t: special.betainc(a, b, np.clip(t, 0.0, 1.0)),
    )


def _dirichlet(given: Mapping[str, Any]) -> Summary:
    """Each share of a Dirichlet is a beta number."""
    a = given["concentration"]
    return _beta(a, a.sum(-1, keepdims=True) - a)


def _student(loc: Any, scale: Any, df: Any) -> Summary:
    """Means from ν > 1 on, variances from ν > 2 on."""
    mean = np.where(df > 1, loc, np.nan)
    sd = np.where(df > 2, scale * np.sqrt(df / np.maximum(df - 2, 1e-300)), np.inf)
    return Summary(
        *(mean, sd),
        lambda edge: loc + scale * special.stdtrit(df, edge),
        lambda t: special.stdtr(df, (t - loc) / scale),
    )


def _log_normal(given: Mapping[str, Any]) -> Summary:
    loc, scale = given["loc"], given["scale"]
    mean = np.exp(loc + scale**2 / 2)
    return Summary(
        *(mean, mean * np.sqrt(np.expm1(scale**2))),
        lambda edge: np.exp(loc + scale * special.ndtri(edge)),
        lambda t: np.where(t > 0, special.ndtr((np.log(np.where(t > 0, t, 1.0)) - loc) / scale), 0.0),
    )


def _uniform(given: Mapping[str, Any]) -> Summary:
    low, width = given["low"], given["high"] - given["low"]
    return Summary(
        *(low + width / 2, width / np.sqrt(12.0)),
        lambda edge: low + width * edge,
        lambda t: np.clip((t - low) / width, 0.0, 1.0),
    )


def _deviations(given: Mapping[str, Any]) -> Any:
    """The standard deviation of each entry, from whatever the matrix is given as."""
    if "scale_tril" in given:
        return np.sqrt((given["scale_tril"] ** 2).sum(-1))
    if "covariance_matrix" in given:
        return np.sqrt(np.diagonal(given["covariance_matrix"], axis1=-2, axis2=-1))
    return np.sqrt(np.diagonal(np.linalg.inv(given["precision_matrix"]), axis1=-2, axis2=-1))


def _multivariate_normal(given: Mapping[str, Any]) -> Summary:
    return _normal({"loc": given["loc"], "scale": _deviations(given)})


def _multivariate_student(given: Mapping[str, Any]) -> Summary:
    df = given["df"]
    return _student(given["loc"], _deviations(given), df[..., None] if np.ndim(df) else df)


def _poisson(given: Mapping[str, Any]) -> Summary:
    """P(x ≤ k)  =  Q(k + 1, λ)"""
    rate = given["rate"]
    return Summary(rate, np.sqrt(rate), cdf=_of_counts(lambda k: special.gammaincc(k + 1, rate)))


def _gamma_poisson(given: Mapping[str, Any]) -> Summary:
    """P(x ≤ k)  =  I_{b/(b+1)}(a, k + 1)"""
    a, b = given["concentration"], given["rate"]
    return Summary(a / b, np.sqrt(a * (1 + b)) / b, cdf=_of_counts(lambda k: special.betainc(a, k + 1, b / (1 + b))))


def _geometric(given: Mapping[str, Any]) -> Summary:
    """P(x ≤ k)  =  1 − (1 − p)ᵏ⁺¹"""
    p = given["probs"]
    return Summary((1 - p) / p, np.sqrt(1 - p) / p, cdf=_of_counts(lambda k: -np.expm1((k + 1) * np.log1p(-p))))


def _of_counts(cdf: OfNumbers) -> OfNumbers:
    """P(x ≤ t) of whole numbers, from P(x ≤ k) of those that are not negative."""
    return lambda t: np.where(t >= 0, cdf(np.floor(np.maximum(t, 0.0))), 0.0)


def _of_laplace(z: Any) -> Any:
    return np.where(z < 0, 0.5 * np.exp(-np.abs(z)), 1 - 0.5 * np.exp(-np.abs(z)))


_normal = _located(special.ndtri, special.ndtr, 0.0, 1.0)
_half_normal = _located(
    *(lambda edge: special.ndtri((1 + edge) / 2), lambda z: special.erf(np.maximum(z, 0.0) / np.sqrt(2.0))),
    *(np.sqrt(2 / np.pi), np.sqrt(1 - 2 / np.pi)),
)
_cauchy = _located(lambda edge: np.tan(np.pi * (edge - 0.5)), lambda z: 0.5 + np.arctan(z) / np.pi, np.nan, np.nan)
_half_cauchy = _located(
    lambda edge: np.tan(np.pi * edge / 2), lambda z: np.arctan(np.maximum(z, 0.0)) * 2 / np.pi, np.inf, np.inf
)
_laplace = _located(lambda edge: -np.sign(edge - 0.5) * np.log1p(-2 * abs(edge - 0.5)), _of_laplace, 0.0, np.sqrt(2.0))

SUMMARIES: dict[str, Callable[[Mapping[str, Any]], Summary]] = {
    "Normal": _normal,
    "HalfNormal": _half_normal,
    "Cauchy": _cauchy,
    "HalfCauchy": _half_cauchy,
    "Laplace": _laplace,
    "Gamma": lambda given: _gamma(given["concentration"], given["rate"]),
    "Exponential": lambda given: _gamma(np.ones_like(given["rate"]), given["rate"]),
    "Chi2": lambda given: _gamma(given["df"] / 2, 0.5),
    "InverseGamma": lambda given: _inverse_gamma(given["concentration"], given["rate"]),
    "Beta": lambda given: _beta(given["concentration1"], given["concentration0"]),
    "Dirichlet": _dirichlet,
    "StudentT": lambda given: _student(given["loc"], given["scale"], given["df"]),
    "LogNormal": _log_normal,
    "Uniform": _uniform,
    "MultivariateNormal": _multivariate_normal,
    "MultivariateStudentT": _multivariate_student,
    "Poisson": _poisson,
    "GammaPoisson": _gamma_poisson,
    "Geometric": _geometric,
    "GeometricProbs": _geometric,
    "Bernoulli": lambda given: Summary(given["probs"], np.sqrt(given["probs"] * (1 - given["probs"]))),
    "BernoulliProbs": lambda given: Summary(given["probs"], np.sqrt(given["probs"] * (1 - given["probs"]))),
    "Binomial": lambda given: _binomial(given["total_count"], given["probs"]),
    "BinomialProbs": lambda given: _binomial(given["total_count"], given["probs"]),
}


def _binomial(count: Any, p: Any) -> Summary:
    return Summary(count * p, np.sqrt(count * p * (1 - p)))
