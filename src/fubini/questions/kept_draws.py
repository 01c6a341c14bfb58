"""Where the draws of a question go: into memory, or block after block into a store, and then out of memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fubini.base.arrays import Data
from fubini.base.freed_memory import return_freed_memory
from fubini.infer.checkpoint import Checkpoint
from fubini.infer.driver import Schedule, room, run, run_into
from fubini.infer.sampler import Draw, Sampler
from fubini.questions.draw_block import Block
from fubini.questions.draw_store import DrawStore, Groups

BLOCK = 2**23  # bytes of the draws of a block
LOOKED_AT = 250  # numbers of a site whose draws are looked at when all are made
Values = Mapping[str, Data]
ToSites = Callable[[Values], Values]  # draws [chain, draw, …] of a sampler as draws of the sites
ToGroups = Callable[[Draw, Block], Groups]  # draws of sites as all that is stored of them


class Kept(NamedTuple):
    """Draws [chain, draw, …] by which a run is judged, and all of them; none where they are in a store."""

    judged: Draw
    all: Draw


class Keeper(Protocol):
    """What runs a sampler, and keeps its draws."""

    @property
    def may_draw_again(self) -> bool:
        """Whether draws can be replaced by those of another method."""
        ...

    def draws_of(self, sampler: Sampler, key: Data, to_sites: ToSites, names: Sequence[str]) -> Kept:
        """Draw by a sampler; the sites of these names are judged."""
        ...


class RunSettings(NamedTuple):
    """How often a sampler draws, where its checkpoint is, and whether progress is shown."""

    schedule: Schedule
    file: Checkpoint | None
    progress: bool


class KeeperInMemory:
    """All draws are kept in memory; judged are those of the sampler itself."""

    def __init__(self, settings: RunSettings) -> None:
        self.settings = settings

    @property
    def may_draw_again(self) -> bool:
        """Unless a checkpoint is of this method."""
        return self.settings.file is None

    def draws_of(self, sampler: Sampler, key: Data, to_sites: ToSites, names: Sequence[str]) -> Kept:
        """Draw, then go over to sites."""
        drawn = run(sampler, key, *self.settings)
        return Kept(drawn, Draw(dict(to_sites(drawn.values)), drawn.info))


class KeeperInStore:
    """Draws go into a store; judged are those of some numbers of each site."""

    may_draw_again = False

    def __init__(self, settings: RunSettings, store: DrawStore, to_groups: ToGroups, numbers: int) -> None:
        self.settings, self.store, self.to_groups = settings, store, to_groups
        chains, draws = settings.schedule.chains, settings.schedule.kept
        self.length = block_length(draws, max(1, BLOCK // max(8 * numbers * chains, 1)))
        if settings.file is None:
            store.require_new()
        else:
            store.require_new_or_same()
        store.wait()

    def draws_of(self, sampler: Sampler, key: Data, to_sites: ToSites, names: Sequence[str]) -> Kept:
        """Draw into the store."""
        sink = StoreSink(self, to_sites)
        run_into(sink, sampler, key, *self.settings)
        self.store.wait()
        info = {name: self.store.read("sample_stats", name)[..., 0] for name in sink.first.info}
        return Kept(Draw({name: self.store.read("posterior", name, LOOKED_AT) for name in names}, info), Draw({}, {}))

    def without_sampler(self) -> None:
        """Draw where nothing remains to be sampled."""
        sink = StoreSink(self, lambda values: values)
        for begin in range(0, self.settings.schedule.kept, self.length):
            sink.put(Draw({}, {}), begin, min(self.length, self.settings.schedule.kept - begin))


def block_length(draws: int, most: int) -> int:
    """How many draws a block has: at most so many; where it can be, all blocks are alike, which compiles once.

    >>> block_length(1000, 300), block_length(1000, 4000), block_length(997, 300)
    (250, 1000, 300)
    """
    most = min(most, draws)
    return next((length for length in range(most, max(most // 2, 1) - 1, -1) if draws % length == 0), most)


class StoreSink:
    """The sink of a run whose draws go into a store."""

    def __init__(self, keeper: KeeperInStore, to_sites: ToSites) -> None:
        self.keeper, self.to_sites = keeper, to_sites
        self.first, self._is_made = Draw({}, {}), False

    @property
    def draws_each(self) -> int:
        """Draws of a block."""
        return self.keeper.length

    def open(self, first: Draw) -> None:
        """Note what draws are like; the sampler has been compiled."""
        self.first = first
        return_freed_memory()

    def put(self, new: Draw, place: int, draws: int) -> None:
        """Write draws, and all that is stored beside them."""
        schedule, store = self.keeper.settings.schedule, self.keeper.store
        block = Block(schedule.chains, schedule.kept, place, place + draws)
        groups = self.keeper.to_groups(Draw(dict(self.to_sites(new.values)), new.info), block)
        if not self._is_made:
            store.create(groups, self.keeper.length)
            self._is_made = True
        store.put(groups, place, draws)
        del groups
        return_freed_memory()

    def arrays(self) -> dict[str, np.ndarray]:
        """Nothing: a checkpoint holds states alone."""
        return {}

    def restore(self, saved: Mapping[str, Any], draws: int) -> str | None:
        """The store has the draws that were made."""
        self._is_made, drawn = draws > 0, self.keeper.store.drawn()
        if drawn >= draws:
            return None
        return f"it is after {draws} draws of each chain, and {self.keeper.store.path} holds {drawn}"

    def in_memory(self, draws: int) -> Draw:
        """None."""
        return room(self.first, self.keeper.settings.schedule.chains, 0)
