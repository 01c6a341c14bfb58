"""Belief propagation: exact on trees, and on cycles the fixed point of the equations written out by hand."""

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

import fubini as fb
from fubini import dist
from fubini.errors import DataError, NoRule
from tests.laws.toy import steps
from tests.propagate.graphs import factor_graphs, grid, joint, marginal, tree_graphs

BP = "belief propagation"
SCHEDULES = ("parallel", "sequential", "residual")


@given(factors=tree_graphs())
@settings(max_examples=40)
def test_exact_on_trees(factors):
    table, names = joint(factors)
    for division in (None, "allow"):
        result = fb.propagate(factors, method=BP, division=division)
        assert result.exactness.is_exact and result.converged and result.iterations == 1
        assert np.isclose(float(result.log_evidence), np.log(table.sum()), atol=1e-12)
        for name in names:
            assert np.allclose(result.marginals[name].weights, marginal(table, names, name), atol=1e-12)


@given(factors=tree_graphs())
@settings(max_examples=20)
def test_best_assignment_on_trees(factors):
    table, names = joint(factors)
    result = fb.propagate(factors, method=BP, semiring=fb.max_product)
    assert np.isclose(table[tuple(int(result.assignment[name]) for name in names)], table.max())
    assert np.isclose(float(result.log_evidence), np.log(table.max()), atol=1e-12)


def test_ties_are_decided_together():
    """x = y, and both values are as good: an arg max of each marginal alone could take different ones."""
    factors = [fb.Table([[0.0, 1.0], [1.0, 0.0]], ("x", "y"))]
    chosen = fb.propagate(factors, method=BP, semiring=fb.max_product).assignment
    assert chosen["x"] != chosen["y"]


def by_hand(factors, sweeps=500):
    """Messages of arrays, all at once, and Bethe's evidence by its definition."""
    arrays = [(np.asarray(f.weights), tuple(f.inputs)) for f in factors]
    names = sorted({name for _, scope in arrays for name in scope})
    size = {name: f.shape[scope.index(name)] for f, scope in arrays for name in scope}
    down = {(k, name): np.ones(size[name]) for k, (_, scope) in enumerate(arrays) for name in scope}
    belief = {}

    def up(k, name):
        others = [down[j, n] for j, n in down if n == name and j != k]
        return np.prod([np.ones(size[name]), *others], axis=0)

    for _ in range(sweeps):
        new = {}
        for k, (weights, scope) in enumerate(arrays):
            for name in scope:
                whole = weights
                for axis, other in enumerate(scope):
                    if other != name:
                        whole = whole * up(k, other).reshape([-1 if a == axis else 1 for a in range(len(scope))])
                message = whole.sum(tuple(a for a, other in enumerate(scope) if other != name))
                new[k, name] = message / message.sum()
        down = new
    for name in names:
        product = np.prod([m for (_, n), m in down.items() if n == name], axis=0)
        belief[name] = product / product.sum()
    evidence = 0.0
    for k, (weights, scope) in enumerate(arrays):
        whole = weights
        for axis, other in enumerate(scope):
            whole = whole * up(k, other).reshape([-1 if a == axis else 1 for a in range(len(scope))])
        b = whole / whole.sum()
        on = b > 0
        evidence += np.sum(b[on] * np.log(weights[on] / b[on]))
    for name in names:
        degree, b = sum(n == name for _, n in down), belief[name][belief[name] > 0]
        evidence += (1 - degree) * -np.sum(b * np.log(b))
    return belief, evidence


@pytest.mark.parametrize("division", [None, "allow"])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_fixed_point_and_evidence_of_bethe(schedule, division):
    factors = grid(3, 2, seed=1)
    factors[2] = fb.Table(np.array([[0.0, 1.0], [0.7, 0.4]]), factors[2].names)  # a zero
    belief, evidence = by_hand(factors)
    result = fb.propagate(factors, method=BP, schedule=schedule, division=division, tolerance=1e-12)
    assert result.converged and not result.exactness.is_exact and result.exactness.marks == (BP,)
    assert np.isclose(float(result.log_evidence), evidence, atol=1e-9)
    for name, expected in belief.items():
        assert np.allclose(result.marginals[name].weights, expected, atol=1e-9)
        assert result.marginals[name].exactness.marks == (BP,)


@given(factors=factor_graphs(zeros=False, most=4))
@settings(max_examples=15)
def test_damping_has_the_same_fixed_point(factors):
    plain = fb.propagate(factors, method=BP, tolerance=1e-11)
    damped = fb.propagate(factors, method=BP, tolerance=1e-11, damping=0.3)
    if plain.converged and damped.converged:
        for name, belief in plain.marginals.items():
            assert np.allclose(belief.weights, damped.marginals[name].weights, atol=1e-6)


def test_iterations_end_without_convergence():
    result = fb.propagate(grid(3, 2), method=BP, iterations=2, tolerance=0.0)
    assert not result.converged and result.iterations == 2 and result.change > 0
    assert "not converged in 2 iterations" in " ".join(repr(result).split())


