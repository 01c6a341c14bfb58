"""Some of the draws [chain, draw] of a run, and their random keys: the same whether all are made at once or some."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fubini.base.arrays import Data
from fubini.engines.host_keys import split


class Block(NamedTuple):
    """Draws from `begin` to `end` of some chains, of a run of so many chains and draws."""

    chains: int
    draws: int
    begin: int = 0
    end: int | None = None  # the last, if none is given
    of_chains: tuple[int, int] | None = None  # the first, and the one after the last; all, if none are given

    @property
    def lead(self) -> tuple[int, int]:
        """How many chains and draws of each these are."""
        first, last = self.of_chains or (0, self.chains)
        return last - first, (self.draws if self.end is None else self.end) - self.begin

    def keys(self, key: Data) -> Data:
        """A key for each of the draws, flat.

        >>> import jax
        >>> key = jax.random.key(0)
        >>> some, whole = Block(2, 5, 1, 3).keys(key), jax.random.split(key, 10)
        >>> bool((some == whole[np.array([1, 2, 6, 7])]).all())
        True
        """
        keys = split(key, self.chains * self.draws)
        if self.lead == (self.chains, self.draws):
            return keys
        first = (self.of_chains or (0, self.chains))[0]
        chains, draws = (np.arange(count) for count in self.lead)
        return keys[((first + chains)[:, None] * self.draws + self.begin + draws).ravel()]
