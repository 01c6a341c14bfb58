"""Factors that differ in their numbers alone, as one factor along an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fubini.base.arrays import Data, is_traced, namespace
from fubini.base.domains import Bint
from fubini.base.names import Name
from fubini.factors.gaussian import Gaussian
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.numerics.quadratic import Quadratic
from fubini.terms.factor import Factor, substitute
from fubini.terms.value import Array, Value, Variable, to_array


def stack_factors(factors: Sequence[Factor], along: Name) -> Factor | None:
    """One factor whose cell k is the k-th; the first alone where all are the same; None where their forms differ."""
    first = factors[0]
    if not all(type(f) is type(first) and f.inputs == first.inputs for f in factors):
        return None
    if isinstance(first, Table):
        return _stack_tables(factors, along)  # type: ignore[arg-type]
    if isinstance(first, Gaussian):
        return _stack_gaussians(factors, along)  # type: ignore[arg-type]
    if isinstance(first, Piecewise):
        return _stack_pieces(factors, along)  # type: ignore[arg-type]
    return None


def _same(arrays: Sequence[Data]) -> bool:
    if is_traced(*arrays):
        return all(array is arrays[0] for array in arrays)
    return all(np.array_equal(np.asarray(array), np.asarray(arrays[0])) for array in arrays)


def _stack(arrays: Sequence[Data], names: tuple[Name, ...], along: Name) -> tuple[Data, tuple[Name, ...]]:
    if _same(arrays):
        return arrays[0], names
    return namespace(*arrays).stack(list(arrays)), (along, *names)


def _stack_tables(tables: Sequence[Table], along: Name) -> Table:
    names = tables[0].names
    logs = [to_array(table.transposed(names).log()) for table in tables]
    data, over = _stack([log.array for log in logs], names, along)
    inputs: dict[Name, Any] = {along: Bint[len(tables)]} if along in over else {}
    return tables[0] if not inputs else Table.from_log(data, {**inputs, **tables[0].inputs})


def _stack_gaussians(gaussians: Sequence[Gaussian], along: Name) -> Gaussian | None:
    first = gaussians[0]
    forms = {(g.reals, g.quadratic.vector_names, g.quadratic.matrix_names, g.white) for g in gaussians}
    shapes = {(np.shape(g.quadratic.vector), np.shape(g.quadratic.matrix)) for g in gaussians}
    if len(forms) > 1 or len(shapes) > 1 or len({tuple(g.scale.inputs) for g in gaussians}) > 1:
        return None
    vector, v_names = _stack([g.quadratic.vector for g in gaussians], first.quadratic.vector_names, along)
    matrix, m_names = _stack([g.quadratic.matrix for g in gaussians], first.quadratic.matrix_names, along)
    scale = _stack_tables([g.scale for g in gaussians], along)
    domains = {along: Bint[len(gaussians)], **first.inputs}
    return Gaussian._of(scale, Quadratic(vector, v_names, matrix, m_names, first.white), first.reals, domains)


def _stack_pieces(pieces: Sequence[Piecewise], along: Name) -> Piecewise | None:
    first = pieces[0]
    if len({tuple(cut[:2] for cut in f.cuts) for f in pieces}) > 1:
        return None
    edges = [_stack_edges([f.edges[k] for f in pieces], along) for k in range(len(first.cuts))]
    if any(edge is None for edge in edges):
        return None
    parts = []
    for f in pieces:
        pairs = zip(f.cuts, first.cuts, strict=True)
        same: dict[Name, Value] = {own.interval: Variable(cut.interval, f.indices[own.interval]) for own, cut in pairs}
        parts.append(promoted(substitute(f.parts, same)))
    stacked = stack_factors(parts, along)
    return None if stacked is None else Piecewise._of(stacked, first.cuts, edges, first.reals)  # type: ignore[arg-type]


def _stack_edges(edges: Sequence[Array], along: Name) -> Array | None:
    """As many edges in each, where these are."""
    first = edges[0]
    if len({(edge.names, edge.array.shape, edge.output) for edge in edges}) > 1:
        return None
    data, names = _stack([edge.array for edge in edges], first.names, along)
    inputs: dict[Name, Any] = {along: Bint[len(edges)]} if along in names else {}
    return Array._of(data, names, {**inputs, **first.inputs}, first.output)
