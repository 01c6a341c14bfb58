"""The bare Markov product against the explicit contraction: sizes, batches, globals, lags, semirings, plates."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DomainError

from .models import Model, assert_same, random_factor, random_model

TWO, THREE, REAL, PAIR, SQUARE = fb.Bint[2], fb.Bint[3], fb.Real, fb.Reals[2], fb.Reals[2, 2]
slow = pytest.mark.slow


def explicit(model: Model, semiring: fb.Semiring = fb.sum_product) -> fb.Factor:
    """Neighbours multiplied, the states between summed, under the names of the first and last states."""
    first, last = model.before(0), model.after(model.length - 1)
    between = [name for name in model.states() if name not in (*first.values(), *last.values())]
    found = fb.eliminate(model.copies()[1:], between, semiring=semiring)
    back = {unrolled: name for name, unrolled in (*first.items(), *last.items())}
    return found(**{name: new for name, new in back.items() if name in found.inputs})


def product_of(model: Model, method: str | None = None) -> fb.Factor:
    timed = any("t" in term.inputs for term in model.terms)
    length = None if timed else model.length
    return fb.markov(model.factor, time="t", step=model.step, length=length, method=method)


PRODUCTS: dict[str, Callable[[], Model]] = {
    "Bint[3]": lambda: random_model({"x": THREE}, 5),
    "Bint[2], batch 5": lambda: random_model({"x": TWO}, 3, plates={"i": 5}),
    "Bint[2], batch 2, 4": lambda: random_model({"x": TWO}, 4, plates={"i": 2, "j": 4}),
    "Real": lambda: random_model({"x": REAL}, 6),
    "Reals[2], batch 2, 4": lambda: random_model({"x": PAIR}, 3, plates={"i": 2, "j": 4}),
    "Bint[2] and Bint[3]": lambda: random_model({"x": TWO, "y": THREE}, 3),
    "Real and Reals[2, 2]": lambda: random_model({"x": REAL, "y": SQUARE}, 3),
    "timeless Bint[3]": lambda: random_model({"x": THREE}, 7, timed=False),
    "timeless Real": lambda: random_model({"x": REAL}, 4, timed=False),
    "discrete global": lambda: random_model({"x": TWO}, 3, shared=THREE),
    "bias of one": lambda: random_model({"x": REAL}, 2, shared=REAL),
    "bias of three": lambda: random_model({"x": PAIR}, 10, shared=fb.Reals[3]),
    "lags 1 and 2": lambda: random_model({"b": TWO, "c": TWO}, 5, lags={"c": 2}),
    "lags 1 and 2, global": lambda: random_model({"b": TWO, "c": TWO}, 4, lags={"c": 2}, shared=THREE),
    "real lags 1 and 2": lambda: random_model({"b": REAL, "c": REAL}, 4, lags={"c": 2}),
    "lags 3 and 1": lambda: random_model({"b": TWO, "c": TWO}, 7, lags={"b": 3}),
    "real lags 3 and 1, global": lambda: random_model({"b": REAL, "c": REAL}, 5, lags={"b": 3}, shared=REAL),
}
FAST = [
    ("Reals[2], batch 2, 4", "parallel"),
    ("Real and Reals[2, 2]", "sequential"),
    ("bias of three", "sequential"),
    ("lags 1 and 2, global", "parallel"),
    ("real lags 1 and 2", "sequential"),
]


OTHERS = [(name, ("parallel", "sequential")[place % 2]) for place, name in enumerate(PRODUCTS)]
OTHERS = [case for case in OTHERS if case[0] not in dict(FAST)]  # a covering design: each product by one method


@pytest.mark.parametrize(("name", "method"), [*FAST, *(pytest.param(*case, marks=slow) for case in OTHERS)])
def test_the_product_is_the_explicit_contraction(name: str, method: str) -> None:
    """Over the first and last states, the batch and the global variables; the states between are eliminated."""
    model = PRODUCTS[name]()
    found = product_of(model, method)
    assert_same(fb.eliminate([found * 1.0], ()), explicit(model))


BATCHES = [{}, {"i": 5}, {"i": 2, "j": 4}]
LENGTHS = [1, 2, *(pytest.param(n, marks=slow) for n in (3, 7, 8, 12))]


@pytest.mark.parametrize("length", LENGTHS)
def test_any_length(length: int) -> None:
    """In order and in pairs; over the lengths there is each kind of state, and each batch, and odd steps left over."""
    domain, batch = (TWO, THREE, REAL, PAIR)[length % 4], BATCHES[length % 3]
    model = random_model({"x": domain}, length, plates=batch, seed=length)
    for method in ("sequential", "parallel"):
        assert_same(fb.eliminate([product_of(model, method) * 1.0], ()), explicit(model))


@pytest.mark.parametrize("length", [1, *(pytest.param(n, marks=slow) for n in (2, 5))])
@pytest.mark.parametrize("domains", [{"x": TWO, "y": THREE}, {"x": REAL, "y": SQUARE}], ids=["tables", "Gaussians"])
def test_two_chains_of_any_length(domains: dict[str, fb.Domain], length: int) -> None:
    """They advance together."""
    model = random_model(domains, length, seed=length)
    method = ("sequential", "parallel")[length % 2]
    assert_same(fb.eliminate([product_of(model, method) * 1.0], ()), explicit(model))


@pytest.mark.parametrize("length", [1, 5, *(pytest.param(n, marks=slow) for n in (2, 12))])
def test_powers_of_a_matrix(length: int) -> None:
    """A table that does not depend on time, `length` times: the power of its matrix."""
    matrix = np.random.default_rng(1).uniform(0.1, 1.0, (3, 3))
    found = fb.markov(fb.Table(matrix, ("x", "x_next")), time="t", step={"x": "x_next"}, length=length)
    assert dict(found.inputs) == {"x": THREE, "x_next": THREE}
    np.testing.assert_allclose(
        np.exp(log_table(found, "x", "x_next")), np.linalg.matrix_power(matrix, length), rtol=1e-10
    )


def log_table(factor: fb.Factor, *names: str) -> np.ndarray:
    value = factor.log()
    return np.asarray(value.data).transpose([list(value.inputs).index(name) for name in names])


# -- a step that hands nothing on -----------------------------------------------------------------------------------


def test_an_empty_step_is_the_plain_product() -> None:
    """No states: the product over time; a factor without time, to the power of the length."""
    rng = np.random.default_rng(2)
    weights = rng.uniform(0.1, 1.0, (4, 3))
    found = fb.markov(fb.Table(weights, ("t", "x")), time="t", step={})
    np.testing.assert_allclose(np.exp(found.log().data), weights.prod(0), rtol=1e-12)
    found = fb.markov(fb.Table(weights[0], ("x",)), time="t", step={}, length=4)
    np.testing.assert_allclose(np.exp(found.log().data), weights[0] ** 4, rtol=1e-12)
    gaussian = random_factor(rng, {"t": fb.Bint[3], "x": PAIR})
    found = fb.markov(gaussian, time="t", step={})
    assert_same(found, reduce(lambda a, b: a * b, [gaussian(t=number) for number in range(3)]))


def test_a_chain_needs_states() -> None:
    """An empty step is no chain: the error says what one is."""
    with pytest.raises(DomainError, match="x_next"):
        fb.Chain(init=fb.Table([1.0, 1.0], ("x",)), factor=fb.Table(np.ones((3, 2)), ("t", "x")), time="t", step={})


# -- boundaries -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", [THREE, REAL], ids=["Bint[3]", "Real"])
def test_boundaries_in_any_order(domain: fb.Domain) -> None:
    """A start, a Markov product and an end: summed together, one after another, or the end first."""
    model = random_model({"x": domain}, 4, seed=3)
    end = random_factor(np.random.default_rng(4), {"x_next": domain})
    middle = product_of(model)
    last = model.after(3)["x_next"]
    expected = fb.eliminate([*model.copies(), end(x_next=last)], model.states()).log().data
    start = model.init
    asked = [
        fb.eliminate([start, middle, end], ("x", "x_next")),
        fb.eliminate([end, middle, start], ("x_next", "x")),
        ((start * middle).sum("x") * end).sum("x_next"),
        ((end * middle).sum("x_next") * start).sum("x"),
        (start * middle * end).sum("x", "x_next"),
        fb.eliminate([fb.eliminate([middle, end], ("x_next",)), start], ("x",)),
    ]
    for found in asked:
        np.testing.assert_allclose(found.log().data, expected, rtol=1e-9, atol=1e-9)


@slow
def test_values_and_names_of_a_product() -> None:
    """States take numbers and other names; a global variable takes a number inside every step."""
    model = random_model({"x": TWO}, 3, shared=THREE, seed=5)
    found, expected = product_of(model), explicit(model)
    assert_same(found(x="a", x_next="b")._joined(), expected(x="a", x_next="b"))
    assert_same(found(x=1)._joined(), expected(x=1))
    assert_same(found(g=2)._joined(), expected(g=2))
    assert_same(found(g=2, x_next=0)._joined(), expected(g=2, x_next=0))


@slow
def test_products_of_two_stretches() -> None:
    """Two stretches, end to start, are the whole; by two cuts as by three."""
    rng = np.random.default_rng(6)
    weights = rng.uniform(0.1, 1.0, (7, 3, 3))
    expected = reduce(np.matmul, weights)
    for cuts in ((0, 3, 7), (0, 2, 4, 7)):
        pieces = []
        for position, (low, high) in enumerate(itertools.pairwise(cuts)):
            part = fb.markov(fb.Table(weights[low:high], ("t", "x", "x_next")), time="t", step={"x": "x_next"})
            pieces.append(part(x=f"s{position}", x_next=f"s{position + 1}"))
        between = [f"s{position}" for position in range(1, len(pieces))]
        found = fb.eliminate(pieces, between)
        np.testing.assert_allclose(np.exp(log_table(found, "s0", f"s{len(pieces)}")), expected, rtol=1e-10)


# -- semirings ------------------------------------------------------------------------------------------------------

SEMIRINGS = [pytest.param(fb.sum_product, marks=slow), fb.max_product, fb.min_sum, fb.counting]


@pytest.mark.parametrize("semiring", SEMIRINGS, ids=repr)
def test_semirings(semiring: fb.Semiring) -> None:
    """Σ Π, max Π, min Σ of costs, and the number of paths of positive weight: all by enumeration of paths."""
    rng = np.random.default_rng(7)
    weights = rng.uniform(0.1, 1.0, (3, 3, 3)) * (rng.uniform(size=(3, 3, 3)) < 0.6)
    start, length = np.array([0.2, 0.0, 0.7]), 3
    paths = np.array(
        [
            start[path[0]] * np.prod([weights[number][path[number], path[number + 1]] for number in range(length)])
            for path in itertools.product(range(3), repeat=length + 1)
        ]
    )
    expected = {
        "sum_product": np.sum(paths),
        "max_product": np.max(paths),
        "min_sum": np.max(paths),  # read back as weights: the least cost is the greatest weight
        "counting": np.count_nonzero(paths),
    }[repr(semiring)]
    for method in ("sequential", "parallel"):
        middle = fb.markov(fb.Table(weights, ("t", "x", "x_next")), time="t", step={"x": "x_next"}, method=method)
        found = fb.eliminate([fb.Table(start, ("x",)), middle], ("x", "x_next"), semiring=semiring)
        np.testing.assert_allclose(np.exp(found.log().data), expected, rtol=1e-12)


# -- plates ---------------------------------------------------------------------------------------------------------

SEQUENCES, TONES = 2, 3


def choir(length: int) -> tuple[list[fb.Factor], list[np.ndarray]]:
    """Sequences over a plate s, and tones of each step over a plate n: a start, a transition, an emission.

    Returns the factors, and for each sequence its start and the matrices of its steps, tones multiplied.
    """
    rng = np.random.default_rng(8)
    start = rng.uniform(0.1, 1.0, (SEQUENCES, 2))
    transition = rng.uniform(0.1, 1.0, (2, 2))
    emission = rng.uniform(0.1, 1.0, (length, SEQUENCES, TONES, 2))
    seen = fb.Table(emission, ("t", "s", "n", "x_next")).product("n")
    step = fb.Table(transition, ("x", "x_next")) * seen
    middle = fb.markov(step, time="t", step={"x": "x_next"})
    init = fb.Table(start, ("s", "x"))
    steps = transition[None, None] * emission.prod(2)[:, :, None, :]
    totals = []
    for sequence in range(SEQUENCES):
        now = start[sequence]
        for number in range(length):
            now = now @ steps[number, sequence]
        totals.append(now)
    return [init, middle], totals


@pytest.mark.parametrize("length", [1, pytest.param(5, marks=slow)])
def test_plates_of_sequences(length: int) -> None:
    """Each sequence has states of its own: their sums multiply, whatever is summed first."""
    factors, totals = choir(length)
    expected = np.prod([total.sum() for total in totals])
    scopes = {"x": ("s",), "x_next": ("s",)}
    asked = [
        fb.eliminate(factors, scopes, plates=("s",)),
        fb.eliminate(factors[::-1], {"x_next": ("s",), "x": ("s",)}, plates=("s",)),
        fb.eliminate(fb.eliminate(factors, {"x": ("s",)}), {"x_next": ("s",)}, plates=("s",)),
        fb.eliminate(fb.eliminate(factors, {"x_next": ("s",)}), {"x": ("s",)}, plates=("s",)),
        fb.eliminate(factors, ("x", "x_next")).product("s"),
    ]
    for found in asked:
        np.testing.assert_allclose(np.exp(found.log().data), expected, rtol=1e-9)


@pytest.mark.parametrize("length", [1, 5])
def test_tones_with_variables_of_their_own(length: int) -> None:
    """A variable for each sequence, step and tone is summed inside the step, and its plate multiplied."""
    rng = np.random.default_rng(9)
    start, transition = rng.uniform(0.1, 1.0, (SEQUENCES, 2)), rng.uniform(0.1, 1.0, (2, 2))
    tone = rng.uniform(0.1, 1.0, (length, SEQUENCES, TONES, 2, 3))
    steps = transition[None, None] * tone.sum(-1).prod(2)[:, :, None, :]
    matrices = [reduce(np.matmul, steps[:, sequence]) for sequence in range(SEQUENCES)]
    expected = np.prod([(row @ matrix).sum() for row, matrix in zip(start, matrices, strict=True)])
    names = ("t", "s", "n", "x_next", "y")
    emission = fb.Table(tone, names).sum("y").product("n")
    step = fb.Table(transition, ("x", "x_next")) * emission
    middle = fb.markov(step, time="t", step={"x": "x_next"})
    scopes = {"x": ("s",), "x_next": ("s",)}
    found = fb.eliminate([fb.Table(start, ("s", "x")), middle], sum=scopes, plates=("s",))
    np.testing.assert_allclose(np.exp(found.log().data), expected, rtol=1e-9)


def test_a_start_common_to_all_sequences() -> None:
    """One first state for all sequences: their products share it before it is summed."""
    rng = np.random.default_rng(10)
    start, weights = rng.uniform(0.1, 1.0, 2), rng.uniform(0.1, 1.0, (3, SEQUENCES, 2, 2))
    middle = fb.markov(fb.Table(weights, ("t", "s", "x", "x_next")), time="t", step={"x": "x_next"})
    whole = [reduce(np.matmul, weights[:, sequence]).sum(-1) for sequence in range(SEQUENCES)]
    expected = (start * np.prod(whole, axis=0)).sum()
    factors = [fb.Table(start, ("x",)), middle]
    found = fb.eliminate(factors, {"x": (), "x_next": ("s",)}, plates=("s",))
    np.testing.assert_allclose(np.exp(found.log().data), expected, rtol=1e-9)


def test_a_scope_that_a_factor_lacks_is_refused() -> None:
    """A start without the plate that its state is declared in: the error of the same product as a table."""
    middle = fb.markov(fb.Table(np.ones((3, 2, 2, 2)), ("t", "s", "x", "x_next")), time="t", step={"x": "x_next"})
    scopes = {"x": ("s",), "x_next": ("s",)}
    for factor in (middle._joined(), middle):
        with pytest.raises(DomainError, match="'x' in the plates 's'"):
            fb.eliminate([fb.Table([0.3, 0.7], ("x",)), factor], scopes, plates=("s",))


def test_gaussian_sequences_in_a_plate() -> None:
    """As with tables: the product over the plate of the evidence of each sequence."""
    model = random_model({"x": REAL}, 3, plates={"s": 2}, seed=11)
    start = random_factor(np.random.default_rng(12), {"s": TWO, "x": REAL})
    model = replace(model, init=start)
    each = fb.eliminate(model.copies(), model.states()).log().data
    found = fb.eliminate([start, product_of(model)], {"x": ("s",), "x_next": ("s",)}, plates=("s",))
    np.testing.assert_allclose(found.log().data, each.sum(), rtol=1e-9)


# -- under JAX's transformations ------------------------------------------------------------------------------------


def test_jit_vmap_and_grad() -> None:
    """A product of traced tables: values for each of a batch, and derivatives as of the product of matrices."""
    weights = np.random.default_rng(12).uniform(0.1, 1.0, (2, 3, 2, 2)).astype(np.float32)

    def total(weights: jax.Array) -> jax.Array:
        return (
            fb.markov(fb.Table(weights, ("t", "x", "x_next")), time="t", step={"x": "x_next"})
            .sum("x", "x_next")
            .log()
            .data
        )

    def plain(weights: jax.Array) -> jax.Array:
        return jnp.log(jnp.sum(weights[0] @ weights[1] @ weights[2]))

    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(total)))(jnp.asarray(weights))
    expected, expected_slopes = jax.vmap(jax.value_and_grad(plain))(jnp.asarray(weights))
    np.testing.assert_allclose(values, expected, rtol=1e-5)
    np.testing.assert_allclose(slopes, expected_slopes, rtol=1e-5)


@pytest.mark.parametrize("method", ["sequential", pytest.param("parallel", marks=slow)])
def test_sharp_factors(method: str) -> None:
    """Weights 200 nats apart, in float32, where each path has a small one: nothing underflows."""
    logs = np.array(
        [[[0.0, -200.0], [-200.0, -200.0]], [[-200.0, -150.0], [0.0, -200.0]], [[0.0, -90.0], [-120.0, 0.0]]]
    )
    table = fb.Table.from_log(jnp.asarray(logs, jnp.float32), ("t", "x", "x_next"))
    found = fb.markov(table, time="t", step={"x": "x_next"}, method=method)
    expected = logs[0]
    for row in logs[1:]:
        expected = np.logaddexp.reduce(expected[:, :, None] + row[None], axis=1)
    np.testing.assert_allclose(log_table(found, "x", "x_next"), expected, rtol=1e-6)
