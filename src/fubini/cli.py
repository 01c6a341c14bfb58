"""The command line: `fubini demo`, `fubini query FILE --evidence A=b --target X`, `fubini --version`."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from fubini.base.names import Name
from fubini.eliminate.explain import explain
from fubini.errors import FubiniError, Intractable, escaped
from fubini.io.files import read_bif, read_json, read_uai
from fubini.models.network import Network
from fubini.show.bars import bars, curve
from fubini.terms.factor import Factor
from fubini.terms.value import Array, to_array
from fubini.version import __version__


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of the library go to standard error, and the exit status is 1."""
    options = _parser().parse_args(arguments)
    try:
        print(escaped(options.run(options), keep="\n"))
    except FubiniError as error:
        print(escaped(f"fubini: {error}", keep="\n"), file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fubini", description="Automatic integration for probabilistic programs.")
    parser.add_argument("--version", action="version", version=f"fubini {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    demo = commands.add_parser("demo", help="a query on a built-in network: its plan and its answer")
    demo.set_defaults(run=run_demo)
    query = commands.add_parser("query", help="marginals of a BIF, UAI or JSON network")
    query.add_argument("file", type=Path, help="network.bif, .uai or .json, plain or compressed")
    query.add_argument("--evidence", "-e", action="append", default=[], metavar="NAME=VALUE", help="an observed value")
    query.add_argument("--target", "-t", action="append", default=[], metavar="NAME", help="a variable asked for")
    query.add_argument("--plan", action="store_true", help="show the plan too")
    query.set_defaults(run=run_query)
    return parser


def run_demo(options: argparse.Namespace) -> str:
    """Who is late, and why: prior, evidence, plan, posterior."""
    with resources.as_file(resources.files("fubini.io") / "commute.bif") as path:
        network = read_bif(path)
    late = network.condition(arrival="late", season="winter")
    asked = ("weather", "strike", "choice", "traffic")
    return "\n".join(
        [
            f"{network}: P(weather, strike, choice, traffic), each alone, given that we are late in winter",
            "",
            "Before any evidence:",
            show_distributions(network.marginals(*asked)),
            "",
            f"P(late, winter) = {math.exp(float(late.log_evidence())):.6f}, by the plan",
            str(explain(late)),
            "",
            "Given arrival=late, season=winter:",
            show_distributions(late.marginals(*asked)),
            "",
            "The most probable explanation: " + ", ".join(f"{name}={value}" for name, value in late.map().items()),
        ]
    )


def run_query(options: argparse.Namespace) -> str:
    """Marginals given evidence, as bars."""
    network = read_network(options.file)
    for text in options.evidence:
        network = network.condition(dict([_observation(network, text)]))
    answer = show_distributions(network.marginals(*options.target))
    return f"{explain(network)}\n\n{answer}" if options.plan else answer


def read_network(path: Path) -> Network:
    """Read a network file of any format, which its name decides."""
    stem = path.name.removesuffix(".gz").removesuffix(".xz")
    readers = {".bif": read_bif, ".uai": read_uai, ".json": read_json}
    reader = readers.get(Path(stem).suffix)
    if reader is None:
        raise FubiniError(
            f"the network {path}", expected="a file called *.bif, *.uai or *.json, perhaps with .gz or .xz"
        )
    return reader(path)


def _observation(network: Network, text: str) -> tuple[str, str | int | float]:
    """NAME=VALUE, where the value is a label, a position where there are no labels, or a number."""
    name, separator, value = text.partition("=")
    if not separator:
        raise FubiniError(f"the evidence {text!r}", expected="NAME=VALUE", advice="for example --evidence HR=HIGH")
    domain = network.variables.get(name)
    if domain is not None and not domain.is_finite:
        return name, _number(name, value)
    labelled = domain is None or domain.labels is not None
    return name, value if labelled or not value.isdigit() else int(value)


def _number(name: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise FubiniError(f"the evidence {name}={value!r}", expected="a number: the variable is real") from None


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
