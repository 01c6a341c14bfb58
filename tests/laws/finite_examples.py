"""Examples of representations of bounded integers: a random instance of each, and its table of weights."""

from __future__ import annotations

from typing import Any

import numpy as np

import fubini as fb
from fubini.factors.circuit import Circuit
from fubini.factors.diagram import Diagram
from fubini.factors.sparse import Sparse
from fubini.factors.train import Train
from tests.representations.log_linear import LogLinear

from .oracles import DOMAINS, Example, Part

Generator = np.random.Generator
CELLS = np.stack([axis.reshape(-1) for axis in np.indices((3, 2))], axis=1)


def positive(generator: Generator, *shape: int) -> np.ndarray:
    """Weights between a quarter and three."""
    return np.exp(generator.uniform(np.log(0.25), np.log(3.0), shape))


def cells(names: str, weights: np.ndarray) -> tuple[Part, ...]:
    """The oracle of a table: its weight at a cell."""
    return (Part(tuple(names), lambda p: weights[tuple(p[name] for name in names)]),)


def table(generator: Generator) -> Example:
    weights = positive(generator, 3, 2)
    return Example({"w": weights}, lambda p: fb.Table(p["w"], ("a", "b")), cells("ab", weights), fb.Table)


def log_table(generator: Generator) -> Example:
    weights = positive(generator, 3)
    return Example({"logs": np.log(weights)}, _from_logs, cells("a", weights), fb.Table)


def _from_logs(p: dict) -> fb.Table:
    return fb.Table.from_log(p["logs"], ("a",))


def diagram(generator: Generator) -> Example:
    """Few different weights, so that it has few nodes."""
    weights = generator.choice(positive(generator, 2), (3, 2))
    return Example({"w": weights}, lambda p: Diagram(p["w"], ("a", "b")), cells("ab", weights), Diagram)


def sparse(generator: Generator) -> Example:
    weights = positive(generator, 6)
    domains = {name: DOMAINS[name] for name in "ab"}
    return Example({"w": weights}, lambda p: Sparse(CELLS, p["w"], domains), cells("ab", weights.reshape(3, 2)), Sparse)


def train(generator: Generator) -> Example:
    """Two cores of rank two."""
    cores = {"first": positive(generator, 1, 3, 2), "last": positive(generator, 2, 2, 1)}
    weights = np.einsum("iaj,jbk->ab", cores["first"], cores["last"])
    return Example(cores, _train, cells("ab", weights), Train)


def _train(p: dict) -> Train:
    return Train([p["first"], p["last"]], ("a", "b"), rank=3)


def log_linear(generator: Generator) -> Example:
    """A user's own representation: potentials over (a, b) and over (b, c)."""
    thetas = {"ab": generator.normal(size=(3, 2)), "bc": generator.normal(size=(2, 2))}
    weights = np.exp(thetas["ab"][:, :, None] + thetas["bc"][None])
    return Example(thetas, _log_linear, cells("abc", weights), LogLinear)


def _log_linear(p: dict) -> LogLinear:
    return LogLinear(*(fb.Array(theta, tuple(names)) for names, theta in p.items()))


def circuit(generator: Generator) -> Example:
    """Positive everywhere, its weights different for each a."""
    weights = positive(generator, 3, 2, 2)
    return Example({"w": weights}, _circuit, cells("abc", weights), Circuit)


def _circuit(p: dict) -> fb.Factor:
    return fb.circuits.unconstrained(("b", "c")).multiply(fb.Table(p["w"], ("a", "b", "c")))


def constrained_circuit(generator: Generator) -> Example:
    """Zero where b = c."""
    pair = {"b": positive(generator, 2), "c": positive(generator, 2)}
    weights = np.outer(pair["b"], pair["c"]) * (1.0 - np.eye(2))
    return Example(pair, _constrained_circuit, cells("bc", weights), Circuit)


def _constrained_circuit(p: dict) -> fb.Factor:
    return fb.circuits.parity(("b", "c"), is_odd=True).multiply(fb.Table(p["b"], ("b",)), fb.Table(p["c"], ("c",)))


def discrete_delta(generator: Generator) -> Example:
    at = int(generator.integers(3))
    return Example({}, lambda p: fb.Delta(a=fb.Array(at, (), fb.Bint[3])), cells("a", np.eye(3)[at]), fb.Delta)


def categorical_density(generator: Generator) -> Example:
    probs = generator.dirichlet(np.full(3, 4.0), size=2)
    return Example({"probs": probs}, _categorical, cells("ba", probs), fb.Factor)


def _categorical(p: dict) -> Any:
    return fb.dist.Categorical(probs=fb.Array(p["probs"], ("b",)))("a")


def unit_of_an_integer(generator: Generator) -> Example:
    means = generator.normal(size=3)
    return Example(
        {}, lambda p: fb.dist.Normal(fb.Array(means, ("a",)), 1.0)("x").sum("x"), cells("a", np.ones(3)), fb.Factor
    )
