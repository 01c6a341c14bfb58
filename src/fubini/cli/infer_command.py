"""`fubini infer model.py --data data.csv --out report.html`: draws from the posterior, a summary and a report."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from fubini.base.whole_files import require_writable, written_whole
from fubini.cli.approximation_options import add_approximation_options, approximation
from fubini.cli.data_binding import BoundModel, Source, bind, maps_of, require_arguments, require_mapped
from fubini.cli.data_file import read_data
from fubini.cli.model_file import load_model
from fubini.cli.predictions import Predictions, predict
from fubini.errors import FubiniError, Intractable
from fubini.infer.methods import LABELS, METHODS
from fubini.questions.posterior_summary import summarise
from fubini.report.document import report

MODEL = "a Python file that defines a model, which is run; FILE:NAME where it defines several"


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser("infer", help="draws from the posterior of a model, and a report")
    add_model_options(parser)
    parser.add_argument("--out", "-o", type=Path, metavar="FILE", help="write the report: one HTML file")
    parser.add_argument("--netcdf", type=Path, metavar="FILE", help="write the draws as ArviZ data (NetCDF)")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--draws", type=int, default=1000, help="draws of each chain (1000)")
    parser.add_argument("--chains", type=int, default=4, help="chains (4)")
    parser.add_argument("--warmup", type=int, metavar="N", help="draws to adapt in, which are not kept")
    parser.add_argument("--method", choices=sorted((*METHODS, LABELS)), help="how the remaining latents are drawn")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    parser.add_argument(
        "--predict", type=Path, metavar="FILE", help="new inputs, at which to predict what was observed"
    )
    parser.add_argument("--predictions", type=Path, metavar="FILE", help="write the predictions (CSV)")
    parser.add_argument("--anew", action="append", default=[], metavar="SITE",
                        help="a latent that belongs to the rows: it is drawn anew at new inputs")  # fmt: skip
    add_approximation_options(parser)
    parser.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="keep the run here; a killed run goes on from it"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Where the model and its data come from."""
    parser.add_argument("model", help=MODEL)
    add_data_options(parser)


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """The data, and how their columns are named in the model."""
    kinds = "CSV, TSV, Parquet, JSON or NetCDF"
    parser.add_argument("--data", "-d", type=Path, metavar="FILE",
                        help=f"{kinds}; columns are arguments and sites of the same name")  # fmt: skip
    parser.add_argument("--map", action="append", default=[], metavar="NAME=COLUMN[,COLUMN…]",
                        help="the column of an argument or site of another name; several make a matrix")  # fmt: skip
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE",
                        help="an argument that is no column: a number, or a list as JSON")  # fmt: skip
    parser.add_argument("--skip", action="append", default=[], metavar="COLUMN",
                        help="a column that is not to be used, whatever its name")  # fmt: skip
    missing = parser.add_mutually_exclusive_group()
    missing.add_argument("--drop-missing", dest="missing", action="store_const", const="drop",
                         help="leave out rows with missing values")  # fmt: skip
    missing.add_argument("--mask-missing", dest="missing", action="store_const", const="mask",
                         help="integrate out missing values of observed sites")  # fmt: skip


def bind_options(places: Sequence[str], options: argparse.Namespace) -> list[BoundModel]:
    """The models of files at the data of the options."""
    files = [load_model(place) for place in places]
    require_arguments(files, options.set)
    columns = read_data(options.data) if options.data is not None else {}
    source = Source(columns, options.map, options.set, options.skip)
    bound = [bind(file, source, options.missing) for file in files]
    require_mapped(bound, options.map)
    if len(files) == 1 or options.missing != "drop":
        return bound
    # Rows that one model leaves out, the others leave out too.
    return [replace(bind(file, source), notes=one.notes) for file, one in zip(files, bound, strict=True)]


def run(options: argparse.Namespace) -> str:
    """Infer, write what is asked for, and summarise."""
    if options.predict is None and (options.predictions is not None or options.anew):
        raise FubiniError(
            "--predictions or --anew without --predict", expected="--predict FILE, the data with the new inputs"
        )
    for path in (options.out, options.netcdf, options.checkpoint, options.predictions):
        if path is not None:
            require_writable(path, f"writing {path}")
    (bound,) = bind_options([options.model], options)
    for note in bound.notes:
        print(f"fubini: {note}", file=sys.stderr)
    draws = bound.model.infer(  # type: ignore[attr-defined]
        jax.random.key(options.seed),
        draws=options.draws,
        chains=options.chains,
        warmup=options.warmup,
        method=options.method,
        checkpoint=options.checkpoint,
        dims=bound.dims,
        coords=bound.coords,
        progress=not options.quiet and sys.stderr.isatty(),
    )
    if options.netcdf is not None:  # before all that might fail
        with written_whole(options.netcdf, f"writing {options.netcdf}") as beside:
            draws.to_netcdf(str(beside))
    predictions = _predictions(bound, draws, options)
    summary = summarise(draws.posterior)
    with approximation(options):
        evidence = log_evidence(bound.model)
    if options.out is not None:
        command = shlex.join(["fubini", *sys.argv[1:]])
        with approximation(options):
            report(bound.model, draws, command=command, seed=options.seed).save(options.out)
    if options.json:
        found = {"model": bound.model.title, **_evidence_fields(evidence), **summary.to_json()}
        return json.dumps(found | ({} if predictions is None else predictions.to_json()), indent=2)
    more = [] if predictions is None else [str(predictions)]
    return "\n\n".join([str(bound.model), str(summary), *more, _closing(evidence, options)])


def _predictions(bound: BoundModel, draws: Any, options: argparse.Namespace) -> Predictions | None:
    """Predictions at the new inputs, where these are given; written where that is asked for."""
    if options.predict is None:
        return None
    columns = read_data(options.predict)
    skipped = [name for name in options.skip if name in columns]
    source = Source(columns, maps_of(columns, options.map), options.set, skipped)
    key = jax.random.fold_in(jax.random.key(options.seed), 1)
    found = predict(bound, source, draws, key, options.anew)
    if options.predictions is not None:
        found.save(options.predictions)
    return found


def log_evidence(model: Any) -> Any:
    """The log-evidence where it has a closed form, or is approximated."""
    try:
        return model.log_evidence()
    except Intractable:
        return None


def _evidence_fields(evidence: Any) -> dict[str, Any]:
    """The log-evidence, and its error where it is approximate."""
    found: dict[str, Any] = {"log_evidence": None if evidence is None else float(evidence)}
    if evidence is not None and not evidence.exactness.is_exact:
        found |= {"exactness": str(evidence.exactness), "log_evidence_error": evidence.exactness.error}
    return found


def _closing(evidence: Any, options: argparse.Namespace) -> str:
    lines = ["the evidence has no closed form: --quadrature, --monte-carlo DRAWS or --laplace approximates it"]
    if evidence is not None:
        exactness = evidence.exactness
        lines = [f"log evidence {float(evidence):.6g}{'' if exactness.is_exact else f', {exactness}'}"]
    lines += [f"report: {options.out}"] if options.out is not None else []
    lines += [f"draws: {options.netcdf}"] if options.netcdf is not None else []
    lines += [f"predictions: {options.predictions}"] if options.predictions is not None else []
    return "\n".join(lines)
