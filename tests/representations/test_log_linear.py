"""A representation of a user's own through every algorithm, against enumeration."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import NoRule
from fubini.terms.fields import term_field
from tests.representations.log_linear import LogLinear, to_table

SIZES = {"a": 2, "b": 3, "c": 2, "d": 3, "e": 2}
NAMES = tuple(SIZES)
TREE = (("ab", "bc"), ("cd",), ("de",), ("e", "e"))
LOOP = (("ab", "bc"), ("cd",), ("de", "a"), ("ea",))
ENGINES = pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
SEMIRINGS = pytest.mark.parametrize("semiring", [fb.sum_product, fb.max_product], ids=str)


@pytest.fixture(autouse=True)
def _double() -> Any:
    with jax.enable_x64(True):
        yield


def potential(random: np.random.Generator, names: str, array: Any) -> fb.Array:
    return fb.Array(array(random.normal(size=[SIZES[name] for name in names])), tuple(names))


def network(scopes: tuple, array: Any, seed: int = 0) -> list[LogLinear]:
    random = np.random.default_rng(seed)
    return [LogLinear(*(potential(random, names, array) for names in group)) for group in scopes]


def weights_of(factor: fb.Factor, order: tuple) -> np.ndarray:
    """The weights of every cell, with the names in this order."""
    axes = [list(factor.inputs).index(name) for name in order]
    return np.transpose(np.asarray(factor.weights), axes)


def joint_of(factors: list[LogLinear]) -> np.ndarray:
    """exp Σ θ of every cell, by NumPy, over NAMES."""
    total = np.zeros([SIZES[name] for name in NAMES])
    for value in (value for factor in factors for value in factor.potentials):
        order = [name for name in NAMES if name in value.inputs]
        data = np.transpose(np.asarray(value.data), [value.names.index(name) for name in order])
        total = total + data.reshape([SIZES[name] if name in order else 1 for name in NAMES])
    return np.exp(total)


def multiplied(parts: list[LogLinear]) -> LogLinear:
    """The product, carried out."""
    joined = math.prod(parts[1:], start=parts[0])._joined()
    assert isinstance(joined, LogLinear)
    return joined


def others(*names: str) -> tuple[int, ...]:
    return tuple(axis for axis, name in enumerate(NAMES) if name not in names)


def marginal(joint: np.ndarray, name: Any, semiring: fb.Semiring = fb.sum_product) -> np.ndarray:
    add = np.sum if semiring is fb.sum_product else np.max
    found = add(joint, axis=others(name))
    return found / found.sum()


# -- operations -------------------------------------------------------------------------------------------------------


@ENGINES
def test_operations(array: Any) -> None:
    f, g = network((("ab", "bc"), ("b", "ca")), array)
    (ab, bc), (ca, b) = ([np.exp(np.asarray(value.data)) for value in h.potentials] for h in (f, g))
    p, r = ab[:, :, None] * bc[None], ca.T[:, None, :] * b[None, :, None]
    for made, expected in (((f * g)._joined(), p * r), (f / g, p / r), (f**0.3, p**0.3), (f * 3.0, p * 3.0)):
        made = made._joined()
        assert isinstance(made, LogLinear)
        assert made.exactness.is_exact
        assert weights_of(made, tuple("abc")) == pytest.approx(expected, rel=1e-12)
    assert isinstance(f(b=1), LogLinear)
    assert weights_of(f(b=1), ("a", "c")) == pytest.approx(p[:, 1], rel=1e-12)
    assert weights_of(f(b="z"), ("a", "z", "c")) == pytest.approx(p, rel=1e-12)
    assert weights_of(f.product("b"), ("a", "c")) == pytest.approx(np.prod(p, axis=1), rel=1e-12)
    assert float(f(a=1, b=2, c=0)) == pytest.approx(p[1, 2, 0], rel=1e-12)


def test_product_makes_no_table() -> None:
    """Sixty Booleans in a row: a product holds the 4 · 59 numbers of its potentials."""
    random = np.random.default_rng(1)
    names = [f"x{k}" for k in range(60)]
    thetas = random.normal(size=(59, 2, 2))
    pairs = list(pairwise(names))
    parts = [LogLinear(fb.Array(theta, pair)) for theta, pair in zip(thetas, pairs, strict=True)]
    whole = multiplied(parts)
    assert sum(np.size(value.data) for value in whole.potentials) == 4 * 59
    assert whole.storage.size(names, dict.fromkeys(names, 2), {}) == 4 * 59
    expected = np.zeros(2)
    for theta in thetas:
        expected = np.logaddexp.reduce(expected[:, None] + theta, axis=0)
    assert float(whole.sum(*names).log()) == pytest.approx(np.logaddexp.reduce(expected), rel=1e-12)
    best = whole.argmax(*names)
    score = sum(theta[best[a], best[b]] for theta, (a, b) in zip(thetas, pairs, strict=True))
    assert score == pytest.approx(float(whole.max(*names).log()), rel=1e-12)
    assert whole.sample(jax.random.key(0), *names, n=3)["x59"].shape == (3,)


@ENGINES
def test_promotion_to_a_table(array: Any) -> None:
    (f,) = network((("ab", "bc"),), array)
    table = fb.Table(array([[0.0, 2.0], [1.0, 0.5]]), ("a", "c"))
    both = (f * table)._joined()
    assert type(both) is fb.Table
    expected = weights_of(f, tuple("abc")) * np.asarray(table.weights)[:, None, :]
    assert weights_of(both, tuple("abc")) == pytest.approx(expected, rel=1e-12)
    assert float(fb.eliminate([f, table], tuple("abc"))) == pytest.approx(expected.sum(), rel=1e-12)


# -- elimination ------------------------------------------------------------------------------------------------------


@ENGINES
def test_eliminate_and_marginals(array: Any) -> None:
    factors = network(LOOP, array)
    joint = joint_of(factors)
    assert float(fb.eliminate(factors, NAMES)) == pytest.approx(joint.sum(), rel=1e-12)
    two = fb.eliminate(factors, ("a", "b", "e"))
    assert isinstance(two._joined(), LogLinear)
    assert weights_of(two._joined(), ("c", "d")) == pytest.approx(joint.sum(others("c", "d")), rel=1e-12)
    for name, found in fb.marginals(factors, NAMES).items():
        assert isinstance(found, LogLinear)
        assert np.asarray(found.weights) == pytest.approx(marginal(joint, name), rel=1e-12)


def test_eliminate_under_jit() -> None:
    factors = network(LOOP, jnp.asarray)
    total = jax.jit(lambda given: fb.eliminate(given, NAMES).log().data)(factors)
    assert float(total) == pytest.approx(math.log(joint_of(factors).sum()), rel=1e-12)


@ENGINES
def test_argmax(array: Any) -> None:
    factors = network(LOOP, array)
    best = np.unravel_index(np.argmax(joint_of(factors)), tuple(SIZES.values()))
    assert tuple(int(v) for v in fb.argmax(factors, NAMES).values()) == best
    assert tuple(int(v) for v in multiplied(factors).argmax(*NAMES).values()) == best


@ENGINES
@pytest.mark.parametrize("whole", [False, True])
def test_sample(array: Any, whole: bool) -> None:
    factors = network(LOOP, array)
    joint = joint_of(factors)
    count = 40_000
    draws = fb.sample(jax.random.key(3), multiplied(factors) if whole else factors, NAMES, n=count)
    cells = np.ravel_multi_index([np.asarray(draws[name]) for name in NAMES], joint.shape)
    expected = joint.ravel() / joint.sum()
    found = np.bincount(cells, minlength=joint.size) / count
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected / count) + 5 / count)


# -- messages ---------------------------------------------------------------------------------------------------------


@ENGINES
@SEMIRINGS
@pytest.mark.parametrize("method", ["hugin", "shafer-shenoy"])
def test_junction_tree(array: Any, semiring: fb.Semiring, method: str) -> None:
    _check(network(LOOP, array), semiring, method)


@ENGINES
@SEMIRINGS
@pytest.mark.parametrize("division", [None, "allow"])
def test_belief_propagation_on_a_tree(array: Any, semiring: fb.Semiring, division: str | None) -> None:
    _check(network(TREE, array), semiring, "belief propagation", division=division)


def _check(factors: list[LogLinear], semiring: fb.Semiring, method: str, **settings: Any) -> None:
    joint = joint_of(factors)
    result = fb.propagate(factors, method=method, semiring=semiring, **settings)
    total = joint.sum() if semiring is fb.sum_product else joint.max()
    assert float(result.log_evidence) == pytest.approx(math.log(total), rel=1e-10)
    assert result.exactness.is_exact
    for name in NAMES:
        assert isinstance(result.marginals[name], LogLinear)
        assert np.asarray(result.marginals[name].weights) == pytest.approx(marginal(joint, name, semiring), rel=1e-10)
    assert (result.assignment is not None) == (semiring is fb.max_product)
    if result.assignment is not None:
        best = np.unravel_index(np.argmax(joint), joint.shape)
        assert tuple(int(result.assignment[name]) for name in NAMES) == best


@ENGINES
def test_belief_propagation_in_a_loop_equals_that_of_tables(array: Any) -> None:
    factors = network((("ab",), ("bc",), ("cd",), ("de",), ("ea",)), array)
    ours = fb.propagate(factors, method="belief propagation")
    theirs = fb.propagate([to_table(factor) for factor in factors], method="belief propagation")
    assert ours.converged
    assert not ours.exactness.is_exact
    assert float(ours.log_evidence) == pytest.approx(float(theirs.log_evidence), abs=1e-7)
    for name in NAMES:
        expected = np.asarray(theirs.marginals[name].weights)
        assert np.asarray(ours.marginals[name].weights) == pytest.approx(expected, abs=1e-7)


@ENGINES
def test_expectation_propagation_is_exact(array: Any) -> None:
    """A log-linear factor is of its own family: it stands for itself, and nothing is projected."""
    factors = network(LOOP, array)
    joint = joint_of(factors)
    result = fb.expectation_propagation(factors, NAMES)
    assert result.converged
    assert result.exactness.is_exact
    assert float(result.log_evidence) == pytest.approx(math.log(joint.sum()), rel=1e-12)
    for name in NAMES:
        assert np.asarray(result.marginals[name].weights) == pytest.approx(marginal(joint, name), rel=1e-12)


# -- sequences --------------------------------------------------------------------------------------------------------


STEPS = 4


def paths(array: Any) -> tuple[fb.Chain, np.ndarray]:
    """A chain of three states, and the weight of each of its paths x_0 … x_4."""
    random = np.random.default_rng(5)
    start, move, seen = random.normal(size=3), random.normal(size=(3, 3)), random.normal(size=(STEPS, 3))
    factor = LogLinear(fb.Array(array(move), ("x", "y")), fb.Array(array(seen), ("t", "y")))
    chain = fb.Chain(init=LogLinear(fb.Array(array(start), ("x",))), factor=factor, time="t", step={"x": "y"})
    places = np.indices((3,) * (STEPS + 1))
    log = start[places[0]]
    for t in range(STEPS):
        log = log + move[places[t], places[t + 1]] + seen[t][places[t + 1]]
    return chain, np.exp(log)


@ENGINES
def test_chain(array: Any) -> None:
    chain, weights = paths(array)
    assert float(chain.log_evidence()) == pytest.approx(math.log(weights.sum()), rel=1e-12)
    axes = set(range(STEPS + 1))
    smooth = [weights.sum(tuple(axes - {t + 1})) / weights.sum() for t in range(STEPS)]
    assert weights_of(chain.smooth(), ("t", "y")) == pytest.approx(np.array(smooth), rel=1e-10)
    best = np.unravel_index(np.argmax(weights), weights.shape)
    found = chain.argmax()
    assert (int(found["x"]), *map(int, found["y"])) == tuple(best)


@ENGINES
def test_filter_of_a_chain(array: Any) -> None:
    chain, _ = paths(array)
    move, seen = (np.exp(np.asarray(value.data)) for value in chain.factor.potentials)
    now, expected = np.exp(np.asarray(chain.init.potentials[0].data)), []
    for likelihood in seen:
        now = (now @ move) * likelihood
        expected.append(now / now.sum())
    assert weights_of(chain.filter(), ("t", "y")) == pytest.approx(np.array(expected), rel=1e-10)


@ENGINES
def test_sample_of_a_chain(array: Any) -> None:
    chain, weights = paths(array)
    count = 40_000
    draws = chain.sample(jax.random.key(1), n=count)
    path = [np.asarray(draws["x"]), *np.moveaxis(np.asarray(draws["y"]), -1, 0)]
    found = np.bincount(np.ravel_multi_index(path, weights.shape), minlength=weights.size) / count
    expected = weights.ravel() / weights.sum()
    assert np.all(np.abs(found - expected) < 5 * np.sqrt(expected / count) + 5 / count)


# -- an operation that is missing -------------------------------------------------------------------------------------


class Indivisible(fb.Factor):
    """A table that can be multiplied and summed, and no more."""

    table: fb.Table = term_field()

    def __init__(self, table: fb.Factor) -> None:
        self._set(table=table, inputs=table.inputs)

    def _log(self) -> fb.Value:
        return self.table.log()


@fb.heads.exact_join.rule
def join_indivisible(f: Indivisible) -> fb.Factor:
    """f  =  f"""
    return f


@fb.heads.exact_multiply.rule
def multiply_indivisible(f: Indivisible, g: Indivisible) -> fb.Factor:
    """f·g"""
    return Indivisible((f.table * g.table)._joined())


@fb.heads.exact_sum.rule
def sum_indivisible(semiring: fb.Semiring, f: Indivisible, names: tuple) -> fb.Factor:
    """⊕_x f"""
    return Indivisible(f.table.reduce(semiring, *names))


@ENGINES
def test_a_missing_operation_is_named(array: Any) -> None:
    tables = [fb.Table(array([[1.0, 2.0], [3.0, 1.0]]), pair) for pair in (("a", "b"), ("b", "c"))]
    factors = [Indivisible(table) for table in tables]
    assert float(fb.eliminate(factors, ("a", "b", "c"))) == pytest.approx(float(fb.eliminate(tables, ("a", "b", "c"))))

    def ask(weights: Any) -> Any:
        factors = [Indivisible(fb.Table(weights, pair)) for pair in (("a", "b"), ("b", "c"))]
        return fb.propagate(factors, ("a", "b", "c"), method="hugin").log_evidence

    for asked in (ask, jax.jit(ask)):
        with pytest.raises(NoRule) as caught:
            asked(array([[1.0, 2.0], [3.0, 1.0]]))
        message = str(caught.value)
        assert "a rule for divide(Indivisible, Indivisible), in fb.heads.exact_divide" in message
        assert 'method="shafer-shenoy"' in message
