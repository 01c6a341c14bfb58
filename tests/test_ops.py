"""Every op against NumPy, on numbers, arrays and Values, with its typing rule; lifted JAX functions likewise."""

import pickle
from collections.abc import Callable
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.domains import Integer
from fubini.base.ops import UNITS, Op, reduction
from fubini.errors import DomainError

ops = fb.ops
RNG = np.random.default_rng(0)

# Each op with what it should compute; every one of them is defined on the numbers below.
UNARY: dict[Op, Callable] = {
    ops.negative: lambda x: -x,
    ops.absolute: np.abs,
    ops.exp: np.exp,
    ops.log: np.log,
    ops.log1p: np.log1p,
    ops.expm1: np.expm1,
    ops.sqrt: np.sqrt,
    ops.square: lambda x: x * x,
    ops.sin: np.sin,
    ops.cos: np.cos,
    ops.tan: np.tan,
    ops.tanh: np.tanh,
    ops.floor: np.floor,
    ops.sigmoid: lambda x: 1 / (1 + np.exp(-x)),
    ops.softplus: lambda x: np.log(1 + np.exp(x)),
    ops.logical_not: lambda x: x == 0,
}
BINARY: dict[Op, Callable] = {
    ops.add: lambda x, y: x + y,
    ops.subtract: lambda x, y: x - y,
    ops.multiply: lambda x, y: x * y,
    ops.divide: lambda x, y: x / y,
    ops.floor_divide: lambda x, y: np.floor(x / y),
    ops.remainder: lambda x, y: x - y * np.floor(x / y),
    ops.power: lambda x, y: np.exp(y * np.log(x)),
    ops.maximum: lambda x, y: np.where(x > y, x, y),
    ops.minimum: lambda x, y: np.where(x < y, x, y),
    ops.logaddexp: lambda x, y: np.log(np.exp(x) + np.exp(y)),
    ops.equal: lambda x, y: x == y,
    ops.not_equal: lambda x, y: x != y,
    ops.less: lambda x, y: x < y,
    ops.less_equal: lambda x, y: x <= y,
    ops.greater: lambda x, y: x > y,
    ops.greater_equal: lambda x, y: x >= y,
    ops.logical_and: lambda x, y: (x != 0) & (y != 0),
    ops.logical_or: lambda x, y: (x != 0) | (y != 0),
}
TRUTHS = {ops.logical_not, *list(BINARY)[-8:]}
ALL = {**UNARY, **BINARY, ops.where: np.where}

every_op = pytest.mark.parametrize("op", ALL, ids=repr)
under = pytest.mark.parametrize("interpretation", [fb.exact, fb.lazy], ids=repr)


def arguments(op: Op) -> list[np.ndarray]:
    """Positive numbers over the axes (i, j) with an event of 2, and (k, j) with none; some of them equal."""
    x, y = RNG.uniform(0.2, 3.0, (4, 3, 2)), RNG.uniform(0.2, 3.0, (5, 3))
    y[0] = x[0, :, 0]
    if op is ops.where:
        return [x > 1.5, y, 2 * x]
    return [x] if op in UNARY else [x, y]


def spread(x: np.ndarray) -> np.ndarray:
    """Over the axes (i, j, k, event)."""
    return x[:, :, None, :] if x.ndim == 3 else x.T[None, :, :, None]


def named(x: np.ndarray) -> fb.Array:
    return fb.Array(x, ("i", "j") if x.ndim == 3 else ("k", "j"))


def test_no_op_is_forgotten() -> None:
    assert {op for op in vars(ops).values() if isinstance(op, Op)} == set(ALL)


@every_op
def test_op_on_numbers_and_numpy_arrays(op: Op) -> None:
    given = [x.reshape(-1)[:6] for x in arguments(op)]
    assert isinstance(op(*given), np.ndarray)
    np.testing.assert_allclose(op(*given), ALL[op](*given), rtol=1e-13, atol=1e-15)
    first = op(*(x[0] for x in given))
    np.testing.assert_allclose(first, ALL[op](*(x[0] for x in given)), rtol=1e-13)
    assert not isinstance(first, jax.Array)


@every_op
def test_op_on_jax_arrays(op: Op) -> None:
    """Also compiled."""
    given = [jnp.asarray(x.reshape(-1)[:6]) for x in arguments(op)]
    expected = ALL[op](*(np.asarray(x) for x in given))
    for function in (op, jax.jit(op)):
        assert isinstance(function(*given), jax.Array)
        np.testing.assert_allclose(function(*given), expected, rtol=3e-6, atol=1e-6)


@every_op
def test_op_on_values(op: Op) -> None:
    """Named axes are matched by name, events broadcast, and the domain of the result is known before it is computed."""
    given = arguments(op)
    result = op(*map(named, given))
    expected = ALL[op](*map(spread, given))
    expected = expected if len(given) > 1 else expected[:, :, 0]
    assert isinstance(result, fb.Array)
    assert list(result.inputs) == (["i", "j", "k"] if len(given) > 1 else ["i", "j"])
    assert result.output == (fb.Bint[2, 2] if op in TRUTHS else fb.Reals[2])
    assert isinstance(result.data, np.ndarray)
    np.testing.assert_allclose(result.data, expected, rtol=1e-13, atol=1e-15)


