"""Classes proposed from the labels of other items: draws have the distribution of the model, by enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.compile import row_proposals
from tests.compile.cases import CASES, DOC
from tests.compile.test_passes import body

K, KEY = 3, jax.random.key(2)
WORD = np.array([0, 1, 1, 0, 3, 1])


@pytest.fixture(autouse=True)
def few_classes_are_many(monkeypatch):
    monkeypatch.setattr(row_proposals, "LEAST", 2)


@fb.model
def topics(alpha, beta):
    theta = yield dist.Dirichlet(alpha).expand([3])
    phi = yield dist.Dirichlet(beta).expand([K])
    y = yield dist.Categorical(theta[DOC])
    s = yield dist.Categorical(phi[y])


@fb.model
def one_document(alpha):
    theta = yield dist.Dirichlet(alpha)
    phi = yield dist.Dirichlet(jnp.ones(4)).expand([K])
    y = yield dist.Categorical(theta).expand([6])
    s = yield dist.Categorical(phi[y])


@fb.model
def table():
    """Labels of two axes, with proportions for each row, and words for each column and class."""
    theta = yield dist.Dirichlet(jnp.ones(K)).expand([2])
    phi = yield dist.Dirichlet(jnp.array([0.5, 0.5, 1.0, 1.0])).expand([3, K])
    y = yield dist.Categorical(theta[:, None, :] * jnp.ones((1, 3, 1)))
    s = yield dist.Categorical(phi[jnp.arange(3)[None, :], y])


@fb.model
def two_words():
    """Each item has two words of as many vocabularies: three factors of counts."""
    theta = yield dist.Dirichlet(0.7 * jnp.ones(K)).expand([3])
    phi = yield dist.Dirichlet(jnp.ones(4)).expand([K])
    psi = yield dist.Dirichlet(jnp.ones(2)).expand([K])
    y = yield dist.Categorical(theta[DOC])
    s = yield dist.Categorical(phi[y])
    other = yield dist.Categorical(psi[y])


FLAT, SKEWED = np.ones(K), np.array([0.3, 1.0, 2.5])
POSTS = {
    "topics": lambda: topics(FLAT, np.ones(4)).condition(s=WORD).eliminate("theta", "phi"),
    "few classes a document": lambda: topics(0.1 * FLAT, 0.2 * np.ones(4)).condition(s=WORD).eliminate("theta", "phi"),
    "a prior for each class": lambda: topics(SKEWED, np.ones(4)).condition(s=WORD).eliminate("theta", "phi"),
    "a prior for each word": lambda: topics(FLAT, np.arange(1.0, 5.0)).condition(s=WORD).eliminate("theta", "phi"),
    "two axes": lambda: table().condition(s=WORD.reshape(2, 3)).eliminate("theta", "phi"),
    "three factors": lambda: (
        two_words().condition(s=WORD, other=np.array([0, 0, 1, 1, 0, 1])).eliminate("theta", "phi", "psi")
    ),
}


def features(y):
    """Which labels agree, and how often there is each."""
    y = y.reshape(*y.shape[:2], -1)
    alike = [y[..., a] == y[..., b] for a, b in ((0, 1), (1, 2), (3, 5), (0, 3))]
    return np.stack([*alike, *((y == k).mean(-1) for k in range(K)), y[..., 0] == 1], -1).astype(float)


@pytest.mark.parametrize("name", POSTS)
def test_draws_agree_with_enumeration(name: str) -> None:
    post = POSTS[name]()
    sampler = post.gibbs("y", engine="numba" if name == "topics" else "python")
    assert sampler.program.uniforms == (12 if name == "three factors" else 8)
    shape = sampler.labels["y"].shape
    every = np.array(list(itertools.product(range(K), repeat=6))).reshape(-1, *shape)
    logs = np.asarray(post.log_prob(y=every))
    weights = np.exp(logs - logs.max())
    exact = (weights / weights.sum()) @ features(every[None])[0]
    found = features(
        np.asarray(sampler.run(KEY, sweeps=20_000 if name == "topics" else 2000, warmup=50, chains=2)["y"])
    )
    means = found.reshape(2 * 20, -1, found.shape[-1]).mean(1)
    scores = (means.mean(0) - exact) / (means.std(0, ddof=1) / np.sqrt(len(means)))
    assert np.abs(scores).max() < 4.5, scores


def test_conditionals_weigh_all_classes() -> None:
    post = POSTS["a prior for each class"]()
    labels = np.array([0, 2, 1, 1, 0, 2])
    every = np.repeat(labels[None], K, 0)
    every[:, 4] = np.arange(K)
    logs = np.asarray(post.log_prob(y=every))
    exact = np.exp(logs - logs.max())
    found = post.gibbs("y", engine="python").conditional("y", 4, y=labels)
    assert np.abs(found - exact / exact.sum()).max() < 1e-9


def test_both_engines_and_loops_without_sizes_draw_the_same() -> None:
    post = POSTS["topics"]()
    found = [  # each with entries held fixed
        post.gibbs("y", **options).run(KEY, sweeps=5, start={"y": [0, 1, 2, 0, 1, 2]}, fixed=[1, 4])["y"]
        for options in ({}, {"engine": "python"}, {"without": ("specialise",)}, {"without": ("hoist",)})
    ]
    assert all(np.array_equal(draws, found[0]) for draws in found[1:])
    assert (found[0][..., [1, 4]] == 1).all()


def test_text_of_topics() -> None:
    lines = body(POSTS["topics"]().gibbs("y").source(), "sweep_y")
    first = lines.index("p3 = M0_first[a1]")
    assert lines[first - 2 : first + 18] == [
        "a1 = s[u]",
        "a2 = DOC[u]",
        "p3 = M0_first[a1]",
        "c4 = M0_first[a1 + 1] - p3 - 1",
        "a5 = 3 * 1.0",
        "p6 = M1_first[a2]",
        "c7 = M1_first[a2 + 1] - p6 - 1",
        "a8 = 3 * 1.0",
        "for c in range(2):",
        "j = 8 * t + 4 * c",
        "level = uniforms[j + 0] * (c4 + a5)",
        "if level < c4:",
        "p = M0_item[p3 + int(level)]",
        "new = y[M0_item[p3 + c4] if p == u else p]",
        "else:",
        "new = min(int((level - c4) / 1.0), 3 - 1)",
        "if uniforms[j + 1] * ((1.0 + S2[a2, k]) * C0[k]) < (1.0 + S2[a2, new]) * C0[new]:",
        "k = new",
        "level = uniforms[j + 2] * (c7 + a8)",
        "if level < c7:",
    ]


def test_where_all_classes_are_weighed(monkeypatch) -> None:
    """Where the pass is left out, classes are few, or weights are no products of counts."""
    post = POSTS["topics"]()
    assert post.gibbs("y", without=("propose",)).program.uniforms == 1
    for name in ("gaussian", "naive bayes", "table"):
        case, g = CASES[name], np.random.default_rng(0)
        assert case.sampler(case.data(g, case.labels(g)), engine="python").program.uniforms == 1
    assert one_document(SKEWED).condition(s=WORD).eliminate("theta", "phi").gibbs("y").program.uniforms == 1
    monkeypatch.undo()
    assert post.gibbs("y").program.uniforms == 1
