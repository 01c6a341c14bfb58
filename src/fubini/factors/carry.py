"""Carries: factors in one fixed layout, so that a loop can hand them on.

A layout is decided from structure alone: which names, in which order, and in which form. Settling a factor changes its
layout and nothing else. There is one layout without real variables and one with them; how a factor is cut, settled,
lightened and weighed, the rules of its representation say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.domains import Domain, merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import Semiring
from fubini.errors import Intractable
from fubini.factors.delta import Delta
from fubini.numerics.named_axes import align
from fubini.terms.factor import Factor, Product, Unit, terms_of
from fubini.terms.heads import LIGHTEN, SETTLE, WEIGH, exact_settle
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

    def over(self, name: Name, domain: Domain) -> CarryLayout:
        """The same layout with one more batch name, in front, that all of its arrays depend on."""
        return replace(self, batch=((name, domain), *self.batch))

    def over_everything(self) -> CarryLayout:
        """The same layout where all arrays depend on every batch name."""
        return self


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
    return _MAKERS[bool(reals)](Carried(batch, reals, terms, states, semiring))


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
