"""Every family of numpyro: density, support, mass, moments, draws and batches, with numpyro itself as the oracle.

The recipes below build one example of each family alike by the library and by numpyro.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_families
import pytest
from numpyro.distributions import biject_to, constraints, transforms

import fubini as fb
from fubini import dist
from fubini.base.domains import Integer
from fubini.distributions.density import CIRCULAR
from fubini.errors import DataError, DomainError, Intractable, NoRule
from fubini.terms.value import to_array

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
        r("MatrixNormal", {"loc": 0.3 * EYE, "scale_tril_row": ROOT, "scale_tril_column": EYE + 0.5 * ROOT}, "loc"),
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


# -- helpers --------------------------------------------------------------------------------------------------------

VECTORS = {  # support points of families whose values are arrays of integers, or fixed
    "Delta": [0.7],
    "DirichletMultinomial": [[1, 1, 2], [4, 0, 0]],
    "Multinomial": [[1, 1, 2], [4, 0, 0]],
    "MultinomialLogits": [[0, 3, 1], [0, 0, 4]],
    "MultinomialProbs": [[1, 1, 2], [0, 2, 2]],
    "ProjectedNormal": [[0.6, 0.8], [-1.0, 0.0]],
    "LKJ": [[[1.0, 0.3], [0.3, 1.0]]],
    "IntervalCensoredDistribution": [[0.1, 0.9]],
    "Unit": [np.zeros(0)],
}
OUTSIDE = {  # points of the domain that are not in the support
    "Dirichlet": [0.5, 0.6, 0.2],
    "Multinomial": [1, 1, 1],
    "DirichletMultinomial": [5, 0, 0],
    "InverseWishart": [[1.0, 2.0], [2.0, 1.0]],
    "Wishart": [[1.0, 0.0], [0.5, 1.0]],
    "WishartCholesky": [[1.0, 0.5], [0.0, 1.0]],
    "LKJ": [[1.0, 1.3], [1.3, 1.0]],
    "LKJCholesky": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.6, 0.6]],
    "ProjectedNormal": [1.0, 1.0],
    "ZeroSumNormal": [1.0, 0.0, 0.0],
    "Delta": 0.9,
    "DoublyTruncatedPowerLaw": 3.5,
    "LogUniform": 0.3,
    "Uniform": 2.5,
    "Pareto": 0.6,
    "Levy": 0.1,
    "LowerTruncatedPowerLaw": 0.4,
    "LeftTruncatedDistribution": -0.6,
    "LeftTruncatedGamma": 0.4,
    "RightTruncatedDistribution": 0.9,
    "RightTruncatedGamma": 2.1,
    "TruncatedCauchy": -1.5,
    "TruncatedDistribution": 2.5,
    "TruncatedGamma": 0.4,
    "TruncatedNormal": 2.5,
    "TruncatedPolyaGamma": -0.5,
    "TwoSidedTruncatedDistribution": -1.5,
    "TwoSidedTruncatedGamma": 3.5,
}
BINT, NAT, POSITIVE, UNIT = fb.Bint, fb.Nat, fb.Positive, fb.Unit
SHAPED = {
    "CAR": fb.Reals[3],
    "CirculantNormal": fb.Reals[3],
    "Dirichlet": fb.Simplex[3],
    "EulerMaruyama": fb.Reals[3],
    "ExpandedDistribution": fb.Reals[3],
    "GaussianCopula": UNIT[2],
    "GaussianCopulaBeta": UNIT[2],
    "GaussianRandomWalk": fb.Reals[3],
    "GaussianStateSpace": fb.Reals[3, 2],
    "Independent": fb.Reals[2],
    "IntervalCensoredDistribution": fb.Reals[2],
    "InverseWishart": fb.PositiveDefinite[2],
    "InverseWishartCholesky": fb.Reals[2, 2],
    "LKJ": fb.Reals[2, 2],
    "LKJCholesky": fb.Reals[3, 3],
    "LowRankMultivariateNormal": fb.Reals[3],
    "MaskedDistribution": fb.Reals[2],
    "MatrixNormal": fb.Reals[2, 2],
    "MultivariateNormal": fb.Reals[2],
    "MultivariateStudentT": fb.Reals[2],
    "ProjectedNormal": fb.Reals[2],
    "SineBivariateVonMises": fb.Reals[2],
    "SineSkewed": fb.Reals[2],
    "Unit": fb.Reals[0],
    "Wishart": fb.PositiveDefinite[2],
    "WishartCholesky": fb.Reals[2, 2],
    "ZeroSumNormal": fb.Reals[3],
}
NAMED = {
    BINT[2]: "Bernoulli BernoulliLogits BernoulliProbs",
    BINT[3]: "Categorical CategoricalLogits CategoricalProbs OrderedLogistic",
    BINT[4]: "DiscreteUniform",
    BINT[5]: "BetaBinomial Binomial BinomialLogits BinomialProbs",
    Integer[3]: "DirichletMultinomial Multinomial MultinomialLogits MultinomialProbs",
    NAT: "BetaNegativeBinomial GammaPoisson Geometric GeometricLogits GeometricProbs HurdleDistribution HurdleLogits "
    "HurdleNegativeBinomial2 HurdlePoisson HurdleProbs NegativeBinomial NegativeBinomial2 NegativeBinomialLogits "
    "NegativeBinomialProbs Poisson ZeroInflatedDistribution ZeroInflatedLogits ZeroInflatedNegativeBinomial2 "
    "ZeroInflatedPoisson ZeroInflatedProbs",
    POSITIVE: "Chi2 Dagum Exponential FoldedDistribution Gamma Gompertz HalfCauchy HalfNormal HurdleGamma "
    "HurdleLogNormal ImproperUniform InverseGamma LogNormal Weibull",
    UNIT: "Beta BetaProportion Kumaraswamy RelaxedBernoulli RelaxedBernoulliLogits",
}
DOMAINS = {**SHAPED, **{name: domain for domain, names in NAMED.items() for name in names.split()}}
ATOMS = ("HurdleGamma", "HurdleLogNormal")  # a point mass at 0 beside a density

every = pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)


def of(*families: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("recipe", [RECIPES[name] for name in families], ids=families)


def sparing(*families: str) -> pytest.MarkDecorator:
    """The same, where all but one of each kind are slow: numpyro's numerics take JAX long to trace."""
    marked = [pytest.param(RECIPES[name], marks=[pytest.mark.slow] * (name not in LIGHT), id=name) for name in families]
    return pytest.mark.parametrize("recipe", marked)


