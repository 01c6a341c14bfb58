"""The backward pass: all marginals, the best assignment, posterior samples, derivatives; sliced plans; Deltas."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fubini as fb

from .tables import POSITIVE, Raw, assert_factor, derivative, factor_sets, joint, names_of, numbers, raws, total, unroll

MOSTLY_POSITIVE = st.sampled_from((0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 0.0))
SIZES = {"a": 3, "b": 2, "c": 3, "i": 3, "j": 2, "x": 2, "z": 2}
SCOPES = {"z": (), "x": ("i",)}
triple = st.tuples(*(raws(*names, sizes=SIZES) for names in ("ab", "bc", "c")))
plated = st.tuples(*(raws(*names, sizes=SIZES, elements=MOSTLY_POSITIVE) for names in ("z", "izx", "ix")))


def tables(factors) -> list[fb.Table]:
    return [raw.table for raw in factors]


# -- marginals ------------------------------------------------------------------------------------------------------


@given(factor_sets(), st.data())
def test_marginals(factors, data):
    """Any of the names, in any order; every other variable is summed out."""
    names = names_of(factors)
    assume(names and total(factors) > 0)
    wanted = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    found = fb.marginals(tables(factors), wanted)
    assert list(found) == wanted
    for name in wanted:
        weights = total(factors, (name,))
        assert_factor(found[name], weights / weights.sum(), (name,))


@settings(max_examples=40)
@given(factor_sets(least=2, elements=POSITIVE), st.data())
def test_marginals_of_a_batch(factors, data):
    """A name in the batch stays an input: one marginal for each of its cells, equal to conditioning on it."""
    names = names_of(factors)
    assume(len(names) > 2)
    batch, *wanted = data.draw(st.permutations(names))
    found = fb.marginals(tables(factors), wanted, batch=(batch,))
    for name in wanted:
        weights = total(factors, (batch, name))
        expected = weights / weights.sum(1, keepdims=True)
        assert found[name].inputs.keys() <= {batch, name}
        for cell in range(len(expected)):
            at = found[name]({batch: cell}) if batch in found[name].inputs else found[name]
            assert_factor(at, expected[cell], (name,))


@settings(max_examples=30)
@given(plated)
def test_plated_marginals(factors):
    """The marginal of a variable inside a plate has the plate as an input; all equal brute force."""
    ground = unroll(factors, SCOPES, ("i",))
    assume(total(ground) > 0)
    found = fb.marginals(tables(factors), SCOPES, ("i",))
    outside = total(ground, (("z",),))
    inside = np.stack([total(ground, (("x", i),)) for i in range(3)])
    assert_factor(found["z"], outside / outside.sum(), ("z",))
    assert_factor(found["x"], inside / inside.sum(1, keepdims=True), ("i", "x"))


def test_marginals_on_jax_and_under_jit():
    factors = [Raw(np.array([0.5, 1.5]), ("z",)), Raw(np.arange(12.0).reshape(3, 2, 2) / 8, ("i", "z", "x"))]
    ground = unroll(factors, SCOPES, ("i",))
    inside = np.stack([total(ground, (("x", i),)) for i in range(3)])

    def ask(given):
        return fb.marginals(given, SCOPES, ("i",))

    for run in (ask, jax.jit(ask)):
        found = run([raw.single for raw in factors])
        assert_factor(found["x"], inside / inside.sum(1, keepdims=True), ("i", "x"), rtol=1e-4)
        assert isinstance(found["z"].weights, jax.Array)


def test_marginals_without_mass_are_an_error():
    f = fb.Table([[0.0, 1.0]], ("a", "b")), fb.Table([1.0, 0.0], ("b",))
    for wanted in (("a",), ("a", "b")):
        with pytest.raises(fb.FubiniError, match="zero everywhere"):
            fb.marginals(f, wanted)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_nothing_is_chosen_from_zero(xp):
    """Whether the zero is in the variable's own factor or in another one, arg max and samples are errors."""
    for factors in ([fb.Table(xp.zeros(2), ("a",))], [fb.Table(xp.ones(2), ("a",)), fb.Table(xp.zeros(3), ("b",))]):
        names = tuple("ab"[: len(factors)])
        with pytest.raises(fb.FubiniError, match="impossible"):
            fb.argmax(factors, names)
        with pytest.raises(fb.FubiniError, match="impossible"):
            fb.sample(jax.random.key(0), [*factors, fb.Table(0.0)], ("a",), n=3)


# -- arg max --------------------------------------------------------------------------------------------------------


