"""Fields of normals on square grids, of growing size: evidence, moments and draws, ours against SciPy by hand.

Each cell has a weak prior, differences between neighbours are normal, and half of the cells are observed. By hand: the
rows of the problem as a sparse matrix, its precision, one sparse factor (SuperLU, symmetric), and a solve. Both get new
data every time, so that nothing is answered from memory, and the evidences must agree. Memory is the peak of a process
that does one thing alone, beyond what it had after a field of 20 × 20.
Aim: the evidence of 100,000 unknowns within 2× of by hand.
"""

from __future__ import annotations

import argparse
import itertools
import math

import jax
import numpy as np
from scipy import sparse
from scipy.sparse import linalg

import fubini as fb
from benchmarks.report import Aim, Table, difference, duration, mebibytes, print_header, print_summary, ratio
from benchmarks.timing import Child, elapsed, interleaved, peak_memory
from fubini import dist

SIDES = (50, 100, 200, 316)
DRAWS = 10


@fb.model
def field(first, second, cells, n):
    z = yield dist.Normal(0.0, 10.0).expand([n])
    rough = yield dist.Normal(z[first] - z[second], 1.0)
    y = yield dist.Normal(z[cells], 0.3)


class Field:
    """A grid, its neighbours, the cells that are observed, and new data for each question."""

    def __init__(self, side: int) -> None:
        at = np.arange(side * side).reshape(side, side)
        self.first = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
        self.second = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
        self.size = side * side
        self.cells = np.random.default_rng(side).choice(self.size, self.size // 2, replace=False)
        self.seeds = itertools.count()

    def data(self) -> np.ndarray:
        return np.random.default_rng(next(self.seeds)).normal(size=len(self.cells))

    def posterior(self, data: np.ndarray):
        model = field(self.first, self.second, self.cells, self.size)
        return model.condition(rough=np.zeros(len(self.first)), y=data)

    def evidence(self, data: np.ndarray) -> float:
        return float(self.posterior(data).log_evidence())

    def by_hand(self, data: np.ndarray) -> float:
        n, steps, seen = self.size, len(self.first), len(self.cells)
        rows = np.concatenate([np.arange(n), np.repeat(n + np.arange(steps), 2), n + steps + np.arange(seen)])
        pairs = np.stack([self.first, self.second], axis=1).reshape(-1)
        columns = np.concatenate([np.arange(n), pairs, self.cells])
        entries = np.concatenate([np.full(n, 0.1), np.tile([1.0, -1.0], steps), np.full(seen, 1 / 0.3)])
        A = sparse.csr_array((entries, (rows, columns)), shape=(n + steps + seen, n))
        b = np.concatenate([np.zeros(n + steps), data / 0.3])
        factor = linalg.splu(
            sparse.csc_array(A.T @ A),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )
        residual = A @ factor.solve(A.T @ b) - b
        constant = -n * math.log(10) - seen * math.log(0.3) - 0.5 * (steps + seen) * math.log(2 * math.pi)
        return constant - 0.5 * residual @ residual - 0.5 * np.log(factor.U.diagonal()).sum()

    def moments(self, data: np.ndarray) -> None:
        marginal = self.posterior(data).marginal("z")
        np.asarray(marginal.mean().data), np.asarray(marginal.variance().data)

    def draws(self, data: np.ndarray) -> None:
        self.posterior(data).marginal("z").sample(jax.random.key(0), n=DRAWS)


class Alone:
    """One question in a process of its own."""

    def __init__(self, question: str) -> None:
        self.question = question

    def memory(self, side: int) -> int:
        """The growth of the peak of the process."""
        small, large = Field(20), Field(side)
        getattr(small, self.question)(small.data())
        return peak_memory(lambda: getattr(large, self.question)(large.data()))


def memory(question: str, side: int) -> int:
    with Child(Alone, question) as child:
        return child.ask("memory", side)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sparse_fields", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print_header(("numpy", "scipy", "jax"))
    columns = ("unknowns", "first call", "     ours", "  by hand", " ratio", "difference", "MiB ours", "MiB by hand")
    table = Table("log-evidence of a field", columns)
    shares, ours = {}, {}
    for side in SIDES:
        one = Field(side)
        first = elapsed(lambda one=one: one.evidence(one.data()))
        contestants = {
            "ours": lambda one=one: one.evidence(one.data()),
            "by hand": lambda one=one: one.by_hand(one.data()),
        }
        times = interleaved(contestants, rounds)
        shares[side], ours[side] = times["ours"].median / times["by hand"].median, times["ours"].median
        data = one.data()
        gap = abs(one.evidence(data) / one.by_hand(data) - 1)
        cells = [duration(times[name].median) for name in contestants]
        sizes = [mebibytes(memory(question, side)) for question in ("evidence", "by_hand")]
        table.row(one.size, duration(first), *cells, ratio(shares[side]), difference(gap), *sizes)
    table = Table("moments and draws", ("unknowns", "mean and variance", f"{DRAWS} draws", "MiB of moments"))
    for side in SIDES:
        one = Field(side)
        Field(20).moments(Field(20).data())  # compiled loops
        times = [elapsed(lambda one=one, ask=ask: getattr(one, ask)(one.data())) for ask in ("moments", "draws")]
        table.row(one.size, *map(duration, times), mebibytes(memory("moments", side)))
    low, high = SIDES[1], SIDES[-1]
    growth = math.log(ours[high] / ours[low]) / math.log(high**2 / low**2)
    print_summary(
        [
            Aim(f"evidence of {high**2:,}", "within 2× of SciPy by hand", ratio(shares[high]), shares[high] < 2),
            Aim("growth with size", "power below 1.5", f"{growth:.2f}", growth < 1.5),
        ]
    )


if __name__ == "__main__":
    main()
