"""Questions to one circuit, answered from the root down: no plan is made, and no table over its variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fubini.base.arrays import Data, is_jax, namespace, require
from fubini.base.domains import Bint
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.circuit import MAXIMUM, SUM, Circuit
from fubini.factors.circuit_algebra import MOST_TABULATED, gather_batch, without_names
from fubini.factors.table_choice import nothing_to_choose
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness, WhiteNoise, require_key, source_of
from fubini.terms.heads import ARGMAX, CHOOSE, DRAW, exact_argmax, exact_sample
from fubini.terms.value import Array


def _has_own_answer(f: Circuit, names: tuple) -> bool:
    """Whether a variable is asked for, and few others are not: those are names of the batch meanwhile."""
    asked = set(names) & set(f.variables)
    return bool(asked) and len(f.variables) - len(asked) <= MOST_TABULATED


@exact_argmax.rule(when=lambda f, names: f.nodes != SUM and _has_own_answer(f, names))
def argmax_circuit(f: Circuit, names: tuple) -> dict:
    """arg max_x f: at every node the element of greatest value, after the names of the batch that are asked for"""
    inputs = f.inputs
    others = tuple(name for name in names if name in f.batch)
    f = without_names(f, [name for name in f.variables if name not in names])
    values: dict[Name, Any] = {}
    if others:
        values = interpret(ARGMAX, f.max(*f.variables), others)
        batch = tuple(name for name in f.batch if name not in others)
        f = gather_batch(f, {name: (values[name], batch) for name in others}, f.batch_domains)
    chosen = interpret(CHOOSE, f, f.variables)
    values.update({name: _plain(chosen[name], [other for other in inputs if other not in names]) for name in chosen})
    return {name: values[name] for name in names}


def _can_draw(key: Any, f: Circuit, names: tuple, n: int | None) -> bool:
    is_number = n is None or (isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 1)
    return is_number and not isinstance(key, WhiteNoise) and f.nodes != MAXIMUM and _has_own_answer(f, names)


@exact_sample.rule(when=_can_draw)
def sample_circuit(key: Any, f: Circuit, names: tuple, n: int | None) -> dict:
    """x ~ f / Σ f: at every node an element by its share, after the names of the batch that are asked for"""
    require_key(key)
    inputs = f.inputs
    randomness = source_of(key, 1 if n is None else n, "numpy" if f.is_on_numpy else "jax")
    others = tuple(name for name in names if name in f.batch)
    f = without_names(f, [name for name in f.variables if name not in names])
    values: dict[Name, Any] = {}
    if others:
        values = interpret(DRAW, randomness, f.sum(*f.variables)._joined(), others)
        f = _at_draws(f, {name: values[name] for name in others}, randomness)
    values.update(interpret(DRAW, randomness, f, f.variables))
    names_first = [SAMPLES, *(other for other in inputs if other not in names)]
    drawn = {name: _require_drawn(_plain(values[name], names_first), names) for name in names}
    return drawn if n is not None else {name: value[0] for name, value in drawn.items()}


def _at_draws(f: Circuit, drawn: dict[Name, Array], randomness: Randomness) -> Circuit:
    """The circuit at draws of some names of its batch."""
    rest = {name: domain for name, domain in f.batch_domains.items() if name not in drawn}
    domains = {SAMPLES: randomness.domain, **rest}
    return gather_batch(f, {name: (value.array, value.names) for name, value in drawn.items()}, domains)


def _plain(value: Array, names: Sequence[Name]) -> Data:
    """The numbers of an assignment, its axes in this order."""
    domains = {name: domain for name, domain in value.inputs.items()}
    shape = [domains.get(name, Bint[1]).extent for name in names]
    data = namespace(value.array).broadcast_to(align(value.array, value.names, names), shape)
    return data if is_jax(data) else np.array(data)[()]


def _require_drawn(array: Data, names: tuple) -> Data:
    return require(array >= 0, lambda: nothing_to_choose(names), array)[0]