@given(factor_sets())
def test_argmax_attains_the_maximum(factors):
    names = names_of(factors)
    assume(names and total(factors) > 0)
    found = fb.argmax(tables(factors), names)
    assert list(found) == list(names)
    whole = joint(factors, names)
    assert whole[tuple(int(found[name]) for name in names)] == pytest.approx(whole.max(), rel=1e-12)


@settings(max_examples=30)
@given(triple)
def test_argmax_of_a_batch(factors):
    """For each cell of b, which is not named, the best a and c."""
    whole = joint(factors, "bac")
    assume(np.all(whole.sum((1, 2)) > 0))
    found = fb.argmax(tables(factors), ("a", "c"))
    for b in range(2):
        assert whole[b, found["a"][b], np.broadcast_to(found["c"], 2)[b]] == pytest.approx(whole[b].max(), rel=1e-12)


@pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])
def test_assignments_have_the_axes_of_the_batch(xp):
    """One value for each cell of the inputs that are not named, also for a variable that does not depend on them."""
    factors = fb.Table(xp.asarray([0.1, 0.9]), ("a",)), fb.Table(xp.asarray(np.eye(3)[:2] + 0.1), ("b", "j"))
    found = fb.argmax(factors, ("a", "b"))
    np.testing.assert_array_equal(found["b"], [0, 1, 0])
    assert found["a"].tolist() == [1, 1, 1]
    draws = fb.sample(jax.random.key(0), factors, ("a", "b"), n=5)
    assert draws["b"].shape == draws["a"].shape == (5, 3)


@settings(max_examples=30)
@given(plated)
def test_argmax_in_plates(factors):
    found = fb.argmax(tables(factors), SCOPES, ("i",))
    assert np.shape(found["x"]) == (3,)
    f, g, h = (raw.weights for raw in factors)
    i, z, x = np.arange(3), int(found["z"]), found["x"]
    best = total(unroll(factors, SCOPES, ("i",)), plus=np.max)
    assert f[z] * (g[i, z, x] * h[i, x]).prod() == pytest.approx(best, rel=1e-12)


# -- samples --------------------------------------------------------------------------------------------------------

DRAWS = 20_000


def assert_frequencies(cells: np.ndarray, probabilities: np.ndarray) -> None:
    """Counts of flat cells within five standard errors of the exact probabilities; none where there is no mass."""
    counts = np.bincount(cells, minlength=probabilities.size)
    assert counts[probabilities == 0].sum() == 0
    error = np.sqrt(cells.size * probabilities * (1 - probabilities))
    assert (np.abs(counts - cells.size * probabilities) <= 5 * error + 1e-9).all()


CHAIN = [
    Raw(np.array([[0.5, 0.0], [0.25, 1.0], [0.0, 2.0]]), ("a", "b")),
    Raw(np.array([[0.0, 1.0, 0.5], [3.0, 0.0, 0.125]]), ("b", "c")),
]


@pytest.mark.parametrize("kind", ["table", "single"])
def test_sample_frequencies(kind):
    """The joint frequencies of 20,000 draws; cells of zero weight are never drawn."""
    draws = fb.sample(jax.random.key(1), [getattr(raw, kind) for raw in CHAIN], ("c", "a", "b"), n=DRAWS)
    assert list(draws) == ["c", "a", "b"] and draws["a"].shape == (DRAWS,)
    probabilities = joint(CHAIN, "abc") / total(CHAIN)
    cells = np.ravel_multi_index([np.asarray(draws[name]) for name in "abc"], probabilities.shape)
    assert_frequencies(cells, probabilities.ravel())


def test_sample_of_a_batch():
    """Draws first, then the cells of b, each from its own conditional."""
    draws = fb.sample(jax.random.key(2), tables(CHAIN), ("a", "c"), n=DRAWS)
    for b in range(2):
        conditional = np.multiply.outer(CHAIN[0].weights[:, b], CHAIN[1].weights[b])
        cells = np.ravel_multi_index((draws["a"][:, b], draws["c"][:, b]), conditional.shape)
        assert_frequencies(cells, conditional.ravel() / conditional.sum())


def test_one_sample():
    """Without n there is no axis of draws; the same key gives the same draw, another key another sequence."""
    draw = fb.sample(jax.random.key(3), tables(CHAIN), ("a", "b", "c"))
    assert all(np.shape(draw[name]) == () for name in "abc")
    assert draw == fb.sample(jax.random.key(3), tables(CHAIN), ("a", "b", "c"))
    many = [fb.sample(jax.random.key(seed), tables(CHAIN), ("a", "b", "c"), n=20)["c"] for seed in (4, 5)]
    assert not np.array_equal(*many)
    assert joint(CHAIN, "abc")[tuple(int(draw[name]) for name in "abc")] > 0


