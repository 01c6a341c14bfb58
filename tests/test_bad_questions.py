"""Bad data reach every question: spoiled numbers answer none of them, under any transformation; bad keys raise."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DataError

GOOD = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])
BAD = np.array([[0.5, 0.8], [-1.0, 0.0], [0.3, 0.9]])
FIXED = fb.Table(GOOD, ("a", "b"))
KEY = jax.random.key(0)


def table(w: Any) -> fb.Table:
    return fb.Table(w, ("a", "b"))


def eliminated(w: Any, semiring: fb.Semiring) -> Any:
    return fb.eliminate([table(w), FIXED], ("a", "b"), semiring=semiring).log().data


REALS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda w: table(w).sum("a", "b").log().data,
    "max": lambda w: table(w).max("a", "b").log().data,
    "product": lambda w: table(w)(b=0).product("a").log().data,
    "power 0": lambda w: (table(w)(b=0) ** 0).product("a").log().data,
    "times zero": lambda w: (table(w) * fb.Table([0.0, 0.0, 0.0], ("a",))).sum("a", "b").log().data,
    "quotient": lambda w: (FIXED.sum("a", "b") / table(w).sum("a", "b")).log().data,
    "addition": lambda w: (table(w) + FIXED).sum("a", "b").log().data,
    "normalize": lambda w: table(w).normalize().log().data[2, 1],
    "entropy": lambda w: table(w).entropy("a", "b").data,
    "kl": lambda w: table(w).kl(FIXED, "a", "b").data,
    "kl from": lambda w: FIXED.kl(table(w), "a", "b").data,
    "mutual information": lambda w: table(w).mutual_information("a", "b").data,
    "sum_product": lambda w: eliminated(w, fb.sum_product),
    "max_product": lambda w: eliminated(w, fb.max_product),
    "min_sum": lambda w: eliminated(w, fb.min_sum),
    "boolean": lambda w: eliminated(w, fb.boolean),
    "counting": lambda w: eliminated(w, fb.counting),
    "marginals": lambda w: fb.marginals([table(w), FIXED], ("a", "b"))["a"].log().data[2],
}
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "argmax": lambda w: table(w).argmax("a", "b")["a"],
    "argmax for each b": lambda w: table(w).argmax("a")["a"][0],
    "fb.argmax": lambda w: fb.argmax([table(w), FIXED], ("a", "b"))["b"],
    "sample": lambda w: table(w).sample(KEY, "a", "b")["a"],
    "sample for each b": lambda w: table(w).sample(KEY, "a")["a"][0],
    "fb.sample": lambda w: fb.sample(KEY, [table(w), FIXED], ("a", "b"), n=3)["b"],
}
QUESTIONS = {**REALS, **INTEGERS}


@pytest.mark.parametrize("question", QUESTIONS)
def test_traced(question: str) -> None:
    """NaN for numbers, −1 for positions; with good data neither."""
    ask = jax.jit(QUESTIONS[question])
    right, spoiled = np.asarray(ask(jnp.asarray(GOOD))), np.asarray(ask(jnp.asarray(BAD)))
    assert not np.isnan(right).any()
    if question in REALS:
        assert np.isnan(spoiled).all()
    else:
        assert (right >= 0).all() and (spoiled == -1).all()


@pytest.mark.parametrize("question", ["sum", "entropy", "marginals", "sum_product"])
def test_mapped(question: str) -> None:
    """Under vmap only the bad element of the batch is spoiled."""
    ask = REALS[question]
    found = jax.jit(jax.vmap(ask))(jnp.stack([jnp.asarray(GOOD), jnp.asarray(BAD), jnp.asarray(GOOD)]))
    assert np.isnan(found[1])
    np.testing.assert_allclose(found[::2], [ask(GOOD)] * 2, rtol=1e-5)


@pytest.mark.parametrize("question", ["sum", "entropy", "marginals", "sum_product"])
def test_differentiated(question: str) -> None:
    """The value of a spoiled question is NaN under grad too, and its derivative is no plausible number."""
    ask = jax.jit(jax.value_and_grad(REALS[question]))
    value, slope = ask(jnp.asarray(BAD))
    assert np.isnan(value) and np.isnan(slope).any()
    value, slope = ask(jnp.asarray(GOOD))
    assert np.isfinite(value) and np.isfinite(slope).all()


def test_differentiated_eagerly() -> None:
    """Outside jit, grad knows the numbers: the error raises."""
    with pytest.raises(DataError, match="bad weight"):
        jax.grad(REALS["sum"])(jnp.asarray(BAD))


def test_checked_under_other_transformations() -> None:
    ask, batch = REALS["sum"], jnp.stack([jnp.asarray(GOOD), jnp.asarray(BAD)])
    for transformed, data in ((ask, batch[1]), (jax.jit(jax.vmap(ask)), batch), (jax.jit(jax.grad(ask)), batch[1])):
        with pytest.raises(DataError, match="bad weight"):
            fb.checked(transformed)(data)


def test_checked_gives_what_the_function_gives() -> None:
    """Terms come out of `checked` as they do out of jit."""
    found = fb.checked(jax.jit(lambda w: table(w).sum("a")))(jnp.asarray(GOOD))
    assert isinstance(found, fb.Table) and found.inputs == {"b": fb.Bint[2]}
    np.testing.assert_allclose(np.exp(found.log().data), GOOD.sum(0), rtol=1e-6)


KNOWN: dict[str, Callable[[Any], Any]] = {
    "too great": lambda w: table(w)(a=3),
    "below zero": lambda w: table(w)(a=-1),
    "NumPy": lambda w: table(w)(a=np.int64(7)),
    "an Array": lambda w: table(w)(a=fb.Array(np.array([0, 3]), ("j",))),
    "a Value": lambda w: table(w).log()(a=-1),
    "an event": lambda w: fb.Array(w)[3],
    "a Delta": lambda w: fb.Delta(a=fb.Array(1, (), fb.Bint[3]))(a=3),
    "a Variable": lambda w: (2.0 * fb.Variable("a", fb.Bint[3]))(a=3),
}


@pytest.mark.parametrize("case", KNOWN)
@pytest.mark.parametrize("transform", [lambda ask: ask, jax.jit, jax.grad], ids=["eager", "jit", "grad"])
def test_known_index_raises_while_tracing(case: str, transform: Callable) -> None:
    """An index that is a constant raises even where the weights are traced; it neither clamps nor wraps."""
    ask = transform(lambda w: (KNOWN[case](w), jnp.sum(w))[1])
    with pytest.raises(DataError, match="0 to 2"):
        ask(jnp.asarray(GOOD))


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
def test_draw_from_nothing(array: Callable) -> None:
    """A factor without mass has no draws, whole or in one cell of the other inputs."""
    for zeros, names in ((0 * GOOD, ("a", "b")), (GOOD * [1, 0], ("a",))):
        with pytest.raises(DataError, match="zero"):
            table(array(zeros)).sample(KEY, *names, n=4)
        with pytest.raises(DataError, match="zero"):
            fb.sample(KEY, [table(array(zeros)), FIXED], names)


def test_draw_from_nothing_traced() -> None:
    """−1 in the cells without mass, draws in the others; `checked` raises."""

    def ask(w: Any) -> Any:
        return table(w).sample(KEY, "a", n=4)["a"]

    found = np.asarray(jax.jit(ask)(jnp.asarray(GOOD * [1, 0])))
    assert found.shape == (4, 2) and (found[:, 1] == -1).all() and (found[:, 0] >= 0).all()
    with pytest.raises(DataError, match="zero"):
        fb.checked(jax.jit(ask))(jnp.asarray(GOOD * [1, 0]))


KEYS = {
    "an integer": 0,
    "a word": "key",
    "None": None,
    "floats": np.array([1.0, 2.0]),
    "several keys": jax.random.split(KEY, 3),
}


@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize("array", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("transform", [lambda ask: ask, jax.jit], ids=["eager", "jit"])
def test_bad_key(case: str, array: Callable, transform: Callable) -> None:
    weights = array(GOOD)
    for draw in (
        lambda w: table(w).sample(KEYS[case], "a"),
        lambda w: fb.sample(KEYS[case], [table(w), FIXED], ("a", "b"), n=2),
    ):
        with pytest.raises(fb.FubiniError, match=r"(?s)key.*jax\.random\.key\(0\)"):
            transform(draw)(weights)


@pytest.mark.parametrize("n", [-1, 1.5, "three"])
def test_bad_number_of_draws(n: Any) -> None:
    for draw in (lambda: FIXED.sample(KEY, "a", n=n), lambda: fb.sample(KEY, [FIXED], ("a",), n=n)):
        with pytest.raises(fb.FubiniError):
            draw()


def test_label_outside_the_domain() -> None:
    with pytest.raises(DataError, match=r"(?s)'yess'.*one of 'no', 'yes'.*nearest: +'yes'"):
        fb.Bint.labelled("no", "yes").index("yess")
    with pytest.raises(DataError, match=r"(?s)'yes'.*no labels"):
        fb.Bint[2].index("yes")
