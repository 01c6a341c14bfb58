"""Joints made of distributions and of functions of a module can be pickled and copied (TFP's 1543)."""

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fubini as fb
from fubini import dist


def around(m: Any) -> Any:
    return dist.Normal(m, 1.0)


def plain(scale: Any) -> Iterator[Any]:
    m = yield dist.Normal(0.0, scale)
    x = yield dist.Normal(m, 1.0)
    return x


@fb.model
def decorated(scale: Any) -> Iterator[Any]:
    m = yield dist.Normal(0.0, scale)
    x = yield dist.Normal(m, 1.0)
    return x


PARTS = [fb.JointSequential([dist.Normal(loc, 1.0), around]) for loc in (0.0, 1.0)]
JOINTS: dict[str, Callable[[], fb.Joint]] = {
    "a list": lambda: fb.JointSequential([dist.Normal(0.0, 2.0), around]),
    "a dict": lambda: fb.JointNamed(dict(m=dist.Normal(0.0, 2.0), x=around)),
    "a family as a maker": lambda: fb.JointSequential([dist.Exponential(1.0), dist.Exponential]),
    "a generator function": lambda: fb.JointCoroutine(plain, 2.0),
    "a decorated one": lambda: decorated(2.0),
    "parameters": lambda: decorated(fb.param(2.0, fb.Positive)),
    "a mixture": lambda: fb.JointMixture([0.3, 0.7], PARTS),
    "nested": lambda: fb.JointSequential([dist.Normal(0.0, 1.0), PARTS[0]]),
    "sliced": lambda: fb.JointSequential([dist.Normal(np.zeros(3), 1.0), around])[1:],
}


@pytest.mark.parametrize("name", JOINTS)
def test_there_and_back(name: str) -> None:
    joint = JOINTS[name]()
    value = {"nested": [0.5, [0.1, 0.2]], "sliced": [np.zeros(2), np.ones(2)]}.get(name, [0.5, 0.1])
    value = dict(zip(joint.names, value, strict=True))
    for other in (pickle.loads(pickle.dumps(joint)), copy.deepcopy(joint)):
        assert type(other) is type(joint) and other.names == joint.names
        assert float(other.log_prob(value)) == float(joint.log_prob(value))


def test_conditioned() -> None:
    post = decorated(2.0).condition(x=0.5)
    other = pickle.loads(pickle.dumps(post))
    assert other.names == ("m",) and float(other.log_prob(0.1)) == float(post.log_prob(0.1))
    draw = decorated(2.0).unflatten({"m": 1.0, "x": 2.0})
    assert pickle.loads(pickle.dumps(draw)) == draw
