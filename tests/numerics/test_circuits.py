"""The numerics of circuits: vtrees, structures from diagrams, passes, against PySDD and enumeration."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pysdd.sdd import SddManager

from fubini.numerics import sdd
from fubini.numerics.circuit_passes import evaluate, shares
from fubini.numerics.circuit_products import add_structures, join_structures, multiply_structures, tabulate
from fubini.numerics.circuit_reach import reach, unpack
from fubini.numerics.circuit_structure import CircuitStructure
from fubini.numerics.circuit_values import root_values
from fubini.numerics.circuit_weights import ones
from fubini.numerics.scaled import Scaled
from fubini.numerics.vtree import Vtree, balanced, beside, right_linear

SHAPES = {"balanced": balanced, "right-linear": right_linear}


def random_clauses(seed: int, n: int, count: int) -> list[list[tuple[int, bool]]]:
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(n, 3, replace=False) for _ in range(count)]
    return [[(int(v), bool(rng.integers(2))) for v in variables] for variables in chosen]


def compiled(seed: int, n: int, count: int, shape: str) -> CircuitStructure:
    clauses = [sdd.clause(clause) for clause in random_clauses(seed, n, count)]
    structure = sdd.compile_constraints(Vtree.from_nested(SHAPES[shape](range(n))), clauses)
    assert structure is not None
    return structure


def holds(seed: int, n: int, count: int, cell: tuple[int, ...]) -> bool:
    return all(any(cell[v] == value for v, value in clause) for clause in random_clauses(seed, n, count))


def test_vtree() -> None:
    tree = Vtree.from_nested(((0, 2), (1, (3, 4))))
    assert tree.count == 5 and tree.height == 3 and tree.depths[tree.leaf_of].tolist() == [2, 2, 2, 3, 3]
    assert tree.scopes[tree.left[tree.root]] == {0, 2} and tree == Vtree.from_nested(((0, 2), (1, (3, 4))))
    both = beside(tree, Vtree.from_nested((0, 1)))
    assert both.count == 7 and both.scopes[both.right[both.root]] == {5, 6}
    assert right_linear(range(3)) == (0, (1, 2)) and balanced(range(4)) == ((0, 1), (2, 3))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("seed", range(4))
def test_counts_and_values_as_pysdd_has_them(seed: int, shape: str) -> None:
    """The number of models, and a weighted count, of random 3-clauses over 10 variables."""
    n, count = 10, 12
    structure = compiled(seed, n, count, shape)
    manager = SddManager(var_count=n)
    diagram = manager.true()
    for clause in random_clauses(seed, n, count):
        diagram = diagram & sdd.clause(clause)(manager)
    assert structure.supports == diagram.global_model_count()
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.1, 1.0, (n, 2))
    counter = diagram.wmc(log_mode=False)
    for variable in range(n):
        counter.set_literal_weight(manager.literal(variable + 1), weights[variable, 1])
        counter.set_literal_weight(manager.literal(-variable - 1), weights[variable, 0])
    own = ones(structure)
    own = own._replace(leaves=own.leaves * weights[structure.variable])
    pair = root_values(structure, own, None)
    assert pair.weights * np.exp(pair.shift) == pytest.approx(counter.propagate(), rel=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_reach_one_path(shape: str) -> None:
    n, count = 7, 8
    structure = compiled(3, n, count, shape)
    cells = np.array(list(product((0, 1), repeat=n)))
    passing = reach(structure, cells.T)
    models = np.array([holds(3, n, count, tuple(cell)) for cell in cells])
    leaves, elements = (unpack(bits, len(cells)) for bits in passing[:2])
    assert (leaves.sum((0, 1)) == n * models).all()  # one leaf of each variable
    assert (elements.sum(0) == (n - 1) * models).all()  # one element at each inner vtree node
    pair = root_values(structure, ones(structure), cells.T)
    np.testing.assert_array_equal(pair.weights > 0, models)


def test_shares_are_derivatives() -> None:
    structure = compiled(5, 6, 6, "balanced")
    rng = np.random.default_rng(0)
    leaves = rng.uniform(0.2, 1.0, structure.leaves)
    theta = rng.normal(size=structure.size)
    _, passing = shares(structure, Scaled(leaves, np.zeros_like(leaves)), theta)

    def log_root(logs: jax.Array, log_theta: jax.Array) -> jax.Array:
        value = evaluate(structure, Scaled(jnp.exp(logs), jnp.zeros(structure.leaves)), log_theta)
        return jnp.log(value.weights[-1]) + value.shift[-1]

    by_leaf, by_element = jax.grad(log_root, (0, 1))(jnp.log(jnp.asarray(leaves)), jnp.asarray(theta))
    np.testing.assert_allclose(passing.leaves, by_leaf, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(passing.elements, by_element, rtol=1e-4, atol=1e-6)


def test_structures_of_products_and_sums() -> None:
    a, b = compiled(1, 6, 5, "balanced"), compiled(2, 6, 5, "balanced")
    both = multiply_structures(a, b)
    cells = list(product((0, 1), repeat=6))
    expected = sum(holds(1, 6, 5, cell) and holds(2, 6, 5, cell) for cell in cells)
    assert both is not None and both.structure.supports == expected
    total = add_structures((a, b)).structure
    assert total.supports == a.supports + b.supports  # models of both are counted twice
    assert join_structures(a, b).structure.supports == a.supports * b.supports


def test_contradiction_has_no_structure() -> None:
    tree = Vtree.from_nested((0, 1))
    assert sdd.compile_constraints(tree, [sdd.clause([(0, True)]), sdd.clause([(0, False)])]) is None
    odd, even = (sdd.compile_constraints(tree, [sdd.parity((0, 1), is_odd)]) for is_odd in (True, False))
    assert odd is not None and even is not None and multiply_structures(odd, even) is None


@pytest.mark.parametrize("variables", [(2,), (0, 3), (1, 2, 4), (0, 1, 2, 3, 4)])
def test_tabulate(variables: tuple[int, ...]) -> None:
    """Every cell of a table stands at one leaf and value, and every assignment reaches its own."""
    structure, order, cells = tabulate(Vtree.from_nested(((0, 3), (1, (2, 4)))), frozenset(variables))
    assert sorted(order) == sorted(variables)
    assert sorted(cells[cells >= 0]) == list(range(2 ** len(variables)))
    rows = np.array(list(product((0, 1), repeat=5)))
    passing = unpack(reach(structure, rows.T).leaves, len(rows)).any(1)
    for row, reached in zip(rows, passing.T, strict=True):
        at = [cells[leaf, row[structure.variable[leaf]]] for leaf in np.flatnonzero(reached)]
        assert [cell for cell in at if cell >= 0] == [int("".join(str(row[v]) for v in order), 2)]
