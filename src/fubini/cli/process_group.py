"""Processes that run together: when one fails, the others are stopped."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread

SECONDS_TO_END = 3.0  # in which processes end by themselves when one has failed, so that they say what they know
SECONDS_TO_STOP = 2.0  # between a request to end and the end


@dataclass(frozen=True)
class Ended:
    """A process that has ended, and its place among all."""

    index: int
    process: subprocess.Popen

    @property
    def how(self) -> str:
        """In words.

        >>> process = subprocess.Popen(["sleep", "60"])
        >>> process.kill()
        >>> Ended(0, process).how
        'it was ended by the signal SIGKILL'
        """
        status = self.process.wait()
        if status >= 0:
            return f"its exit status was {status}"
        names = {int(one): one.name for one in signal.Signals}
        return f"it was ended by the signal {names.get(-status, -status)}"


class ProcessGroup:
    """Processes, each waited for by a thread, so that the first to fail is known."""

    def __init__(self, processes: Sequence[subprocess.Popen]) -> None:
        self.processes = processes
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        for index, process in enumerate(processes):
            Thread(target=self._await, args=(Ended(index, process),), daemon=True).start()

    def _await(self, one: Ended) -> None:
        one.process.wait()
        self._ended.put(one)

    def wait(self) -> Ended | None:
        """Wait for all; the first that failed, when the others are stopped, or None."""
        try:
            for number in range(len(self.processes)):
                ended = self._ended.get()
                if ended.process.returncode != 0:
                    self._end_soon(len(self.processes) - number - 1)
                    return ended
            return None
        finally:
            self.stop()

    def _end_soon(self, others: int) -> None:
        """Give the others time to end by themselves."""
        until = time.monotonic() + SECONDS_TO_END
        with suppress(Empty):
            for _ in range(others):
                self._ended.get(timeout=max(0.0, until - time.monotonic()))

    def stop(self) -> None:
        """Ask those that run to end, then end them."""
        running = [process for process in self.processes if process.poll() is None]
        for process in running:
            process.terminate()
        until = time.monotonic() + SECONDS_TO_STOP
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=max(0.0, until - time.monotonic()))
        for process in running:
            process.kill()
            process.wait()
