"""fb.rep.Circuit: tables of Booleans as circuits over one vtree, and what is left as it is."""

from __future__ import annotations

from functools import reduce
from operator import mul
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DomainError, NameClash, UnknownName

ENGINES = pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
NAMES = ("a", "b", "c", "d")
SCOPES = (("a", "b"), ("b", "c"), ("d", "c"), ("a",), ("b", "d"))


def tables(array: Any = np.asarray) -> list[fb.Table]:
    rng = np.random.default_rng(0)
    return [fb.Table(array(rng.uniform(0.1, 2.0, (2,) * len(scope))), scope) for scope in SCOPES]


def converted(own: fb.rep.Circuit, factors: list[fb.Table]) -> list[fb.Factor]:
    """Every factor as it is stored where all names are so represented."""
    with fb.represent(**dict.fromkeys(NAMES, own)):
        return [own.convert(factor, tuple(name for name in factor.inputs if name in NAMES)) for factor in factors]


def cells() -> np.ndarray:
    letters = [("".join(scope), np.asarray(table.weights)) for scope, table in zip(SCOPES, tables(), strict=True)]
    return np.einsum(",".join(scope for scope, _ in letters) + "->abcd", *(weights for _, weights in letters))


@ENGINES
@pytest.mark.parametrize("vtree", [None, (("a", "b"), ("c", "d")), ((("d", "b"), "a"), "c")])
def test_tables_become_circuits_over_one_vtree(vtree, array):
    stored = converted(fb.rep.Circuit(vtree), tables(array))
    kinds = [fb.circuits.Circuit, fb.circuits.Circuit, fb.circuits.Circuit, fb.Table, fb.circuits.Circuit]
    assert [type(factor) for factor in stored] == kinds
    circuits = [factor for factor in stored if isinstance(factor, fb.circuits.Circuit)]
    assert len({factor.diagram.vtree for factor in circuits}) == len({factor.slots for factor in circuits}) == 1
    for factor, table in zip(stored, tables(), strict=True):
        assert set(factor.inputs) == set(table.inputs) and factor.exactness.is_exact
        every = factor._joined() if isinstance(factor, fb.Table) else fb.rep.Circuit().restore(factor)
        np.testing.assert_allclose(every.transposed(table.names).weights, table.weights, rtol=1e-6)
    whole = cells()
    assert float(fb.eliminate(stored, NAMES)) == pytest.approx(whole.sum(), rel=1e-5)
    shares = fb.marginals(stored, NAMES)
    for axis, name in enumerate(NAMES):
        expected = whole.sum(tuple(other for other in range(4) if other != axis)) / whole.sum()
        np.testing.assert_allclose(shares[name].weights, expected, rtol=1e-5)
    best = fb.argmax(stored, NAMES)
    assert whole[tuple(int(best[name]) for name in NAMES)] == pytest.approx(whole.max())


def test_a_product_is_a_circuit():
    joined = reduce(mul, converted(fb.rep.Circuit(), tables()))._joined()
    assert isinstance(joined, fb.circuits.Circuit) and joined.is_deterministic
    np.testing.assert_allclose(fb.rep.Circuit().restore(joined).transposed(NAMES).weights, cells())


def test_right_linear_in_the_order_of_represent():
    own = fb.rep.Circuit()
    with fb.represent(c=own, a=own, b=own):
        stored = own.convert(fb.Table(np.ones((2, 2)), ("a", "b")), ("a", "b"))
    assert (
        isinstance(stored, fb.circuits.Circuit) and stored.slots == ("c", "a", "b") and stored.variables == ("a", "b")
    )
    assert stored.diagram.vtree.height == 2


def test_other_names_are_a_batch():
    table = fb.Table(np.random.default_rng(0).uniform(size=(3, 2, 2)), ("z", "a", "b"))
    stored = fb.rep.Circuit().convert(table, ("a", "b"))
    assert isinstance(stored, fb.circuits.Circuit) and stored.batch == ("z",)
    np.testing.assert_allclose(fb.rep.Circuit().restore(stored).transposed(table.names).weights, table.weights)


def test_others_are_left_as_they_are():
    own = fb.rep.Circuit()
    normal = fb.Gaussian(inputs={"x": fb.Real}, mean=np.zeros(1), covariance=np.eye(1))
    circuit = fb.circuits.permutations(2)
    assert own.convert(normal, ()) is normal and own.convert(circuit, circuit.variables) is circuit
    assert own.restore(normal) is normal
    single = fb.Table([0.5, 0.5], ("a",))
    assert own.convert(single, ("a",)) is single


def test_equal_where_the_vtrees_are():
    assert fb.rep.Circuit() == fb.rep.Circuit() and hash(fb.rep.Circuit()) == hash(fb.rep.Circuit())
    assert fb.rep.Circuit(("a", "b")) != fb.rep.Circuit(("b", "a")) and repr(fb.rep.Circuit()) == "Circuit()"


def test_errors():
    own = fb.rep.Circuit(("a", "b"))
    with pytest.raises(DomainError, match=r"Bint\[2\]"):
        own.convert(fb.Table(np.ones((3, 2)), ("a", "b")), ("a", "b"))
    with pytest.raises(UnknownName, match="a name at a leaf"):
        own.convert(fb.Table(np.ones((2, 2)), ("a", "c")), ("a", "c"))
    with pytest.raises(NameClash, match="one leaf"):
        fb.rep.Circuit(("a", "a"))
    with pytest.raises(DomainError, match="nested pairs"):
        fb.rep.Circuit(("a", "b", "c"))
