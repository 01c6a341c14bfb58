"""`python -m tests.thorough --count 2000`: random models against oracles, for as long as the options say."""

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.thorough.harness import FAILURES, KINDS, VERDICTS, Tally, search

# Most of the time is XLA's, compiling; processes that are started inherit this.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")

CHUNK = 40  # cases in one process, which then ends and gives its memory back


def main() -> int:
    """Search, print counts and failures; 1 where there is a failure."""
    options = parse()
    tallies = {kind: Tally() for kind in options.kinds}
    context = multiprocessing.get_context("spawn")
    began, chunk = time.monotonic(), min(CHUNK, options.count)
    with ProcessPoolExecutor(options.jobs, context, max_tasks_per_child=1) as pool:
        waiting = {
            pool.submit(search, kind, chunk, options.seed * 1000 + number): kind
            for number in range(-(-options.count // chunk))
            for kind in options.kinds
        }
        for done in as_completed(waiting):
            if done.cancelled():
                continue
            kind = waiting[done]
            found = done.result()
            tallies[kind].add(found)
            for failure in found.failures:
                print(f"\n{kind}: {failure}", flush=True)
            print(f"{time.monotonic() - began:6.0f} s  {kind:16} {summary(tallies[kind])}", flush=True)
            if options.minutes and time.monotonic() - began > 60 * options.minutes:
                for task in waiting:
                    task.cancel()
    print(f"\n{'kind':16} " + " ".join(f"{verdict:>9}" for verdict in VERDICTS))
    for kind, tally in tallies.items():
        print(f"{kind:16} " + " ".join(f"{tally.counts[verdict]:9}" for verdict in VERDICTS))
        if options.refusals:
            for text, number in tally.refusals.most_common(options.refusals):
                print(f"    {number:5} {text}")
    return int(any(tally.counts[verdict] for tally in tallies.values() for verdict in FAILURES))


def summary(tally: Tally) -> str:
    """The counts of a tally on one line."""
    return ", ".join(f"{tally.counts[verdict]} {verdict}" for verdict in VERDICTS if tally.counts[verdict])


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.thorough", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="cases of each kind")
    parser.add_argument("--minutes", type=float, default=0.0, help="start no more cases after so many minutes")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--refusals", type=int, default=0, metavar="N", help="show the N most frequent refusals")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
