"""Nothing is traced on a second call of the same shapes, and nothing is answered from a trace that has grown old."""

import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from tests.counting import no_tracing

KEY = jax.random.key(0)


class Count:
    """Runs of a model; an attribute of a class is no part of what a model captures."""

    runs = 0

    @staticmethod
    def one() -> None:
        Count.runs += 1


@fb.model
def simple(scale: Any) -> Iterator[Any]:
    Count.one()
    s = yield dist.Exponential(2.0)
    m = yield dist.Normal(0.0, scale)
    x = yield dist.Normal(m, s)
    return x


compiled = jax.jit(lambda joint, value: joint.log_prob(value))

QUESTIONS: dict[str, Callable[[fb.Joint, float], Any]] = {
    "construction": lambda joint, at: joint,
    "names, shapes and graph": lambda joint, at: (joint.names, joint.event_shape, joint.dtype, joint.graph()),
    "log_prob": lambda joint, at: joint.log_prob(at, 0.0, 0.5),
    "log_prob of a batch": lambda joint, at: joint.log_prob(np.full(4, at), 0.0, 0.5),
    "log_prob on JAX": lambda joint, at: joint.log_prob(jnp.float32(at), 0.0, 0.5),
    "log_prob_parts": lambda joint, at: joint.log_prob_parts(at, 0.0, 0.5),
    "sample": lambda joint, at: joint.sample(jax.random.key(int(at)), (4,)),
    "sample with a value": lambda joint, at: joint.sample(KEY, (4,), s=at),
    "sample_and_log_prob": lambda joint, at: joint.sample_and_log_prob(KEY),
    "sample_distributions": lambda joint, at: joint.sample_distributions(KEY),
    "condition": lambda joint, at: joint.condition(x=at).log_prob(1.0, 0.0),
    "sample_and_log_weight": lambda joint, at: joint.condition(x=at).sample_and_log_weight(KEY, (3,)),
    "bijector": lambda joint, at: joint.bijector().forward(at, 0.0, 0.5),
    "bijector inverted": lambda joint, at: joint.bijector().inverse(at, 0.0, 0.5),
    "its Jacobian and shape": lambda joint, at: (joint.bijector().log_det(at, 0.0, 0.5), joint.bijector().shape),
    "jit": lambda joint, at: compiled(joint, (at, 0.0, 0.5)),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_second_call_runs_nothing(name: str) -> None:
    """Fresh joints, other parameters, other values, other keys."""
    question = QUESTIONS[name]
    question(simple(1.0), 1.0)
    before = Count.runs
    with no_tracing():
        for number in (2.0, 3.0):
            question(simple(number), number)
    assert Count.runs == before


def test_the_counter_counts() -> None:
    before = Count.runs
    simple(np.ones(3)).log_prob(1.0, np.zeros(3), 0.5 * np.ones(3))
    assert Count.runs > before


def test_makers_made_again() -> None:
    """Lambdas that are written once and made many times, with other JAX arrays in them, are one model."""

    def make(scale: Any, shift: Any) -> fb.Joint:
        def maker(m: Any) -> Any:
            Count.one()
            return dist.Normal(m + shift, 1.0)

        return fb.JointNamed(dict(m=dist.Normal(0.0, scale), x=maker))

    first = float(make(1.0, jnp.array(0.0)).log_prob(m=0.0, x=1.0))
    before = Count.runs
    second = float(make(2.0, jnp.array(1.0)).log_prob(m=0.0, x=1.0))
    assert Count.runs == before and first != second
    assert second == pytest.approx(-0.5 * np.log(2 * np.pi) * 2 - np.log(2.0), abs=1e-5)


def test_fit_traces_once_for_each_length() -> None:
    before = Count.runs
    fb.fit(simple(fb.param(1.0, fb.Positive)).condition(s=1.0, m=2.0, x=0.0), steps=100, progress=False)
    assert Count.runs - before < 10


# -- never stale -------------------------------------------------------------------------------------------------------

NUMBER = 1.0
ARRAY = np.array([1.0])
LIST = [[1.0]]
TABLE = {"loc": 1.0}
RECORD = types.SimpleNamespace(loc=1.0)


class Record:
    def __init__(self) -> None:
        self.loc = 1.0

    def shifted(self, m: Any) -> Any:
        return dist.Normal(m + self.loc, 1.0)


OBJECT = Record()


def helper() -> float:
    return NUMBER


def changed(setter: Callable[[float], None], joint: Callable[[], fb.Joint], names: tuple[str, ...] = ("x",)) -> None:
    """log N(0; 1, 1) before, log N(0; 2, 1) after, for joints made before and after the change."""
    setter(1.0)
    old, value = joint(), dict.fromkeys(names, 0.0)
    first = float(old.log_prob(value))
    try:
        setter(2.0)
        assert first - float(joint().log_prob(value)) == pytest.approx(1.5, abs=1e-10)
        assert first - float(old.log_prob(value)) == pytest.approx(1.5, abs=1e-10)
    finally:
        setter(1.0)
    assert float(joint().log_prob(value)) == first


def site(loc: Callable[[], Any]) -> Callable[[], fb.Joint]:
    def model() -> Iterator[Any]:
        x = yield dist.Normal(loc(), 1.0)
        return x

    return lambda: fb.JointCoroutine(model)


def test_a_global_number() -> None:
    @fb.model
    def model() -> Iterator[Any]:
        x = yield dist.Normal(NUMBER, 1.0)
        return x

    changed(lambda value: globals().update(NUMBER=value), model)


def test_a_helper_that_reads_a_global() -> None:
    changed(lambda value: globals().update(NUMBER=value), site(helper))
    changed(lambda value: globals().update(NUMBER=value), site(functools.partial(lambda: helper())))


def test_an_array_changed_in_place() -> None:
    changed(lambda value: ARRAY.fill(value), site(lambda: ARRAY[0]))


def test_a_closure() -> None:
    items = [1.0]
    changed(lambda value: items.__setitem__(0, value), site(lambda: items[0]))
    changed(lambda value: LIST[0].__setitem__(0, value), site(lambda: LIST[0][0]))
    changed(lambda value: TABLE.update(loc=value), site(lambda: TABLE["loc"]))


def test_a_set() -> None:
    numbers = {0}

    def setter(value: float) -> None:
        numbers.clear()
        numbers.update(range(int(value)))

    changed(setter, site(lambda: float(len(numbers))))


def test_attributes_of_an_object() -> None:
    changed(lambda value: setattr(OBJECT, "loc", value), site(lambda: OBJECT.loc))
    changed(lambda value: setattr(RECORD, "loc", value), site(lambda: RECORD.loc))
    joint = fb.JointSequential([dist.Normal(0.0, 1.0), OBJECT.shifted])
    changed(lambda value: setattr(OBJECT, "loc", value), lambda: joint, ("m", "x"))


def test_an_object_as_an_argument() -> None:
    @fb.model
    def model(record: Record) -> Iterator[Any]:
        x = yield dist.Normal(record.loc, 1.0)
        return x

    changed(lambda value: setattr(OBJECT, "loc", value), lambda: model(OBJECT))


def test_a_captured_dict_keeps_its_order() -> None:
    scales = {"z": 1.0, "a": 2.0, 3: 4.0}

    @fb.model
    def model() -> Iterator[Any]:
        for name, scale in scales.items():
            yield dist.Normal(0.0, scale).named(f"s_{name}")

    assert model().names == ("s_z", "s_a", "s_3")


class Settings:
    scale = 1.0


def test_an_attribute_of_a_class_that_has_changed():
    @fb.model
    def reads():
        x = yield dist.Normal(0.0, Settings.scale)

    first = float(reads().log_prob(x=1.0))
    Settings.scale = 2.0
    try:
        assert float(reads().log_prob(x=1.0)) != first
    finally:
        Settings.scale = 1.0
    assert float(reads().log_prob(x=1.0)) == first
