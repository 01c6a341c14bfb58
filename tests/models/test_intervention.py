"""`do`: sites that are set from outside, in every flavour of model."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_dist
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, UnknownName

KEY = jax.random.key(0)


@fb.model
def confounded():
    u = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(2.0 * u, 1.0)
    y = yield dist.Normal(x + 3.0 * u, 1.0)


def in_numpyro():
    u = numpyro.sample("u", numpyro_dist.Normal(0.0, 1.0))
    x = numpyro.sample("x", numpyro_dist.Normal(2.0 * u, 1.0))
    numpyro.sample("y", numpyro_dist.Normal(x + 3.0 * u, 1.0))


def by_names():
    return fb.JointNamed(
        {
            "u": dist.Normal(0.0, 1.0),
            "x": lambda u: dist.Normal(2.0 * u, 1.0),
            "y": lambda x, u: dist.Normal(x + 3.0 * u, 1.0),
        }
    )


def in_sequence():
    sites = [
        dist.Normal(0.0, 1.0),
        lambda u: dist.Normal(2.0 * u, 1.0),
        lambda x, u: dist.Normal(x + 3.0 * u, 1.0),
        lambda y: fb.deterministic(y),  # which names the site before
    ]
    return fb.JointSequential(sites)


FLAVOURS = {
    "function": confounded,
    "names": by_names,
    "sequence": in_sequence,
    "numpyro": lambda: fb.from_numpyro(in_numpyro),
}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_a_cause_is_not_its_symptom(flavour):
    """u → x → y ← u: y | do(x = 1) ~ N(1, √10), and u is as before; observed, x tells of u."""
    model = FLAVOURS[flavour]()
    set_from_outside, seen = model.do(x=1.0), model.condition(x=1.0)
    y = set_from_outside.marginal("y")
    assert float(y.mean("y")) == pytest.approx(1.0) and float(y.variance("y")) == pytest.approx(10.0)
    assert float(set_from_outside.marginal("u").mean("u")) == pytest.approx(0.0, abs=1e-9)
    assert float(seen.marginal("u").mean("u")) == pytest.approx(0.4, rel=1e-6)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_with_observations(flavour):
    """p(u | do(x = 1), y = 4): u is seen through y − x = 3 u + noise alone, in either order."""
    model = FLAVOURS[flavour]()
    for post in (model.do(x=1.0).condition(y=4.0), model.condition(y=4.0).do(x=1.0)):
        u = post.marginal("u")
        assert float(u.mean("u")) == pytest.approx(0.9, rel=1e-6)
        assert float(u.variance("u")) == pytest.approx(0.1, rel=1e-6)
        assert float(post.log_evidence()) == pytest.approx(-0.5 * np.log(20 * np.pi) - 9 / 20, rel=1e-6)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_draws_and_densities(flavour):
    model = FLAVOURS[flavour]().do(x=1.0)
    draws = model.sample(KEY, 20_000)
    draws = draws if isinstance(draws, dict) else dict(zip(model.names, draws, strict=True))
    np.testing.assert_array_equal(draws["x"], 1.0)
    assert np.mean(draws["y"]) == pytest.approx(1.0, abs=0.1) and np.var(draws["y"]) == pytest.approx(10, rel=0.05)
    assert float(model.log_prob(u=0.0, y=1.0)) == pytest.approx(-np.log(2 * np.pi), rel=1e-6)


def test_under_jit():
    mean = jax.jit(lambda x: confounded().do(x=x).marginal("y").mean("y").data)
    assert float(mean(2.0)) == pytest.approx(2.0) and float(mean(-1.0)) == pytest.approx(-1.0)
    assert float(jax.grad(lambda x: confounded().do(x=x).condition(y=4.0).log_evidence().data)(1.0)) == pytest.approx(
        0.3
    )


def test_a_mixture_of_models():
    model = fb.JointMixture([0.25, 0.75], [by_names(), by_names()]).do(x=1.0)
    draws = model.sample(KEY, 20_000)
    assert np.var(draws["y"]) == pytest.approx(10, rel=0.05)


def test_inside_a_nested_model():
    inner = fb.JointNamed({"a": dist.Normal(0.0, 1.0), "b": lambda a: dist.Normal(a, 1.0)})
    model = fb.JointNamed({"part": inner, "y": lambda part: dist.Normal(part["b"] + part["a"], 1.0)})
    y = model.do(part={"b": 2.0}).marginal("y")
    assert float(y.mean("y")) == pytest.approx(2.0) and float(y.variance("y")) == pytest.approx(2.0)


@fb.model
def smoking():
    gene = yield dist.Bernoulli(0.3)
    smokes = yield dist.Bernoulli(jnp.where(gene == 1, 0.8, 0.2))
    tar = yield dist.Bernoulli(jnp.where(smokes == 1, 0.9, 0.1))
    cancer = yield dist.Bernoulli(0.1 + 0.4 * tar + 0.3 * gene)


def test_front_door():
    """P(cancer | do(smokes)) by enumeration, and by the front-door formula from observed probabilities alone."""
    found = float(smoking().do(smokes=1).marginal("cancer").mean("cancer"))
    truth = sum(
        (0.3 if gene else 0.7) * (0.9 if tar else 0.1) * (0.1 + 0.4 * tar + 0.3 * gene)
        for gene in (0, 1)
        for tar in (0, 1)
    )
    assert found == pytest.approx(truth, rel=1e-9)
    p_smokes = np.array([0.7 * 0.8 + 0.3 * 0.2, 0.7 * 0.2 + 0.3 * 0.8])
    given = [
        [float(smoking().condition(tar=tar, smokes=s).marginal("cancer").mean("cancer")) for s in (0, 1)]
        for tar in (0, 1)
    ]
    formula = sum(p * np.dot(row, p_smokes) for p, row in zip((0.1, 0.9), given, strict=True))
    assert found == pytest.approx(formula, rel=1e-9)


def test_networks():
    """The factors of a network, and its joint, agree with each other and with a model."""
    a, b = fb.Table([0.7, 0.3], ("a",)), fb.Table([[0.8, 0.2], [0.2, 0.8]], ("a", "b"))
    c = fb.Table([[[0.9, 0.1], [0.5, 0.5]], [[0.6, 0.4], [0.1, 0.9]]], ("a", "b", "c"))
    net = fb.Network(dict.fromkeys("abc", fb.Bint[2]), (a, b, c), children=("a", "b", "c"))
    truth = 0.7 * np.array([0.5, 0.5]) + 0.3 * np.array([0.1, 0.9])
    np.testing.assert_allclose(net.do(b=1).marginal("c").weights, truth, rtol=1e-12)
    np.testing.assert_allclose(net.do(b=1).joint().marginal("c").weights, truth, rtol=1e-12)
    np.testing.assert_allclose(net.joint().do(b=1).marginal("c").weights, truth, rtol=1e-12)
    assert float(net.do(b=1).log_evidence()) == pytest.approx(0.0, abs=1e-12)
    seen = net.do(b=1).condition(c=1).marginal("a").weights
    np.testing.assert_allclose(seen, np.array([0.35, 0.27]) / 0.62, rtol=1e-12)
    with pytest.raises(UnknownName, match="intervention for 'd'"):
        net.do(d=1)
    with pytest.raises(DataError, match=r"do\(b=…\) of a variable that is observed"):
        net.condition(b=0).do(b=1)
    with pytest.raises(DataError, match=r"'b' is held at its observed value, 0\s+to do: +ask .* net.do\(b=…\)"):
        net.condition(b=0).do(b=1)
    with pytest.raises(DomainError, match="directed network"):
        fb.Network({"a": fb.Bint[2]}, (a,)).do(a=1)


def test_prediction_under_an_intervention():
    """What was learnt from observed pairs, asked under an intervention."""

    @fb.model
    def effect(n):
        slope = yield dist.Normal(0.0, 10.0)
        x = yield dist.Normal(0.0, 1.0).expand([n])
        y = yield dist.Normal(slope * x, 0.1)

    given = np.linspace(-1, 1, 50)
    post = effect(50).condition(x=given, y=3.0 * given)
    drawn = post.predict(KEY, "y", draws=500, model=effect(50).do(x=np.full(50, 2.0)))
    assert np.mean(drawn) == pytest.approx(6.0, abs=0.1)


BAD = {
    "unknown": (
        lambda: confounded().do(z=1.0),
        UnknownName,
        ["an intervention for 'z'", "'u', 'x', 'y'", "nearest:", "to do:"],
    ),
    "observed": (
        lambda: confounded().condition(y=1.0).do(y=2.0),
        DomainError,
        [
            "do(y=…) of a site that is observed",
            "a site that is not: 'u', 'x'",
            "is held at",
            "uncondition('y')",
            "to do:",
        ],
    ),
    "nothing": (lambda: confounded().do(), DomainError, ["no intervention", "'u', 'x', 'y'"]),
    "shape": (lambda: confounded().do(x=[1.0, 2.0]), DomainError, ["shape (2,)", "'x'"]),
    "missing": (
        lambda: confounded().do(x=np.ma.masked_invalid(np.array(np.nan))),
        DomainError,
        ["do(x=…) with missing entries"],
    ),
    "twice": (lambda: confounded().do(x=1.0).do(x=2.0), DomainError, ["do(x=…)", "computed from others"]),
    "outside": (lambda: smoking().do(gene=3), DataError, ["'gene'"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad(name):
    ask, kind, words = BAD[name]
    with pytest.raises(kind) as caught:
        ask()
    for word in words:
        assert word in str(caught.value), str(caught.value)
