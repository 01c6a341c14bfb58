"""Interpretations: nesting, threads, users' own rules and projections, and what compiled functions remember of them."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.interpretations import current
from fubini.errors import DataError, FubiniError, NoRule
from fubini.terms.composite import Sum
from fubini.terms.factor import Product

RNG = np.random.default_rng(0)
F, G = RNG.uniform(0.1, 1, (3, 2)), RNG.uniform(0.1, 1, (2, 4))
f, g = fb.Table(F, ("a", "b")), fb.Table(G, ("b", "c"))
TOTAL, SUM = float((F @ G).sum()), F @ G[:, 0]


def scaling(name: str = "scaling", by: object = 2.0) -> fb.Interpretation:
    """After every sum, times a number that the interpretation carries: easy to tell from exact."""

    def project(factor: fb.Factor, names: tuple) -> fb.Factor:
        return fb.Table.from_log(factor.log().data + jnp.log(current().arrays["by"]), factor.inputs)

    return fb.Interpretation(name, base=fb.exact, project=project, arrays={"by": jnp.asarray(by)})


def log_sum(weights: object) -> object:
    """log Σ_b f(a, b) h(b): one step, so one sum."""
    return fb.eliminate([fb.Table(weights, ("a", "b")), fb.Table(G[:, 0], ("b",))], ("b",)).log().data


def test_exact_is_the_default_and_lazy_records() -> None:
    assert current() is fb.exact
    assert isinstance(f.sum("a"), fb.Table)
    with fb.lazy as entered:
        assert current() is fb.lazy is entered
        assert isinstance(f.sum("a"), Sum)
        assert isinstance(fb.eliminate([f, g], ("b",)), Sum)
    assert isinstance(f * g, Product)


def test_nesting() -> None:
    with fb.lazy:
        with fb.exact:
            assert isinstance(f.sum("a"), fb.Table)
            with fb.lazy:
                assert current() is fb.lazy
            assert current() is fb.exact
        assert isinstance(f.sum("a"), Sum)
    assert current() is fb.exact


def test_an_exception_restores_the_interpretation() -> None:
    mine = scaling()
    with pytest.raises(ZeroDivisionError), fb.lazy, mine:
        raise ZeroDivisionError
    assert current() is fb.exact
    with fb.lazy, pytest.raises(FubiniError), mine:
        f.sum("nothing")
    assert isinstance(f.sum("a"), fb.Table)


def test_a_recorded_question_cannot_be_read() -> None:
    """Arrays are not recorded: the errors say to evaluate first."""
    with fb.lazy:
        recorded = (f * g).sum("b")
        for ask in (lambda: recorded.argmax("a"), lambda: recorded.sample(jax.random.key(0), "a")):
            with pytest.raises(NoRule, match="evaluate"):
                ask()
    closed = fb.evaluate(recorded).sum("a", "c")
    np.testing.assert_allclose(float(closed), TOTAL, rtol=1e-13)


def test_the_numbers_of_a_recorded_logarithm() -> None:
    with fb.lazy:
        recorded = (f * g).sum("a", "b", "c").log()
    with pytest.raises(FubiniError, match="evaluate"):
        _ = recorded.data


def test_an_own_rule_replaces_ours() -> None:
    """It is asked wherever a table is summed: by name, and in every step of a plan."""
    seen = []
    rules = fb.RuleSet("counting.sum", head=fb.heads.SUM)

    @rules.rule
    def count_and_sum(semiring: fb.Semiring, table: fb.Table, names: tuple) -> fb.Table:
        """Σ_x f, remembered"""
        seen.append(names)
        return fb.Table(np.exp(table.log().data).sum(tuple(table.names.index(name) for name in names)), ("b",))

    counting = fb.Interpretation("counting", (rules,), base=fb.exact)
    with counting:
        assert isinstance(f.sum("a"), fb.Table)
        assert seen == [("a",)]
        fb.evaluate(Sum(fb.sum_product, f, ("a",)))
        assert len(seen) == 2
        total = fb.eliminate([f, g], ("a",))
        assert len(seen) == 3
    np.testing.assert_allclose(float(total.sum("b", "c")), TOTAL, rtol=1e-13)
    f.sum("a")
    assert len(seen) == 3


def test_rules_of_the_base_fill_the_rest_and_a_later_registration_is_seen() -> None:
    mine = fb.Interpretation("mine", base=fb.exact)
    with mine:
        np.testing.assert_allclose(float((f * g).sum("a", "b", "c")), TOTAL, rtol=1e-13)
    rules = mine.register(fb.RuleSet("mine.sum", head=fb.heads.SUM))

    @rules.rule
    def sum_to_seven(semiring: fb.Semiring, table: fb.Table, names: tuple) -> fb.Table:
        """Σ_x f  =  7"""
        return fb.Table(7.0)

    with mine:
        assert float(f.sum("a", "b")) == 7.0
    assert float(f.sum("a", "b")) != 7.0


def test_the_projection_follows_every_sum() -> None:
    """With the names that were summed out; a sum by name and a planned one alike."""
    seen: list[tuple] = []

    def project(factor: fb.Factor, names: tuple) -> fb.Factor:
        seen.append(tuple(names))
        return factor

    mine = fb.Interpretation("watching", base=fb.exact, project=project)
    for ask in (lambda: f.sum("a"), lambda: (f * g).sum("a"), lambda: fb.eliminate([f, g], ("a",))):
        seen.clear()
        with mine:
            assert isinstance(fb.evaluate(ask()), fb.Factor)
        assert seen == [("a",)]
    derived = fb.Interpretation("derived", base=mine)
    assert derived.project is mine.project


def test_threads_are_independent() -> None:
    """Two threads, two interpretations, many times over."""
    wrong: list[object] = []
    start = threading.Barrier(3)

    def work(interpretation: fb.Interpretation, kind: type) -> None:
        start.wait()
        for _ in range(300):
            with interpretation:
                if current() is not interpretation or type(f.sum("a")) is not kind:
                    wrong.append(interpretation)

    kinds = [(fb.lazy, Sum), (fb.exact, fb.Table), (fb.Interpretation("third", base=fb.exact), fb.Table)]
    threads = [threading.Thread(target=work, args=pair) for pair in kinds]
    with fb.lazy:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert current() is fb.lazy
    assert not wrong


def test_a_new_thread_starts_exact() -> None:
    found = []
    with fb.lazy:
        thread = threading.Thread(target=lambda: found.append(current()))
        thread.start()
        thread.join()
    assert found == [fb.exact]


def test_jit_does_not_confuse_interpretations() -> None:
    """One compiled function under several interpretations, in any order: never another's answer."""
    traced = []

    @jax.jit
    def question(weights: jax.Array) -> object:
        traced.append(current())
        return (fb.Table(weights, ("a", "b")) * fb.Table(G[:, 0], ("b",))).sum("b")

    twice, thrice = scaling("twice", 2.0), scaling("thrice", 3.0)
    expected = {fb.exact: (fb.Table, 1), twice: (fb.Table, 2), thrice: (fb.Table, 3), fb.lazy: (Sum, 1)}
    for interpretation in (fb.exact, twice, fb.lazy, thrice, fb.exact, fb.lazy, twice):
        with interpretation:
            found = question(F)
        kind, by = expected[interpretation]
        assert type(found) is kind
        np.testing.assert_allclose(fb.evaluate(found).log().data, np.log(by * SUM), rtol=1e-4)
    assert len(traced) == 4


