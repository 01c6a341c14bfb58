"""Data far from the centre, and small scales, cost no digits: against exact rational arithmetic."""

import math
from fractions import Fraction

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

GROUP, ITEM = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 1, 0])
X = np.array([[0.25, -1.5], [1.0, 0.5], [-0.75, 0.125], [2.0, -0.25], [0.5, 1.75], [-1.25, -0.5]])
ERRORS = np.array([0.3, -1.2, 0.8, 1.1, -0.4, 0.6])


# -- exact oracles --------------------------------------------------------------------------------------------------


def rational(array):
    """Floating-point numbers are rational."""
    return np.vectorize(lambda number: Fraction(float(number)), otypes=[object])(array)


def solved(matrix, vector):
    """yᵀ A⁻¹ y and |A|, by elimination without rounding."""
    rows = [[*row, entry] for row, entry in zip(matrix.tolist(), vector.tolist(), strict=True)]
    determinant, quadratic = Fraction(1), Fraction(0)
    for place, row in enumerate(rows):
        pivot = row[place]
        determinant *= pivot
        quadratic += row[-1] ** 2 / pivot
        for other in rows[place + 1 :]:
            ratio = other[place] / pivot
            for column in range(place, len(row)):
                other[column] -= ratio * row[column]
    return quadratic, determinant


def log(number):
    """Of a rational number of any size."""
    return math.log(number.numerator) - math.log(number.denominator)


def log_normal(y, covariance):
    quadratic, determinant = solved(covariance, rational(y))
    return -0.5 * (float(quadratic) + log(determinant) + len(y) * math.log(2 * math.pi))


def log_student(y, shape, df):
    quadratic, determinant = solved(shape, rational(y))
    half = (df + len(y)) / 2
    constant = math.lgamma(half) - math.lgamma(df / 2) - len(y) / 2 * math.log(df * math.pi)
    return constant - 0.5 * log(determinant) - half * log(1 + quadratic / df)


# -- models, with their scales given --------------------------------------------------------------------------------


@fb.model
def mean(wide, level, noise):
    m = yield dist.Normal(0.0, wide)
    y = yield dist.Normal(m, noise).expand([6])


@fb.model
def nested(wide, level, noise):
    m = yield dist.Normal(0.0, wide)
    a = yield dist.Normal(m, level).expand([3])
    y = yield dist.Normal(a[GROUP], noise)


@fb.model
def nested_apart(wide, level, noise):
    m = yield dist.Normal(0.0, wide)
    z = yield dist.Normal(0.0, 1.0).expand([3])
    y = yield dist.Normal(m + level * z[GROUP], noise)


@fb.model
def crossed(wide, level, noise):
    m = yield dist.Normal(0.0, wide)
    a = yield dist.Normal(0.0, level).expand([3])
    b = yield dist.Normal(0.0, level).expand([2])
    y = yield dist.Normal(m + a[GROUP] + b[ITEM], noise)


@fb.model
def regression(wide, level, noise):
    b = yield dist.Normal(0.0, wide)
    w = yield dist.Normal(0.0, level).expand([2])
    y = yield dist.Normal(X @ w + b, noise)


@fb.model
def mean_and_variance(wide, level, noise):
    v = yield dist.InverseGamma(3.0, 3.0 * noise**2)
    m = yield dist.Normal(0.0, wide / noise * jnp.sqrt(v))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([6])


@fb.model
def regression_with_unknown_noise(wide, level, noise):
    v = yield dist.InverseGamma(3.0, 3.0 * noise**2)
    b = yield dist.Normal(0.0, wide / noise * jnp.sqrt(v))
    w = yield dist.Normal(0.0, level / noise * jnp.sqrt(v)).expand([2])
    y = yield dist.Normal(X @ w + b, jnp.sqrt(v))


ALONE, GROUPS, ITEMS = np.zeros((6, 1)), np.eye(3)[GROUP], np.eye(2)[ITEM]

# The design of the effects, whose scale is the level, and whether the noise is known.
MODELS = {
    "a mean": (mean, ALONE, True),
    "nested means": (nested, GROUPS, True),
    "nested means, apart": (nested_apart, GROUPS, True),
    "crossed effects": (crossed, np.hstack([GROUPS, ITEMS]), True),
    "regression": (regression, X, True),
    "a mean and a variance": (mean_and_variance, ALONE, False),
    "regression with unknown noise": (regression_with_unknown_noise, X, False),
}


def evidence(name, y, wide, level, noise):
    """Exact but for logarithms; Student-t with six degrees of freedom where 1/v is Gamma(3, 3 noise²)."""
    _, design, known = MODELS[name]
    between = rational(design) @ rational(design).T * rational(level) ** 2
    covariance = rational(np.eye(6)) * rational(noise) ** 2 + between + rational(wide) ** 2
    return log_normal(y, covariance) if known else log_student(y, covariance, 6)


def data(name, level, noise, centre):
    """Spread by both scales."""
    design = MODELS[name][1]
    return centre + level * design @ np.array([0.5, -1.0, 0.25, 0.75, -0.5])[: design.shape[1]] + noise * ERRORS


# wide, level, noise, and the centre of the data
FAR = {
    "far": lambda far, small: (2 * far, 1.0, 1.0, far),
    "small": lambda far, small: (1.0, small, small, 0.7),
    "a small level": lambda far, small: (1.0, small, 1.0, 0.7),
    "small noise": lambda far, small: (1.0, 1.0, small, 0.7),
    "far and small": lambda far, small: (2 * far * small, small, small, far * small),
}


@pytest.mark.parametrize("case", FAR)
@pytest.mark.parametrize("name", MODELS)
def test_in_double_precision(name, case):
    """A million standard deviations, a millionth: less than 10⁻⁶ nats."""
    wide, level, noise, centre = FAR[case](1e6, 1e-6)
    y = data(name, level, noise, centre)
    post = MODELS[name][0](np.float64(wide), np.float64(level), np.float64(noise)).condition(y=y)
    assert float(post.log_evidence()) == pytest.approx(evidence(name, y, wide, level, noise), abs=1e-6)


@pytest.mark.parametrize("case", FAR)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.one_in(4)
def test_in_single_precision(name, case):
    """A hundred standard deviations, a thousandth: less than 10⁻³ nats."""
    wide, level, noise, centre = (np.float32(number) for number in FAR[case](100.0, 1e-3))
    y = data(name, level, noise, centre).astype(np.float32)
    post = MODELS[name][0](jnp.asarray(wide), jnp.asarray(level), jnp.asarray(noise)).condition(y=jnp.asarray(y))
    found = post.log_evidence()
    assert found.data.dtype == np.float32
    assert float(found) == pytest.approx(evidence(name, y, wide, level, noise), abs=1e-3)
