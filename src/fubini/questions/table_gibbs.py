"""Gibbs sampling of a network of finite variables: one after another, and those that tables with zeros tie together.

Where a table is deterministic, as `either` = a or b, draws of one variable at a time would stay where they began. The
variables that it ties are drawn as a block, exactly, by a plan of their tables given all other variables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.domains import Bint
from fubini.eliminate.ask import sample
from fubini.errors import DataError, Intractable, MemoryLimit, listed
from fubini.factors.table import Table
from fubini.infer.sampler import Draw
from fubini.infer.stored_states import fault_of_count, fault_of_range, first_fault
from fubini.infer.tied_variables import TiedVariables, ZeroPattern, connection_of
from fubini.infer.transitions import Transition, Transitions
from fubini.models.flat_model import FlatModel
from fubini.models.site_tables import tables_of
from fubini.questions.closed_form import require_evidence
from fubini.terms.value import Variable

SMALL = 1024  # entries of one table from which variables are drawn together
SCATTERED = 10  # sweeps over all that is possible, each value as likely, with which a chain begins
Values = dict[str, Data]


class TableState(NamedTuple):
    """Of one chain: the values of all variables, its key, and how many sweeps were made."""

    values: Values
    key: Data
    sweeps: Data


class Graph(NamedTuple):
    """Variables and their numbers of values, the variables of each table, and those that are drawn together."""

    sizes: tuple[tuple[str, int], ...]
    scopes: tuple[tuple[str, ...], ...]
    blocks: tuple[tuple[str, ...], ...] = ()

    @property
    def moves(self) -> tuple[tuple[str, ...], ...]:
        """What is drawn at once, in order."""
        together = {name for block in self.blocks for name in block}
        return (*self.blocks, *((name,) for name, _ in self.sizes if name not in together))

    def given(
        self, block: Sequence[str], logs: Sequence[Data], values: Mapping[str, Data]
    ) -> list[tuple[tuple[str, ...], Data]]:
        """The tables of a block, at the values of all other variables: their variables, and log-weights."""
        near = [(scope, log) for scope, log in zip(self.scopes, logs, strict=True) if not set(scope).isdisjoint(block)]
        return [
            (
                tuple(name for name in scope if name in block),
                log[tuple(slice(None) if name in block else values[name] for name in scope)],
            )
            for scope, log in near
        ]


def table_gibbs(model: FlatModel, warmup: int) -> Transitions | None:
    """Make the sampler of a model whose latents are scalars with finitely many values; None of another."""
    if model.tables is None or any(domain.shape for _, domain in model.outline.free_domains()):
        return None
    try:
        factors, variables = tables_of(model.reading)
    except Intractable:
        return None  # a table that cannot be read
    graph = Graph(
        tuple((str(variable.name), variable.output.extent) for variable in variables),
        tuple(tuple(map(str, factor.inputs)) for factor in factors),
    )
    logs = [np.asarray(factor.log().data) for factor in factors]  # type: ignore[attr-defined]
    graph, start = _with_blocks(model, graph, logs)
    return Transitions("gibbs", _transition(graph), [jnp.asarray(log) for log in logs], warmup, partial(_starts, start))


def _with_blocks(model: FlatModel, graph: Graph, logs: Sequence[np.ndarray]) -> tuple[Graph, dict[str, int]]:
    """The graph with the variables that are to be drawn together, and possible values to begin with."""
    names = [name for name, _ in graph.sizes]
    labels = [*model.reading.terms, *names]  # of the last tables, which are flat, none has zeros that tie
    patterns = [
        ZeroPattern(label, tuple(map(names.index, scope)), log > -np.inf)
        for label, scope, log in zip(labels, graph.scopes, logs, strict=False)
    ]
    connection = connection_of([size for _, size in graph.sizes], patterns)
    if connection.start is None:
        require_evidence(-np.inf, model.joint)
    start = dict(zip(names, connection.start or (), strict=True))
    blocks = []
    for tied in connection.tied:
        block = tuple(names[variable] for variable in tied.variables)
        blocks.append(block)
        allowed = [((names[v],), np.where(connection.allowed[v], 0.0, -np.inf)) for v in tied.variables]
        try:
            start |= _planned(graph, jax.random.key(0), block, [*graph.given(block, logs, start), *allowed])
        except MemoryLimit as error:
            raise _too_large(block, tied, error) from None
        except DataError:
            require_evidence(-np.inf, model.joint)
    return graph._replace(blocks=tuple(blocks)), start


def _too_large(block: Sequence[str], tied: TiedVariables, error: MemoryLimit) -> MemoryLimit:
    """The error of variables that cannot be drawn together."""
    alone = "cannot" if tied.is_known else "may not be able to"
    return MemoryLimit(
        f"draws of {len(block):,} variables, {listed(block[:12])}{', …' if len(block) > 12 else ''}",
        expected=f"a plan within the memory limit that draws them together: one at a time, they {alone} leave the "
        f"values they begin with, as the tables of {listed(tied.tables[:12])} have zeros",
        nearest=str(error).splitlines()[0],
        advice="observe some of these variables, or make the zeros of these tables small positive numbers; "
        'fb.propagate(net.observed_factors, method="belief propagation") approximates marginals',
    )


def _joint(tables: Sequence[tuple[tuple[str, ...], Data]], block: Sequence[str]) -> Data:
    """The log-weights of all values of a block together, one after another."""
    return jnp.ravel(sum(_along(log, names, block) for names, log in tables))


def _planned(
    graph: Graph, key: Data, block: Sequence[str], tables: Sequence[tuple[tuple[str, ...], Data]]
) -> dict[str, Data]:
    """One draw of some variables together, by a plan of their tables."""
    sizes = dict(graph.sizes)
    factors = [Table.from_log(log, {name: Bint[sizes[name]] for name in names}) for names, log in tables]
    return sample(key, factors, [Variable(name, Bint[sizes[name]]) for name in block])


def _along(log: Data, names: Sequence[str], block: Sequence[str]) -> Data:
    """A table over some variables of a block, with an axis for each of them."""
    order = sorted(range(len(names)), key=lambda axis: block.index(names[axis]))
    sizes = {name: log.shape[axis] for axis, name in enumerate(names)}
    return log.transpose(order).reshape([sizes.get(name, 1) for name in block])


def _starts(start: Mapping[str, int], key: Data, chains: int) -> Values:
    return {name: jnp.full(chains, value) for name, value in start.items()}


def _noises(shape: Sequence[int]) -> int:
    """How many numbers draw variables of these sizes together from one table; none where a plan draws them."""
    size = math.prod(shape)
    return size if size <= SMALL else 0


@lru_cache(maxsize=64)
def _transition(graph: Graph) -> Transition:
    """One sweep; the same for all numbers, so that what is compiled is used again."""

    def swept(key: Data, values: Values, logs: Sequence[Data]) -> Values:
        sizes = dict(graph.sizes)
        shapes = {block: tuple(sizes[name] for name in block) for block in graph.moves}
        ends = np.cumsum([0, *(_noises(shape) for shape in shapes.values())])
        first, second = jax.random.split(key)
        noise = jax.random.gumbel(first, (int(ends[-1]),))  # of all at once: each call is much to compile
        for place, (block, shape) in enumerate(shapes.items()):
            tables = graph.given(block, logs, values)
            if _noises(shape):
                noisy = _joint(tables, block) + noise[ends[place] : ends[place + 1]]
                drawn = dict(zip(block, jnp.unravel_index(jnp.argmax(noisy), shape), strict=True))
            else:
                drawn = _planned(graph, jax.random.fold_in(second, place), block, tables)
            values = {**values, **{name: drawn[name].astype(values[name].dtype) for name in block}}
        return values

    def init(key: Data, start: Values, logs: Sequence[Data]) -> TableState:
        flat = [jnp.where(log > -jnp.inf, 0.0, -jnp.inf) for log in logs]
        first, second = jax.random.split(key)
        scattered = jax.lax.fori_loop(
            0, SCATTERED, lambda sweep, values: swept(jax.random.fold_in(first, sweep), values, flat), start
        )
        return TableState(scattered, second, jnp.asarray(0))

    def step(state: TableState, logs: Sequence[Data]) -> TableState:
        values = swept(jax.random.fold_in(state.key, state.sweeps), state.values, logs)
        return TableState(values, state.key, state.sweeps + 1)

    def fault(state: TableState, drawn: Draw, transitions: int) -> str | None:
        ranges = (
            fault_of_range(name, values[name], 0, size - 1)
            for values in (state.values, drawn.values)
            for name, size in graph.sizes
        )
        return fault_of_count(state.sweeps, transitions) or first_fault(ranges)

    return Transition(init, step, lambda state, _: Draw(state.values, {}), fault, is_vectorised=True)
