"""Every record of a family: its density, normaliser, moments, mode and draws agree with numpyro and with quadrature."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.algebra.build import const, get, index
from fubini.algebra.evaluation import Evaluation, evaluate
from fubini.algebra.node import Index, Leaf
from fubini.distributions.parameter_checks import is_dependent
from fubini.families.family import families, family_of, recognise, register
from fubini.families.parameters import Matrix, Vector
from fubini.integrate import between, elimination, ratio, tails
from fubini.integrate.between import eliminate_between
from fubini.integrate.elimination import eliminated
from fubini.integrate.ratio import summed_by_ratio
from fubini.integrate.tails import eliminated_prime, eliminated_tail

RECORDS = {record.name: record for record in families()}
NUMBERS = [name for name, record in RECORDS.items() if not record.is_of_vectors]
PROBABILITIES = [name for name in NUMBERS if RECORDS[name].is_probability]
ALTERNATIVES = [(name, True) for name in NUMBERS if "logits" in (RECORDS[name].alternatives or {})]
CASES = [(name, False) for name in NUMBERS] + ALTERNATIVES
DRAWS = 20_000
LEGENDRE = np.polynomial.legendre.leggauss(400)


def one_number(name, constraint, rng):
    """A parameter that its constraint allows, away from the ends."""
    if is_dependent(constraint):
        return {"low": -1.0, "high": 4.0}[name]
    if constraint == constraints.nonnegative_integer:
        return float(rng.integers(3, 9))
    if constraint == constraints.unit_interval:
        return rng.uniform(0.2, 0.8)
    if constraint in (constraints.positive, constraints.nonnegative):
        return rng.uniform(2.5, 5.5)  # all moments exist, and modes are inside
    assert constraint == constraints.real or isinstance(
        constraint, (constraints.greater_than, constraints.greater_than_eq)
    )
    return rng.normal()


def parameters_of(record, rng, by_logits=False):
    """Numbers for each parameter: those of the record, or logits in place of probabilities."""
    if record.name == "Delta":
        return {"v": 2.0}
    numbers = {name: one_number(name, constraint, rng) for name, constraint in record.parameters.items()}
    if record.name == "GeneralizedGamma":
        numbers["power"] = 2.0
    if record.name == "DoublyTruncatedPowerLaw":
        numbers |= {"low": 0.4, "high": 4.0}
    if record.name == "LogNormal":
        numbers["scale"] = 0.6  # a greater one has tails that quadrature does not reach
    if record.name == "Hypergeometric":
        numbers = {"first": 6.0, "second": 7.0, "draws": 4.0}  # all counts up to the draws are possible
    if by_logits:
        numbers["logits"] = math.log(numbers["probs"] / (1 - numbers.pop("probs")))
    return numbers


def nodes(numbers):
    return {name: const(number) for name, number in numbers.items()}


def number(node):
    with np.errstate(all="ignore"):
        return float(Evaluation({}, xp=np).of(node).data)


def support_of(record, numbers):
    """The ends of the support, and whether values are whole."""
    support = record.support_at(nodes(numbers))
    return number(support.low), number(support.high), support.is_whole


def points_of(record, numbers, rng, count=7):
    """Values inside the support."""
    low, high, is_whole = support_of(record, numbers)
    low, high = max(low, -3.0), min(high, 6.0)
    return rng.integers(int(low), int(high) + 1, count).astype(float) if is_whole else rng.uniform(low, high, count)


def log_density(record, numbers, x):
    """log p at numbers, by the record."""
    leaf = Leaf("x", (len(x),))
    i = Index(len(x))
    with jax.enable_x64(True), np.errstate(all="ignore"):
        found = Evaluation({leaf: x}, xp=np).of(record.log_density(get(leaf, index(i)), nodes(numbers)))
        return np.broadcast_to(np.asarray(found.data), len(x))


def in_dist(record, numbers):
    """The same distribution among those of `fubini.distributions`."""
    names = [name for name in record.names if set(numbers) <= set(family_arguments(name))]
    assert names, f"{record!r} has other parameters than " + " and ".join(
        f"{name}({', '.join(family_arguments(name))})" for name in record.names
    )
    name = names[0]
    counts = {key: int(value) for key, value in numbers.items() if key == "total_count" and value == int(value)}
    whole = {key: int(value) for key, value in numbers.items() if record.name == "DiscreteUniform"}
    return getattr(dist, name)(**{**numbers, **counts, **whole})


def family_arguments(name):
    return inspect.signature(dist.family(name).maker).parameters


@pytest.mark.parametrize(("name", "by_logits"), [case for case in CASES if RECORDS[case[0]].names])
def test_density_is_that_of_dist(name, by_logits):
    record, rng = RECORDS[name], np.random.default_rng(1)
    for _ in range(3):
        numbers = parameters_of(record, rng, by_logits)
        x = points_of(record, numbers, rng)
        density = in_dist(record, numbers)
        is_discrete = density.domain.is_discrete
        expected = [float(density(int(one) if is_discrete else float(one)).log()) for one in x]
        np.testing.assert_allclose(log_density(record, numbers, x), expected, rtol=2e-5, atol=2e-5)


def has_a_class(record):
    """numpyro has a class of this family, not a function that makes another."""
    return any(isinstance(dist.family(key).maker, type) for key in record.names)


@pytest.mark.parametrize("name", [name for name in PROBABILITIES if has_a_class(RECORDS[name])])
def test_constraints_are_those_of_dist(name):
    record = RECORDS[name]
    maker = next(maker for key in record.names if isinstance(maker := dist.family(key).maker, type))
    expected = {key: maker.arg_constraints[key] for key in record.parameters}
    assert all(is_dependent(one) or one == record.parameters[key] for key, one in expected.items())


@pytest.mark.parametrize(("name", "by_logits"), [case for case in CASES if case[0] in PROBABILITIES])
def test_has_mass_one(name, by_logits):
    record, rng = RECORDS[name], np.random.default_rng(2)
    numbers = parameters_of(record, rng, by_logits)
    assert total_of(record, numbers, lambda x: np.ones_like(x)) == pytest.approx(1.0, abs=1e-6)


def total_of(record, numbers, function):
    """∫ or Σ of function · density"""
    low, high, is_whole = support_of(record, numbers)
    if is_whole:
        x = np.arange(low, min(high, low + 4000) + 1)
        return float(np.sum(function(x) * np.exp(log_density(record, numbers, x))))

    x, weights = quadrature(low, high)
    return float(np.sum(weights * function(x) * np.exp(log_density(record, numbers, x))))


def quadrature(low, high):
    """Points and weights between two ends: of Gauss and Legendre, after x = tan t where there is no end."""
    start, stop = (np.arctan(end) if math.isinf(high - low) else end for end in (low, high))
    t, weights = LEGENDRE
    t, weights = (start + stop) / 2 + (stop - start) / 2 * t, (stop - start) / 2 * weights
    return (np.tan(t), weights / np.cos(t) ** 2) if math.isinf(high - low) else (t, weights)


RECOGNISED = [name for name in PROBABILITIES if RECORDS[name].signature is not None]


@pytest.mark.parametrize("name", RECOGNISED)
def test_is_recognised_from_its_own_density(name):
    """The same family, the same parameters, and mass 1."""
    record, rng = RECORDS[name], np.random.default_rng(3)
    numbers = parameters_of(record, rng)
    distribution, evidence = recognised(record, numbers)
    assert distribution.family == name
    for key, expected in numbers.items():
        assert number(distribution.parameters[key]) == pytest.approx(expected, rel=1e-9), key
    assert evidence == pytest.approx(0.0, abs=1e-9)


def recognised(record, numbers):
    """What a latent with this density is, and the logarithm of its mass."""
    low, high, is_whole = support_of(record, numbers)
    is_natural = is_whole and low == 0
    leaf = Leaf(
        "x",
        (),
        low=low if math.isfinite(low) else None,
        high=1.0 if high == 1 else None,
        is_integer=is_whole,
        role="site",
    )
    terms = [record.log_density(get(leaf), nodes(numbers))]
    if record.signature.form == "quadratic":
        result = eliminated_tail(terms, leaf)
    elif record.signature.form == "sum":
        result, _ = eliminated_prime(terms, leaf)
    elif record.signature.form in ("flat", "power"):
        result = eliminate_between([record.log_density_of(get(leaf), nodes(numbers))], leaf, "real")
    elif record.name == "Hypergeometric":
        return hypergeometric(leaf, terms)
    else:
        domain = "nat" if is_natural else {(0.0, 1.0): "unit", (0.0, math.inf): "positive"}.get((low, high), "real")
        result = eliminated(terms, leaf, domain)
    return result.distribution, sum(number(term) for term in result.terms)


def hypergeometric(leaf, terms):
    """Recognised, though a model with it is refused, for it has no draws."""
    summed = summed_by_ratio(terms[0], leaf)
    return summed.distribution, number(summed.distribution.log_normaliser) + sum(map(number, summed.outside))


HEAVY_TAILS = ("InverseGamma", "BetaPrime", "StudentT", "HalfStudentT", "LogNormal", "Pareto")  # great fourth moments


@pytest.mark.parametrize("name", [name for name in PROBABILITIES if RECORDS[name].mean is not None])
def test_moments(name):
    """Mean and variance by quadrature, and those of draws within sampling error."""
    record, rng = RECORDS[name], np.random.default_rng(4)
    numbers = parameters_of(record, rng)
    assert record.variance is not None, "a record with a mean has a variance too"
    mean, variance = number(record.mean(nodes(numbers))), number(record.variance(nodes(numbers)))
    assert mean == pytest.approx(total_of(record, numbers, lambda x: x), rel=1e-5)
    assert variance == pytest.approx(total_of(record, numbers, lambda x: (x - mean) ** 2), rel=1e-4, abs=1e-9)
    if record.draw is None:
        return
    draws = np.asarray(record.draw(jax.random.key(7), {key: jnp.full(DRAWS, one) for key, one in numbers.items()}))
    assert draws.mean() == pytest.approx(mean, abs=5 * math.sqrt(variance / DRAWS) + 1e-6)
    if name not in HEAVY_TAILS:
        fourth = total_of(record, numbers, lambda x: (x - mean) ** 4)
        error = math.sqrt(max(fourth - variance**2, 0.0) / DRAWS)
        assert draws.var() == pytest.approx(variance, abs=6 * error + 1e-6)


@pytest.mark.parametrize("name", ["Cauchy", "HalfCauchy", "TruncatedNormal"])
def test_draws_without_moments(name):
    """As many draws fall below a point as the density says."""
    record, rng = RECORDS[name], np.random.default_rng(5)
    numbers = parameters_of(record, rng)
    draws = np.asarray(record.draw(jax.random.key(8), {key: jnp.full(DRAWS, one) for key, one in numbers.items()}))
    end = float(np.median(draws)) + 0.5
    low = support_of(record, numbers)[0]
    x, weights = quadrature(low, end)
    below = np.sum(weights * np.exp(log_density(record, numbers, x)))
    assert np.mean(draws < end) == pytest.approx(below, abs=5 * math.sqrt(0.25 / DRAWS))


@pytest.mark.parametrize("name", [name for name in NUMBERS if RECORDS[name].mode or RECORDS[name].flat])
def test_mode_and_maximum(name):
    """No point of a grid is above the maximum, and the mode is where the best of them is."""
    record, rng = RECORDS[name], np.random.default_rng(6)
    numbers = parameters_of(record, rng)
    low, high, is_whole = support_of(record, numbers)
    low, high = max(low, -12.0), min(high, 40.0 if is_whole else 12.0)
    grid = np.arange(low, high + 1) if is_whole else np.linspace(low, high, 60_003)[1:-1]
    values = log_density(record, numbers, grid)
    maximum = number(record.log_maximum(nodes(numbers)))
    assert maximum == pytest.approx(values.max(), abs=2e-3 * (not is_whole) + 1e-9)
    assert values.max() <= maximum + 1e-9
    if record.mode is None:
        with pytest.raises(fb.FubiniError, match="not the same everywhere"):
            record.mode_at(nodes(numbers))
    else:
        mode = number(record.mode_at(nodes(numbers)))
        assert mode == pytest.approx(grid[values.argmax()], abs=2e-3 * (not is_whole))


BOUNDARY = {
    "Gamma": {"concentration": 0.7, "rate": 2.0},
    "Beta": {"concentration1": 0.7, "concentration0": 2.0},
    "BetaPrime": {"concentration1": 0.7, "concentration0": 2.0},
    "ChiSquared": {"df": 1.5},
    "GeneralizedGamma": {"concentration": 0.3, "rate": 1.0, "power": 2.0},
}


@pytest.mark.parametrize("name", BOUNDARY)
def test_a_mode_at_the_boundary_is_refused(name):
    """Known parameters raise; those that are not known yet make no number."""
    record, numbers = RECORDS[name], BOUNDARY[name]
    for question in (record.mode_at, record.log_maximum):
        with pytest.raises(fb.FubiniError, match="maximum inside the support"):
            question(nodes(numbers))
    first = next(iter(numbers))
    leaf = Leaf(first, ())
    open_parameters = {**nodes(numbers), first: get(leaf)}
    assert np.isnan(evaluate(record.mode_at(open_parameters), {leaf: np.asarray(numbers[first])}))
    assert np.isinf(evaluate(record.log_maximum(open_parameters), {leaf: np.asarray(numbers[first])}))


def printed_scope():
    return {key: getattr(dist, key) for key in dist.family_names()} | {"array": np.array}


MATRIX = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 1.5]])
ARRAYS = {  # parameters and a value of families that are written in more than numbers and one vector
    "CAR": (
        {
            "loc": np.array([0.5, -1.0, 0.0]),
            "correlation": 0.6,
            "conditional_precision": 2.0,
            "adj_matrix": np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]),
        },
        np.array([0.1, -0.2, 1.0]),
    ),
    "GaussianRandomWalk": ({"scale": 0.7, "num_steps": 3}, np.array([0.5, -0.2, 1.0])),
    "MatrixNormal": (
        {
            "loc": np.array([[0.5, -1.0, 0.0], [0.0, 2.0, 1.0]]),
            "scale_tril_row": np.array([[1.0, 0.0], [0.4, 0.8]]),
            "scale_tril_column": np.array([[1.0, 0.0, 0.0], [-0.3, 0.7, 0.0], [0.2, 0.5, 1.2]]),
        },
        np.array([[0.1, -0.2, 1.0], [0.3, 1.2, -0.4]]),
    ),
    "Multinomial": ({"total_count": 6, "probs": np.array([0.2, 0.5, 0.3])}, np.array([1, 3, 2])),
    "MultivariateNormal": (
        {"loc": np.array([0.5, -1.0, 0.0]), "covariance_matrix": MATRIX},
        np.array([0.5, -0.2, 1.0]),
    ),
    "Wishart": ({"concentration": 5.0, "scale_matrix": MATRIX}, np.diag([1.0, 2.0, 0.5])),
    "InverseWishart": ({"concentration": 5.0, "scale_matrix": MATRIX}, np.diag([1.0, 2.0, 0.5])),
    "OrderedLogistic": ({"predictor": 0.3, "cutpoints": np.array([-1.0, 0.2, 2.0])}, 2),
}


@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if record.names])
def test_printing_makes_it_again(name):
    record, rng = RECORDS[name], np.random.default_rng(9)
    if name in ARRAYS:
        density = getattr(dist, record.names[0])(**ARRAYS[name][0])
        np.testing.assert_allclose(
            eval(repr(density), printed_scope())(ARRAYS[name][1]).log(), density(ARRAYS[name][1]).log()
        )
        return
    if record.is_of_vectors:
        density = getattr(dist, record.names[0])(np.array([0.2, 0.3, 0.5]))
    else:
        density = in_dist(record, parameters_of(record, rng))
    again = eval(repr(density), printed_scope())
    point = jnp.array([0.2, 0.3, 0.5]) if name == "Dirichlet" else 2 if density.domain.is_discrete else 0.4
    point = min(point, 1) if name == "Bernoulli" else point
    assert float(again(point).log()) == pytest.approx(float(density(point).log()), rel=1e-4)


# -- vectors and labels ---------------------------------------------------------------------------------------------


def vector(numbers):
    """A vector of numbers, and the arrays it is read from."""
    leaf, c = Leaf("v", (len(numbers),), low=min(numbers), role="data"), Index(len(numbers))
    return Vector(c, get(leaf, index(c))), {leaf: np.asarray(numbers)}


def test_dirichlet():
    record, alpha, x = RECORDS["Dirichlet"], [2.0, 3.5, 1.5], [0.2, 0.5, 0.3]
    (concentration, arrays), (point, more) = vector(alpha), vector(x)
    value = evaluate(record.log_density(point, {"concentration": concentration}), {**arrays, **more})
    assert float(value) == pytest.approx(float(dist.Dirichlet(np.array(alpha))(np.array(x)).log()), rel=1e-5)
    found = {
        what: evaluate(part.entry, arrays, [part.over])
        for what in ("mean", "variance", "mode")
        for part in [getattr(record, what)({"concentration": concentration})]
    }
    draws = np.asarray(record.draw(jax.random.key(0), {"concentration": jnp.tile(jnp.array(alpha), (DRAWS, 1))}))
    np.testing.assert_allclose(draws.mean(0), found["mean"], atol=5 * math.sqrt(0.06 / DRAWS))
    np.testing.assert_allclose(draws.var(0), found["variance"], rtol=0.06)
    grid = np.random.default_rng(0).dirichlet(np.array(alpha), 50_000)
    best = grid[np.argmax(((np.array(alpha) - 1) * np.log(grid)).sum(1))]
    np.testing.assert_allclose(found["mode"], best, atol=0.03)
    distribution = recognise("simplex", concentration.over, concentration.entry)
    assert distribution is not None and distribution.family == "Dirichlet"
    assert distribution.parameters["concentration"] is concentration.entry


@pytest.mark.parametrize("key", ["probs", "logits"])
def test_categorical(key):
    record, probs = RECORDS["Categorical"], np.array([0.2, 0.5, 0.3])
    weights, arrays = vector(list(probs if key == "probs" else np.log(probs) + 1.0))
    found = [float(evaluate(record.log_density(const(k), {key: weights}), arrays)) for k in range(3)]
    np.testing.assert_allclose(found, np.log(probs), rtol=1e-5)
    numbers = probs if key == "probs" else np.log(probs)
    draws = np.asarray(record.draw(jax.random.key(0), {key: jnp.tile(jnp.asarray(numbers), (DRAWS, 1))}))
    np.testing.assert_allclose(np.bincount(draws) / DRAWS, probs, atol=5 * math.sqrt(0.25 / DRAWS))


def array_of(numbers):
    """Numbers of any rank in index notation, and the arrays they are read from."""
    numbers = np.asarray(numbers, float)
    leaf, over = Leaf("v", numbers.shape, role="data"), tuple(Index(size) for size in numbers.shape)
    entry = get(leaf, *map(index, over))
    return (entry, Vector, Matrix)[len(over)](*over, entry) if over else entry, {leaf: numbers}


def by_record(record, numbers, value):
    """log p at numbers, with what the record derives from its parameters."""
    made = {}
    for name, part in record.derived(tuple(numbers)).items():
        operands = [jnp.asarray(value if key == "value" else numbers[key], float) for key in part.of]
        made[name] = np.asarray(part.function(*operands))
        assert made[name].shape == part.shape(*(operand.shape for operand in operands))
    parts = {name: array_of(one) for name, one in {**numbers, **made}.items()}
    x, arrays = array_of(value)
    arrays = arrays | {leaf: one for _, more in parts.values() for leaf, one in more.items()}
    parameters = {name: part for name, (part, _) in parts.items()}
    possible = True if record.is_possible is None else evaluate(record.is_possible(x, parameters), arrays)
    return float(evaluate(record.log_density(x, parameters), arrays)) if possible else -math.inf


@pytest.mark.parametrize("name", ARRAYS)
def test_density_of_arrays_is_that_of_dist(name):
    record, (numbers, value) = RECORDS[name], ARRAYS[name]
    expected = float(getattr(dist, record.names[0])(**numbers)(value).log())
    with jax.enable_x64(True):
        assert by_record(record, numbers, value) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("form", ["covariance_matrix", "precision_matrix", "scale_tril"])
@pytest.mark.parametrize("present", [None, [1, 0, 1], [0, 0, 0]])
def test_multivariate_normal(form, present):
    """Each form of the matrix, and the density of the entries that are there."""
    record, (numbers, value) = RECORDS["MultivariateNormal"], ARRAYS["MultivariateNormal"]
    matrix = {"scale_tril": np.linalg.cholesky(MATRIX), "precision_matrix": np.linalg.inv(MATRIX)}.get(form, MATRIX)
    kept = np.flatnonzero(np.ones(3) if present is None else present)
    distribution = stats.multivariate_normal(numbers["loc"][kept], MATRIX[np.ix_(kept, kept)]) if len(kept) else None
    more = {} if present is None else {"present": np.array(present)}
    with jax.enable_x64(True):
        found = by_record(record, {"loc": numbers["loc"], form: matrix, **more}, value)
        assert found == pytest.approx(0.0 if distribution is None else distribution.logpdf(value[kept]))
        (root,) = record.derived(("loc", form)).values()
        np.testing.assert_allclose(root.function(3.0 * matrix), 3.0**root.degree * root.function(jnp.asarray(matrix)))


def test_counts_that_do_not_add_up():
    numbers, value = ARRAYS["Multinomial"]
    assert by_record(RECORDS["Multinomial"], numbers, value + 1) == -math.inf


# -- the registry ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECOGNISED)
def test_one_family_alone_accepts_a_density(name, monkeypatch):
    """Signatures exclude each other, so that the order of registration decides nothing."""
    asked = []

    def spy(form, *coefficients):
        asked.append((form, coefficients))
        return recognise(form, *coefficients)

    for module in (elimination, between, tails, ratio):
        monkeypatch.setattr(module, "recognise", spy)
    recognised(RECORDS[name], parameters_of(RECORDS[name], np.random.default_rng(3)))
    ((form, coefficients),) = asked
    signatures = {record.name: record.signature for record in RECORDS.values() if record.signature}
    accepting = [key for key, one in signatures.items() if one.form == form and one.make(*coefficients) is not None]
    assert accepting == [name]


def test_unknown_names_and_clashes():
    with pytest.raises(fb.FubiniError, match=r"nearest: +'Gamma'"):
        family_of("Gama")
    with pytest.raises(fb.FubiniError, match="a name that no family has"):
        register(RECORDS["Gamma"])
