"""Files with random mutations: each is read right, or refused by an error of ours, within 2 s and 1 GB.

`python -m tests.thorough.mutations --count 5000 --seed 0`. Cases run in a child, whose memory is limited and whose time
is counted as time of the processor; a child that dies, or hangs, is replaced, and what it was at is a failure.
"""

import argparse
import multiprocessing
import random
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from fubini.errors import FubiniError
from tests.thorough import mutated

SECONDS, MEMORY = 2.0, 2**30  # of a processor, bytes
START, SILENCE = 1200.0, 120.0  # seconds on the clock, for a child to begin and for one case
RIGHT, REFUSED = "right", "refused"


class OutOfTime(BaseException):
    """More than two seconds."""


def mutate(content: bytes, rng: random.Random) -> bytes:
    """One to four changes."""
    for _ in range(rng.choice([1, 1, 1, 2, 3, 4])):
        content = rng.choice(CHANGES)(content, rng)
    return content


def _span(content: bytes, rng: random.Random) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.choice([1, 2, 5, 20, 100]))


def flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return content
    place = rng.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :]


def cut(content: bytes, rng: random.Random) -> bytes:
    start, end = _span(content, rng)
    return content[:start] + content[end:]


def truncate(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def repeat(content: bytes, rng: random.Random) -> bytes:
    start, end = _span(content, rng)
    return content[:end] + content[start:end] * rng.choice([1, 2, 10, 1000]) + content[end:]


def move(content: bytes, rng: random.Random) -> bytes:
    start, end = _span(content, rng)
    part, rest = content[start:end], content[:start] + content[end:]
    place = rng.randrange(len(rest) + 1)
    return rest[:place] + part + rest[place:]


def insert(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    return content[:place] + rng.choice(WORDS) + content[place:]


def renumber(content: bytes, rng: random.Random) -> bytes:
    """Another number in the place of one."""
    digits = [place for place, byte in enumerate(content) if 48 <= byte < 58]
    if not digits:
        return content
    start = end = rng.choice(digits)
    while end < len(content) and (48 <= content[end] < 58 or content[end] in b".eE"):
        end += 1
    return content[:start] + rng.choice(NUMBERS) + content[end:]


NUMBERS = [
    word.encode()
    for word in [
        "0",
        "1",
        "-1",
        "2",
        "3",
        "64",
        "65",
        "0.5",
        "1e-160",
        "1e308",
        "1e999",
        "1e-400",
        "nan",
        "inf",
        "-0.0",
        "1_0",
        "٣",
        "0x10",
    ]
]
NUMBERS += [b"9" * 18, b"9" * 400, b"9" * 5000, b"1000000000000", b"4294967296"]
WORDS = [
    word.encode()
    for word in [
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ";",
        ",",
        '"',
        "'",
        "\\",
        "#",
        "//",
        "/*",
        "*/",
        "null",
        "true",
        "[[]]",
        "{}",
        "table",
        "MARKOV",
        "network",
    ]
]
WORDS += [b"\0", b"\n", b"\r", b"c ", b"\xff", b"\x1b[31m", b"\xe2\x80\xae", b"\xed\xa0\x80", b'"\\ud800"', *NUMBERS]
WORDS += [b" " * 20000, b"[" * 20000, b'"a"' * 5000, b"/*" * 5000, b"default 0.5, 0.5;"]
CHANGES: list[Callable[[bytes, random.Random], bytes]] = [flip, cut, truncate, repeat, move, insert, renumber]


# -- one case ---------------------------------------------------------------------------------------------------------


def judge(subject: "mutated.Subject", content: bytes) -> tuple[str, str]:
    """The verdict on one file, and what was wrong with it."""

    def late(*_: object) -> None:
        raise OutOfTime

    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message="(?s).*rows do not sum to 1")
            found = subject.read(content)
    except FubiniError as error:
        return REFUSED, type(error).__name__
    except OutOfTime:
        return "slow", "more than 2 s"
    except BaseException as error:
        return "crashed", f"{type(error).__name__}: {str(error)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    wrong = subject.fault(content, found)
    return ("wrong", wrong) if wrong else (RIGHT, "")


def case(subject: "mutated.Subject", seed: int, number: int) -> bytes:
    """The mutated file of a number; of a compressed one, before or after it is compressed."""
    rng = random.Random(f"{seed} {subject.name} {number}")
    return mutate(rng.choice(subject.seeds), rng)


def minimise(subject: "mutated.Subject", content: bytes, verdict: str) -> bytes:
    """The file with as much left out as keeps the verdict."""
    step, left = max(1, len(content) // 2), 300
    while step and left:
        start = 0
        while start < len(content) and left:
            smaller, left = content[:start] + content[start + step :], left - 1
            if judge(subject, smaller)[0] == verdict:
                content = smaller
            else:
                start += step
        step //= 2
    return content


# -- a child ----------------------------------------------------------------------------------------------------------


def work(name: str, seed: int, numbers: range, pipe: Connection) -> None:
    """Judge cases, and report each."""
    with tempfile.TemporaryDirectory() as folder:
        subject = mutated.SUBJECTS[name](Path(folder))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))
        pipe.send("ready")
        for number in numbers:
            content = case(subject, seed, number)
            verdict, details = judge(subject, content)
            shown = ""
            if verdict not in (RIGHT, REFUSED):
                small = minimise(subject, content, verdict) if verdict != "slow" else content
                shown = f"{details}\n    {subject.repro(small[:600])}{'  # cut' if len(small) > 600 else ''}"
            pipe.send((number, verdict, shown))
    pipe.send(None)


def search(name: str, count: int, seed: int) -> tuple[Counter, list[str]]:
    """Verdicts counted, and failures."""
    counts: Counter = Counter()
    failures: list[str] = []
    context = multiprocessing.get_context("spawn")
    done = 0
    while done < count:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=work, args=(name, seed, range(done, count), theirs))
        child.start()
        theirs.close()
        ready = ours.poll(START) and ours.recv() == "ready"
        assert ready, f"no {name} to mutate"
        while True:
            try:
                report = ours.recv() if ours.poll(SILENCE) else "silent"
            except EOFError:
                report = "dead"
            if report is None:
                break
            if isinstance(report, str):
                child.kill()
                child.join()
                verdict = "slow" if report == "silent" else "crashed"
                counts[verdict] += 1
                failures.append(
                    f"{name} case {done}, seed {seed}: {verdict}, the process was {report} ({child.exitcode})"
                )
                done += 1
                break
            number, verdict, shown = report
            counts[verdict] += 1
            if shown:
                failures.append(f"{name} case {number}, seed {seed}: {verdict}, {shown}")
            done = number + 1
        child.join()
    return counts, failures


def main() -> int:
    """Search all formats; the exit status says whether anything failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--formats", default=",".join(mutated.SUBJECTS))
    options = parser.parse_args()
    failed = False
    for name in options.formats.split(","):
        counts, failures = search(name, options.count, options.seed)
        print(
            f"{name:<12}" + ", ".join(f"{verdict} {number}" for verdict, number in sorted(counts.items())), flush=True
        )
        for failure in failures[:20]:
            print("  " + failure, flush=True)
        failed = failed or bool(failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
