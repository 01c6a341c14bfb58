"""Mixtures of joints (TFP's 828, a TypeError there): density, draws, weights, and what has no meaning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import NoRule

KEY = jax.random.key(0)
WEIGHTS = np.array([0.3, 0.7])


def component(loc: float) -> fb.Joint:
    return fb.JointNamed(dict(x=dist.Normal(loc, 1.0), y=lambda x: dist.Normal(x, 2.0)))


def mixture() -> fb.Joint:
    return fb.JointMixture(WEIGHTS, [component(-1.0), component(1.0)])


def log_prob(x: float, y: float) -> float:
    return float(np.log(WEIGHTS @ stats.norm([-1, 1], 1).pdf(x)) + stats.norm(x, 2).logpdf(y))


def test_density() -> None:
    for x, y in ((0.0, 1.0), (-3.0, 0.2)):
        assert float(mixture().log_prob(x=x, y=y)) == pytest.approx(log_prob(x, y), abs=1e-10)
    assert mixture().log_prob(x=np.zeros(3), y=0.0).shape == (3,)
    assert mixture().names == ("x", "y") and mixture().event_shape == {"x": (), "y": ()}


def test_draws() -> None:
    """All sites of a sample are one component's; moments of the whole, not of a part."""
    draws = mixture().sample(KEY, (4000,))
    assert draws["x"].mean() == pytest.approx(0.4, abs=0.1) and draws["x"].var() == pytest.approx(1.84, abs=0.15)
    assert (draws["y"] - draws["x"]).std() == pytest.approx(2.0, abs=0.1)
    far = fb.JointMixture(
        [0.5, 0.5], [fb.JointSequential([dist.Normal(side, 0.1), dist.Normal(side, 0.1)]) for side in (-9.0, 9.0)]
    )
    first, second = far.sample(KEY, (50,))
    np.testing.assert_array_equal(first > 0, second > 0)
    assert 10 < (first > 0).sum() < 40


def test_draws_with_their_density() -> None:
    draws, found = mixture().sample_and_log_prob(KEY, (5,))
    np.testing.assert_allclose(found, mixture().log_prob(draws), rtol=1e-10)


def test_conditioned() -> None:
    """log p(y | x) of the whole as the weight of a draw, whose average is the evidence."""
    post = mixture().condition(y=1.0)
    assert post.names == ("x",)
    assert float(post.log_prob(x=0.2)) == pytest.approx(log_prob(0.2, 1.0), abs=1e-10)
    assert float(post.log_weight(x=0.2)) == pytest.approx(stats.norm(0.2, 2).logpdf(1.0), abs=1e-10)
    weights = post.sample_and_log_weight(KEY, (4000,)).log_weight
    want = np.log(WEIGHTS @ stats.norm([-1, 1], np.sqrt(5)).pdf(1.0))
    assert np.log(np.mean(np.exp(weights))) == pytest.approx(want, abs=0.05)


def test_missing_entries() -> None:
    """Each component leaves them out."""
    parts = [fb.JointNamed(dict(y=dist.Normal(np.full(3, loc), 1.0))) for loc in (-1.0, 1.0)]
    post = fb.JointMixture(WEIGHTS, parts).condition(y=np.ma.masked_invalid([0.5, np.nan, 2.0]))
    want = np.log(WEIGHTS @ [np.exp(stats.norm(loc, 1).logpdf([0.5, 2.0]).sum()) for loc in (-1, 1)])
    assert float(post.log_prob()) == pytest.approx(want, abs=1e-10)


def test_nested_in_another_joint_and_in_a_mixture() -> None:
    outer = fb.JointNamed(dict(m=mixture(), z=lambda m: dist.Normal(m["x"], 1.0)))
    parts = outer.log_prob_parts(m={"x": 0.2, "y": 1.0}, z=0.0)
    assert float(parts["m"]) == pytest.approx(log_prob(0.2, 1.0), abs=1e-10)
    assert float(parts["z"]) == pytest.approx(stats.norm(0.2, 1).logpdf(0.0), abs=1e-10)
    twice = fb.JointMixture([0.4, 0.6], [mixture(), mixture()])
    assert float(twice.log_prob(x=0.2, y=1.0)) == pytest.approx(log_prob(0.2, 1.0), abs=1e-10)
    found = twice.condition(y=1.0).log_weight(x=0.2)
    assert float(found) == pytest.approx(stats.norm(0.2, 2).logpdf(1.0), abs=1e-10)


def test_distributions_of_all_components() -> None:
    sources, values = mixture().sample_distributions(KEY, y=3.0)
    assert values["y"] == 3.0
    assert [float(source["loc"]) for source in sources["x"]] == [-1.0, 1.0]
    assert [float(source["loc"]) for source in sources["y"]] == [float(values["x"])] * 2


def test_slices_bijector_and_gradient() -> None:
    wide = fb.JointMixture(WEIGHTS, [fb.JointSequential([dist.Normal(np.full(3, loc), 1.0)]) for loc in (-1.0, 1.0)])
    want = np.log(WEIGHTS @ [np.exp(2 * stats.norm(loc, 1).logpdf(0.0)) for loc in (-1, 1)])
    assert float(wide[1:].log_prob([np.zeros(2)])) == pytest.approx(want, abs=1e-10)
    assert float(mixture().bijector().forward(x=0.5, y=1.0)["x"]) == 0.5
    found = jax.grad(lambda w: fb.JointMixture(w, [component(-1.0), component(1.0)]).log_prob(x=0.3, y=1.0))
    slopes = stats.norm([-1, 1], 1).pdf(0.3)
    np.testing.assert_allclose(found(jnp.array(WEIGHTS)), slopes / (WEIGHTS @ slopes), rtol=1e-4)


def test_what_has_no_meaning_is_an_error() -> None:
    """A mixture is no product over sites: it has no terms, and no factors to eliminate."""
    with pytest.raises(NoRule, match="the terms of the density of a mixture"):
        mixture().log_prob_parts(x=0.0, y=1.0)
    with pytest.raises(NoRule, match="the factors of a mixture of joints"):
        mixture().condition(y=1.0).log_evidence()
    with pytest.raises(NoRule, match="the factors of a mixture of joints"):
        mixture().condition(y=1.0).posterior()
