"""Measures by numbers alone: nodes by NumPy, integrals by quadrature through the quantiles of SciPy's families."""

import itertools
import math

import numpy as np
from scipy import special, stats

from fubini.algebra.binding import opened
from fubini.algebra.build import is_test
from fubini.families.incomplete_functions import log_mass_of_beta, log_mass_of_gamma, log_mass_of_normal
from fubini.families.parameters import Vector
from fubini.measures.branch import Items
from fubini.measures.interval_mass import log_mean_of_exponential

# -- nodes ----------------------------------------------------------------------------------------------------------


def value_of(node, leaves, at=None):
    """A node at values of its leaves, each along an axis of points, and of its free indices."""
    at = at or {}
    part = lambda of, more=at: value_of(of, leaves, more)  # noqa: E731
    match node.kind:
        case "const":
            return np.asarray(node.args[0])
        case "index":
            return np.asarray(float(at[node.args[0]]))
        case "get":
            array = leaves[node.args[0]]
            places = [np.asarray(part(place)).astype(int) for place in node.args[1:]]
            inside = [np.clip(place, 0, size - 1) for place, size in zip(places, array.shape[1:], strict=True)]
            return array[(np.arange(len(array)), *inside)]  # beyond the ends only under a test
        case "add":
            return sum(c * part(term) for term, c in node.args)
        case "mul":
            tests = [base for base, _ in node.args if is_test(base)]
            rest = math.prod(np.power(part(base), exponent) for base, exponent in node.args if base not in tests)
            return np.where(math.prod(map(part, tests)) != 0, rest, 0.0) if tests else rest  # 0 where a test fails
        case "call":
            return FUNCTIONS[node.args[0]](*map(part, node.args[1:]))
        case "eq":
            return (part(node.args[0]) == part(node.args[1])).astype(float)
        case "lt":
            return (part(node.args[0]) < part(node.args[1])).astype(float)
        case "where":
            return np.where(part(node.args[0]) != 0, part(node.args[1]), part(node.args[2]))
        case "sum" | "lse":
            over, body = opened(node)
            every = [part(body, {**at, **place}) for place in _places(over)]
            return sum(every) if node.kind == "sum" else np.logaddexp.reduce(np.broadcast_arrays(*every))
    raise AssertionError(node.kind)


def _log_mass(low, high):
    """log(Φ(high) − Φ(low)), by SciPy"""
    flip = low + high > 0
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    return special.log_ndtr(b) + np.log1p(-np.exp(special.log_ndtr(a) - special.log_ndtr(b)))


def _log_mass_of_gamma(shape, low, high):
    below, above = stats.gamma.cdf(high, shape) - stats.gamma.cdf(low, shape), stats.gamma.sf(low, shape)
    return np.log(np.where(low > shape, above - stats.gamma.sf(high, shape), below))


def _log_mass_of_beta(a, b, low, high):
    below, above = stats.beta.cdf(high, a, b) - stats.beta.cdf(low, a, b), stats.beta.sf(low, a, b)
    return np.log(np.where(low * (a + b) > a, above - stats.beta.sf(high, a, b), below))


def _log_mean_of_exponential(slope):
    nodes, weights = np.polynomial.legendre.leggauss(64)
    points = np.asarray(slope)[..., None] * (nodes + 1) / 2
    return special.logsumexp(points, b=weights / 2, axis=-1)


FUNCTIONS = {
    log_mass_of_normal: _log_mass,
    log_mass_of_gamma: _log_mass_of_gamma,
    log_mass_of_beta: _log_mass_of_beta,
    log_mean_of_exponential: _log_mean_of_exponential,
    "pow": np.power,
    "floor": np.floor,
    "exp": np.exp,
    "log": np.log,
    "lgamma": special.gammaln,
    "lgamma_if_positive": lambda x: np.where(x > 0, special.gammaln(x), np.inf),
    "abs": np.abs,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "quotient": lambda a, b: a // b,
    "min": np.minimum,
    "max": np.maximum,
    "erf": special.erf,
    "nonzero": lambda x: np.where(x == 0, 1.0, x),
}


