"""Containers: samples come in the container of the model, values may be given in any, whole or in part."""

import pickle
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.models.container import struct

from .flavours import (
    EXPONENTIAL,
    FLAVOURS,
    LOG_PROB,
    POINT,
    Simple,
    in_dict,
    in_list,
    in_namedtuple,
    in_ordered_dict,
    in_tuple,
    simple,
)

KEY = jax.random.key(0)
BY_NAME = dict(zip("smx", POINT, strict=True))

# -- out ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "container"),
    [(in_list, list), (in_tuple, tuple), (in_dict, dict), (in_ordered_dict, OrderedDict), (in_namedtuple, Simple)],
)
def test_samples_come_in_the_container_of_the_model(make: Callable[..., fb.Joint], container: type) -> None:
    """A2."""
    assert type(make(EXPONENTIAL).sample(KEY)) is container
    assert type(make().event_shape) is container


def test_a_coroutine_gives_a_struct() -> None:
    """A2: one type for equal fields; `+` joins; printed on lines, those of nested ones set in."""
    draw = simple(EXPONENTIAL).sample(KEY)
    assert type(draw) is struct(("s", "m", "x")) and draw._fields == ("s", "m", "x")
    both = struct(("a",))(1) + struct(("b",))(struct(("c",))(2))
    assert type(both) is struct(("a", "b"))
    assert repr(both) == "Struct(\n  a=1,\n  b=Struct(\n    c=2,\n  ),\n)"
    assert pickle.loads(pickle.dumps(both)) == both
    assert jax.tree_util.tree_map(lambda leaf: leaf + 1, both) == struct(("a", "b"))(2, struct(("c",))(3))


def test_a_dict_keeps_the_order_given_parents_first() -> None:
    """A7 in our order: that of the dict for users, parents first for sites."""
    joint = fb.JointNamed(dict(x=lambda m: dist.Normal(m, 1.0), a=dist.Normal(0.0, 1.0), m=dist.Normal(0.0, 1.0)))
    assert joint.names == ("m", "x", "a")
    assert list(joint.sample(KEY)) == list(joint.event_shape) == ["x", "a", "m"]
    Pair = namedtuple("Pair", ["x", "m"])
    pair = fb.JointNamed(Pair(lambda m: dist.Normal(m, 1.0), dist.Normal(0.0, 1.0)))
    assert pair.names == ("m", "x") and pair.sample(KEY)._fields == ("x", "m")


# -- in ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", FLAVOURS, ids=lambda make: make.__name__)
def test_values_by_name(make: Callable[..., fb.Joint]) -> None:
    """A6: keywords, a dict, a namedtuple and `value=`, for every flavour."""
    joint = make()
    for found in (
        joint.log_prob(**BY_NAME),
        joint.log_prob(BY_NAME),
        joint.log_prob(OrderedDict(reversed(BY_NAME.items()))),
        joint.log_prob(Simple(*POINT)),
        joint.log_prob(value=BY_NAME),
        joint.log_prob(value=joint.unflatten(BY_NAME)),
    ):
        assert float(found) == pytest.approx(LOG_PROB, abs=1e-6)


@pytest.mark.parametrize("make", [in_list, in_tuple, in_ordered_dict, in_namedtuple, simple])
def test_values_by_position(make: Callable[..., fb.Joint]) -> None:
    """A6: a list, a tuple, one argument each, and some of each."""
    joint, (s, m, x) = make(), POINT
    for found in (
        joint.log_prob(POINT),
        joint.log_prob(tuple(POINT)),
        joint.log_prob(value=POINT),
        joint.log_prob(s, m, x),
        joint.log_prob(s, m, x=x),
        joint.log_prob(s, x=x, m=m),
    ):
        assert float(found) == pytest.approx(LOG_PROB, abs=1e-6)


def test_a_model_of_one_variable() -> None:
    """A6: a number is its value, in a list or not; an array of one number is a batch."""
    one = fb.JointSequential([dist.Exponential(1.0)])
    assert float(one.log_prob(4.0)) == float(one.log_prob([4.0])) == -4.0
    assert one.log_prob(4.0).shape == () and one.log_prob(np.array([4.0])).shape == (1,)


def test_a_model_of_no_variables() -> None:
    assert fb.JointSequential([]).sample(KEY) == [] and float(fb.JointNamed({}).log_prob({})) == 0.0


PARTIAL: list[Any] = [[2.0, None, None], [2.0], (2.0, None), {"s": 2.0}, Simple(2.0, None, None), {"s": 2.0, "m": None}]


@pytest.mark.parametrize("value", PARTIAL, ids=repr)
def test_partial_values(value: Any) -> None:
    """A12: None, a prefix, a dict or a namedtuple of some."""
    draw = in_list(EXPONENTIAL).sample(KEY, value=value)
    assert draw == in_list(EXPONENTIAL).sample(KEY, s=2.0) and draw[0] == 2.0


@pytest.mark.parametrize("value", [[None, None, 0.5], (None, None, 0.5), {"x": 0.5}, Simple(None, None, 0.5)], ids=repr)
def test_partial_observations(value: Any) -> None:
    """A22: `condition` takes the same, also one argument for each site."""
    for post in (in_list().condition(value), in_list().condition(None, None, 0.5), in_list().condition(x=0.5)):
        assert post.names == ("s", "m")
        assert float(post.log_prob(1.0, 0.0)) == pytest.approx(LOG_PROB, abs=1e-6)


def test_deterministic_values_may_be_given_or_left_out() -> None:
    """TFP's RFC 1842: what is computed need not be given back; in a whole sample it is ignored."""
    items = [dist.Normal(0.0, 1.0), lambda z: fb.deterministic(2.0 * z), lambda r: dist.Normal(r, 1.0)]
    joint = fb.JointSequential(items)
    assert joint.names == ("z", "r", "x")
    z, r, x = joint.sample(KEY)
    assert r == 2.0 * z
    want = float(joint.log_prob([z, r, x]))
    for found in (joint.log_prob([z, x]), joint.log_prob(z, x), joint.log_prob(z=z, x=x), joint.log_prob(z, r, x)):
        assert float(found) == want
    assert len(joint.log_prob_parts([z, x])) == 2
