"""Instances with much data, many names, or long expressions, whose printed forms are still short."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

import fubini as fb
from fubini import dist
from fubini import measures as m
from fubini.models.assignments import Assignment
from fubini.models.container import struct
from fubini.models.joint import DensityParts, SampledDistributions, Weighted
from fubini.questions.compare import Comparison
from fubini.questions.draws import Draws
from fubini.questions.fit import Fitted
from fubini.questions.simulated_ranks import Calibration
from fubini.report.document import Report

LARGE: dict[str, Callable[[], Any]] = {}
MANY = 1000
LONG = fb.Bint.labelled(*(f"a rather long label of the value number {k}" for k in range(MANY)))


def large(make: Callable[[], Any]) -> Callable[[], Any]:
    """Register the maker of a large instance."""
    LARGE[make.__name__] = cache(make)
    return LARGE[make.__name__]


@large
def numbers() -> Any:
    return fb.Array(np.linspace(0.0, 1.0, 10**7).reshape(10, 1000, 1000), ("i", "j"))


@large
def labels() -> Any:
    return LONG


@large
def expression() -> Any:
    value = fb.Variable("x", fb.Real)
    for _ in range(60):  # a tree of 2⁶⁰ terms
        value = value * value + 1.0
    return value


@large
def deep_expression() -> Any:
    value = fb.Variable("x", fb.Real)
    for k in range(150):
        value = fb.ops.sin(value) + float(k)
    return value


@large
def table() -> Any:
    return fb.Table(np.ones((3000, 2, 1500)), ("a", "b", "c"))


@large
def labelled_table() -> Any:
    return fb.Table(np.ones((MANY, MANY)) / MANY, {"row": LONG, "column": LONG})


@large
def table_of_many() -> Any:
    return fb.Table(np.ones((2,) * 20), tuple(f"variable{k}" for k in range(20)))


@large
def product() -> Any:
    pairs = [(f"variable{k}", f"variable{k + 1}") for k in range(MANY)]
    return fb.Table(np.ones((2, 2)), pairs[0]) * fb.Table(np.ones((2, 2)), pairs[1]) * _chained(pairs[2:])


def _chained(pairs: list[tuple[str, str]]) -> Any:
    factor = fb.Table(1.0)
    for pair in pairs:
        factor = factor * fb.Table(np.ones((2, 2)), pair)
    return factor


@large
def explained_product() -> Any:
    return fb.explain(_chained([(f"v{k}", f"v{k + 1}") for k in range(60)]), sum=[f"v{k}" for k in range(60)])


@large
def gaussian() -> Any:
    return fb.Gaussian(mean=np.zeros(1500), covariance=np.eye(1500), inputs={"x": fb.Reals[1500]})


@large
def density() -> Any:
    return dist.Normal(np.linspace(0.0, 1.0, 10**6), 1.0)("x")


@large
def mixture() -> Any:
    component = dist.Normal(fb.Array(np.arange(300.0), ("k",)), 1.0)
    return (fb.Table(np.ones(300) / 300, ("k",)) * component("x")).sum("k")


@large
def delta() -> Any:
    return fb.Delta({f"x{k}": float(k) for k in range(200)})


@large
def circuit() -> Any:
    return fb.circuits.exactly_one(tuple(f"variable{k}" for k in range(200)))


@large
def joint() -> Any:
    return fb.JointNamed({f"site{k}": dist.Normal(np.zeros(k + 1), 1.0) for k in range(60)})


@large
def posterior() -> Any:
    model = fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0).expand([10**6])))
    return model.condition(x=np.linspace(0.0, 1.0, 10**6))


@large
def posterior_of_many() -> Any:
    return joint().condition(**{f"site{k}": np.zeros(k + 1) for k in range(30)})


@large
def explained_joint() -> Any:
    return fb.JointNamed({f"m{k}": dist.Normal(0.0, 1.0) for k in range(30)}).condition(m0=0.5).explain()


@large
def network() -> Any:
    names = [f"variable{k}" for k in range(MANY)]
    tables = [fb.Table(np.ones((2, 2)) / 2, (a, b)) for a, b in pairwise(names)]
    factors = (fb.Table([0.5, 0.5], (names[0],)), *tables)
    return fb.Network(dict.fromkeys(names, fb.Bint[2]), factors, children=tuple(names)).condition(
        dict.fromkeys(names[500:], 0)
    )


@large
def network_cases() -> Any:
    return network().condition_many({f"variable{k}": np.zeros(MANY, int) for k in range(400)})


@large
def marginals() -> Any:
    names = [f"v{k}" for k in range(100)]
    return fb.propagate(_chained(list(pairwise(names))), names).marginals


@large
def draws() -> Any:
    generator = np.random.default_rng(0)
    return Draws({f"site{k}": generator.normal(size=(2, 20, 500)) for k in range(40)})


@large
def comparison() -> Any:
    return Comparison({f"model{k}": -float(k) for k in range(200)})


@large
def calibration() -> Any:
    return Calibration({f"site{k}": np.arange(40) % 20 for k in range(60)}, 19, {"exact": 40})


@large
def rank_tests() -> Any:
    return calibration().tests["site0"]


@large
def values_of_sites() -> Any:
    return struct(tuple(f"site{k}" for k in range(100)))(*(np.zeros((10, 10, k + 1)) for k in range(100)))


@large
def weighted() -> Any:
    return Weighted(values_of_sites(), np.zeros(10**6))


@large
def density_parts() -> Any:
    return DensityParts({f"site{k}": np.zeros(1000) for k in range(50)}, {})


@large
def computed() -> Any:
    return fb.deterministic(np.zeros((1000, 1000)))


@large
def measure() -> Any:
    @m.measure
    def program():
        values = []
        for _ in range(60):
            values.append((yield m.Normal(0, 1)))
        return tuple(values)

    return program()


@large
def measures_together() -> Any:
    return m.superpose(*((1.0, m.Normal(k, 1)) for k in range(100)))


@large
def chain() -> Any:
    step = fb.Table([[0.9, 0.1], [0.3, 0.7]], ("x", "y"))
    seen = fb.Table(np.ones((10**5, 2)), ("t", "y"))
    return fb.Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step * seen, time="t", step={"x": "y"})


@large
def chosen_labels() -> Any:
    return fb.Delta(x=fb.Array(5, (), LONG))


@large
def named() -> Any:
    return dist.Normal(np.zeros(10**6), 1.0).named("x")


@large
def distribution() -> Any:
    return dist.Normal(np.zeros(10**6), 1.0)


@large
def parameter() -> Any:
    return fb.param(np.ones(10**6))


@large
def noise() -> Any:
    return fb.WhiteNoise(np.ones(10**6))


@large
def variable() -> Any:
    return fb.Variable("name" * MANY, fb.Real)


@large
def report() -> Any:
    return Report("A rather long title. " * MANY, "x" * 10**6)


@large
def sequential() -> Any:
    return fb.JointSequential([dist.Normal(0.0, 1.0)] * 60)


@large
def graph() -> Any:
    return sequential().graph()


@large
def eliminated_model() -> Any:
    return _regression(MANY).eliminate()


@large
def explained_integral() -> Any:
    return _regression(MANY).explain().integrals[0]


@large
def simplified() -> Any:
    return fb.simplify(_regression(MANY))


@large
def piecewise() -> Any:
    boxes = [({"x": (float(k), float(k + 1))}, dist.Normal(float(k), 1.0)("x")) for k in range(200)]
    return fb.Piecewise(boxes)


@large
def joint_mixture() -> Any:
    parts = [fb.JointNamed(dict(x=dist.Normal(float(k), 1.0))) for k in range(100)]
    return fb.JointMixture(np.ones(100) / 100, parts)


@large
def coroutine() -> Any:
    @fb.model
    def many():
        for _ in range(60):
            yield dist.Normal(0.0, 1.0)

    return many()


@large
def sampled_distributions() -> Any:
    names = [f"site{k}" for k in range(100)]
    return SampledDistributions(
        {name: dist.Normal(np.zeros(1000), 1.0) for name in names}, {name: np.zeros(1000) for name in names}
    )


@large
def propagation() -> Any:
    names = [f"v{k}" for k in range(100)]
    return fb.propagate(_chained(list(pairwise(names))), names)


@large
def fitted() -> Any:
    model = fb.JointNamed(dict(x=dist.Normal(fb.param(np.zeros(MANY)), 1.0)))
    return Fitted(model.condition(x=np.zeros(MANY)), np.linspace(-1e4, -1e3, 10**5))


@large
def assignment() -> Any:
    return Assignment({f"v{k}": "present" for k in range(1_000)}, -400.0)


@large
def stream() -> Any:
    return fb.Stream(np.zeros(MANY), rows=MANY)


@large
def smoothed() -> Any:
    return chain().smooth()


@large
def measured_array() -> Any:
    return m.array(MANY, lambda i: sum((m.symbol(f"t{k}", MANY)[i] for k in range(100)), start=m.symbol("a")))


@large
def measured_number() -> Any:
    return sum((m.symbol(f"a{k}") for k in range(100)), start=m.symbol("a"))


def _regression(count: int) -> Any:
    sites = {"slope": dist.Normal(0.0, 1.0), "y": lambda slope: dist.Normal(slope * np.arange(float(count)), 1.0)}
    return fb.JointNamed(sites).condition(y=np.zeros(count))
