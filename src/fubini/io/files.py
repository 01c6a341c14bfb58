"""Network files in and out, in the format that the name of a file says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import DataError, FileFormatError, closest, listed
from fubini.factors.fallbacks import join
from fubini.factors.table import Table
from fubini.io.bif import format_bif, parse_bif
from fubini.io.json_network import parse_json
from fubini.io.model_objects import record_of_model, to_pgmpy_model, to_pyagrum_model
from fubini.io.net import format_net, parse_net
from fubini.io.record import NetworkRecord
from fubini.io.text import decode, read_text, write_text
from fubini.io.uai import format_uai, format_uai_evidence, parse_uai, parse_uai_evidence
from fubini.io.xdsl import format_xdsl, parse_xdsl
from fubini.io.xml_text import decode_xml
from fubini.io.xmlbif import format_xmlbif, parse_xmlbif
from fubini.models.network import Network
from fubini.terms.factor import Factor


def to_network(record: NetworkRecord) -> Network:
    """The network that a file describes."""
    factors = tuple(
        Table(weights, {name: record.variables[name] for name in names}) for names, weights in record.tables
    )
    children = tuple(names[-1] for names, _ in record.tables) if record.directed else ()
    return Network(record.variables, factors, record.directed, record.name, children=children)


def to_record(network: Network) -> NetworkRecord:
    """Turn a network into the record of a file: every factor as a table of weights, without the evidence."""
    return NetworkRecord(network.name, dict(network.variables), tuple(map(_entry, network.factors)), network.directed)


def _entry(factor: Factor) -> tuple[tuple[str, ...], np.ndarray]:
    table = join(factor)
    if not isinstance(table, Table):
        raise DataError(
            f"writing {factor} to a file",
            expected="factors over bounded integers: BIF and UAI hold tables alone",
        )
    weights = np.asarray(table.weights, np.float64)
    if not np.all(np.isfinite(weights)):
        raise DataError(f"writing {factor} to a file", expected="weights that a double can hold")
    return tuple(map(str, table.inputs)), np.ascontiguousarray(weights)


@dataclass(frozen=True)
class Format:
    """How the texts of a format are read and written; formats of other data than tables are only read."""

    parse: Callable[[str, str, Limits], Network | NetworkRecord]
    text: Callable[[NetworkRecord], str] | None
    decoder: Callable[[bytes], str] = decode


FORMATS = {
    "bif": Format(parse_bif, format_bif),
    "uai": Format(parse_uai, format_uai),
    "json": Format(parse_json, None),
    "net": Format(parse_net, format_net),
    "xmlbif": Format(parse_xmlbif, format_xmlbif, decode_xml),
    "xdsl": Format(parse_xdsl, format_xdsl, decode_xml),
}
SUFFIXES = {f".{name}": name for name in FORMATS} | {".bifxml": "xmlbif", ".xml": "xmlbif"}


def _format_of(path: str | Path, name: str) -> str:
    """The format that is asked for, or that the name of a file says."""
    if name:
        if name in FORMATS:
            return name
        raise FileFormatError(
            f"the format {name!r}", expected=f"one of {listed(FORMATS)}", nearest=closest(name, FORMATS)
        )
    stem = Path(Path(path).name.removesuffix(".gz").removesuffix(".xz"))
    if stem.suffix.lower() in SUFFIXES:
        return SUFFIXES[stem.suffix.lower()]
    raise FileFormatError(
        f"the network {path}",
        expected=f"a file called *{', *'.join(SUFFIXES)}, perhaps with .gz or .xz",
        nearest=closest(stem.suffix, SUFFIXES),
        advice="rename it, or say its format: format='bif'",
    )


def read_network(
    path: str | Path, evidence: str | Path | None = None, *, format: str = "", limits: Limits = DEFAULT
) -> Network:
    """A network from a BIF, XMLBIF, NET, XDSL, UAI or JSON file, plain or compressed, and evidence of a .evid file.

    The format is that of the name: .bif, .xmlbif (.bifxml, .xml), .net, .xdsl, .uai, .json, perhaps with .gz or .xz.

    >>> fb.io.read_network(Path(fb.__file__).with_name("io") / "commute.bif").marginal("choice").weights.round(3)
    array([0.425, 0.575])
    """
    form = FORMATS[_format_of(path, format)]
    found = form.parse(read_text(path, limits, form.decoder), str(path), limits)
    network = to_network(found) if isinstance(found, NetworkRecord) else found
    if evidence is None:
        return network
    seen = parse_uai_evidence(read_text(evidence, limits), str(evidence), network.variables, limits)
    return network.condition({name: network.variables[name].label(value) for name, value in seen.items()})


def write_network(network: Network, path: str | Path, evidence: str | Path | None = None, *, format: str = "") -> None:
    """Write a network of tables in the format that the name says, and its evidence to a .evid file if one is given.

    >>> import tempfile
    >>> network = fb.Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),), children=("a",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_network(network, Path(folder, "a.xdsl"))
    ...     fb.io.read_network(Path(folder, "a.xdsl")).marginals()["a"].weights
    array([0.25, 0.75])
    """
    name = _format_of(path, format)
    text = FORMATS[name].text
    if text is None:
        written = [name for name, form in FORMATS.items() if form.text]
        raise FileFormatError(f"writing {path} as {name}", expected=f"one of {listed(written)}")
    if evidence is not None and network.findings:
        raise DataError(
            f"writing the soft evidence on {listed(network.findings)} to {evidence}",
            expected="observed values: a file of evidence holds no weights",
            advice="write the network without a file of evidence",
        )
    write_text(path, text(to_record(network)))
    if evidence is not None:
        write_text(evidence, format_uai_evidence(dict(network.evidence), network.variables))


def from_model(model: Any) -> Network:
    """The network that an object of pgmpy or pyAgrum describes: a Bayesian network, or an undirected one.

    Rows within 1e-3 of summing to 1 are normalised; tables that are not filled are refused. To pgmpy's states 0, 1, …
    and to pyAgrum's ranges from 0 on, there are no labels.

    >>> import pyagrum as gum
    >>> model = gum.fastBN("rain{no|yes}->grass{dry|wet}")
    >>> fb.io.from_model(model)
    Network(anonymousBN: 2 variables)
      rain: no, yes
      grass given rain: dry, wet
    """
    return to_network(record_of_model(model))


def to_pgmpy(network: Network) -> Any:
    """A directed network of tables as a DiscreteBayesianNetwork of pgmpy, without the evidence.

    >>> net = fb.Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),), children=("a",))
    >>> fb.io.to_pgmpy(net).get_cpds("a").values  # doctest: +SKIP
    array([0.25, 0.75])
    """
    return to_pgmpy_model(to_record(network))


def to_pyagrum(network: Network) -> Any:
    """A directed network of tables as a BayesNet of pyAgrum, without the evidence.

    >>> net = fb.Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),), children=("a",))
    >>> peer = fb.io.to_pyagrum(net)  # to be kept as long as its tables are
    >>> peer.cpt("a").tolist()
    [0.25, 0.75]
    """
    return to_pyagrum_model(to_record(network))


def read_bif(path: str | Path, *, limits: Limits = DEFAULT) -> Network:
    """A network from a BIF file, plain or compressed (.gz, .xz).

    >>> fb.io.read_bif(Path(fb.__file__).with_name("io") / "commute.bif")
    Network(commute: 8 variables)
      season: summer, winter
      weather given season: clear, rain, snow
      strike: no, yes
      traffic given weather, strike: light, normal, heavy
      train given weather, strike: on_time, delayed, cancelled
      choice given strike: car, train
      arrival given choice, traffic, train: early, on_time, late
      coffee given arrival: no, yes
    """
    return read_network(path, format="bif", limits=limits)


def write_bif(network: Network, path: str | Path) -> None:
    """Write a directed network as BIF, compressed if the name ends in .gz or .xz.

    >>> import tempfile
    >>> network = fb.Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),), children=("a",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bif(network, Path(folder, "a.bif"))
    ...     fb.io.read_bif(Path(folder, "a.bif")).marginals()["a"].weights
    array([0.25, 0.75])
    """
    write_network(network, path, format="bif")


def read_json(path: str | Path, *, limits: Limits = DEFAULT) -> Network:
    """A network of discrete, Gaussian and conditional Gaussian nodes from a JSON file, plain or compressed.

    >>> import tempfile
    >>> node = '{"name": "a", "type": "discrete", "states": ["no", "yes"], "parents": [], "prob": [0.25, 0.75]}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.json")
    ...     _ = path.write_text('{"name": "coin", "nodes": [%s]}' % node)
    ...     read_json(path)
    Network(coin: 1 variables)
      a: no, yes
    """
    return read_network(path, format="json", limits=limits)


def read_uai(path: str | Path, evidence: str | Path | None = None, *, limits: Limits = DEFAULT) -> Network:
    """A network from a UAI file, with the evidence of a .evid file if given. Variables are named x0, x1 …

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.uai")
    ...     _ = path.write_text("MARKOV 1 2 1 1 0 2 1.0 3.0")
    ...     read_uai(path).marginals()["x0"].weights
    array([0.25, 0.75])
    """
    return read_network(path, evidence, format="uai", limits=limits)


def write_uai(network: Network, path: str | Path, evidence: str | Path | None = None) -> None:
    """Write a network as UAI, and its evidence beside it if a path is given.

    >>> import tempfile
    >>> network = fb.Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),), children=("a",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_uai(network, Path(folder, "a.uai"))
    ...     fb.io.read_uai(Path(folder, "a.uai")).marginals()["x0"].weights
    array([0.25, 0.75])
    """
    write_network(network, path, evidence, format="uai")