def _places(over):
    for place in itertools.product(*(range(i.size) for i in over)):
        yield dict(zip(over, place, strict=True))


def flat(value, leaves):
    """What is returned, as numbers along points and entries."""
    if isinstance(value, Items):
        return [value_of(value.entry, leaves, place) for place in _places(value.over)]
    if isinstance(value, tuple):
        return [number for part in value for number in flat(part, leaves)]
    return [value_of(value, leaves)]


# -- integrals ------------------------------------------------------------------------------------------------------


def tanh_sinh(count):
    """Nodes and weights on (0, 1), which do not mind infinite ends."""
    t = np.linspace(-3.4, 3.4, count)
    x = 0.5 * np.pi * np.sinh(t)
    weights = 0.25 * np.pi * np.cosh(t) / np.cosh(x) ** 2 * (t[1] - t[0])
    return special.expit(2 * x), weights


def quantiles(distribution, count):
    """Those of the nodes, the upper ones from above, where 1 − u is exact."""
    u, weights = tanh_sinh(count)
    half = count // 2
    return np.concatenate([distribution.ppf(u[None, :-half]), distribution.isf(u[None, :half][:, ::-1])], 1), weights[
        None
    ]


DISTRIBUTIONS = {
    "Normal": lambda m, s: stats.norm(m, s),
    "Cauchy": lambda m, s: stats.cauchy(m, s),
    "StudentT": lambda df, m, s: stats.t(df, m, s),
    "Laplace": lambda m, s: stats.laplace(m, s),
    "Gamma": lambda a, b: stats.gamma(a, scale=1 / b),
    "InverseGamma": lambda a, b: stats.invgamma(a, scale=b),
    "Exponential": lambda b: stats.expon(scale=1 / b),
    "ChiSquared": lambda df: stats.chi2(df),
    "HalfNormal": lambda s: stats.halfnorm(scale=s),
    "LogNormal": lambda m, s: stats.lognorm(s, scale=np.exp(m)),
    "GeneralizedGamma": lambda a, b, p: stats.gengamma(a, p, scale=b ** (-1 / p)),
    "TruncatedNormal": lambda m, s, a, b: stats.truncnorm((a - m) / s, (b - m) / s, m, s),
    "BetaPrime": lambda a, b: stats.betaprime(a, b),
    "Beta": lambda a, b: stats.beta(a, b),
    "Uniform": lambda a, b: stats.uniform(a, b - a),
    "Bernoulli": lambda p: stats.bernoulli(p),
    "Poisson": lambda r: stats.poisson(r),
    "Geometric": lambda p: stats.geom(p, loc=-1),
    "NegativeBinomial": lambda r, p: stats.nbinom(r, 1 - p),
    "Binomial": lambda n, p: stats.binom(n, p),
    "BetaBinomial": lambda a, b, n: stats.betabinom(n, a, b),
    "Hypergeometric": lambda n, m, t: stats.hypergeom(n + m, n, t),
}
DISCRETE = {"Bernoulli", "Poisson", "Geometric", "NegativeBinomial", "Binomial", "BetaBinomial", "Hypergeometric"}
MANY = 80  # values of whole numbers without an end


