"""Parameters that a family allows: checked where they are known numbers, proved where latents decide them, else marked.

A mark is a term of the log-density: 0, or not a number where the parameter leaves its constraint. It blocks the
integral over the latents that decide it, so that an answer is right or refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpyro.distributions import constraints

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, as_product, const, index, minus, multiply, plus
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.polynomial import expanded, range_of_affine
from fubini.algebra.ranges import bounds, is_surely_positive, is_whole
from fubini.algebra.sums import total
from fubini.algebra.walk import walk
from fubini.base.arrays import Data, require
from fubini.base.distant import is_unread
from fubini.base.domains import Real
from fubini.distributions.blueprint import Blueprint, signature_of
from fubini.distributions.parameter_checks import Requirement, is_symmetric, requirements, satisfied, shown
from fubini.distributions.supports import is_everywhere
from fubini.errors import DomainError
from fubini.read.given_matrices import GivenMatrices
from fubini.read.jaxpr_reader import Reader
from fubini.read.scaled_matrix import positive_definite_entries, without_scale
from fubini.read.symbolic_array import SymbolicArray

CLOSED = (  # constraints that hold at their bounds
    *(constraints.greater_than_eq, constraints.interval, constraints.integer_interval),
    *(constraints.integer_greater_than, type(constraints.nonnegative_integer)),
)
SLACK = 1e-12  # of bounds that are sums of rounded numbers


def validity(
    blueprint: Blueprint, given: Mapping[str, SymbolicArray], at: tuple[Node, ...], reader: Reader, masked: bool
) -> Node:
    """0, or not a number where some parameter at a batch cell is not allowed; an error where its numbers are known.

    Where the density is masked, a known parameter that is not allowed is no error: the cell may be omitted.
    """
    marks = []
    for requirement in _requirements(blueprint, given):
        if all(key in given for key in requirement.keys):
            whole = _quantity([given[key] for key in requirement.keys])
            marks.append(_mark(requirement, whole, at, reader, masked))
    return plus(*marks) if marks else ZERO


def _requirements(blueprint: Blueprint, given: Mapping[str, SymbolicArray]) -> Iterator[Requirement]:
    shapes = [given[key].shape for key in blueprint.keys]
    try:
        signature = signature_of(blueprint, tuple(map(Real.with_shape, shapes)))
    except DomainError:
        return iter(())
    return requirements(blueprint.family, signature.constraints)


def _quantity(arrays: Sequence[SymbolicArray]) -> SymbolicArray:
    """A parameter, or the difference of two."""
    if len(arrays) == 1:
        return arrays[0]
    first, second = arrays
    shape = np.broadcast_shapes(first.shape, second.shape)

    def at(*where: Node) -> Node:
        return minus(*(part.at(*where[len(where) - part.rank :]) for part in (first, second)))

    return SymbolicArray(shape, at)


def _mark(
    requirement: Requirement,
    array: SymbolicArray,
    at: tuple[Node, ...],
    reader: Reader,
    masked: bool,
    is_factor: bool = False,  # known numbers beside latents, which were not checked when they were given
) -> Node:
    constraint = requirement.constraint
    if array.kronecker is not None and constraint.event_dim == 2:
        front, left, right = array.kronecker
        positive = requirement._replace(constraint=constraints.positive)
        scalar = _mark(positive, SymbolicArray((), lambda: front), (), reader, masked)
        return plus(scalar, *(_mark(requirement, factor, at, reader, masked) for factor in (left, right)))
    is_random = any(map(_is_random, _entry(array).leaves))
    if reader.is_checked and not is_random and not is_factor:
        return ZERO
    numbers = _numbers(array, reader)
    if numbers is not None:
        ok = satisfied(constraint, numbers)
        if np.all(ok):
            return ZERO
        if not masked:
            raise requirement.error(shown(numbers), numbers)
    elif is_everywhere(constraint) or _is_proved(constraint, array, reader):
        return ZERO
    elif (every := _at_every_label(array, reader)) is not None:
        numbers = _numbers(every, reader)
        if numbers is None:  # traced: one answer for all labels
            mark = Mark(requirement, is_random=False)
            return reader.opaque_array(
                f"allowed {requirement.label} ", (), lambda data: jnp.sum(mark(data)), (every,)
            ).at()
        if np.all(satisfied(constraint, numbers)):
            return ZERO
    elif (part := _known_factor(constraint, array, reader)) is not None:
        return _mark(requirement, part, at, reader, masked, is_factor=True)
    if not is_random and (front := _front_of_positive_definite(constraint, array, reader)) is not None:
        return node("call", Mark(requirement._replace(constraint=constraints.positive), is_random), front)
    mark = Mark(requirement, is_random)
    rank = constraint.event_dim
    batch = array.shape[: array.rank - rank]
    place = at[len(at) - len(batch) :]
    if rank:
        entry = reader.opaque_array(f"allowed {requirement.label} ", batch, mark, (array,)).at(*place)
    else:
        entry = node("call", mark, array.at(*place))
    reader.marks.append((mark, array, entry))
    return entry


def _front_of_positive_definite(constraint: Any, array: SymbolicArray, reader: Reader) -> Node | None:
    """The number that a known, positive definite matrix is multiplied by; None where it is another matrix."""
    scaled = GivenMatrices({"": array}, reader).numbers("") if constraint == constraints.positive_definite else None
    return None if scaled is None or not np.all(satisfied(constraint, scaled.numbers)) else scaled.front


def _known_factor(constraint: Any, array: SymbolicArray, reader: Reader) -> SymbolicArray | None:
    """c of c x, where c is data alone, x is positive whatever the latents are, and c decides whether c x is allowed."""
    if constraint in (constraints.positive_definite, constraints.lower_cholesky):
        front, plain = without_scale(array, reader)
        is_decided = front is not ONE and is_surely_positive(front) and not any(map(_is_random, _entry(plain).leaves))
        return plain if is_decided else None
    if not isinstance(constraint, (constraints.greater_than, constraints.greater_than_eq)):
        return None
    least: Any = constraint.lower_bound
    own = tuple(Index(size) for size in array.shape)
    number, factors = as_product(array.at(*map(index, own)))
    known = {base: power for base, power in factors.items() if not any(map(_is_random, base.leaves))}
    if np.ndim(least) or least != 0 or not known or number <= 0:
        return None
    random = multiply((base, power) for base, power in factors.items() if base not in known)
    if random is ONE or not _is_within(constraint, random):
        return None
    front = multiply(known.items())
    return SymbolicArray(array.shape, lambda *at: replaced(front, dict(zip(map(index, own), at, strict=True))))


def _is_random(leaf: Leaf) -> bool:
    return leaf.role in ("site", "opaque")


class Mark:
    """0 where a parameter is allowed, else not a number; an error where data alone decide it and are known."""

    is_check = True  # which no formula shows

    def __init__(self, requirement: Requirement, is_random: bool) -> None:
        self.requirement, self.is_random = requirement, is_random

    def __call__(self, data: Data) -> Data:
        constraint = self.requirement.constraint
        if self.is_random and constraint == constraints.positive_definite:
            return jnp.where(is_symmetric(data), 0.0, jnp.nan)  # where it has no root, the density is not a number
        ok = satisfied(constraint, data)
        if self.is_random:
            return jnp.where(ok, 0.0, jnp.nan)
        return require(ok, lambda: self.requirement.error("its argument", data), jnp.zeros(jnp.shape(ok)))[0]

    def __repr__(self) -> str:
        return f"allowed {self.requirement.label}"


def _numbers(array: SymbolicArray, reader: Reader) -> np.ndarray | None:
    """Known numbers; None of those that are traced or that latents decide."""
    if array.constant is not None:
        return array.constant
    leaves = _entry(array).leaves
    if any(leaf not in reader.known or is_unread(reader.known[leaf]) for leaf in leaves):
        return None
    return reader.numbers(array)


def _entry(array: SymbolicArray) -> Node:
    return array.at(*(index(Index(size)) for size in array.shape))


def _at_every_label(array: SymbolicArray, reader: Reader) -> SymbolicArray | None:
    """A parameter that depends on finite latents and known numbers alone, at every value of those: leading axes."""
    own = tuple(Index(size) for size in array.shape)
    entry = array.at(*map(index, own))
    labels = {
        this: Index(int(leaf.high - leaf.low) + 1)
        for this in _entries_of_sites(entry)
        if (leaf := this.args[0]).is_integer and leaf.low is not None and leaf.high is not None
    }
    whole = replaced(entry, {this: plus(index(i), const(this.args[0].low)) for this, i in labels.items()})
    if not labels or any(leaf not in reader.known for leaf in whole.leaves):
        return None
    axes = (*labels.values(), *own)
    shape = tuple(i.size for i in axes)
    return SymbolicArray(shape, lambda *at: replaced(whole, dict(zip(map(index, axes), at, strict=True))))


def _entries_of_sites(of: Node) -> set[Node]:
    """The entries of sites that a node reads."""
    is_entry = lambda this: this.kind == "get" and this.args[0].role == "site"  # noqa: E731
    return set(filter(is_entry, walk(of, descend=lambda this: not is_entry(this))))


# -- proofs ---------------------------------------------------------------------------------------------------------


def _is_proved(constraint: Any, array: SymbolicArray, reader: Reader) -> bool:
    """The constraint holds whatever the latents are."""
    entry = _entry(array)
    if constraint == constraints.simplex:
        return _is_simplex(array, reader)
    base = constraint
    while hasattr(base, "base_constraint"):  # of each entry
        base = base.base_constraint
    if getattr(base, "event_dim", 0):
        return _is_known_matrix(base, array, reader)
    return _is_within(base, entry)


def _is_within(constraint: Any, entry: Node) -> bool:
    """By the range of an entry."""
    if entry.kind == "where":
        return all(_is_within(constraint, case) for case in entry.args[1:])
    if getattr(constraint, "is_discrete", False) and not is_whole(entry):
        return False
    if not isinstance(constraint, CLOSED):
        least: Any = getattr(constraint, "lower_bound", None)
        if not isinstance(constraint, constraints.greater_than) or np.ndim(least):
            return False
        return is_surely_positive(minus(entry, const(float(least))))
    low, high = (getattr(constraint, name, None) for name in ("lower_bound", "upper_bound"))
    return any(
        (low is None or float(low) - SLACK <= least) and (high is None or most <= float(high) + SLACK)
        for least, most in (bounds(entry), range_of_affine(entry))
    )


def _is_simplex(array: SymbolicArray, reader: Reader) -> bool:
    """Entries that are not negative and add up to one, whatever the latents are."""
    *batch, size = array.shape
    outer = [index(Index(n)) for n in batch]
    last = Index(size)
    entry = array.at(*outer, index(last))
    if _is_row_of_simplexes(entry, last, reader):
        return True
    if entry.kind == "where" and last not in entry.args[0].free:
        cases = [
            SymbolicArray((size,), lambda k, case=case: replaced(case, {index(last): k})) for case in entry.args[1:]
        ]
        return all(_is_simplex(case, reader) for case in cases)
    if bounds(entry)[0] < 0 and not all(bounds(array.at(*outer, const(k)))[0] >= 0 for k in range(min(size, 64))):
        return False
    if total([last], entry) is ONE:
        return True
    return size <= 64 and expanded(plus(*(array.at(*outer, const(k)) for k in range(size)))) is ONE


def _is_row_of_simplexes(entry: Node, last: Index, reader: Reader) -> bool:
    """θ[…, k], of a latent on a simplex, or of known rows that each add up to one."""
    if entry.kind != "get" or entry.args[-1] is not index(last):
        return False
    leaf = entry.args[0]
    if any(last in part.free for part in entry.args[1:-1]) or leaf.shape[-1] != last.size:
        return False
    if leaf.is_simplex:
        return True
    numbers = reader.known.get(leaf)
    return numbers is not None and not is_unread(numbers) and bool(np.all(satisfied(constraints.simplex, numbers)))


def _is_known_matrix(constraint: Any, array: SymbolicArray, reader: Reader) -> bool:
    """One of known arrays, whichever is chosen; or a positive number times a known one."""
    if constraint == constraints.positive_definite and positive_definite_entries(array) is not None:
        return True  # the number in front is positive, or the density is not a number
    front, plain = without_scale(array, reader)
    if front is not ONE and is_surely_positive(front):
        array = plain
    rank = constraint.event_dim
    own = tuple(Index(size) for size in array.shape)
    entry = array.at(*map(index, own))
    numbers = array.constant
    if numbers is None and entry.kind == "get" and entry.args[-rank:] == tuple(map(index, own[-rank:])):
        numbers = reader.known.get(entry.args[0])
    return numbers is not None and not is_unread(numbers) and bool(np.all(satisfied(constraint, numbers)))
