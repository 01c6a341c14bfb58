"""One example of every family, built alike by the library and by numpyro, which is the oracle of the numerics."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpyro.distributions as numpyro_families
from numpyro.distributions import constraints, transforms

from fubini import dist

EYE = np.eye(2)
ROOT = np.array([[1.2, 0.0], [0.4, 0.8]])
COVARIANCE = ROOT @ ROOT.T
CORRELATION = np.array([[1.0, 0.4], [0.4, 1.0]])
ADJACENT = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
PROBS = np.array([0.2, 0.3, 0.5])


class Recipe(NamedTuple):
    """A family, its parameters, which may be recipes, and the one that is varied over a batch by scaling it."""

    family: str
    given: Mapping[str, Any]
    vary: str = ""
    proper: bool = True

    def ours(self, **changed: Any) -> dist.Distribution:
        return _made(dist, self, changed)

    def theirs(self, **changed: Any) -> Any:
        return _made(numpyro_families, self, changed)

    @property
    def given_names(self) -> tuple[str, ...]:
        return tuple(self.given)


def _made(module: Any, recipe: Recipe, changed: Mapping[str, Any]) -> Any:
    def of(value: Any) -> Any:
        if isinstance(value, Recipe):
            return value.ours() if module is dist else value.theirs()
        return [of(part) for part in value] if isinstance(value, list) else value

    return getattr(module, recipe.family)(**{key: of(value) for key, value in {**recipe.given, **changed}.items()})


def drift(x: Any, t: Any) -> tuple[Any, Any]:
    return -0.5 * x, 0.3 + 0.0 * x


NORMAL = Recipe("Normal", {"loc": 0.3, "scale": 1.2})
GAMMA = Recipe("Gamma", {"concentration": 2.5, "rate": 1.5})
POISSON = Recipe("Poisson", {"rate": 1.7})
MIXING = Recipe("Categorical", {"probs": np.array([0.3, 0.7])})
NORMALS = Recipe("Normal", {"loc": np.array([-1.0, 1.5]), "scale": np.array([0.7, 1.1])})


def _recipes() -> dict[str, Recipe]:
    r = Recipe
    found = [
        r("AsymmetricLaplace", {"loc": 0.3, "scale": 1.2, "asymmetry": 1.4}, "loc"),
        r("AsymmetricLaplaceQuantile", {"loc": 0.3, "scale": 1.2, "quantile": 0.3}, "quantile"),
        r("Bernoulli", {"probs": 0.3}, "probs"),
        r("BernoulliLogits", {"logits": 0.4}, "logits"),
        r("BernoulliProbs", {"probs": 0.3}, "probs"),
        r("Beta", {"concentration1": 2.0, "concentration0": 3.5}, "concentration1"),
        r("BetaBinomial", {"concentration1": 2.0, "concentration0": 3.5, "total_count": 4}, "concentration0"),
        r("BetaNegativeBinomial", {"concentration1": 2.0, "concentration0": 30.0, "n": 3.0}, "concentration1"),
        r("BetaProportion", {"mean": 0.3, "concentration": 6.0}, "mean"),
        r("Binomial", {"total_count": 4, "probs": 0.3}, "probs"),
        r("BinomialLogits", {"logits": 0.4, "total_count": 4}, "logits"),
        r("BinomialProbs", {"probs": 0.3, "total_count": 4}, "probs"),
        r(
            "CAR",
            {"loc": np.zeros(3), "correlation": 0.4, "conditional_precision": 1.3, "adj_matrix": ADJACENT},
            "conditional_precision",
        ),
        r("Categorical", {"probs": PROBS}, ""),
        r("CategoricalLogits", {"logits": np.array([0.1, -0.4, 0.7])}, "logits"),
        r("CategoricalProbs", {"probs": PROBS}, ""),
        r("Cauchy", {"loc": 0.3, "scale": 1.2}, "scale"),
        r("Chi2", {"df": 3.0}, "df"),
        r("CirculantNormal", {"loc": np.zeros(3), "covariance_row": np.array([1.0, 0.3, 0.3])}, "covariance_row"),
        r("Dagum", {"concentration": 3.0, "sharpness": 4.0, "scale": 1.2}, "scale"),
        r("Delta", {"v": 0.7, "log_density": 0.0}, "v"),
        r("Dirichlet", {"concentration": np.array([1.5, 2.0, 3.0])}, "concentration"),
        r("DirichletMultinomial", {"concentration": np.array([1.5, 2.0, 3.0]), "total_count": 4}, "concentration"),
        r("DiscreteUniform", {"low": 0, "high": 3}, ""),
        r("DoublyTruncatedPowerLaw", {"alpha": -1.7, "low": 0.5, "high": 3.0}, "alpha"),
        r(
            "EulerMaruyama",
            {"t": np.array([0.0, 0.1, 0.2]), "sde_fn": drift, "init_dist": Recipe("Normal", {})},
            "",
        ),
        r("ExpandedDistribution", {"base_dist": NORMAL, "batch_shape": (3,)}, ""),
        r("Exponential", {"rate": 1.4}, "rate"),
        r("FoldedDistribution", {"base_dist": NORMAL}, ""),
        GAMMA._replace(vary="concentration"),
        r("GammaPoisson", {"concentration": 2.5, "rate": 1.5}, "concentration"),
        r(
            "GaussianCopula",
            {
                "marginal_dist": r("Beta", {"concentration1": np.array([2.0, 3.0]), "concentration0": 2.5}),
                "correlation_matrix": CORRELATION,
            },
            "",
        ),
        r(
            "GaussianCopulaBeta",
            {"concentration1": np.array([2.0, 3.0]), "concentration0": 2.5, "correlation_matrix": CORRELATION},
            "concentration0",
        ),
        r("GaussianRandomWalk", {"scale": 0.7, "num_steps": 3}, "scale"),
        r(
            "GaussianStateSpace",
            {"num_steps": 3, "transition_matrix": 0.5 * ROOT, "covariance_matrix": COVARIANCE},
            "covariance_matrix",
        ),
        r("Geometric", {"probs": 0.4}, "probs"),
        r("GeometricLogits", {"logits": 0.4}, "logits"),
        r("GeometricProbs", {"probs": 0.4}, "probs"),
        r("Gompertz", {"concentration": 1.4, "rate": 0.8}, "rate"),
        r("Gumbel", {"loc": 0.3, "scale": 1.2}, "loc"),
        r("HalfCauchy", {"scale": 1.2}, "scale"),
        r("HalfNormal", {"scale": 1.2}, "scale"),
        r("HurdleDistribution", {"base_dist": POISSON, "gate": 0.3}, "gate"),
        r("HurdleGamma", {"gate": 0.3, "concentration": 2.5, "rate": 1.5}, "gate"),
        r("HurdleLogits", {"base_dist": POISSON, "gate_logits": 0.4}, "gate_logits"),
        r("HurdleLogNormal", {"gate": 0.3, "loc": 0.3, "scale": 0.6}, "gate"),
        r("HurdleNegativeBinomial2", {"gate": 0.3, "mean": 1.7, "concentration": 2.5}, "gate"),
        r("HurdlePoisson", {"gate": 0.3, "rate": 1.7}, "rate"),
        r("HurdleProbs", {"base_dist": POISSON, "gate": 0.3}, "gate"),
        r(
            "ImproperUniform",
            {"support": constraints.positive, "batch_shape": (), "event_shape": ()},
            proper=False,
        ),
        r("Independent", {"base_dist": NORMALS, "reinterpreted_batch_ndims": 1}, ""),
        r("InverseGamma", {"concentration": 4.5, "rate": 1.5}, "rate"),
        r("InverseWishart", {"concentration": 7.0, "scale_tril": ROOT}, "concentration"),
        r("InverseWishartCholesky", {"concentration": 7.0, "scale_tril": ROOT}, "concentration"),
        r("Kumaraswamy", {"concentration1": 2.0, "concentration0": 3.5}, "concentration0"),
        r("Laplace", {"loc": 0.3, "scale": 1.2}, "scale"),
        r("LeftTruncatedDistribution", {"base_dist": NORMAL, "low": -0.5}, "low"),
        r("LeftTruncatedGamma", {"base_dist": GAMMA, "low": 0.5}, "low"),
        r("Levy", {"loc": 0.3, "scale": 1.2}, "scale"),
        r("LKJ", {"dimension": 2, "concentration": 1.5}, "concentration"),
        r("LKJCholesky", {"dimension": 3, "concentration": 1.5}, "concentration"),
        r("Logistic", {"loc": 0.3, "scale": 1.2}, "scale"),
        r("LogNormal", {"loc": 0.3, "scale": 0.6}, "scale"),
        r("LogUniform", {"low": 0.5, "high": 3.0}, "high"),
        r("LowerTruncatedPowerLaw", {"alpha": -4.5, "low": 0.5}, "alpha"),
        r(
            "LowRankMultivariateNormal",
            {
                "loc": np.array([0.3, -0.2, 0.5]),
                "cov_factor": np.array([[0.5], [0.2], [0.1]]),
                "cov_diag": np.array([1.0, 0.5, 0.8]),
            },
            "cov_diag",
        ),
        r("MaskedDistribution", {"base_dist": NORMALS, "mask": np.array([True, False])}, proper=False),
        r("MatrixNormal", {"loc": 0.3 * EYE, "scale_tril_row": ROOT, "scale_tril_column": ROOT.T @ ROOT}, "loc"),
        r("Mixture", {"mixing_distribution": MIXING, "component_distributions": NORMALS}, ""),
        r(
            "MixtureGeneral",
            {"mixing_distribution": MIXING, "component_distributions": [NORMAL, r("Cauchy", {"loc": 1.0})]},
            "",
        ),
        r("MixtureSameFamily", {"mixing_distribution": MIXING, "component_distribution": NORMALS}, ""),
        r("Multinomial", {"total_count": 4, "probs": PROBS}, ""),
        r("MultinomialLogits", {"logits": np.array([0.1, -0.4, 0.7]), "total_count": 4}, "logits"),
        r("MultinomialProbs", {"probs": PROBS, "total_count": 4}, ""),
        r("MultivariateNormal", {"loc": np.array([0.3, -0.2]), "covariance_matrix": COVARIANCE}, "covariance_matrix"),
        r("MultivariateStudentT", {"df": 5.0, "loc": np.array([0.3, -0.2]), "scale_tril": ROOT}, "df"),
        r("NegativeBinomial", {"total_count": 3.0, "probs": 0.4}, "probs"),
        r("NegativeBinomial2", {"mean": 1.7, "concentration": 2.5}, "mean"),
        r("NegativeBinomialLogits", {"total_count": 3.0, "logits": 0.4}, "logits"),
        r("NegativeBinomialProbs", {"total_count": 3.0, "probs": 0.4}, "probs"),
        NORMAL._replace(vary="loc"),
        r("OrderedLogistic", {"predictor": 0.3, "cutpoints": np.array([-0.5, 0.8])}, "predictor"),
        r("Pareto", {"scale": 0.7, "alpha": 3.5}, "alpha"),
        POISSON._replace(vary="rate"),
        r("ProjectedNormal", {"concentration": np.array([0.4, 0.9])}, "concentration"),
        r("RelaxedBernoulli", {"temperature": 0.8, "logits": 0.4}, "logits"),
        r("RelaxedBernoulliLogits", {"temperature": 0.8, "logits": 0.4}, "temperature"),
        r("RightTruncatedDistribution", {"base_dist": NORMAL, "high": 0.8}, "high"),
        r("RightTruncatedGamma", {"base_dist": GAMMA, "high": 2.0}, "high"),
        r("LeftCensoredDistribution", {"base_dist": NORMAL, "censored": 1.0}, proper=False),
        r("RightCensoredDistribution", {"base_dist": NORMAL, "censored": 1.0}, proper=False),
        r(
            "IntervalCensoredDistribution",
            {"base_dist": NORMAL, "left_censored": 0.0, "right_censored": 1.0},
            proper=False,
        ),
        r(
            "SineBivariateVonMises",
            {"phi_loc": 0.1, "psi_loc": -0.3, "phi_concentration": 2.0, "psi_concentration": 3.0, "correlation": 0.5},
            "correlation",
        ),
        r(
            "SineSkewed",
            {
                "base_dist": r(
                    "Independent",
                    {
                        "base_dist": r("VonMises", {"loc": np.array([0.1, 0.4]), "concentration": 2.0}),
                        "reinterpreted_batch_ndims": 1,
                    },
                ),
                "skewness": np.array([0.3, -0.2]),
            },
            "skewness",
        ),
        r("SoftLaplace", {"loc": 0.3, "scale": 1.2}, "scale"),
        r("StudentT", {"df": 5.0, "loc": 0.3, "scale": 1.2}, "df"),
        r(
            "TransformedDistribution",
            {"base_distribution": NORMAL, "transforms": transforms.AffineTransform(0.5, 2.0)},
            "",
        ),
        r("TruncatedCauchy", {"loc": 0.3, "scale": 1.2, "low": -1.0, "high": 2.0}, "loc"),
        r("TruncatedDistribution", {"base_dist": NORMAL, "low": -1.0, "high": 2.0}, "high"),
        r("TruncatedGamma", {"concentration": 2.5, "rate": 1.5, "low": 0.5, "high": 3.0}, "rate"),
        r("TruncatedNormal", {"loc": 0.3, "scale": 1.2, "low": -1.0, "high": 2.0}, "low"),
        r("TruncatedPolyaGamma", {}, ""),
        r("TwoSidedTruncatedDistribution", {"base_dist": NORMAL, "low": -1.0, "high": 2.0}, "low"),
        r("TwoSidedTruncatedGamma", {"base_dist": GAMMA, "low": 0.5, "high": 3.0}, "high"),
        r("Uniform", {"low": -0.5, "high": 2.0}, "high"),
        r("Unit", {"log_factor": 0.4}, proper=False),
        r("VonMises", {"loc": 0.3, "concentration": 2.0}, "concentration"),
        r("Weibull", {"scale": 1.2, "concentration": 1.7}, "scale"),
        r("Wishart", {"concentration": 7.0, "scale_tril": ROOT}, "concentration"),
        r("WishartCholesky", {"concentration": 7.0, "scale_tril": ROOT}, "concentration"),
        r("ZeroInflatedDistribution", {"base_dist": POISSON, "gate": 0.3}, "gate"),
        r("ZeroInflatedLogits", {"base_dist": POISSON, "gate_logits": 0.4}, "gate_logits"),
        r("ZeroInflatedNegativeBinomial2", {"mean": 1.7, "concentration": 2.5, "gate": 0.3}, "mean"),
        r("ZeroInflatedPoisson", {"gate": 0.3, "rate": 1.7}, "gate"),
        r("ZeroInflatedProbs", {"base_dist": POISSON, "gate": 0.3}, "gate"),
        r("ZeroSumNormal", {"scale": 1.2, "event_shape": (3,)}, "scale"),
    ]
    return {recipe.family: recipe for recipe in found}


RECIPES = _recipes()
Built = Callable[[], Any]
