"""Instances of measures, models, and of what questions about them return."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist
from fubini import measures as m
from fubini.models.assignments import Assignment
from fubini.models.container import struct
from fubini.models.joint import DensityParts, SampledDistributions, Weighted
from fubini.questions.draws import Draws
from fubini.questions.fit import Fitted
from fubini.questions.posterior_summary import summarise
from fubini.questions.simulated_ranks import Calibration
from tests.printing.register import LAWN, WEATHER, instance
from tests.report.examples import SIGMA, groups_post, schools, schools_post

# -- measures --------------------------------------------------------------------------------------------------------


@instance
def measure() -> Any:
    return m.Normal(0, 1)


@instance
def measures_together() -> Any:
    return m.superpose((0.25, m.Normal(0, 1)), (0.75, m.Gamma(2, 3)))


@instance
def measured_number() -> Any:
    return m.symbol("a") + 2


@instance
def measured_array() -> Any:
    return m.array(3, lambda i: m.symbol("t", 3)[i] + 1)


@instance
def measure_simplified() -> Any:
    @m.measure
    def twice(mu):
        x = yield m.Normal(mu, 1)
        y = yield m.Normal(x, 1)
        z = yield m.Normal(x, 1)
        return y, z

    return fb.simplify(twice(m.symbol("mu")))


@instance
def simplified_mixture() -> Any:
    return fb.simplify(groups_post())


@instance
def simplified_together() -> Any:
    return fb.simplify(
        fb.JointNamed(dict(v=dist.InverseGamma(3.0, 2.0), w=regressed, y=observed)).condition(y=np.ones(4))
    )


def regressed(v):
    return dist.Normal(0.0, jnp.sqrt(v)).expand([2])


def observed(w, v):
    return dist.Normal(jnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.0]]) @ w, jnp.sqrt(v))


@instance
def simplified() -> Any:
    return fb.simplify(coin(4).condition(x=np.array([1, 1, 0, 1])))


@fb.model
def coin(n):
    p = yield dist.Beta(2.0, 3.0)
    x = yield dist.Bernoulli(p).expand([n])


# -- models ----------------------------------------------------------------------------------------------------------


@instance
def coroutine() -> Any:
    return schools(SIGMA)


@instance
def conditioned() -> Any:
    return schools_post()


@instance
def joint_named() -> Any:
    return fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0)))


@instance
def joint_sequential() -> Any:
    return fb.JointSequential([dist.Normal(0.0, 1.0), lambda m: dist.Normal(m, 1.0)])


@instance
def joint_mixture() -> Any:
    return fb.JointMixture([0.25, 0.75], [fb.JointNamed(dict(x=dist.Normal(loc, 1.0))) for loc in (-1.0, 1.0)])


@instance
def joint() -> Any:
    return joint_named()[None]


@instance
def network() -> Any:
    lawn = fb.Table([[0.9, 0.1], [0.2, 0.8]], {"weather": WEATHER, "lawn": LAWN})
    prior = fb.Table([0.7, 0.3], {"weather": WEATHER})
    return fb.Network({"weather": WEATHER, "lawn": LAWN}, (prior, lawn), name="garden", children=("weather", "lawn"))


@instance
def network_observed() -> Any:
    return network().condition(lawn="green")


@instance
def network_cases() -> Any:
    return network().condition_many({"lawn": ["green", "brown", None]})


@instance
def bijector() -> Any:
    return schools(SIGMA).bijector()


@instance
def graph() -> Any:
    return schools(SIGMA).graph()


@instance
def report() -> Any:
    return fb.report(joint_named().condition(x=0.5), title="A normal mean")


@instance
def eliminated_model() -> Any:
    return schools_post().eliminate("theta")


@instance
def label_sampler() -> Any:
    return groups_post().eliminate("weights", "mean").gibbs("z", engine="python")


@instance
def draws() -> Any:
    return Draws(z=np.random.default_rng(0).integers(0, 3, (2, 60, 12)))


@instance
def summary() -> Any:
    return summarise({"x": np.random.default_rng(0).normal(size=(2, 100, 2))})


@instance
def fitted() -> Any:
    model = fb.JointNamed(dict(x=dist.Normal(fb.param(2.0), fb.param(0.75, fb.Positive)).expand([3])))
    return Fitted(model.condition(x=np.array([1.0, 2.0, 3.0])), np.array([-9.75, -6.0, -5.5]))


@instance
def comparison() -> Any:
    wide = fb.JointNamed(dict(m=dist.Normal(0.0, 3.0), x=lambda m: dist.Normal(m, 1.0)))
    return fb.compare(narrow=joint_named().condition(x=3.0), wide=wide.condition(x=3.0))


@instance
def calibration() -> Any:
    ranks = {"m": np.arange(40) % 20, "w": np.zeros((40, 3), int)}
    return Calibration(ranks, 19, {"grid": 30, "nuts": 10}, ("few effective draws: 12 of 19, of 'w'",))


@instance
def rank_tests() -> Any:
    return calibration().tests["w"]


@instance
def limits() -> Any:
    return fb.io.Limits(variables=10)


@instance
def assignment() -> Any:
    return Assignment({"rain": "wet", "grass": "lush"}, float(np.log(0.25)))


@instance
def stream() -> Any:
    return fb.Stream(np.zeros((1_000, 3)), rows=1_000)


@instance
def processes() -> Any:
    return fb.Processes(0, 2)


@instance
def linearized() -> Any:
    return fb.linearize(iterations=3)


@instance
def named() -> Any:
    return dist.Normal(0.0, 1.0).named("x")


@instance
def computed() -> Any:
    return fb.deterministic(np.linspace(0.0, 1.0, 100))


@instance
def values_of_sites() -> Any:
    return struct(("mu", "theta"))(np.array(0.5), np.linspace(-10.0, 10.0, 8))


@instance
def weighted() -> Any:
    return Weighted(values_of_sites(), np.array(-3.5))


@instance
def density_parts() -> Any:
    return DensityParts({"x": np.array(-1.5)}, {"m": np.array(-0.5)})


@instance
def sampled_distributions() -> Any:
    return SampledDistributions({"m": dist.Normal(0.0, 1.0)}, {"m": np.array(0.5)})


@instance
def picture() -> Any:
    return fb.JointNamed(dict(m=dist.Normal(0.0, 1.0), x=lambda m: dist.Normal(m, 1.0))).condition(x=0.5).plot()
