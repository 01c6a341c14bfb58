"""An instance of every public class, by name: those of the reference, and those that questions return."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np

import fubini as fb
from fubini import dist
from fubini import measures as m
from fubini.factors.sparse import Sparse
from fubini.questions.draws import Draws
from fubini.questions.posterior_summary import summarise
from tests.report.examples import SIGMA, groups_post, schools, schools_post

INSTANCES: dict[str, Callable[[], Any]] = {}

KEY = jax.random.key(0)
WEATHER, LAWN = fb.Bint.labelled("dry", "wet"), fb.Bint.labelled("brown", "green")


def instance(name: str) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register the maker of the instance that shows a class; a word after a dot tells instances of one class apart."""

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        assert name not in INSTANCES, name
        INSTANCES[name] = cache(make)
        return INSTANCES[name]

    return register


# -- values and domains ----------------------------------------------------------------------------------------------


@instance("fubini.Variable")
def variable() -> Any:
    return fb.Variable("x", fb.Reals[2])


@instance("fubini.Value")
def value() -> Any:
    x, i = fb.Variable("x", fb.Reals[3]), fb.Variable("i", fb.Bint[3])
    return fb.ops.exp(-0.5 * x[i] ** 2) + fb.Array(np.array([0.25, 1.5, 3.0]), ("i",))


@instance("fubini.Array")
def array() -> Any:
    return fb.Array(np.arange(6.0).reshape(2, 3) / 7, ("row",))


@instance("fubini.Array.number")
def number() -> Any:
    return fb.Table([0.2, 0.8], ("a",)).mean("a")


@instance("fubini.Domain")
def domain() -> Any:
    return WEATHER


@instance("fubini.models.param.Param")
def parameter() -> Any:
    return fb.param(1.5, fb.Positive)


# -- distributions and factors ---------------------------------------------------------------------------------------


@instance("fubini.distributions.Distribution")
def distribution() -> Any:
    return dist.Normal(np.array([0.5, -1.0]), 0.71)


@instance("fubini.distributions.Family")
def family() -> Any:
    return dist.family("Gamma")


@instance("fubini.distributions.Density")
def density() -> Any:
    return dist.Normal(np.array([0.5, -1.0]), 0.71)("x")


@instance("fubini.distributions.Density.gamma")
def gamma() -> Any:
    return dist.Gamma(2.0, 3.0)("rate")


@instance("fubini.distributions.Density.open")
def open_density() -> Any:
    return dist.Normal(fb.Variable("m", fb.Real), 1.0)("x")


@instance("fubini.Factor")
def factor() -> Any:
    return dist.Normal(0.0, 1.0)("m") * dist.Normal(fb.Variable("m", fb.Real), 1.0)("x")


@instance("fubini.Factor.recorded")
def recorded() -> Any:
    with fb.lazy:
        return (table() * fb.Table([0.5, 1.0], {"lawn": LAWN})).sum("lawn")


@instance("fubini.Table")
def table() -> Any:
    return fb.Table([[0.6, 0.1], [0.1, 0.2]], {"weather": WEATHER, "lawn": LAWN})


@instance("fubini.Gaussian")
def gaussian() -> Any:
    return dist.MultivariateNormal(np.array([1.0, 2.0]), np.diag([4.0, 9.0]))("x")._joined()


@instance("fubini.Delta")
def delta() -> Any:
    return fb.Delta({"x": np.array([0.5, 1.5]), "weather": fb.Array(1, (), WEATHER)})


@instance("fubini.Mixture")
def mixture() -> Any:
    component = dist.Normal(fb.Array(np.array([-1.0, 3.0]), ("k",)), 1.0)
    return (fb.Table([0.25, 0.75], ("k",)) * component("x")).sum("k")


@instance("fubini.Piecewise")
def piecewise() -> Any:
    return (dist.Uniform(0.0, 1.0)("x") * dist.Uniform(0.5, 2.0)("x"))._joined()


@instance("fubini.factors.sparse.Sparse")
def sparse() -> Any:
    return Sparse.from_table(fb.Table(np.eye(4), ("a", "b")))


@instance("fubini.circuits.Circuit")
def circuit() -> Any:
    return fb.circuits.exactly_one(("a", "b", "c"))


@instance("fubini.Semiring")
def semiring() -> Any:
    return fb.max_product


# -- how questions are answered --------------------------------------------------------------------------------------


@instance("fubini.Interpretation")
def interpretation() -> Any:
    return fb.exact


@instance("fubini.Interpretation.monte_carlo")
def estimating() -> Any:
    return fb.monte_carlo(KEY, 100)


@instance("fubini.RuleSet")
def rules() -> Any:
    return fb.RuleSet("exact.sum", head=fb.heads.SUM)


@instance("fubini.ops.Op")
def operation() -> Any:
    return fb.ops.exp


@instance("fubini.WhiteNoise")
def noise() -> Any:
    return fb.WhiteNoise(np.array([[0.5, -1.0], [0.25, 2.0]]))


@instance("fubini.Division")
def division() -> Any:
    return fb.Division("damp")


@instance("fubini.Propagation")
def propagation() -> Any:
    return fb.propagate(table(), ("weather", "lawn"))


@instance("fubini.propagate.result.Marginals")
def marginals() -> Any:
    return propagation().marginals


