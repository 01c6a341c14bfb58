"""The contract of a sampler: chains begin in a state, steps move it, and every state says what it draws."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from fubini.base.arrays import Data

State = Any  # a tree of arrays, of all chains; random keys and counters are a part of it


class Draw(NamedTuple):
    """Values by name, and what the sampler reports of them: arrays [chain, …], or [chain, draw, …] of several."""

    values: dict[str, Data]
    info: dict[str, Data]


class Sampler(Protocol):
    """Transitions that keep a distribution; `fubini.infer.driver` runs every one of them.

    A state is a tree of arrays and nothing else, so that a run that was stopped goes on from a file.
    """

    @property
    def name(self) -> str:
        """What the method is called in progress bars and results."""
        ...

    @property
    def warmup(self) -> int:
        """How many transitions come before the first draw."""
        ...

    def init(self, key: Data, chains: int) -> State:
        """Start so many chains."""
        ...

    def step(self, state: State, skip: int, draws: int, thin: int) -> tuple[State, Draw]:
        """Make `skip` transitions that nobody sees, then `draws` draws [chain, draw, …], `thin` transitions each."""
        ...

    def draw(self, state: State) -> Draw:
        """Read the present draw [chain, …] from a state."""
        ...

    def fault(self, state: State, drawn: Draw, transitions: int) -> str | None:
        """Say why these cannot be the state and the draws after so many transitions, or None; the draws are finite."""
        ...
