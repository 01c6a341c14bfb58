"""Learning with priors and classes, rankings by choices, and what is compiled."""

from itertools import permutations as orders

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DataError, DomainError, Intractable
from fubini.factors.circuit import Circuit
from fubini.factors.circuit_constructors import choices, from_clauses, parity, permutations
from fubini.factors.circuit_learning import learn

from ..counting import no_tracing
from .circuits import NAMES, circuit, dense
from .test_circuit import close, on_jax


def probabilities(n: int, seed: int, *batch: int) -> np.ndarray:
    """A random choice after every set of columns."""
    free = np.arange(2**n)[:, None] >> np.arange(n) & 1 == 0
    p = np.random.default_rng(seed).uniform(0.1, 1.0, (*batch, 2**n, n)) * free
    return p / np.maximum(p.sum(-1, keepdims=True), 1e-300)


def rows_of(n: int) -> np.ndarray:
    return np.stack([np.eye(n, dtype=int)[list(order)].ravel() for order in orders(range(n))])


def log_choices(p: np.ndarray, n: int) -> list[float]:
    """log p(order), one choice after another."""
    return [sum(np.log(p[sum(1 << k for k in order[:i]), order[i]]) for i in range(n)) for order in orders(range(n))]


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_choices(n: int) -> None:
    p = probabilities(n, n)
    f = choices(p)
    close(f.log_evidence(rows_of(n)), log_choices(p, n))
    close(float(f.sum(*f.variables)), 1.0)
    many = choices(fb.Array(probabilities(n, 1, 3), ("k",)))
    close(many.log_evidence(rows_of(n)), [log_choices(q, n) for q in probabilities(n, 1, 3)])


def test_choices_errors() -> None:
    with pytest.raises(DomainError, match="a row for each set"):
        choices(np.ones((3, 2)))
    with pytest.raises(DataError, match="sum to one"):
        choices(np.ones((4, 2)))
    traced = jax.jit(lambda p: choices(p).log_evidence(rows_of(2)))
    assert np.isnan(traced(jnp.ones((4, 2)))).all() and np.isfinite(traced(jnp.asarray(probabilities(2, 0)))).all()


def test_learn_finds_the_choices_of_many_rows() -> None:
    """With the exact frequencies as weights of rows, the likelihood is greatest at the choices that made them."""
    p, base = probabilities(4, 3), permutations(4)
    shares = np.exp(log_choices(p, 4))
    close(learn(base, rows_of(4), row_weights=shares).log_evidence(rows_of(4)), log_choices(p, 4))


def test_learn_with_a_prior() -> None:
    """(N_e + α k θ⁰_e) / Σ: the prior where α is great, the uniform one where none is given."""
    p, base, rows = choices(probabilities(4, 3)), permutations(4), rows_of(4)
    close(learn(base, rows[:5], pseudo_count=1e12, prior=p).log_evidence(rows).round(6), p.log_evidence(rows).round(6))
    uniform = choices(probabilities(4, 0) * 0 + _uniform(4))
    close(
        learn(base, rows[:5], pseudo_count=2.0, prior=uniform).log_evidence(rows),
        learn(base, rows[:5], pseudo_count=2.0).log_evidence(rows),
    )
    close(float(learn(base, rows[:5], pseudo_count=2.0, prior=p).sum(*base.variables)), 1.0)
    with pytest.raises(DomainError, match="the same structure"):
        learn(base, rows, prior=permutations(3))


def _uniform(n: int) -> np.ndarray:
    free = np.arange(2**n)[:, None] >> np.arange(n) & 1 == 0
    return free / np.maximum(free.sum(1, keepdims=True), 1)


@pytest.mark.parametrize("engine", [np.asarray, jnp.asarray])
def test_learn_a_circuit_for_each_class(engine) -> None:
    rng = np.random.default_rng(0)
    base, rows = permutations(3), rows_of(3)
    weights, p = rng.uniform(size=(2, len(rows))), choices(fb.Array(probabilities(3, 1, 2), ("k",)))
    f = learn(base, engine(rows), row_weights=fb.Array(engine(weights), ("k",)), pseudo_count=1.0, prior=p)
    assert isinstance(f, Circuit) and f.inputs["k"] == fb.Bint[2]
    for k in range(2):
        alone = learn(base, rows, row_weights=weights[k], pseudo_count=1.0, prior=choices(probabilities(3, 1, 2)[k]))
        np.testing.assert_allclose(f.log_evidence(engine(rows))[k], alone.log_evidence(rows), rtol=2e-5)


def test_a_sum_over_classes_is_a_structured_circuit() -> None:
    p, rows = probabilities(3, 1, 2), rows_of(3)
    joint = choices(fb.Array(p, ("k",))).multiply(fb.Table([0.3, 0.7], ("k",)))
    assert isinstance(joint, Circuit)
    mixture = joint.sum("k")
    assert isinstance(mixture, Circuit) and mixture.nodes == "sum" and mixture.exactness.is_exact
    expected = np.log(0.3) + np.asarray(log_choices(p[0], 3)), np.log(0.7) + np.asarray(log_choices(p[1], 3))
    close(mixture.log_evidence(rows), np.logaddexp(*expected))


