"""`fubini query FILE --evidence A=b C=d --target X`: questions to a network of a file."""

from __future__ import annotations

import argparse
import csv
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fubini.base.names import Name
from fubini.cli.case_file import read_cases
from fubini.eliminate.explain import explain
from fubini.errors import FubiniError, Intractable, escaped
from fubini.io.files import read_network
from fubini.models.network import Network
from fubini.show.bars import bars, curve
from fubini.terms.factor import Factor
from fubini.terms.value import Array, to_array


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    query = commands.add_parser("query", help="marginals, the most probable values or samples of a network file")
    query.add_argument("file", type=Path, help="network.bif, .xmlbif, .net, .xdsl, .uai or .json, plain or compressed")
    query.add_argument("--evidence", "-e", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
                       help="observed values, NAME=0.2,0.5,0.3 as soft evidence: a weight for each value; or a file of "
                       "observed values in the format of UAI: *.evid")  # fmt: skip
    query.add_argument("--do", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
                       help="values set from outside, whatever the parents are: an intervention")  # fmt: skip
    query.add_argument("--target", "-t", nargs="+", action="extend", default=[], metavar="NAME",
                       help="variables asked for; A,B asks for their joint distribution")  # fmt: skip
    asked = query.add_mutually_exclusive_group()
    asked.add_argument("--map", action="store_true",
                       help="the most probable values of all variables together, or of the targets, the others summed "
                       "out")  # fmt: skip
    asked.add_argument("--best", type=int, metavar="K", help="the K most probable of these, with their probabilities")
    asked.add_argument("--predict", type=Path, metavar="DATA",
                       help="fill the missing cells and columns of a data file, .csv, .tsv or .parquet")  # fmt: skip
    asked.add_argument("--structure", action="store_true", help="the parents and values of each variable")
    asked.add_argument("--samples", type=int, metavar="N", help="samples of all variables")
    query.add_argument("--seed", type=int, default=0, help="of the samples (0)")
    query.add_argument("--format", choices=("text", "json", "csv"), default="text", help="of the answer")
    query.add_argument("--plan", action="store_true", help="show the plan too")
    query.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """The answer to a question given evidence, in the format asked for."""
    files = [text for text in options.evidence if "=" not in text and ".evid" in Path(text).suffixes]
    if len(files) > 1:
        raise FubiniError(f"--evidence {' '.join(files)}", expected="one file, and values as NAME=VALUE")
    network = read_network(options.file, *files)
    for text in options.evidence:
        if text in files:
            continue
        network = network.condition(dict([_observation(network, text, "evidence")]))
    network = network.do(dict(_observation(network, text, "intervention") for text in options.do))
    answer = _answer(network, options)
    return f"{explain(network)}\n\n{answer}" if options.plan and options.format == "text" else answer


def _answer(network: Network, options: argparse.Namespace) -> str:
    if options.target and (options.structure or options.samples is not None):
        raise FubiniError(
            f"--target {' '.join(options.target)} with {'--structure' if options.structure else '--samples'}",
            expected="no target: the answer is of all variables together",
        )
    names = [name for target in options.target for name in target.split(",")]
    if options.structure:
        return "\n".join(network.structure.lines())
    if options.predict is not None:
        made = network.predict(read_cases(options.predict, network.variables), *names)
        return _rows(made.to_dict("records"), "csv" if options.format == "text" else options.format)
    if options.best is not None:
        best = network.most_probable(options.best, *names)
        rows = [{**each.values, "probability": each.probability} for each in best]
        return "\n".join(map(str, best)) if options.format == "text" else _rows(rows, options.format)
    if options.map:
        values = {name: _plain(value) for name, value in network.map(*names).items()}
        text = "\n".join(f"{name} = {value}" for name, value in values.items())
        return text if options.format == "text" else _rows([values], options.format)
    if options.samples is not None:
        return _rows(_samples(network, options), "csv" if options.format == "text" else options.format)
    joints = {target: network.marginal(*target.split(",")) for target in options.target if "," in target}
    single = [target for target in options.target if "," not in target]
    marginals = network.marginals(*single) if single or not joints else {}
    if options.format == "text":
        parts = [show_distributions(marginals)] if marginals else []
        return "\n".join([*parts, *map(str, joints.values())])
    return _rows(_cells({**marginals, **joints}), options.format)


def _samples(network: Network, options: argparse.Namespace) -> list[dict[str, Any]]:
    if options.samples < 1:
        raise FubiniError(f"--samples {options.samples}", expected="a number from 1 on")
    drawn = network.sample(jax.random.key(options.seed), options.samples)
    return [{name: _plain(values[k]) for name, values in drawn.items()} for k in range(options.samples)]


