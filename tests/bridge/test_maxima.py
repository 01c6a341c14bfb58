"""The greatest value of products that no rule joins, and where it is: factors and models, against a search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import fubini as fb
from fubini import dist, ops
from fubini.errors import Intractable

RATE, PROBABILITY, SPREAD = fb.Variable("r", fb.Positive), fb.Variable("p", fb.Unit), fb.Variable("v", fb.Positive)
MEAN, SHARES = fb.Variable("m", fb.Real), fb.Variable("s", fb.Simplex[3])
COUNTS = fb.Array(np.array([2, 0, 5]), ("i",))

PRODUCTS = {
    "a rate": [dist.Gamma(2.0, 3.0)("r"), dist.Poisson(RATE)(4)],
    "a probability": [dist.Beta(2.0, 3.0)("p"), dist.Binomial(7, PROBABILITY)(5)],
    "a mean and a variance": [
        dist.InverseGamma(3.0, 2.0)("v"),
        dist.Normal(0.5, ops.sqrt(SPREAD))("m"),
        dist.Normal(MEAN, ops.sqrt(SPREAD))(1.3),
    ],
    "a rate of waits": [dist.Gamma(2.5, 3.0)("r"), dist.Gamma(4.0, RATE)(0.7), dist.Exponential(RATE)(1.9)],
}


def log_density(factors, values):
    """Of the product at values."""
    parts = (f(**{name: values[name] for name in f.inputs}) for f in factors)
    return sum(float(part.log()) for part in parts)


def searched(factors):
    """The maximum by a search, in logarithms of what is positive."""
    names = sorted({name for f in factors for name in f.inputs})
    domains = {name: domain for f in factors for name, domain in f.inputs.items()}
    maps = {"real": lambda x: x, "positive": np.exp, "unit": lambda x: 1 / (1 + np.exp(-x))}

    def values(x):
        return {name: maps[domains[name].kind](x[k]) for k, name in enumerate(names)}

    found = optimize.minimize(
        lambda x: -log_density(factors, values(x)), np.zeros(len(names)), method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-12},
    )  # fmt: skip
    return values(found.x), -found.fun


@pytest.mark.parametrize("name", PRODUCTS)
def test_where_and_how_great(name):
    factors = PRODUCTS[name]
    where, greatest = searched(factors)
    found = fb.argmax(factors, list(where))
    assert {n: float(v) for n, v in found.items()} == pytest.approx(where, rel=1e-4)
    assert log_density(factors, found) >= greatest - 1e-9
    total = fb.eliminate(factors, list(where), semiring=fb.max_product)
    assert float(total.log()) == pytest.approx(greatest, abs=1e-7) and total.exactness.is_exact


def test_shares_of_a_whole():
    factors = [dist.Dirichlet(np.array([2.0, 3.0, 1.5]))("s"), dist.Categorical(probs=SHARES)(1)]
    np.testing.assert_allclose(fb.argmax(factors, ["s"])["s"], np.array([1.0, 3.0, 0.5]) / 4.5)


def test_a_label_and_what_it_decides():
    """The label whose rate explains the count best, and that rate."""
    prior = fb.Table([0.3, 0.7], ("k",))
    factors = [prior, dist.Gamma(fb.Array([2.0, 9.0], ("k",)), 3.0)("r"), dist.Poisson(RATE)(4)]
    found = fb.argmax(factors, ["k", "r"])
    heights = [log_density(factors, {"k": k, "r": (c + 3) / 4}) for k, c in enumerate((2.0, 9.0))]
    assert (int(found["k"]), float(found["r"])) == (1, 3.0)
    assert float(fb.eliminate(factors, ["k", "r"], semiring=fb.max_product).log()) == pytest.approx(max(heights))


def test_for_each_cell():
    factors = [dist.Gamma(2.0, 3.0)("r"), dist.Poisson(RATE)(COUNTS)]
    found = fb.argmax(factors, ["r"])["r"]
    np.testing.assert_allclose(found, (np.array([2, 0, 5]) + 1) / 4)


@pytest.mark.parametrize("is_double", [False, True], ids=["float32", "float64"])
def test_under_jit(is_double):
    with jax.enable_x64(is_double):

        def best(shape, count):
            return fb.argmax([dist.Gamma(shape, 3.0)("r"), dist.Poisson(RATE)(fb.Array(count, (), fb.Nat))], ["r"])["r"]

        given = jnp.asarray(2.0), jnp.asarray(4)
        assert float(jax.jit(best)(*given)) == pytest.approx(1.25) == pytest.approx(float(best(*given)))
        assert float(jax.grad(best)(*given)) == pytest.approx(0.25)


def test_no_maximum_inside():
    with pytest.raises(Intractable, match="its maximum inside the support"):
        fb.argmax([dist.Gamma(0.5, 3.0)("r")], ["r"])


@fb.model
def measured(n):
    v = yield dist.InverseGamma(3.0, 2.0)
    m = yield dist.Normal(0.0, jnp.sqrt(v))
    y = yield dist.Normal(m, jnp.sqrt(v)).expand([n])


@pytest.mark.parametrize("numbers", [np.asarray, jnp.asarray], ids=["NumPy", "JAX"])
def test_models(numbers):
    """map() is exact, and the greatest density is that of max_product."""
    post = measured(3).condition(y=numbers(np.array([1.0, 2.0, 3.0])))
    best = post.map()
    assert float(best.m) == pytest.approx(1.5) and float(best.v) == pytest.approx(0.75)
    assert float(post.log_evidence(semiring=fb.max_product)) == pytest.approx(float(post.log_prob(best)), rel=1e-6)
    jitted = jax.jit(lambda y: measured(3).condition(y=y).map().v)(jnp.array([1.0, 2.0, 3.0]))
    assert float(jitted) == pytest.approx(0.75)


def test_semirings_of_networks():
    """Of tables, every semiring means something."""
    net = fb.JointNamed(dict(a=dist.Categorical(np.array([0.2, 0.8])), b=lambda a: dist.Bernoulli(0.25 + 0.5 * a)))
    post = net.condition(b=1)
    assert float(post.log_evidence(semiring=fb.max_product)) == pytest.approx(np.log(0.8 * 0.75))
    assert float(post.log_evidence()) == pytest.approx(np.log(0.2 * 0.25 + 0.8 * 0.75))