@pytest.mark.parametrize("move", [lambda f: f, on_jax])
def test_argmax_and_sample_of_a_batch(move) -> None:
    """The class and the variables together, the variables for each class, and both beside another name."""
    weights = np.random.default_rng(1).uniform(0.1, 1.0, (3, 2))
    f = move(circuit(0, 3).multiply(fb.Table(weights, ("k", "a"))))
    joint = np.einsum("abcd,ka->kabcd", dense(circuit(0, 3)), weights)
    best = f.argmax()
    assert tuple(int(best[name]) for name in ("k", *NAMES)) == np.unravel_index(joint.argmax(), joint.shape)
    each = f.argmax(*NAMES)
    for k in range(3):
        cell = tuple(int(each[name][k]) for name in NAMES)
        assert cell == np.unravel_index(joint[k].argmax(), joint.shape[1:])
    draws = f.sample(jax.random.key(0), n=20_000)
    cells = np.zeros(joint.shape)
    np.add.at(cells, tuple(np.asarray(draws[name]) for name in ("k", *NAMES)), 1 / 20_000)
    assert np.abs(cells - joint / joint.sum()).max() < 5 * np.sqrt(0.25 / 20_000)
    one = f.sample(jax.random.key(1), *NAMES)
    assert all(one[name].shape == (3,) for name in NAMES)


def test_large_circuits_are_chosen_and_drawn_without_a_plan() -> None:
    f = on_jax(permutations(10))
    draws = f.sample(jax.random.key(0), n=50)
    rows = np.stack([np.asarray(draws[name]) for name in f.variables], -1).reshape(50, 10, 10)
    assert (rows.sum(1) == 1).all() and (rows.sum(2) == 1).all() and len(np.unique(rows, axis=0)) > 40
    best = f.argmax()
    assert np.reshape([int(best[name]) for name in f.variables], (10, 10)).sum() == 10


def test_new_data_compile_nothing() -> None:
    base = on_jax(permutations(4))
    rows = rows_of(4)

    @jax.jit
    def answers(f, rows, key):
        best = {name: value for name, value in f.argmax().items()}
        return f.log_evidence(rows), f.marginal_probabilities(rows), best, f.sample(key, n=3)

    keys = jax.random.split(jax.random.key(0), 2)
    data = [(learn(base, jnp.asarray(part), pseudo_count=1.0), jnp.asarray(part)) for part in (rows[:9], rows[9:18])]
    jax.block_until_ready(answers(*data[0], keys[0]))
    with no_tracing():
        jax.block_until_ready(answers(*data[1], keys[1]))
    data[0][0].log_evidence(data[0][1])
    with no_tracing():
        jax.block_until_ready(data[1][0].log_evidence(data[1][1]))


def test_errors_of_vtrees_constraints_and_supports_traced() -> None:
    """What is wrong in the structure raises in a trace as well; what is wrong in the data is NaN, or raises checked."""
    names = [f"x{k}" for k in range(30)]
    f, g = on_jax(parity(names, is_odd=True)), on_jax(parity(names[::-1], is_odd=True))
    with pytest.raises(Intractable, match="vtrees differ"):
        jax.jit(lambda f, g: f.multiply(g).sum(*names).log().data)(f, g)
    with pytest.raises(Intractable, match="vtrees differ"):
        jax.jit(lambda f, g: (f / g).sum(*names).log().data)(f, g)
    with pytest.raises(DataError, match="contradict each other"):
        jax.jit(lambda x: from_clauses([{"a": True}, {"a": False}]).log_evidence(x))(jnp.ones((1, 1)))

    def ratio(f, g):
        return (f / g).sum(*NAMES).log().data

    f, g = on_jax(circuit(4, 1)), on_jax(circuit(0, 2))
    assert np.isnan(jax.jit(ratio)(f, g)) and np.isfinite(jax.jit(ratio)(g, f))
    with pytest.raises(DataError, match="a positive number over zero"):
        ratio(f, g)
    with pytest.raises(DataError, match="a positive number over zero"):
        fb.checked(ratio)(f, g)


def test_models_of_a_conditioned_circuit() -> None:
    assert permutations(4)(**{"x[0,1]": 1}).count_models() == 6
    assert permutations(4).multiply(fb.Table([1.0, 0.0], ("x[0,1]",))).count_models() == 18


@pytest.mark.parametrize("engine", [np.asarray, jnp.asarray])
def test_missing_values_of_a_batch(engine) -> None:
    """Evidence and marginals at rows with missing values, for each class, against each circuit alone; many rows too."""
    p, rows = probabilities(3, 1, 2), np.tile(rows_of(3), (40, 1))
    rows[:, 4:] = -1
    f = jax.tree.map(engine, choices(fb.Array(p, ("k",))))
    for k in range(2):
        alone = choices(p[k])
        np.testing.assert_allclose(f.log_evidence(engine(rows))[k], alone.log_evidence(rows), rtol=2e-5, atol=1e-6)
        expected = alone.marginal_probabilities(rows)
        np.testing.assert_allclose(f.marginal_probabilities(engine(rows))[k], expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("engine", [np.asarray, jnp.asarray])
def test_many_rows_are_taken_in_parts(engine, monkeypatch: pytest.MonkeyPatch) -> None:
    f, rows = choices(probabilities(3, 1)), rows_of(3)
    rows = np.tile(np.where(np.arange(9) < 5, rows, -1), (4, 1))
    logs, shares = f.log_evidence(rows), f.marginal_probabilities(rows)
    monkeypatch.setattr("fubini.numerics.circuit_values.CELLS", 5 * f.size)
    jax.clear_caches()
    g = jax.tree.map(engine, f)
    np.testing.assert_allclose(g.log_evidence(engine(rows)), logs, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(g.marginal_probabilities(engine(rows)), shares, rtol=2e-5, atol=1e-6)
    jax.clear_caches()