class Cloud:
    """Points and weights that stand for a measure."""

    def __init__(self, parameters, count, cuts=()):
        self.cuts = cuts
        self.leaves = {leaf: np.asarray(value, float)[None] for leaf, value in parameters.items()}
        self.weight = np.ones(1)
        self.count = count

    def spread(self, x, weight):
        """Each point becomes as many as there are columns."""
        n, k = x.shape
        size = max(len(self.weight), n)
        x, weight = (np.broadcast_to(part, (size, k)).reshape(-1) for part in (x, weight))
        wide = {leaf: np.broadcast_to(array, (size, *array.shape[1:])) for leaf, array in self.leaves.items()}
        self.leaves = {leaf: np.repeat(array, k, 0) for leaf, array in wide.items()}
        self.weight = np.repeat(np.broadcast_to(self.weight, (size,)), k) * weight
        keep = self.weight != 0
        self.leaves = {leaf: array[keep] for leaf, array in self.leaves.items()}
        self.weight, x = self.weight[keep], x[keep]
        return x

    def column(self, node, at):
        return np.broadcast_to(value_of(node, self.leaves, at), (len(self.weight),))[:, None]

    def draw(self, draw, opaque):
        shape = draw.leaf.shape
        self.leaves[draw.leaf] = np.zeros((len(self.weight), *shape))
        for at in _places(draw.at):
            place = tuple(at.values())
            if draw.distribution.family == "Dirichlet":
                self.stick(draw, at, place)
            else:
                with np.errstate(all="ignore"):  # at the very ends of a distribution
                    x, weight = self.nodes(draw.distribution, at, opaque)
                x = self.spread(x, np.where(np.isfinite(x), weight, 0.0))
                self.leaves[draw.leaf][(slice(None), *place)] = x

    def fix(self, draw, value):
        """A draw at a value, with its density as a weight."""
        self.leaves[draw.leaf] = np.broadcast_to(value, (len(self.weight), *draw.leaf.shape))
        for at in _places(draw.at):
            x = self.leaves[draw.leaf][(slice(None), *at.values())]
            self.weight = self.weight * self.density(draw.distribution, at, x)

    def density(self, distribution, at, x):
        if distribution.family in ("Categorical", "Dirichlet"):
            (part,) = distribution.parameters
            columns = [self.column(part.entry, {**at, part.over: k})[:, 0] for k in range(part.over.size)]
            if distribution.family == "Categorical":
                return np.choose(x.astype(int), columns)
            logs = sum((a - 1) * np.log(x[:, k]) - special.gammaln(a) for k, a in enumerate(columns))
            return np.exp(logs + special.gammaln(sum(columns)))
        given = [self.column(part, at)[:, 0] for part in distribution.parameters]
        if distribution.family in ("Lebesgue", "Counting"):
            return ((given[0] <= x) & (x <= given[1] - (distribution.family == "Counting"))).astype(float)
        family = DISTRIBUTIONS[distribution.family](*given)
        return family.pmf(x) if distribution.family in DISCRETE else family.pdf(x)

    def stick(self, draw, at, place):
        """A Dirichlet by breaking a stick."""
        (alpha,) = draw.distribution.parameters
        over = alpha.over
        left = lambda c: sum(self.column(alpha.entry, {**at, over: d}) for d in range(c + 1, over.size))  # noqa: E731
        rest = np.ones(len(self.weight))
        self.leaves[("rest", draw.leaf)] = rest
        for c in range(over.size):
            if c + 1 < over.size:
                x, w = quantiles(stats.beta(self.column(alpha.entry, {**at, over: c}), left(c)), self.count)
                x = self.spread(np.clip(x, 1e-300, 1 - 2**-53), w)
            else:
                x = np.ones(len(self.weight))
            rest = self.leaves[("rest", draw.leaf)]
            self.leaves[draw.leaf][(slice(None), *place, c)] = x * rest
            self.leaves[("rest", draw.leaf)] = rest * (1 - x)
        del self.leaves[("rest", draw.leaf)]

    def nodes(self, distribution, at, opaque):
        if distribution.family == "Categorical":
            (weights,) = distribution.parameters
            columns = [self.column(weights.entry, {**at, weights.over: k}) for k in range(weights.over.size)]
            return np.arange(weights.over.size)[None].astype(float), np.concatenate(columns, 1)
        given = [self.column(part, at) for part in distribution.parameters]
        if distribution.family == "Counting":
            low, high = given
            x = low + np.arange(MANY)
            return x, (x < high).astype(float)
        if distribution.family in DISCRETE:
            x = np.arange(MANY)[None].astype(float)
            return x, np.nan_to_num(DISTRIBUTIONS[distribution.family](*given).pmf(x))
        u, w = tanh_sinh(self.count)
        if distribution.family in ("Lebesgue", "Uniform"):
            pieces = [lebesgue(low, high, u, w) for low, high in _pieces(*given, self.cuts)]
            width = given[1] - given[0] if distribution.family == "Uniform" else 1.0
            return np.concatenate([x for x, _ in pieces], 1), np.concatenate([y for _, y in pieces], 1) / width
        family = opaque[distribution.label] if distribution.label else DISTRIBUTIONS[distribution.family]
        x, w = quantiles(family(*given), self.count)
        return (np.clip(x, 1e-300, 1 - 2**-53) if distribution.family == "Beta" else x), w


