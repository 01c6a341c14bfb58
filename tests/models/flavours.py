"""One model in every flavour: s ~ InverseGamma(3, 2), m ~ Normal(0, 1), x ~ Normal(m, s)."""

from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from typing import Any

import fubini as fb
from fubini import dist

Simple = namedtuple("Simple", ["s", "m", "x"])
POINT = [1.0, 0.0, 0.5]  # s, m, x
LOG_PROB, PARTS = -2.576583, [-0.6137059, -0.9189385, -1.0439385]  # there


INVERSE_GAMMA = dist.InverseGamma(3.0, 2.0)
EXPONENTIAL = dist.Exponential(2.0)  # in its place where values are drawn: it compiles in a tenth of the time


def items(scale: Any = INVERSE_GAMMA) -> list[Any]:
    return [scale, dist.Normal(0.0, 1.0), lambda m, s: dist.Normal(m, s)]


@fb.model
def simple(scale: Any = INVERSE_GAMMA) -> Iterator[Any]:
    s = yield scale
    m = yield dist.Normal(0.0, 1.0)
    x = yield dist.Normal(m, s)
    return x


def in_list(scale: Any = INVERSE_GAMMA) -> fb.Joint:
    return fb.JointSequential(items(scale))


def in_tuple(scale: Any = INVERSE_GAMMA) -> fb.Joint:
    return fb.JointSequential(tuple(items(scale)))


def in_dict(scale: Any = INVERSE_GAMMA) -> fb.Joint:
    return fb.JointNamed(dict(zip("smx", items(scale), strict=True)))


def in_ordered_dict(scale: Any = INVERSE_GAMMA) -> fb.Joint:
    return fb.JointNamed(OrderedDict(zip("smx", items(scale), strict=True)))


def in_namedtuple(scale: Any = INVERSE_GAMMA) -> fb.Joint:
    return fb.JointNamed(Simple(*items(scale)))


FLAVOURS = [in_list, in_tuple, in_dict, in_ordered_dict, in_namedtuple, simple]
