"""`fubini demo`: a hierarchical model of real data, from its text to a report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax

from fubini.base.whole_files import require_writable
from fubini.cli.hospitals import DEATHS, NAMES, OPERATIONS, hospitals, one_rate, own_rates, two_kinds
from fubini.questions.compare import compare
from fubini.questions.posterior_summary import summarise
from fubini.report.document import report

SEED = 0
SHOWN = 16  # lines of the generated loop


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser("demo", help="a hierarchical model of real data, from its text to a report")
    parser.add_argument("--out", "-o", type=Path, default=Path("report.html"), help="the report (report.html)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Print each part when it is ready; the report comes last."""
    require_writable(options.out, f"writing {options.out}")
    last = ""
    with quick_compilation():
        for part in _parts(options.out):
            if last:
                print(last, end="\n\n", flush=True)
            last = part
    return last


@contextmanager
def quick_compilation() -> Iterator[None]:
    """XLA without its costly optimisations: what runs once is compiled for longer than it runs."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)


def _parts(path: Path) -> Iterator[str]:
    """What is asked, the model, what is integrated out, the posterior, rival models, a compiled sampler, the report."""
    yield "Deaths after heart operations on infants in twelve hospitals: is the rate of some higher?\n" + ", ".join(
        f"{name} {died}/{count}" for name, died, count in zip(NAMES, DEATHS, OPERATIONS, strict=True)
    )
    post = hospitals(OPERATIONS).condition(deaths=DEATHS)
    yield f"1. What is integrated out, and what remains\n{post.explain()}"
    labels = {"rate": ["hospital"], "risky": ["hospital"], "deaths": ["hospital"]}
    draws = post.infer(jax.random.key(SEED), draws=500, dims=labels, coords={"hospital": list(NAMES)}, progress=False)
    yield f"2. The posterior\n{summarise(draws.posterior)}"
    rivals = {rival.__name__: rival(OPERATIONS).condition(deaths=DEATHS) for rival in (one_rate, own_rates)}
    comparison = compare(**rivals)
    yield f"3. Two rival models by their exact evidence\n{comparison}"
    sampler = two_kinds(OPERATIONS).condition(deaths=DEATHS).eliminate("share", "rate").gibbs("kind")
    loop = sampler.source().partition("def sweep_kind")[2].splitlines()[1 : SHOWN + 1]
    yield (
        "4. The loop that is generated to draw which of two kinds each hospital is, rates integrated out\n"
        + "\n".join([*loop, "    …"])
    )
    command = " ".join(["fubini", *sys.argv[1:]])
    made = report(
        post,
        draws,
        title="Twelve hospitals",
        command=command,
        seed=SEED,
        loops={"Two kinds of hospitals": sampler},
        comparison=comparison,
    )
    yield f"5. The report, to open in a browser: {made.save(path).resolve()}"
