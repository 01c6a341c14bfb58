"""Instances of values, factors, sequences, and of how questions about them are answered."""

from __future__ import annotations

from typing import Any

import numpy as np

import fubini as fb
from fubini import dist
from fubini.factors.sparse import Sparse
from tests.printing.register import KEY, LAWN, WEATHER, instance
from tests.report.examples import schools_post

# -- values and domains ----------------------------------------------------------------------------------------------


@instance
def variable() -> Any:
    return fb.Variable("x", fb.Reals[2])


@instance
def value() -> Any:
    x, i = fb.Variable("x", fb.Reals[3]), fb.Variable("i", fb.Bint[3])
    return fb.ops.exp(-0.5 * x[i] ** 2) + fb.Array(np.array([0.25, 1.5, 3.0]), ("i",))


@instance
def array() -> Any:
    return fb.Array(np.arange(6.0).reshape(2, 3) / 7, ("row",))


@instance
def number() -> Any:
    return fb.Table([0.2, 0.8], ("a",)).mean("a")


@instance
def domain() -> Any:
    return WEATHER


@instance
def parameter() -> Any:
    return fb.param(1.5, fb.Positive)


# -- distributions and factors ---------------------------------------------------------------------------------------


@instance
def distribution() -> Any:
    return dist.Normal(np.array([0.5, -1.0]), 0.71)


@instance
def family() -> Any:
    return dist.family("Gamma")


@instance
def density() -> Any:
    return dist.Normal(np.array([0.5, -1.0]), 0.71)("x")


@instance
def gamma() -> Any:
    return dist.Gamma(2.0, 3.0)("rate")


@instance
def open_density() -> Any:
    return dist.Normal(fb.Variable("m", fb.Real), 1.0)("x")


@instance
def factor() -> Any:
    return dist.Normal(0.0, 1.0)("m") * dist.Normal(fb.Variable("m", fb.Real), 1.0)("x")


@instance
def recorded() -> Any:
    with fb.lazy:
        return (table() * fb.Table([0.5, 1.0], {"lawn": LAWN})).sum("lawn")


@instance
def table() -> Any:
    return fb.Table([[0.6, 0.1], [0.1, 0.2]], {"weather": WEATHER, "lawn": LAWN})


@instance
def gaussian() -> Any:
    return dist.MultivariateNormal(np.array([1.0, 2.0]), np.diag([4.0, 9.0]))("x")._joined()


@instance
def delta() -> Any:
    return fb.Delta({"x": np.array([0.5, 1.5]), "weather": fb.Array(1, (), WEATHER)})


@instance
def mixture() -> Any:
    component = dist.Normal(fb.Array(np.array([-1.0, 3.0]), ("k",)), 1.0)
    return (fb.Table([0.25, 0.75], ("k",)) * component("x")).sum("k")


@instance
def piecewise() -> Any:
    return fb.Piecewise([({"x": (0.0, np.inf)}, dist.Normal(0.0, 1.0)("x"))])


@instance
def train() -> Any:
    return fb.rep.Train(4).convert(fb.Table(np.arange(1.0, 9.0).reshape(2, 2, 2), ("a", "b", "c")), ("a", "b", "c"))


@instance
def diagram() -> Any:
    return fb.rep.Diagram().convert(fb.Table(np.eye(4), ("a", "b")), ("a", "b"))


@instance
def sparse() -> Any:
    return Sparse.from_table(fb.Table(np.eye(4), ("a", "b")))


@instance
def circuit() -> Any:
    return fb.circuits.exactly_one(("a", "b", "c"))


@instance
def semiring() -> Any:
    return fb.max_product


# -- how questions are answered --------------------------------------------------------------------------------------


@instance
def interpretation() -> Any:
    return fb.exact


@instance
def estimating() -> Any:
    return fb.monte_carlo(KEY, 100)


@instance
def rule() -> Any:
    return next(iter(rules()))


@instance
def rules() -> Any:
    double = fb.RuleSet("double", head="double")
    for kind in (int, float, complex, str, bytes, list, tuple):

        def rule(number: kind) -> kind:  # type: ignore[valid-type]
            return number + number

        rule.__name__, rule.__annotations__ = f"double_{kind.__name__}", {"number": kind}
        double.rule(rule)
    return double


@instance
def moment_matching() -> Any:
    return fb.moment_matching(window=2)


@instance
def representing() -> Any:
    return fb.represent(x=fb.rep.Grid((-8, 8), 161))


@instance
def dense() -> Any:
    return fb.rep.Dense()


@instance
def stored_sparse() -> Any:
    return fb.rep.Sparse()


@instance
def stored_diagram() -> Any:
    return fb.rep.Diagram()


@instance
def stored_train() -> Any:
    return fb.rep.Train(8)


@instance
def truncated() -> Any:
    return fb.rep.Truncated()


@instance
def stored_mixture() -> Any:
    return fb.rep.Mixture(8)


@instance
def particles() -> Any:
    return fb.rep.Particles(1000, KEY)


@instance
def stored_grid() -> Any:
    return fb.rep.Grid((-8, 8), 161)


@instance
def stored_circuit() -> Any:
    return fb.rep.Circuit((("a", "b"), "c"))


@instance
def bound_name() -> Any:
    return mixture().bounds[0]


@instance
def error() -> Any:
    try:
        table()(wether=0)
    except fb.FubiniError as refused:
        return refused


@instance
def operation() -> Any:
    return fb.ops.exp


@instance
def noise() -> Any:
    return fb.WhiteNoise(np.array([[0.5, -1.0], [0.25, 2.0]]))


@instance
def division() -> Any:
    return fb.Division("damp")


@instance
def propagation() -> Any:
    return fb.propagate(table(), ("weather", "lawn"))


@instance
def marginals() -> Any:
    return propagation().marginals


@instance
def factors_explained() -> Any:
    return fb.explain([table(), fb.Table([0.5, 1.0], {"lawn": LAWN})], sum=("weather", "lawn"))


@instance
def model_explained() -> Any:
    return schools_post().explain()


@instance
def explained_integral() -> Any:
    return model_explained().integrals[0]


@instance
def quotient() -> Any:
    return division().divide(fb.Table([0.25, 0.5], ("a",)), fb.Table([0.5, 0.5], ("a",)))


@instance
def exactness() -> Any:
    return table().exactness


# -- sequences -------------------------------------------------------------------------------------------------------


@instance
def chain() -> Any:
    step = fb.Table([[0.9, 0.1], [0.3, 0.7]], ("x", "y"))
    seen = fb.Table(np.random.default_rng(0).random((5, 2)), ("t", "y"))
    return fb.Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step * seen, time="t", step={"x": "y"})


@instance
def smoothed() -> Any:
    return chain().smooth()
