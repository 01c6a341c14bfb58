"""Labels are drawn where summing them out would leave the components of a mixture, and summed out otherwise."""

from __future__ import annotations

import itertools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DomainError, Intractable
from fubini.models.flat_model import FlatModel
from fubini.questions.label_choice import elimination_of

KEY = jax.random.key(2)
RANDOM = np.random.default_rng(4)
DOC, WORDS = np.repeat(np.arange(2), 4), np.array([0, 1, 0, 2, 2, 1, 2, 2])


@fb.model
def topics(doc, docs, k, words):
    share = yield dist.Dirichlet(jnp.ones(k)).expand([docs])
    topic = yield dist.Dirichlet(jnp.array([0.5, 1.0, 2.0])).expand([k])
    z = yield dist.Categorical(share[doc])
    w = yield dist.Categorical(topic[z])


@fb.model
def components(n, k, scale):
    weight = yield dist.Dirichlet(jnp.ones(k))
    mean = yield dist.Normal(0.0, 3.0).expand([k])
    z = yield dist.Categorical(weight).expand([n])
    y = yield dist.Normal(mean[z], scale)


@fb.model
def with_spread(n, k):
    mean = yield dist.Normal(0.0, 3.0).expand([k])
    spread = yield dist.HalfNormal(1.0).expand([k])
    z = yield dist.Categorical(jnp.ones(k) / k).expand([n])
    y = yield dist.Normal(mean[z], spread[z])


@fb.model
def hidden_markov(n, k):
    move = yield dist.Dirichlet(jnp.ones(k)).expand([k])
    mean = yield dist.Normal(0.0, 3.0).expand([k])
    z = yield dist.Markov(dist.Categorical(jnp.ones(k) / k), lambda z: dist.Categorical(move[z]), n)
    y = yield dist.Normal(mean[z], 1.0)


@fb.model
def outliers(x):
    w = yield dist.Normal(0.0, 1.0).expand([4])
    z = yield dist.Bernoulli(0.1).expand([6])
    y = yield dist.Normal(x @ w, 1.0 + 5.0 * z)


Y = RANDOM.normal(size=6)
POST = topics(DOC, 2, 2, 3).condition(w=WORDS)
CHOICES = {  # the remaining latents
    "topics": (POST, ("z",)),
    "three components": (components(6, 3, 1.0).condition(y=Y), ("z",)),
    "two components, on a grid": (components(6, 2, 1.0).condition(y=Y), ("weight", "mean")),
    "a spread without a closed form": (with_spread(6, 3).condition(y=Y), ("mean", "spread")),
    "a chain": (hidden_markov(6, 2).condition(y=Y), ("move", "mean")),
    "labels that choose no component": (outliers(RANDOM.normal(size=(6, 4))).condition(y=Y), ("w",)),
}


@pytest.mark.parametrize("name", CHOICES)
def test_choices(name):
    post, kept = CHOICES[name]
    eliminated_model, reason = elimination_of(FlatModel(post), None, None)
    assert eliminated_model.kept == kept
    assert bool(reason) is (kept == ("z",)) is ("infer(key) draws 'z' by a compiled sampler" in str(fb.explain(post)))
    assert "z" not in elimination_of(FlatModel(post), None, "nuts")[0].kept
    assert "z" in elimination_of(FlatModel(post), None, "gibbs")[0].kept


def test_the_choice_does_not_depend_on_data():
    other = topics(DOC, 2, 2, 3).condition(w=WORDS[::-1].copy())
    assert elimination_of(FlatModel(other), None, None)[1] == elimination_of(FlatModel(POST), None, None)[1]


def together() -> float:
    """p(the first two words have one topic), all labels enumerated."""
    small = POST.eliminate("share", "topic")
    labels = np.array(list(itertools.product(range(2), repeat=8)))
    log_p = np.asarray(small.log_prob(z=labels))
    shares = np.exp(log_p - np.logaddexp.reduce(log_p))
    return float(shares[labels[:, 0] == labels[:, 1]].sum())


def test_draws():
    """Of labels, against enumeration, whichever sampler draws; topics are drawn back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = POST.infer(KEY, draws=1500, warmup=100, chains=2, progress=False)
        forced = POST.infer(KEY, draws=600, warmup=300, chains=2, method="nuts", progress=False)
    assert chosen.posterior.attrs["method"] == "gibbs" and "'share', 'topic'" in chosen.posterior.attrs["reason"]
    assert forced.posterior.attrs["method"] == "nuts" and "reason" not in forced.posterior.attrs
    assert set(chosen.posterior.attrs["eliminated"]) == {"share", "topic"}
    for data, within in ((chosen, 0.04), (forced, 0.06)):
        z = data.posterior["z"].values
        assert abs(np.mean(z[..., 0] == z[..., 1]) - together()) < within
        assert data.posterior["topic"].shape[2:] == (2, 3)


def test_gibbs_is_refused_without_labels():
    @fb.model
    def plain():
        m = yield dist.Cauchy(0.0, 1.0)
        y = yield dist.Normal(m, 1.0)

    with pytest.raises(Intractable) as caught:
        plain().condition(y=1.0).infer(KEY, method="gibbs")
    for word in ("method='gibbs'", "a label that remains", "'m'", 'method="nuts"'):
        assert word in str(caught.value)


def test_gibbs_has_no_options_of_nuts():
    with pytest.raises(DomainError, match=r"method='gibbs', target_accept=…") as caught:
        POST.infer(KEY, method="gibbs", target_accept=0.9)
    assert 'those of method="nuts"' in str(caught.value)
