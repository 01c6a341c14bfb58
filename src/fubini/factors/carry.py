"""Carries: factors in one fixed layout, so that a loop can hand them on.

A layout is decided from structure alone: which names, in which order, and in which form. Settling a factor changes its
layout and nothing else. There is one layout without real variables and one with them; how a factor is cut, settled,
lightened and weighed, the rules of its representation say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Domain, merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Bound, Name
from fubini.base.semirings import Semiring
from fubini.errors import Intractable
from fubini.factors.delta import Delta
from fubini.factors.represent import represented
from fubini.numerics.named_axes import align
from fubini.terms.factor import Factor, Product, Unit, rename, terms_of
from fubini.terms.heads import DIVIDE, LIGHTEN, SETTLE, WEIGH, exact_settle
from fubini.terms.value import Array

NamedDomains = tuple[tuple[Name, Domain], ...]


@dataclass(frozen=True)
class CarryLayout(ABC):
    """Of all carries: bounded integers and other variables in order, the type of numbers, whether weights multiply."""

    batch: NamedDomains
    reals: NamedDomains
    dtype: Any
    homogeneous: bool

    @property
    @abstractmethod
    def holds(self) -> str:
        """What it can hold, for errors."""

    @property
    def hidden(self) -> Mapping[Name, Domain]:
        """Bounded integers that only the carry has: which component of a mixture, which particle."""
        return {}

    @property
    def projects(self) -> bool:
        """Whether settling a factor may change it: steps are then taken in order, and divided by their carries."""
        return False

    def keys(self, count: int) -> Data | None:
        """Keys for the start and for each step, of layouts that draw."""
        return None

    def shown(self, carry: Factor) -> Factor:
        """A carry as a factor like any other."""
        return carry

    def begin(self, start: Factor, key: Data | None) -> Factor:
        """The carry before the first step."""
        return settled(start, self)

    def advance(self, steps: Any, carry: Factor, terms: Sequence[Factor], key: Data | None) -> Advance:
        """One step of a sequence: Σ over the oldest states of carry · terms, in this layout."""
        gone = (*steps.links.oldest, *self.hidden)
        return Advance(settled(rename(steps.summed([carry, *terms], gone), steps.links.moves), self), None)

    def retreat(self, steps: Any, carry: Factor, terms: Sequence[Factor], after: Advance, later: Factor) -> Factor:
        """One step back: Σ over the newest states of carry · terms · later / after, all of them multiplied first.

        `after` is what `advance` made of the carry, `later` the same state given everything.
        """
        fresh: dict[Name, Name] = {name: after_step(name) for name in self.hidden}
        ratio = rename(self.quotient(later, after.carry), {**steps.links.moves_back, **fresh})
        joint = self.settled_joint(steps.joined([carry, *terms, ratio]))
        return settled(steps.summed([joint], (*steps.links.newest, *fresh.values())), self)

    def quotient(self, later: Factor, after: Factor) -> Factor:
        """later / after, both in this layout."""
        return interpret(DIVIDE, later, after)

    def settled_joint(self, joint: Factor) -> Factor:
        """The states before and after a step together, in a form that can be summed."""
        return joint

    def over(self, name: Name, domain: Domain) -> CarryLayout:
        """The same layout with one more batch name, in front, that all of its arrays depend on."""
        return replace(self, batch=((name, domain), *self.batch))

    def over_everything(self) -> CarryLayout:
        """The same layout where all arrays depend on every batch name."""
        return self


@lru_cache(maxsize=256)
def after_step(name: Name) -> Bound:
    """The name of a hidden index after a step."""
    return Bound(f"{name} next")


class Advance(NamedTuple):
    """The carry after a step, and arrays that say which hidden index each cell of the step went into, if there are."""

    carry: Factor
    link: Data | None


class Carried(NamedTuple):
    """What a layout is made for: the names of all carries, the terms that they are products of, and the states."""

    batch: NamedDomains
    reals: NamedDomains
    terms: Sequence[Factor]
    states: Mapping[Name, Domain]
    semiring: Semiring


LayoutMaker = Callable[[Carried], CarryLayout]
_MAKERS: dict[bool, LayoutMaker] = {}


def carries(*, reals: bool) -> Callable[[LayoutMaker], LayoutMaker]:
    """Register how the layout of carries is made: of those with variables that are no bounded integers, or without."""

    def register(make: LayoutMaker) -> LayoutMaker:
        assert reals not in _MAKERS, f"two layouts for reals={reals}"
        _MAKERS[reals] = make
        return make

    return register


def layout_of(
    factors: Iterable[Factor], without: Sequence[Name], states: Mapping[Name, Domain], semiring: Semiring
) -> CarryLayout:
    """The layout that holds any product of these factors and its marginals."""
    terms = [term for factor in factors for term in terms_of(factor)]
    domains = {
        name: domain
        for name, domain in merge_inputs(*(term.inputs for term in terms), states).items()
        if name not in without
    }
    batch = tuple((name, domain) for name, domain in domains.items() if domain.is_finite)
    reals = tuple((name, domain) for name, domain in domains.items() if not domain.is_finite)
    carried = Carried(batch, reals, terms, states, semiring)
    return _represented_layout(carried) or default_layout(carried)


def default_layout(carried: Carried) -> CarryLayout:
    """The layout of factors as they are."""
    return _MAKERS[bool(carried.reals)](carried)


def _represented_layout(carried: Carried) -> CarryLayout | None:
    """The layout that the representations in force name for some of the variables."""
    own = represented()
    if own is None:
        return None
    names = [name for name, _ in (*carried.batch, *carried.reals) if name in own.by_name]
    layouts = []
    several = dict.fromkeys(own.by_name[name] for name in names)
    for representation in [each for each in several if each.nests] or several:
        layout = representation.layout(carried, tuple(n for n in names if own.by_name[n] == representation))
        layouts.extend([layout] if layout is not None else [])
    if len(layouts) > 1:
        raise Intractable(
            f"{own} in one sequence",
            expected="one representation beside those of the factors as they are (fb.rep.Dense)",
        )
    return layouts[0] if layouts else None


def float_type(terms: Sequence[Factor]) -> Any:
    """The type of the numbers of these terms together."""
    leaves = [leaf for term in terms for leaf in term.leaves() if hasattr(leaf, "dtype")]
    floats = [leaf.dtype for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return jnp.result_type(*(jax.dtypes.canonicalize_dtype(kind) for kind in floats or [float]))


def typed(data: Data, layout: CarryLayout) -> Data:
    """Convert to the layout's type, not weakly: a loop hands on the same type that it was given."""
    return jax.lax.convert_element_type(jnp.asarray(data), layout.dtype)


