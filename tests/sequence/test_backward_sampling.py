"""Forward filtering, backward sampling, on five graphs of Gaussians: the density of the draws, and their moments."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb

from .models import random_factor

REAL, PAIR = fb.Real, fb.Reals[2]
N = 100_000


@dataclass(frozen=True)
class Graph:
    """Factors by their inputs, and the plates in which each variable lives."""

    scopes: tuple[tuple[str, ...], ...]
    homes: dict[str, tuple[str, ...]]
    sizes: dict[str, int]
    domain: fb.Domain = REAL

    def factors(self, engine: Callable = np.asarray) -> list[fb.Factor]:
        rng = np.random.default_rng(0)
        domains = {
            **{plate: fb.Bint[size] for plate, size in self.sizes.items()},
            **dict.fromkeys(self.homes, self.domain),
        }
        return [random_factor(rng, {name: domains[name] for name in scope}, engine) for scope in self.scopes]

    def cells(self, plates: tuple[str, ...]) -> list[dict[str, int]]:
        every = itertools.product(*(range(self.sizes[plate]) for plate in plates))
        return [dict(zip(plates, cell, strict=True)) for cell in every]

    def dense(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of all variables, cells of their plates one after another."""
        width = int(np.prod(self.domain.shape))
        keys = [(name, *cell.values()) for name, home in self.homes.items() for cell in self.cells(home)]
        places = {key: np.arange(at * width, (at + 1) * width) for at, key in enumerate(keys)}
        precision, info = np.zeros((len(places) * width,) * 2), np.zeros(len(places) * width)
        for factor, scope in zip(self.factors(), self.scopes, strict=True):
            for cell in self.cells(tuple(name for name in scope if name in self.sizes)):
                part: Any = factor(**cell) if cell else factor
                names = [name for name in scope if name in self.homes]
                at = np.concatenate([places[name, *(cell[plate] for plate in self.homes[name])] for name in names])
                precision[np.ix_(at, at)] += np.asarray(part.precision)
                info[at] += np.asarray(part.info)
        covariance = np.linalg.inv(precision)
        return covariance @ info, covariance


def chained(*names: str) -> tuple[tuple[str, ...], ...]:
    return (names[:1], *itertools.pairwise(names))


GRAPHS = {
    "single": Graph((("x",),), {"x": ()}, {}),
    "pair": Graph((("x",), ("x", "y")), {"x": (), "y": ()}, {}),
    "plate": Graph((("x",), ("i", "x", "y")), {"x": (), "y": ("i",)}, {"i": 4}),
    "nested plates": Graph(
        (("w",), ("i", "w", "x"), ("i", "j", "x", "y")), {"w": (), "x": ("i",), "y": ("i", "j")}, {"i": 2, "j": 3}
    ),
    "four in a row": Graph(chained("a", "b", "c", "d"), {name: () for name in "abcd"}, {}, PAIR),
}


def single(data: Any) -> jax.Array:
    return jnp.asarray(data, jnp.float32)


def check(graph: Graph, draws: dict[str, Any], factors: list[fb.Factor], log_evidence: float) -> None:
    """Joint at the draws less the log-evidence is the normal density there; means and covariances to 0.02."""
    mean, covariance = graph.dense()
    flat = np.concatenate([np.asarray(draws[name]).reshape(N, -1) for name in graph.homes], axis=1)
    assert flat.shape == (N, len(mean))
    np.testing.assert_allclose(flat.mean(0), mean, atol=0.02)
    np.testing.assert_allclose(np.cov(flat.T).reshape(covariance.shape), covariance, atol=0.02)
    few = {name: fb.Array(np.asarray(draws[name])[:50], ("draw", *home)) for name, home in graph.homes.items()}
    joint = np.zeros(50)
    for factor in factors:
        log = factor(**{name: value for name, value in few.items() if name in factor.inputs}).log()
        order = [list(log.inputs).index(name) for name in ("draw", *(name for name in log.inputs if name != "draw"))]
        joint += np.asarray(log.data).transpose(order).reshape(50, -1).sum(1)
    away = flat[:50] - mean
    want = -0.5 * (np.einsum("ni,ij,nj->n", away, np.linalg.inv(covariance), away))
    want = want - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    np.testing.assert_allclose(joint - log_evidence, want, atol=1e-4)


BY_NUMPY = [pytest.param(name, np.asarray, id=f"{name}-numpy") for name in GRAPHS]
BY_JAX = [pytest.param(name, single, id=f"{name}-jax", marks=pytest.mark.slow) for name in ("plate", "four in a row")]


@pytest.mark.parametrize(("name", "engine"), [*BY_NUMPY, *BY_JAX])
def test_draws_by_a_plan(name: str, engine: Callable) -> None:
    """fb.sample: every variable, in all cells of its plates."""
    graph = GRAPHS[name]
    factors, plates = graph.factors(engine), tuple(graph.sizes)
    draws = fb.sample(jax.random.key(1), factors, graph.homes, plates, n=N)
    log_evidence = float(fb.eliminate(factors, graph.homes, plates).log())
    check(graph, draws, graph.factors(np.asarray), log_evidence)


def test_draws_of_a_chain() -> None:
    """The four in a row as a chain of three steps."""
    graph = GRAPHS["four in a row"]
    factors = graph.factors()
    pairs = zip(factors[1:], graph.scopes[1:], strict=True)
    steps = [part(**{old: "x", new: "x_next"}) for part, (old, new) in pairs]
    step = fb.Gaussian(
        info=np.stack([part.info for part in steps]),
        precision=np.stack([part.precision for part in steps]),
        inputs={"t": fb.Bint[3], "x": PAIR, "x_next": PAIR},
    )
    chain = fb.Chain(init=factors[0](a="x"), factor=step, time="t", step={"x": "x_next"})
    found = chain.sample(jax.random.key(2), N)
    draws = {"a": found["x"], **{name: found["x_next"][:, at] for at, name in enumerate("bcd")}}
    check(graph, draws, factors, float(chain.log_evidence()))
