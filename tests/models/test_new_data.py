"""A model with new data of the same shape is not compiled again, and its answers are its own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from examples.twelve.cases import cases
from fubini import dist
from fubini.base.arrays import double_precision
from fubini.models.flat_model import FlatModel
from fubini.models.structure import NotComparable, Structure
from fubini.questions.draw_elimination import elimination_for_draws
from tests.counting import TRACED

KEY = jax.random.key(0)
CASES = {case.name: case for case in cases(None)}


def elimination(post):
    return elimination_for_draws(FlatModel(post))


def with_other_data(post):
    """The same model, its observations in another order, and other ones where they are not 0 and 1."""
    random = np.random.default_rng(0)
    ((name, value),) = post.observed.items()
    other = random.permutation(np.asarray(value).reshape(-1)).reshape(np.shape(value))
    moved = other + (random.normal(size=other.shape) if other.dtype.kind == "f" else other.max() > 1)
    return post.joint.condition(**{name: moved})


@pytest.mark.parametrize("name", CASES)
def test_what_is_shared_is_right(name):
    """At random values the compiled density and the compiled draws are those of the model's own terms."""
    first, second = (elimination(post) for post in (CASES[name].post(), with_other_data(CASES[name].post())))
    assert second.shared is first.shared and second is not first
    prior = second.joint.joint.sample(KEY, 2)
    values = {site: np.asarray(getattr(prior, site)) for site in second.kept}
    found = second.compute_log_density(values, many=True)
    with double_precision():
        own = [float(second.log_density({site: v[k] for site, v in values.items()})) for k in (0, 1)]
        one = {site: jnp.asarray(value[0]) for site, value in values.items()}
        drawn = second.draw_eliminated(KEY, one)
    np.testing.assert_allclose(found, own, rtol=1e-9)
    assert not np.allclose(found, first.compute_log_density(values, many=True), rtol=1e-6)
    for site, value in second.draw_all(KEY, one).items():
        np.testing.assert_allclose(value, drawn[site], rtol=1e-6, atol=1e-9)


def test_infer_compiles_once():
    def asked(count):
        before = len([event for event in TRACED if "backend" in event])
        post = CASES["eight schools"].post()
        for _ in range(count):
            post = with_other_data(post)
        drawn = post.infer(KEY, draws=50, chains=2, progress=False)
        return len([event for event in TRACED if "backend" in event]) - before, drawn.posterior.mu.values.mean()

    asked(0), asked(1)
    (compiled, one), (_, two) = asked(2), asked(0)
    assert compiled == 0 and one != two


def test_constants_are_part_of_what_is_compiled():
    @fb.model
    def scaled(scale):
        m = yield dist.Cauchy(0.0, 1.0)
        y = yield dist.Normal(m, scale)

    small, large = (elimination(scaled(np.asarray(scale)).condition(y=0.3)) for scale in (1.0, 2.0))
    for model, scale in ((small, 1.0), (large, 2.0)):
        truth = -0.5 * (0.3 / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi) - np.log(np.pi)
        assert float(model.compute_log_density({"m": np.zeros(1)}, many=True)[0]) == pytest.approx(truth, rel=1e-9)


def test_bounds_are_part_of_what_is_compiled():
    @fb.model
    def counted(n):
        k = yield dist.DiscreteUniform(0, n)
        y = yield dist.Normal(jnp.sin(1.0 * k), 1.0)

    few, many = (counted(n).condition(y=0.3) for n in (3, 7))
    for post, n in ((few, 3), (many, 7)):
        each = np.exp(-0.5 * (0.3 - np.sin(np.arange(n + 1))) ** 2)
        np.testing.assert_allclose(post.marginal("k").weights, each / each.sum(), rtol=1e-6)


def test_opaque_functions_are_not_compared():
    @fb.model
    def sorted_numbers():
        x = yield dist.Normal(0.0, 1.0).expand([3])
        y = yield dist.Normal(jnp.sort(x), 1.0)

    first, second = (elimination(sorted_numbers().condition(y=np.array(y))) for y in ([1.0, 2, 3], [0.0, 1, 5]))
    assert first.shared is first and second.shared is second


def test_structure():
    def digest(thing):
        return Structure({}).of(thing)

    assert digest((1, [2.0, "a"], {"k": None})) == digest((1, [2.0, "a"], {"k": None}))
    assert digest((1,)) != digest((1.0,)) != digest([1.0]) and digest((1, 2)) != digest((2, 1))
    assert digest(frozenset({1, 2})) == digest(frozenset({2, 1})) and digest(("ab", "c")) != digest(("a", "bc"))
    with pytest.raises(NotComparable):
        digest(object())
