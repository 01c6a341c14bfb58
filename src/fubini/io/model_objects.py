"""Networks from objects of pgmpy and pyAgrum, and to them; neither is imported unless a network is to become one."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fubini.base.domains import Bint, Domain
from fubini.errors import DataError, DomainError, FubiniError, NameClash, listed
from fubini.io.record import (
    SUM_TOLERANCE,
    NetworkRecord,
    RowSums,
    first_invalid,
    first_unnormalised,
    labels_of,
    require_directed,
    shape_of,
)

_Table = tuple[tuple[str, ...], np.ndarray]


def record_of_model(model: Any) -> NetworkRecord:
    """The record of a network of pgmpy or pyAgrum, recognised by the names of its classes."""
    for kind in type(model).__mro__:
        reader = _READERS.get((kind.__module__.partition(".")[0].lower(), kind.__name__))
        if reader is not None:
            return _checked(reader(model), f"the {type(model).__name__}")
    raise DomainError(
        f"a network from {type(model).__module__}.{type(model).__qualname__}",
        expected=f"one of {listed(f'{package}.{name}' for package, name in _READERS)}",
        advice="write it to a file in a format that both know, and read that: fb.io.read_network(…)",
    )


def _checked(record: NetworkRecord, what: str) -> NetworkRecord:
    """The record with rows within 1e-3 of summing to 1 normalised; values that are no probabilities are refused."""
    sums, tables = RowSums(what), list[_Table]()
    for names, table in record.tables:
        wrong = first_invalid(table) is not None
        if wrong or (record.directed and first_unnormalised(table.reshape(-1, table.shape[-1])) is not None):
            within = f", rows with a sum within {SUM_TOLERANCE:g} of 1" if record.directed else ""
            raise DataError(
                f"the table of {names[-1] if names else ''!r} of {what}",
                expected=f"finite values, none negative{within}",
                advice="fill all tables before the network is taken over",
            )
        tables.append((names, np.ascontiguousarray(sums.normalise(table) if record.directed else table)))
    sums.warn()
    return NetworkRecord(record.name, record.variables, tuple(tables), record.directed)


def _domain(states: Sequence[Any]) -> Domain:
    """States as labels; 0, 1, … as numbers stay positions."""
    if all(type(state) is int for state in states) and list(states) == list(range(len(states))):
        return Bint[len(states)]
    return Bint.labelled(*map(str, states))


# -- pgmpy ------------------------------------------------------------------------------------------------------------


def _from_pgmpy(model: Any) -> NetworkRecord:
    names, own = _names(model.nodes()), {}
    for node in model.nodes():
        cpd = model.get_cpds(node)
        if cpd is None or not hasattr(cpd, "state_names"):
            raise DataError(
                f"the node {node!r} without a table", expected="a TabularCPD of each node", advice="model.add_cpds(…)"
            )
        own[node] = cpd
    states = {node: list(cpd.state_names[node]) for node, cpd in own.items()}
    variables = {names[node]: _domain(states[node]) for node in own}
    tables = [_pgmpy_table(list(cpd.variables), cpd, states, names) for cpd in own.values()]
    return NetworkRecord(_title(model), variables, tuple(tables), directed=True)


def _from_pgmpy_field(model: Any) -> NetworkRecord:
    names, factors = _names(model.nodes()), list(model.get_factors())
    states: dict[Hashable, list[Any]] = {}
    for factor in factors:
        for node in factor.variables:
            states.setdefault(node, list(factor.state_names[node]))
    missing = [node for node in names if node not in states]
    if missing:
        raise DataError(f"the nodes {listed(missing)} without a factor", expected="a factor over each node")
    variables = {names[node]: _domain(states[node]) for node in names}
    tables = []
    for factor in factors:
        *others, first = reversed(factor.variables)
        tables.append(_pgmpy_table([first, *reversed(others)], factor, states, names))
    return NetworkRecord(_title(model), variables, tuple(tables), directed=False)


def _pgmpy_table(
    nodes: list[Hashable], factor: Any, states: dict[Hashable, list], names: dict[Hashable, str]
) -> _Table:
    """A table with its first axis last, and the states of each axis in the order that the variable itself has."""
    values = np.array(factor.values, np.float64)
    orders = []
    for node in nodes:
        listed_here = list(factor.state_names[node])
        if sorted(map(str, listed_here)) != sorted(map(str, states[node])):
            raise DataError(
                f"the states {listed(listed_here)} of {node!r} in a table of {nodes[0]!r}",
                expected=f"its own states, {listed(states[node])}",
            )
        orders.append([listed_here.index(state) for state in states[node]])
    values = np.moveaxis(values[np.ix_(*orders)], 0, -1)
    return tuple(names[node] for node in (*nodes[1:], nodes[0])), np.ascontiguousarray(values)


def _names(nodes: Any) -> dict[Hashable, str]:
    """The names of nodes, which may be any objects, as words."""
    names = {node: str(node) for node in nodes}
    if len(set(names.values())) < len(names):
        raise NameClash(f"nodes called {listed(names)}", expected="names that differ as words")
    return names


def _title(model: Any) -> str:
    name = getattr(model, "name", "")
    return name if isinstance(name, str) else ""


def to_pgmpy_model(record: NetworkRecord) -> Any:
    """A DiscreteBayesianNetwork."""
    require_directed(record, "a network of pgmpy")
    models, factors = _imported("pgmpy.models", "pgmpy"), _imported("pgmpy.factors.discrete", "pgmpy")
    model = getattr(models, "DiscreteBayesianNetwork", None) or models.BayesianNetwork
    made = model()
    made.name = record.name
    made.add_nodes_from(list(record.variables))
    states = {
        name: list(range(domain.extent)) if domain.labels is None else list(domain.labels)
        for name, domain in record.variables.items()
    }
    for (*parents, child), table in record.tables:
        made.add_edges_from([(parent, child) for parent in parents])
        sizes = shape_of(record.variables[name] for name in parents)
        made.add_cpds(
            factors.TabularCPD(
                child,
                table.shape[-1],
                np.ascontiguousarray(table.reshape(math.prod(sizes), table.shape[-1]).T),
                evidence=parents or None,
                evidence_card=list(sizes) or None,
                state_names={name: states[name] for name in (child, *parents)},
            )
        )
    return made


# -- pyAgrum ----------------------------------------------------------------------------------------------------------


def _from_pyagrum(model: Any) -> NetworkRecord:
    variables = {model.variable(node).name(): _gum_domain(model.variable(node)) for node in model.nodes()}
    tables = []
    for node in model.nodes():
        child, *parents = model.cpt(node).names
        tables.append(_gum_table(model.cpt(node), (*parents, child)))
    return NetworkRecord(_gum_title(model), variables, tuple(tables), directed=True)


def _from_pyagrum_field(model: Any) -> NetworkRecord:
    variables = {model.variable(node).name(): _gum_domain(model.variable(node)) for node in model.nodes()}
    tables = [_gum_table(factor, tuple(factor.names)) for factor in map(model.factor, model.factors())]
    return NetworkRecord(_gum_title(model), variables, tuple(tables), directed=False)


def _gum_domain(variable: Any) -> Domain:
    labels = list(variable.labels())
    numbered = variable.toFast() == f"{variable.name()}[{len(labels)}]"  # a range from 0 on
    return Bint[len(labels)] if numbered else Bint.labelled(*labels)


def _gum_table(tensor: Any, scope: tuple[str, ...]) -> _Table:
    """A tensor, whose array has its axes in the reverse of the order of its names."""
    axes = list(reversed(tensor.names))
    values = np.array(tensor.toarray(), np.float64).transpose([axes.index(name) for name in scope])
    return scope, np.ascontiguousarray(values)


def _gum_title(model: Any) -> str:
    return model.property("name") if "name" in model.properties() else ""


def to_pyagrum_model(record: NetworkRecord) -> Any:
    """A BayesNet."""
    require_directed(record, "a network of pyAgrum")
    gum = _imported("pyagrum", "pyagrum")
    made = gum.BayesNet(record.name)
    for name, domain in record.variables.items():
        labels = labels_of(domain)
        made.add(
            gum.RangeVariable(name, name, 0, len(labels) - 1)
            if domain.labels is None
            else gum.LabelizedVariable(name, name, labels)
        )
    for (*parents, child), _ in record.tables:
        for parent in parents:
            made.addArc(parent, child)
    for names, table in record.tables:
        tensor = made.cpt(names[-1])
        tensor[:] = np.ascontiguousarray(table.transpose([names.index(name) for name in reversed(tensor.names)]))
    return made


def _imported(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise FubiniError(
            f"a network as an object of {package}",
            expected=f"the package {package}",
            nearest=str(error),
            advice=f"pip install {package}",
        ) from error


_READERS: dict[tuple[str, str], Callable[[Any], NetworkRecord]] = {
    ("pgmpy", "DiscreteBayesianNetwork"): _from_pgmpy,
    ("pgmpy", "BayesianNetwork"): _from_pgmpy,
    ("pgmpy", "DiscreteMarkovNetwork"): _from_pgmpy_field,
    ("pgmpy", "MarkovNetwork"): _from_pgmpy_field,
    ("pyagrum", "BayesNet"): _from_pyagrum,
    ("pyagrum", "MarkovRandomField"): _from_pyagrum_field,
}
