"""`fubini compare a.py b.py --data data.csv`: models of the same data by their evidence."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from fubini.cli.approximation_options import add_approximation_options, approximation
from fubini.cli.data_binding import LEFT_OUT
from fubini.cli.infer_command import MODEL, add_data_options, bind_options
from fubini.cli.model_file import split_place
from fubini.errors import NameClash
from fubini.questions.compare import compare


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser("compare", help="models of the same data, by their evidence")
    parser.add_argument("models", nargs="+", metavar="model", help=MODEL)
    add_data_options(parser)
    add_approximation_options(parser)
    parser.add_argument("--seed", type=int, default=0, help="of --monte-carlo (default 0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """The comparison as a table, or as JSON."""
    names = [_name(place) for place in options.models]
    for name in names:
        if names.count(name) > 1:
            raise NameClash(f"two models called {name!r}", expected="files or models of different names")
    bound = bind_options(options.models, options)
    for note in dict.fromkeys(note for one in bound for note in one.notes if LEFT_OUT in note):
        print(f"fubini: {note}", file=sys.stderr)
    with approximation(options):
        found = compare(**{name: one.model for name, one in zip(names, bound, strict=True)})
    return json.dumps({name: row._asdict() for name, row in found.items()}, indent=2) if options.json else str(found)


def _name(place: str) -> str:
    """A model is called as it is in its file, or as the file."""
    path, name = split_place(place)
    return name or path.stem
