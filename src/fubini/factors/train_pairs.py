"""Two trains, or a train and a Table, over one order of names: products and sums of them.

The order is one that keeps the orders of both (`train_order`); a Table has none. Where two trains contradict each
other, neighbouring cores of the one with fewer names change places, with rounding where the ranks pass the bound. A
name that is in the batch of one is in the batch of the other too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fubini.base.arrays import Data, namespace, stop_gradient
from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Name
from fubini.factors.table import Table
from fubini.factors.train import Train
from fubini.factors.train_order import conforming_order, merge_orders
from fubini.factors.train_pieces import Pieces, pieces_of_table
from fubini.numerics.tensor_train import absorb_cores, add_cores, constant_like, identity_core, multiply_cores
from fubini.numerics.train_rounding import reorder_cores
from fubini.terms.exactness import projected
from fubini.terms.factor import Factor

Operand = Train | Table


def multiply_pieces(f: Operand, g: Operand) -> Pieces:
    """A_k(x) ⊗ B_k(x), not rounded"""
    first, second = _aligned(f, g)
    return _joined(first, second, multiply_cores(first.cores, second.cores), first.shift + second.shift)


def add_pieces(f: Operand, g: Operand) -> Pieces:
    """diag(A_k(x), B_k(x)), not rounded"""
    first, second = _aligned(f, g)
    xp = namespace(*first.cores, *second.cores, first.shift, second.shift)
    top = stop_gradient(xp.maximum(first.shift, second.shift))
    return _joined(first, second, add_cores(_scaled(first, top), _scaled(second, top)), top)


def _scaled(pieces: Pieces, top: Data) -> list[Data]:
    """The cores times exp(s − top)."""
    scale = namespace(pieces.shift, top).exp(pieces.shift - top)[..., None, None, None]
    return [pieces.cores[0] * scale, *pieces.cores[1:]]


def _joined(first: Pieces, second: Pieces, cores: Sequence[Data], shift: Data) -> Pieces:
    error, mark = first.error + second.error, first.mark | second.mark
    return first._replace(cores=cores, shift=shift, error=error, mark=mark)


def sum_pieces(pieces: Pieces, names: Sequence[Name]) -> Pieces:
    """Σ_x A(x) in place of the cores of these names, which go without one."""
    pairs = list(zip(pieces.cores, pieces.names, strict=True))
    cores = [namespace(core).sum(core, -3, keepdims=True) if own in names else core for core, own in pairs]
    return pieces._replace(cores=cores, names=tuple(None if own in names else own for own in pieces.names))


def _aligned(f: Operand, g: Operand) -> tuple[Pieces, Pieces]:
    """Both as arrays over one batch and one order of names."""
    domains = merge_inputs(f.inputs, g.inputs)
    batch = {name for h in (f, g) if isinstance(h, Train) for name in h.batch}
    outer = {name: domain for name, domain in domains.items() if name in batch}
    rank = max(h.rank for h in (f, g) if isinstance(h, Train))
    first, second = _order(f, outer), _order(g, outer)
    free = [name for name in domains if name not in outer]
    order = merge_orders(first, second, free)
    changed: dict[str, tuple[Name, ...]] = {}
    if order is None:
        if len(first) < len(second):
            changed["first"] = first = conforming_order(first, second)
        else:
            changed["second"] = second = conforming_order(second, first)
        order = merge_orders(first, second, free)
        assert order is not None, "orders that agree on the names they share can be merged"
    return (
        _over_order(f, order, outer, domains, rank, changed.get("first")),
        _over_order(g, order, outer, domains, rank, changed.get("second")),
    )


def _order(f: Operand, outer: Mapping[Name, Domain]) -> tuple[Name, ...]:
    return tuple(name for name in f.order if name not in outer) if isinstance(f, Train) else ()


def _over_order(
    f: Operand,
    order: Sequence[Name],
    outer: Mapping[Name, Domain],
    domains: Mapping[Name, Domain],
    rank: int,
    changed: tuple[Name, ...] | None,
) -> Pieces:
    """A factor as arrays with a core for each name of an order."""
    if isinstance(f, Table):
        own = [name for name in order if name in f.inputs]
        pieces = pieces_of_table(f, own, outer, rank)
    else:
        pieces = absorbed(f.pieces(outer))
        if changed is not None:
            pieces = _reordered(pieces, changed)
    return _with_ones(pieces, order, domains)._replace(rank=rank, domains=domains)


def absorbed(pieces: Pieces) -> Pieces:
    """The same arrays with every core without a name multiplied into a neighbour."""
    cores, shift = absorb_cores(pieces.cores, [name is not None for name in pieces.names])
    names = tuple(name for name in pieces.names if name is not None) or (None,)
    return pieces._replace(cores=cores, names=names, shift=pieces.shift + shift)


def _reordered(pieces: Pieces, order: tuple[Name, ...]) -> Pieces:
    places = [pieces.names.index(name) for name in order]
    cores, error = reorder_cores(pieces.cores, places, pieces.rank)
    pieces = pieces._replace(cores=cores, names=order)
    return (
        pieces if error is None else pieces._replace(error=pieces.error + error, mark=pieces.mark | projected("train"))
    )


def _with_ones(pieces: Pieces, order: Sequence[Name], domains: Mapping[Name, Domain]) -> Pieces:
    """Cores of identity matrices for the names that the factor does not have."""
    known = dict(zip(pieces.names, pieces.cores, strict=True))
    cores: list[Data] = []
    rank = 1
    for name in order:
        constant = constant_like(identity_core(domains[name].extent, rank), pieces.cores[0])
        cores.append(known.get(name, constant))
        rank = cores[-1].shape[-1]
    if None in known and cores:
        cores[0] = cores[0] * known[None]
    return pieces._replace(cores=cores or [known[None]], names=tuple(order) or (None,))


def add_up(terms: Sequence[Factor], add: Callable[[Factor, Factor], Factor]) -> Factor:
    """The sum of terms by halves: each is rounded as seldom as can be."""
    while len(terms) > 1:
        pairs = [terms[k : k + 2] for k in range(0, len(terms), 2)]
        terms = [add(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return terms[0]
