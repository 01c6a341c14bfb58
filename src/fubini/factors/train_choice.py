"""Choosing a value of each name of a train: draws by conditional contraction, and the arg max where entries are few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fubini.base.arrays import Data, is_jax, namespace, stop_gradient
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.errors import DataError, NoRule, listed
from fubini.factors.table_choice import draw_index
from fubini.factors.train import LARGEST_TABLE, Train, train_to_table
from fubini.factors.train_pairs import absorbed
from fubini.factors.train_pieces import noise_level, refuse_negative
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness, require_key, source_of
from fubini.numerics.scaled import positive_log
from fubini.numerics.tensor_train import scale_core
from fubini.terms.factor import substitute
from fubini.terms.heads import CHOOSE, DRAW, exact_argmax, exact_choose, exact_draw, exact_sample
from fubini.terms.value import Array


@exact_choose.rule
def choose_train(f: Train, names: tuple) -> dict:
    """arg max over the names, of every entry, where they are few"""
    if f.size > LARGEST_TABLE:
        raise NoRule(
            f"the arg max over {listed(names)} of {f}",
            expected=f"at most {LARGEST_TABLE:,} entries, to be written out as a Table",
            nearest="the greatest entry of a product of matrices has no closed form",
            advice="ask for the arg max of the Tables that it is a product of, observe names, or draw samples",
        )
    return interpret(CHOOSE, train_to_table(f), names)


@exact_draw.rule
def draw_train(randomness: Randomness, f: Train, names: tuple) -> dict:
    """x_k ~ A₁(x₁) ⋯ A_k(x_k) (Σ A_{k+1}) ⋯ (Σ A_d), one name after the other, given those before"""
    outer = tuple(name for name in names if name not in f.order)
    inner = tuple(name for name in names if name in f.order)
    if not outer:
        return _draw(randomness, f, inner)
    if not inner:
        return interpret(DRAW, randomness, train_to_table(f, f"draws of {listed(names)}"), names)
    chosen = interpret(DRAW, randomness, f.sum(*inner), outer)
    return {**chosen, **interpret(DRAW, randomness, substitute(f, chosen), inner)}


@exact_argmax.rule
def argmax_train(f: Train, names: tuple) -> dict:
    """arg max over the names, without a plan: its sizes say nothing of the cost of a train"""
    chosen = interpret(CHOOSE, f, names)
    return {name: _plain(chosen[name], tuple(other for other in f.inputs if other not in names)) for name in names}


@exact_sample.rule
def sample_train(key: Any, f: Train, names: tuple, n: int | None) -> dict:
    """x ~ f / Σ f, without a plan: its sizes say nothing of the cost of a train"""
    require_key(key)
    if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1):
        raise DataError(f"n={n!r} samples", expected="a whole number of at least 1, or None for one without an axis")
    engine = "xla" if any(map(is_jax, f.leaves())) else "numpy"
    chosen = interpret(DRAW, source_of(key, 1 if n is None else int(n), engine), f, names)
    order = (SAMPLES, *(other for other in f.inputs if other not in names))
    draws = {name: _plain(chosen[name], order) for name in names}
    return draws if n is not None else {name: value[0] for name, value in draws.items()}


def _plain(value: Array, order: tuple[Name, ...]) -> Data:
    """The numbers of an assignment with its axes in order."""
    data = align(value.array, value.names, order)
    return data if is_jax(data) else np.array(data)[()]


def _draw(randomness: Randomness, f: Train, names: Sequence[Name]) -> dict[Name, Array]:
    others = {name: domain for name, domain in f.inputs.items() if name not in names and name is not SAMPLES}
    batch = {SAMPLES: randomness.domain, **others}
    pieces = absorbed(f.pieces(batch))
    shape = tuple(domain.extent for domain in batch.values())
    chosen: dict[Name, Array] = {}
    left = np.ones((1, 1, 1))
    for core, after, name in zip(pieces.cores, _sums_after(pieces.cores), pieces.names, strict=True):
        assert name is not None, "one name at least is drawn"
        xp = namespace(left, core, after)
        rows = xp.matmul(left, core)  # (…, n, 1, r′)
        logs = _log_weights(xp.matmul(rows, after)[..., 0, 0], name)
        index = draw_index(randomness, xp.broadcast_to(logs, (*shape, logs.shape[-1])), names)
        chosen[name] = Array._of(index, tuple(batch), batch, f.inputs[name])
        left = _row_at(xp.broadcast_to(rows, (*shape, *rows.shape[-3:])), index)
    return {name: chosen[name] for name in names}


def _sums_after(cores: Sequence[Data]) -> list[Data]:
    """(Σ A_{k+1}) ⋯ (Σ A_d) for each k, to scale."""
    sums: list[Data] = [np.ones((1, 1, 1))]
    for core in reversed(cores[1:]):
        xp = namespace(core, sums[-1])
        sums.append(scale_core(xp.matmul(xp.sum(core, -3, keepdims=True), sums[-1]))[0])
    return sums[::-1]


def _log_weights(weights: Data, name: Name) -> Data:
    """The logarithms of weights; negative ones, which rounding can make, are 0, and reported, and NaN if traced."""
    xp = namespace(weights)
    negative = stop_gradient(weights) < -noise_level(weights, 1)
    positive = refuse_negative(xp.where(weights < 0, 0.0, weights), negative, f"draws of {name!r}", "weights")
    return positive_log(positive)


def _row_at(rows: Data, index: Data) -> Data:
    """The row of the value chosen; not a number where none could be."""
    xp = namespace(rows, index)
    at = xp.take_along_axis(rows, xp.maximum(index, 0)[..., None, None, None], -3)
    return scale_core(at if xp is np else xp.where((index < 0)[..., None, None, None], xp.nan, at))[0]
