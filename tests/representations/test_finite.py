"""Sparse, Diagram and Train by name: every question through every door gives the numbers of enumeration."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.eliminate.plan import PLANS
from fubini.errors import DataError, DomainError, FubiniError, Intractable, MemoryLimit, NameClash, UnknownName
from fubini.terms.factor import terms_of
from tests.counting import no_tracing

SIZES = {"a": 3, "b": 4, "c": 2, "d": 3}
SCOPES = (("a",), ("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))
NAMES = tuple(SIZES)
REPS = [fb.rep.Sparse(48), fb.rep.Diagram(), fb.rep.Train(12)]

reps = pytest.mark.parametrize("rep", REPS, ids=repr)
engines = pytest.mark.parametrize("xp", [np, jnp], ids=["numpy", "jax"])


def arrays(seed: int = 0) -> list[np.ndarray]:
    """Weights, about half of them zero, and one cell of each positive."""
    rng = np.random.default_rng(seed)
    made = []
    for scope in SCOPES:
        shape = [SIZES[name] for name in scope]
        weights = rng.uniform(0.2, 1.0, shape) * (rng.random(shape) < 0.75)
        weights[(0,) * len(scope)] = 0.5
        made.append(weights)
    return made


def factors(weights: Any, xp: Any = np) -> list[fb.Table]:
    return [fb.Table(xp.asarray(w), scope) for w, scope in zip(weights, SCOPES, strict=True)]


def enumerated(weights: Any) -> np.ndarray:
    """The product over all cells, axes in the order of NAMES."""
    axes = ",".join("".join(scope) for scope in SCOPES)
    return np.einsum(f"{axes}->{''.join(NAMES)}", *weights)


def over(rep: Any, names: Any = NAMES) -> Any:
    return fb.represent(**dict.fromkeys(names, rep))


def tolerance(xp: Any) -> float:
    return 1e-9 if xp is np else 2e-5


# -- factors --------------------------------------------------------------------------------------------------------


@reps
@engines
@pytest.mark.one_in(3)
def test_eliminate(rep: Any, xp: Any) -> None:
    weights, rtol = arrays(), tolerance(xp)
    whole = enumerated(weights)
    with over(rep):
        total = fb.eliminate(factors(weights, xp), NAMES)
        kept = fb.eliminate(factors(weights, xp), ("b", "c"))
        summed = (factors(weights, xp)[1] * factors(weights, xp)[2]).sum("b")
    assert type(total) is fb.Table and total.exactness.is_exact
    np.testing.assert_allclose(float(total), whole.sum(), rtol=rtol)
    assert rep.kind in {type(term) for term in terms_of(kept)}
    joined = np.asarray(fb.stack(fb.stack(kept.numbers(), "d"), "a").data)
    np.testing.assert_allclose(joined, whole.sum((1, 2)), rtol=rtol, atol=1e-7)
    assert type(summed) is rep.kind
    np.testing.assert_allclose(summed.weights, weights[1] @ weights[2], rtol=rtol, atol=1e-7)


@reps
@engines
def test_marginals(rep: Any, xp: Any) -> None:
    weights = arrays()
    whole = enumerated(weights)
    with over(rep):
        several = fb.marginals(factors(weights, xp), NAMES)
        one = fb.marginals(factors(weights, xp), ("b",))
    assert one["b"].exactness.is_exact
    np.testing.assert_allclose(one["b"].weights, several["b"].weights, rtol=tolerance(xp), atol=1e-7)
    for axis, name in enumerate(NAMES):
        assert type(several[name]) is fb.Table and several[name].exactness.is_exact
        expected = whole.sum(tuple(k for k in range(4) if k != axis)) / whole.sum()
        np.testing.assert_allclose(several[name].weights, expected, rtol=tolerance(xp), atol=1e-7)


@reps
@engines
def test_argmax_and_sample(rep: Any, xp: Any) -> None:
    weights = arrays()
    whole = enumerated(weights)
    with over(rep):
        best = fb.argmax(factors(weights, xp), NAMES)
        draws = fb.sample(jax.random.key(0), factors(weights, xp), NAMES, n=20_000)
    assert tuple(int(best[name]) for name in NAMES) == np.unravel_index(whole.argmax(), whole.shape)
    cells = np.ravel_multi_index([np.asarray(draws[name]) for name in NAMES], whole.shape)
    shares = np.bincount(cells, minlength=whole.size) / 20_000
    np.testing.assert_allclose(shares, whole.reshape(-1) / whole.sum(), atol=0.015)


@reps
@pytest.mark.parametrize("semiring", [fb.max_product, fb.min_sum, fb.counting, fb.boolean], ids=str)
@engines
def test_other_semirings(rep: Any, semiring: fb.Semiring, xp: Any) -> None:
    weights = arrays()
    expected = fb.eliminate(factors(weights), ("b", "c", "d"), semiring=semiring)
    with over(rep):
        found = fb.eliminate(factors(weights, xp), ("b", "c", "d"), semiring=semiring)
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=tolerance(xp))


def numbers(factor: fb.Factor) -> np.ndarray:
    """The weights for each value of a."""
    return np.asarray(fb.stack(factor.numbers(), "a").data)


@reps
@engines
@pytest.mark.one_in(3)
def test_plates(rep: Any, xp: Any) -> None:
    """Σ_a q(a) Π_i Σ_z p(i, a, z) f(i, z)"""
    rng = np.random.default_rng(1)
    q, p = rng.uniform(0.2, 1.0, 3), rng.uniform(0.2, 1.0, (4, 3, 2))
    f = rng.uniform(0.2, 1.0, (4, 2)) * np.array([[1, 0], [1, 1], [0, 1], [1, 1]])
    pairs = ((q, ("a",)), (p, ("i", "a", "z")), (f, ("i", "z")))
    with over(rep, ("a", "z")):
        given = [fb.Table(xp.asarray(w), names) for w, names in pairs]
        total = fb.eliminate(given, ("a", "z"), ("i",))
        beliefs = fb.marginals(given, ("a", "z"), ("i",))
    by_a = q * np.einsum("iaz,iz->ia", p, f).prod(0)
    np.testing.assert_allclose(float(total), by_a.sum(), rtol=tolerance(xp))
    np.testing.assert_allclose(beliefs["a"].weights, by_a / by_a.sum(), rtol=tolerance(xp))
    given_a = np.einsum("iaz,iz->iaz", p, f) / np.einsum("iaz,iz->ia", p, f)[..., None]
    expected = np.einsum("a,iaz->iz", by_a / by_a.sum(), given_a)
    found = np.asarray(fb.stack(fb.stack(beliefs["z"].numbers(), "z"), "i").data)
    np.testing.assert_allclose(found, expected, rtol=tolerance(xp), atol=1e-7)


@reps
def test_under_jit_with_derivatives(rep: Any) -> None:
    weights = arrays()

    def log_evidence(given: Any) -> Any:
        return fb.eliminate([fb.Table(w, scope) for w, scope in zip(given, SCOPES, strict=True)], NAMES).log().data

    with jax.enable_x64(True):
        given = [jnp.asarray(w) for w in weights]
        expected = jax.grad(log_evidence)(given)
        with over(rep):
            np.testing.assert_allclose(jax.jit(log_evidence)(given), np.log(enumerated(weights).sum()), rtol=1e-9)
            found = jax.jit(jax.grad(log_evidence))(given)
        for w, ours, theirs in zip(weights, found, expected, strict=True):
            np.testing.assert_allclose(np.asarray(ours)[w > 0], np.asarray(theirs)[w > 0], rtol=1e-8)


@reps
def test_marginals_and_choices_under_jit(rep: Any) -> None:
    weights = arrays()
    whole = enumerated(weights)

    @jax.jit
    def answers(given: Any) -> Any:
        tables = [fb.Table(w, scope) for w, scope in zip(given, SCOPES, strict=True)]
        beliefs = {name: belief.weights for name, belief in fb.marginals(tables, NAMES).items()}
        return beliefs, fb.argmax(tables, NAMES), fb.sample(jax.random.key(1), tables, NAMES)

    with over(rep):
        beliefs, best, draw = answers([jnp.asarray(w) for w in weights])
    for axis, name in enumerate(NAMES):
        expected = whole.sum(tuple(k for k in range(4) if k != axis)) / whole.sum()
        np.testing.assert_allclose(beliefs[name], expected, rtol=1e-4, atol=1e-6)
    assert tuple(int(best[name]) for name in NAMES) == np.unravel_index(whole.argmax(), whole.shape)
    assert whole[tuple(int(draw[name]) for name in NAMES)] > 0


@reps
def test_new_data_compile_nothing(rep: Any) -> None:
    """Arrays of JAX: zeros at the same cells for a Diagram, whose nodes are structure."""
    first = [np.where(w > 0, 1.0 + np.arange(w.size).reshape(w.shape), 0.0) for w in arrays()]
    with over(rep):
        fb.eliminate(factors(first, jnp), NAMES)
        with no_tracing():
            again = fb.eliminate(factors([w * 1.5 for w in first], jnp), NAMES)
    np.testing.assert_allclose(float(again), 1.5**5 * enumerated(first).sum(), rtol=1e-5)


def test_data_that_differ_a_little_share_a_plan() -> None:
    """Storage is rounded up to powers of two: one cell more or less makes no other plan."""
    weights = arrays()
    fewer = [w.copy() for w in weights]
    assert np.count_nonzero(weights[1]) not in (1, 2, 3, 5, 9)  # where one less is another power of two
    fewer[1][np.unravel_index(np.flatnonzero(weights[1])[-1], weights[1].shape)] = 0.0
    with over(fb.rep.Sparse(48)):
        fb.eliminate(factors(weights), NAMES)
        before = PLANS.misses
        found = fb.eliminate(factors(fewer), NAMES)
    assert PLANS.misses == before
    np.testing.assert_allclose(float(found), enumerated(fewer).sum(), rtol=1e-12)


def test_one_variable_alone_and_densities() -> None:
    """Factors without the variable stay tables; what can be joined into a table is converted too."""
    p = dist.Categorical(np.array([0.5, 0.0, 0.5]))("a")
    with fb.represent(b=fb.rep.Sparse(12)):
        shown = str(fb.explain([p, *factors(arrays())[1:3]], ("b", "c")))
    assert "sparse" in shown
    with fb.represent(a=fb.rep.Sparse(12)):
        kept = fb.eliminate([p, factors(arrays())[1]], ("b",))
    assert all(isinstance(term, fb.rep.Sparse.kind) for term in terms_of(kept))
    expected = np.array([0.5, 0.0, 0.5]) * arrays()[1].sum(1)
    np.testing.assert_allclose(numbers(kept), expected, rtol=1e-12)


def test_explain_names_the_rules() -> None:
    rules = {"contract_sparse": fb.rep.Sparse(48), "contract_diagrams": fb.rep.Diagram(), "contract_trains": REPS[2]}
    for rule, rep in rules.items():
        with over(rep):
            assert rule in str(fb.explain(factors(arrays()), NAMES))
    assert "contract_two_tables" in str(fb.explain(factors(arrays()), NAMES))


# -- trains that are cut --------------------------------------------------------------------------------------------


@engines
def test_a_train_that_is_cut_says_so(xp: Any) -> None:
    """With all ranks at most 2 the evidence is near; every answer is tagged, and the evidence has its error."""
    weights = [np.random.default_rng(2).uniform(0.5, 1.0, w.shape) for w in arrays()]
    whole = enumerated(weights)
    with over(fb.rep.Train(2)):
        total = fb.eliminate(factors(weights, xp), NAMES)
        beliefs = fb.marginals(factors(weights, xp), NAMES)
    assert total.exactness.marks == ("projected(train)",)
    np.testing.assert_allclose(float(total), whole.sum(), rtol=0.02)
    assert abs(float(total) / whole.sum() - 1) > 1e-9
    for axis, name in enumerate(NAMES):
        assert type(beliefs[name]) is fb.Table and beliefs[name].exactness.marks == ("projected(train)",)
        expected = whole.sum(tuple(k for k in range(4) if k != axis)) / whole.sum()
        np.testing.assert_allclose(beliefs[name].weights, expected, atol=0.05)


# -- networks and models --------------------------------------------------------------------------------------------

A = np.array([0.2, 0.5, 0.3])
B = np.array([[0.9, 0.1, 0.0], [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])
C = np.array([[0.9, 0.1], [0.5, 0.5], [0.0, 1.0]])
JOINT = np.einsum("a,ab,bc->abc", A, B, C)


def network() -> fb.Network:
    tables = (fb.Table(A, ("a",)), fb.Table(B, ("a", "b")), fb.Table(C, ("b", "c")))
    variables = {"a": fb.Bint[3], "b": fb.Bint[3], "c": fb.Bint[2]}
    return fb.Network(variables, tables, children=("a", "b", "c"))


@fb.model
def model(p: Any) -> Any:
    a = yield dist.Categorical(p)
    b = yield dist.Categorical(jnp.asarray(B)[a])
    c = yield dist.Categorical(jnp.asarray(C)[b])


@reps
def test_a_network(rep: Any) -> None:
    """All variables named, that which is observed too."""
    with over(rep, "abc"):
        seen = network().condition(c=1)
        log_evidence, beliefs, best = float(seen.log_evidence()), seen.marginals(), seen.map()
        draws = seen.sample(jax.random.key(0), 4000)
        shown = str(fb.explain(seen))
    assert rep.kind.__name__.lower() in shown
    np.testing.assert_allclose(log_evidence, np.log(JOINT[..., 1].sum()), rtol=1e-12)
    posterior = JOINT[..., 1] / JOINT[..., 1].sum()
    np.testing.assert_allclose(beliefs["a"].weights, posterior.sum(1), rtol=1e-12)
    np.testing.assert_allclose(beliefs["b"].weights, posterior.sum(0), rtol=1e-12)
    assert (best["a"], best["b"]) == np.unravel_index(posterior.argmax(), (3, 3))
    np.testing.assert_allclose(np.bincount(draws["a"], minlength=3) / 4000, posterior.sum(1), atol=0.03)


@reps
@pytest.mark.parametrize("make", [lambda: model(A), lambda: network().joint()], ids=["model", "joint"])
def test_a_model(rep: Any, make: Callable) -> None:
    with over(rep, "abc"):
        post = make().condition(c=1)
        log_evidence, belief, best = float(post.log_evidence()), post.marginal("a"), post.map()
        whole = post.posterior()
        pair = whole.sum("a")
    expected = JOINT[..., 1] / JOINT[..., 1].sum()
    np.testing.assert_allclose(log_evidence, np.log(JOINT[..., 1].sum()), rtol=1e-6)
    assert all(type(term) is fb.Table for term in terms_of(belief))
    np.testing.assert_allclose(numbers(belief), expected.sum(1), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(fb.stack(pair.numbers(), "b").data), expected.sum(0), rtol=1e-6)
    both = (best["a"], best["b"]) if isinstance(best, dict) else (best.a, best.b)
    assert tuple(map(int, both)) == np.unravel_index(expected.argmax(), (3, 3))


@reps
def test_a_model_under_jit(rep: Any) -> None:
    @jax.jit
    def log_evidence(p: Any) -> Any:
        return model(p).condition(c=1).log_evidence().data

    with over(rep, "abc"):
        np.testing.assert_allclose(log_evidence(jnp.asarray(A)), np.log(JOINT[..., 1].sum()), rtol=1e-5)


# -- errors ---------------------------------------------------------------------------------------------------------


def refused(kind: type[FubiniError], *words: str) -> Any:
    return pytest.raises(kind, match="(?s)" + ".*".join(map(re.escape, words)))


DOORS = {
    "eliminate": lambda: fb.eliminate(factors(arrays()), NAMES),
    "marginals": lambda: fb.marginals(factors(arrays()), ("a", "b")),
    "argmax": lambda: fb.argmax(factors(arrays()), NAMES),
    "sample": lambda: fb.sample(jax.random.key(0), factors(arrays()), NAMES),
    "explain": lambda: fb.explain(factors(arrays()), NAMES),
    "network": lambda: network().log_evidence(),
    "network marginals": lambda: network().marginals("a"),
    "network map": lambda: network().map(),
    "network sample": lambda: network().sample(jax.random.key(0)),
    "model": lambda: model(A).condition(c=1).log_evidence(),
    "model marginal": lambda: model(A).condition(c=1).marginal("a"),
    "model posterior": lambda: model(A).condition(c=1).posterior(),
    "model map": lambda: model(A).condition(c=1).map(),
}


@pytest.mark.parametrize("door", DOORS)
def test_an_unknown_name(door: str) -> None:
    with fb.represent(cc=fb.rep.Diagram()), refused(UnknownName, "represent(cc=Diagram())", "'a', 'b', 'c'", "'c'"):
        DOORS[door]()


@engines
def test_a_table_above_the_capacity(xp: Any) -> None:
    needed = np.count_nonzero(arrays()[1])
    words = ("capacity 4", "at most 4 cells", f"the capacity needed is {needed}", f"fb.rep.Sparse({needed})")
    with over(fb.rep.Sparse(4)), refused(MemoryLimit, *words):
        fb.eliminate(factors(arrays(), xp), NAMES)


def test_a_product_above_the_capacity() -> None:
    """Both factors fit, and their product does not."""
    f, g = fb.Table(np.eye(80), ("a", "b")), fb.Table(np.ones((80, 80)) - np.eye(80), ("b", "c"))
    with over(fb.rep.Sparse(80 * 79), "abc"):
        total = fb.eliminate([f, g], ("b",))
        assert total.stored == 80 * 79
        shifted = fb.Table(np.eye(80) + np.roll(np.eye(80), 1, 1), ("a", "b"))
        with refused(MemoryLimit, "in a Sparse of capacity 6320", "the capacity needed is 6400", "fb.rep.Sparse(6400)"):
            fb.eliminate([shifted, g], ("b",))


def test_an_overflow_under_jit_is_not_a_number() -> None:
    @jax.jit
    def log_evidence(w: Any) -> Any:
        tables = [fb.Table(w, ("a", "b")), fb.Table(jnp.ones(2), ("a",))]
        return fb.eliminate(tables, ("a", "b")).log().data

    with over(fb.rep.Sparse(3), "ab"):
        np.testing.assert_allclose(log_evidence(jnp.eye(2)), np.log(2.0), rtol=1e-6)
        assert np.isnan(log_evidence(jnp.ones((2, 2))))
        with pytest.raises(DataError, match="in a Sparse of capacity 3"):
            fb.checked(log_evidence)(jnp.ones((2, 2)))


@reps
def test_a_real_variable(rep: Any) -> None:
    x = fb.Gaussian(inputs={"x": fb.Real}, mean=[0.0], covariance=[[1.0]])
    with fb.represent(x=rep), refused(DomainError, f"{rep} of 'x'", "bounded integers"):
        fb.eliminate([x], ("x",))


@reps
def test_a_sequence_with_real_states(rep: Any) -> None:
    if isinstance(rep, fb.rep.Diagram):  # what a step hands on is as without it
        return
    switch = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("s", "s_next"))
    move = fb.dist.Normal(fb.Variable("x", fb.Real), 1.0)("x_next")
    init = fb.Table([0.5, 0.5], ("s",)) * fb.dist.Normal(0.0, 1.0)("x")
    chain = fb.Chain(init=init, factor=switch * move, time="t", step={"s": "s_next", "x": "x_next"}, length=3)
    with fb.represent(s=rep), refused(Intractable, f"{rep} in a sequence with 'x'", "all bounded integers"):
        chain.filter()


def test_two_representations_of_one_factor() -> None:
    words = ("Table(a: Bint[3], b: Bint[4])", "one representation", "Sparse(48) and Diagram()")
    with fb.represent(a=fb.rep.Sparse(48), b=fb.rep.Diagram(), c=fb.rep.Dense()), refused(Intractable, *words):
        fb.eliminate(factors(arrays()), NAMES)
    with fb.represent(a=fb.rep.Sparse(48)), refused(NameClash, "represent(a=Diagram())", "one representation"):
        fb.represent(a=fb.rep.Diagram())


@pytest.mark.parametrize("capacity", [0, -1, 2.5, True])
def test_a_bad_capacity(capacity: Any) -> None:
    with refused(DataError, f"a Sparse of capacity {capacity!r}", "at least 1"):
        fb.rep.Sparse(capacity)


@pytest.mark.parametrize("rank", [0, 1.5])
def test_a_bad_rank(rank: Any) -> None:
    with pytest.raises(FubiniError, match="rank"):
        fb.rep.Train(rank)
