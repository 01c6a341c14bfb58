"""All marginals of linear-Gaussian networks: random ones of growing size, ours against linear algebra by hand.

A node has up to three parents among the ten before it. By hand: the joint precision as a sparse matrix, its sparse LU
factorisation (SuperLU, in its own fill-reducing order; symmetric), means by one solve, variances by solving for the
columns of the identity; and the same dense, by inverting the matrix. Means and variances must agree.
Aim: 500 variables within 2× of the sparse factorisation.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

import fubini as fb
from benchmarks.report import Aim, Table, difference, duration, print_header, print_summary, ratio
from benchmarks.timing import elapsed, interleaved
from fubini.factors.promotion import promoted

SIZES = (125, 250, 500, 1000)


class Network(NamedTuple):
    """x = offsets + slopes x + deviations ε."""

    slopes: np.ndarray
    offsets: np.ndarray
    deviations: np.ndarray


def random_network(size: int) -> Network:
    random = np.random.default_rng(size)
    slopes = np.zeros((size, size))
    for node in range(1, size):
        near = np.arange(max(0, node - 10), node)
        parents = random.choice(near, min(len(near), random.integers(0, 4)), replace=False)
        slopes[node, parents] = random.normal(size=len(parents)) / 2
    return Network(slopes, random.normal(size=size), random.uniform(0.5, 2.0, size))


def to_factors(network: Network) -> list[fb.Factor]:
    factors = []
    for node, (row, offset, deviation) in enumerate(zip(*network, strict=True)):
        mean = fb.Array(np.asarray(offset))
        for parent in np.flatnonzero(row):
            mean = mean + float(row[parent]) * fb.Variable(f"x{parent}", fb.Real)
        factors.append(promoted(fb.dist.Normal(mean, float(deviation))(f"x{node}")))
    return factors


def ours(factors: list[fb.Factor], names: tuple[str, ...]) -> dict:
    return fb.marginals(factors, names)


def sparse_by_hand(network: Network) -> tuple[np.ndarray, np.ndarray]:
    size = len(network.offsets)
    rows = sparse.diags(1 / network.deviations) @ (sparse.eye(size) - sparse.csr_matrix(network.slopes))
    precision = (rows.T @ rows).tocsc()
    factor = linalg.splu(precision, options={"SymmetricMode": True}, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
    means = factor.solve(rows.T @ (network.offsets / network.deviations))
    return means, np.diagonal(factor.solve(np.eye(size)))


def dense_by_hand(network: Network) -> tuple[np.ndarray, np.ndarray]:
    rows = (np.eye(len(network.offsets)) - network.slopes) / network.deviations[:, None]
    covariance = np.linalg.inv(rows.T @ rows)
    return covariance @ (rows.T @ (network.offsets / network.deviations)), np.diagonal(covariance)


def largest_difference(found: dict, expected: tuple[np.ndarray, np.ndarray]) -> float:
    means = np.array([float(factor.mean(name)) for name, factor in found.items()])
    variances = np.array([float(factor.variance(name)) for name, factor in found.items()])
    return max(np.abs(means - expected[0]).max(), np.abs(variances - expected[1]).max())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gaussian_nets", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print_header(("numpy", "scipy"))
    columns = ("variables", "first call", "    again", "   sparse", "    dense", "again/sparse", "difference")
    table = Table("all marginals of a linear-Gaussian network", columns)
    shares = {}
    for size in SIZES:
        network = random_network(size)
        factors, names = to_factors(network), tuple(f"x{node}" for node in range(size))
        first = elapsed(lambda factors=factors, names=names: ours(factors, names))
        times = interleaved(
            {
                "ours": lambda factors=factors, names=names: ours(factors, names),
                "sparse": lambda network=network: sparse_by_hand(network),
                "dense": lambda network=network: dense_by_hand(network),
            },
            rounds,
        )
        shares[size] = times["ours"].median / times["sparse"].median
        gap = largest_difference(ours(factors, names), sparse_by_hand(network))
        cells = [duration(times[name].median) for name in ("ours", "sparse", "dense")]
        table.row(size, duration(first), *cells, ratio(shares[size]), difference(gap))
    print_summary([Aim("500 variables", "within 2× of a sparse factorisation", ratio(shares[500]), shares[500] < 2)])


if __name__ == "__main__":
    main()
