"""Items that read several entries of one label, as the edges of a block model: each conditional equals enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import NoRule
from tests.compile.cases import crossed
from tests.compile.test_passes import body

KEY, NODES, K = jax.random.key(3), 5, 3
G = np.random.default_rng(5)
FROM, TO = np.array([0, 1, 1, 2, 3, 4, 0, 2]), np.array([1, 2, 1, 4, 0, 3, 1, 4])  # one to itself, two twice
PAIRS = np.triu_indices(NODES, 1)


@fb.model
def dense(theta):
    p = yield dist.Beta(0.7, 1.5).expand([K, K])
    z = yield dist.Categorical(theta).expand([NODES])
    a = yield dist.Bernoulli(p[z[:, None], z[None, :]])


@fb.model
def undirected():
    theta = yield dist.Dirichlet(jnp.ones(K))
    p = yield dist.Beta(1.0, 1.0).expand([K, K])
    z = yield dist.Categorical(theta).expand([NODES])
    a = yield dist.Bernoulli(p[z[PAIRS[0]], z[PAIRS[1]]])


@fb.model
def alike():
    """Edges within classes, and between them."""
    p = yield dist.Beta(2.0, 1.0)
    q = yield dist.Beta(1.0, 2.0)
    z = yield dist.Categorical(jnp.ones(K) / K).expand([NODES])
    a = yield dist.Bernoulli(jnp.where(z[PAIRS[0]] == z[PAIRS[1]], p, q))


@fb.model
def edges():
    theta = yield dist.Dirichlet(jnp.array([0.5, 1.0, 2.0]))
    rate = yield dist.Gamma(2.0, 1.0).expand([K, K])
    z = yield dist.Categorical(theta).expand([NODES])
    a = yield dist.Poisson(rate[z[FROM], z[TO]])


@fb.model
def normal(centre=1.0):
    mean = yield dist.Normal(centre, 2.0).expand([K, K])
    z = yield dist.Categorical(jnp.ones(K) / K).expand([NODES])
    a = yield dist.Normal(mean[z[FROM], z[TO]], 1.5)


@fb.model
def triples():
    rate = yield dist.Gamma(2.0, 1.0).expand([2, 2, 2])
    z = yield dist.Categorical(jnp.array([0.4, 0.6])).expand([NODES])
    a = yield dist.Poisson(rate[z[FROM], z[TO], z[(FROM + 2) % NODES]])


@fb.model
def neighbours_in_order():
    """Steps from one class to the next, of unknown probabilities."""
    mean = yield dist.Normal(0.0, 3.0).expand([K])
    step = yield dist.Beta(1.0, 1.0).expand([K, K])
    z = yield dist.Categorical(jnp.ones(K) / K).expand([NODES])
    a = yield dist.Bernoulli(step[z[:-1], z[1:]])
    x = yield dist.Normal(mean[z], 1.0)


POSTS = {
    "dense": lambda: dense(np.array([0.2, 0.3, 0.5])).condition(a=G.integers(0, 2, (NODES, NODES))).eliminate("p"),
    "undirected": lambda: undirected().condition(a=G.integers(0, 2, len(PAIRS[0]))).eliminate("theta", "p"),
    "alike": lambda: alike().condition(a=G.integers(0, 2, len(PAIRS[0]))).eliminate("p", "q"),
    "edges": lambda: edges().condition(a=G.poisson(2.0, len(FROM))).eliminate("theta", "rate"),
    "normal": lambda: normal().condition(a=G.normal(0.0, 2.0, len(FROM))).eliminate("mean"),
    "triples": lambda: triples().condition(a=G.poisson(2.0, len(FROM))).eliminate("rate"),
    "neighbours in order": lambda: (
        neighbours_in_order().condition(a=G.integers(0, 2, NODES - 1), x=G.normal(size=NODES)).eliminate("mean", "step")
    ),
}


def enumerated(post, labels, place, size):
    every = np.repeat(labels[None], size, 0)
    every[:, place] = np.arange(size)
    logs = np.asarray(post.log_prob(z=every))
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.parametrize("name", POSTS)
def test_conditionals_equal_enumeration(name: str) -> None:
    post = POSTS[name]()
    sampler = post.gibbs("z", engine="python")
    size = sampler.labels["z"].count
    for seed in range(4):
        labels = np.random.default_rng(seed).integers(0, size, NODES)
        for place in range(NODES):
            found = sampler.conditional("z", place, z=labels)
            assert np.abs(found - enumerated(post, labels, place, size)).max() < 1e-9, (labels, place)


def test_data_off_centre_lose_little() -> None:
    numbers, labels = np.random.default_rng(1).normal(0.0, 2.0, len(FROM)), np.array([0, 2, 1, 0, 2])
    near, far = (
        normal(1.0 + shift).condition(a=numbers + shift).eliminate("mean").gibbs("z", engine="python")
        for shift in (0.0, 1e4)
    )
    for place in range(NODES):
        found = [sampler.conditional("z", place, z=labels) for sampler in (near, far)]
        assert np.abs(found[1] - found[0]).max() < 1e-7


@pytest.mark.parametrize("name", POSTS)
def test_without_passes_draws_are_the_same(name: str) -> None:
    """Also without differences, where every candidate's density is computed from all items."""
    post = POSTS[name]()
    draws = [
        post.gibbs("z", engine="python", without=without).run(KEY, sweeps=4, chains=2)["z"]
        for without in ((), ("difference",), ("hoist",), ("specialise",), ("histogram",), ("difference", "hoist"))
    ]
    assert all(np.array_equal(other, draws[0]) for other in draws[1:])