LIGHT = frozenset(  # one of each kind, soon traced
    [
        "BernoulliProbs",
        "Cauchy",
        "Delta",
        "DiscreteUniform",
        "Exponential",
        "HalfNormal",
        "ImproperUniform",
        "Independent",
        "Laplace",
        "LogNormal",
        "MixtureSameFamily",
        "MultinomialProbs",
        "MultivariateNormal",
        "Normal",
        "Poisson",
        "RightTruncatedDistribution",
        "Uniform",
        "Unit",
        "ZeroInflatedPoisson",
    ]
)


PROPER = tuple(name for name, recipe in RECIPES.items() if recipe.proper)
SCALAR = tuple(name for name in PROPER if name not in SHAPED and name not in VECTORS)


def numpyro_of(recipe: Recipe, **changed: Any) -> Any:
    with jax.enable_x64(True):
        return recipe.theirs(**changed)


def log_prob(theirs: Any, point: Any) -> float:
    with jax.enable_x64(True):
        return float(jnp.sum(theirs.log_prob(jnp.asarray(point))))


def points(recipe: Recipe, seed: int = 0) -> list[np.ndarray]:
    """A few random points of the support."""
    if recipe.family in VECTORS:
        return [np.asarray(point) for point in VECTORS[recipe.family]]
    theirs, generator = numpyro_of(recipe), np.random.default_rng(seed)
    if getattr(theirs.support, "is_discrete", False):
        inside = [k for k in range(8) if theirs.support(k)]
        return list(generator.choice(inside, 2, replace=False))
    with jax.enable_x64(True):
        onto = biject_to(theirs.support)
        free = onto.inverse_shape(tuple(theirs.batch_shape) + tuple(theirs.event_shape))
        return [np.asarray(onto(jnp.asarray(generator.normal(size=free)))) for _ in range(2)]


