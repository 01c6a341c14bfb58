"""Showing the work: explain names order, rule, cost and engine; optimize and evaluate agree with enumeration."""

from collections.abc import Mapping
from itertools import product
from math import prod

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fubini as fb
from fubini.errors import FubiniError, UnknownName
from fubini.terms.composite import Sum
from fubini.terms.factor import Product

RNG = np.random.default_rng(0)
SIZES = {"a": 3, "b": 2, "c": 4, "d": 2}


def table(*names: str) -> fb.Table:
    return fb.Table(RNG.uniform(0.1, 1, [SIZES[name] for name in names]), names)


CHAIN = [table("a", "b"), table("b", "c"), table("c", "d")]


def enumerate_sum(tables: list[tuple], summed: tuple[str, ...], semiring: fb.Semiring) -> tuple[np.ndarray, tuple]:
    """⊕ over all assignments, one at a time; the names that are left, in order of first appearance."""
    names = tuple(dict.fromkeys(name for axes, _ in tables for name in axes))
    kept = tuple(name for name in names if name not in summed)
    result = np.zeros([SIZES[name] for name in kept])
    for cell in product(*(range(SIZES[name]) for name in names)):
        at = dict(zip(names, cell, strict=True))
        weight = prod(weights[tuple(at[name] for name in axes)] for axes, weights in tables)
        target = tuple(at[name] for name in kept)
        result[target] = result[target] + weight if semiring is fb.sum_product else max(result[target], weight)
    return result, kept


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[tuple], tuple[str, ...], fb.Semiring]:
    """Up to four tables with some zeros, and names to sum out."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    tables = []
    for _ in range(draw(st.integers(1, 4))):
        axes = tuple(draw(st.permutations("abcd"))[: draw(st.integers(0, 3))])
        shape = [SIZES[name] for name in axes]
        tables.append((axes, rng.uniform(size=shape) * (rng.uniform(size=shape) < 0.8)))
    names = sorted({name for axes, _ in tables for name in axes})
    summed = tuple(name for name in names if draw(st.booleans()))
    return tables, summed, draw(st.sampled_from([fb.sum_product, fb.max_product]))


@given(questions())
def test_evaluate_and_optimize_equal_enumeration(question: tuple) -> None:
    tables, summed, semiring = question
    with fb.lazy:
        recorded = fb.Table(1.0)
        for axes, weights in tables:
            recorded = recorded * fb.Table(weights, axes)
        recorded = recorded.reduce(semiring, *summed)
    expected, kept = enumerate_sum(tables, summed, semiring)
    planned = fb.optimize(recorded)
    assert set(recorded.inputs) == set(planned.inputs) == set(kept)
    for term in (recorded, planned):
        value = fb.evaluate(term)
        assert value.exactness.is_exact
        logs = fb.evaluate(value.log())
        found = np.exp(np.transpose(logs.data, [list(logs.inputs).index(name) for name in kept if name in logs.inputs]))
        missing = tuple(axis for axis, name in enumerate(kept) if name not in logs.inputs)
        np.testing.assert_allclose(
            np.broadcast_to(np.expand_dims(found, missing), expected.shape), expected, rtol=1e-10
        )


def test_optimize_computes_nothing_and_nests_the_sums() -> None:
    """Every product that the planned form sums is of two operands, and none has all names."""
    with fb.lazy:
        planned = fb.optimize((CHAIN[0] * CHAIN[1] * CHAIN[2]).sum("a", "b", "c", "d"))

    def bodies(term: fb.Factor) -> list[fb.Factor]:
        own = [term.body] if isinstance(term, Sum) else []
        return own + [body for child in term.children for body in bodies(child)]

    found = bodies(planned)
    assert isinstance(planned, Sum)
    assert all(len(body.terms) == 2 for body in found if isinstance(body, Product))
    assert max(len(body.inputs) for body in found) == 2


def test_optimize_inside_other_terms() -> None:
    """A sum is planned wherever it stands."""
    with fb.lazy:
        total = (CHAIN[0] * CHAIN[1] * CHAIN[2]).sum("a", "b", "c", "d")
        terms = [total.log() * 2.0 + 1.0, total * CHAIN[0], CHAIN[0] / total, total**2.0, CHAIN[0].normalize("a")]
    for term in terms:
        mine, theirs = fb.evaluate(fb.optimize(term)), fb.evaluate(term)
        mine, theirs = (v if isinstance(v, fb.Value) else v.log() for v in (mine, theirs))
        np.testing.assert_allclose(mine.data, theirs.data, rtol=1e-12)
    assert fb.optimize(CHAIN[0]) is CHAIN[0]


def test_explain_shows_order_rule_cost_and_exactness() -> None:
    shown = fb.explain(CHAIN, sum=("a", "b", "c", "d"))
    text = str(shown)
    assert sorted(shown.order) == ["a", "b", "c", "d"]
    assert [line for line in text.splitlines() if line.startswith("step")] == [text.splitlines()[1]]
    for column in ("step", "rule", "work", "size", "exactness"):
        assert column in text
    for name in shown.order:
        assert f"Σ_{name} " in text or f"{name}," in text or f",{name}" in text
    assert "sum_product over 'a', 'b', 'c', 'd'" in text
    assert "contract_two_tables" in text
    assert f"{shown.plan.work:,} multiply-adds" in text
    assert repr(shown) == text


def test_explain_counts_the_cost() -> None:
    """The work of a step is the size of the table over everything it touches; its size is that of its result."""
    shown = fb.explain(CHAIN, sum=("a", "b", "c"))
    for line, step in zip(shown.lines, shown.plan.steps, strict=True):
        touched = set().union(*(shown.plan.names[slot] for slot in step.operands))
        assert line.work == prod(SIZES[name] for name in touched)
        assert line.size == prod(SIZES[name] for name in touched - set(step.eliminated))
        assert line.exactness.is_exact
    assert shown.plan.work == sum(line.work for line in shown.lines) < prod(SIZES.values())


def test_explain_names_the_engine() -> None:
    """NumPy and JAX arrays, and a trace in progress, go their own ways."""
    on_jax = [jax.tree.map(jnp.asarray, factor) for factor in CHAIN]
    seen = []
    jax.jit(lambda weights: seen.append(str(fb.explain([fb.Table(weights, ("a",))], ("a",)))))(jnp.ones(3))
    numpy, xla = str(fb.explain(CHAIN, ("a", "b"))), str(fb.explain(on_jax, ("a", "b")))
    assert "NumPy" in numpy and "XLA" not in numpy
    assert "XLA" in xla and "NumPy" not in xla
    assert "trace" in seen[0]
    mixed = str(fb.explain([CHAIN[0], on_jax[1]], ("a", "b")))
    assert "XLA" in mixed


def test_explain_shows_where_variables_live() -> None:
    """A bare name lives in the plates common to the factors that mention it; declared ones where they are told."""
    topic, word = (
        fb.Table(RNG.uniform(size=(4, 2)), ("doc", "z")),
        fb.Table(RNG.uniform(size=(4, 2, 3)), ("doc", "z", "w")),
    )
    text = str(fb.explain([topic, word], ("z", "w"), plates=("doc",)))
    assert "'z' lives in the plates 'doc'" in text and "'w' lives in the plates 'doc'" in text
    assert "multiply_out_table" in text and "Π_doc" in text
    scaled = str(fb.explain([topic], ("z",), plates=("doc",), scale={"doc": 2.5}))
    assert "^2.5" in scaled


def test_explain_a_recorded_sum() -> None:
    """By the names the user wrote, in its own semiring."""
    with fb.lazy:
        recorded = (CHAIN[0] * CHAIN[1]).max("b")
        two = recorded * CHAIN[2].sum("d")
    shown = fb.explain(recorded)
    assert [str(name) for name in shown.order] == ["b"]
    assert str(shown).startswith("max_product over b")
    assert "max_b" in str(shown) and "Σ" not in str(shown)
    with pytest.raises(FubiniError, match="one sum"):
        fb.explain(two)
    with pytest.raises(UnknownName, match="'z'"):
        fb.explain(CHAIN, ("z",))


def test_explain_a_network() -> None:
    """Evidence is taken out; what is hidden is summed."""
    variables: Mapping[str, fb.Domain] = {name: fb.Bint[size] for name, size in SIZES.items()}
    net = fb.Network(variables, tuple(CHAIN), directed=False).condition(b=1)
    assert sorted(fb.explain(net).order) == ["a", "c", "d"]


def test_explain_tells_what_a_projection_does() -> None:
    """Every sum of a projecting interpretation is marked, and the result says the same as the explanation."""
    mine = fb.Interpretation("rounding", base=fb.exact, project=lambda factor, names: factor)
    with mine:
        shown, found = fb.explain(CHAIN, ("a", "b")), fb.eliminate(CHAIN, ("a", "b"))
    assert {repr(line.exactness) for line in shown.lines} == {"projected(rounding)"}
    assert "projected(rounding)" in str(shown)
    assert found.exactness == shown.lines[-1].exactness


def test_explain_names_the_rule_that_will_run() -> None:
    """Also where it is the user's."""
    rules = fb.RuleSet("mine.sum", head=fb.heads.SUM)

    @rules.rule
    def sum_my_way(semiring: fb.Semiring, f: fb.Table, names: tuple) -> fb.Table:
        """Σ_x f"""
        return f.reduced(semiring, names)

    with fb.Interpretation("mine", (rules,), base=fb.exact):
        assert "sum_my_way" in str(fb.explain([CHAIN[0]], ("a",)))
    assert "sum_table" in str(fb.explain([CHAIN[0]], ("a",)))
