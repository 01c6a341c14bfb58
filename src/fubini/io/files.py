"""Network files in and out: BIF, UAI and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import DataError
from fubini.factors.fallbacks import join
from fubini.factors.table import Table
from fubini.io.bif import format_bif, parse_bif
from fubini.io.json_network import parse_json
from fubini.io.record import NetworkRecord
from fubini.io.text import read_text, write_text
from fubini.io.uai import format_uai, format_uai_evidence, parse_uai, parse_uai_evidence
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
    return to_network(parse_bif(read_text(path, limits), str(path), limits))


def write_bif(network: Network, path: str | Path) -> None:
    """Write a directed network as BIF, compressed if the name ends in .gz or .xz.

    >>> import tempfile
    >>> network = fb.Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),), children=("a",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bif(network, Path(folder, "a.bif"))
    ...     fb.io.read_bif(Path(folder, "a.bif")).marginals()["a"].weights
    array([0.25, 0.75])
    """
    write_text(path, format_bif(to_record(network)))


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
    return parse_json(read_text(path, limits), str(path), limits)


def read_uai(path: str | Path, evidence: str | Path | None = None, *, limits: Limits = DEFAULT) -> Network:
    """A network from a UAI file, with the evidence of a .evid file if given. Variables are named x0, x1 …

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.uai")
    ...     _ = path.write_text("MARKOV 1 2 1 1 0 2 1.0 3.0")
    ...     read_uai(path).marginals()["x0"].weights
    array([0.25, 0.75])
    """
    record = parse_uai(read_text(path, limits), str(path), limits)
    network = to_network(record)
    if evidence is None:
        return network
    return network.condition(parse_uai_evidence(read_text(evidence, limits), str(evidence), record, limits))


def write_uai(network: Network, path: str | Path, evidence: str | Path | None = None) -> None:
    """Write a network as UAI, and its evidence beside it if a path is given.

    >>> import tempfile
    >>> network = fb.Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),), children=("a",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_uai(network, Path(folder, "a.uai"))
    ...     fb.io.read_uai(Path(folder, "a.uai")).marginals()["x0"].weights
    array([0.25, 0.75])
    """
    record = to_record(network)
    write_text(path, format_uai(record))
    if evidence is not None:
        seen: Mapping[str, int] = network.evidence
        write_text(evidence, format_uai_evidence(dict(seen), record))