def asked(what: str, theirs: Any) -> Any:
    """numpyro's mean, variance or entropy, or None where it has none."""
    with jax.enable_x64(True):
        try:
            found = getattr(theirs, what)
            return np.asarray(jnp.sum(found()) if what == "entropy" else found)
        except NotImplementedError:
            return None


# -- tests ----------------------------------------------------------------------------------------------------------


def test_no_family_is_left_out() -> None:
    assert set(RECIPES) == set(dist.family_names())


@every
def test_domain(recipe: Recipe) -> None:
    f = recipe.ours()("x")
    assert f.inputs == {"x": DOMAINS.get(recipe.family, fb.Real)}
    assert str(f.exactness) == "exact"


@sparing(*RECIPES)
@pytest.mark.one_in(3)
def test_log_density(recipe: Recipe) -> None:
    """At a name and at a value alike."""
    theirs, distribution = numpyro_of(recipe), recipe.ours()
    for point in points(recipe):
        right = log_prob(theirs, point)
        assert np.isfinite(right)
        assert float(distribution("x")(x=point).log()) == pytest.approx(right, rel=1e-10, abs=1e-10)
        assert float(distribution(point).log()) == pytest.approx(right, rel=1e-10, abs=1e-10)


@sparing(*OUTSIDE)
def test_zero_outside_the_support(recipe: Recipe) -> None:
    point = np.asarray(OUTSIDE[recipe.family])
    assert float(recipe.ours()("x")(x=point).log()) == -np.inf
    assert float(recipe.ours()(point)) == 0.0


@sparing(*(name for domain in (POSITIVE, UNIT, NAT) for name in NAMED[domain].split()))
def test_outside_the_domain(recipe: Recipe) -> None:
    """At a value the density is zero; under its name the domain forbids it."""
    point = np.asarray(-1 if recipe.family in NAMED[NAT].split() else -0.5)
    assert float(recipe.ours()(fb.Array(point)).log()) == -np.inf
    with pytest.raises(DataError, match="outside"):
        recipe.ours()("x")(x=point)


@of(*PROPER)
def test_sums_to_one(recipe: Recipe) -> None:
    total = recipe.ours()("x").sum("x")
    assert total.inputs == {} and str(total.exactness) == "exact"
    assert float(total) == pytest.approx(1.0, abs=1e-12)


def test_unit_sums_to_its_factor() -> None:
    """Over the one point of a space of dimension zero."""
    assert float(dist.Unit(0.4)("x").sum("x").log()) == pytest.approx(0.4, rel=1e-12)


@sparing(*(name for name in RECIPES if name not in PROPER and name != "Unit"))
def test_improper_is_not_summed(recipe: Recipe) -> None:
    with pytest.raises((Intractable, DataError), match="'x'"):
        recipe.ours()("x").sum("x")


@pytest.mark.slow
@of(*SCALAR)
@pytest.mark.one_in(4)
def test_numpyro_is_normalised(recipe: Recipe) -> None:
    """By enumeration, or by the trapezoidal rule over the whole real line mapped onto the support."""
    theirs = numpyro_of(recipe)
    with jax.enable_x64(True):
        if getattr(theirs.support, "is_discrete", False):
            numbers = np.arange(3000)
            mass = jnp.sum(jnp.exp(theirs.log_prob(jnp.asarray(numbers[np.asarray(theirs.support(numbers))]))))
        else:
            everywhere = theirs.support is constraints.real
            onto = biject_to(theirs.support)
            v = jnp.linspace(-18.0, 18.0, 20001) if everywhere else jnp.linspace(-30.0, 30.0, 20001)
            u, slope = (jnp.sinh(v), jnp.cosh(v)) if everywhere else (v, 1.0)
            x = onto(u)
            log = theirs.log_prob(x) + onto.log_abs_det_jacobian(u, x)
            inside = jnp.where(jnp.isfinite(log), jnp.exp(log), 0.0) * slope
            mass = jnp.trapezoid(inside, v)
            if recipe.family in ATOMS:
                mass = mass + jnp.exp(theirs.log_prob(0.0))
        assert float(mass) == pytest.approx(1.0, abs=1e-5)