def _pieces(low, high, cuts):
    """An interval in pieces, between which a density may jump."""
    ends = [low, *(np.clip(np.full_like(low, cut), low, high) for cut in cuts), high]
    return list(itertools.pairwise(ends))


def lebesgue(low, high, u, w):
    """Points between two ends, of which one or both may be infinite."""
    v = u[::-1]  # 1 − u
    if np.all(np.isfinite(low)) and np.all(np.isfinite(high)):
        return low + (high - low) * u, (high - low) * w
    if np.all(np.isfinite(low)):
        return low + u / v, w / v**2 + 0 * low
    if np.all(np.isfinite(high)):
        return high - u / v, w / v**2 + 0 * high
    z = np.log(u / v)
    return np.sinh(z)[None], (w * np.cosh(z) / (u * v))[None]


def cloud(branch, parameters, count=31, opaque=None, cuts=(), fixed=None):
    """A branch as points, its tests and weight at each; some draws are fixed."""
    found = Cloud(parameters, count, cuts)
    for draw in branch.draws:
        if fixed is not None and draw.leaf in fixed:
            found.fix(draw, fixed[draw.leaf])
        else:
            found.draw(draw, opaque or {})
    for test in branch.tests:
        for at in _places(test.over):
            holds = np.broadcast_to(value_of(test.node, found.leaves, at) != 0, found.weight.shape)
            found.leaves = {leaf: array[holds] if len(array) > 1 else array for leaf, array in found.leaves.items()}
            found.weight = found.weight[holds]
    with np.errstate(divide="ignore"):  # at an end of the support, where the weight of a point is nothing
        return found.leaves, found.weight * np.exp(value_of(branch.weight, found.leaves))


def expectations(measure, parameters, count=31, opaque=None, cuts=()):
    """∫ h dM for a few functions h of what is returned; the first is its mass."""
    total = np.zeros(3)
    for branch in measure.branches:
        leaves, weight = cloud(branch, parameters, count, opaque, cuts)
        numbers = [np.broadcast_to(part, weight.shape) for part in flat(branch.value, leaves)]
        first = math.prod(1 / (1 + 0.05 * (x - 0.3) ** 2) for x in numbers)
        second = np.exp(-0.1 * sum((j + 1) * (x - 0.1) ** 2 for j, x in enumerate(numbers)))
        total += [np.sum(weight), np.sum(weight * first), np.sum(weight * second)]
    return total


def returned_leaves(value):
    """The draws that are returned, where nothing else is."""
    if isinstance(value, tuple) and not isinstance(value, Items):
        return [leaf for part in value for leaf in returned_leaves(part)]
    return [(value.entry if isinstance(value, Items) else value).args[0]]


def densities(measure, parameters, count=31, seed=3):
    """The density of what is returned, at a point that only its shapes and the seed decide."""
    total = 0.0
    for branch in measure.branches:
        rng = np.random.default_rng(seed)
        fixed = {leaf: _some(leaf, rng) for leaf in returned_leaves(branch.value)}
        _, weight = cloud(branch, parameters, count, fixed=fixed)
        total += np.sum(weight)
    return total


def sampled_draws(branch, size, rng, parameters=None):
    """Draws of all that a branch draws, along points, and their weights, with tests made as soon as they can be."""
    leaves = {leaf: np.full(size, float(value)) for leaf, value in (parameters or {}).items()}
    weight, waiting = np.ones(size), list(branch.tests)
    for draw in (None, *branch.draws):
        if draw is not None:
            given = [np.broadcast_to(value_of(part, leaves), weight.shape) for part in draw.distribution.parameters]
            leaves[draw.leaf], more = _sample(draw.distribution.family, given, rng)
            weight = weight * more
        for test in [test for test in waiting if not (test.node.leaves & set(branch.drawn)) - set(leaves)]:
            waiting.remove(test)
            holds = np.broadcast_to(value_of(test.node, leaves) != 0, weight.shape)
            leaves = {leaf: array[holds] for leaf, array in leaves.items()}
            weight = weight[holds]
    return leaves, weight


