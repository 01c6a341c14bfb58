"""Plates of trains: products over the cells of names, each cell a train of its own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product

from fubini.base.arrays import namespace
from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.factors.table import Table
from fubini.factors.train import Train, assemble
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import MULTIPLY, exact_exclude, exact_multiply_out
from fubini.terms.value import to_value


@exact_multiply_out.rule
def multiply_out_train(f: Train, names: tuple) -> Factor:
    """Π_i f(i, x)  =  f(0, x) f(1, x) ⋯, rounded where the ranks pass the bound"""
    return reduce(_times, _cells(f, names))


@exact_exclude.rule(when=lambda semiring, f, names: semiring in (sum_product, max_product))
def exclude_train(semiring: Semiring, f: Train, names: tuple) -> Factor:
    """g(i, x)  =  Π_{j≠i} f(j, x), with i in the batch"""
    cells = _cells(f, names)
    if len(cells) == 1:
        return Train.ones(f.inputs, f.rank)
    others = [reduce(_times, [*cells[:k], *cells[k + 1 :]]) for k in range(len(cells))]
    return _stack(others, {name: f.inputs[name] for name in names})


def _times(f: Factor, g: Factor) -> Factor:
    return interpret(MULTIPLY, f, g)


def _cells(f: Train, names: Sequence[Name]) -> list[Factor]:
    places = product(*(range(f.inputs[name].extent) for name in names))
    return [substitute(f, {name: to_value(k) for name, k in zip(names, at, strict=True)}) for at in places]


def _stack(cells: Sequence[Factor], names: dict[Name, Domain]) -> Factor:
    """One factor over the names from the factors of their cells, which are alike."""
    sizes = [domain.extent for domain in names.values()]
    first = cells[0]
    if isinstance(first, Train):
        parts = [cell.pieces(first.batch) for cell in cells if isinstance(cell, Train)]
        xp = namespace(*parts[0].cores)
        stacked = [xp.stack(alike) for alike in zip(*(part.cores for part in parts), strict=True)]
        cores = [core.reshape(*sizes, *core.shape[1:]) for core in stacked]
        shift, error = (
            xp.stack([xp.asarray(number) for number in numbers]).reshape(*sizes, *numbers[0].shape)
            for numbers in ([part.shift for part in parts], [part.error for part in parts])
        )
        batch, domains = {**names, **first.batch}, {**names, **first.inputs}
        return assemble(parts[0]._replace(cores=cores, shift=shift, error=error, batch=batch, domains=domains))
    tables = [cell for cell in cells if isinstance(cell, Table)]
    pairs = [table.aligned(tables[0].names) for table in tables]
    xp = namespace(*(array for pair in pairs for array in pair[:2]))
    shape = (*sizes, *pairs[0].weights.shape)
    weights = xp.stack([pair.weights for pair in pairs]).reshape(shape)
    shift = xp.stack([xp.broadcast_to(pair.shift, pair.weights.shape) for pair in pairs]).reshape(shape)
    return Table._of(Scaled(weights, shift), {**names, **tables[0].inputs}, tables[0].exactness)
