"""Printed forms of every public class: as stored, short for any size of data, and nothing is compiled for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.questions.draws import Draws
from fubini.show.printed_form import COLUMNS, LINES, Shown, Words
from fubini.terms.numbers import shown_array
from tests.counting import TRACED
from tests.printing.instances import INSTANCES
from tests.printing.large_instances import LARGE
from tests.printing.public_classes import public_classes
from tests.printing.renew import STORED, printed

BASES = (fb.Factor, fb.FubiniError, fb.Joint, fb.Value)  # every instance is one of a subclass
HOSTILE = "<script>alert(1)</script>"
EVERY = {**INSTANCES, **{f"large {name}": make for name, make in LARGE.items()}}


def require_short(text: str) -> None:
    """At most 25 lines of at most 120 characters, and no object that cannot be shown."""
    lines = text.splitlines()
    assert len(lines) <= LINES, f"{len(lines)} lines:\n{text}"
    assert max(map(len, lines)) <= COLUMNS, text
    assert "cannot be shown" not in text and not re.search(r"object at 0x", text), text


@contextmanager
def no_compiling() -> Iterator[None]:
    """Nothing inside is compiled; the outline of a model may be traced, on shapes alone."""
    before = len(TRACED)
    yield
    assert not [event for event in TRACED[before:] if "backend_compile" in event]


@pytest.mark.parametrize("name", INSTANCES)
def test_printed_as_stored(name: str) -> None:
    thing = INSTANCES[name]()
    with no_compiling():
        text = printed(thing)
    require_short(text)
    path = STORED / f"{name}.txt"
    assert path.exists(), "store its text: python -m tests.printing.renew"
    assert text == path.read_text(encoding="utf-8"), "where the new form is better: python -m tests.printing.renew"


@pytest.mark.parametrize("name", LARGE)
def test_large_ones_are_short(name: str) -> None:
    thing = LARGE[name]()
    with no_compiling():
        require_short(repr(thing))
    assert len(f"{thing}" if not isinstance(thing, tuple) else repr(thing)) < 10_000


@pytest.mark.parametrize("name", EVERY)
def test_printed_inside_a_trace(name: str) -> None:
    """A print within a function that is being compiled shows the same text."""
    thing = EVERY[name]()
    eager, traced = printed(thing), []

    def look(number: Any) -> Any:
        traced.append(printed(thing))
        return number

    jax.make_jaxpr(look)(1.0)
    require_short(eager)
    assert traced == [eager]


def test_every_public_class_is_stored() -> None:
    kinds = {type(make()) for make in INSTANCES.values()}
    missing = [
        name
        for name, kind in public_classes().items()
        if kind not in kinds and not (kind in BASES and any(issubclass(other, kind) for other in kinds))
    ]
    assert not missing, f"add an instance of each to tests/printing/instances.py: {', '.join(sorted(missing))}"


# Classes whose instances hold no data of a user's: settings, rules, names, and what is printed of another object.
WITHOUT_DATA = {
    *("Bound", "Rule", "RuleSet", "Op", "Semiring", "Interpretation", "MomentMatching", "MonteCarlo", "Represent"),
    *("Linearize", "Processes"),
    *("Division", "Quotient", "Limits", "Exactness", "DistributionMaker", "FubiniError", "Picture"),
    *("Dense", "Sparse", "Diagram", "Truncated", "Mixture", "Particles", "Grid", "Circuit", "Train"),
}
AS_ANOTHER = {"Bijector", "Joint", "Value", "Factor", "LabelSampler"}  # printed with the parts of a model or a subclass


def test_every_class_that_holds_data_has_a_large_instance() -> None:
    kinds = {type(make()).__name__ for make in LARGE.values()}
    public = {kind.__name__ for kind in public_classes().values()}
    assert not public - kinds - WITHOUT_DATA - AS_ANOTHER, "add an instance to tests/printing/large_instances.py"
    assert not (WITHOUT_DATA | AS_ANOTHER) - public


def test_no_text_is_of_nothing() -> None:
    assert {path.stem for path in STORED.glob("*.txt")} == set(INSTANCES), "python -m tests.printing.renew"


@pytest.mark.parametrize("name", [name for name in EVERY if name != "report"])
def test_shown_in_a_notebook(name: str) -> None:
    """HTML that is well formed: every element is closed, and nothing is written that was not meant as markup."""
    thing = EVERY[name]()
    html = thing._repr_html_() if hasattr(thing, "_repr_html_") else "<div/>"  # shown as text
    assert "cannot be shown" not in html
    ElementTree.fromstring(re.sub(r"&(?!#|amp;|lt;|gt;|quot;)", "&amp;", html))


def test_names_are_escaped() -> None:
    domain = fb.Bint.labelled(HOSTILE, "b")
    table = fb.Table(np.ones(2), {HOSTILE: domain})
    model = fb.JointNamed({HOSTILE: dist.Normal(0.0, 1.0), "x": dist.Normal(0.0, 1.0)})
    things = (
        table,
        fb.Delta({HOSTILE: fb.Array(0, (), domain)}),
        dist.Normal(0.0, 1.0)(HOSTILE),
        dist.Normal(0.0, 1.0)(HOSTILE)._joined(),
        fb.Network({HOSTILE: domain}, (table,), name=HOSTILE).condition({HOSTILE: HOSTILE}),
        model,
        model.condition({HOSTILE: 0.5}),
        model.condition(x=0.5).explain(),
        model.graph(),
        Draws({HOSTILE: np.zeros((2, 5))}),
        fb.explain(table, sum=(HOSTILE,)),
        fb.propagate(table, (HOSTILE,)).marginals,
    )
    for thing in things:
        html = thing._repr_html_()
        assert "<script" not in html and "alert" in html


def test_control_characters_are_escaped() -> None:
    table = fb.Table(np.ones(2), {"red \x1b[31m": fb.Bint.labelled("a\nb", "c")})
    text = repr(table)
    assert "\x1b" not in text and len(text.splitlines()) == 3


def test_under_tracing() -> None:
    """Arrays that are traced print as shapes and names: nothing raises, and no number is made up."""
    texts: list[str] = []

    def look(numbers: Any) -> Any:
        table = fb.Table(numbers, ("a",))
        normal = dist.Normal(numbers[0], 1.0)("x")
        model = fb.JointNamed(dict(m=dist.Normal(numbers[0], 1.0), x=lambda m: dist.Normal(m, 1.0)))
        post = model.condition(x=numbers[1])
        things = (
            *(table, table.log(), fb.Array(numbers), normal, normal._joined(), fb.Delta(x=numbers[0])),
            *(model, post, post.explain(), post.eliminate(), post.marginal("m"), post.posterior(), model.graph()),
            *(fb.deterministic(numbers), fb.param(numbers), fb.propagate(table, ("a",)), fb.WhiteNoise(numbers)),
            *(post.sample_and_log_weight(jax.random.key(0)), model.sample(jax.random.key(0)), table(a=0)),
            *(dist.Normal(numbers, 1.0), fb.simplify(post), table * table, fb.explain(table, sum=("a",))),
        )
        for thing in things:
            texts.append(repr(thing))
            html = getattr(thing, "_repr_html_", str)()
            assert "cannot be shown" not in html
        return numbers

    jax.jit(look)(jnp.array([0.25, 0.75]))
    for text in texts:
        require_short(text)


def test_large_arrays_stay_on_their_device() -> None:
    """Of a large array of JAX only the entries that are shown are fetched: the others are not copied."""

    class Watched:
        shape, dtype, ndim, size = (10**6,), np.dtype(float), 1, 10**6

        def take(self, places: Any, axis: int) -> np.ndarray:
            assert len(places) < 20
            return np.asarray(places, float)

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            raise AssertionError("the whole array was copied")

    assert shown_array(Watched()) == "[0, 1, …, 1e+06, 1e+06]"


def test_nothing_raises() -> None:
    class Broken(Shown):
        def _form(self) -> Any:
            yield Words("first")
            raise ValueError("broken")

    assert repr(Broken()) == "first\n<Broken that cannot be shown: ValueError>"
    assert Broken()._repr_html_() == "<div><div>first</div>&lt;Broken that cannot be shown: ValueError&gt;</div>"


def test_print_shows_all_of_an_explanation() -> None:
    explanation = LARGE["explained_product"]()
    assert "more lines" in repr(explanation) and "more lines" not in str(explanation)
    assert len(str(explanation).splitlines()) > 60


def test_python_on_request() -> None:
    assert "z = yield Normal(" in INSTANCES["measure_simplified"]().source()
    assert "√(3/2)" in repr(INSTANCES["measure_simplified"]())
    assert "def program():" in INSTANCES["simplified_together"]().source()
