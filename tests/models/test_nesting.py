"""Joints as components of joints: nested structures, one term for each child, partial values that reach inside."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.models.container import struct

KEY = jax.random.key(0)


@fb.model
def inner() -> Iterator[Any]:
    x0 = yield dist.Bernoulli(0.25)
    x1 = yield dist.Normal(0.0, 1.0)
    return x0, x1


def joint() -> fb.Joint:
    """Section 6 of the paper, a coroutine and a tuple in a dict, with distributions that compile in less time."""
    return fb.JointNamed(dict(a=inner(), b=fb.JointSequential((dist.Geometric(0.5), dist.Exponential(1.0)))))


POINT = {"a": {"x0": 1, "x1": 5.0}, "b": (1, 2.0)}
A = np.log(0.25) + stats.norm.logpdf(5.0)
B = np.log(0.25) - 2.0


def test_samples_are_nested() -> None:
    """A21."""
    draw = joint().sample(KEY, (2,))
    assert type(draw["a"]) is struct(("x0", "x1")) and type(draw["b"]) is tuple
    assert [leaf.shape for leaf in jax.tree_util.tree_leaves(draw)] == [(2,)] * 4
    assert joint().event_shape == {"a": ((), ()), "b": ((), ())}
    assert joint().log_prob(draw).shape == (2,)


def test_terms_are_summed_for_each_child() -> None:
    """A21: log_prob_parts of {'a': …, 'b': …} has two terms."""
    parts = joint().log_prob_parts(POINT)
    assert set(parts) == {"a", "b"}
    assert (float(parts["a"]), float(parts["b"])) == pytest.approx((A, B), abs=1e-10)
    assert float(joint().log_prob(POINT)) == pytest.approx(A + B, abs=1e-10)


@pytest.mark.parametrize("value", [{"x1": 5.0}, (None, 5.0), [None, 5.0], struct(("x0", "x1"))(None, 5.0)], ids=repr)
def test_partial_values_of_any_container(value: Any) -> None:
    """A21: where TFP breaks on a dict for a coroutine child."""
    free, held = joint().sample(KEY), joint().sample(KEY, a=value)
    assert held["a"].x1 == 5.0 and held["a"].x0 == free["a"].x0 and held["b"] == free["b"]
    post = joint().condition(a=value)
    assert post.event_shape == {"a": ((),), "b": ((), ())} and post.names == ("a", "b")
    assert float(post.log_prob(a=[1], b=(1, 2.0))) == pytest.approx(A + B, abs=1e-10)
    assert float(post.log_weight(a={"x0": 1}, b=(1, 2.0))) == pytest.approx(stats.norm.logpdf(5.0), abs=1e-10)


def test_a_prefix_and_a_mapping_for_a_tuple() -> None:
    free = joint().sample(KEY)
    for value in ((1, None), [1], {"x": 1}):
        held = joint().sample(KEY, b=value)
        assert held["b"] == (1, free["b"][1]) and held["a"] == free["a"]


def test_observations_inside_chain_and_are_taken_back() -> None:
    post = joint().condition(a={"x1": 5.0}).condition(a={"x0": 1})
    assert post.names == ("b",) and float(post.log_prob(b=(1, 2.0))) == pytest.approx(A + B, abs=1e-10)
    parts = post.log_prob_parts(b=(1, 2.0))
    assert (float(parts.observed["a"]), float(parts.free["b"])) == pytest.approx((A, B), abs=1e-10)
    assert post.uncondition("a").names == ("a", "b")
    assert float(post.uncondition("a").log_prob(POINT)) == pytest.approx(A + B, abs=1e-10)


def test_a_maker_reads_a_nested_value() -> None:
    """As the container its child gives, in a dict, a list and a generator."""

    @fb.model
    def outer() -> Iterator[Any]:
        pair = yield inner()
        triple = yield fb.JointNamed({"p": dist.Normal(0.0, 1.0), "q": dist.Normal(1.0, 1.0)})
        y = yield dist.Normal(pair.x1 + triple["q"], 1.0)
        return y

    value = ((1, 5.0), {"p": 0.2, "q": 0.3}, 4.0)
    want = A + stats.norm.logpdf(0.2) + stats.norm(1, 1).logpdf(0.3) + stats.norm(5.3, 1).logpdf(4.0)
    assert float(outer().log_prob(value)) == pytest.approx(want, abs=1e-10)
    assert outer().graph()["y"] == ("triple", "pair")
    named = fb.JointNamed(dict(a=inner(), y=lambda a: dist.Normal(a.x1, 1.0)))
    assert float(named.log_prob(a=(1, 5.0), y=4.0)) == pytest.approx(A + stats.norm(5, 1).logpdf(4.0), abs=1e-10)
    assert float(named.condition(a={"x1": 5.0}).log_prob(a=[1], y=4.0)) == float(named.log_prob(a=(1, 5.0), y=4.0))


def test_a_maker_makes_a_joint() -> None:
    """A child that depends on its siblings; three deep."""
    chain = fb.JointSequential(
        [
            dist.Normal(0.0, 1.0),
            lambda m: fb.JointNamed(dict(x=dist.Normal(m, 1.0), deep=fb.JointSequential([dist.Normal(2.0 * m, 1.0)]))),
        ]
    )
    want = stats.norm.logpdf(0.5) + stats.norm(0.5, 1).logpdf(1.0) + stats.norm(1.0, 1).logpdf(2.0)
    assert float(chain.log_prob([0.5, {"x": 1.0, "deep": [2.0]}])) == pytest.approx(want, abs=1e-10)
    assert chain.graph()["x"] == ("m",)
    post = chain.condition([None, {"deep": [2.0]}])
    assert post.event_shape == [(), {"x": ()}]  # `deep` is observed as a whole
    assert float(post.log_prob([0.5, {"x": 1.0}])) == pytest.approx(want, abs=1e-10)


def test_nested_values_are_variables_of_the_posterior() -> None:
    """Called by their path."""
    joint = fb.JointNamed(dict(a=fb.JointNamed(dict(m=dist.Normal(0.0, 1.0))), x=lambda a: dist.Normal(a["m"], 1.0)))
    assert float(joint.condition(x=0.5).posterior().mean("a.m")) == pytest.approx(0.25, abs=1e-10)
