"""log p(new data | data): closed forms against evidences, averages over draws against quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd
import pytest
from scipy import special, stats

import fubini as fb
from fubini import dist

KEY = jax.random.key(0)


# -- closed forms ---------------------------------------------------------------------------------------------------


@fb.model
def groups(group, count):
    mu = yield dist.Normal(0.0, 3.0)
    alpha = yield dist.Normal(mu, 2.0).expand([count])
    y = yield dist.Normal(alpha[group], 1.0)


GROUP, Y = np.array([0, 0, 1, 1]), np.array([1.0, 2.0, 3.0, 4.0])
NEW = np.array([0, 2, 2]), np.array([1.5, -1.0, -0.5])


def test_evidence_of_both_minus_evidence() -> None:
    post = groups(GROUP, 2).condition(y=Y)
    held_out = post.log_predictive(groups(NEW[0], 3).condition(y=NEW[1]))  # one group is new
    both = groups(np.append(GROUP, NEW[0]), 3).condition(y=np.append(Y, NEW[1]))
    assert held_out.exactness.is_exact
    assert np.isclose(float(held_out), float(both.log_evidence()) - float(post.log_evidence()), atol=1e-9)


def test_value_is_the_predictive_density() -> None:
    """Student's t of one observation."""
    model = fb.JointNamed(dict(v=dist.InverseGamma(3.0, 2.0), y=lambda v: dist.Normal(0.0, jnp.sqrt(v)).expand([2])))
    single = fb.JointNamed(dict(v=dist.InverseGamma(3.0, 2.0), y=lambda v: dist.Normal(0.0, jnp.sqrt(v))))
    value = model.condition(y=np.array([1.0, -0.5])).log_predictive(single.condition(y=0.7))
    rate = 2.0 + 0.5 * 1.25
    assert np.isclose(float(value), stats.t(8, scale=np.sqrt(rate / 4.0)).logpdf(0.7))


def test_numpyro_function() -> None:
    def model(n, y=None):
        p = numpyro.sample("p", nd.Beta(1.0, 1.0))
        numpyro.sample("y", nd.Bernoulli(p).expand([n]), obs=y)

    post = fb.from_numpyro(model, 3, np.array([1, 1, 0]))
    value = post.log_predictive(fb.from_numpyro(model, 2, np.array([1, 1])))
    assert np.isclose(float(value), np.log(3 / 5 * 4 / 6))


def test_nested_joints() -> None:
    inner = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0)))

    @fb.model
    def outer(n):
        part = yield inner
        y = yield dist.Normal(part["m"], 1.0).expand([n])

    post = outer(2).condition(y=np.array([1.0, 2.0]))
    value = post.log_predictive(outer(1).condition(y=np.array([0.5])))
    assert np.isclose(float(value), stats.norm(1.0, np.sqrt(4 / 3)).logpdf(0.5))


def test_later_steps_of_a_chain() -> None:
    @fb.model
    def level(steps):
        z = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x, t: dist.Normal(0.9 * x + 0.1 * t, 0.5), steps)
        y = yield dist.Normal(z, 0.3)

    y, later = np.array([0.1, 0.5, 0.9]), np.array([0.8, 0.9])
    post = level(3).condition(y=y)
    held_out = np.ma.masked_invalid(np.append(np.full(3, np.nan), later))
    value = post.log_predictive(level(5).condition(y=held_out))
    both = level(5).condition(y=np.append(y, later))
    assert np.isclose(float(value), float(both.log_evidence()) - float(post.log_evidence()), atol=1e-9)


def test_latents_of_rows_are_new_where_that_is_said() -> None:
    @fb.model
    def rows(n):
        m = yield dist.Normal(0.0, 2.0)
        u = yield dist.Normal(m, 1.0).expand([n])
        y = yield dist.Normal(u, 0.5)

    post = rows(2).condition(y=np.array([1.0, 2.0]))
    value = post.log_predictive(rows(2).condition(y=np.array([0.0, 3.0])), new="u")
    both = rows(4).condition(y=np.array([1.0, 2.0, 0.0, 3.0]))
    assert np.isclose(float(value), float(both.log_evidence()) - float(post.log_evidence()), atol=1e-9)