@instance("fubini.eliminate.explanation.Explanation.factors")
def factors_explained() -> Any:
    return fb.explain([table(), fb.Table([0.5, 1.0], {"lawn": LAWN})], sum=("weather", "lawn"))


@instance("fubini.eliminate.explanation.Explanation")
def model_explained() -> Any:
    return schools_post().explain()


@instance("fubini.terms.exactness.Exactness")
def exactness() -> Any:
    return table().exactness


for name, kind in vars(fb.rep).items():
    if isinstance(kind, type):
        pass


# -- sequences -------------------------------------------------------------------------------------------------------


@instance("fubini.Chain")
def chain() -> Any:
    step = fb.Table([[0.9, 0.1], [0.3, 0.7]], ("x", "y"))
    seen = fb.Table(np.random.default_rng(0).random((5, 2)), ("t", "y"))
    return fb.Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step * seen, time="t", step={"x": "y"})


@instance("fubini.sequence.counted.Smoothed")
def smoothed() -> Any:
    return chain().smooth()


# -- measures --------------------------------------------------------------------------------------------------------


@instance("fubini.measures.Measure")
def measure() -> Any:
    return m.Normal(0, 1)


@instance("fubini.questions.simplify.SimplifiedProgram")
def simplified() -> Any:
    return fb.simplify(coin(4).condition(x=np.array([1, 1, 0, 1])))


@fb.model
def coin(n):
    p = yield dist.Beta(2.0, 3.0)
    x = yield dist.Bernoulli(p).expand([n])


# -- models ----------------------------------------------------------------------------------------------------------


@instance("fubini.JointCoroutine")
def coroutine() -> Any:
    return schools(SIGMA)


@instance("fubini.models.joint.Conditioned")
def conditioned() -> Any:
    return schools_post()


@instance("fubini.JointNamed")
def joint_named() -> Any:
    return fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0)))


@instance("fubini.JointSequential")
def joint_sequential() -> Any:
    return fb.JointSequential([dist.Normal(0.0, 1.0), lambda m: dist.Normal(m, 1.0)])


@instance("fubini.JointMixture")
def joint_mixture() -> Any:
    return fb.JointMixture([0.25, 0.75], [fb.JointNamed(dict(x=dist.Normal(loc, 1.0))) for loc in (-1.0, 1.0)])


@instance("fubini.Joint")
def joint() -> Any:
    return joint_named()[None]


@instance("fubini.Network")
def network() -> Any:
    lawn = fb.Table([[0.9, 0.1], [0.2, 0.8]], {"weather": WEATHER, "lawn": LAWN})
    prior = fb.Table([0.7, 0.3], {"weather": WEATHER})
    return fb.Network({"weather": WEATHER, "lawn": LAWN}, (prior, lawn), name="garden", children=("weather", "lawn"))


@instance("fubini.Network.observed")
def network_observed() -> Any:
    return network().condition(lawn="green")


@instance("fubini.models.bijector.Bijector")
def bijector() -> Any:
    return schools(SIGMA).bijector()


@instance("fubini.models.site_graph.Graph")
def graph() -> Any:
    return schools(SIGMA).graph()


@instance("fubini.report.document.Report")
def report() -> Any:
    return fb.report(joint_named().condition(x=0.5), title="A normal mean")


@instance("fubini.models.eliminated_model.EliminatedModel")
def eliminated_model() -> Any:
    return schools_post().eliminate("theta")


@instance("fubini.questions.label_sampler.LabelSampler")
def label_sampler() -> Any:
    return groups_post().eliminate("weights", "mean").gibbs("z", engine="python")


@instance("fubini.questions.draws.Draws")
def draws() -> Any:
    return Draws(z=np.random.default_rng(0).integers(0, 3, (2, 60, 12)))


@instance("fubini.questions.posterior_summary.PosteriorSummary")
def summary() -> Any:
    return summarise({"x": np.random.default_rng(0).normal(size=(2, 100, 2))})


@instance("fubini.questions.fit.Fitted")
def fitted() -> Any:
    model = fb.JointNamed(dict(x=dist.Normal(fb.param(0.0), fb.param(1.0, fb.Positive)).expand([3])))
    return fb.fit(model.condition(x=np.array([1.0, 2.0, 3.0])), steps=20, progress=False)


@instance("fubini.questions.compare.Comparison")
def comparison() -> Any:
    wide = fb.JointNamed(dict(m=dist.Normal(0.0, 3.0), x=lambda m: dist.Normal(m, 1.0)))
    return fb.compare(narrow=joint_named().condition(x=3.0), wide=wide.condition(x=3.0))


@instance("fubini.io.Limits")
def limits() -> Any:
    return fb.io.Limits(variables=10)


@instance("fubini.models.container.Struct")
def struct() -> Any:
    return schools(SIGMA).sample(KEY)


@instance("fubini.models.joint.Weighted")
def weighted() -> Any:
    return schools_post().sample_and_log_weight(KEY, 4)


@instance("fubini.models.joint.DensityParts")
def parts() -> Any:
    return joint_named().condition(x=1.0).log_prob_parts(m=0.0)


@instance("fubini.models.joint.SampledDistributions")
def sampled_distributions() -> Any:
    return joint_named().sample_distributions(KEY)
