"""Junction trees: their structure, and marginals and evidence against enumeration."""

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import fubini as fb
from fubini import dist
from fubini.eliminate.order import FREE
from fubini.errors import DataError, DomainError, MemoryLimit, NoRule, UnknownName
from fubini.propagate.junction_tree import make_junction_tree
from fubini.terms.fields import array_field
from tests.propagate.graphs import SIZES, factor_graphs, grid, joint, marginal

both = pytest.mark.parametrize("method", ["hugin", "shafer-shenoy"])


@given(factor_graphs())
@settings(max_examples=40, deadline=None)
def test_cliques_hang_together(factors):
    scopes = [tuple(factor.inputs) for factor in factors]
    sizes = {name: SIZES[name] for scope in scopes for name in scope}
    tree = make_junction_tree(scopes, sizes, FREE)
    for scope, home in zip(scopes, tree.homes, strict=True):
        assert set(scope) <= tree.cliques[home]
    for clique, parent in enumerate(tree.above):
        assert parent is None or parent > clique
        assert not any(tree.cliques[clique] <= other for k, other in enumerate(tree.cliques) if k != clique)
    for name in sizes:  # the cliques of a variable form a tree: as many edges as cliques less one
        having = [k for k, clique in enumerate(tree.cliques) if name in clique]
        edges = [k for k in having if tree.above[k] is not None and name in tree.cliques[tree.above[k]]]
        assert len(edges) == len(having) - 1


@both
@given(factors=factor_graphs())
@settings(max_examples=40, deadline=None)
def test_marginals_and_evidence_by_enumeration(method, factors):
    table, names = joint(factors)
    result = fb.propagate(factors, method=method)
    assert np.isclose(float(result.log_evidence), np.log(table.sum()), atol=1e-12)
    for name in names:
        belief = result.marginals[name]
        assert isinstance(belief, fb.Table)
        assert np.allclose(belief.weights, marginal(table, names, name), atol=1e-12)
        assert belief.exactness.is_exact
    assert result.exactness.is_exact and result.converged


@both
@given(factors=factor_graphs())
@settings(max_examples=25, deadline=None)
def test_max_marginals_and_assignment(method, factors):
    table, names = joint(factors)
    result = fb.propagate(factors, method=method, semiring=fb.max_product)
    at = tuple(int(result.assignment[name]) for name in names)
    assert np.isclose(table[at], table.max())
    assert np.isclose(float(result.log_evidence), np.log(table.max()), atol=1e-12)
    best = fb.argmax(factors, names)
    assert np.isclose(table[tuple(int(best[name]) for name in names)], table[at])


@both
def test_beliefs_of_cliques_sum_to_the_evidence(method):
    factors = grid(3, 2)
    result = fb.propagate(factors, ("x00",), method=method)
    for belief in result.beliefs:
        assert np.isclose(float(belief.sum(*belief.inputs).log()), float(result.log_evidence))


@both
def test_disconnected_graphs_and_numbers(method):
    factors = [fb.Table([1.0, 3.0], ("a",)), fb.Table([2.0, 2.0], ("b",)), fb.Table(0.5)]
    result = fb.propagate(factors, method=method)
    assert np.isclose(float(result.log_evidence), np.log(8.0))
    assert np.allclose(result.marginals["a"].weights, [0.25, 0.75])


@both
def test_batch_stays_an_input(method):
    random = np.random.default_rng(0)
    f, g = random.uniform(size=(4, 2, 3)), random.uniform(size=(3, 2))
    result = fb.propagate(
        [fb.Table(f, ("i", "a", "b")), fb.Table(g, ("b", "c"))], ("a", "c"), method=method, batch=("i",)
    )
    whole = f[..., None] * g[None, None]
    assert np.allclose(result.log_evidence.data, np.log(whole.sum((1, 2, 3))))
    belief = result.marginals["c"]
    expected = whole.sum((1, 2)) / whole.sum((1, 2, 3))[:, None]
    assert np.allclose(belief.weights if belief.names == ("i", "c") else belief.weights.T, expected)


@both
def test_evidence_by_substitution(method):
    factors = grid(2, 3)
    given_value = [factor(x11=2) if "x11" in factor.inputs else factor for factor in factors]
    table, names = joint(given_value)
    result = fb.propagate(given_value, method=method)
    assert np.allclose(result.marginals["x00"].weights, marginal(table, names, "x00"))


