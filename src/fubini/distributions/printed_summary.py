"""The mean, the standard deviation and the 90 % interval of a density of numbers, as it is printed.

They come from SciPy's special functions on the host, so that nothing is compiled for a printed form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from fubini.base.arrays import is_traced
from fubini.factors.printed import shown
from fubini.terms.value import Array

MOST = 10**5  # numbers of the parameters
WRAPPERS = frozenset({"ExpandedDistribution", "Independent"})
EDGES = 0.05, 0.95

Quantile = Callable[[float], Any]


class Summary(NamedTuple):
    """What is printed; the quantiles of each number, where they are known."""

    mean: Any
    sd: Any
    quantile: Quantile | None = None


def summary_of(distribution: Any, shape: tuple[int, ...]) -> str:
    """The mean, the deviation and the interval of a Distribution whose parameters are numbers, or nothing.

    >>> summary_of(fb.dist.Normal(1.0, 2.0), ())
    'mean 1, sd 2, 90 % interval -2.29 to 4.29'
    """
    with np.errstate(all="ignore"):
        summary = _summary(distribution)
        if summary is None:
            return ""
        parts = [f"mean {_shown(summary.mean, shape)}", f"sd {_shown(summary.sd, shape)}"]
        if summary.quantile is not None:
            low, high = (_shown(summary.quantile(edge), shape) for edge in EDGES)
            parts.append(f"90 % interval {low} to {high}")
    return ", ".join(parts)


def interval_of(distribution: Any, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray] | None:
    """The ends of the 90 % interval of each number; None where the quantiles are not known."""
    with np.errstate(all="ignore"):
        summary = _summary(distribution)
        if summary is None or summary.quantile is None:
            return None
        low, high = (np.broadcast_to(summary.quantile(edge), shape) for edge in EDGES)
    return low, high


def _summary(distribution: Any) -> Summary | None:
    while distribution.family in WRAPPERS:
        distribution = distribution["base_dist"]
    known = SUMMARIES.get(distribution.family)
    numbers = _numbers(distribution)
    if known is None or numbers is None:
        return None
    try:
        return known(numbers)
    except (KeyError, np.linalg.LinAlgError):  # by other parameters, as logits, or a matrix without an inverse
        return None


def _numbers(distribution: Any) -> Mapping[str, np.ndarray] | None:
    """The parameters as arrays of the host; None where one is an expression, traced, on named axes, or very large."""
    arrays = dict(zip(distribution.keys, distribution.args, strict=True))
    if not all(isinstance(arg, Array) and not arg.names and not is_traced(arg.array) for arg in arrays.values()):
        return None
    data = {key: arg.array for key, arg in arrays.items()}
    if sum(map(np.size, data.values())) > MOST:
        return None
    fixed = {key: np.asarray(value) for key, value in distribution.statics if isinstance(value, int | float)}
    return {key: np.asarray(array, np.float64) for key, array in data.items()} | fixed


def _shown(numbers: Any, shape: tuple[int, ...]) -> str:
    """Numbers that are all the same as one."""
    array = np.asarray(numbers, np.float64)
    is_one = array.size == 1 and not np.ndim(numbers)
    return shown(array) if is_one or array.shape == shape else shown(np.broadcast_to(array, shape))


# -- the families -----------------------------------------------------------------------------------------------------


def _located(quantile: Quantile, mean: float, sd: float) -> Callable[[Mapping[str, Any]], Summary]:
    """A family of location and scale, from the moments and quantiles of its standard member."""

    def summary(given: Mapping[str, Any]) -> Summary:
        loc, scale = given.get("loc", 0.0), given["scale"]
        return Summary(loc + mean * scale, sd * scale, lambda edge: loc + scale * quantile(edge))

    return summary


def _gamma(a: Any, rate: Any) -> Summary:
    return Summary(a / rate, np.sqrt(a) / rate, lambda edge: special.gammaincinv(a, edge) / rate)


def _inverse_gamma(a: Any, b: Any) -> Summary:
    """Inverses of gamma numbers: means from a > 1 on, variances from a > 2 on."""
    mean = np.where(a > 1, b / (a - 1), np.inf)
    sd = np.where(a > 2, mean / np.sqrt(np.maximum(a - 2, 0)), np.inf)
    return Summary(mean, sd, lambda edge: b / special.gammaincinv(a, 1 - edge))


def _beta(a: Any, b: Any) -> Summary:
    sd = np.sqrt(a * b / (a + b + 1)) / (a + b)
    return Summary(a / (a + b), sd, lambda edge: special.betaincinv(a, b, edge))


def _dirichlet(given: Mapping[str, Any]) -> Summary:
    """Each share of a Dirichlet is a beta number."""
    a = given["concentration"]
    return _beta(a, a.sum(-1, keepdims=True) - a)


def _student(loc: Any, scale: Any, df: Any) -> Summary:
    """Means from ν > 1 on, variances from ν > 2 on."""
    mean = np.where(df > 1, loc, np.nan)
    sd = np.where(df > 2, scale * np.sqrt(df / np.maximum(df - 2, 1e-300)), np.inf)
    return Summary(mean, sd, lambda edge: loc + scale * special.stdtrit(df, edge))


def _log_normal(given: Mapping[str, Any]) -> Summary:
    loc, scale = given["loc"], given["scale"]
    mean = np.exp(loc + scale**2 / 2)
    return Summary(mean, mean * np.sqrt(np.expm1(scale**2)), lambda edge: np.exp(loc + scale * special.ndtri(edge)))


def _uniform(given: Mapping[str, Any]) -> Summary:
    low, width = given["low"], given["high"] - given["low"]
    return Summary(low + width / 2, width / np.sqrt(12.0), lambda edge: low + width * edge)


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


_normal = _located(special.ndtri, 0.0, 1.0)

SUMMARIES: dict[str, Callable[[Mapping[str, Any]], Summary]] = {
    "Normal": _normal,
    "HalfNormal": _located(lambda edge: special.ndtri((1 + edge) / 2), np.sqrt(2 / np.pi), np.sqrt(1 - 2 / np.pi)),
    "Cauchy": _located(lambda edge: np.tan(np.pi * (edge - 0.5)), np.nan, np.nan),
    "HalfCauchy": _located(lambda edge: np.tan(np.pi * edge / 2), np.inf, np.inf),
    "Laplace": _located(lambda edge: -np.sign(edge - 0.5) * np.log1p(-2 * abs(edge - 0.5)), 0.0, np.sqrt(2.0)),
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
    "Poisson": lambda given: Summary(given["rate"], np.sqrt(given["rate"])),
    "Bernoulli": lambda given: Summary(given["probs"], np.sqrt(given["probs"] * (1 - given["probs"]))),
    "BernoulliProbs": lambda given: Summary(given["probs"], np.sqrt(given["probs"] * (1 - given["probs"]))),
    "Binomial": lambda given: _binomial(given["total_count"], given["probs"]),
    "BinomialProbs": lambda given: _binomial(given["total_count"], given["probs"]),
}


def _binomial(count: Any, p: Any) -> Summary:
    return Summary(count * p, np.sqrt(count * p * (1 - p)))
