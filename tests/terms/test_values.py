"""Values: variables, arrays, operators, indexing of events, and how they are read."""

import operator
from collections.abc import Callable
from itertools import islice

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.domains import Integer
from fubini.errors import DataError, DomainError, FubiniError, NameClash
from fubini.terms.value import Apply, Getitem, to_array

RNG = np.random.default_rng(0)
under = pytest.mark.parametrize("interpretation", [fb.exact, fb.lazy], ids=repr)

OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.floordiv, operator.mod]


def test_a_variable_is_its_only_input() -> None:
    x = fb.Variable("x", fb.Reals[2])
    assert (x.inputs, x.output, x.name) == ({"x": fb.Reals[2]}, fb.Reals[2], "x")
    assert isinstance(x, fb.Value)


@pytest.mark.parametrize(
    ("data", "names", "output"),
    [
        (np.zeros((2, 3)), ("i", "j"), fb.Real),
        (np.zeros((2, 3)), ("i",), fb.Reals[3]),
        (np.zeros((2, 3)), (), fb.Reals[2, 3]),
        (np.array([2, 0]), ("i",), Integer),
        (np.array([True, False]), ("i",), fb.Bint[2]),
        ([1, 2.5], ("i",), fb.Real),
    ],
)
def test_array_domains(data: object, names: tuple, output: fb.Domain) -> None:
    array = fb.Array(data, names)
    assert array.output == output
    assert array.inputs == {name: fb.Bint[size] for name, size in zip(names, np.shape(data), strict=False)}
    np.testing.assert_array_equal(array.data, data)


def test_data_decide_the_engine() -> None:
    """NumPy is double precision whatever it came as; JAX stays as it is."""
    assert fb.Array(np.ones(2, np.float32), ("i",)).data.dtype == np.float64
    half = jnp.ones(2, jnp.float16)
    assert fb.Array(half, ("i",)).data is half
    mixed = fb.Array(np.ones(2), ("i",)) + fb.Array(half, ("j",))
    assert isinstance(mixed.data, jax.Array)
    assert isinstance((fb.Array(np.ones(2), ("i",)) * 2).data, np.ndarray)


def test_malformed_arrays() -> None:
    with pytest.raises(NameClash):
        fb.Array(np.ones((2, 2)), ("i", "i"))
    with pytest.raises(DomainError):
        fb.Array(np.ones(2), ("i", "j"))
    with pytest.raises(DomainError):
        fb.Array(np.ones(2), ("i",), fb.Bint[2])
    with pytest.raises(DomainError):
        fb.Array(np.ones((2, 3)), ("i",), fb.Reals[2])


@pytest.mark.parametrize(
    ("data", "domain"),
    [
        ([0, 3], fb.Bint[3]),
        ([-1, 2], fb.Bint[3]),
        ([-1, 2], fb.Nat),
        ([-1.0, 2.0], fb.Positive),
        ([0.5, 1.5], fb.Unit),
    ],
    ids=repr,
)
def test_data_outside_their_domain(data: list, domain: fb.Domain) -> None:
    with pytest.raises(DataError):
        fb.Array(np.array(data), ("i",), domain)


def test_traced_data_outside_their_domain() -> None:
    """No plausible number: −1 where the integer is out of range."""

    def build(k: jax.Array) -> jax.Array:
        return fb.Array(k, ("i",), fb.Bint[3]).data

    np.testing.assert_array_equal(jax.jit(build)(jnp.array([0, 3, 2])), [0, -1, 2])
    with pytest.raises(DataError, match="Bint"):
        fb.checked(jax.jit(build))(jnp.array([0, 3, 2]))


@pytest.mark.parametrize("symbol", OPERATORS, ids=lambda symbol: symbol.__name__)
def test_operators_between_values(symbol: Callable) -> None:
    x, y = RNG.uniform(0.5, 3, (2, 3)), RNG.uniform(0.5, 3, (3, 4))
    result = symbol(fb.Array(x, ("i", "j")), fb.Array(y, ("j", "k")))
    assert result.inputs == {"i": fb.Bint[2], "j": fb.Bint[3], "k": fb.Bint[4]}
    np.testing.assert_allclose(result.data, symbol(x[:, :, None], y[None]), rtol=1e-14)


