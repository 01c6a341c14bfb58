"""Terms misused as something else: containers from vmap, factors, numbers, truth values, records."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DomainError, NameClash

WEIGHTS = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])

Ask = Callable[..., object]

ENGINES: dict[str, Callable[[Ask], object]] = {
    "numpy": lambda ask: ask(WEIGHTS),
    "jax": lambda ask: ask(jnp.asarray(WEIGHTS)),
    "jit": lambda ask: jax.jit(lambda w: (ask(w), w)[1])(jnp.asarray(WEIGHTS)),
}


@pytest.fixture(params=ENGINES)
def attempt(request: pytest.FixtureRequest) -> Callable[[Ask], object]:
    return ENGINES[request.param]


def message(attempt: Callable, ask: Ask, kind: type[Exception] = fb.FubiniError) -> str:
    with pytest.raises(kind) as caught:
        attempt(ask)
    assert isinstance(caught.value, fb.FubiniError)
    assert "expected:" in str(caught.value)
    return str(caught.value)


def table(w: object) -> fb.Table:
    return fb.Table(w, ("a", "b"))


def mapped_table(w: object) -> fb.Table:
    return jax.vmap(lambda row: fb.Table(row, ("b",)))(jnp.asarray(w))


def mapped_array(w: object) -> fb.Array:
    return jax.vmap(lambda row: fb.Array(row, ("b",)))(jnp.asarray(w))


CONTAINERS: dict[str, Ask] = {
    "sum": lambda w: mapped_table(w).sum("b"),
    "multiply": lambda w: (mapped_table(w) * 2.0).sum("b"),
    "divide": lambda w: mapped_table(w) / fb.Table([1.0, 2.0], ("b",)),
    "call": lambda w: mapped_table(w)(b=0),
    "rename": lambda w: mapped_table(w)(b="c"),
    "log": lambda w: mapped_table(w).log(),
    "argmax": lambda w: mapped_table(w).argmax("b"),
    "eliminate": lambda w: fb.eliminate([mapped_table(w)], ("b",)),
    "marginals": lambda w: fb.marginals([mapped_table(w)], ("b",)),
    "add Values": lambda w: mapped_array(w) + 1.0,
    "call a Value": lambda w: mapped_array(w)(b=0),
    "rename a Value": lambda w: mapped_array(w)(b="c"),
    "weight": lambda w: fb.weight(log=mapped_array(w)).sum("b"),
}


@pytest.mark.parametrize("case", CONTAINERS)
def test_term_from_vmap_without_a_name(attempt: Callable, case: str) -> None:
    text = message(attempt, CONTAINERS[case], DomainError)
    assert "vmap" in text and "fb.name_axis(" in text


def test_term_from_vmap_with_a_name() -> None:
    """Naming the axis makes it a factor over that name too."""
    named = fb.name_axis(mapped_table(WEIGHTS), "a")
    assert named.inputs == {"a": fb.Bint[3], "b": fb.Bint[2]}
    np.testing.assert_allclose(named.sum("b").log().data, np.log(WEIGHTS.sum(1)), rtol=1e-6)


def test_name_axis_of_a_name_it_has(attempt: Callable) -> None:
    assert "'b'" in message(attempt, lambda w: fb.name_axis(mapped_table(w), "b"), NameClash)


@pytest.mark.parametrize("names", [("a", "b"), ()])
def test_name_axis_without_vmap(attempt: Callable, names: tuple[str, ...]) -> None:
    """Every axis has a name: there is none to give."""
    assert "'i'" in message(attempt, lambda w: fb.name_axis(fb.Table(w if names else w[0, 0], names), "i"))


NON_FACTORS: dict[str, Ask] = {
    "times a word": lambda w: table(w) * "x",
    "times None": lambda w: table(w) * None,
    "over a word": lambda w: table(w) / "x",
    "a word over": lambda w: "x" / table(w),
    "plus a word": lambda w: table(w) + "x",
    "times an array": lambda w: table(w) * w,
    "over an array": lambda w: table(w) / w,
    "plus an array": lambda w: table(w) + w,
    "an array times": lambda w: w * table(w),
    "an array plus": lambda w: w + table(w),
    "an array over": lambda w: w / table(w),
    "a NumPy array times": lambda w: WEIGHTS * table(w),
    "times a Value": lambda w: table(w) * table(w).log(),
    "plus a Value": lambda w: table(w) + fb.Array(1.0),
    "eliminate": lambda w: fb.eliminate([table(w), "x"], ("b",)),
    "marginals": lambda w: fb.marginals([table(w), w], ("b",)),
}


@pytest.mark.parametrize("case", NON_FACTORS)
def test_non_factor(attempt: Callable, case: str) -> None:
    assert "factor" in message(attempt, NON_FACTORS[case], DomainError)


def test_factor_is_no_value(attempt: Callable) -> None:
    for ask in (lambda w: table(w).log() * table(w), lambda w: fb.Variable("x", fb.Real) + table(w)):
        assert "Table(a: Bint[3], b: Bint[2])" in message(attempt, ask, DomainError)


NUMBERS: dict[str, Ask] = {
    "Python": lambda w: 0.5,
    "an integer": lambda w: 2,
    "NumPy": lambda w: np.float64(0.5),
    "NumPy, no axes": lambda w: np.asarray(0.5),
    "JAX": lambda w: jnp.asarray(0.5),
    "of the engine": lambda w: w[0, 0],
}


@pytest.mark.parametrize("case", NUMBERS)
def test_number_is_a_factor(attempt: Callable, case: str) -> None:
    """On either side, traced or not."""

    def ask(w: object) -> object:
        number = NUMBERS[case](w)
        for found in (table(w) * number, number * table(w), table(w) / number, table(w) + number):
            assert isinstance(found, fb.Factor) and found.inputs == {"a": fb.Bint[3], "b": fb.Bint[2]}
        if isinstance(w, np.ndarray):
            assert np.exp((number * table(w)).log().data) == pytest.approx(float(number) * WEIGHTS)
        return w

    attempt(ask)


@pytest.mark.parametrize("number", [2, 0.5, np.float64(0.5), np.asarray(0.5), np.int64(3), jnp.asarray(0.5)])
def test_number_times_value_keeps_its_names(number: object) -> None:
    """A NumPy scalar on the left does not turn the Value into a bare array."""
    value = fb.Array(WEIGHTS, ("a", "b"))
    for found in (number * value, value * number):
        assert isinstance(found, fb.Value) and list(found.inputs) == ["a", "b"]
        assert found.data == pytest.approx(float(number) * WEIGHTS)


def test_array_times_value(attempt: Callable) -> None:
    """An array without names is never matched to named axes by position."""

    def ask(w: object) -> object:
        found = w * fb.Array(w, ("a", "b"))
        assert isinstance(found, fb.Value) and found.inputs == {"a": fb.Bint[3], "b": fb.Bint[2]}
        assert found.output == fb.Reals[3, 2]
        return w

    attempt(ask)


def test_float_of_an_open_factor(attempt: Callable) -> None:
    for ask in (lambda w: float(table(w)), lambda w: float(table(w) * 2.0)):
        text = message(attempt, ask)
        assert "float" in text and "closed" in text and "'a', 'b'" in text and "sum" in text


def test_float_of_an_open_value(attempt: Callable) -> None:
    for ask in (lambda w: float(fb.Array(w, ("a", "b"))), lambda w: float(fb.Variable("b", fb.Bint[2]) + 1)):
        assert "closed" in message(attempt, ask)


@pytest.mark.parametrize("logarithm", [710.0, 1e5, -746.0, -1e5])
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_float_out_of_range(array: Callable, logarithm: float) -> None:
    """It points to the logarithm, which is right."""
    factor = fb.Table.from_log(array(logarithm))
    with pytest.raises(fb.FubiniError, match=r"\.log\(\)"):
        float(factor)
    assert float(factor.log()) == pytest.approx(logarithm)


@pytest.mark.parametrize("logarithm", [709.7, 100.0, -100.0, -700.0])
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_float_in_range(array: Callable, logarithm: float) -> None:
    """Also where JAX's single precision could not hold the number."""
    assert float(fb.Table.from_log(array(logarithm))) == pytest.approx(math.exp(logarithm), rel=1e-4)


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_float_of_zero(array: Callable) -> None:
    """An exact zero is 0.0, not an underflow."""
    for factor in (
        fb.Table(array(0.0)),
        fb.Table.from_log(array(-np.inf)),
        fb.Table(array([0.0, 0.0]), ("a",)).sum("a"),
    ):
        assert float(factor) == 0.0


def test_truth_of_a_value(attempt: Callable) -> None:
    for ask in (lambda w: bool(fb.Array(w[0, 0])), lambda w: 1 if table(w).log() else 2):
        text = message(attempt, ask)
        assert "truth" in text and "fb.ops.where" in text and "fb.same" in text


@pytest.mark.parametrize("field", ["weights", "inputs", "anything"])
def test_assignment(attempt: Callable, field: str) -> None:
    text = message(attempt, lambda w: setattr(table(w), field, w))
    assert repr(field) in text and "immutable" in text


def test_assignment_to_values(attempt: Callable) -> None:
    assert "'array'" in message(attempt, lambda w: setattr(fb.Array(w), "array", w))
    assert "'name'" in message(attempt, lambda w: setattr(fb.Variable("x", fb.Real), "name", "y"))


def test_deletion(attempt: Callable) -> None:
    assert "immutable" in message(attempt, lambda w: delattr(table(w), "weights"))