def test_gradient_and_single_precision() -> None:
    def value(y):
        post = groups(jnp.asarray(GROUP), 2).condition(y=jnp.asarray(Y))
        return post.log_predictive(groups(jnp.array([1]), 2).condition(y=y[None])).data

    slope, step = jax.grad(value)(jnp.asarray(2.0)), 0.25
    assert value(jnp.asarray(2.0)).dtype == jnp.float32
    assert np.isclose(slope, (value(jnp.asarray(2.0 + step)) - value(jnp.asarray(2.0 - step))) / (2 * step), rtol=1e-3)


# -- averages over draws --------------------------------------------------------------------------------------------


@fb.model
def regression(x):
    s = yield dist.HalfNormal(1.0)
    w = yield dist.Normal(0.0, 2.0)
    y = yield dist.Normal(w * x, s)


X, Z = np.array([0.5, -1.0, 2.0, 1.0]), np.array([0.4, -0.7, 1.9, 1.2])
POST = regression(X).condition(y=Z)
HELD_OUT = regression(np.array([1.5, 0.3])).condition(y=np.array([1.0, 0.6]))


@pytest.fixture(scope="module")
def draws() -> dict[str, np.ndarray]:
    """Independent draws of both latents: the scale by a grid, the slope given it."""
    grid = np.linspace(0.01, 6.0, 4000)
    log_p = np.array([float(t) for t in POST.eliminate("w").log_prob(s=grid)])
    s = np.random.default_rng(0).choice(grid, (2, 1000), p=np.exp(log_p - special.logsumexp(log_p)))
    return POST.recover(KEY, {"s": s})


def exact() -> float:
    with fb.quadrature():
        value = POST.log_predictive(HELD_OUT)
    assert value.exactness.error is not None and value.exactness.error < 1e-6
    return float(value)


def test_slope_is_integrated_out_at_each_draw(draws) -> None:
    value, expected = POST.log_predictive(HELD_OUT, draws=draws), exact()
    assert value.exactness.marks == ("estimated(2000)",)
    assert abs(float(value) - expected) < 4 * value.exactness.error
    w, s = draws["w"].reshape(-1, 1), draws["s"].reshape(-1, 1)
    weights = stats.norm(w * np.array([1.5, 0.3]), s).pdf([1.0, 0.6]).prod(-1)
    assert value.exactness.error < weights.std() / weights.mean() / np.sqrt(2000)  # Rao and Blackwell
    other = POST.log_predictive(HELD_OUT, draws={**draws, "w": -draws["w"]})
    assert float(other) == float(value)  # which slopes were drawn does not matter


def test_new_latents_without_a_closed_form_are_drawn() -> None:
    @fb.model
    def counts(extra):
        w = yield dist.Normal(0.0, 1.0)
        u = (yield dist.Normal(0.0, 1.0).named("u")) if extra else 0.0
        y = yield dist.Poisson(jnp.exp(w + u))

    post = counts(False).condition(y=2)
    at = np.linspace(-8, 8, 801)
    log_p = stats.norm.logpdf(at) + stats.poisson(np.exp(at)).logpmf(2)
    shares = np.exp(log_p - special.logsumexp(log_p))
    draws = {"w": np.random.default_rng(0).choice(at, (2, 2000), p=shares)}
    value = post.log_predictive(counts(True).condition(y=4), draws=draws, key=KEY)
    terms = stats.poisson(np.exp(at[:, None] + at)).pmf(4) @ (stats.norm.pdf(at) * (at[1] - at[0]))
    assert abs(float(value) - np.log(shares @ terms)) < 4 * value.exactness.error
    assert value.exactness.error < 0.1


# -- recover --------------------------------------------------------------------------------------------------------


def test_recover_from_arviz_data_and_arrays(draws) -> None:
    data = POST.infer(KEY, draws=20, chains=2, progress=False, predictive=False)
    only = data.posterior[["s"]]
    recovered = POST.recover(KEY, only)
    assert recovered["w"].shape == (2, 20) and np.array_equal(recovered["s"], data.posterior["s"])
    smaller = POST.eliminate("w").recover(KEY, data)  # other names of ArviZ data are left alone
    assert np.array_equal(smaller["w"], recovered["w"])
    assert np.array_equal(POST.recover(KEY, data)["w"], data.posterior["w"])  # nothing is left to draw
    precision = 0.25 + X @ X / draws["s"] ** 2
    standard = (draws["w"] - X @ Z / draws["s"] ** 2 / precision) * np.sqrt(precision)
    assert abs(standard.mean()) < 5 / np.sqrt(2000) and abs(standard.std() - 1) < 0.08
