"""Belief propagation: messages between factors and variables, exact on trees and iterated on graphs with cycles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fubini.base.arrays import Data
from fubini.base.interpretations import interpret
from fubini.factors.properness import greatest_of, truth
from fubini.propagate.division_policy import choose, damp
from fubini.propagate.fixed_point import Progress, iterate
from fubini.propagate.message_order import Edge
from fubini.propagate.messages import Exchange
from fubini.terms.factor import Factor
from fubini.terms.heads import DISTANCE

SCHEDULES = ("parallel", "sequential", "residual")
GREAT_SHARE = 0.5  # of the greatest residual, from which the schedule "residual" sends a message


@dataclass(frozen=True)
class Schedule:
    """Which messages are sent in one iteration, how much of the old ones stays, and when it ends."""

    name: str
    damping: float
    tolerance: float
    iterations: int


Messages = list[Factor]
Sweep = Callable[[Messages], tuple[Messages, Data]]


def send_in_order(exchange: Exchange, order: list[Edge]) -> tuple[Messages, Data]:
    """Each message once, in an order; on a tree these are the messages."""
    number = {(edge.bundle, edge.slot): position for position, edge in enumerate(exchange.bundles.edges)}
    messages: list[Factor | None] = [None] * len(number)
    touched: Data = 0
    for edge in order:
        position = number[edge]
        messages[position], more = _send(exchange, messages, position)
        touched = touched + more
    return messages, touched  # type: ignore[return-value]


def _send(exchange: Exchange, messages: list, position: int) -> tuple[Factor, Data]:
    others = [e for e in exchange.bundles.edges_of_bundle[exchange.bundles.edges[position].bundle] if e != position]
    replies, touched = exchange.replies(messages, others)
    return exchange.factor_message(replies, position), touched


def iterate_messages(exchange: Exchange, messages: list, schedule: Schedule, touched: Data = 0) -> Progress:
    """Send messages until none changes by more than the tolerance."""
    sweep = {"parallel": _send_all, "sequential": _send_in_turn, "residual": _send_great}[schedule.name]

    def step(messages: Messages) -> tuple[Messages, Data, Data]:
        new, touched = sweep(exchange, messages, schedule.damping)
        return new, greatest_of([_distance(a, b) for a, b in zip(new, messages, strict=True)]), touched

    if any(message is None for message in messages):
        messages, more = _send_all(exchange, messages, 0.0)
        touched = touched + more
    return iterate(step, messages, schedule.iterations, schedule.tolerance, touched)


def _distance(new: Factor, old: Factor) -> Data:
    return interpret(DISTANCE, new, old)


def _damped(old: Factor | None, new: Factor, damping: float) -> Factor:
    return new if not damping or old is None else damp(old, new, 1.0 - damping)


def _send_all(exchange: Exchange, messages: list, damping: float) -> tuple[Messages, Data]:
    """All messages from those before."""
    replies, touched = exchange.replies(messages, range(len(messages)))
    new = [exchange.factor_message(replies, position) for position in range(len(messages))]
    return [_damped(old, message, damping) for old, message in zip(messages, new, strict=True)], touched


def _send_in_turn(exchange: Exchange, messages: list, damping: float) -> tuple[Messages, Data]:
    """One message after another, there and back, each from the newest ones."""
    messages = list(messages)
    touched: Data = 0
    for position in (*range(len(messages)), *reversed(range(len(messages)))):
        new, more = _send(exchange, messages, position)
        messages[position] = _damped(messages[position], new, damping)
        touched = touched + more
    return messages, touched


def _send_great(exchange: Exchange, messages: list, damping: float) -> tuple[Messages, Data]:
    """Of all messages those that would change most, by a share of the greatest change."""
    new, touched = _send_all(exchange, messages, damping)
    residuals = [_distance(a, b) for a, b in zip(new, messages, strict=True)]
    least = GREAT_SHARE * greatest_of(residuals)
    pairs = zip(new, messages, residuals, strict=True)
    return [choose(truth(residual >= least, (), {}), a, b) for a, b, residual in pairs], touched