@pytest.mark.parametrize("semiring", [fb.sum_product, fb.max_product])
def test_bundles_send_the_same_messages(semiring, monkeypatch):
    factors = [
        *grid(3, 3),
        fb.Table([[1.0, 2.0], [2.0, 1.0], [1.0, 1.0]], ("x00", "other")),
        fb.Table([0.3, 0.7], ("other",)),
    ]
    asked = {"method": BP, "iterations": 30, "semiring": semiring, "tolerance": 0.0}
    plain = fb.propagate(factors, **asked)
    module = import_module("fubini.propagate.propagation")
    monkeypatch.setattr(module, "LEAST_EDGES", 2)
    monkeypatch.setattr(module, "LEAST_ALIKE", 1)
    bundled = fb.propagate(factors, **asked)
    assert len(bundled.beliefs) < len(plain.beliefs)
    assert np.isclose(float(bundled.log_evidence), float(plain.log_evidence))
    for name, belief in plain.marginals.items():
        assert np.allclose(bundled.marginals[name].weights, belief.weights, atol=1e-12)
    assert plain.assignment == bundled.assignment


def test_gaussians_on_a_cycle_have_the_right_means():
    """Weiss and Freeman (2001): where it converges, means are exact; and every belief has a variance of its own."""
    random = np.random.default_rng(0)
    names = ("x", "y", "z", "w")
    domains = {name: fb.Real for name in names}
    factors = [fb.Gaussian(info=random.normal(size=1), precision=[[2.0]], inputs={name: fb.Real}) for name in names]
    for first, second in zip(names, (*names[1:], "x"), strict=True):
        pair = {first: domains[first], second: domains[second]}
        factors.append(fb.Gaussian(info=[0.0, 0.0], precision=[[0.5, -0.4], [-0.4, 0.5]], inputs=pair))
    exact = fb.marginals(factors, names)
    result = fb.propagate(factors, method=BP, tolerance=1e-12)
    assert result.converged
    for name in names:
        assert np.isclose(float(result.marginals[name].mean(name)), float(exact[name].mean(name)), atol=1e-9)
        assert 0.5 < float(result.marginals[name].variance(name)) / float(exact[name].variance(name)) < 1.0


def test_gaussian_tree_with_several_parents():
    x, y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
    factors = [dist.Normal(0.0, 1.0)("x"), dist.Normal(1.0, 2.0)("y"), dist.Normal(x + y, 1.0)("z"),
               dist.Normal(fb.Variable("z", fb.Real), 1.0)("u")(u=2.0)]  # fmt: skip
    result = fb.propagate(factors, method=BP)
    known = fb.marginals(factors, ("x", "y", "z"))
    for name in known:
        assert np.isclose(float(result.marginals[name].mean(name)), float(known[name].mean(name)))
        assert np.isclose(float(result.marginals[name].variance(name)), float(known[name].variance(name)))
    assert np.isclose(float(result.log_evidence), float(fb.eliminate(factors, ("x", "y", "z")).log()))


@pytest.mark.parametrize("method", ["hugin", "shafer-shenoy", BP])
def test_a_representation_from_outside(method):
    """Step functions of x in two cells of k: no file of the package knows of them."""
    heights = np.array([[1.0, 2.0], [3.0, 0.5]])
    factors = [
        steps("x", (0.0, 1.0, 3.0), heights, ("k",)),
        steps("x", (0.0, 2.0), [0.5]),
        fb.Table([0.4, 0.6], ("k",)),
    ]
    result = fb.propagate(factors, ("k",), method=method)
    mass = heights @ np.array([1.0, 1.0]) * 0.5 * np.array([0.4, 0.6])
    assert np.allclose(result.marginals["k"].weights, mass / mass.sum())
    assert np.isclose(float(result.log_evidence), np.log(mass.sum()))


@pytest.mark.parametrize("schedule", ["parallel", "sequential"])
def test_on_jax_and_under_jit(schedule):
    factors = grid(2, 2)
    expected = fb.propagate(factors, method=BP)

    def ask(weights):
        there = [fb.Table(w, factor.names) for w, factor in zip(weights, factors, strict=True)]
        answer = fb.propagate(there, ("x00",), method=BP, schedule=schedule, damping=0.1)
        return answer.marginals["x00"].weights, answer.log_evidence.data, answer.iterations, answer.converged

    given_weights = [jnp.asarray(factor.weights) for factor in factors]
    for function in (ask, jax.jit(ask)):
        weights, log_evidence, iterations, converged = function(given_weights)
        assert np.allclose(weights, expected.marginals["x00"].weights, atol=1e-4)
        assert np.isclose(log_evidence, float(expected.log_evidence), atol=1e-4)
        assert 1 < iterations < 100 and converged


# -- bad input ------------------------------------------------------------------------------------------------------


def test_zero_mass():
    factors = [
        fb.Table([1.0, 0.0], ("a",)),
        fb.Table([[0.0, 0.0], [1.0, 1.0]], ("a", "b")),
        fb.Table([1.0, 1.0], ("b",)),
    ]
    with pytest.raises(DataError, match="zero everywhere"):
        fb.propagate(factors, method=BP)


def test_improper_gaussian():
    factors = [fb.Gaussian(info=[0.0, 0.0], precision=[[1.0, -1.0], [-1.0, 1.0]], inputs={"x": fb.Real, "y": fb.Real})]
    with pytest.raises(DataError, match="improper"):
        fb.propagate(factors, method=BP)


def test_no_division():
    from tests.propagate.test_junction_tree import undivided

    with pytest.raises(NoRule, match="division=None"):
        fb.propagate(undivided(), method=BP, division="skip")