def gaussian_chain():
    x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Reals[2])
    return [
        dist.Normal(0.5, 1.0)("x"),
        fb.Gaussian(info=[0.0, 0.0, 1.0], precision=[[1.0, -1.0, 0.0], [-1.0, 2.0, 0.5], [0.0, 0.5, 2.0]],
                    inputs={"x": fb.Real, "y": fb.Reals[2]}),
        dist.Normal(y[0] + y[1], 2.0)("z"),
        dist.Normal(x, 3.0)("u")(u=1.0),
    ]  # fmt: skip


@both
def test_gaussians(method):
    factors = gaussian_chain()
    result = fb.propagate(factors, method=method)
    known = fb.marginals(factors, ("x", "y", "z"))
    for name, belief in known.items():
        assert isinstance(result.marginals[name], fb.Gaussian)
        assert np.allclose(result.marginals[name].mean(name).data, belief.mean(name).data)
        assert np.allclose(result.marginals[name].covariance(name).data, belief.covariance(name).data)
    assert np.isclose(float(result.log_evidence), float(fb.eliminate(factors, ("x", "y", "z")).log()))


@both
def test_gaussians_and_tables_together(method):
    """k chooses the mean of x, of which y is a noisy copy; Lauritzen (1992): discrete marginals are exact."""
    k, x = fb.Variable("k", fb.Bint[3]), fb.Variable("x", fb.Real)
    means = fb.Array(np.array([-1.0, 0.0, 2.0]), ("k",))
    factors = [fb.Table([0.2, 0.3, 0.5], ("k",)), dist.Normal(means, 1.0)("x"), dist.Normal(x, 0.5)("y")(y=0.7)]
    result = fb.propagate(factors, ("k", "x"), method=method)
    weights = np.array([0.2, 0.3, 0.5]) * np.exp(-0.5 * (0.7 - np.array([-1, 0, 2])) ** 2 / 1.25) / np.sqrt(2.5 * np.pi)
    assert np.isclose(float(result.log_evidence), np.log(weights.sum()))
    assert np.allclose(result.marginals["k"].weights, weights / weights.sum())
    gain = 1 / 1.25
    mean = weights @ (np.array([-1, 0, 2]) + gain * (0.7 - np.array([-1, 0, 2]))) / weights.sum()
    assert np.isclose(float(result.marginals["x"].mean("x")), mean)
    assert k.inputs["k"].size == 3


@both
def test_on_jax_and_under_jit(method):
    factors = grid(2, 2)
    expected = fb.propagate(factors, method=method)
    on_jax = [fb.Table(jnp.asarray(factor.weights), factor.names) for factor in factors]
    result = fb.propagate(on_jax, method=method)
    assert isinstance(result.marginals["x11"].weights, jax.Array)
    assert np.allclose(result.marginals["x11"].weights, expected.marginals["x11"].weights, atol=1e-6)

    @jax.jit
    def ask(weights):
        there = [fb.Table(w, factor.names) for w, factor in zip(weights, factors, strict=True)]
        answer = fb.propagate(there, ("x00",), method=method)
        return answer.marginals["x00"].weights, answer.log_evidence.data

    weights, log_evidence = ask([jnp.asarray(factor.weights) for factor in factors])
    assert np.allclose(weights, expected.marginals["x00"].weights, atol=1e-6)
    assert np.isclose(log_evidence, float(expected.log_evidence), atol=1e-5)


# -- bad input ------------------------------------------------------------------------------------------------------


def test_unknown_names():
    with pytest.raises(UnknownName, match="'b'"):
        fb.propagate(fb.Table([1.0, 2.0], ("a",)), ("b",))
    with pytest.raises(UnknownName, match="asked for"):
        fb.propagate(fb.Table([1.0, 2.0], ("a",))).marginals["b"]


@both
def test_zero_mass(method):
    factors = [fb.Table([1.0, 0.0], ("a",)), fb.Table([[0.0, 0.0], [1.0, 1.0]], ("a", "b"))]
    with pytest.raises(DataError, match="zero everywhere"):
        fb.propagate(factors, method=method)
    on_jax = [fb.Table(jnp.asarray(factor.weights), factor.names) for factor in factors]
    with pytest.raises(DataError, match="zero everywhere"):
        fb.propagate(on_jax, method=method)


