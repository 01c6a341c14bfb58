"""Clocks, child processes with a time limit, and peak memory.

Machines are noisy: contestants take turns, so that a slow spell hits all of them, and of each the median and the best
are kept. What may not return runs in a child process, which is killed when its time is up.
"""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import os
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BATCH = 0.01  # seconds of calls that one reading of the clock covers, for calls of microseconds


@dataclass(frozen=True)
class Times:
    """Seconds of repeated runs of one thing."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)


def elapsed(function: Callable[[], object], calls: int = 1) -> float:
    """Seconds per call, the collector kept out of the way."""
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        for _ in range(calls):
            function()
        return (time.perf_counter() - start) / calls
    finally:
        gc.enable()


def interleaved(contestants: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Times]:
    """Each contestant timed once in every round, over as many calls as fill a batch."""
    calls = {name: _calls_per_batch(function) for name, function in contestants.items()}
    readings: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, function in contestants.items():
            readings[name].append(elapsed(function, calls[name]))
    return {name: Times(tuple(seconds)) for name, seconds in readings.items()}


def _calls_per_batch(function: Callable[[], object]) -> int:
    function()  # the first call may compile or fill caches
    calls = 1
    while (seconds := elapsed(function, calls) * calls) < BATCH / 4:
        calls *= 4
    return max(1, round(calls * BATCH / seconds))


class Failed(Exception):
    """A child raised, or died."""


class OverTime(Failed):
    """A child did not answer in time and was killed."""


class Child:
    """An object that lives in a process of its own: `ask` calls a method of it and waits at most `limit` seconds.

    The process starts fresh, not forked: nothing that the parent imported, cached or allocated is in it.
    """

    def __init__(self, factory: Callable[..., Any], *args: Any) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._end, other = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(other, factory, args), daemon=True)
        self._process.start()
        other.close()

    def ask(self, method: str, *args: Any, limit: float | None = None) -> Any:
        """The result of `method(*args)` in the child."""
        try:
            self._end.send((method, args))
            if not self._end.poll(limit):
                self.close()
                raise OverTime(f"no answer in {limit:g} s")
            succeeded, result = self._end.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self._process.join()
            raise Failed(f"the process died with code {self._process.exitcode}") from error
        if not succeeded:
            raise Failed(result)
        return result

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def _serve(end: Any, factory: Callable[..., Any], args: tuple) -> None:
    """Answer one question after another, in the child; the first answer waits for the object to be made."""
    subject, wrong = None, None
    try:
        subject = factory(*args)
    except Exception:
        wrong = traceback.format_exc()
    while True:
        try:
            method, details = end.recv()
        except EOFError:
            return
        end.send((False, wrong) if wrong else _answer(subject, method, details))


def _answer(subject: Any, method: str, details: tuple) -> tuple[bool, Any]:
    try:
        return True, getattr(subject, method)(*details)
    except Exception:
        return False, traceback.format_exc()


def peak_memory(function: Callable[[], object]) -> int:
    """Bytes by which the process grew at its largest while the function ran."""
    gc.collect()
    _give_back()
    _reset_peak()
    before = _peak()
    function()
    return _peak() - before


def _give_back() -> None:
    """Memory that was freed goes back to the system: a second run would grow into it, and seem to need none."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


def _reset_peak() -> None:
    """Linux forgets the peak on request; elsewhere that of loading stays, and hides what is smaller."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The largest size of the process; what getrusage says of a child on Linux may be that of its parent."""
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def set_threads(count: int | None) -> None:
    """Threads of the linear algebra of child processes started from now on."""
    if count is not None:
        for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = str(count)
