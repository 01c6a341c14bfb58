"""Models written in several ways: vectorised, mapped, looped, renamed, permuted, reordered."""

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

RANDOM = np.random.default_rng(2)
X = RANDOM.normal(size=(6, 3))
Y = X @ np.array([0.5, -1.0, 2.0]) + 0.4 * RANDOM.normal(size=6)
GROUP, ITEM = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 1, 0])
COUNTS, TOTALS = np.array([3, 0, 4, 2, 1, 5]), np.array([5, 3, 8, 4, 1, 9])
EXPOSURE = np.array([1.0, 2.0, 0.5, 3.5, 1.2, 0.1])


def one_by_one(y):
    """Observations as sites of their own."""
    return {f"y{place}": value for place, value in enumerate(y)}


# -- regression -----------------------------------------------------------------------------------------------------


@fb.model
def regression(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([3])
    y = yield dist.Normal(x @ w, jnp.sqrt(v))


@fb.model
def regression_mapped(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([3])
    y = yield dist.Normal(jax.vmap(lambda row: jnp.vdot(row, w))(x), jnp.sqrt(v))


@fb.model
def regression_in_other_words(data):
    noise = yield dist.InverseGamma(3.0, 2.0)
    weights = yield dist.Normal(0.0, noise**0.5).expand([3])
    seen = yield dist.Normal(jnp.einsum("j,ij->i", weights, data), noise**0.5)


@fb.model
def regression_permuted(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([3])
    y = yield dist.Normal((w * x).sum(axis=-1), jnp.sqrt(v))


@fb.model
def regression_of_single_weights(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    mean = 0.0
    for place in range(3):
        w = yield dist.Normal(0.0, jnp.sqrt(v)).named(f"w{place}")
        mean = mean + w * x[:, place]
    y = yield dist.Normal(mean, jnp.sqrt(v))


@fb.model
def regression_of_single_observations(x):
    v = yield dist.InverseGamma(3.0, 2.0)
    w = yield dist.Normal(0.0, jnp.sqrt(v)).expand([3])
    for place in range(6):
        yield dist.Normal(x[place] @ w, jnp.sqrt(v)).named(f"y{place}")


REGRESSION = {
    "vectorised": (regression(X).condition(y=Y), dict(w=["w"], v=["v"])),
    "mapped": (regression_mapped(X).condition(y=Y), dict(w=["w"], v=["v"])),
    "renamed": (regression_in_other_words(X).condition(seen=Y), dict(w=["weights"], v=["noise"])),
    "permuted": (regression_permuted(X).condition(y=Y), dict(w=["w"], v=["v"])),
    "single weights": (regression_of_single_weights(X).condition(y=Y), dict(w=["w0", "w1", "w2"], v=["v"])),
    "single observations": (
        regression_of_single_observations(X).condition(**one_by_one(Y)),
        dict(w=["w"], v=["v"]),
    ),
}


# -- an intercept and weights ---------------------------------------------------------------------------------------


@fb.model
def intercept(x):
    b = yield dist.Normal(0.0, 3.0)
    w = yield dist.Normal(1.0, 2.0).expand([3])
    y = yield dist.Normal(x @ w + b, 0.5)


@fb.model
def intercept_permuted(x):
    w = yield dist.Normal(1.0, 2.0).expand([3])
    b = yield dist.Normal(0.0, 3.0)
    y = yield dist.Normal(b + w @ x.T, 0.5)


@fb.model
def intercept_mapped(x):
    b = yield dist.Normal(0.0, 3.0)
    w = yield dist.Normal(1.0, 2.0).expand([3])
    y = yield dist.Normal(jax.vmap(lambda b, row: b + row @ w, in_axes=(None, 0))(b, x), 0.5)


@fb.model
def intercept_in_a_loop(x):
    b = yield dist.Normal(0.0, 3.0).named("base")
    w = []
    for place in range(3):
        w.append((yield dist.Normal(1.0, 2.0).named(f"w{place}")))
    for place in range(6):
        yield dist.Normal(sum(w[j] * x[place, j] for j in range(3)) + b, 0.5).named(f"y{place}")


INTERCEPT = {
    "vectorised": (intercept(X).condition(y=Y), dict(b=["b"], w=["w"])),
    "permuted, reordered": (intercept_permuted(X).condition(y=Y), dict(b=["b"], w=["w"])),
    "mapped": (intercept_mapped(X).condition(y=Y), dict(b=["b"], w=["w"])),
    "looped, renamed": (intercept_in_a_loop(X).condition(**one_by_one(Y)), dict(b=["base"], w=["w0", "w1", "w2"])),
}


# -- crossed effects ------------------------------------------------------------------------------------------------


@fb.model
def crossed(group, item):
    m = yield dist.Normal(0.0, 3.0)
    a = yield dist.Normal(0.0, 1.5).expand([3])
    b = yield dist.Normal(0.0, 0.7).expand([2])
    y = yield dist.Normal(m + a[group] + b[item], 0.5)


@fb.model
def crossed_reordered(group, item):
    b = yield dist.Normal(0.0, 0.7).expand([2])
    m = yield dist.Normal(0.0, 3.0)
    a = yield dist.Normal(0.0, 1.5).expand([3])
    y = yield dist.Normal(b[item] + (a[group] + m), 0.5)


@fb.model
def crossed_by_indicators(group, item):
    m = yield dist.Normal(0.0, 3.0)
    a = yield dist.Normal(0.0, 1.5).expand([3])
    b = yield dist.Normal(0.0, 0.7).expand([2])
    y = yield dist.Normal(m + jax.nn.one_hot(group, 3) @ a + jnp.where(item == 0, b[0], b[1]), 0.5)


@fb.model
def crossed_mapped(group, item):
    m = yield dist.Normal(0.0, 3.0)
    a = yield dist.Normal(0.0, 1.5).expand([3])
    b = yield dist.Normal(0.0, 0.7).expand([2])
    y = yield dist.Normal(jax.vmap(lambda i, j: m + a[i] + b[j])(group, item), 0.5)


@fb.model
def crossed_in_a_loop(group, item):
    effect = []
    for place in range(3):
        effect.append((yield dist.Normal(0.0, 1.5).named(f"group{place}")))
    common = yield dist.Normal(0.0, 3.0)
    first = yield dist.Normal(0.0, 0.7)
    second = yield dist.Normal(0.0, 0.7)
    for place in range(6):
        mean = effect[GROUP[place]] + common + (first, second)[ITEM[place]]
        yield dist.Normal(mean, 0.5).named(f"y{place}")


SAME = dict(m=["m"], a=["a"], b=["b"])
CROSSED = {
    "vectorised": (crossed(GROUP, ITEM).condition(y=Y), SAME),
    "permuted, reordered": (crossed_reordered(GROUP, ITEM).condition(y=Y), SAME),
    "by indicators": (crossed_by_indicators(GROUP, ITEM).condition(y=Y), SAME),
    "mapped": (crossed_mapped(GROUP, ITEM).condition(y=Y), SAME),
    "looped, renamed": (
        crossed_in_a_loop(GROUP, ITEM).condition(**one_by_one(Y)),
        dict(m=["common"], a=["group0", "group1", "group2"], b=["first", "second"]),
    ),
}


# -- nested means ---------------------------------------------------------------------------------------------------


@fb.model
def nested(group):
    m = yield dist.Normal(1.0, 3.0)
    a = yield dist.Normal(m, 1.5).expand([3])
    y = yield dist.Normal(a[group], 0.5)


@fb.model
def nested_as_a_matrix():
    m = yield dist.Normal(1.0, 3.0)
    a = yield dist.Normal(m, 1.5).expand([3])
    y = yield dist.Normal(a[:, None], 0.5).expand([3, 2])


@fb.model
def nested_apart(group):
    m = yield dist.Normal(1.0, 3.0)
    z = yield dist.Normal(0.0, 1.0).expand([3])
    y = yield dist.Normal(1.5 * jnp.take(z, group) + m, 0.5)


@fb.model
def nested_in_a_loop():
    m = yield dist.Normal(1.0, 3.0).named("top")
    for place in range(3):
        mean = yield dist.Normal(m, 1.5).named(f"a{place}")
        for k in (2 * place, 2 * place + 1):
            yield dist.Normal(mean, 0.5).named(f"y{k}")


NESTED = {
    "vectorised": (nested(GROUP).condition(y=Y), dict(m=["m"], a=["a"])),
    "a matrix": (nested_as_a_matrix().condition(y=Y.reshape(3, 2)), dict(m=["m"], a=["a"])),
    "apart": (nested_apart(GROUP).condition(y=Y), dict(m=["m"])),
    "looped, renamed": (nested_in_a_loop().condition(**one_by_one(Y)), dict(m=["top"], a=["a0", "a1", "a2"])),
}


# -- rates ----------------------------------------------------------------------------------------------------------


@fb.model
def rates(group, exposure):
    rate = yield dist.Gamma(2.0, 3.0).expand([3])
    y = yield dist.Poisson(rate[group] * exposure)


@fb.model
def rates_permuted(group, exposure):
    r = yield dist.Gamma(jnp.full(3, 2.0), 3.0)
    y = yield dist.Poisson(exposure * jnp.take(r, group))


@fb.model
def rates_mapped(group, exposure):
    rate = yield dist.Gamma(2.0, 3.0).expand([3])
    y = yield dist.Poisson(jax.vmap(lambda g, e: e * rate[g])(group, exposure))


@fb.model
def rates_in_a_loop(exposure):
    for place in range(3):
        rate = yield dist.Gamma(2.0, 3.0).named(f"rate{place}")
        for k in (2 * place, 2 * place + 1):
            yield dist.Poisson(exposure[k] * rate).named(f"y{k}")


RATES = {
    "vectorised": (rates(GROUP, EXPOSURE).condition(y=COUNTS), dict(rate=["rate"])),
    "permuted, renamed": (rates_permuted(GROUP, EXPOSURE).condition(y=COUNTS), dict(rate=["r"])),
    "mapped": (rates_mapped(GROUP, EXPOSURE).condition(y=COUNTS), dict(rate=["rate"])),
    "looped": (
        rates_in_a_loop(EXPOSURE).condition(**one_by_one(COUNTS)),
        dict(rate=["rate0", "rate1", "rate2"]),
    ),
}


# -- probabilities --------------------------------------------------------------------------------------------------


@fb.model
def coin(totals):
    p = yield dist.Beta(2.0, 3.0)
    y = yield dist.Binomial(totals, p)


@fb.model
def coin_spread(n):
    q = yield dist.Beta(2.0, 3.0)
    y = yield dist.Binomial(n, q * jnp.ones(6))


@fb.model
def coin_in_a_loop(totals):
    p = yield dist.Beta(2.0, 3.0)
    for place in reversed(range(6)):
        yield dist.Binomial(TOTALS[place], p).named(f"y{place}")


COIN = {
    "vectorised": (coin(TOTALS).condition(y=COUNTS), dict(p=["p"])),
    "spread, renamed": (coin_spread(TOTALS).condition(y=COUNTS), dict(p=["q"])),
    "looped": (coin_in_a_loop(TOTALS).condition(**one_by_one(COUNTS)), dict(p=["p"])),
}


@fb.model
def die(n):
    p = yield dist.Dirichlet(jnp.array([1.0, 2.0, 0.5]))
    y = yield dist.Categorical(p).expand([n])


@fb.model
def die_by_logits(n):
    share = yield dist.Dirichlet(jnp.array([1.0, 2.0, 0.5]))
    y = yield dist.Categorical(logits=jnp.log(share)).expand([n])


@fb.model
def die_in_a_loop(n):
    p = yield dist.Dirichlet(jnp.array([1.0, 2.0, 0.5]))
    for place in range(n):
        yield dist.Categorical(p).named(f"y{place}")


@fb.model
def die_as_a_matrix():
    p = yield dist.Dirichlet(jnp.array([1.0, 2.0, 0.5]))
    y = yield dist.Categorical(jnp.broadcast_to(p, (2, 3, 3)))


DIE = {
    "vectorised": (die(6).condition(y=GROUP), dict(p=["p"])),
    "by logits, renamed": (die_by_logits(6).condition(y=GROUP), dict(p=["share"])),
    "looped": (die_in_a_loop(6).condition(**one_by_one(GROUP)), dict(p=["p"])),
    "a matrix": (die_as_a_matrix().condition(y=GROUP.reshape(2, 3)), dict(p=["p"])),
}


# -- a mean and a variance, or a precision --------------------------------------------------------------------------


@fb.model
def mean_and_variance(n):
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(1.0, jnp.sqrt(v))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([n])


@fb.model
def mean_and_precision(n):
    t = yield dist.Gamma(3.0, 2.0)
    m = yield dist.Normal(1.0, 1 / jnp.sqrt(t))
    y = yield dist.Normal(m, 1 / jnp.sqrt(t)).expand([n])


@fb.model
def mean_and_variance_in_a_loop(n):
    v = yield dist.InverseGamma(3.0, 2.0).named("spread")
    m = yield dist.Normal(1.0, v**0.5).named("centre")
    for place in range(n):
        yield dist.Normal(m, v**0.5).named(f"y{place}")


MEAN_AND_VARIANCE = {
    "vectorised": (mean_and_variance(6).condition(y=Y), dict(m=["m"], v=["v"])),
    "by precision": (mean_and_precision(6).condition(y=Y), dict(m=["m"])),
    "looped, renamed": (mean_and_variance_in_a_loop(6).condition(**one_by_one(Y)), dict(m=["centre"], v=["spread"])),
}


# -- all of them ----------------------------------------------------------------------------------------------------

MODELS = {
    "regression": REGRESSION,
    "an intercept": INTERCEPT,
    "crossed effects": CROSSED,
    "nested means": NESTED,
    "rates": RATES,
    "a coin": COIN,
    "a die": DIE,
    "a mean and a variance": MEAN_AND_VARIANCE,
}


# -- eight schools, of which a scale is left ------------------------------------------------------------------------

SIGMA = np.array([15.0, 10, 16, 11, 9, 11])
EFFECTS = np.array([28.0, 8, -3, 7, -1, 1])


@fb.model
def schools():
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(mu, tau).expand([6])
    y = yield dist.Normal(theta, SIGMA)


@fb.model
def schools_reordered():
    tau = yield dist.HalfCauchy(5.0)
    mu = yield dist.Normal(0.0, 5.0)
    theta = yield dist.Normal(mu * jnp.ones(6), tau)
    y = yield dist.Normal(theta, SIGMA)


@fb.model
def schools_apart():
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(0.0, 1.0).expand([6])
    y = yield dist.Normal(theta * tau + mu, SIGMA)


@fb.model
def schools_mapped():
    mu = yield dist.Normal(0.0, 1.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(0.0, 1.0).expand([6])
    y = yield dist.Normal(jax.vmap(lambda unit: 5.0 * mu + tau * unit)(theta), SIGMA)


@fb.model
def schools_in_a_loop():
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    for place in range(6):
        theta = yield dist.Normal(mu, tau).named(f"theta{place}")
        yield dist.Normal(theta, SIGMA[place]).named(f"y{place}")


SCHOOLS = {
    "reordered": schools_reordered().condition(y=EFFECTS),
    "apart": schools_apart().condition(y=EFFECTS),
    "mapped": schools_mapped().condition(y=EFFECTS),
    "looped": schools_in_a_loop().condition(**one_by_one(EFFECTS)),
}