def test_plain_jit_is_right_though_arrays_change() -> None:
    """Their numbers are baked in, and baked anew, even when an array is freed and another takes its place."""
    compiled = jax.jit(log_sum)
    for by in (2.0, 3.0, 5.0, 2.0):
        with scaling(by=by):
            np.testing.assert_allclose(compiled(F), np.log(by * SUM), rtol=1e-4)
    np.testing.assert_allclose(compiled(F), np.log(SUM), rtol=1e-4)


def test_fubini_jit_takes_arrays_as_arguments() -> None:
    """Other arrays of the same shape are not traced again; a gradient flows from them."""
    traced = []

    @fb.jit
    def question(weights: jax.Array) -> jax.Array:
        """What is asked."""
        traced.append(None)
        return log_sum(weights)

    mine = scaling()
    for by in (2.0, 3.0, 5.0):
        with mine.with_arrays({"by": jnp.asarray(by)}):
            np.testing.assert_allclose(question(F), np.log(by * SUM), rtol=1e-4)
    assert len(traced) == 1
    np.testing.assert_allclose(question(F), np.log(SUM), rtol=1e-4)
    assert question.__doc__ == "What is asked."

    def through(by: jax.Array) -> jax.Array:
        with mine.with_arrays({"by": by}):
            return question(F)[0]

    np.testing.assert_allclose(jax.grad(through)(2.0), 0.5, rtol=1e-4)


def test_arrays_of_an_interpretation_inside_two_traces() -> None:
    """A plan compiled inside one trace is not the other's: constants are JAX arrays, the projection reads a tracer."""
    tables = [fb.Table(jnp.asarray(F), ("a", "b")), fb.Table(jnp.asarray(G[:, 0]), ("b",))]

    @fb.jit
    def question(x: jax.Array) -> jax.Array:
        return fb.eliminate(tables, ("b",)).log().data + x[0]

    with scaling():
        for size in (2, 3):
            np.testing.assert_allclose(question(jnp.zeros(size)), np.log(2 * SUM), rtol=1e-4)


def test_checked_raises_what_tracing_would_hide() -> None:
    compiled = jax.jit(log_sum)
    bad = jnp.asarray(F).at[0, 0].set(-1.0)
    assert np.isnan(compiled(bad)).any()
    with pytest.raises(DataError, match="weight"):
        fb.checked(compiled)(bad)
    np.testing.assert_allclose(fb.checked(compiled)(F), np.log(SUM), rtol=1e-4)
    assert np.isnan(compiled(bad)).any()
