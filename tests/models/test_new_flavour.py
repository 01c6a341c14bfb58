"""A flavour of a user's own: ordered sites, a container to and from names, and everything else is there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist

KEY = jax.random.key(0)


@jax.tree_util.register_pytree_node_class
class Row:
    """What users of the flavour see: names, and values one after the other. It is a pytree, so that it can nest."""

    def __init__(self, **values: Any) -> None:
        self.names, self.values = tuple(values), tuple(values.values())

    def tree_flatten(self) -> tuple[tuple, tuple]:
        return self.values, self.names

    @classmethod
    def tree_unflatten(cls, names: tuple[str, ...], values: tuple) -> Row:
        return cls(**dict(zip(names, values, strict=True)))


@jax.tree_util.register_pytree_node_class
class JointText(fb.Joint):
    """One line for each site, `x ~ Normal(m, 2.0)`; a sample is a Row."""

    def __init__(self, text: str, **numbers: Any) -> None:
        self.lines = tuple(re.findall(r"(\w+) ~ (.+)", text))
        self.numbers = numbers

    def sites(self) -> fb.joint.flavour.Sites:
        values = dict(self.numbers)
        for name, distribution in self.lines:
            values[name] = yield name, eval(f"dist.{distribution}", {"dist": dist}, values)

    def unflatten(self, values: Mapping[str, Any]) -> Row:
        return Row(**values)

    def flatten(self, value: Any, names: Sequence[str], what: str = "a value") -> dict[str, Any]:
        given = dict(zip(value.names, value.values, strict=True)) if isinstance(value, Row) else value
        return super().flatten(given, names, what)

    def tree_flatten(self) -> tuple[tuple, tuple]:
        return tuple(self.numbers.values()), (self.lines, tuple(self.numbers))

    @classmethod
    def tree_unflatten(cls, static: tuple, numbers: tuple) -> JointText:
        new = object.__new__(cls)
        new.lines, names = static
        new.numbers = dict(zip(names, numbers, strict=True))
        return new


def text(scale: Any = 2.0) -> fb.Joint:
    return JointText("m ~ Normal(0.0, 1.0)\nx ~ Normal(m, scale)", scale=scale)


WANT = stats.norm.logpdf(0.3) + stats.norm(0.3, 2).logpdf(1.0)


def test_contract() -> None:
    joint = text()
    assert joint.names == ("m", "x") and f"{joint}" == "JointText(m: Real, x: Real)"
    assert joint.event_shape.values == ((), ()) and joint.graph()["x"] == ("m",)
    draws = joint.sample(KEY, (4,))
    assert isinstance(draws, Row) and draws.names == ("m", "x") and joint.log_prob(draws).shape == (4,)
    for found in (joint.log_prob(Row(x=1.0, m=0.3)), joint.log_prob({"m": 0.3, "x": 1.0}), joint.log_prob(0.3, x=1.0)):
        assert float(found) == pytest.approx(WANT, abs=1e-10)


def test_conditioning_and_exact_answers() -> None:
    post = text().condition(Row(x=1.0))
    assert post.names == ("m",) and float(post.log_prob(Row(m=0.3))) == pytest.approx(WANT, abs=1e-10)
    assert float(post.posterior().mean("m")) == pytest.approx(0.2, abs=1e-10)
    assert float(post.log_evidence()) == pytest.approx(stats.norm(0, np.sqrt(5)).logpdf(1.0), abs=1e-10)


def test_parameters_and_bijector() -> None:
    slope = jax.grad(lambda scale: text(scale).log_prob(m=0.3, x=1.0))(2.0)
    assert float(slope) == pytest.approx(0.49 / 8 - 0.5, abs=1e-6)
    joint = JointText("s ~ Exponential(1.0)\nx ~ Normal(0.0, s)")
    assert joint.bijector().forward(Row(s=0.0, x=0.5)).values == (1.0, 0.5)


def test_nested_mixed_and_sliced() -> None:
    """Its own container, as part of another joint, in a mixture and in a slice."""
    outer = fb.JointNamed(dict(a=text(), y=lambda a: dist.Normal(a.values[1], 1.0)))
    draw = outer.sample(KEY)
    assert isinstance(draw["a"], Row) and np.isfinite(outer.log_prob(draw))
    assert outer.sample(KEY, a=Row(m=3.0))["a"].values[0] == 3.0
    mixture = fb.JointMixture([0.5, 0.5], [text(), text()])
    assert float(mixture.log_prob(Row(m=0.3, x=1.0))) == pytest.approx(WANT, abs=1e-10)
    wide = JointText("m ~ Normal(0.0, scale)", scale=np.ones(3))
    assert float(wide[1:].log_prob(Row(m=np.zeros(2)))) == pytest.approx(2 * stats.norm.logpdf(0.0), abs=1e-10)


def test_the_same_checks() -> None:
    with pytest.raises(fb.FubiniError, match="a site called 'key'"):
        JointText("key ~ Normal(0.0, 1.0)").sample(KEY)
    with pytest.raises(fb.FubiniError, match="two sites called 'm'"):
        JointText("m ~ Normal(0.0, 1.0)\nm ~ Normal(0.0, 1.0)").sample(KEY)
    with pytest.raises(fb.FubiniError, match="a value for 'q'"):
        text().log_prob(Row(q=1.0))
