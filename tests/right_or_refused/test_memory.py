"""No question asks for more memory than a few times the data: factorisations are thin, and taken in parts."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

pytestmark = pytest.mark.right_or_refused

ROWS, COLUMNS, GROUPS, ITEMS = 100_000, 8, 50, 20
TIMES = 4.5 if jax.__version__.startswith("0.10.") else 4  # of the data; JAX 0.10.1 keeps 4.25 in one case
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(ROWS, COLUMNS))
Y = X @ RANDOM.normal(size=COLUMNS) + RANDOM.normal(size=ROWS)
GROUP, ITEM = RANDOM.integers(0, GROUPS, ROWS), RANDOM.integers(0, ITEMS, ROWS)
MANY = 2_000
IN_MANY = RANDOM.integers(0, MANY, ROWS)
COUNTS, HITS = RANDOM.poisson(3.0, ROWS), RANDOM.integers(0, 2, ROWS)
KEY = jax.random.key(0)


@fb.model
def regression(x):
    b = yield dist.Normal(0.0, 2.0)
    w = yield dist.Normal(0.0, 1.0).expand([x.shape[1]])
    y = yield dist.Normal(x @ w + b, 0.5)


@fb.model
def regression_with_noise(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


@fb.model
def regression_with_a_scale(x):
    w = yield dist.Normal(0.0, 1.0).expand([x.shape[1]])
    b = yield dist.Normal(0.0, 2.0)
    s = yield dist.HalfNormal(1.0)
    y = yield dist.Normal(x @ w + b, s)


@fb.model
def regression_with_uneven_noise(x):
    g = yield dist.Normal(0.0, 1.0)
    w = yield dist.Normal(0.0, 1.0).expand([x.shape[1]])
    y = yield dist.Normal(x @ w, jnp.exp(g * x[:, 0]))


@fb.model
def hierarchy():
    m = yield dist.Normal(0.0, 1.0)
    t = yield dist.HalfNormal(1.0)
    a = yield dist.Normal(m, t).expand([GROUPS])
    y = yield dist.Normal(a[GROUP], 1.0)


@fb.model
def groups_with_a_slope(group, x):
    m = yield dist.Normal(0.0, 3.0)
    slope = yield dist.Normal(0.0, 3.0)
    t = yield dist.HalfNormal(1.0)
    a = yield dist.Normal(m, t).expand([MANY])
    y = yield dist.Normal(a[group] + slope * x, 0.5)


@fb.model
def crossed(group, item):
    m = yield dist.Normal(0.0, 3.0)
    a = yield dist.Normal(0.0, 1.5).expand([GROUPS])
    b = yield dist.Normal(0.0, 0.7).expand([ITEMS])
    y = yield dist.Normal(m + a[group] + b[item], 0.5)


@fb.model
def rates():
    rate = yield dist.Gamma(2.0, 3.0).expand([GROUPS])
    y = yield dist.Poisson(rate[GROUP])


@fb.model
def logistic(x):
    w = yield dist.Normal(0.0, 1.0).expand([x.shape[1]])
    y = yield dist.Bernoulli(logits=x @ w)


@fb.model
def mixture():
    p = yield dist.Dirichlet(jnp.ones(4))
    m = yield dist.Normal(0.0, 3.0).expand([4])
    z = yield dist.Categorical(p).expand([ROWS])
    y = yield dist.Normal(m[z], 1.0)


# A model of x and y, the numbers of a row, and values of what is not eliminated. A label has a weight for each class.
MODELS = {
    "regression": (lambda x, y: regression(x).condition(y=y), X, Y, COLUMNS + 1, {}),
    "unknown noise": (lambda x, y: regression_with_noise(x).condition(y=y), X, Y, COLUMNS + 1, {}),
    "a scale": (lambda x, y: regression_with_a_scale(x).condition(y=y), X, Y, COLUMNS + 1, dict(s=0.7)),
    "uneven noise": (lambda x, y: regression_with_uneven_noise(x).condition(y=y), X, Y, COLUMNS + 1, dict(g=0.1)),
    "hierarchy": (lambda x, y: hierarchy().condition(y=y), X, Y, 2, dict(t=0.7)),
    "many groups": (lambda x, y: groups_with_a_slope(IN_MANY, x[:, 0]).condition(y=y), X, Y, COLUMNS + 1, dict(t=0.7)),
    "crossed effects": (lambda x, y: crossed(GROUP, ITEM).condition(y=y), X, Y, 3, {}),
    "rates": (lambda x, y: rates().condition(y=y), X, COUNTS, 2, {}),
    "logistic": (lambda x, y: logistic(x).condition(y=y), X, HITS, COLUMNS + 1, dict(w=np.zeros(COLUMNS))),
    "mixture": (lambda x, y: mixture().condition(y=y), X, Y, 1 + 4, dict(p=np.full(4, 0.25), m=np.arange(4.0))),
}


def reduced(post, left):
    return post.eliminate(*(name for name in post.names if name not in left))


def density(post, left):
    return reduced(post, left).log_prob(**left)


def mean_of_last(post, left):
    name = post.names[-1]
    return post.marginal(name).mean(name).data


def posterior_at_a_point(post, left):
    return post.posterior()(**{name: jnp.full(post.outline[name].shape, 0.5) for name in post.names}).log().data


QUESTIONS = {
    "log_evidence": lambda post, left: post.log_evidence().data,
    "marginal": mean_of_last,
    "posterior": posterior_at_a_point,
    "log_prob": density,
    "gradient": lambda post, left: jax.grad(lambda values: density(post, values))(left),  # as map and infer ask for it
    "recover": lambda post, left: reduced(post, left).recover(KEY, left),
    "predict": lambda post, left: post.predict(KEY, draws=1),
}
ASKED = [
    ("regression", "log_evidence"),
    ("regression", "marginal"),
    ("regression", "posterior"),
    ("regression", "recover"),
    ("unknown noise", "predict"),
    ("unknown noise", "posterior"),
    ("a scale", "gradient"),
    ("uneven noise", "gradient"),
    ("uneven noise", "recover"),
    ("hierarchy", "gradient"),
    ("many groups", "gradient"),
    ("crossed effects", "log_evidence"),
    ("rates", "log_evidence"),
    ("rates", "posterior"),
    ("logistic", "gradient"),
    ("mixture", "log_prob"),
    ("mixture", "gradient"),
    ("mixture", "recover"),
]


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize(("model", "question"), ASKED)
@pytest.mark.one_in(3)
def test_compiled_memory_is_a_few_times_the_data(model, question):
    make, x, y, numbers, left = MODELS[model]
    data = jnp.asarray(x), jnp.asarray(y)
    at = {name: jnp.asarray(value, float) for name, value in left.items()}
    compiled = jax.jit(lambda x, y: QUESTIONS[question](make(x, y), at)).lower(*data).compile()
    sizes = compiled.memory_analysis()
    assert sizes.temp_size_in_bytes + sizes.output_size_in_bytes <= TIMES * ROWS * numbers * 4


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("model", ["regression", "crossed effects"])
def test_compiled_memory_of_the_gradient_of_evidence_in_the_data(model):
    make, x, y, numbers, _ = MODELS[model]
    slope = jax.jit(jax.grad(lambda y, x: make(x, y).log_evidence().data))
    sizes = slope.lower(jnp.asarray(y), jnp.asarray(x)).compile().memory_analysis()
    assert sizes.temp_size_in_bytes + sizes.output_size_in_bytes <= TIMES * ROWS * numbers * 4


@pytest.mark.parametrize(
    ("model", "question"),
    [
        ("regression", "log_evidence"),
        ("regression", "posterior"),
        ("unknown noise", "log_evidence"),
        ("a scale", "log_prob"),
        ("uneven noise", "log_prob"),
    ],
)
def test_memory_on_numpy_is_a_few_times_the_data(model, question):
    make, x, y, numbers, left = MODELS[model]
    post = make(x, y)
    tracemalloc.start()
    try:
        found = QUESTIONS[question](post, left)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert np.isfinite(float(found))
    assert peak <= TIMES * ROWS * numbers * 8


def log_evidence_of_regression(x, y):
    """By the information matrix, in double precision."""
    design = np.column_stack([np.ones(len(x)), x])
    prior = np.r_[1 / 4, np.ones(x.shape[1])]
    precision = np.diag(prior) + design.T @ design / 0.25
    push = design.T @ y / 0.25
    squares = y @ y / 0.25 - push @ np.linalg.solve(precision, push)
    logdet = np.linalg.slogdet(precision)[1] - np.sum(np.log(prior))
    return -0.5 * (len(y) * np.log(2 * np.pi * 0.25) + logdet + squares)


def test_regression_past_five_million_numbers():
    rows = 5_000_000 // COLUMNS + 1
    x = np.resize(X, (rows, COLUMNS))
    y = np.resize(Y, rows)
    expected = log_evidence_of_regression(x, y)
    assert float(regression(x).condition(y=y).log_evidence()) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rows", [40, 333, 1_000])
def test_rows_taken_in_parts_give_the_same_density_and_gradient(rows):
    x, y = jnp.asarray(X[:rows]), jnp.asarray(Y[:rows])

    def log_evidence(y):
        return regression(x).condition(y=y).log_evidence().data

    found, slope = jax.jit(jax.value_and_grad(log_evidence))(y)
    assert float(found) == pytest.approx(log_evidence_of_regression(X[:rows], Y[:rows]), rel=1e-5)
    design = np.column_stack([np.ones(rows), X[:rows]])
    covariance = 0.25 * np.eye(rows) + design @ np.diag(np.r_[4.0, np.ones(COLUMNS)]) @ design.T
    np.testing.assert_allclose(slope, -np.linalg.solve(covariance, Y[:rows]), rtol=1e-3, atol=1e-3)


def test_crossed_effects_are_solved_for_together():
    group, item, y = GROUP[:2_000], ITEM[:2_000], Y[:2_000]
    design = np.column_stack([np.ones(len(y)), np.eye(GROUPS)[group], np.eye(ITEMS)[item]])
    scales = np.r_[9.0, np.full(GROUPS, 2.25), np.full(ITEMS, 0.49)]
    covariance = 0.25 * np.eye(len(y)) + (design * scales) @ design.T
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + y @ np.linalg.solve(covariance, y))
    post = crossed(group, item).condition(y=y)
    assert float(post.log_evidence()) == pytest.approx(expected, rel=1e-9)
    mean = scales * (design.T @ np.linalg.solve(covariance, y))
    np.testing.assert_allclose(post.marginal("a").mean("a").data, mean[1 : 1 + GROUPS], rtol=1e-7, atol=1e-9)