def _cells(marginals: Mapping[str, Factor]) -> list[dict[str, Any]]:
    """One row for each value of a discrete marginal, or mean and deviation of a real one."""
    rows: list[dict[str, Any]] = []
    for target, factor in marginals.items():
        if not all(domain.is_finite for domain in factor.inputs.values()):
            if len(factor.inputs) > 1:
                raise FubiniError(
                    f"the joint distribution of {target} as rows",
                    expected="discrete variables",
                    advice="ask for each real variable alone, or for --format text",
                )
            (name,) = factor.inputs
            mean, variance = np.asarray(factor.mean(name)), np.asarray(factor.variance(name))
            rows.append({"target": target, "value": "", "probability": "", "mean": mean.tolist(),
                         "sd": np.sqrt(variance).tolist()})  # fmt: skip
            continue
        names = list(factor.inputs)
        order = [names.index(name) for name in (target.split(",") if len(names) > 1 else names)]
        domains = [factor.inputs[names[axis]] for axis in order]
        shares = np.exp(np.asarray(factor.log().data)).transpose(order)
        for position in np.ndindex(shares.shape):
            labels = [str(domain.label(index)) for domain, index in zip(domains, position, strict=True)]
            rows.append({"target": target, "value": ",".join(labels), "probability": float(shares[position])})
    return rows


def _rows(rows: list[dict[str, Any]], form: str) -> str:
    """Rows as JSON or CSV."""
    if form == "json":
        return json.dumps(rows, indent=2)
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(names), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().rstrip("\n")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) or getattr(value, "ndim", None) == 0 else value


def _observation(network: Network, text: str, what: str) -> tuple[str, Any]:
    """NAME=VALUE, of a label, a position where there are no labels, a number, or weights with commas between them."""
    name, separator, value = text.partition("=")
    if not separator:
        option = "--do" if what == "intervention" else "--evidence"
        raise FubiniError(f"the {what} {text!r}", expected="NAME=VALUE", advice=f"for example {option} HR=HIGH")
    domain = network.variables.get(name)
    if domain is not None and not domain.is_finite:
        return name, _number(name, value)
    labels = () if domain is None else domain.labels
    if what == "evidence" and "," in value and value not in (labels or ()):
        return name, [_number(name, each) for each in value.split(",")]
    return name, value if labels is not None or not value.isdigit() else int(value)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise FubiniError(
            f"the evidence {name}={value!r}", expected="a number, of a real variable or as a weight of soft evidence"
        ) from None


# -- distributions as bars ----------------------------------------------------------------------------------------


def show_distribution(name: Name, factor: Factor, width: int = 40) -> str:
    """The marginal of one variable: a line for each value, or mean, deviation and outline of a real number.

    >>> from fubini.base.domains import Bint
    >>> print(show_distribution("rain", fb.Table([0.75, 0.25], {"rain": Bint.labelled("dry", "wet")}), 8))
    rain
      dry  0.7500 ██████
      wet  0.2500 ██
    >>> print(show_distribution("height", fb.dist.Normal(170.0, 10.0)("height"), 16))
    height
      170 ± 10  from 140 to 200: ▁▁▁▂▄▅▇██▇▅▄▂▁▁▁
    """
    domain = factor.inputs[name]
    if not domain.is_finite:
        return f"{escaped(str(name))}\n{_outline(name, factor, width)}"
    shares = np.exp(np.asarray(factor.log().data))
    labels = [escaped(str(domain.label(index))) for index in range(len(shares))]
    return "\n".join([escaped(str(name)), *bars(labels, shares, width)])


def _outline(name: Name, factor: Factor, width: int) -> str:
    """Mean ± deviation, and the density over three deviations on either side as a row of blocks."""
    if factor.inputs[name].shape:
        mean, deviation = np.asarray(factor.mean(name)), np.sqrt(np.asarray(factor.variance(name)))
        return f"  {np.array2string(mean, precision=4)} ± {np.array2string(deviation, precision=4)}"
    mean, deviation = float(factor.mean(name)), float(factor.variance(name)) ** 0.5
    summary = f"  {mean:.6g} ± {deviation:.4g}"
    low, high = mean - 3 * deviation, mean + 3 * deviation
    try:
        density = np.exp(
            np.asarray(to_array(factor({name: Array(np.linspace(low, high, width), ("at",))}).log()).array)
        )
    except Intractable:  # a point mass among densities: no curve to draw
        return f"{summary}, with mass at a point"
    return f"{summary}  from {low:.6g} to {high:.6g}: {curve(density)}"


def show_distributions(marginals: Mapping[str, Factor]) -> str:
    """Several marginals, one under the other."""
    return "\n".join(show_distribution(name, factor) for name, factor in marginals.items())
