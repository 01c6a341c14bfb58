"""The density of some inputs given the others (CONDITION), and indicators."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.interpretations import interpret
from fubini.errors import NoRule
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.indicators import is_equal, is_first
from fubini.factors.table import Table
from fubini.terms.heads import CONDITION

ENGINES = pytest.mark.parametrize("engine", [np.asarray, jnp.asarray], ids=["numpy", "jax"])


def weights(factor: fb.Factor, *names: str) -> np.ndarray:
    assert isinstance(factor, Table)
    found = factor.numbers()
    return np.transpose(np.asarray(found.array), [found.names.index(name) for name in names])


@ENGINES
def test_condition_table(engine) -> None:
    """f / Σ_z f, and 0 where all of a column is 0"""
    f = np.array([[0.2, 0.0, 3.0], [0.6, 0.0, 1.0]])
    (given,) = interpret(CONDITION, fb.Table(engine(f), ("z", "y")), ("z",))
    np.testing.assert_allclose(weights(given, "z", "y"), [[0.25, 0.0, 0.75], [0.75, 0.0, 0.25]], rtol=1e-6)
    assert given.exactness.is_exact
    assert interpret(CONDITION, fb.Table(engine(f), ("z", "y")), ()) == ()


def switching(engine) -> fb.Gaussian:
    """exp(h·(x, y) − ½ (x, y)·K (x, y)) for each z and k"""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(2, 3, 2, 2))
    inputs = {"z": fb.Bint[2], "k": fb.Bint[3], "x": fb.Real, "y": fb.Real}
    precision = root @ np.swapaxes(root, -1, -2) + np.eye(2)
    return fb.Gaussian(info=engine(rng.normal(size=(2, 3, 2))), precision=engine(precision), inputs=inputs)


def values(factor: fb.Factor, x: np.ndarray, y: float) -> np.ndarray:
    """The weights at points of x, over z and k."""
    at = [factor(x=float(point), y=y) for point in x]
    return np.stack([np.broadcast_to(weights(each, "z", "k"), (2, 3)) for each in at])


@ENGINES
def test_condition_gaussian(engine) -> None:
    """p(x | y, z, k) = f / ∫ f dx by quadrature, and p(z | k) = ∫∫ f dx dy / Σ_z ∫∫ f dx dy"""
    f = switching(engine)
    density, mass = interpret(CONDITION, f, ("x", "z"))
    assert isinstance(density, Gaussian) and isinstance(mass, Table)
    assert set(mass.inputs) == {"z", "k"} and density.exactness.is_exact and mass.exactness.is_exact
    x = np.linspace(-12.0, 12.0, 241)
    joint = values(f, x, 0.4)
    expected = joint / (joint.sum(0) * (x[1] - x[0]))
    np.testing.assert_allclose(values(density, x[100:140:8], 0.4), expected[100:140:8], rtol=1e-5)
    total = weights(f.sum("x", "y"), "z", "k")
    np.testing.assert_allclose(weights(mass, "z", "k"), total / total.sum(0), rtol=1e-6)


@ENGINES
def test_condition_gaussian_on_one_kind(engine) -> None:
    """Real names alone, or bounded integers alone, are one factor each."""
    f = switching(engine)
    assert [type(part) for part in interpret(CONDITION, f, ("x",))] == [Gaussian]
    assert [type(part) for part in interpret(CONDITION, f, ("z",))] == [Table]


def test_condition_under_jit() -> None:
    f = switching(jnp.asarray)
    eager = interpret(CONDITION, f, ("x", "z"))
    traced = jax.jit(lambda f: interpret(CONDITION, f, ("x", "z")))(f)
    for one, other in zip(jax.tree.leaves(eager), jax.tree.leaves(traced), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_no_rule_conditions_a_mixture() -> None:
    """It used to be left out of the product."""
    f = switching(np.asarray).sum("z")
    with pytest.raises(NoRule, match="condition_gaussian"):
        interpret(CONDITION, f, ("x",))


# -- indicators -----------------------------------------------------------------------------------------------------


def test_is_equal() -> None:
    same = is_equal("a", "b", fb.Bint[3])
    np.testing.assert_array_equal(weights(same, "a", "b"), np.eye(3))
    f = fb.Gaussian(info=np.array([0.3]), precision=np.eye(1), inputs={"a": fb.Real})
    same = is_equal("a", "b", fb.Real)
    assert isinstance(same, Delta)
    np.testing.assert_allclose(float((f * same).sum("a").log()(b=0.7).data), float(f.log()(a=0.7).data))


def test_is_first() -> None:
    np.testing.assert_array_equal(weights(is_first("a", fb.Bint[3]), "a"), [1.0, 0.0, 0.0])