@pytest.mark.parametrize("symbol", OPERATORS, ids=lambda symbol: symbol.__name__)
@pytest.mark.parametrize(
    "number", [2, 2.5, np.float64(2.5), jnp.float32(2.5)], ids=lambda number: type(number).__name__
)
def test_operators_with_a_number_on_either_side(symbol: Callable, number: float) -> None:
    """The other operand's type never takes over: the result is a Value with its names."""
    x = np.array([0.5, 1.5, 3.5])
    for value in (fb.Array(x, ("i",)), fb.Variable("x", fb.Real)):
        for left, right in ((value, number), (number, value)):
            result = symbol(left, right)
            assert isinstance(result, fb.Value)
            at = result if isinstance(value, fb.Array) else result(x=fb.Array(x, ("i",)))
            assert at.inputs == {"i": fb.Bint[3]}
            expected = symbol(x, float(number)) if left is value else symbol(float(number), x)
            np.testing.assert_allclose(at.data, expected, rtol=1e-6)


def test_a_numpy_array_on_the_left() -> None:
    """Its axes are an event; they are not matched with the named axes."""
    matrix, x = RNG.normal(size=(2, 3)), RNG.normal(size=(4, 3))
    value = fb.Array(x, ("i",))
    total, image = x[0] + value, matrix @ value
    assert isinstance(total, fb.Array) and isinstance(image, fb.Array)
    assert (total.inputs, image.output) == ({"i": fb.Bint[4]}, fb.Reals[2])
    np.testing.assert_allclose(total.data, x[0] + x, rtol=1e-15)
    np.testing.assert_allclose(image.data, x @ matrix.T, rtol=1e-14)


def test_unary_operators() -> None:
    x = fb.Array(np.array([-1.5, 2.0]), ("i",))
    np.testing.assert_array_equal((-x).data, [1.5, -2.0])
    np.testing.assert_array_equal(abs(x).data, [1.5, 2.0])


def test_integer_literals_are_bounded() -> None:
    """`i + 1` stays an index."""
    i = fb.Variable("i", fb.Bint[4])
    assert (i + 1).output == fb.Bint[5]
    assert (i * 3).output == fb.Bint[10]
    assert (i % 3).output == fb.Bint[3]
    assert (i - 1).output == Integer
    assert (i + 0.5).output == fb.Real


EVENT = RNG.normal(size=(2, 3, 4))


def test_indexing_by_integers() -> None:
    value = fb.Array(EVENT, ("b",))
    for index in (1, np.int64(1), jnp.asarray(1)):
        found = value[index]
        assert found.output == fb.Reals[4]
        np.testing.assert_allclose(found.data, EVENT[:, 1], rtol=1e-6)
    assert float(value[2, 3](b=1)) == EVENT[1, 2, 3]


def test_indexing_by_variables_and_arrays() -> None:
    """x[i, j]: names of the indices become inputs, shared names are matched."""
    value, i = fb.Array(EVENT, ("b",)), fb.Variable("i", fb.Bint[3])
    at = fb.Array(np.array([[3, 0, 1], [2, 2, 0]]), ("b", "i"))
    found = value[i, at]
    assert isinstance(found, Getitem)
    assert (found.inputs, found.output) == ({"b": fb.Bint[2], "i": fb.Bint[3]}, fb.Real)
    b, rows = np.indices((2, 3))
    expected = EVENT[b, rows, at.data]
    np.testing.assert_array_equal(to_array(found).data, expected)
    np.testing.assert_array_equal(value[fb.Array(np.arange(3), ("i",)), at].data, expected)