@sparing(*PROPER)
@pytest.mark.parametrize("what", ["mean", "variance"])
@pytest.mark.one_in(4)
def test_moments(recipe: Recipe, what: str) -> None:
    """numpyro's, or those of the Table or Gaussian, or a clear error."""
    f, right = recipe.ours()("x"), asked(what, numpyro_of(recipe))
    if what == "variance" and recipe.family in CIRCULAR:
        right = None  # numpyro's is not that of x
    table = f.inputs["x"].is_finite
    by_hand = MEANS if what == "mean" else VARIANCES
    if right is None and not table and recipe.family not in (*GAUSSIANS, *by_hand):
        with pytest.raises(NoRule, match=what) as caught:
            getattr(f, what)("x")
        assert recipe.family in str(caught.value) and "expected:" in str(caught.value)
        return
    found = np.asarray(getattr(f, what)("x").data)
    if table:
        support = np.arange(f.inputs["x"].size)
        p = np.exp([log_prob(numpyro_of(recipe), k) for k in support])
        mean = support @ p
        right = mean if what == "mean" else (support - mean) ** 2 @ p
    if right is None:
        right = by_hand[recipe.family]
    assert found.shape == f.inputs["x"].shape
    np.testing.assert_allclose(found, np.broadcast_to(right, found.shape), rtol=1e-9, atol=1e-12)


def power_moment(j: int) -> float:
    """∫ x^(j − 1.7) dx / ∫ x^−1.7 dx from ½ to 3"""
    whole, part = ((3.0**p - 0.5**p) / p for p in (-0.7, j - 0.7))
    return part / whole


MEANS = {"TransformedDistribution": 0.5 + 2.0 * 0.3, "DoublyTruncatedPowerLaw": power_moment(1)}
VARIANCES = {  # for which numpyro has none, by hand
    "DoublyTruncatedPowerLaw": power_moment(2) - power_moment(1) ** 2,
    "CAR": np.diag(np.linalg.inv(1.3 * (np.diag(ADJACENT.sum(0)) - 0.4 * ADJACENT))),
    "MatrixNormal": np.outer(np.diag(COVARIANCE), np.diag((EYE + 0.5 * ROOT) @ (EYE + 0.5 * ROOT).T)),
    "TransformedDistribution": 4.0 * 1.44,
}
GAUSSIANS = [
    "CAR",
    "ExpandedDistribution",
    "GaussianRandomWalk",
    "GaussianStateSpace",
    "Independent",
    "LowRankMultivariateNormal",
    "MatrixNormal",
    "MultivariateNormal",
    "Normal",
    "TransformedDistribution",
]


@sparing(*PROPER)
@pytest.mark.one_in(4)
def test_entropy(recipe: Recipe) -> None:
    f, theirs = recipe.ours()("x"), numpyro_of(recipe)
    right = asked("entropy", theirs)
    if f.inputs["x"].is_finite:
        logs = np.array([log_prob(theirs, k) for k in range(f.inputs["x"].size)])
        right = -np.exp(logs) @ logs
    elif right is None and recipe.family in GAUSSIANS:
        covariance = np.asarray(f.covariance("x").data).reshape(2 * [int(np.prod(f.inputs["x"].shape))])
        right = 0.5 * np.linalg.slogdet(2 * np.pi * np.e * covariance)[1]
    if right is None or recipe.family == "Delta":
        with pytest.raises(NoRule, match="entropy") as caught:
            f.entropy("x")
        assert "expected:" in str(caught.value)
        return
    assert float(f.entropy("x")) == pytest.approx(float(right), rel=1e-9)


# -- draws ----------------------------------------------------------------------------------------------------------

WITHOUT_SAMPLER = ("GaussianCopula", "GaussianCopulaBeta")  # numpyro needs another library for these
# Those with two moments that compile soon. VonMises is not among them: numpyro's variance of it is circular.
CHEAP = [
    "AsymmetricLaplace",
    "Bernoulli",
    "Binomial",
    "Categorical",
    "CirculantNormal",
    "Delta",
    "Dirichlet",
    "DiscreteUniform",
    "Exponential",
    "ExpandedDistribution",
    "Gamma",
    "GaussianRandomWalk",
    "Geometric",
    "Gumbel",
    "HurdleLogNormal",
    "Independent",
    "Kumaraswamy",
    "Laplace",
    "LogNormal",
    "LogUniform",
    "LowRankMultivariateNormal",
    "MatrixNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "Normal",
    "Pareto",
    "Poisson",
    "TransformedDistribution",
    "TruncatedNormal",
    "Uniform",
    "Weibull",
    "ZeroInflatedPoisson",
    "ZeroSumNormal",
]


