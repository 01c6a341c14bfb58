"""Plans by what representations say of their costs: a factor of 60 or 100 Booleans is planned and summed at once."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.eliminate.forward import find_plan
from fubini.eliminate.plan import Plan
from fubini.eliminate.prepare import problem_of
from fubini.eliminate.slicing import with_slices
from fubini.eliminate.tree import Forest
from fubini.errors import Intractable, MemoryLimit
from fubini.terms.storage import DENSE, Storage, joined_storage
from tests.eliminate.counts import Counts, counts, unaries

AT_ONCE = pytest.mark.parametrize("at_once", [False, True])
ENGINES = pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])


@dataclass(frozen=True)
class AtMost(Storage):
    """A list of cells that are not zero, of fixed length, which a product never lengthens."""

    capacity: int
    sliceable = True

    def size(self, names, sizes, dimensions):
        return min(DENSE.size(names, sizes, dimensions), self.capacity)

    def joined(self, other):
        return AtMost(min(self.capacity, other.capacity)) if isinstance(other, AtMost) else None


@dataclass(frozen=True)
class Train(Storage):
    """Matrices of one rank, in a row: Σ n r²."""

    rank: int

    def size(self, names, sizes, dimensions):
        return sum(sizes[name] for name in names) * self.rank**2

    def joined(self, other):
        return Train(self.rank * other.rank) if isinstance(other, Train) else self


def enumerated(factors, names):
    """The table of the product, by enumeration: every cell by substitution."""
    cells = itertools.product(range(2), repeat=len(names))
    return np.array([_value(factors, dict(zip(names, cell, strict=True))) for cell in cells]).reshape((2,) * len(names))


def _value(factors, at):
    return np.prod([float(f(**{name: at[name] for name in f.inputs})) for f in factors])


@AT_ONCE
@ENGINES
def test_sums_and_marginals_equal_enumeration(at_once, array):
    factors = [counts(5, at_once, array=array), *unaries(5, array=array)]
    names = list(factors[0].inputs)
    cells = enumerated(factors, names)
    np.testing.assert_allclose(float(fb.eliminate(factors, names)), cells.sum(), rtol=1e-5)
    np.testing.assert_allclose(float(fb.eliminate(factors, names, semiring=fb.max_product)), cells.max(), rtol=1e-5)
    for k, (name, marginal) in enumerate(fb.marginals(factors, names).items()):
        expected = cells.sum(tuple(axis for axis in range(5) if axis != k)) / cells.sum()
        assert type(marginal) is fb.Table and marginal.exactness.is_exact and tuple(marginal.inputs) == (name,)
        np.testing.assert_allclose(marginal.weights, expected, rtol=1e-5)


@AT_ONCE
def test_argmax_equals_enumeration(at_once):
    factors = [counts(6, True), *unaries(6)] if at_once else [counts(6, False)]
    names = list(factors[0].inputs)
    cells = enumerated(factors, names)
    best = fb.argmax(factors, names)
    assert cells[tuple(int(best[name]) for name in names)] == pytest.approx(cells.max())


@AT_ONCE
@ENGINES
@pytest.mark.parametrize("size", [60, 100])
def test_many_names_are_planned_and_summed(size, at_once, array):
    """Σ_x w[Σ x] Π t_i(x_i)  =  Σ_k w[k] e_k, where e_k are the coefficients of Π_i (t_i(0) + t_i(1) z)"""
    factors = [counts(size, at_once, array=array), *unaries(size, array=array)]
    names = list(factors[0].inputs)
    polynomial = np.ones(1)
    for table in factors[1:]:
        polynomial = np.convolve(polynomial, np.asarray(table.weights, np.float64))
    evidence = fb.eliminate(factors, names)
    assert float(evidence.log()) == pytest.approx(np.log(polynomial @ np.asarray(factors[0].table)), rel=1e-5)
    start = time.perf_counter()
    plan = find_plan(problem_of(factors, [(name, None) for name in reversed(names)]), True)
    assert time.perf_counter() - start < 3.0
    assert plan.work <= (size + 1) * size**2 and plan.largest <= 2 * size + 1


@AT_ONCE
def test_marginals_of_many_names(at_once):
    size = 60
    factors = [counts(size, at_once), *unaries(size)]
    names = list(factors[0].inputs)
    shares = fb.marginals(factors, names)
    total = fb.eliminate(factors, names)
    for name in (names[0], names[17], names[-1]):
        alone = fb.eliminate(factors, [other for other in names if other != name])
        np.testing.assert_allclose(shares[name].weights, alone.weights / float(total), rtol=1e-9)


def test_at_once_sums_in_one_step():
    factors = [counts(4, True), *unaries(4)]
    plan = find_plan(problem_of(factors, [(f"x{k}", None) for k in range(4)]), False)
    assert [len(step.operands) for step in plan.steps] == [5]
    assert [len(step.eliminated) for step in plan.steps] == [4]
    assert [step.size for step in plan.steps] == [1]


def test_explain_shows_what_the_storage_says():
    shown = fb.explain([counts(60, False), *unaries(60)], sum=[f"x{k}" for k in range(60)])
    assert "largest result 119 entries" in str(shown)
    assert all("counts" in line.rule for line in shown.lines[:58])


def test_storages_are_part_of_what_a_plan_is_looked_up_by():
    summed = [("x0", None)]
    dense, sparse = (problem_of([counts(3, at_once)], summed) for at_once in (False, True))
    assert dense != sparse and hash(dense) != hash(sparse)
    assert problem_of(unaries(1), summed).storages == ()


def test_under_jit():
    tables = unaries(4, array=jnp.asarray)

    @jax.jit
    def evidence(table):
        factor = Counts(table, jnp.ones(4), [f"x{k}" for k in range(4)])
        return fb.eliminate([factor, *tables], list(factor.inputs)).log().data

    factor = counts(4, False, array=jnp.asarray)
    cells = enumerated([factor, *tables], list(factor.inputs))
    np.testing.assert_allclose(evidence(factor.table), np.log(cells.sum()), rtol=1e-5)


# -- storages alone -------------------------------------------------------------------------------------------------


def test_product_is_dense_where_neither_says():
    assert joined_storage([AtMost(5), DENSE]) is DENSE
    assert joined_storage([AtMost(5), AtMost(3)]) == AtMost(3)
    assert joined_storage([DENSE, Train(3), Train(2)]) == Train(6)
    assert joined_storage([Train(2), AtMost(3)]) == Train(2)


def test_order_goes_by_the_storage():
    """A star: dense, its hub goes last; of short lists the products are never longer than one of them."""
    scopes = [("hub", f"x{k}") for k in range(12)]
    sizes = {"hub": 2, **{f"x{k}": 50 for k in range(12)}}
    forest = Forest(scopes, sizes, None, [AtMost(40)] * 12)
    forest.contract(range(12), ["hub"], ["hub"])
    assert max(step.size for step in forest.steps) == 40


def test_slices_ask_the_storage_again():
    sizes = dict.fromkeys("abcdef", 8)
    forest = Forest([tuple("abcd"), tuple("cdef")], sizes, None, [AtMost(10**9)] * 2)
    forest.contract(range(2), list("cd"), list("cd"))
    plan = find_plan_of(forest, sizes)
    sliced = with_slices(plan, 8 * 3 * 8**4 // 8, False)
    assert sliced.slices and sliced.largest == 8**4 // sliced.passes


def find_plan_of(forest, sizes):
    inputs = tuple(forest.names[:2])
    scopes = dict.fromkeys(sizes, ())
    return Plan(inputs, tuple(forest.steps), (2,), sizes, scopes, storages=tuple(forest.storages))


def test_many_names_held_densely_are_refused_soon():
    class Cells(Counts):
        storage = DENSE

    factor = counts(200, False)
    cells = Cells(factor.table, factor.odds, factor.names)
    start = time.perf_counter()
    with pytest.raises(MemoryLimit, match="at most 4 GiB"):
        fb.eliminate([cells, *unaries(200)], factor.names)
    assert time.perf_counter() - start < 30.0


def test_a_storage_that_is_not_sliced_is_refused():
    problem = problem_of([counts(4, False), *unaries(4)], [("x0", None)], (), None, 8)
    with pytest.raises(MemoryLimit, match="sliced over 0 variables"):
        find_plan(problem, False)


def test_a_semiring_without_a_rule_is_refused():
    with pytest.raises(Intractable, match="counting of Counts"):
        fb.eliminate(counts(4, False), ["x0"], semiring=fb.counting)