def _sample(family, given, rng):
    """Draws, and weights where they are drawn from another distribution."""
    size = given[0].shape
    if family != "Lebesgue":
        return DISTRIBUTIONS[family](*given).rvs(size=size, random_state=rng), 1.0
    low, high = given
    if np.all(np.isfinite(low)) and np.all(np.isfinite(high)):
        return rng.uniform(low, high), high - low
    distribution = stats.cauchy() if not np.any(np.isfinite(low) | np.isfinite(high)) else stats.halfcauchy()
    x = distribution.rvs(size=size, random_state=rng)
    value = low + x if np.all(np.isfinite(low)) else high - x if np.all(np.isfinite(high)) else x
    return value, 1 / distribution.pdf(x)


def sampled(measure, parameters, size, rng):
    """Draws of a number that a program without weights returns."""
    (branch,) = measure.branches
    return value_of(branch.value, sampled_draws(branch, size, rng, parameters)[0])


def sampled_expectation(measure, size, rng):
    """∫ h dM for the last function of `expectations`, and its standard error."""
    mean, variance = 0.0, 0.0
    for branch in measure.branches:
        leaves, weight = sampled_draws(branch, size, rng)
        weight = weight * np.exp(value_of(branch.weight, leaves))
        numbers = [np.broadcast_to(part, weight.shape) for part in flat(branch.value, leaves)]
        h = weight * np.exp(-0.1 * sum((j + 1) * (x - 0.1) ** 2 for j, x in enumerate(numbers)))
        mean += h.sum() / size
        variance += max(np.sum(h**2) / size - (h.sum() / size) ** 2, 0.0) / size
    return mean, variance**0.5


# -- programs -------------------------------------------------------------------------------------------------------


def alike(a, b, parameters):
    """The same draws in the same order, with parameters, weights and values that are the same numbers."""
    if len(a.branches) != len(b.branches):
        return False
    rest = list(b.branches)
    for branch in a.branches:
        same = next((other for other in rest if _alike(branch, other, parameters)), None)
        if same is None:
            return False
        rest.remove(same)
    return True


def _alike(a, b, parameters):
    distributions = [
        [(d.distribution.family, d.distribution.label, d.leaf.shape) for d in branch.draws] for branch in (a, b)
    ]
    if distributions[0] != distributions[1]:
        return False
    numbers = [_numbers(branch, parameters, np.random.default_rng(7)) for branch in (a, b)]
    return len(numbers[0]) == len(numbers[1]) and np.allclose(*numbers, rtol=1e-9, atol=1e-12)


def _numbers(branch, parameters, rng):
    """All parameters, the weight and the value, at some values of what is drawn."""
    leaves = {leaf: np.asarray(value, float)[None] for leaf, value in parameters.items()}
    found = []
    for draw in branch.draws:
        leaves[draw.leaf] = _some(draw.leaf, rng)[None]
    for draw in branch.draws:
        for at in _places(draw.at):
            for part in draw.distribution.parameters:
                if isinstance(part, Vector):
                    found += [value_of(part.entry, leaves, {**at, part.over: k}) for k in range(part.over.size)]
                else:
                    found.append(value_of(part, leaves, at))
    for test in branch.tests:
        found += [value_of(test.node, leaves, at) for at in _places(test.over)]
    found += [value_of(branch.weight, leaves), *flat(branch.value, leaves)]
    return np.array([float(np.reshape(part, -1)[0]) for part in found])


def _some(leaf, rng):
    """Values that the leaf may have."""
    if leaf.is_simplex:
        return rng.dirichlet(np.ones(leaf.shape[-1]), leaf.shape[:-1])
    if leaf.is_integer:
        low, high = leaf.low or 0, 4 if leaf.high is None else leaf.high
        return rng.integers(int(low), int(high) + 1, leaf.shape).astype(float)
    low = -2.0 if leaf.low is None else leaf.low
    return rng.uniform(low, low + 1.0 if leaf.high is None else leaf.high, leaf.shape)
