"""The log-density of a distribution record at a value, both symbolic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fubini.dist.blueprint import Blueprint
from fubini.index.build import ONE, add, call, const, index, minus, plus, scale, times, where
from fubini.index.node import Index, Node
from fubini.index.sums import total
from fubini.read.densities import SCALAR, lgamma, log
from fubini.read.symbolic_array import SymbolicArray

Batch = tuple[Node, ...]


def log_density(blueprint: Blueprint, leaves: Iterator[SymbolicArray], value: SymbolicArray, batch: int) -> Node | None:
    """Σ over the batch of log p(value); None where the family is not known. `batch` counts axes that are no event."""
    sizes = [Index(size) for size in value.shape[:batch]]
    at = tuple(map(index, sizes))
    found = _entry(blueprint, leaves, at, lambda *event: value.at(*at, *event), value.shape[batch:])
    return None if found is None else total(sizes, found)


def _entry(
    blueprint: Blueprint, leaves: Iterator[SymbolicArray], at: Batch, value: Any, event: tuple[int, ...]
) -> Node | None:
    """log p of the value of one batch cell."""
    statics = dict(blueprint.statics)
    match blueprint.family:
        case "ExpandedDistribution":
            return _entry(blueprint.inner[0], leaves, at, value, event)
        case "Independent":
            count = statics["reinterpreted_batch_ndims"]
            inner = [Index(size) for size in event[:count]]
            more = tuple(map(index, inner))
            found = _entry(blueprint.inner[0], leaves, (*at, *more), lambda *rest: value(*more, *rest), event[count:])
            return None if found is None else total(inner, found)
        case "MaskedDistribution":
            given = dict(zip(blueprint.keys, blueprint.inner, strict=True))
            found = _entry(given["base_dist"], leaves, at, value, event)
            mask = statics.get("mask")
            test = const(float(mask)) if isinstance(mask, bool) else _at(next(leaves), at)
            return None if found is None else where(test, found, const(0.0))
    if any(inner is not None for inner in blueprint.inner):
        return None
    given = dict(zip(blueprint.keys, leaves, strict=False))
    fixed = {key: const(float(item)) for key, item in statics.items() if isinstance(item, (int, float))}
    return _plain(blueprint.family, given, fixed, at, value, event)


def _at(array: SymbolicArray, at: Batch, *event: Node) -> Node:
    """A parameter at a batch cell: it has the last of its axes, those of one entry for all."""
    rank = array.rank - len(event)
    return array.at(*at[len(at) - rank :], *event)


def _plain(
    family: str,
    given: Mapping[str, SymbolicArray],
    fixed: Mapping[str, Node],
    at: Batch,
    value: Any,
    event: tuple[int, ...],
) -> Node | None:
    if family in SCALAR:
        return SCALAR[family](value(), {**{key: _at(array, at) for key, array in given.items()}, **fixed})
    if family in ("Categorical", "CategoricalProbs"):
        if "probs" in given:
            return log(_at(given["probs"], at, value()))
        return _log_softmax(given["logits"], at, value())
    if family == "CategoricalLogits":
        return _log_softmax(given["logits"], at, value())
    if family == "Dirichlet":
        return _log_dirichlet(given["concentration"], at, value, event[0])
    if family in ("Multinomial", "MultinomialProbs") and "probs" in given:
        count = fixed["total_count"] if "total_count" in fixed else _at(given["total_count"], at)
        return _log_multinomial(given["probs"], count, at, value, event[0])
    return None


def _log_softmax(logits: SymbolicArray, at: Batch, place: Node) -> Node:
    """logits[k] − log Σ_c exp logits[c]"""
    c = Index(logits.shape[-1])
    whole = log(total([c], call("exp", _at(logits, at, index(c)))))
    return minus(_at(logits, at, place), whole)


def _log_dirichlet(alpha: SymbolicArray, at: Batch, value: Any, size: int) -> Node:
    """log Γ(Σ α) − Σ log Γ(α) + Σ (α − 1) log x"""
    c = Index(size)
    entry = _at(alpha, at, index(c))
    logs = total([c], times(minus(entry, ONE), log(value(index(c)))))
    return add(((lgamma(total([c], entry)), 1.0), (total([c], lgamma(entry)), -1.0), (logs, 1.0)))


def _log_multinomial(probs: SymbolicArray, count: Node, at: Batch, value: Any, size: int) -> Node:
    """log n! − Σ log x! + Σ x log p"""
    c = Index(size)
    entry = value(index(c))
    logs = total([c], plus(times(entry, log(_at(probs, at, index(c)))), scale(-1.0, lgamma(plus(entry, ONE)))))
    return plus(lgamma(plus(count, ONE)), logs)
