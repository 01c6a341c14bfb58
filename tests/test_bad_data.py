"""Bad data raise in either engine and inside `fb.checked`; merely traced they are NaN, never a plausible number."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DataError

GOOD = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])
INDEX = np.array([0, 2, 1])
CELL = np.array([[0, 0], [1, 0], [0, 0]], bool)
ROW = CELL.any(1)
COLUMN = CELL.any(0)
EVERYTHING = np.asarray(True)
COUNTS = np.array([4, 5, 6])


def with_entry(number: float, at: tuple[int, int] = (1, 0)) -> np.ndarray:
    changed = GOOD.copy()
    changed[at] = number
    return changed


def table(w: Any) -> fb.Table:
    return fb.Table(w, ("a", "b"))


def log_table(w: Any) -> fb.Table:
    return fb.Table.from_log(w, ("a", "b"))


def log_weight(w: Any) -> fb.Factor:
    return fb.weight(log=fb.Array(w, ("a", "b")))


def along(index: Any, domain: fb.Domain | None = None) -> fb.Array:
    return fb.Array(index, ("j",), domain)


class Case(NamedTuple):
    """A question to an array, bad data for it, words of the error, and which entries of the answer they spoil."""

    ask: Callable[[Any], Any]
    bad: np.ndarray
    words: tuple[str, ...]
    spoiled: np.ndarray
    good: np.ndarray = GOOD


FIXED = table(GOOD)
POSITIVE = GOOD + 0.1
THREE = fb.Bint[3]
NUMBER = fb.Variable("n", THREE)
RANGE = ("'a'", "0 to 2")
OUTSIDE = ("Bint[3]", "0 to 2")
WEIGHT = ("'a', 'b'", "bad weight", "non-negative and finite", "from_log")
LOG_WEIGHT = ("'a', 'b'", "bad log-weight", "not NaN")
MASS = ("zero everywhere", "positive mass", "impossible")


CASES = {
    "negative weight": Case(lambda w: table(w).log().data, with_entry(-1.0), WEIGHT, CELL),
    "negative weight, summed": Case(lambda w: table(w).sum("a").log().data, with_entry(-1.0), WEIGHT, COLUMN),
    "negative weight, in a product": Case(
        lambda w: (table(w) * FIXED).sum("a").log().data, with_entry(-1.0), WEIGHT, COLUMN
    ),
    "negative number": Case(lambda w: (FIXED * w[1, 0]).log().data, with_entry(-0.1), ("bad weight",), EVERYTHING),
    "NaN weight": Case(lambda w: table(w).sum("a").log().data, with_entry(np.nan), WEIGHT, COLUMN),
    "infinite weight": Case(lambda w: table(w).sum("a").log().data, with_entry(np.inf), WEIGHT, COLUMN),
    "infinite log-weight": Case(lambda w: log_table(w).log().data, with_entry(np.inf), LOG_WEIGHT, CELL),
    "infinite log-weight, summed": Case(
        lambda w: log_table(w).sum("a").log().data, with_entry(np.inf), LOG_WEIGHT, COLUMN
    ),
    "NaN log-weight": Case(lambda w: log_table(w).max("a").log().data, with_entry(np.nan), LOG_WEIGHT, COLUMN),
    "fb.weight of infinity": Case(lambda w: log_weight(w).sum("a").log().data, with_entry(np.inf), LOG_WEIGHT, COLUMN),
    "fb.weight of NaN": Case(lambda w: log_weight(w).sum("a").log().data, with_entry(np.nan), LOG_WEIGHT, COLUMN),
    "x/0": Case(lambda w: (FIXED / table(w)).log().data, with_entry(0.0), ("over zero", "0/0 is 0"), CELL),
    "x/0, summed": Case(lambda w: (FIXED / table(w)).sum("a").log().data, with_entry(0.0), ("over zero",), COLUMN),
    "x/0 of a product": Case(
        lambda w: ((FIXED * FIXED) / (table(w) * FIXED)).log().data, with_entry(0.0), ("over zero",), CELL
    ),
    "1/0": Case(lambda w: (1.0 / table(w)).log().data, POSITIVE * ~CELL, ("1", "over zero"), CELL, POSITIVE),
    "x/0, a number": Case(lambda w: (FIXED / w[1, 0]).log().data, with_entry(0.0), ("over zero",), GOOD > 0),
    "negative power of zero": Case(
        lambda w: (table(w) ** -1.5).log().data, POSITIVE * ~CELL, ("negative power", "zero"), CELL, POSITIVE
    ),
    "negative powers": Case(
        lambda w: (table(w) ** fb.Array(np.array([1.0, -1.0, 2.0]), ("a",))).log().data,
        *(POSITIVE * ~CELL, ("negative power",), CELL, POSITIVE),
    ),
    "normalising zero": Case(lambda w: table(w).normalize().log().data, 0 * GOOD, MASS, EVERYTHING),
    "normalising a zero column": Case(
        lambda w: table(w).normalize("a").log().data, GOOD * ~COLUMN, MASS, np.broadcast_to(COLUMN, (3, 2))
    ),
    "normalising a zero product": Case(
        lambda w: (table(w) * FIXED).normalize().sum("a").log().data, 0 * GOOD, (*MASS, "Table(a"), EVERYTHING
    ),
    "all marginals of zero": Case(
        lambda w: fb.marginals([table(w), FIXED], ("a", "b"))["a"].log().data, 0 * GOOD, MASS, EVERYTHING
    ),
    "one marginal of zero": Case(
        lambda w: fb.marginals([table(w), FIXED], ("a",))["a"].log().data, 0 * GOOD, MASS, EVERYTHING
    ),
    "entropy of zero": Case(lambda w: table(w).entropy("a").data, 0 * GOOD, MASS, EVERYTHING),
    "divergence of zero": Case(lambda w: table(w).kl(FIXED, "a").data, 0 * GOOD, MASS, EVERYTHING),
    "divergence from zero": Case(lambda w: FIXED.kl(table(w), "a").data, 0 * GOOD, MASS, EVERYTHING),
    "information in zero": Case(lambda w: table(w).mutual_information("a", "b").data, 0 * GOOD, MASS, EVERYTHING),
    "index too great": Case(lambda i: FIXED(a=i[1]).log().data, np.array([0, 3, 1]), RANGE, EVERYTHING, INDEX),
    "index below zero": Case(lambda i: FIXED(a=i[1]).log().data, np.array([0, -1, 1]), RANGE, EVERYTHING, INDEX),
    "index of a Value": Case(lambda i: FIXED.log()(a=i[1]).data, np.array([0, -1, 1]), RANGE, EVERYTHING, INDEX),
    "gather": Case(lambda i: FIXED(a=along(i)).log().data, np.array([0, 3, 1]), RANGE, ROW[:, None], INDEX),
    "gather below zero": Case(lambda i: FIXED(a=along(i)).log().data, np.array([0, -1, 1]), RANGE, ROW[:, None], INDEX),
    "gather by typed integers": Case(
        lambda i: FIXED(a=along(i, THREE)).log().data, np.array([0, 3, 1]), OUTSIDE, ROW[:, None], INDEX
    ),
    "gather and sum": Case(
        lambda i: (FIXED * FIXED)(a=along(i)).sum("j").log().data, np.array([0, 3, 1]), RANGE, EVERYTHING, INDEX
    ),
    "gather integers": Case(
        lambda i: fb.Array(COUNTS, ("a",))(a=along(i)).data, np.array([0, 3, 1]), RANGE, ROW, INDEX
    ),
    "gather an event": Case(
        lambda i: fb.Array(GOOD)[along(i)].data, np.array([0, -1, 1]), ("0 to 2",), ROW[:, None], INDEX
    ),
    "typed integers": Case(lambda i: along(i, THREE).data, np.array([0, 3, 1]), OUTSIDE, ROW, INDEX),
    "scatter": Case(
        lambda i: fb.scatter(fb.Array(GOOD[:, 0], ("j",)), k=along(i, THREE)).data,
        *(np.array([0, 3, 1]), OUTSIDE, EVERYTHING, INDEX),
    ),
    "scatter below zero": Case(
        lambda i: fb.scatter(fb.Array(COUNTS, ("j",)), k=along(i, THREE)).data,
        *(np.array([0, -1, 1]), OUTSIDE, EVERYTHING, INDEX),
    ),
    "a point outside": Case(
        lambda i: fb.Delta(a=fb.Array(i[1], (), THREE)).log().data, np.array([0, 3, 1]), OUTSIDE, EVERYTHING, INDEX
    ),
    "a point outside, summed": Case(
        lambda i: fb.Delta(a=fb.Array(i[1], (), THREE)).sum("a").log().data,
        *(np.array([0, 3, 1]), OUTSIDE, EVERYTHING, INDEX),
    ),
    "a point outside, placed": Case(
        lambda i: (FIXED * fb.Delta(a=fb.Array(i[1], (), THREE))).sum("a").log().data,
        *(np.array([0, 3, 1]), OUTSIDE, EVERYTHING, INDEX),
    ),
    "a Variable outside its domain": Case(
        lambda i: (2.0 * NUMBER)(n=along(i)).data, np.array([0, 3, 1]), ("'n'", "0 to 2"), ROW, INDEX
    ),
    "a weight outside its domain": Case(
        lambda i: fb.weight(log=-1.0 * NUMBER)(n=i[1]).log().data,
        *(np.array([0, 3, 1]), ("'n'", "0 to 2"), EVERYTHING, INDEX),
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def complaint(ask: Callable, data: Any) -> str:
    with pytest.raises(DataError) as caught:
        ask(data)
    assert isinstance(caught.value, fb.FubiniError)
    return str(caught.value)


def without_numbers(text: str) -> str:
    """The message less what only numbers can tell: what was found, where, and the value of a closed factor."""
    text = re.sub(r" \(got [^)]*\)|, at (\w+=\d+(, )?)+", "", text)
    return re.sub(r"Table\(\)|\b1 (?=/)|(?<=/ )0\b", "_", text)


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_raises_eagerly(case: Case, array: Callable) -> None:
    text = complaint(case.ask, array(case.bad))
    assert all(word in text for word in case.words) and "expected:" in text, text


def test_checked_raises_the_same(case: Case) -> None:
    """Good data pass through `checked`; bad data raise what they raise eagerly."""
    ask = fb.checked(jax.jit(case.ask))
    np.testing.assert_allclose(ask(jnp.asarray(case.good)), case.ask(case.good), rtol=1e-5, atol=1e-6)
    eager = complaint(case.ask, jnp.asarray(case.bad))
    assert without_numbers(complaint(ask, jnp.asarray(case.bad))) == without_numbers(eager)


def test_traced_is_nan(case: Case) -> None:
    """What bad data spoil is NaN (−1 for integers); every other entry is as right as with good data."""
    ask, right = jax.jit(case.ask), np.asarray(case.ask(case.good))
    np.testing.assert_allclose(ask(jnp.asarray(case.good)), right, rtol=1e-5, atol=1e-6)
    expected = np.where(case.spoiled, -1 if right.dtype.kind == "i" else np.nan, right)
    np.testing.assert_allclose(ask(jnp.asarray(case.bad)), expected, rtol=1e-5, atol=1e-6)
