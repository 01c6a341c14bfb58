"""Planning: our elimination orders beside the contraction paths of opt_einsum and cotengra.

    python -m benchmarks.orders [--data DIR] [--networks munin1,link,…]

For each network without evidence: multiply-adds of the plan and seconds to find it. opt_einsum and cotengra see the
same factors as an einsum over hyperedges; a search that raises is reported as failed.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cotengra
import opt_einsum

from fubini.eliminate.tree import search_order, tree_cost
from fubini.io import read_bif

DEFAULT = "alarm,insurance,barley,mildew,water,pathfinder,andes,pigs,munin1,link"
SECONDS = 20.0


def path_cost(scopes: Sequence[frozenset], sizes: dict, path: Sequence[Sequence[int]]) -> int:
    """Multiply-adds of a pairwise path, summing each name out as soon as nothing else has it."""
    live, work = list(scopes), 0
    for positions in path:
        taken = [live.pop(position) for position in sorted(positions, reverse=True)]
        union = frozenset().union(*taken)
        work += math.prod(sizes[name] for name in union)
        live.append(union & frozenset().union(*live) if live else frozenset())
    return work


def by_opt_einsum(scopes: Sequence[frozenset], sizes: dict) -> int:
    search = opt_einsum.RandomGreedy(max_repeats=64, max_time=SECONDS)
    return path_cost(scopes, sizes, search([set(scope) for scope in scopes], set(), sizes, None))


def by_cotengra(scopes: Sequence[frozenset], sizes: dict) -> int:
    search = cotengra.RandomGreedyOptimizer(max_repeats=64, seed=0)
    return path_cost(scopes, sizes, search([tuple(scope) for scope in scopes], (), sizes))


def by_us(scopes: Sequence[frozenset], sizes: dict) -> int:
    return tree_cost(scopes, sizes, search_order(scopes, sizes, list(sizes)))


def timed(search: Callable, scopes: Sequence[frozenset], sizes: dict) -> str:
    start = time.perf_counter()
    try:
        cost = search(scopes, sizes)
    except Exception as error:  # a peer's failure is a result, not ours to mend
        return f"failed ({type(error).__name__})"
    return f"2^{math.log2(max(cost, 1)):5.2f} in {time.perf_counter() - start:6.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("FUBINI_DATA", ".")))
    parser.add_argument("--networks", default=DEFAULT)
    options = parser.parse_args()
    print(f"{'network':<12} {'ours':<20} {'opt_einsum':<20} {'cotengra':<20}")
    for name in options.networks.split(","):
        network = read_bif(options.data / "bayes_nets" / "discrete" / f"{name}.bif.gz")
        scopes = [frozenset(factor.inputs) for factor in network.factors]
        sizes = {variable: domain.extent for variable, domain in network.variables.items()}
        found = [timed(search, scopes, sizes) for search in (by_us, by_opt_einsum, by_cotengra)]
        print(f"{name:<12} " + " ".join(f"{text:<20}" for text in found), flush=True)


if __name__ == "__main__":
    main()
