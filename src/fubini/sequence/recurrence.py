"""Recurrences: all steps of a sequence at once, by arithmetic of their representation's own.

A representation that has one registers a rule of the head RECURRENCE; the others go through the steps one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from fubini.base.arrays import Data
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.carry import CarryLayout
from fubini.sequence.links import Links, Names
from fubini.sequence.steps import Steps
from fubini.terms.factor import Factor
from fubini.terms.heads import RECURRENCE, exact_recurrence


class Turn(NamedTuple):
    """One way along a chain: the names of the carry as a step begins, what is summed, and the names of the result."""

    enter: Mapping[Name, Name]
    gone: Names
    leave: Mapping[Name, Name]
    reverse: bool


def forwards(links: Links) -> Turn:
    """Make the turn from each state to the next."""
    return Turn({}, links.oldest, links.moves, False)


def backwards(links: Links) -> Turn:
    """Make the turn from each state to the one before."""
    return Turn(links.moves_back, links.newest, {}, True)


class InOrder(NamedTuple):
    """The carry at the end, those after every step if they were kept, and whether all of it was in range."""

    last: Factor
    every: Factor | None
    safe: Data


class Products(NamedTuple):
    """Products of neighbouring steps, from the state before them to the state after, and whether all was in range."""

    factor: Factor
    safe: Data


class SmoothedStates(NamedTuple):
    """Weights given everything: of the state after each step, over time, and of the state before the first.

    `safe` says whether all of it was in range, where that is open; `scale` is what they are to be multiplied by, a
    constant of each sequence, which matters where global variables tell sequences apart.
    """

    after: Factor
    first: Factor
    safe: Data | None = None
    scale: Factor | None = None


class PairMoments(NamedTuple):
    """The evidence, and moments given everything: of the state before the first step, and of both states of each step.

    Entries of the states before come first, then of those after; axes are time, then those of the layout that are no
    states. `safe` says whether all of it was in range, where that is open.
    """

    evidence: Factor
    first: Any
    mean: Any
    covariance: Any
    safe: Data | None = None


class Descent(NamedTuple):
    """The weights of the last state, and a function from the last states to those of all times, which come in front.

    States are over the names of the layout that are no states, in its order, and over draws, if there are, behind.
    `safe` says whether all of it was in range, where that is open.
    """

    end: Factor
    states: Callable[[Mapping[Name, Data]], dict[Name, Data]]
    safe: Data | None = None


class Recurrence(ABC):
    """The ways through given steps, each None where there is none; what was not in range goes step by step.

    `description` says in one line how they are taken, for `explain`.
    """

    description = ""

    @abstractmethod
    def in_order(self, start: Factor, turn: Turn, keep: bool) -> InOrder | None:
        """One step after another. `start` is in the layout; so is every carry."""

    def product(self) -> Products | None:
        """The product of all steps, neighbours first; of steps of lag 1."""
        return None

    def product_in_order(self) -> Products | None:
        """The product of all steps, one after another; of steps of lag 1."""
        return None

    def running(self, reverse: bool) -> Products | None:
        """The products of the steps up to each time, or from each time on; of steps of lag 1."""
        return None

    def evidence(self, start: Factor, kernels: bool) -> Factor | None:
        """Σ over all states of start · steps in one run: by kernels, or in order."""
        return None

    def smoothed(self, start: Factor, kernels: bool) -> SmoothedStates | None:
        """All states given everything in one run, under their names before a step: by kernels, or in order."""
        return None

    def smoothed_pairs(self, start: Factor) -> Factor | None:
        """The weights of the states before and after each step given everything, over time, by kernels."""
        return None

    def pair_moments(self, start: Factor) -> PairMoments | None:
        """The moments of neighbouring states given everything, and the evidence, in one run in order."""
        return None

    def descent(self, start: Factor, uniforms: Data | None) -> Descent | None:
        """Where each state came from, by kernels: the best one, or one drawn by a number for step, cell and draw."""
        return None


def recurrence_of(layout: CarryLayout, steps: Steps) -> Recurrence | None:
    """The recurrence of steps whose carries have this layout; None where there is none."""
    return interpret(RECURRENCE, layout, steps)


@exact_recurrence.rule
def recur_step_by_step(layout: CarryLayout, steps: Steps) -> None:
    """Σ over the oldest states of carry · terms, for each step"""
    return None