@sparing(*(name for name in PROPER if name not in WITHOUT_SAMPLER))
def test_draws_have_the_shape_and_kind_of_the_domain(recipe: Recipe) -> None:
    """Abstractly, so that nothing is compiled: n first, then the event; integers for integers."""
    f = recipe.ours()("x")
    found = jax.eval_shape(lambda key: f.sample(key, "x", n=7), jax.random.key(0))["x"]
    domain = f.inputs["x"]
    assert found.shape == (7, *domain.shape)
    assert jnp.issubdtype(found.dtype, jnp.integer if domain.is_discrete else jnp.floating)


@pytest.mark.slow
@of(*CHEAP)
@pytest.mark.one_in(3)
def test_moments_of_draws(recipe: Recipe) -> None:
    """4000 draws in double precision, inside the support: mean and variance within five standard errors."""
    f, theirs, n = recipe.ours()("x"), numpyro_of(recipe), 4000
    found = np.asarray(f.sample(jax.random.key(3), "x", n=n)["x"])
    domain = f.inputs["x"]
    assert found.shape == (n, *domain.shape)
    assert found.dtype == (np.int64 if domain.is_discrete else np.float64)
    with jax.enable_x64(True):
        assert np.all(np.isfinite(np.asarray(theirs.log_prob(jnp.asarray(found)))))
    mean, variance = np.asarray(f.mean("x").data), np.asarray(f.variance("x").data)
    fourth = np.mean((found - mean) ** 4, 0)
    assert np.all(np.abs(found.mean(0) - mean) <= 5 * np.sqrt(variance / n) + 1e-12)
    assert np.all(np.abs(np.mean((found - mean) ** 2, 0) - variance) <= 5 * np.sqrt(fourth / n) + 1e-12)


