"""Every representation: how to make a random instance of it, one instance to test with, and its oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

import fubini as fb

from . import finite_examples as finite
from . import real_examples as real
from .oracles import DOMAINS, Example, Part, Point

MAKERS: dict[str, Callable[[np.random.Generator], Example]] = {
    "table": finite.table,
    "log table": finite.log_table,
    "diagram": finite.diagram,
    "sparse": finite.sparse,
    "train": finite.train,
    "log linear": finite.log_linear,
    "circuit": finite.circuit,
    "constrained circuit": finite.constrained_circuit,
    "gaussian": real.gaussian,
    "rank-deficient gaussian": real.rank_deficient_gaussian,
    "batched gaussian": real.batched_gaussian,
    "array gaussian": real.array_gaussian,
    "discrete delta": finite.discrete_delta,
    "real delta": real.real_delta,
    "delta at a discrete name": real.delta_at_an_integer,
    "delta at a real name": real.delta_at_a_real,
    "atoms": real.atoms,
    "pieces": real.pieces,
    "half-lines": real.half_lines,
    "truncated gaussian": real.truncated_gaussian,
    "mixture over a bound index": real.mixture,
    "sum of gaussians": real.sum_of_gaussians,
    "gaussian plus delta": real.gaussian_plus_delta,
    "normal density": real.normal_density,
    "multivariate normal density": real.multivariate_normal_density,
    "gamma density": real.gamma_density,
    "categorical density": finite.categorical_density,
    "poisson density": real.poisson_density,
    "quadratic weight": real.quadratic_weight,
    "quartic weight": real.quartic_weight,
    "unit of a discrete name": finite.unit_of_an_integer,
    "unit of a real name": real.unit_of_a_real,
    "steps": real.steps_of_a_real,
    "box": real.box,
}
EXAMPLES = {key: make(np.random.default_rng(seed)) for seed, (key, make) in enumerate(MAKERS.items())}


POINT_MASSES = {key for key, example in EXAMPLES.items() if example.pins and not example.is_mixed}
MIXTURES = {key for key, example in EXAMPLES.items() if example.kind is fb.Mixture}
MIXED = {key for key, example in EXAMPLES.items() if example.is_mixed}  # a density and a point mass of one variable


def product(*examples: Example) -> fb.Factor:
    """The product of their factors."""
    return reduce(mul, [example.factor for example in examples], fb.Table(1.0))


def all_names(*examples: Example) -> tuple[str, ...]:
    """The names of all of them, each once."""
    return tuple(dict.fromkeys(name for example in examples for name in example.names))


def without(at: Point, name: str) -> dict[str, np.ndarray]:
    """The points of all names but one."""
    return {other: value for other, value in at.items() if other != name}


def _prior(name: str) -> Example:
    """A proper Gaussian of one variable."""
    mean = np.array([0.2, -0.1])[: 2 if name == "v" else 1]

    def weight(at: Point) -> Any:
        z = np.moveaxis(real.vector(at, name), -1, 0)
        return np.prod([real.line(m, 1.1, part) for m, part in zip(mean, z, strict=True)], axis=0)

    parameters = {"mean": mean, "precision": 1.1 * np.eye(len(mean))}
    return Example(
        parameters, lambda p: fb.Gaussian(**p, inputs=real.domains(name)), (Part((name,), weight),), fb.Gaussian
    )


PRIOR = {name: _prior(name) for name in "xyv"}


def priors(examples: Sequence[Example]) -> list[Example]:
    """A proper Gaussian for each real array of the examples, so that every sum is finite."""
    names = dict.fromkeys(name for example in examples for name in example.names)
    return [PRIOR[name] for name in names if name in PRIOR]


# -- reading the library --------------------------------------------------------------------------------------------


def read(factor: fb.Factor, at: Point) -> np.ndarray:
    """The factor at points, by putting them in."""
    given = _given(factor.inputs, at)
    return _numbers((factor(**given) if given else factor).log())


def read_log(factor: fb.Factor, at: Point) -> np.ndarray:
    """The factor at points, by putting them into its logarithm."""
    value = factor.log()
    given = _given(value.inputs, at)
    return _numbers(value(**given) if given else value)


def _given(inputs: Mapping, at: Point) -> dict[str, fb.Array]:
    return {name: fb.Array(at[name], ("point",), DOMAINS[name]) for name in inputs if name in at}


def _numbers(value: fb.Value) -> np.ndarray:
    data = fb.stack(value, "point").data if "point" in value.inputs else value.data
    return np.exp(np.asarray(data, np.float64))


def assert_at(factor: fb.Factor, expected: Any, at: Point, rtol: float = 1e-9, how: Callable = read) -> None:
    """The factor is exact, is over these names, and has these values at these points."""
    assert factor.exactness.is_exact
    assert set(factor.inputs) == set(at)
    actual, expected = np.broadcast_arrays(how(factor, at), expected)
    np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-11)


def assert_total(total: fb.Factor, expected: Any, rtol: float = 1e-9) -> None:
    """A closed factor, exact, of this value."""
    assert not total.inputs
    assert total.exactness.is_exact
    np.testing.assert_allclose(float(total), expected, rtol=rtol)
