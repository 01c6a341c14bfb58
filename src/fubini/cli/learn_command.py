"""`fubini learn NETWORK DATA --out FILE`: the tables of a network from rows of data, cells may be missing."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fubini.cli.case_file import read_cases
from fubini.io.files import read_network, write_network
from fubini.models.network import Network


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    learn = commands.add_parser("learn", help="the tables of a network from data, of the structure that a file has")
    learn.add_argument("file", type=Path, help="the network whose structure and labels are taken")
    learn.add_argument("data", type=Path, help="rows.csv, .tsv or .parquet: a column for each variable")
    learn.add_argument("--out", "-o", type=Path, help="where the learnt network is written, by the format of its name")
    learn.add_argument("--prior", type=float, default=1.0, help="pseudo-count of each cell of a table (1.0)")
    learn.add_argument("--steps", type=int, default=500, help="of expectation–maximisation, at most (500)")
    learn.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """How the tables were learnt, and the scores on these rows of the network that was read and of the learnt one."""
    network = read_network(options.file)
    rows = read_cases(options.data, network.variables)
    learnt = Network.learn(rows, structure=network.structure, prior=options.prior, steps=options.steps)
    if options.out is not None:
        write_network(learnt, options.out)
    lines = [str(learnt.learnt)]
    for what, each in (("as it was", network), ("learnt", learnt)):
        logs, bic = each.score(rows, "log_likelihood"), each.score(rows, "bic")
        lines.append(f"{what:<10} log-likelihood {logs:.6g}, BIC {bic:.6g}")
    if options.out is not None:
        lines.append(f"written to {options.out}")
    return "\n".join(lines)