@both
def test_improper_gaussian(method):
    with pytest.raises(DataError, match="improper"):
        fb.propagate(fb.Gaussian(info=[0.0, 0.0], precision=[[1.0, -1.0], [-1.0, 1.0]],
                                 inputs={"x": fb.Real, "y": fb.Real}), method=method)  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"method": "variational"}, "'shafer-shenoy'"),
        ({"schedule": "random"}, "'residual'"),
        ({"division": "never"}, "'clip'"),
        ({"semiring": fb.min_sum}, "max_product"),
    ],
)
def test_unknown_options(asked, message):
    with pytest.raises(DomainError, match=message):
        fb.propagate(fb.Table([1.0, 2.0], ("a",)), **asked)


@pytest.mark.parametrize("asked", [{"damping": 1.0}, {"iterations": 0}, {"tolerance": -1.0}])
def test_numbers_out_of_range(asked):
    with pytest.raises(DataError, match="expected"):
        fb.propagate(fb.Table([1.0, 2.0], ("a",)), **asked)


class Undivided(fb.Factor):
    """Weights of bounded integers, of which nothing is said but products and sums."""

    weights: np.ndarray = array_field()

    def __init__(self, weights, inputs):
        self._set(weights=weights, inputs=dict(inputs))

    def _renamed(self, names):
        return Undivided(self.weights, {names.get(name, name): domain for name, domain in self.inputs.items()})

    @property
    def table(self):
        return fb.Table(self.weights, self.inputs)


@fb.heads.exact_multiply.rule
def multiply_undivided(f: Undivided, g: Undivided) -> Undivided:
    """f·g"""
    table = (f.table * g.table)._joined()
    return Undivided(table.weights, table.inputs)


@fb.heads.exact_sum.rule
def sum_undivided(semiring: fb.Semiring, f: Undivided, names: tuple) -> fb.Factor:
    """Σ_x f"""
    table = f.table.reduced(semiring, names)
    return Undivided(table.weights, table.inputs) if table.inputs else table


@fb.heads.exact_normalize.rule
def normalize_undivided(f: Undivided, total: fb.Table) -> Undivided:
    """f / Z"""
    return Undivided(f.weights / total.weights, f.inputs)


def undivided():
    return [Undivided(factor.weights, factor.inputs) for factor in grid(2, 2)]


def test_hugin_names_the_operation_that_is_missing():
    with pytest.raises(NoRule, match="divide") as error:
        fb.propagate(undivided())
    assert "shafer-shenoy" in str(error.value) and "exact_divide" in str(error.value)


@pytest.mark.parametrize("method", ["shafer-shenoy", "belief propagation"])
def test_a_factor_that_cannot_divide(method):
    result = fb.propagate(undivided(), method=method)
    expected = fb.propagate(grid(2, 2), method=method)
    assert isinstance(result.marginals["x11"], Undivided)
    assert np.allclose(result.marginals["x11"].weights, expected.marginals["x11"].weights)
    assert np.isclose(float(result.log_evidence), float(expected.log_evidence))


@both
def test_moment_matching_projects_messages(method):
    """Two switches choose the steps of a random walk: messages over x stay one Gaussian for each switch."""
    x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
    step = fb.Array(np.array([-1.0, 1.5]), ("j",))
    factors = [
        fb.Table([0.3, 0.7], ("k",)),
        dist.Normal(fb.Array(np.array([0.0, 2.0]), ("k",)), 1.0)("x"),
        fb.Table([0.5, 0.5], ("j",)),
        dist.Normal(x + step, 1.0)("y"),
        dist.Normal(y, 0.5)("z")(z=1.0),
    ]
    exact = fb.propagate(factors, method=method)
    with fb.moment_matching():
        result = fb.propagate(factors, ("k", "j", "x", "y"), method=method)
    belief = result.marginals["y"]
    assert belief.exactness.marks == result.exactness.marks == ("projected(moment_matching(window=1))",)
    assert exact.marginals["y"].exactness.is_exact and exact.exactness.is_exact
    assert abs(float(belief.mean("y")) - float(exact.marginals["y"].mean("y"))) < 0.05
    assert np.abs(result.marginals["k"].weights - exact.marginals["k"].weights).max() < 0.05


def test_a_tree_that_is_too_large(monkeypatch):
    monkeypatch.setattr(import_module("fubini.eliminate.tree"), "PATIENCE", 0.01)
    names = [f"x{k}" for k in range(45)]
    factors = [fb.Table(np.ones((2, 2)), (a, b)) for k, a in enumerate(names) for b in names[:k]]
    with pytest.raises(MemoryLimit, match="belief propagation"):
        fb.propagate(factors)