def test_indexing_a_variable() -> None:
    """Recorded, and computed when the variable is given."""
    y, i = fb.Variable("y", fb.Reals[3]), fb.Variable("i", fb.Bint[3])
    entry = y[i] * 2.0 + y[0]
    assert entry.inputs == {"y": fb.Reals[3], "i": fb.Bint[3]}
    numbers = np.array([1.0, 10.0, 100.0])
    np.testing.assert_array_equal(to_array(entry(y=numbers)).data, numbers * 2 + 1)
    assert float(entry(y=numbers, i=2)) == 201.0


@under
@pytest.mark.parametrize("index", [2, -1, 7, "a", slice(0, 1), None, 0.5], ids=repr)
def test_impossible_indices(index: object, interpretation: fb.Interpretation) -> None:
    """Refused at once, also of a variable: its shape is known."""
    with interpretation:
        for value in (fb.Variable("y", fb.Reals[2]), fb.Array(np.ones(2))):
            with pytest.raises(FubiniError):
                value[index]


@under
def test_a_variable_index_has_the_extent_of_its_axis(interpretation: fb.Interpretation) -> None:
    with interpretation, pytest.raises(DomainError):
        fb.Variable("y", fb.Reals[2])[fb.Variable("i", fb.Bint[3])]


def test_an_event_can_be_unpacked() -> None:
    parts = list(islice(fb.Variable("y", fb.Reals[2]), 5))
    assert [float(part(y=np.array([3.0, 4.0]))) for part in parts] == [3.0, 4.0]


@pytest.mark.parametrize("position", [-1, 3])
def test_index_out_of_range(position: int) -> None:
    """Raised eagerly; NaN (−1 for integers) under tracing; raised under tracing by `checked`."""
    floats, integers = fb.Array(np.arange(3.0)), fb.Array(np.arange(3))
    with pytest.raises(DataError, match="range"):
        floats[fb.Array(np.array([0, position]), ("i",))]
    assert np.isnan(jax.jit(lambda k: floats[k].data)(position))
    assert jax.jit(lambda k: integers[k].data)(position) == -1
    with pytest.raises(DataError, match="range"):
        fb.checked(jax.jit(lambda k: floats[k].data))(position)


def test_reading() -> None:
    closed = fb.Array(np.array([3.0, 4.0]))[1]
    assert float(closed) == 4.0
    assert np.asarray(closed).shape == ()
    assert np.asarray(fb.Array(np.array([3.0, 4.0])), dtype=np.float32).dtype == np.float32
    i = fb.Variable("i", fb.Bint[3])
    np.testing.assert_array_equal(to_array(i * 2).data, [0, 2, 4])
    for wrong in (lambda: (i * 2).data, lambda: float(i), lambda: np.asarray(i), lambda: bool(closed)):
        with pytest.raises(FubiniError):
            wrong()
    with pytest.raises(DomainError, match="enumerated"):
        to_array(fb.Variable("x", fb.Real))


def test_exact_computes_and_lazy_records() -> None:
    x = fb.Array(np.ones(2), ("i",))
    assert isinstance(x + x, fb.Array)
    with fb.lazy:
        recorded = x + x
    assert isinstance(recorded, Apply)
    np.testing.assert_array_equal(fb.evaluate(recorded).data, [2.0, 2.0])


def test_a_value_from_vmap_is_only_a_container() -> None:
    """Until its axis has a name; then it is the batch."""
    batch = jax.vmap(lambda row: fb.Array(row, ("j",)))(jnp.asarray(EVENT[0]))
    with pytest.raises(DomainError, match="name_axis"):
        batch + 1.0
    with pytest.raises(DomainError, match="name_axis"):
        batch(j=0)
    value = fb.name_axis(batch, "i")
    assert value.inputs == {"i": fb.Bint[3], "j": fb.Bint[4]}
    np.testing.assert_allclose((value + 1.0).data, EVENT[0] + 1.0, rtol=1e-6)
    with pytest.raises(NameClash):
        fb.name_axis(batch, "j")
