"""Labels that zeros of a density tie together, so that draws of one entry at a time may not reach all that is possible.

A term log P[z[i − 1], z[i]] with zeros in P is a table over two entries for each i. Terms that read one entry restrict
it by itself; they count where others tie, as they say which values are possible at all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fubini.algebra.axes import aligned
from fubini.algebra.binding import opened, replaced
from fubini.algebra.build import const, index, plus
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.label_digits import is_finite
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.walk import walk
from fubini.base.arrays import double_precision
from fubini.errors import FubiniError, NoRule, SamplerWarning, listed, warn
from fubini.infer.tied_variables import TiedVariables, ZeroPattern, connection_of
from fubini.models.eliminated_model import EliminatedModel

MOST_CELLS, MOST_TABLES = 10_000_000, 20_000  # that are looked at
ADVICE = "gibbs(…, blocked=True) draws all labels at once, infer(key) sums them out; or give these zeros small weights"


class Ties(NamedTuple):
    """Entries of labels by number, and those that are tied."""

    entries: tuple[str, ...]
    tied: tuple[TiedVariables, ...]

    def require_connected(self, what: str) -> None:
        """Raise where draws of one entry at a time cannot reach all that is possible; warn where it is not known."""
        for each in self.tied:
            names = [self.entries[place] for place in each.variables]
            shown = listed(names[:6]) + (f" and {len(names) - 6:,} more" if len(names) > 6 else "")
            tables = f"the zeros of the density of {listed(each.tables)} tie {shown}"
            if each.is_known:
                raise NoRule(
                    what,
                    expected="labels that can change one at a time, from all possible values to all others",
                    nearest=f"{tables}: from some of their values no change of one leads on",
                    advice=ADVICE,
                )
            warn(
                SamplerWarning(
                    f"{what}, one at a time, may not reach all that is possible: {tables}, too many to tell",
                    advice=ADVICE,
                )
            )


def ties_of(
    eliminated_model: EliminatedModel,
    blocks: Iterable[Sequence[str]] = (),
    held: Mapping[str, Mapping[int, int]] | None = None,
) -> Ties:
    """The ties of all labels of a model, where latents of a block are drawn together; `held` entries stay as they are.

    Labels that were summed out move along with each of the others.
    """
    leaves = {name: leaf for name, leaf in eliminated_model.reading.sites.items() if is_finite(leaf)}
    ends = np.cumsum([0, *(math.prod(leaf.shape) for leaf in leaves.values())])
    first = dict(zip(leaves.values(), map(int, ends), strict=False))
    patterns = _patterns(eliminated_model, first)
    if not patterns:
        return Ties((), ())
    numbers = {name: range(first[leaf], first[leaf] + math.prod(leaf.shape)) for name, leaf in leaves.items()}
    values = {numbers[name][entry]: value for name, each in (held or {}).items() for entry, value in each.items()}
    names = tuple(
        f"{name}[{', '.join(map(str, place))}]" if leaf.shape else name
        for name, leaf in leaves.items()
        for place in itertools.product(*map(range, leaf.shape))
    )
    if len(patterns) > MOST_TABLES:
        among = sorted({variable for pattern in patterns for variable in pattern.variables})
        return Ties(names, (TiedVariables(tuple(among), tuple({p.name: 0 for p in patterns}), False),))
    sizes = [leaf.count for leaf in leaves.values() for _ in range(math.prod(leaf.shape))]
    together = [[number for name in block if name in numbers for number in numbers[name]] for block in blocks]
    along = [number for name in leaves if name in eliminated_model.eliminated for number in numbers[name]]
    left = [_where_held(pattern, values) for pattern in patterns]
    return Ties(names, connection_of(sizes, left, together, along).tied)


def _where_held(pattern: ZeroPattern, held: Mapping[int, int]) -> ZeroPattern:
    """A pattern where some variables stay at a value."""
    places = tuple(held.get(variable, slice(None)) for variable in pattern.variables)
    left = tuple(variable for variable in pattern.variables if variable not in held)
    return ZeroPattern(pattern.name, left, np.asarray(pattern.is_possible[places]))


class _Piece(NamedTuple):
    """Σ body over indices, a part of the density of a site, with the entries of labels that it reads."""

    name: str
    over: tuple[Index, ...]
    body: Node
    entries: tuple[Node, ...]
    has_others: bool  # latents that are no labels


def _patterns(eliminated_model: EliminatedModel, first: Mapping[Leaf, int]) -> list[ZeroPattern]:
    """The tables with zeros over entries of labels; none where no table ties two of them."""
    terms = eliminated_model.reading.terms
    pieces = [piece for name, term in terms.items() if term.leaves & set(first) for piece in _pieces(name, term, first)]
    made: list[ZeroPattern] = []
    for is_tie in (True, False):
        for piece in pieces:
            if (len(piece.entries) > 1) is is_tie and (is_tie or not piece.has_others):
                made += _tables(eliminated_model, piece, first)
        if not made:
            break
    return made


def _pieces(name: str, term: Node, first: Mapping[Leaf, int], over: tuple[Index, ...] = ()) -> Iterator[_Piece]:
    """The sums that a term adds up, which can be read as tables over entries."""
    if term.kind == "add":
        for part, _ in term.args:
            yield from _pieces(name, part, first, over)
    elif term.kind == "sum":
        fresh, body = opened(term)
        yield from _pieces(name, body, first, (*over, *fresh))
    else:
        entries = tuple(this for this in walk(term) if this.kind == "get" and this.args[0] in first)
        is_read = all(not part.leaves & set(first) and _is_of(part, over) for one in entries for part in one.args[1:])
        is_opaque = any(leaf.of & set(first) for leaf in term.leaves)  # a function of labels that was not read
        if entries and is_read and not is_opaque:
            yield _Piece(name, over, term, entries, any(_is_latent(leaf) for leaf in term.leaves - set(first)))


def _is_latent(leaf: Leaf) -> bool:
    return leaf.role == "site"


def _is_of(place: Node, over: Sequence[Index]) -> bool:
    """Whether a place depends on these indices, and on none that is bound elsewhere."""
    return all(this.args[0] in over for this in walk(place) if this.kind == "index")


def _tables(eliminated_model: EliminatedModel, piece: _Piece, first: Mapping[Leaf, int]) -> list[ZeroPattern]:
    """A table for each cell of the sum, where some of its entries are zero."""
    digits = {entry: Index(entry.args[0].count) for entry in piece.entries}
    axes = (*piece.over, *digits.values())
    if math.prod(i.size for i in axes) > MOST_CELLS:
        return []
    values = {entry: plus(const(entry.args[0].first), index(i)) for entry, i in digits.items()}
    body = replaced(piece.body, values)
    is_possible: Any = False
    for arrays in _arrays(eliminated_model, piece.has_others):
        with double_precision(), np.errstate(all="ignore"):
            logs = aligned(Evaluation(arrays, xp=np).of(body), axes)
        is_possible = is_possible | (np.broadcast_to(logs, [i.size for i in axes]) != -np.inf)
    if np.all(is_possible):
        return []
    cells = is_possible.reshape(-1, *(i.size for i in digits.values()))
    evaluation = Evaluation(eliminated_model.reading.arrays({}), xp=np)
    numbers = [first[entry.args[0]] + _numbers(evaluation, entry, piece.over) for entry in piece.entries]
    ties = np.flatnonzero(~cells.reshape(len(cells), -1).all(axis=1))
    return [_table(piece.name, [int(each[cell]) for each in numbers], cells[cell]) for cell in ties]


def _table(name: str, variables: Sequence[int], is_possible: np.ndarray) -> ZeroPattern:
    """A pattern in which each variable stands once: of an entry that is read twice, the diagonal."""
    letters = {variable: axis for axis, variable in enumerate(dict.fromkeys(variables))}
    data = np.einsum(is_possible.astype(float), [letters[v] for v in variables], list(letters.values()))
    return ZeroPattern(name, tuple(letters), data > 0)


def _numbers(evaluation: Evaluation, entry: Node, over: tuple[Index, ...]) -> np.ndarray:
    """The number of the entry that is read in each cell, counted within its label."""
    leaf, *places = entry.args
    shape = [i.size for i in over]
    at = [np.broadcast_to(aligned(evaluation.of(place), over), shape).astype(int).ravel() for place in places]
    if not at:
        return np.zeros(math.prod(shape), int)
    return np.ravel_multi_index([np.clip(p, 0, n - 1) for p, n in zip(at, leaf.shape, strict=True)], leaf.shape)


def _arrays(eliminated_model: EliminatedModel, has_others: bool) -> Iterator[Any]:
    """Numbers of what is not a label; of latents among it two draws, at both of which a zero is one."""
    reading = eliminated_model.reading
    if not has_others:
        yield reading.arrays({})
        return
    prior = eliminated_model.model.prior
    for seed in range(2):
        try:
            drawn = prior.sample(jax.random.key(seed))
            values = drawn if isinstance(drawn, Mapping) else prior.flatten(drawn, prior.outline.names)
        except FubiniError:
            return  # an improper prior
        yield reading.arrays({name: np.asarray(values[name]) for name in reading.sites})
