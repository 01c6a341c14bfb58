"""Choosing an assignment of a diagram: its arg max, or a draw, by one pass from the root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fubini.base.arrays import Data, is_jax, is_key, namespace, require
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.diagram import Diagram
from fubini.factors.no_mass import nothing_to_choose
from fubini.factors.table_choice import draw_index, over_samples
from fubini.numerics.decision_descent import descend, greatest_below, log_cells_between, mass_below
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness, source_of
from fubini.numerics.scaled import read_log
from fubini.terms.heads import CHOOSE, DRAW, exact_argmax, exact_choose, exact_draw, exact_sample
from fubini.terms.value import Array


def _over(f: Diagram, names: Sequence[Name]) -> Diagram:
    """The diagram with the names chosen as its levels, and all others as its batch."""
    return f.with_batch([name for name in f.names if name not in names])


def _arrays(values: Sequence[Data], f: Diagram, batch: tuple[Name, ...], domains: dict) -> dict[Name, Array]:
    inputs = {name: domains[name] for name in batch}
    return {name: Array._of(value, batch, inputs, f.inputs[name]) for name, value in zip(f.names, values, strict=True)}


@exact_choose.rule
def choose_diagram(f: Diagram, names: tuple) -> dict:
    """arg max over the names: at each node the first child with the greatest weight below it"""
    f = _over(f, names)
    best = greatest_below(f.nodes, read_log(f.terminals.pair))
    xp = namespace(best)
    ok = best[..., f.nodes.root] > -np.inf

    def scores(level: int, kids: Data) -> Data:
        return xp.take_along_axis(best, kids, axis=-1)

    values = descend(f.nodes, scores, lambda found: xp.argmax(found, axis=-1), best.shape[:-1])
    values = [require(ok, lambda: nothing_to_choose(names), xp.asarray(value))[0] for value in values]
    return _arrays(values, f, f.batch, f.inputs)


@exact_draw.rule
def draw_diagram(randomness: Randomness, f: Diagram, names: tuple) -> dict:
    """x ~ f / Σ f: at each node a child with its share of the mass below, for each sample and cell of the others"""
    f = _over(f, names)
    terminals = over_samples(f.terminals, randomness)
    mass = mass_below(f.nodes, read_log(terminals.pair))
    batch = terminals.names[:-1]

    def scores(level: int, kids: Data) -> Data:
        xp = namespace(mass, kids)
        between = xp.asarray(log_cells_between(f.nodes, level))[kids]
        return xp.take_along_axis(xp.asarray(mass), kids, axis=-1) + between

    values = descend(f.nodes, scores, lambda found: draw_index(randomness, found, names), mass.shape[:-1])
    ok = mass[..., f.nodes.root] > -np.inf
    values = [require(ok, lambda: nothing_to_choose(names), value)[0] for value in values]
    return _arrays(values, f, batch, terminals.inputs)


# -- of one diagram, which needs no plan ----------------------------------------------------------------------------


@exact_argmax.rule
def argmax_diagram(f: Diagram, names: tuple) -> dict:
    """arg max_x f, by one pass from the root"""
    chosen = interpret(CHOOSE, f, names)
    return {name: _plain(chosen[name], [other for other in f.inputs if other not in names]) for name in names}


def _is_asked_rightly(key: Any, f: Diagram, names: tuple, n: int | None) -> bool:
    return is_key(key) and (n is None or (type(n) is int and n > 0))


@exact_sample.rule(when=_is_asked_rightly)
def sample_diagram(key: Any, f: Diagram, names: tuple, n: int | None) -> dict:
    """x ~ f / Σ f, by one pass from the root"""
    engine = "numpy" if f.terminals.is_on_numpy else "xla"
    drawn = interpret(DRAW, source_of(key, 1 if n is None else n, engine), f, names)
    order = [SAMPLES, *(other for other in f.inputs if other not in names)]
    values = {name: _plain(drawn[name], order) for name in names}
    return values if n is not None else {name: value[0] for name, value in values.items()}


def _plain(value: Array, order: Sequence[Name]) -> Data:
    """The numbers of an assignment, axes in this order."""
    data = align(value.array, value.names, order)
    return data if is_jax(data) else np.array(data)[()]
