"""What is kept between questions: plans by structure, compiled functions by plan and structure. Traces are counted."""

import threading
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.interpretations import current
from fubini.eliminate.plan import PLANS
from fubini.terms.composite import Sum
from tests.counting import TRACED, no_tracing


def weights(seed: int, smallest: int = 2) -> list[np.ndarray]:
    """A chain of tables of unequal sizes."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.1, 1, (smallest + i, smallest + i + 1)) for i in range(3)]


def chain(seed: int, engine: Callable = jnp.asarray, smallest: int = 2) -> list[fb.Table]:
    return [fb.Table(engine(w), (f"x{i}", f"x{i + 1}")) for i, w in enumerate(weights(seed, smallest))]


def joint(seed: int) -> np.ndarray:
    return np.einsum("ab,bc,cd->abcd", *weights(seed))


NAMES = ("x0", "x1", "x2", "x3")


def check_sum(factors: list[fb.Table], seed: int) -> None:
    found = fb.eliminate(factors, NAMES[1:])
    assert isinstance(found, fb.Table) and isinstance(found.weights, jax.Array)
    np.testing.assert_allclose(np.exp(found.log().data), joint(seed).sum((1, 2, 3)), rtol=1e-4)


def check_max(factors: list[fb.Table], seed: int) -> None:
    found = fb.eliminate(factors, NAMES, semiring=fb.max_product)
    np.testing.assert_allclose(np.exp(found.log().data), joint(seed).max(), rtol=1e-4)


def check_marginals(factors: list[fb.Table], seed: int) -> None:
    found = fb.marginals(factors, NAMES)
    for axis, name in enumerate(NAMES):
        expected = joint(seed).sum(tuple(other for other in range(4) if other != axis))
        np.testing.assert_allclose(np.exp(found[name].log().data), expected / expected.sum(), rtol=1e-4)


def check_argmax(factors: list[fb.Table], seed: int) -> None:
    found = fb.argmax(factors, NAMES)
    at = np.unravel_index(joint(seed).argmax(), joint(seed).shape)
    assert tuple(int(found[name]) for name in NAMES) == tuple(map(int, at))


KEYS = jax.random.split(jax.random.key(0), 4)
KEYS = [KEYS[position] for position in range(4)]


def check_sample(factors: list[fb.Table], seed: int) -> None:
    """With a key of its own each time."""
    found = fb.sample(KEYS[seed % 4], factors, NAMES, n=50)
    for axis, name in enumerate(NAMES):
        assert found[name].shape == (50,)
        assert 0 <= int(np.min(found[name])) <= int(np.max(found[name])) < joint(seed).shape[axis]


QUESTIONS = [check_sum, check_max, check_marginals, check_argmax, check_sample]
every_question = pytest.mark.parametrize("check", QUESTIONS, ids=lambda check: check.__name__)


def test_the_counter_counts() -> None:
    before = len(TRACED)
    jax.jit(lambda x: x * 3 + 1)(jnp.ones(7))
    assert len(TRACED) > before
    with pytest.raises(AssertionError), no_tracing():
        jax.jit(lambda x: x * 5 - 1)(jnp.ones(7))


@every_question
def test_a_question_of_the_same_structure_traces_nothing(check: Callable) -> None:
    """Other numbers, other factor objects, and for a sample another key."""
    first, second, third = chain(1), chain(2), chain(3)
    check(first, 1)
    with no_tracing():
        check(second, 2)
        check(third, 3)


def test_all_marginals_are_a_handful_of_compiled_functions() -> None:
    """Not one for each little operation on each shape: a network has many shapes."""
    factors = chain(1, smallest=5)
    before = len(TRACED)
    fb.marginals(factors, NAMES)
    compiled = [event for event in TRACED[before:] if "backend_compile" in event]
    assert 1 <= len(compiled) <= 8


@every_question
def test_plans_are_found_again(check: Callable) -> None:
    check(chain(1), 1)
    before = PLANS.misses
    check(chain(2), 2)
    assert PLANS.misses == before


def test_another_structure_gets_its_own_plan_and_trace() -> None:
    check_sum(chain(1), 1)
    before = PLANS.misses, len(TRACED)
    fb.eliminate(chain(1)[:2], NAMES[1:3])
    after = PLANS.misses, len(TRACED)
    assert after[0] > before[0] and after[1] > before[1]


def test_recorded_sums_alike_up_to_bound_names_trace_once() -> None:
    """The same sum recorded twice, with other numbers and other bound names, is planned and compiled once."""

    def recorded(seed: int, name: str) -> fb.Factor:
        f, g, _ = chain(seed)
        with fb.lazy:
            return (f(x1=name) * g(x1=name)).sum(name)

    first, second, third = recorded(1, "x1"), recorded(2, "x1"), recorded(3, "y")
    assert first.structure == third.structure
    fb.evaluate(first)
    misses = PLANS.misses
    with no_tracing():
        found = [fb.evaluate(term) for term in (second, third)]
    assert PLANS.misses == misses
    for seed, factor in zip((2, 3), found, strict=True):
        np.testing.assert_allclose(np.exp(factor.log().data), joint_pair(seed), rtol=1e-4)


def joint_pair(seed: int) -> np.ndarray:
    return np.einsum("ab,bc->ac", *weights(seed)[:2])


def test_a_users_function_is_traced_once() -> None:
    """`jax.jit` around a whole question, terms in and out."""
    traced = []

    @jax.jit
    def posterior(factors: list[fb.Table]) -> dict:
        traced.append(None)
        return fb.marginals(factors, NAMES[:2])

    for seed in (1, 2, 3):
        found = posterior(chain(seed))
        expected = joint(seed).sum((2, 3))
        np.testing.assert_allclose(np.exp(found["x1"].log().data), expected.sum(0) / expected.sum(), rtol=1e-4)
    assert len(traced) == 1


def test_a_lifted_function_is_not_called_again() -> None:
    """Counted by a side effect: a compiled question does not run the Python it was made of."""
    called = []

    def energy(x: jax.Array) -> jax.Array:
        called.append(None)
        return -x * x

    states = np.linspace(-1.0, 1.0, 5)

    def terms(shift: float) -> list[fb.Factor]:
        numbers = fb.Array(jnp.asarray(states + shift, dtype=jnp.float32), ("s",))
        with fb.lazy:
            return [fb.weight(log=fb.lift(energy)(numbers)), fb.Table(jnp.ones(5), ("s",))]

    first, second = terms(0.0), terms(0.5)
    fb.eliminate(first, ("s",))
    called.clear()
    with no_tracing():
        found = fb.eliminate(second, ("s",))
    assert not called
    np.testing.assert_allclose(float(found), np.exp(-((states + 0.5) ** 2)).sum(), rtol=1e-5)


def test_interpretations_share_plans_but_not_compiled_functions() -> None:
    """Back under the first interpretation, what was compiled there is found again."""

    def double(factor: fb.Factor, names: tuple) -> fb.Factor:
        return fb.Table.from_log(factor.log().data + jnp.log(2.0), factor.inputs)

    doubling, factors = fb.Interpretation("doubling", base=fb.exact, project=double), chain(1)[:2]
    found = {}
    for interpretation in (fb.exact, doubling):
        with interpretation:
            found[interpretation] = fb.eliminate(factors, ("x1",)).log().data
    np.testing.assert_allclose(found[doubling] - found[fb.exact], np.log(2.0), rtol=1e-3)
    for interpretation in (fb.exact, doubling):
        with interpretation, no_tracing():
            again = fb.eliminate(factors, ("x1",)).log().data
        np.testing.assert_array_equal(again, found[interpretation])


@pytest.mark.parametrize("engine", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_threads_ask_at_once(engine: Callable) -> None:
    """Many threads, one structure, different numbers, also recorded: every answer is its own."""
    wrong: list[object] = []
    start = threading.Barrier(4)
    problems = [(seed, chain(seed, engine), joint(seed)) for seed in range(4)]

    def work(seed: int, factors: list[fb.Table], expected: np.ndarray) -> None:
        start.wait()
        for _ in range(10):
            with fb.lazy:
                recorded = (factors[0] * factors[1] * factors[2]).sum(*NAMES)
                wrong.extend([] if current() is fb.lazy and isinstance(recorded, Sum) else [recorded])
            found = [fb.eliminate(factors, NAMES), fb.eliminate(factors[::-1], NAMES)]
            totals = [float(factor) for factor in found]
            wrong.extend(total for total in totals if not np.isclose(total, expected.sum(), rtol=1e-4))
            at = fb.argmax(factors, NAMES)
            best = expected[tuple(int(at[name]) for name in NAMES)]
            wrong.extend([] if best == expected.max() else [at])

    threads = [threading.Thread(target=work, args=problem) for problem in problems]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
