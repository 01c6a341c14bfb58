"""Compiled loops against the rules: the same plans, the same numbers, and the rules where loops do not serve."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fubini as fb
from fubini.eliminate.flat_plans import compiled_plan
from fubini.eliminate.plates import Problem, make_plan
from fubini.errors import DataError, DomainError, EngineError, MemoryLimit

NAMES = "abcdefgh"


def random_tables(seed: int, zeros: float = 0.2, spread: float = 0.0, dtype=np.float64) -> list[fb.Table]:
    """Up to eight tables over at most three of eight variables of one to four values; weights `spread` nats apart."""
    random = np.random.default_rng(seed)
    sizes = {name: int(random.integers(1, 5)) for name in NAMES}
    tables = []
    for _ in range(int(random.integers(1, 9))):
        scope = random.permutation(list(NAMES))[: int(random.integers(0, 4))].tolist()
        weights = random.random([sizes[name] for name in scope]) * (random.random([sizes[n] for n in scope]) >= zeros)
        logs = np.log(weights, out=np.full(weights.shape, -np.inf), where=weights > 0)
        logs = logs + spread * random.normal(size=logs.shape)
        tables.append(
            fb.Table.from_log(logs.astype(dtype), tuple(scope))
            if spread
            else fb.Table(weights.astype(dtype), tuple(scope))
        )
    return tables


def names_of(tables: list[fb.Table]) -> list[str]:
    return list(dict.fromkeys(name for table in tables for name in table.inputs))


def both(ask):
    """An answer or an error by either engine."""
    found = []
    for engine in ("rules", "flat"):
        with fb.engine(engine):
            try:
                found.append(ask())
            except (DataError, MemoryLimit) as error:
                found.append(type(error))
    return found


def assert_same(ours, theirs, tolerance=1e-12) -> None:
    if isinstance(theirs, type):
        assert ours is theirs
        return
    one, two = ours.log(), theirs.log()
    names = tuple(theirs.inputs)
    assert set(ours.inputs) == set(names)
    assert ours.exactness == theirs.exactness
    left, right = (np.asarray(v.array if hasattr(v, "array") else v, float) for v in (one, two))
    if names:
        left = np.transpose(left, [list(ours.inputs).index(name) for name in names])
    np.testing.assert_allclose(left, right, rtol=tolerance, atol=tolerance)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 3.0, 300.0]), st.data())
def test_eliminations_are_those_of_the_rules(seed, spread, data) -> None:
    tables = random_tables(seed, spread=spread)
    summed = [name for name in names_of(tables) if data.draw(st.booleans())]
    for semiring in (fb.sum_product, fb.max_product):
        theirs, ours = both(lambda semiring=semiring: fb.eliminate(tables, summed, semiring=semiring))
        assert_same(ours, theirs)


@given(st.integers(0, 10_000), st.sampled_from([0.0, 3.0, 300.0]), st.data())
def test_marginals_are_those_of_the_rules(seed, spread, data) -> None:
    tables = random_tables(seed, zeros=0.1, spread=spread)
    names = names_of(tables)
    batch = [name for name in names if data.draw(st.integers(0, 3)) == 0]
    wanted = [name for name in names if name not in batch]
    if len(wanted) < 2:
        return
    theirs, ours = both(lambda: fb.marginals(tables, wanted, batch=batch))
    if isinstance(theirs, type):
        assert ours is theirs
        return
    for name in wanted:
        assert_same(ours[name], theirs[name])


@given(st.integers(0, 10_000), st.sampled_from([0.0, 3.0]))
def test_choices_are_those_of_the_rules(seed, spread) -> None:
    tables = random_tables(seed, zeros=0.1, spread=spread)
    names = names_of(tables)
    if not names:
        return
    theirs, ours = both(lambda: fb.argmax(tables, names))
    assert ours == theirs
    theirs, ours = both(lambda: fb.sample(jax.random.key(seed), tables, names, n=20))
    if isinstance(theirs, type):
        assert ours is theirs
        return
    for name in names:
        np.testing.assert_array_equal(ours[name], theirs[name])


@given(st.integers(0, 10_000))
def test_single_precision_stays(seed) -> None:
    tables = random_tables(seed, dtype=np.float32)
    if not names_of(tables):
        return
    theirs, ours = both(lambda: fb.eliminate(tables, names_of(tables)))
    assert_same(ours, theirs, 1e-5)
    assert ours.pair.weights.dtype == theirs.pair.weights.dtype


@given(st.integers(0, 10_000), st.data())
def test_plans_are_those_of_the_planner_in_python(seed, data) -> None:
    random = np.random.default_rng(seed)
    names = [f"x{k}" for k in range(int(random.integers(1, 40)))]
    sizes = {name: int(random.integers(1, 30)) for name in names}
    scopes = [
        tuple(random.permutation(names)[: int(random.integers(0, 5))].tolist())
        for _ in range(int(random.integers(1, 60)))
    ]
    present = {name for scope in scopes for name in scope}
    summed = tuple((name, None) for name in names if name in present and data.draw(st.integers(0, 4)))
    shown = tuple((name, size) for name, size in sizes.items() if name in present)
    problem = Problem(tuple(scopes), shown, summed)
    theirs, ours = make_plan(problem), compiled_plan(problem)
    if ours is None:
        assert theirs.work >= 2**53
        return
    for one, two in zip(ours.steps, theirs.steps, strict=True):
        assert (set(one.operands), one.eliminated, one.keep) == (set(two.operands), two.eliminated, two.keep)
        assert (one.work, one.size) == (two.work, two.size)
    assert ours.results == theirs.results


def chain(length: int, random: np.random.Generator) -> list[fb.Table]:
    """A chain whose evidence is far below the least double."""
    weights = random.random((length, 2, 2)) * 1e-40
    return [fb.Table(weights[k], (f"x{k}", f"x{k + 1}")) for k in range(length)]


def test_evidence_far_below_the_least_number() -> None:
    tables = chain(500, np.random.default_rng(0))
    theirs, ours = both(lambda: fb.eliminate(tables, names_of(tables)))
    assert float(theirs.log()) < -40_000
    assert float(ours.log()) == pytest.approx(float(theirs.log()), rel=1e-13)
    theirs, ours = both(lambda: fb.marginals(tables, names_of(tables)))
    for name, belief in theirs.items():
        np.testing.assert_allclose(ours[name].weights, belief.weights, rtol=1e-11)


def test_large_products_are_matrices() -> None:
    random = np.random.default_rng(1)
    sizes = {"a": 40, "b": 50, "c": 60, "s": 3}
    scopes = [("a", "b", "s"), ("b", "c", "s"), ("c", "a")]
    tables = [fb.Table(random.random([sizes[name] for name in scope]), scope) for scope in scopes]
    theirs, ours = both(lambda: fb.marginals(tables, tuple("abcs")))
    for name, belief in theirs.items():
        np.testing.assert_allclose(ours[name].weights, belief.weights, rtol=1e-12)


# -- networks ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network() -> fb.Network:
    return fb.io.read_bif(os.path.join(os.path.dirname(fb.io.__file__), "commute.bif"))


def test_networks_answer_alike(network) -> None:
    evidence = {network.hidden[0]: 0, network.hidden[-1]: 0}
    seen = network.condition({name: network.variables[name].label(at) for name, at in evidence.items()})
    theirs, ours = both(seen.marginals)
    assert list(ours) == list(theirs)
    for name, belief in theirs.items():
        np.testing.assert_allclose(ours[name].weights, belief.weights, rtol=1e-13)
    theirs, ours = both(seen.log_evidence)
    assert float(ours) == pytest.approx(float(theirs), rel=1e-13)


def test_many_cases_are_one_after_another(network) -> None:
    names = list(network.variables)
    draws = network.sample(jax.random.key(0), 150)
    columns = {name: draws[name].astype(object) for name in names[:2]}
    columns[names[0]][3:9] = None  # cells that are missing
    many = network.condition_many(columns)
    found, logs = many.marginals(), many.log_evidence()
    for row in (0, 3, 70, 149):
        seen = {name: column[row] for name, column in columns.items() if column[row] is not None}
        one = network.condition(seen)
        assert logs[row] == pytest.approx(float(one.log_evidence()), rel=1e-12, abs=1e-12)
        for name, belief in one.marginals().items():
            np.testing.assert_allclose(found[name][row], belief.weights, rtol=1e-12, atol=1e-15)
    assert found[names[0]].shape == (150, network.variables[names[0]].extent)


def test_cases_far_apart_are_answered_one_by_one() -> None:
    low = fb.Table.from_log(np.array([0.0, -600.0]), ("a",))
    net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (low, low * fb.Table(np.ones((2, 2)), ("a", "b"))))
    many = net.condition_many({"a": [0, 1]})
    np.testing.assert_allclose(many.log_evidence(), [np.log(2.0), np.log(2.0) - 1200.0], rtol=1e-12)
    np.testing.assert_allclose(many.marginals()["b"], np.full((2, 2), 0.5))


def test_bad_cases(network) -> None:
    name = next(iter(network.variables))
    with pytest.raises(DataError, match="row 1 of the cases"):
        network.condition_many({name: [0, 99]})
    with pytest.raises(DomainError, match="columns of the same length"):
        network.condition_many({each: [0] * k for k, each in enumerate(list(network.variables)[:2], 1)})
    net = fb.Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[1.0, 0.0], [1.0, 0.0]], ("a", "b")),))
    with pytest.raises(DataError, match="row 1 of the cases"):
        net.condition_many({"b": [0, 1]}).marginals()
    assert net.condition_many({"b": [0, 1]}).log_evidence()[1] == -np.inf


# -- engines by name ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: fb.eliminate([fb.Table(jnp.ones((2, 2)), ("a", "b"))] * 2, ("a", "b")), "numbers are not NumPy's"),
        (lambda: fb.eliminate([fb.Table(np.ones((2, 3)), ("a", "i"))] * 2, {"a": ("i",)}, ("i",)), "multiplies out i"),
        (lambda: fb.eliminate([fb.Table(np.ones(2), ("a",))] * 2, ("a",), semiring=fb.counting), "the semiring"),
    ],
)
def test_an_engine_that_cannot_serve_says_what_stops_it(ask, message) -> None:
    with fb.engine("flat"), pytest.raises(EngineError, match=message):
        ask()


def test_unknown_engine() -> None:
    with pytest.raises(DomainError, match="nearest"), fb.engine("falt"):
        pass
