"""Models with draws made up for them: a report is made of them without a sampler having run."""

from functools import cache

import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist
from fubini.questions.draws import arviz_data
from fubini.questions.fit import Fitted

SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
HOSTILE = "<script>alert(1)</script>"


@fb.model
def schools(sigma):
    mu = yield dist.Normal(0.0, 5.0)
    tau = yield dist.HalfCauchy(5.0)
    theta = yield dist.Normal(mu, tau).expand([8])
    y = yield dist.Normal(theta, sigma)


@fb.model
def groups(n):
    weights = yield dist.Dirichlet(jnp.ones(3))
    mean = yield dist.Normal(0.0, 14.0).expand([3])
    z = yield dist.Categorical(weights).expand([n])
    s = yield dist.Normal(mean[z], 1.0)


@cache
def schools_post():
    return schools(SIGMA).condition(y=Y)


@cache
def groups_post():
    return groups(12).condition(s=np.linspace(-6.0, 6.0, 12))


def data(posterior, method="nuts", eliminated=(), dims=None, coords=None, **others):
    """ArviZ data of arrays [chain, draw, …]."""
    return arviz_data({"posterior": posterior, **others}, dims, coords, method=method, eliminated=list(eliminated))


@cache
def schools_draws():
    generator = np.random.default_rng(0)
    theta = generator.normal(5.0, 4.0, (4, 250, 8))
    return data(
        {"mu": generator.normal(4.0, 3.0, (4, 250)), "tau": generator.gamma(2.0, 2.0, (4, 250)), "theta": theta},
        eliminated=("theta", "mu"),
        posterior_predictive={"y": theta + SIGMA * generator.normal(size=theta.shape)},
        observed_data={"y": Y},
        sample_stats={"diverging": np.zeros((4, 250), bool)},
    )


@cache
def schools_report():
    return fb.report(schools_post(), schools_draws(), seed=3, command="fubini infer schools.py --data y.csv")


@cache
def groups_report():
    sampler = groups_post().eliminate("weights", "mean").gibbs("z", engine="python")
    labels = np.random.default_rng(0).integers(0, 3, (2, 60, 12))
    return fb.report(groups_post(), data({"z": labels}, "gibbs"), sampler=sampler)


@cache
def closed_report():
    names = {
        "m": dist.Normal(0.0, 1.0),
        "s": dist.Bernoulli(0.3),
        "k": dist.Categorical(jnp.array([0.25, 0.75])).expand([20]),
        HOSTILE: lambda m: dist.Normal(m, 1.0),
    }
    return fb.report(fb.JointNamed(names).condition({HOSTILE: 0.5}), title=HOSTILE, command=f"run {HOSTILE}")


@cache
def network():
    """A network with what is seen, what is likely, and what is set from outside."""
    on = fb.Bint.labelled("off", "<on>")
    step = [[0.9, 0.1], [0.2, 0.8]]
    tables = {"a": [0.6, 0.4], "b": step, "c": [[0.7, 0.3], [0.4, 0.6]], "d": step}
    parents = {"a": (), "b": ("a",), "c": ("b",), "d": ("c",)}
    factors = tuple(fb.Table(np.array(tables[name]), {each: on for each in (*parents[name], name)}) for name in tables)
    net = fb.Network(dict.fromkeys(tables, on), factors, children=tuple(tables), name="relay")
    return net.do(b="<on>").condition(d="<on>", c=[0.25, 0.75])


@cache
def network_report():
    return fb.report(network())


@cache
def fitted():
    """A mean and a scale, learnt by steps that are made up."""
    latent = dist.Normal(fb.param(0.0, name="mean"), fb.param(1.0, fb.Positive, name="scale"))
    made = fb.JointNamed({"m": latent, "x": lambda m: dist.Normal(m, 1.0).expand([3])})
    model = made.condition(x=np.array([1.0, 2.0, 3.0]))
    errors = {"mean": np.array(0.25), "scale": np.array(0.125)}
    return Fitted(model, np.array([-9.0, -5.0, -4.5]), errors)


@cache
def fitted_report():
    return fb.report(fitted())
