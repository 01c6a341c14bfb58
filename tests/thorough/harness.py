"""Random search for wrong numbers: cases drawn at random, each compared with an oracle that shares no code with fubini.

A *kind* of cases is a module of this folder with a function `case(rng) -> Case`. It makes every choice through `rng`, a
`random.Random` that Hypothesis records: so a failing case is shrunk to a small one, whatever its kind. Numbers are best
chosen from short lists or rounded, since Hypothesis is fond of the ends of intervals.

A question may be answered, or refused by an error of fubini's; any other error is a crash.
"""

import importlib
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import jax
import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fubini.errors import FubiniError

KINDS = ("plain_jax", "numpyro_models", "measures", "labels", "joints", "factors")
RIGHT, REFUSED, WRONG, CRASHED, SLOW, UNKNOWN = "right", "refused", "wrong", "crashed", "slow", "no oracle"
VERDICTS = (RIGHT, REFUSED, WRONG, CRASHED, SLOW, UNKNOWN)
FAILURES = (WRONG, CRASHED, SLOW)
BATCH = 20  # cases that Hypothesis draws at a time; the first failure ends a batch
SHRINKING = 60.0  # seconds for one failure


@dataclass(frozen=True)
class Case:
    """Questions and their oracle: both by name, the oracle None where it does not trust itself.

    `text` is Python that a person can run to see the failure.
    """

    text: str
    questions: Mapping[str, Callable[[], Any]]
    oracle: Callable[[], Mapping[str, Any] | None]
    tolerance: float = 1e-6


@dataclass(frozen=True)
class Judgement:
    """What came of a case, with the question and the numbers that decided it."""

    verdict: str
    details: str = ""

    @property
    def failed(self) -> bool:
        return self.verdict in FAILURES


@dataclass
class Tally:
    """Verdicts counted, and the shrunk failures."""

    counts: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    refusals: Counter = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        self.counts.update(other.counts)
        self.failures += other.failures
        self.refusals.update(other.refusals)


def judge(case: Case, seconds: float = 60.0) -> Judgement:
    """The worst verdict over all questions of a case."""
    try:
        with time_limit(10 * seconds):
            expected = case.oracle()
    except OutOfTime:
        expected = None
    if expected is None or any(np.isnan(value).any() for value in map(np.asarray, expected.values())):
        return Judgement(UNKNOWN)
    judgements = [_judge_question(case, name, expected[name], seconds) for name in case.questions]
    return min(judgements, key=lambda judgement: (WRONG, CRASHED, SLOW, REFUSED, RIGHT).index(judgement.verdict))


def _judge_question(case: Case, name: str, expected: Any, seconds: float) -> Judgement:
    try:
        with time_limit(seconds):
            answer = np.asarray(case.questions[name]())
    except FubiniError as error:
        return Judgement(REFUSED, f"{name}: {type(error).__name__}: {error}")
    except OutOfTime:
        return Judgement(SLOW, f"{name}: no answer in {seconds:g} s")
    except Exception:
        return Judgement(CRASHED, f"{name}:\n{traceback.format_exc(limit=-4)}")
    if agrees(answer, np.asarray(expected), case.tolerance):
        return Judgement(RIGHT)
    return Judgement(WRONG, f"{name}: {answer!r}\n  oracle: {np.asarray(expected)!r}")


def agrees(answer: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Equal shapes, equal infinities, and otherwise close; NaN agrees with nothing."""
    if answer.shape != expected.shape:
        return False
    return bool(np.allclose(answer, expected, rtol=tolerance, atol=tolerance))


class OutOfTime(BaseException):
    """The alarm of `time_limit`; no handler of ordinary errors takes it for one."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise OutOfTime after so many seconds."""

    def ring(*_: Any) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)  # again where a callback swallowed it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Failed(Exception):
    """Tells Hypothesis that a case fails."""


def search(kind: str | Callable[[Random], Case], count: int, start: int = 0) -> Tally:
    """So many cases of a kind; the failure that ends a batch is shrunk."""
    draw = importlib.import_module(f"tests.thorough.{kind}").case if isinstance(kind, str) else kind
    tally = Tally()
    while (done := tally.counts.total()) < count:
        tally.add(_search_batch(draw, min(BATCH, count - done), start * 1_000_003 + done))
        jax.clear_caches()
    return tally


def _search_batch(draw: Callable[[Random], Case], size: int, start: int) -> Tally:
    tally, failing, deadline = Tally(), [], [np.inf]

    @seed(start)
    @settings(
        max_examples=size,
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(st.randoms(use_true_random=False))
    def examine(rng: Random) -> None:
        case = draw(rng)
        if time.monotonic() > deadline[0] or (not failing and tally.counts.total() >= size):
            return
        judgement = judge(case)
        if not failing:
            tally.counts[judgement.verdict] += 1
            if judgement.verdict == REFUSED:
                tally.refusals[judgement.details.partition("\n")[0]] += 1
        if judgement.failed and (not failing or judgement.verdict == failing[0][1].verdict):
            if not failing:
                deadline[0] = time.monotonic() + SHRINKING
            failing.append((case, judgement))
            raise _Failed

    try:
        examine()
    except BaseException as error:  # Hypothesis raises _Failed, or that a failure went away when shrinking was stopped
        if not failing or isinstance(error, KeyboardInterrupt):
            raise
    if failing:
        case, judgement = min(failing, key=lambda entry: len(entry[0].text))
        details = judgement.details.replace("\n", "\n# ")
        tally.failures.append(f"# {judgement.verdict}\n{case.text}\n# {details}")
    return tally
