"""Models with labels, each with a way to draw labels from their prior and data given the labels."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist

N, K = 6, 3
DOC = np.array([0, 0, 1, 2, 2, 2])
ROWS = np.array([0, 1, 0, 2, 3, 0])
WORDS = np.array([0.5, 2.0, 1.0])
X = np.array([-1.5, 0.2, 0.9, -0.4, 2.0, 0.0])
SCALE = np.array([0.5, 1.0, 2.0, 1.0, 0.7, 1.3])


class Case(NamedTuple):
    """A model of data given labels; `data(generator, labels)` draws data, all other latents from their priors."""

    model: Any
    observed: str
    eliminated: tuple[str, ...]
    label: str
    shape: tuple[int, ...]
    labels: Callable[[np.random.Generator], np.ndarray]
    data: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    size: int = K
    low: int = 0
    top: int | None = None  # the greatest value that data can have

    def post(self, data: np.ndarray) -> Any:
        return self.model.condition(**{self.observed: data})

    def sampler(self, data: np.ndarray, **options: Any) -> Any:
        return self.post(data).eliminate(*self.eliminated).gibbs(self.label, **options)


def mixed(count: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda g: g.choice(K, size=count, p=g.dirichlet(np.ones(K)))


@fb.model
def gaussian(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(0.0, 3.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], 1.0)


@fb.model
def weighted(n, k):
    theta = yield dist.Dirichlet(jnp.array([1.0, 2.0, 0.5]))
    mu = yield dist.Normal(1.0, 3.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], SCALE)


@fb.model
def unknown_variance(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    tau = yield dist.Gamma(2.0, 3.0).expand([k])
    mu = yield dist.Normal(0.0, 1 / jnp.sqrt(tau))
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], 1 / jnp.sqrt(tau[y]))


@fb.model
def counts(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    rate = yield dist.Gamma(2.0, 0.5).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Poisson(rate[y])


@fb.model
def coins(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    p = yield dist.Beta(2.0, 3.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Bernoulli(p[y])


@fb.model
def regressions(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    a = yield dist.Normal(0.0, 3.0).expand([k])
    b = yield dist.Normal(0.0, 2.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(a[y] * X + b[y], 1.5)


@fb.model
def common_mean(n, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    centre = yield dist.Normal(0.0, 2.0)
    mu = yield dist.Normal(centre, 3.0).expand([k])
    y = yield dist.Categorical(theta).expand([n])
    s = yield dist.Normal(mu[y], 1.0)


@fb.model
def spike(n):
    p = yield dist.Beta(2.0, 3.0)
    mu = yield dist.Normal(0.0, 3.0)
    y = yield dist.Bernoulli(p).expand([n])
    s = yield dist.Normal(jnp.where(y == 1, mu, 0.0), 1.0)


@fb.model
def topics(d, v, k):
    theta = yield dist.Dirichlet(jnp.ones(k)).expand([d])
    phi = yield dist.Dirichlet(jnp.ones(v)).expand([k])
    y = yield dist.Categorical(theta[DOC])
    s = yield dist.Categorical(phi[y])


@fb.model
def words_by_row(rows, k):
    """A row of the data has chances of its own for each class, and the words are not alike beforehand."""
    theta = yield dist.Dirichlet(jnp.ones(k))
    phi = yield dist.Dirichlet(WORDS).expand([4, k])
    y = yield dist.Categorical(theta).expand(list(rows.shape))
    s = yield dist.Categorical(phi[rows, y])


@fb.model
def naive_bayes(d, v, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    phi = yield dist.Dirichlet(jnp.ones(v)).expand([k])
    y = yield dist.Categorical(theta).expand([d])
    s = yield dist.Categorical(phi[y[DOC]])


@fb.model
def groups(d, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    mu = yield dist.Normal(1.0, 3.0).expand([k])
    y = yield dist.Categorical(theta).expand([d])
    s = yield dist.Normal(mu[y[DOC]], 2.0)


@fb.model
def table(n, m, k):
    theta = yield dist.Dirichlet(jnp.ones(k)).expand([m])
    mu = yield dist.Normal(0.0, 3.0).expand([k])
    y = yield dist.Categorical(theta).expand([n, m])
    s = yield dist.Normal(mu[y], 1.0)


@fb.model
def doses(n):
    rate = yield dist.Gamma(2.0, 1.0)
    y = yield dist.DiscreteUniform(1, 3).expand([n])
    s = yield dist.Poisson(rate * y)


FROM, TO = np.array([0, 1, 2, 3, 1, 0]), np.array([1, 2, 3, 0, 1, 3])  # edges, one from a node to itself


@fb.model
def blocks(nodes, k):
    theta = yield dist.Dirichlet(jnp.ones(k))
    rate = yield dist.Gamma(2.0, 0.5).expand([k, k])
    y = yield dist.Categorical(theta).expand([nodes])
    s = yield dist.Poisson(rate[y[FROM], y[TO]])


def _normal(g: np.random.Generator, mean: Any, scale: Any = 1.0) -> np.ndarray:
    return g.normal(mean, scale)


def _regression(g: np.random.Generator, y: np.ndarray) -> np.ndarray:
    a, b = g.normal(0.0, 3.0, K), g.normal(0.0, 2.0, K)
    return g.normal(a[y] * X + b[y], 1.5)


def _unknown(g: np.random.Generator, y: np.ndarray) -> np.ndarray:
    scale = g.gamma(2.0, 1 / 3.0, K) ** -0.5
    return g.normal(g.normal(0.0, scale)[y], scale[y])


def _words(g: np.random.Generator, classes: np.ndarray, v: int) -> np.ndarray:
    phi = g.dirichlet(np.ones(v), K)
    return np.array([g.choice(v, p=phi[c]) for c in classes])


def _words_by_row(g: np.random.Generator, rows: np.ndarray, y: np.ndarray) -> np.ndarray:
    phi = g.dirichlet(WORDS, (4, K))
    return np.array([g.choice(3, p=chances) for chances in phi[rows, y].reshape(-1, 3)]).reshape(y.shape)


def _topics(g: np.random.Generator) -> np.ndarray:
    theta = g.dirichlet(np.ones(K), 3)
    return np.array([g.choice(K, p=theta[d]) for d in DOC])


def _columns(g: np.random.Generator) -> np.ndarray:
    theta = g.dirichlet(np.ones(K), 2)
    return np.array([[g.choice(K, p=theta[j]) for j in range(2)] for _ in range(4)])


CASES = {
    "gaussian": Case(
        gaussian(N, K), "s", ("theta", "mu"), "y", (N,), mixed(N), lambda g, y: _normal(g, g.normal(0.0, 3.0, K)[y])
    ),
    "weighted": Case(
        weighted(N, K), "s", ("theta", "mu"), "y", (N,),
        lambda g: g.choice(K, size=N, p=g.dirichlet([1.0, 2.0, 0.5])),
        lambda g, y: _normal(g, g.normal(1.0, 3.0, K)[y], SCALE),
    ),
    "unknown variance": Case(
        unknown_variance(N, K), "s", ("theta", "mu", "tau"), "y", (N,), mixed(N), _unknown
    ),
    "counts": Case(
        counts(N, K), "s", ("theta", "rate"), "y", (N,), mixed(N), lambda g, y: g.poisson(g.gamma(2.0, 2.0, K)[y])
    ),
    "coins": Case(
        coins(N, K), "s", ("theta", "p"), "y", (N,), mixed(N), lambda g, y: g.binomial(1, g.beta(2.0, 3.0, K)[y]),
        top=1,
    ),
    "regressions": Case(regressions(N, K), "s", ("theta", "a", "b"), "y", (N,), mixed(N), _regression),
    "common mean": Case(
        common_mean(N, K), "s", ("theta", "mu", "centre"), "y", (N,), mixed(N),
        lambda g, y: _normal(g, g.normal(g.normal(0.0, 2.0), 3.0, K)[y]),
    ),
    "spike": Case(
        spike(N), "s", ("p", "mu"), "y", (N,), lambda g: g.binomial(1, g.beta(2.0, 3.0), N),
        lambda g, y: _normal(g, np.where(y == 1, g.normal(0.0, 3.0), 0.0)), 2,
    ),
    "topics": Case(topics(3, 4, K), "s", ("theta", "phi"), "y", (N,), _topics, lambda g, y: _words(g, y, 4), top=3),
    "words by row": Case(
        words_by_row(ROWS, K), "s", ("theta", "phi"), "y", (N,), mixed(N),
        lambda g, y: _words_by_row(g, ROWS, y), top=2,
    ),
    "words in a table": Case(
        words_by_row(ROWS.reshape(-1, 2), K), "s", ("theta", "phi"), "y", (N // 2, 2),
        lambda g: mixed(N)(g).reshape(-1, 2), lambda g, y: _words_by_row(g, ROWS.reshape(-1, 2), y), top=2,
    ),
    "naive bayes": Case(
        naive_bayes(3, 4, K), "s", ("theta", "phi"), "y", (3,), mixed(3), lambda g, y: _words(g, y[DOC], 4), top=3
    ),
    "groups": Case(
        groups(3, K), "s", ("theta", "mu"), "y", (3,), mixed(3),
        lambda g, y: _normal(g, g.normal(1.0, 3.0, K)[y[DOC]], 2.0),
    ),
    "table": Case(
        table(4, 2, K), "s", ("theta", "mu"), "y", (4, 2), _columns,
        lambda g, y: _normal(g, g.normal(0.0, 3.0, K)[y]),
    ),
    "blocks": Case(
        blocks(4, K), "s", ("theta", "rate"), "y", (4,), mixed(4),
        lambda g, y: g.poisson(g.gamma(2.0, 2.0, (K, K))[y[FROM], y[TO]]),
    ),
    "doses": Case(
        doses(N), "s", ("rate",), "y", (N,), lambda g: g.integers(1, 4, N),
        lambda g, y: g.poisson(g.gamma(2.0) * y), K, 1,
    ),
}  # fmt: skip


@fb.model
def crossed():
    """Rows and columns in classes, and a mean for each pair of these."""
    mu = yield dist.Normal(0.0, 3.0).expand([2, 2])
    a = yield dist.Categorical(jnp.ones(2) / 2).expand([3])
    b = yield dist.Categorical(jnp.array([0.3, 0.7])).expand([4])
    s = yield dist.Normal(mu[a[:, None], b[None, :]], 1.0)
