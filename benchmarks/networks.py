"""The networks of the benchmarks: files, chains and grids, with evidence drawn from each network itself."""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np

import fubini as fb

SEED = 20240607
SHARE = 0.05  # of the variables are observed


def find_networks(data: Path) -> dict[str, str]:
    """The sources of the discrete networks under a data folder, by name."""
    files = sorted((data / "bayes_nets" / "discrete").glob("*.bif.gz"))
    return {file.name.removesuffix(".bif.gz"): str(file) for file in files}


def load(source: str) -> fb.Network:
    """The network of a BIF file, or a random one: `chain:length`, `grid:side`."""
    kind, _, size = source.partition(":")
    if kind == "chain":
        return chain(int(size))
    return grid(int(size)) if kind == "grid" else fb.io.read_bif(source)


def chain(length: int, states: int = 4) -> fb.Network:
    """x0 → x1 → …"""
    parents = {f"x{i}": (f"x{i - 1}",) if i else () for i in range(length)}
    return random_network(parents, states)


def grid(side: int, states: int = 2) -> fb.Network:
    """Each variable has those above and to the left as parents."""
    parents = {
        f"x{i}_{j}": (*([f"x{i - 1}_{j}"] if i else []), *([f"x{i}_{j - 1}"] if j else []))
        for i in range(side)
        for j in range(side)
    }
    return random_network(parents, states)


def random_network(parents: dict[str, tuple[str, ...]], states: int) -> fb.Network:
    """A network of this graph, its rows drawn from a flat Dirichlet."""
    random = np.random.default_rng(SEED)
    variables = {name: fb.Bint[states] for name in parents}
    tables = tuple(
        fb.Table(random.dirichlet(np.ones(states), (states,) * len(above)), (*above, name))
        for name, above in parents.items()
    )
    return fb.Network(variables, tables)


def draw_evidence(network: fb.Network, count: int = 2) -> list[dict[str, int]]:
    """Values of a twentieth of the variables, the same variables each time, from ancestral samples."""
    random = np.random.default_rng(SEED)
    names = list(network.variables)
    observed = random.choice(names, max(1, round(SHARE * len(names))), replace=False)
    samples = [draw_sample(network, random) for _ in range(count)]
    return [{str(name): sample[name] for name in observed} for sample in samples]


def draw_sample(network: fb.Network, random: np.random.Generator) -> dict[str, int]:
    """One draw of every variable, parents before children."""
    tables = {factor.names[-1]: factor for factor in network.factors}
    order = TopologicalSorter({name: table.names[:-1] for name, table in tables.items()}).static_order()
    drawn: dict[str, int] = {}
    for name in order:
        row = tables[name].weights[tuple(drawn[parent] for parent in tables[name].names[:-1])]
        drawn[name] = int(random.choice(len(row), p=row / row.sum()))
    return drawn
