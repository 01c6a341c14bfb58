"""Bad structure raises a typed error that says what was asked and expected, in every engine and transformation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DomainError, NameClash, NoRule, UnknownName

WEIGHTS = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])
KEY = jax.random.key(0)
REAL = fb.Variable("x", fb.Real)

Ask = Callable[..., object]


def after(ask: Ask) -> Callable:
    """A function that JAX can transform, which asks first."""
    return lambda w: (ask(w), jnp.sum(w))[1]


ENGINES: dict[str, Callable[[Ask], object]] = {
    "numpy": lambda ask: ask(WEIGHTS),
    "jax": lambda ask: ask(jnp.asarray(WEIGHTS)),
    "jit": lambda ask: jax.jit(after(ask))(jnp.asarray(WEIGHTS)),
    "vmap": lambda ask: jax.vmap(after(ask))(jnp.stack([jnp.asarray(WEIGHTS)] * 2)),
    "grad": lambda ask: jax.grad(after(ask))(jnp.asarray(WEIGHTS)),
}


@pytest.fixture(params=ENGINES)
def attempt(request: pytest.FixtureRequest) -> Callable[[Ask], object]:
    return ENGINES[request.param]


def complaint(attempt: Callable, ask: Ask, kind: type[Exception]) -> dict[str, str]:
    """The parts of the error: asked, expected, nearest, to do."""
    with pytest.raises(kind) as caught:
        attempt(ask)
    assert isinstance(caught.value, fb.FubiniError)
    asked, *lines = str(caught.value).split("\n")
    parts = {label.strip(): text.strip() for label, text in (line.split(":", 1) for line in lines)}
    assert parts.get("expected"), "an error says what was expected"
    return {"asked": asked, "nearest": "", "to do": "", **parts}


def table(w: object) -> fb.Table:
    return fb.Table(w, ("alpha", "b"))


UNKNOWN: dict[str, tuple[Ask, str]] = {
    "call": (lambda w: table(w)(alhpa=0), "a call"),
    "call of a product": (lambda w: (table(w) * 2.0)(alhpa=0), "a call"),
    "call of a Value": (lambda w: table(w).log()(alhpa=0), "a call"),
    "sum": (lambda w: table(w).sum("alhpa"), "sum"),
    "sum of a product": (lambda w: (table(w) * table(w)).sum("alhpa"), "sum"),
    "max": (lambda w: table(w).max("alhpa"), "max"),
    "product": (lambda w: table(w).product("alhpa"), "product"),
    "normalize": (lambda w: table(w).normalize("alhpa"), "normali"),
    "argmax": (lambda w: table(w).argmax("alhpa"), "argmax"),
    "sample": (lambda w: table(w).sample(KEY, "alhpa"), "sample"),
    "entropy": (lambda w: table(w).entropy("alhpa"), "entropy"),
    "kl": (lambda w: table(w).kl(table(w), "alhpa"), "kl"),
    "mutual information": (lambda w: table(w).mutual_information("alhpa", "b"), "mutual information"),
    "fb.eliminate": (lambda w: fb.eliminate([table(w)], ("alhpa",)), "sum"),
    "fb.eliminate, a plate": (lambda w: fb.eliminate([table(w)], ("b",), plates=("alhpa",)), "plate"),
    "fb.marginals": (lambda w: fb.marginals([table(w)], ("alhpa",)), "marginal"),
    "fb.marginals, the batch": (lambda w: fb.marginals([table(w)], ("b",), batch=("alhpa",)), "batch"),
    "fb.argmax": (lambda w: fb.argmax([table(w)], ("alhpa",)), "argmax"),
    "fb.sample": (lambda w: fb.sample(KEY, [table(w)], ("alhpa",)), "sample"),
    "fb.stack": (lambda w: fb.stack(fb.Array(w, ("alpha", "b")), "alhpa"), "index"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown_name(attempt: Callable, case: str) -> None:
    """The operation, the name, the names there are, and the near miss."""
    ask, operation = UNKNOWN[case]
    parts = complaint(attempt, ask, UnknownName)
    assert operation in parts["asked"] and "'alhpa'" in parts["asked"]
    assert "'alpha', 'b'" in parts["expected"]
    assert parts["nearest"] == "'alpha'"
    assert parts["to do"]


def test_no_near_miss_is_none(attempt: Callable) -> None:
    """A name like no other has no nearest."""
    assert complaint(attempt, lambda w: table(w).sum("zzz"), UnknownName)["nearest"] == ""


def test_lazy_is_typed_at_once(attempt: Callable) -> None:
    def ask(w: object) -> fb.Factor:
        with fb.lazy:
            return table(w).sum("alhpa")

    assert complaint(attempt, ask, UnknownName)["nearest"] == "'alpha'"


TWO_SIZES: dict[str, Ask] = {
    "multiply": lambda w: table(w) * table(w.T),
    "divide": lambda w: table(w) / table(w.T),
    "add": lambda w: table(w) + table(w.T),
    "kl": lambda w: table(w).kl(table(w.T), "alpha"),
    "eliminate": lambda w: fb.eliminate([table(w), table(w.T)], ("alpha",)),
    "marginals": lambda w: fb.marginals([table(w), table(w.T)], ("alpha",)),
    "add Values": lambda w: table(w).log() + fb.Array(w.T, ("alpha", "b")),
    "sum over a Variable": lambda w: table(w).sum(fb.Variable("alpha", fb.Bint[2])),
    "rename onto another name": lambda w: table(w)(b="alpha"),
}


@pytest.mark.parametrize("case", TWO_SIZES)
def test_one_name_with_two_sizes(attempt: Callable, case: str) -> None:
    parts = complaint(attempt, TWO_SIZES[case], DomainError)
    assert "'alpha'" in parts["asked"] and "Bint[3]" in parts["asked"] and "Bint[2]" in parts["asked"]
    assert "rename" in parts["to do"]


def test_one_name_with_two_lists_of_labels(attempt: Callable) -> None:
    weather, answer = fb.Bint.labelled("dry", "wet"), fb.Bint.labelled("no", "yes")
    parts = complaint(attempt, lambda w: fb.Table(w[0], {"b": weather}) * fb.Table(w[1], {"b": answer}), DomainError)
    assert all(word in parts["asked"] for word in ("'b'", "'dry', 'wet'", "'no', 'yes'"))
    assert "rename" in parts["to do"]


FLOATS: dict[str, Ask] = {
    "Python": lambda w: 1.0,
    "NumPy": lambda w: np.float64(1.0),
    "NumPy single": lambda w: np.float32(1.0),
    "JAX": lambda w: jnp.asarray(1.0),
    "an element": lambda w: w[0, 0],
    "Array": lambda w: fb.Array(w[:, 0], ("j",)),
    "Variable": lambda w: REAL,
    "expression": lambda w: 2 * REAL + 1,
}


@pytest.mark.parametrize("case", FLOATS)
@pytest.mark.parametrize("kind", ["Factor", "Value"])
def test_float_index(attempt: Callable, case: str, kind: str) -> None:
    """A float is no index of a bounded integer, even where it is whole."""

    def ask(w: object) -> object:
        indexed = table(w) if kind == "Factor" else fb.Array(w, ("alpha", "b"))
        return indexed(alpha=FLOATS[case](w))

    parts = complaint(attempt, ask, DomainError)
    assert "alpha=" in parts["asked"] and "Real" in parts["asked"]
    assert "Bint[3]" in parts["expected"] and "integer" in parts["to do"]


MISFITS: dict[str, tuple[Ask, type[Exception], str, str]] = {
    "too few names": (lambda w: fb.Table(w, ("a",)), DomainError, "(3, 2)", "2 names"),
    "too many names": (lambda w: fb.Table(w, ("a", "b", "c")), DomainError, "(3, 2)", "2 names"),
    "log-weights": (lambda w: fb.Table.from_log(w, ("a",)), DomainError, "(3, 2)", "2 names"),
    "an Array": (lambda w: fb.Array(w, ("a", "b", "c")), DomainError, "(3, 2)", "3"),
    "an extent": (lambda w: fb.Table(w, {"a": fb.Bint[2], "b": fb.Bint[2]}), DomainError, "'a'", "Bint[3]"),
    "a real axis": (lambda w: fb.Table(w, {"a": fb.Real, "b": fb.Bint[2]}), DomainError, "Real", "Bint[3]"),
    "equal names": (lambda w: fb.Table(w, ("a", "a")), NameClash, "'a', 'a'", "different"),
    "equal names of an Array": (lambda w: fb.Array(w, ("a", "a")), NameClash, "'a', 'a'", "different"),
    "integers as an unnamed vector": (lambda w: table(w)(alpha=np.arange(2)), DomainError, "alpha", "Bint[3]"),
    "None as an index": (lambda w: table(w)(alpha=None), DomainError, "None", "number"),
    "a Variable of another size": (
        lambda w: table(w)(alpha=fb.Variable("c", fb.Bint[5])),
        *(DomainError, "Bint[5]", "Bint[3]"),
    ),
    "floats as integers": (lambda w: fb.Array(w, ("a", "b"), fb.Bint[2]), DomainError, "float", "integer"),
    "complex weights": (lambda w: fb.Table(w * 1j, ("a", "b")), fb.FubiniError, "complex", "number"),
    "words as weights": (lambda w: fb.Table([["a"]], ("a", "b")), fb.FubiniError, "<U1", "number"),
    "words as a Value": (lambda w: fb.Array(np.array(["a", "b"]), ("i",)), fb.FubiniError, "<U1", "number"),
    "ragged weights": (lambda w: fb.Table([[1.0], [1.0, 2.0]], ("a", "b")), fb.FubiniError, "", "number"),
    "too many indices": (lambda w: fb.Array(w)[0, 0, 0], DomainError, "3 indices", "2"),
    "an array for a log-weight": (lambda w: fb.weight(log=fb.Array(w)), DomainError, "Reals[3, 2]", "real"),
    "a vector power": (lambda w: table(w) ** fb.Array(w), DomainError, "Reals[3, 2]", "number"),
    "a power of a word": (lambda w: table(w) ** "x", fb.FubiniError, "'x'", "number"),
    "the numbers of what is recorded": (lambda w: float(recorded(w)), NoRule, "Σ", "computed"),
}


def recorded(w: object) -> fb.Factor:
    with fb.lazy:
        return table(w).sum("alpha", "b")


@pytest.mark.parametrize("case", MISFITS)
def test_misfit(attempt: Callable, case: str) -> None:
    ask, kind, asked, expected = MISFITS[case]
    parts = complaint(attempt, ask, kind)
    assert asked in parts["asked"] and expected in parts["expected"]


STRINGS: dict[str, Ask] = {
    "Table": lambda w: fb.Table(w, "ab"),
    "Table of one axis": lambda w: fb.Table(w[0], "b"),
    "from_log": lambda w: fb.Table.from_log(w, "ab"),
    "Array": lambda w: fb.Array(w, "ab"),
    "eliminate": lambda w: fb.eliminate([table(w)], "b"),
    "plates": lambda w: fb.eliminate([table(w)], ("alpha",), plates="b"),
    "marginals": lambda w: fb.marginals([table(w)], "b"),
    "batch": lambda w: fb.marginals([table(w)], ("alpha",), batch="b"),
    "argmax": lambda w: fb.argmax([table(w)], "b"),
    "sample": lambda w: fb.sample(KEY, [table(w)], "b"),
}


@pytest.mark.parametrize("case", STRINGS)
def test_string_for_a_tuple_of_names(attempt: Callable, case: str) -> None:
    """A string is a sequence of letters; what was meant is written out."""
    parts = complaint(attempt, STRINGS[case], DomainError)
    assert "tuple" in parts["expected"]
    assert "('b',)" in parts["to do"] or "('ab',)" in parts["to do"]


def test_label_for_a_name(attempt: Callable) -> None:
    answer = fb.Bint.labelled("no", "yes")
    parts = complaint(attempt, lambda w: fb.Table(w[0], {"b": answer})(b="yes"), NameClash)
    assert "'yes' is a label of 'b'" in parts["asked"] and "b=1" in parts["to do"]