def test_compiled_draws_agree_with_enumeration() -> None:
    post = POSTS["edges"]()
    every = np.array(list(itertools.product(range(K), repeat=NODES)))
    logs = np.asarray(post.log_prob(z=every))
    weights = np.exp(logs - logs.max())
    features = lambda z: np.stack(  # noqa: E731
        [z[..., a] == z[..., b] for a, b in ((0, 1), (1, 3), (2, 4))] + [z[..., i] == 2 for i in range(NODES)], -1
    )
    exact = (weights / weights.sum()) @ features(every)
    draws = post.gibbs("z").run(KEY, sweeps=20_000, chains=2)["z"]
    assert np.array_equal(draws[:, :100], post.gibbs("z", engine="python").run(KEY, sweeps=100, chains=2)["z"])
    found = features(draws[:, 100:])
    means = found[:, : 20 * 995].reshape(40, -1, found.shape[-1]).mean(1)
    scores = (means.mean(0) - exact) / (means.std(0, ddof=1) / np.sqrt(len(means)))
    assert np.abs(scores).max() < 4.5, scores


def test_a_step_looks_at_the_items_of_its_entry_alone() -> None:
    lines = body(POSTS["edges"]().gibbs("z").source(), "sweep_z")
    first = lines.index("T0[...] = 0.0")
    assert lines[first : first + 5] == [
        "T0[...] = 0.0",
        "for p1 in range(M0_first[u], M0_first[u + 1]):",
        "j2 = M0_item[p1]",
        "if not (u == TO[j2]):",
        "T0[z[TO[j2]]] += a_[j2]",
    ]
    assert not any(f"range({len(FROM)})" in line for line in lines)


def test_rows_and_columns_meet_each_other_once() -> None:
    """Two labels in one item: the sum over the columns of a row is made once for all of its candidates."""
    post = crossed().condition(s=np.arange(12.0).reshape(3, 4)).eliminate("mu")
    lines = body(post.gibbs("a", "b").source(), "sweep_a_")
    loop = lines.index("for k in range(2):", lines.index("for t in range(items.size):"))
    assert not any("range(4)" in line for line in lines[loop:])
    assert "T0[b[j3]] += s[u, j3]" in lines


def test_four_entries_in_one_item() -> None:
    @fb.model
    def fours():
        rate = yield dist.Gamma(2.0, 1.0).expand([2, 2, 2, 2])
        z = yield dist.Categorical(jnp.ones(2) / 2).expand([NODES])
        a = yield dist.Poisson(rate[z[FROM], z[TO], z[(FROM + 2) % NODES], z[(TO + 2) % NODES]])

    post = fours().condition(a=np.ones(len(FROM), int)).eliminate("rate")
    with pytest.raises(NoRule, match=r"(?s)at most 3 labels in each item of a sum.*without="):
        post.gibbs("z").source()
    labels = np.array([0, 1, 1, 0, 1])
    slow = post.gibbs("z", engine="python", without=("difference",)).conditional("z", 1, z=labels)
    assert np.abs(slow - enumerated(post, labels, 1, 2)).max() < 1e-9
