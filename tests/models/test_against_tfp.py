"""Our joints against TensorFlow Probability's AutoBatched ones: equal log-probabilities and shapes of draws.

Runs where `tfp-nightly` is installed (`make bench`).
"""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

tfp = pytest.importorskip("tensorflow_probability.substrates.jax", reason="tfp-nightly is not installed")
tfd = tfp.distributions

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:tensorflow_probability")

RANDOM = np.random.default_rng(0)
ZERO, ONE = np.float64(0.0), np.float64(1.0)  # TFP takes Python's numbers for single precision


class Pair(NamedTuple):
    """The same model in both."""

    ours: Callable[[], Any]
    theirs: Callable[[], Any]


PAIRS: dict[str, Pair] = {}


def pair(theirs: Callable[[], Any]) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Ours, with theirs given."""

    def add(ours: Callable[[], Any]) -> Callable[[], Any]:
        PAIRS[ours.__name__] = Pair(ours, theirs)
        return ours

    return add


# -- the paper's ----------------------------------------------------------------------------------------------------


@pair(
    lambda: tfd.JointDistributionSequentialAutoBatched(
        [tfd.InverseGamma(3 * ONE, 2 * ONE), tfd.Normal(ZERO, ONE), lambda m, s: tfd.Normal(m, s)]
    )
)
def simple() -> Any:
    """Fig. 1."""
    return fb.JointSequential([dist.InverseGamma(3.0, 2.0), dist.Normal(0.0, 1.0), lambda m, s: dist.Normal(m, s)])


@pair(
    lambda: tfd.JointDistributionSequentialAutoBatched(
        [
            tfd.Sample(tfd.Normal(ZERO, 2 * ONE), [2, 5]),
            tfd.Sample(tfd.Normal(ZERO, 3 * ONE), [2, 7]),
            lambda v, u: tfd.Independent(tfd.Normal(u.T @ v, 0.5 * ONE), 2),
        ]
    )
)
def matrix_factorisation() -> Any:
    """Fig. 2."""
    return fb.JointSequential(
        [
            dist.Normal(0.0, 2.0).expand([2, 5]),
            dist.Normal(0.0, 3.0).expand([2, 7]),
            lambda v, u: dist.Normal(u.T @ v, 0.5).to_event(2),
        ]
    )


ALPHA, BETA = np.array([0.5, 1.0, 2.0]), RANDOM.normal(size=(3, 4))


def their_lda() -> Any:
    def model():
        n = yield tfd.Poisson(12 * ONE)
        theta = yield tfd.Dirichlet(ALPHA)
        z = yield tfd.Multinomial(total_count=n, probs=theta)
        yield tfd.Independent(tfd.Multinomial(total_count=z, logits=BETA), 1)

    return tfd.JointDistributionCoroutineAutoBatched(model)


@pair(their_lda)
def latent_dirichlet_allocation() -> Any:
    """Fig. 3."""

    @fb.model
    def lda(alpha, beta):
        n = yield dist.Poisson(12.0)
        theta = yield dist.Dirichlet(alpha)
        z = yield dist.MultinomialProbs(theta, total_count=n)
        w = yield dist.MultinomialLogits(beta, total_count=z).to_event(1)

    return lda(ALPHA, BETA)


def their_inner() -> Any:
    def inner():
        yield tfd.Bernoulli(probs=0.25 * ONE)
        yield tfd.Normal(ZERO, ONE)

    return tfd.JointDistributionCoroutineAutoBatched(inner)


def our_inner() -> Any:
    def inner():
        x0 = yield dist.Bernoulli(0.25)
        x1 = yield dist.Normal(0.0, 1.0)

    return fb.JointCoroutine(inner)


@pair(
    lambda: tfd.JointDistributionNamedAutoBatched(
        {
            "a": their_inner(),
            "b": tfd.JointDistributionSequentialAutoBatched((tfd.Poisson(2 * ONE), tfd.Gamma(2 * ONE, ONE))),
        }
    )
)
def nested() -> Any:
    """Section 6."""
    return fb.JointNamed(
        {"a": our_inner(), "b": fb.JointSequential((dist.Poisson(2.0), dist.Gamma(2.0, 1.0)))},
    )


# -- nesting, plates and batches ------------------------------------------------------------------------------------


def their_world() -> Any:
    def model():
        z = yield tfd.Normal(ZERO, np.array([1.0, 2.0, 3.0]))
        x = yield tfd.Normal(ZERO, ONE)
        yield tfd.Normal(z[:2] + x, ONE)

    return tfd.JointDistributionCoroutineAutoBatched(model)


@pair(their_world)
def one_world() -> Any:
    """Section 4.2: indices as written for one sample."""

    def model():
        z = yield dist.Normal(0.0, np.array([1.0, 2.0, 3.0]))
        x = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(z[:2] + x, 1.0)

    return fb.JointCoroutine(model)


SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


@pair(
    lambda: tfd.JointDistributionNamedAutoBatched(
        OrderedDict(
            mu=tfd.Normal(ZERO, 5 * ONE),
            tau=tfd.HalfCauchy(ZERO, 5 * ONE),
            theta=lambda tau, mu: tfd.Sample(tfd.Normal(mu, tau), 8),
            y=lambda theta: tfd.Independent(tfd.Normal(theta, SIGMA), 1),
        )
    )
)
def ordered_schools() -> Any:
    return fb.JointNamed(
        OrderedDict(
            mu=dist.Normal(0.0, 5.0),
            tau=dist.HalfCauchy(5.0),
            theta=lambda tau, mu: dist.Normal(mu, tau).expand([8]),
            y=lambda theta: dist.Normal(theta, SIGMA).to_event(1),
        )
    )


Line = namedtuple("Line", ["weights", "noise", "y"])
X = RANDOM.normal(size=(6, 2))


@pair(
    lambda: tfd.JointDistributionNamedAutoBatched(
        Line(
            tfd.MultivariateNormalDiag(np.zeros(2), np.array([1.0, 2.0])),
            tfd.Exponential(ONE),
            lambda weights, noise: tfd.Independent(tfd.Normal(X @ weights, noise), 1),
        )
    )
)
def regression_as_namedtuple() -> Any:
    return fb.JointNamed(
        Line(
            dist.MultivariateNormal(np.zeros(2), np.diag([1.0, 4.0])),
            dist.Exponential(1.0),
            lambda weights, noise: dist.Normal(X @ weights, noise),
        )
    )


@pair(
    lambda: tfd.JointDistributionNamedAutoBatched(
        {
            "probs": tfd.Dirichlet(np.array([1.0, 2.0, 3.0])),
            "locs": tfd.Sample(tfd.Normal(ZERO, 3 * ONE), 3),
            "which": lambda probs: tfd.Sample(tfd.Categorical(probs=probs), [2, 4]),
            "x": lambda which, locs: tfd.Independent(tfd.Normal(locs[which], ONE), 2),
        }
    )
)
def mixture_in_nested_plates() -> Any:
    return fb.JointNamed(
        {
            "probs": dist.Dirichlet(np.array([1.0, 2.0, 3.0])),
            "locs": dist.Normal(0.0, 3.0).expand([3]),
            "which": lambda probs: dist.CategoricalProbs(probs).expand([2, 4]),
            "x": lambda which, locs: dist.Normal(locs[which], 1.0),
        }
    )


@pair(
    lambda: tfd.JointDistributionSequentialAutoBatched(
        (
            tfd.Gamma(2 * ONE, ONE),
            lambda rate: tfd.JointDistributionSequentialAutoBatched(
                [tfd.Exponential(rate), lambda wait: tfd.Normal(wait, 2 * ONE)]
            ),
            lambda pair: tfd.Normal(pair[0] + pair[1], ONE),
        )
    )
)
def nested_with_parents() -> Any:
    """The sites of a nested joint depend on ones outside it, and the other way round."""
    return fb.JointSequential(
        (
            dist.Gamma(2.0, 1.0),
            lambda rate: fb.JointSequential([dist.Exponential(rate), lambda wait: dist.Normal(wait, 2.0)]),
            lambda pair: dist.Normal(pair[0] + pair[1], 1.0),
        )
    )


def their_walk() -> Any:
    def model():
        x = yield tfd.Normal(ZERO, ONE)
        for _ in range(4):
            x = yield tfd.Normal(0.9 * x, 0.5 * ONE)
            yield tfd.Poisson(jnp.exp(x))

    return tfd.JointDistributionCoroutineAutoBatched(model)


@pair(their_walk)
def walk_in_a_loop() -> Any:
    def model():
        x = yield dist.Normal(0.0, 1.0)
        for _ in range(4):
            x = yield dist.Normal(0.9 * x, 0.5)
            yield dist.Poisson(jnp.exp(x))

    return fb.JointCoroutine(model)


def their_hierarchy() -> Any:
    def model():
        inner = yield their_inner()
        scale = yield tfd.LogNormal(ZERO, 0.5 * ONE)
        yield tfd.Sample(tfd.StudentT(5 * ONE, inner[1] * inner[0], scale), 3)
        yield tfd.MultivariateNormalTriL(np.zeros(2), scale * np.array([[1.0, 0.0], [0.5, 2.0]]))

    return tfd.JointDistributionCoroutineAutoBatched(model)


@pair(their_hierarchy)
def coroutine_in_a_coroutine() -> Any:
    root = np.array([[1.0, 0.0], [0.5, 2.0]])

    def model():
        inner = yield our_inner()
        scale = yield dist.LogNormal(0.0, 0.5)
        y = yield dist.StudentT(5.0, inner[1] * inner[0], scale).expand([3])
        z = yield dist.MultivariateNormal(np.zeros(2), scale_tril=scale * root)

    return fb.JointCoroutine(model)


def their_bounds() -> Any:
    return tfd.JointDistributionNamedAutoBatched(
        {
            "u": tfd.Uniform(0.4 * ONE, 1.5 * ONE),
            "v": lambda u: tfd.Uniform(ZERO, u),
            "n": lambda v: tfd.Binomial(7 * ONE, probs=v / 2),
            "k": lambda u: tfd.Sample(tfd.Geometric(probs=u / 2), 2),
        }
    )


@pair(their_bounds)
def supports_with_parents() -> Any:
    return fb.JointNamed(
        {
            "u": dist.Uniform(0.4, 1.5),
            "v": lambda u: dist.Uniform(0.0, u),
            "n": lambda v: dist.BinomialProbs(v / 2, total_count=7),
            "k": lambda u: dist.GeometricProbs(u / 2).expand([2]),
        }
    )


every = pytest.mark.parametrize("name", PAIRS)
KEY = jax.random.key(0)


def shapes(values: Any) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree_util.tree_leaves(values)]


@every
@pytest.mark.parametrize("shape", [(), (5,), (2, 3)])
def test_shapes_of_draws(name: str, shape: tuple[int, ...]) -> None:
    ours = PAIRS[name].ours()
    with jax.enable_x64(True):
        theirs = PAIRS[name].theirs()
        drawn = jax.eval_shape(lambda key: theirs.sample(shape, seed=key), KEY)
    assert shapes(jax.eval_shape(lambda key: ours.sample(key, shape), KEY)) == shapes(drawn)


@every
def test_log_probabilities(name: str) -> None:
    """Of one sample and of a batch of three, at our draws."""
    ours = PAIRS[name].ours()
    many = ours.sample(KEY, (3,))
    for shape in ((), (3,)):
        values = many if shape else jax.tree_util.tree_map(lambda leaf: leaf[0], many)
        with jax.enable_x64(True):
            theirs = PAIRS[name].theirs()
            form = jax.eval_shape(lambda key: theirs.sample(shape, seed=key), KEY)  # noqa: B023
            leaves = zip(jax.tree_util.tree_leaves(values), jax.tree_util.tree_leaves(form), strict=True)
            same = [jnp.asarray(ours, theirs.dtype) for ours, theirs in leaves]
            at = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(form), same)
            expected = jax.jit(lambda at: theirs.log_prob(at))(at)  # noqa: B023
        found = ours.log_prob(values)
        assert found.shape == expected.shape == shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_batch_of_models() -> None:
    """Their batch of joints (`batch_ndims=1`) is a map over ours."""
    locs = np.array([-1.0, 0.0, 2.0])
    z, x = RANDOM.normal(size=3), RANDOM.normal(size=(3, 2))
    with jax.enable_x64(True):
        theirs = tfd.JointDistributionSequentialAutoBatched(
            [tfd.Normal(locs, ONE), lambda z: tfd.Sample(tfd.Normal(z, 2 * ONE), 2)], batch_ndims=1
        )
        expected = theirs.log_prob([jnp.asarray(z), jnp.asarray(x)])

        def one(loc, z, x):
            return fb.JointSequential([dist.Normal(loc, 1.0), lambda z: dist.Normal(z, 2.0).expand([2])]).log_prob(z, x)

        found = jax.vmap(one)(*map(jnp.asarray, (locs, z, x)))
    assert found.shape == expected.shape == (3,)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
