"""`fubini explain model.py`: what is integrated out and by which identity, what remains and why."""

from __future__ import annotations

import argparse
from typing import Any

from fubini.cli.infer_command import add_model_options, bind_options


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser("explain", help="what a model integrates out, how, and what remains")
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """The explanation of a model at its data."""
    (bound,) = bind_options([options.model], options)
    return "\n".join([str(bound.model.explain()), *bound.notes])  # type: ignore[attr-defined]