def test_draws_are_fixed_by_the_key() -> None:
    f = dist.Exponential(2.0)("g")
    draws = [f.sample(jax.random.key(seed), n=3)["g"] for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.any(draws[0] == draws[2])


def test_draws_for_each_cell_are_independent() -> None:
    f = dist.Laplace(fb.Array(np.array([-3.0, 4.0]), ("i",)), 1.0)("x")
    found = f.sample(jax.random.key(0), "x", n=4000)["x"]
    assert found.shape == (4000, 2)
    np.testing.assert_allclose(found.mean(0), [-3.0, 4.0], atol=5 * np.sqrt(2 / 4000))
    assert abs(np.corrcoef(found.T)[0, 1]) < 5 / np.sqrt(4000)


# -- batches --------------------------------------------------------------------------------------------------------

VARIED = tuple(name for name, recipe in RECIPES.items() if recipe.vary)
BATCHES = {"()": (), "(5,)": (5,), "(2,3)": (2, 3)}
SOME = [
    "Binomial",
    "Cauchy",
    "Dirichlet",
    "GaussianRandomWalk",
    "HurdlePoisson",
    "MatrixNormal",
    "MultivariateNormal",
    "Uniform",
]


def varied(recipe: Recipe, batch: tuple[int, ...]) -> tuple[np.ndarray, fb.Array]:
    """Values of one parameter along named axes: as it is times 1, 1.02, 1.04 …"""
    base = np.asarray(recipe.given[recipe.vary], float)
    steps = 1.0 + 0.02 * np.arange(int(np.prod(batch))).reshape(batch)
    data = steps.reshape(batch + (1,) * base.ndim) * base
    return data, fb.Array(data, ("i", "j")[: len(batch)])


@pytest.mark.slow
@of(*(name for name in VARIED if name not in SHAPED and name not in SOME))
@pytest.mark.one_in(3)
def test_a_parameter_along_named_axes(recipe: Recipe) -> None:
    """Each cell is the family with that number; the domain of the variable is the same."""
    data, array = varied(recipe, (2,))
    f = recipe.ours(**{recipe.vary: array})("x")
    assert f.inputs == {"x": DOMAINS.get(recipe.family, fb.Real), "i": fb.Bint[2]}
    (point, *_) = points(recipe._replace(given={**recipe.given, recipe.vary: data[1]}))
    right = [log_prob(numpyro_of(recipe, **{recipe.vary: row}), point) for row in data]
    np.testing.assert_allclose(to_array(f(x=point).log()).data, right, rtol=1e-10, atol=1e-10)


@sparing(*SOME)
@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_batches(recipe: Recipe, batch: tuple[int, ...]) -> None:
    """Density, mass and mean for each cell; event dimensions 0, 1 and 2."""
    data, array = varied(recipe, batch)
    f = recipe.ours(**{recipe.vary: array})("x")
    names = ("i", "j")[: len(batch)]
    assert {name: f.inputs[name] for name in names} == {
        name: fb.Bint[size] for name, size in zip(names, batch, strict=True)
    }
    (point, *_) = points(recipe)
    found = to_array(f(x=point).log()).data
    mass = to_array(f.sum("x").log())
    assert found.shape == batch and set(mass.names) <= set(names)
    np.testing.assert_allclose(mass.data, np.zeros_like(mass.data), atol=1e-12)
    for cell in (tuple(np.zeros(len(batch), int)), tuple(np.array(batch, int) - 1)):
        theirs = numpyro_of(recipe, **{recipe.vary: data[cell]})
        assert float(found[cell]) == pytest.approx(log_prob(theirs, point), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("event", [(), (3,), (2, 3)], ids=str)
def test_independent_of_event_rank(batch: tuple[int, ...], event: tuple[int, ...]) -> None:
    """to_event of an array of Laplaces whose locations have named axes: the sum of the elements' logs."""
    generator = np.random.default_rng(0)
    loc, point = generator.normal(size=batch + event), generator.normal(size=event)
    array = fb.Array(loc, ("i", "j")[: len(batch)])
    f = dist.Laplace(array, 0.7).to_event(len(event))("x")
    assert f.inputs["x"] == fb.Real.with_shape(event)
    logs = -np.abs(point - loc) / 0.7 - np.log(1.4)
    right = logs.reshape((*batch, -1)).sum(-1)
    np.testing.assert_allclose(to_array(f(x=point).log()).data, right, rtol=1e-12)


@pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES)
def test_expand(batch: tuple[int, ...]) -> None:
    """Independent copies: the density of an array is the product over its elements."""
    rate = np.linspace(1.0, 2.0, int(np.prod(batch))).reshape(batch)
    f = dist.Exponential(fb.Array(rate, ("i", "j")[: len(batch)])).expand([4])("x")
    assert f.inputs["x"] == fb.Positive[4]
    point = np.array([0.1, 0.5, 2.0, 0.3])
    np.testing.assert_allclose(
        to_array(f(x=point).log()).data, 4 * np.log(rate) - rate * point.sum(), rtol=1e-12, atol=1e-12
    )
    assert np.allclose(to_array(f.sum("x").log()).data, 0.0, atol=1e-12)


@pytest.mark.parametrize("mask", list(product([True, False], repeat=2)), ids=str)
def test_mask(mask: tuple[bool, bool]) -> None:
    f = dist.Laplace(np.array([0.0, 1.0]), 0.7).mask(np.array(mask))("x")
    point = np.array([0.3, 0.2])
    logs = -np.abs(point - [0.0, 1.0]) / 0.7 - np.log(1.4)
    assert float(f(x=point).log()) == pytest.approx(logs @ mask, abs=1e-12)


def test_masked_observations_do_not_count() -> None:
    """A mask along a plate: the evidence of the observed alone."""
    data, mask = np.array([0.3, 9.0, -0.4]), np.array([True, False, True])
    x = fb.Variable("x", fb.Real)
    likelihood = dist.Normal(x, 1.0).mask(fb.Array(mask, ("i",)))(fb.Array(data, ("i",))).product("i")
    kept = dist.Normal(x, 1.0)(fb.Array(data[mask], ("i",))).product("i")
    prior = dist.Normal(0.0, 2.0)("x")
    right = float((prior * kept).sum("x").log())
    assert float((prior * likelihood).sum("x").log()) == pytest.approx(right, rel=1e-12)


TRANSFORMS = {
    "affine": transforms.AffineTransform(0.5, -2.0),
    "exp": transforms.ExpTransform(),
    "sigmoid": transforms.SigmoidTransform(),
    "two": [transforms.AffineTransform(0.5, 2.0), transforms.ExpTransform()],
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transformed(name: str) -> None:
    f = dist.TransformedDistribution(dist.Normal(0.3, 1.2), TRANSFORMS[name])("y")
    theirs = numpyro_families.TransformedDistribution(numpyro_families.Normal(0.3, 1.2), TRANSFORMS[name])
    assert float(f(y=0.4).log()) == pytest.approx(log_prob(theirs, 0.4), abs=1e-6)
    assert float(f.sum("y").log()) == pytest.approx(0.0, abs=1e-12)


def test_transformed_with_a_variable_as_parameter() -> None:
    x = fb.Variable("x", fb.Real)
    f = dist.TransformedDistribution(dist.Normal(x, 1.2), transforms.ExpTransform())("y")
    right = log_prob(numpyro_families.LogNormal(0.7, 1.2), 0.4)
    assert float(f(x=0.7, y=0.4).log()) == pytest.approx(right, abs=1e-6)


def test_mixture_same_family_along_named_axes() -> None:
    """Σ_k w_k N(x; μ_k(i), 1), by hand."""
    loc = np.array([[-1.0, 1.0], [0.0, 2.0], [3.0, -2.0]])
    w = np.array([0.3, 0.7])
    f = dist.MixtureSameFamily(dist.Categorical(probs=w), dist.Normal(fb.Array(loc, ("i",)), 1.0))("x")
    assert f.inputs == {"x": fb.Real, "i": fb.Bint[3]}
    right = np.log(np.exp(-0.5 * (0.4 - loc) ** 2) @ w / np.sqrt(2 * np.pi))
    np.testing.assert_allclose(to_array(f(x=0.4).log()).data, right, rtol=1e-12)
    np.testing.assert_allclose(to_array(f.mean("x")).data, loc @ w, rtol=1e-12)


def test_zero_inflated_along_named_axes() -> None:
    gate = np.array([0.0, 0.2, 1.0])
    f = dist.ZeroInflatedPoisson(fb.Array(gate, ("i",)), 1.7)("n")
    at_zero = gate + (1 - gate) * np.exp(-1.7)
    np.testing.assert_allclose(np.exp(to_array(f(n=0).log()).data), at_zero, rtol=1e-12)
    np.testing.assert_allclose(np.exp(to_array(f(n=1).log()).data), (1 - gate) * 1.7 * np.exp(-1.7), atol=1e-15)


def test_parameters_on_different_axes() -> None:
    """loc along i, scale along j: every pair."""
    loc, scale = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 1.5])
    f = dist.Cauchy(fb.Array(loc, ("i",)), fb.Array(scale, ("j",)))("x")
    found = to_array(f(x=0.3).log())
    right = -np.log(np.pi * scale * (1 + ((0.3 - loc[:, None]) / scale) ** 2))
    assert found.names == ("i", "j")
    np.testing.assert_allclose(found.data, right, rtol=1e-12)


@sparing(*VARIED)
@pytest.mark.one_in(3)
def test_a_traced_parameter(recipe: Recipe) -> None:
    """At a known point: abstractly, so that nothing is compiled."""
    (point, *_) = points(recipe)

    def log(parameter: Any) -> Any:
        return recipe.ours(**{recipe.vary: parameter})("x")(x=point).log().data

    given = jax.ShapeDtypeStruct(np.shape(recipe.given[recipe.vary]), jnp.float32)
    assert jax.eval_shape(log, given).shape == ()


def test_jax_parameters_stay_single() -> None:
    f = dist.Exponential(jnp.asarray(2.0))("g")
    found = f(g=0.5).log().data
    assert isinstance(found, jax.Array) and found.dtype == jnp.float32
    draws = f.sample(jax.random.key(0), n=4)["g"]
    assert isinstance(draws, jax.Array) and draws.dtype == jnp.float32


def test_unknown_family() -> None:
    with pytest.raises(fb.FubiniError, match="'Normal'"):
        dist.Normall(0.0, 1.0)


def test_too_many_parameters() -> None:
    with pytest.raises(DomainError, match=r"Normal\(loc, scale\)"):
        dist.Normal(0.0, 1.0, 2.0)