def settled(factor: Factor, layout: CarryLayout) -> Factor:
    """The same function in this layout."""
    return interpret(SETTLE, factor, layout)


@exact_settle.rule
def settle_any(f: Factor, layout: CarryLayout) -> Factor:
    """f is not held by the layout"""
    raise Intractable(
        f"{f} as what one step of a sequence hands on to the next",
        expected=layout.holds,
        nearest=f"it is a {type(f).__name__}",
        advice=_advice(f),
    )


def _advice(factor: Factor) -> str:
    if isinstance(factor, Delta):
        return "a state that is known exactly cannot be handed on; give it a little noise"
    if isinstance(factor, (Product, Unit)):
        return "make the step factor linear in the states, or sample them: `with fb.monte_carlo(key, n):`"
    return "project the mixture after each step: `with fb.moment_matching(window=1):`"


def lightened(factor: Factor, states: Sequence[Name]) -> tuple[Factor, Data]:
    """A settled factor over its greatest weight along the states, and the logarithm of that, a constant.

    Loops put these logarithms out and add them up afterwards: added up on the way, they would lose digits.
    """
    return interpret(LIGHTEN, factor, tuple(states))


def weighed(factor: Factor, logs: Data) -> Factor:
    """A settled factor times exp(logs), which broadcast against its weights."""
    return interpret(WEIGH, factor, logs)


def filled(value: Array, names: Mapping[Name, Domain]) -> Data:
    """The numbers of a Value over all of these names, in order."""
    event = value.output.shape
    data = align(value.array, value.names, tuple(names), len(event))
    return jnp.broadcast_to(data, (*(domain.extent for domain in names.values()), *event))