def test_sample_in_plates():
    """x of every cell of the plate given the z they share, against the unrolled joint."""
    factors = [
        Raw(np.array([0.25, 1.0]), ("z",)),
        Raw(np.array([[[1.0, 0.0], [0.5, 1.0]], [[0.5, 0.5], [2.0, 1.0]]]), ("i", "z", "x")),
    ]
    draws = fb.sample(jax.random.key(6), tables(factors), SCOPES, ("i",), n=DRAWS)
    assert draws["x"].shape == (DRAWS, 2) and draws["z"].shape == (DRAWS,)
    ground = unroll(factors, SCOPES, ("i",))
    probabilities = joint(ground, (("z",), ("x", 0), ("x", 1))) / total(ground)
    cells = np.ravel_multi_index((draws["z"], draws["x"][:, 0], draws["x"][:, 1]), (2, 2, 2))
    assert_frequencies(cells, probabilities.ravel())


def test_samples_under_jit_with_a_traced_key():
    factors = [raw.single for raw in CHAIN]
    draws = jax.jit(lambda key: fb.sample(key, factors, ("a", "b", "c"), n=DRAWS))(jax.random.key(7))
    probabilities = joint(CHAIN, "abc") / total(CHAIN)
    assert_frequencies(np.ravel_multi_index([draws[n] for n in "abc"], probabilities.shape), probabilities.ravel())


def test_samples_mapped_over_keys():
    """One draw for each key of a batch, as good as n draws of one key."""
    keys = jax.random.split(jax.random.key(8), DRAWS)
    factors = [raw.single for raw in CHAIN]
    draws = jax.jit(jax.vmap(lambda key: fb.sample(key, factors, ("a", "b", "c"))))(keys)
    probabilities = joint(CHAIN, "abc") / total(CHAIN)
    assert_frequencies(np.ravel_multi_index([draws[n] for n in "abc"], probabilities.shape), probabilities.ravel())


def test_a_sample_without_mass_is_an_error():
    with pytest.raises(fb.FubiniError):
        fb.sample(jax.random.key(0), [fb.Table([[0.0, 1.0]], ("a", "b")), fb.Table([1.0, 0.0], ("b",))], ("a", "b"))
    batch = fb.Table([[1.0, 0.0], [1.0, 0.0]], ("a", "j"))
    with pytest.raises(fb.FubiniError):
        fb.sample(jax.random.key(0), [batch], ("a",), n=3)


# -- derivatives ----------------------------------------------------------------------------------------------------


def test_the_derivative_of_x_plus_x_is_two():
    def doubled(x, times):
        table = fb.Table(x)
        for _ in range(times):
            table = table + table
        return jnp.exp(table.log().data)

    for times, expected in ((1, 2.0), (10, 1024.0)):
        assert float(jax.jit(jax.grad(doubled), static_argnums=1)(1.5, times)) == pytest.approx(expected, rel=1e-5)


def test_the_adjoint_of_a_product_is_the_other_operand():
    """∂ Σ f·g / ∂f(a, b) = Σ_c g(b, c)."""
    f, g = (jnp.asarray(raw.weights) for raw in CHAIN)

    def evidence(f, g):
        return jnp.exp(fb.eliminate([fb.Table(f, ("a", "b")), fb.Table(g, ("b", "c"))], ("a", "b", "c")).log().data)

    by_f, by_g = jax.jit(jax.grad(evidence, (0, 1)))(f, g)
    np.testing.assert_allclose(by_f, np.tile(CHAIN[1].weights.sum(1), (3, 1)), rtol=1e-5)
    np.testing.assert_allclose(by_g, np.tile(CHAIN[0].weights.sum(0)[:, None], (1, 3)), rtol=1e-5)


def test_marginals_are_the_derivative_of_the_evidence():
    """w ∂ log Z / ∂w is the marginal, also in plates."""
    weights = np.arange(1.0, 13.0).reshape(3, 2, 2)

    def factors(w):
        return [fb.Table(jnp.array([0.5, 1.5]), ("z",)), fb.Table(w, ("i", "z", "x"))]

    gradient = jax.jit(jax.grad(lambda w: fb.eliminate(factors(w), SCOPES, ("i",)).log().data))(jnp.asarray(weights))
    found = fb.marginals(factors(jnp.asarray(weights)), SCOPES, ("i",))["x"]
    np.testing.assert_allclose(np.asarray(weights * gradient).sum(1), numbers(found, ("i", "x")), rtol=1e-4)
    expected = derivative(lambda w: np.log((np.array([0.5, 1.5]) * w.sum(2).prod(0)).sum()), weights)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4)


