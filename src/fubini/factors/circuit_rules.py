"""Rules of circuits: each is one equation; the arithmetic is in `circuit_algebra`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace, require
from fubini.base.domains import Bint, merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.errors import DataError
from fubini.factors.circuit import MAXIMUM, Circuit, concrete, to_table
from fubini.factors.circuit_algebra import (
    MOST_TABULATED,
    add,
    at_values,
    divide,
    divide_by_table,
    eliminate_batch,
    eliminate_variables,
    gather_batch,
    matched,
    multiply,
    multiply_by_table,
    ones_over,
    without_names,
)
from fubini.factors.table import Table, with_mass
from fubini.numerics.circuit_models import is_positive_everywhere
from fubini.numerics.circuit_weights import Weights, count_positive, raise_weights
from fubini.numerics.named_axes import align, require_in_range
from fubini.numerics.scaled import Scaled, multiplied_out
from fubini.terms.exactness import combined
from fubini.terms.factor import Factor, is_tabular
from fubini.terms.heads import (
    DIVIDE,
    POWER,
    SUM,
    exact_add,
    exact_contract,
    exact_divide,
    exact_join,
    exact_multiply,
    exact_multiply_out,
    exact_normalize,
    exact_power,
    exact_substitute,
    exact_sum,
)
from fubini.terms.value import Value, is_enumerable, to_array

REDUCED = (sum_product, max_product)


@exact_join.rule
def join_circuit(f: Circuit) -> Circuit:
    """f  =  f"""
    return f


# -- products -------------------------------------------------------------------------------------------------------


@exact_multiply.rule
def multiply_circuits(f: Circuit, g: Circuit) -> Factor:
    """(Σ_i θ_i p_i s_i)(Σ_j θ'_j q_j r_j)  =  Σ_ij θ_i θ'_j (p_i q_j)(s_i r_j)"""
    return multiply(f, g)


@exact_multiply.rule
def multiply_circuit_table(f: Circuit, g: Table) -> Factor:
    """f(x, y)·g(x)  =  f with the weights of the leaves of x times g"""
    return multiply_by_table(f, g)


@exact_multiply.rule
def multiply_table_circuit(f: Table, g: Circuit) -> Factor:
    """f(x)·g(x, y)  =  g with the weights of the leaves of x times f"""
    return multiply_by_table(g, f)


@exact_contract.rule
def contract_circuit_table(semiring: Semiring, f: Circuit, g: Table, keep: frozenset) -> Factor:
    """⊕_{x,y} f(x) g(x, y)  =  ⊕_x f(x) (⊕_y g(x, y))"""
    alone = tuple(name for name in g.names if name not in keep and name not in f.inputs)
    both = multiply_by_table(f, g.reduced(semiring, alone) if alone else g)
    names = tuple(name for name in both.inputs if name not in keep)
    return interpret(SUM, semiring, both, names) if names else both


@exact_contract.rule
def contract_table_circuit(semiring: Semiring, f: Table, g: Circuit, keep: frozenset) -> Factor:
    """⊕_{x,y} f(x, y) g(x)  =  ⊕_x (⊕_y f(x, y)) g(x)"""
    return contract_circuit_table(semiring, g, f, keep)


# -- quotients ------------------------------------------------------------------------------------------------------


@exact_divide.rule
def divide_circuits(f: Circuit, g: Circuit) -> Factor:
    """(Σ_i θ_i p_i s_i)/(Σ_j θ'_j q_j r_j)  =  Σ_ij (θ_i/θ'_j) (p_i/q_j)(s_i/r_j), g deterministic, 0/0 = 0"""
    return divide(f, g)


@exact_divide.rule
def divide_circuit_table(f: Circuit, g: Table) -> Factor:
    """f(x, y)/g(x), 0/0 = 0, x/0 an error"""
    return divide_by_table(f, g)


@exact_divide.rule(when=lambda f, g: len(g.variables) <= MOST_TABULATED)
def divide_table_circuit(f: Table, g: Circuit) -> Factor:
    """f/g, g as a table"""
    return interpret(DIVIDE, f, to_table(g))


@exact_normalize.rule
def normalize_circuit(f: Circuit, total: Table) -> Factor:
    """f / Z,  Z > 0"""
    return divide_by_table(f, with_mass(f, total))


@exact_normalize.rule
def normalize_circuit_partly(f: Circuit, total: Circuit) -> Factor:
    """f(x, y) / Σ_x f(x, y)"""
    return divide(f, total)


# -- one factor -----------------------------------------------------------------------------------------------------


@exact_sum.rule(when=lambda semiring, f, names: semiring in REDUCED)
def sum_circuit(semiring: Semiring, f: Circuit, names: tuple) -> Factor:
    """⊕_x f: constants w₀ ⊕ w₁ at the leaves of x; a structured circuit, no longer deterministic"""
    own = [name for name in names if name in f.variables]
    others = tuple(name for name in names if name not in own)
    if own and not _distributes(semiring, f):
        return to_table(f).reduced(semiring, names)
    result = eliminate_variables(f, semiring, own) if own else f
    if not others:
        return result
    if isinstance(result, Table):
        return result.reduced(semiring, others)
    if not _distributes(semiring, result) or result.diagram.vtree.count == 1:
        return to_table(result).reduced(semiring, others)
    return eliminate_batch(result, semiring, others)


def _distributes(semiring: Semiring, f: Circuit) -> bool:
    """Whether its nodes are sums of this kind: those of a deterministic circuit are of both."""
    return f.is_deterministic or (f.nodes == MAXIMUM) == (semiring is max_product)


@exact_add.rule(
    when=lambda f, g: f.diagram.vtree.count > 1 and matched(f, g) is not None and MAXIMUM not in (f.nodes, g.nodes),
)
def add_circuits(f: Circuit, g: Circuit) -> Factor:
    """f + g: one root with the elements of both"""
    return add(f, g)


@exact_power.rule(when=lambda f, exponent: f.is_deterministic and is_tabular(exponent))
def power_circuit(f: Circuit, exponent: Value) -> Factor:
    """f^a  =  Σ_i θ_i^a p_i^a s_i^a, f deterministic, and positive where a ≤ 0"""
    power = to_array(exponent)
    f = without_names(f, [name for name in power.names if name in f.variables])
    batch = merge_inputs(f.batch_domains, power.inputs)
    a, mark = align(power.array, power.names, tuple(batch)), f.mark | exponent.exactness
    require(namespace(a).isfinite(a), lambda: DataError(f"a power of {f}", expected="a finite exponent"))
    weights = f.batched_over(tuple(batch))
    has_value = (a > 0) | _is_positive(f, weights)
    if not is_traced(has_value, a) and np.all(has_value | (a == 0)) and not np.all(has_value):
        return _power_of_zero(f, exponent)
    raised = raise_weights(weights, a)
    leaves, theta = (
        require(has_value.reshape(*has_value.shape, *[1] * event), lambda: _zero_to_power(f), part)[0]
        for part, event in ((raised.leaves, 2), (raised.log_theta, 1))
    )
    return Circuit._of(f.diagram, Weights(leaves, raised.shift, theta), f, batch=batch, mark=mark)


def _is_positive(f: Circuit, weights: Weights) -> Data:
    """Whether f has no zero, for each cell of the batch."""
    free = len(f.variables)
    if is_traced(*weights):
        return is_positive_everywhere(f.diagram, weights.leaves > 0, weights.log_theta > -np.inf, free)
    return count_positive(f.diagram, weights) == 2**free


def _power_of_zero(f: Circuit, exponent: Value) -> Factor:
    """f^0  =  1, where f is zero too; for some cells of a batch alone, as a table"""
    if exponent.inputs:
        return interpret(POWER, to_table(f), exponent)
    return ones_over(f)._marked(f.mark | exponent.exactness)


def _zero_to_power(f: Circuit) -> DataError:
    return DataError(
        f"a power of {f}, which has zeros, with a negative exponent, or in a trace with one that is 0",
        expected="a positive exponent, or positive weights at every assignment: 1/0 is not a number",
    )


@exact_power.rule(when=lambda f, exponent: not f.is_deterministic, overlaps=("power_circuit",))
def power_structured(f: Circuit, exponent: Value) -> Factor:
    """f^a as a table, f not deterministic"""
    return interpret(POWER, to_table(f), exponent)


@exact_multiply_out.rule
def multiply_out_circuit(f: Circuit, names: tuple) -> Factor:
    """Π_i f(i, x)  =  Σ_e (Π_i θ_e(i)) (Π_i p_e)(Π_i s_e), the same elements having weight for all i; else in halves"""
    f = without_names(f, [name for name in names if name in f.variables])
    for name in names:
        f = _multiply_out_nodes(f, name) if _has_one_support(f, name) else _multiply_halves(f, name)
    return f if f.variables else _closed(f)


def _has_one_support(f: Circuit, name: Name) -> bool:
    """Whether f is deterministic, and the same leaves and elements are known to have weight all along a name."""
    leaves, _, theta = f.weights_of_nodes
    if not f.is_deterministic or is_traced(leaves, theta):
        return False
    axis = f.batch.index(name)
    supports = (np.moveaxis(concrete(part), axis, 0) for part in (leaves > 0, theta > -np.inf))
    return all(bool((support == support[:1]).all()) for support in supports)


def _multiply_out_nodes(f: Circuit, name: Name) -> Circuit:
    """The product over one name of the batch, node by node."""
    axis, extent = f.batch.index(name), f.inputs[name].extent
    batch = {other: domain for other, domain in f.batch_domains.items() if other != name}
    xp = namespace(*f.weights_of_nodes)
    full = [xp.broadcast_to(part, (*part.shape[:axis], extent, *part.shape[axis + 1 :])) for part in f.weights_of_nodes]
    pair = multiplied_out(sum_product, Scaled(*full[:2]), axis)
    shift = xp.broadcast_to(pair.shift, pair.weights.shape)
    return Circuit._of(f.diagram, Weights(pair.weights, shift, xp.sum(full[2], axis)), f, batch=batch)


def _multiply_halves(f: Circuit, name: Name) -> Circuit:
    """The product over one name of the batch: the first half of its cells times the second, until one is left."""
    single: list[Circuit] = []
    while (extent := f.inputs[name].extent) > 1:
        half = extent // 2
        if extent % 2:
            single.append(_cells(f, name, np.asarray(extent - 1)))
        f = _product(_cells(f, name, np.arange(half)), _cells(f, name, np.arange(half, 2 * half)))
    return reduce(_product, single, _cells(f, name, np.asarray(0)))


def _cells(f: Circuit, name: Name, at: np.ndarray) -> Circuit:
    """f at one cell of a name of the batch, or at several."""
    names = (name,) if at.ndim else ()
    return gather_batch(f, {name: (at, names)}, {name: Bint[at.size]} if names else {})


def _product(f: Circuit, g: Circuit) -> Circuit:
    both = multiply(f, g)
    assert isinstance(both, Circuit), "circuits over one vtree, of one kind"
    return both


@exact_substitute.rule(
    when=lambda f, values: all(is_tabular(value) and is_enumerable(value) for value in values.values())
)
def substitute_circuit(f: Circuit, values: Mapping) -> Factor:
    """f(x = v(j), y): the weights of the leaves of x at v, constants gathered along j"""
    args = {name: to_array(value) for name, value in values.items()}
    incoming = merge_inputs(*(arg.inputs for arg in args.values()))
    f = without_names(f, [name for name in incoming if name not in args])
    indices = {name: (require_in_range(name, arg.array, f.inputs[name]), arg.names) for name, arg in args.items()}
    mark = f.mark | combined(args.values())
    others = {name: index for name, index in indices.items() if name not in f.variables}
    f = gather_batch(f, others, incoming) if others else f
    own = {name: index for name, index in indices.items() if name not in others}
    f = at_values(f, own, incoming) if own else f
    result = f if f.variables else _closed(f)
    return result if mark == result.exactness else result._marked(mark)


def _closed(f: Circuit) -> Table:
    """The value of a circuit without variables, for each cell of the batch."""
    return to_table(f)
