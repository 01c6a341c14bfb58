"""Message passing under fb.represent: factors are stored as it says, and the answers are those without it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.factors.circuit import Circuit
from fubini.factors.diagram import Diagram
from fubini.factors.sparse import Sparse
from fubini.factors.train import Train
from fubini.terms.factor import terms_of

SIZES = {"a": 3, "b": 2, "c": 3, "d": 2}
TREE, RING = (("a",), ("a", "b"), ("b", "c"), ("c", "d")), (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d"))
KINDS = {
    "Sparse": (fb.rep.Sparse(36), Sparse),
    "Diagram": (fb.rep.Diagram(), Diagram),
    "Train": (fb.rep.Train(12), Train),
}
METHODS = ("hugin", "shafer-shenoy", "belief propagation")


def factors(scopes: tuple, xp: Any = np, sizes: dict = SIZES) -> list[fb.Table]:
    rng = np.random.default_rng(0)
    weights = [rng.uniform(0.2, 1.0, [sizes[name] for name in scope]) for scope in scopes]
    return [fb.Table(xp.asarray(w * (w > 0.3)), scope) for w, scope in zip(weights, scopes, strict=True)]


def require_same(given: list[fb.Table], named: dict[str, Any], kind: type, tolerance: float = 1e-9, **how: Any) -> None:
    expected = fb.propagate(given, **how)
    with fb.represent(**named):
        result = fb.propagate(given, **how)
    assert any(isinstance(term, kind) for belief in result.beliefs for term in terms_of(belief))
    assert float(result.log_evidence) == pytest.approx(float(expected.log_evidence), abs=tolerance)
    for name, marginal in expected.marginals.items():
        assert type(result.marginals[name]) is fb.Table
        assert np.asarray(result.marginals[name].weights) == pytest.approx(np.asarray(marginal.weights), abs=tolerance)
    assert result.assignment == expected.assignment and result.exactness == expected.exactness


@pytest.mark.parametrize("semiring", [fb.sum_product, fb.max_product], ids=str)
@pytest.mark.parametrize("scopes", [TREE, RING], ids=["tree", "ring"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", KINDS)
def test_propagate(name: str, method: str, scopes: tuple, semiring: fb.Semiring) -> None:
    rep, kind = KINDS[name]
    require_same(factors(scopes), dict.fromkeys(SIZES, rep), kind, method=method, semiring=semiring)


@pytest.mark.parametrize("method", METHODS)
def test_propagate_circuits(method: str) -> None:
    given = factors(TREE, sizes=dict.fromkeys(SIZES, 2))
    require_same(given, dict.fromkeys(SIZES, fb.rep.Circuit()), Circuit, method=method)


def test_propagate_on_jax() -> None:
    require_same(factors(TREE, jnp), dict.fromkeys(SIZES, fb.rep.Sparse(36)), Sparse, 2e-6)


def test_expectation_propagation() -> None:
    given = factors((("a", "b"), ("b",)))
    how: dict[str, Any] = {"names": ("a", "b"), "project": lambda factor: factor}
    expected = fb.expectation_propagation(given, **how)
    with fb.represent(a=fb.rep.Sparse(6), b=fb.rep.Sparse(6)):
        result = fb.expectation_propagation(given, **how)
    assert isinstance(result.beliefs[0], Sparse)
    for name in "ab":
        assert result.marginals[name].weights == pytest.approx(expected.marginals[name].weights, abs=1e-12)


@pytest.mark.parametrize("rep", [fb.rep.Truncated(), fb.rep.Grid((-6, 6), 60)], ids=repr)
def test_representations_of_steps_have_a_documented_error(rep: Any) -> None:
    x = fb.Variable("x", fb.Real)
    given = [dist.Normal(0.0, 1.0)("x"), dist.Normal(x, 1.0)(0.3)]
    with fb.represent(x=rep):
        with pytest.raises(fb.FubiniError, match=r"fb\.propagate under represent") as error:
            fb.propagate(given)
        with pytest.raises(fb.FubiniError, match=r"fb\.expectation_propagation under represent"):
            fb.expectation_propagation(given, ("x",))
    assert "fb.Chain" in str(error.value) and "fb.rep.Sparse" in str(error.value)


def test_unknown_names_are_refused() -> None:
    with fb.represent(z=fb.rep.Sparse(4)), pytest.raises(fb.FubiniError, match="variables of it"):
        fb.propagate(factors(TREE))


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("seed", range(3))
def test_circuits_beside_a_variable_with_an_impossible_value(method: str, seed: int) -> None:
    """Cells of a variable that is summed may be without mass, and are as long as others have some."""
    sizes, scopes = {"a": 2, "b": 3, "d": 2, "e": 3}, (("a", "d", "b"), ("d", "e"), ("e", "a"))
    rng = np.random.default_rng(seed)
    given = []
    for scope in scopes:
        weights = rng.uniform(0.1, 1.0, [sizes[name] for name in scope])
        weights[tuple(0 if name == "b" else slice(None) for name in scope)] *= "b" not in scope
        given.append(fb.Table(weights, scope))
    require_same(given, {"a": fb.rep.Circuit(), "d": fb.rep.Circuit()}, Circuit, method=method)


def test_circuits_without_mass() -> None:
    given = [fb.Table(np.zeros((2, 2)), ("a", "d")), fb.Table(np.ones((2, 3)), ("d", "e"))]
    circuit = fb.rep.Circuit()
    with fb.represent(a=circuit, d=circuit), pytest.raises(fb.FubiniError, match="zero everywhere"):
        fb.propagate(given, method="hugin")


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("turn", range(4))
def test_two_representations_meet_in_a_clique(method: str, turn: int) -> None:
    """The factors have one each; a clique that joins both is a table."""
    given = factors(RING)
    named = {"a": fb.rep.Sparse(36), "c": fb.rep.Diagram()}
    require_same(given[turn:] + given[:turn], named, fb.Factor, method=method)


def test_two_representations_of_one_factor() -> None:
    with (
        fb.represent(a=fb.rep.Sparse(36), b=fb.rep.Diagram()),
        pytest.raises(fb.FubiniError, match="one representation for the variables of one factor"),
    ):
        fb.propagate(factors(RING))