@every_op
def test_op_recorded_then_evaluated(op: Op) -> None:
    given = list(map(named, arguments(op)))
    with fb.lazy:
        recorded = op(*given)
    assert not isinstance(recorded, fb.Array)
    assert recorded.output == op(*given).output
    np.testing.assert_array_equal(fb.evaluate(recorded).data, op(*given).data)


@pytest.mark.parametrize("op", [ops.sigmoid, ops.softplus, ops.logaddexp], ids=repr)
def test_no_overflow_in_the_tails(op: Op) -> None:
    far = np.array([-800.0, 800.0])
    expected = {"sigmoid": [0.0, 1.0], "softplus": [0.0, 800.0], "logaddexp": [0.0, 800.0]}[op.name]
    np.testing.assert_allclose(op(far) if op is not ops.logaddexp else op(far, 0.0), expected)


INDEX_OPS = [ops.add, ops.multiply, ops.floor_divide, ops.remainder, ops.maximum, ops.minimum]


@pytest.mark.parametrize("op", INDEX_OPS, ids=repr)
@pytest.mark.parametrize(("n", "m"), list(product(range(1, 6), repeat=2)))
def test_bounds_of_index_arithmetic(op: Op, n: int, m: int) -> None:
    """The result of bounded integers lies within the bound inferred, and reaches it where the op is monotone."""
    domain = op.infer(fb.Bint[n], fb.Bint[m])
    pairs = [(a, b) for a in range(n) for b in range(m) if b or op not in (ops.floor_divide, ops.remainder)]
    found = [int(op(a, b)) for a, b in pairs]
    assert domain.is_finite
    assert all(0 <= value < domain.size for value in found)
    if op not in (ops.floor_divide, ops.remainder):
        assert max(found) == domain.size - 1


@pytest.mark.parametrize(
    ("op", "domains", "expected"),
    [
        (ops.subtract, (fb.Bint[3], fb.Bint[2]), Integer),
        (ops.negative, (fb.Bint[3],), Integer),
        (ops.add, (fb.Bint[3], fb.Nat), Integer),
        (ops.power, (fb.Bint[3], fb.Bint[3]), Integer),
        (ops.divide, (fb.Bint[3], fb.Bint[2]), fb.Real),
        (ops.add, (fb.Bint[3], fb.Real), fb.Real),
        (ops.multiply, (fb.Reals[2, 1], fb.Reals[3]), fb.Reals[2, 3]),
        (ops.equal, (fb.Reals[3], fb.Real), fb.Bint[2, 3]),
        (ops.where, (fb.Bint[2, 3], fb.Bint[4], fb.Bint[6]), fb.Bint[6, 3]),
        (ops.where, (fb.Bint[2], fb.Bint[4], fb.Real), fb.Real),
        (ops.exp, (fb.Bint[4, 2],), fb.Reals[2]),
    ],
)
def test_typing(op: Op, domains: tuple, expected: fb.Domain) -> None:
    assert op.infer(*domains) == expected
    value = op(*(fb.Variable(f"x{position}", domain) for position, domain in enumerate(domains)))
    assert value.output == expected


@under
def test_type_errors_at_construction(interpretation: fb.Interpretation) -> None:
    x, y = fb.Variable("x", fb.Reals[2]), fb.Variable("y", fb.Reals[3])
    wrong = [lambda: x + y, lambda: ops.where(x, y, 1.0), lambda: x @ y, lambda: x[0, 0], lambda: x[0.5]]
    wrong += [lambda: x + fb.Variable("x", fb.Real), lambda: fb.lift(jnp.linalg.inv)(x)]
    with interpretation:
        for build in wrong:
            with pytest.raises(DomainError):
                build()


@under
@pytest.mark.parametrize("wrong", ["y", None, object(), {"a": 1}], ids=["string", "none", "object", "mapping"])
def test_what_is_no_number_is_no_value(wrong: object, interpretation: fb.Interpretation) -> None:
    with interpretation:
        for build in (lambda: fb.Variable("x", fb.Real) + wrong, lambda: fb.Array(wrong)):
            with pytest.raises(DomainError):
                build()


@pytest.mark.parametrize("op", UNITS, ids=repr)
def test_units_and_reductions(op: Op) -> None:
    """op(unit, x) = x, and the fold over an axis is the op applied again and again."""
    truths = op in (ops.logical_and, ops.logical_or)
    numbers = np.array([True, False, True]) if truths else np.array([0.5, -1.0, 2.0])
    np.testing.assert_array_equal(op(UNITS[op], numbers), numbers)
    expected = op(op(numbers[0], numbers[1]), numbers[2])
    for xp in (np, jnp):
        np.testing.assert_allclose(reduction(op)(xp, xp.asarray(numbers), 0), expected, rtol=1e-6)


def test_a_reduction_needs_an_associative_op() -> None:
    with pytest.raises(DomainError, match="subtract"):
        reduction(ops.subtract)


@every_op
def test_ops_survive_pickling(op: Op) -> None:
    assert pickle.loads(pickle.dumps(op)) is op