# -- Deltas ---------------------------------------------------------------------------------------------------------


def point(value, *names: str, size: int = 3) -> fb.Array:
    return fb.Array(np.asarray(value), names, fb.Bint[size])


@given(raws("a", "b", sizes=SIZES), st.integers(0, 2))
def test_a_delta_substitutes_its_point(f, at):
    """Σ_a δ(a = v) f(a, b) = f(v, b), and max likewise; the order of the factors does not matter."""
    delta = fb.Delta(a=point(at))
    assert_factor((delta * f.table).sum("a"), f.weights[at], ("b",), fb.Factor)
    assert_factor((f.table * delta).sum("b", "a"), f.weights[at].sum(), (), fb.Factor)
    assert_factor((f.table * delta).max("a"), f.weights[at], ("b",), fb.Factor)
    assert_factor(delta * f.table, np.eye(3)[at][:, None] * f.weights, ("a", "b"), fb.Factor)
    assert (delta * fb.Table([1.0, 2.0, 3.0], ("a",))).argmax("a") == {"a": at}


def test_summing_a_delta_out_gives_one():
    assert_factor(fb.Delta(a=point(1)).sum("a"), 1.0, (), fb.Factor)
    both = fb.Delta(a=point(1), b=point(0, size=2))
    assert_factor(both.sum("a"), [1.0, 0.0], ("b",), fb.Factor)
    assert_factor(both.sum("a", "b"), 1.0, (), fb.Factor)
    assert_factor(both, np.outer([0.0, 1.0, 0.0], [1.0, 0.0]), ("a", "b"), fb.Delta)


@given(raws("a", "b", sizes=SIZES), raws("c", sizes=SIZES))
def test_a_delta_whose_point_varies(f, g):
    """Σ_a δ(a = v(c)) f(a, b) g(c) = f(v(c), b) g(c): a gather, then a sum by plan."""
    at = np.array([2, 0, 2])
    terms = fb.Delta(a=point(at, "c")) * f.table * g.table
    expected = f.weights[at].T * g.weights
    assert_factor(terms.sum("a"), expected, ("b", "c"), fb.Factor)
    assert_factor(terms.sum("a", "c"), expected.sum(1), ("b",), fb.Factor)
    assert_factor(terms.sum("c", "a", "b"), expected.sum(), (), fb.Factor)


def test_a_delta_at_a_variable_is_a_diagonal():
    f = fb.Table(np.arange(9.0).reshape(3, 3), ("a", "b"))
    assert_factor((f * fb.Delta(a=fb.Variable("b", fb.Bint[3]))).sum("a"), [0.0, 4.0, 8.0], ("b",), fb.Factor)
    assert_factor((f * fb.Delta(a=fb.Variable("b", fb.Bint[3]))).sum("a", "b"), 12.0, (), fb.Factor)


def test_two_deltas_of_one_name():
    delta = fb.Delta(a=point(1))
    assert_factor((delta * fb.Delta(a=point(1))).sum("a"), 1.0, (), fb.Factor)
    assert_factor((delta * fb.Delta(a=point(2))).sum("a"), 0.0, (), fb.Factor)


def test_sums_of_a_delta_in_any_order():
    """Σ_c Σ_a δ(a = v(c)) = |c|, whichever is summed first: a sum over a does not lose the input c."""
    delta = fb.Delta(a=point([2, 0, 2, 1], "c"))
    assert_factor(delta.sum("c").sum("a"), 4.0, (), fb.Factor)
    assert_factor(delta.sum("a", "c"), 4.0, (), fb.Factor)
    assert_factor(fb.eliminate([delta], ("a", "c")), 4.0, (), fb.Factor)
    assert_factor(delta.sum("a"), np.ones(4), ("c",), fb.Factor)
    assert_factor(delta.sum("a").sum("c"), 4.0, (), fb.Factor)


@settings(max_examples=20)
@given(raws("i", "a", sizes={"i": 4, "a": 3}), raws("a", sizes=SIZES))
def test_a_delta_in_a_plate(f, g):
    """Π_i Σ_a δ(a = v(i)) f(i, a): every cell its own point; marginals sit at the points."""
    at = np.array([2, 0, 2, 1])
    delta = fb.Delta(a=point(at, "i"))
    expected = f.weights[np.arange(4), at]
    assert_factor(fb.eliminate([delta, f.table], {"a": ("i",)}, ("i",)), expected.prod(), (), fb.Factor)
    if expected.prod() > 0:
        found = fb.marginals([delta, f.table], {"a": ("i",)}, ("i",))["a"]
        assert_factor(found, np.eye(3)[at], ("i", "a"))
