"""Models in the manner of NumPyro's documentation, with what is expected of each as a joint."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow import cond, scan
from numpyro.distributions import constraints, transforms
from numpyro.infer.reparam import LocScaleReparam

RANDOM = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """A model at its arguments; the shapes of the sites of a sample, of which some are observed or computed."""

    model: Callable
    args: tuple
    shapes: dict[str, tuple[int, ...]]
    observed: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)

    @property
    def free(self) -> tuple[str, ...]:
        """The sites that a density is a function of."""
        return tuple(name for name in self.shapes if name not in self.observed and name not in self.computed)


CASES: dict[str, Case] = {}


def case(*args: Any, shapes: dict, observed: tuple = (), computed: tuple = (), **named: Any) -> Callable:
    """A model under its own name among the cases."""

    def add(model: Callable) -> Callable:
        CASES[model.__name__] = Case(model, args, shapes, observed, computed, named)
        return model

    return add


# -- hierarchies and plates -----------------------------------------------------------------------------------------

SIGMA = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SCHOOLS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])


@case(8, SIGMA, y=SCHOOLS, shapes={"mu": (), "tau": (), "theta": (8,), "obs": (8,)}, observed=("obs",))
def eight_schools(count, sigma, y=None):
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("schools", count):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
        numpyro.sample("obs", dist.Normal(theta, sigma), obs=y)


@case(
    *(8, SIGMA),
    y=SCHOOLS,
    shapes={"mu": (), "tau": (), "theta_decentered": (8,), "theta": (8,), "obs": (8,)},
    observed=("obs",),
    computed=("theta",),
)
def eight_schools_noncentered(count, sigma, y=None):
    with handlers.reparam(config={"theta": LocScaleReparam(0)}):
        eight_schools(count, sigma, y)


@case(
    RANDOM.normal(size=(6, 2)),
    y=RANDOM.normal(size=6),
    shapes={"intercept": (), "slopes": (2,), "noise": (), "mean": (6,), "y": (6,)},
    observed=("y",),
    computed=("mean",),
)
def linear_regression(x, y=None):
    intercept = numpyro.sample("intercept", dist.Normal(0.0, 0.2))
    slopes = numpyro.sample("slopes", dist.Normal(0.0, 0.5).expand([2]).to_event(1))
    noise = numpyro.sample("noise", dist.Exponential(1.0))
    mean = numpyro.deterministic("mean", intercept + x @ slopes)
    numpyro.sample("y", dist.Normal(mean, noise), obs=y)


@case(
    RANDOM.integers(0, 2, (4, 3)),
    shapes={"rows": (4, 1), "columns": (3,), "answer": (4, 3)},
    observed=("answer",),
)
def crossed_plates(data):
    along = numpyro.plate("along", 4, dim=-2)
    across = numpyro.plate("across", 3, dim=-1)
    with along:
        rows = numpyro.sample("rows", dist.Normal(0.0, 1.0))
    with across:
        columns = numpyro.sample("columns", dist.Normal(0.0, 1.0))
    with along, across:
        numpyro.sample("answer", dist.Bernoulli(logits=rows + columns), obs=data)


@case(
    *(np.array([0, 0, 1, 2, 2, 2]), RANDOM.normal(size=6)),
    shapes={"mu": (), "tau": (), "county": (3,), "sigma": (), "radon": (6,)},
    observed=("radon",),
)
def varying_intercepts(county, radon):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    with numpyro.plate("counties", 3):
        intercept = numpyro.sample("county", dist.Normal(mu, tau))
    sigma = numpyro.sample("sigma", dist.HalfNormal(1.0))
    with numpyro.plate("houses", len(county)) as house:
        numpyro.sample(
            "radon", dist.Normal(intercept[jnp.asarray(county)[house]], sigma), obs=jnp.asarray(radon)[house]
        )


@case(
    RANDOM.normal(size=(3, 4, 2)),
    shapes={"top": (2,), "middle": (3, 1, 2), "bottom": (3, 4, 2)},
    observed=("bottom",),
)
def nested_plates_of_vectors(data):
    top = numpyro.sample("top", dist.Normal(jnp.zeros(2), 1.0).to_event(1))
    with numpyro.plate("outer", 3, dim=-2):
        middle = numpyro.sample("middle", dist.Normal(top, 2.0).to_event(1))
        with numpyro.plate("inner", 4, dim=-1):
            numpyro.sample("bottom", dist.Normal(middle, 0.5).to_event(1), obs=data)


# -- subsampling, masks and weights ---------------------------------------------------------------------------------

X, Y = RANDOM.normal(size=(10, 2)), RANDOM.normal(size=10)


def regression_on_subsample(x, y):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("N", 10, subsample_size=4) as batch:
        numpyro.sample("y", dist.Normal(jnp.asarray(x)[batch] @ weights, 1.0), obs=jnp.asarray(y)[batch])


SEEDED = handlers.seed(regression_on_subsample, 3)  # a handler is a model too
case(X, Y, shapes={"weights": (2,), "y": (4,)}, observed=("y",))(SEEDED)


@case(X, Y, shapes={"weights": (2,), "y": (4,)}, observed=("y",))
def given_subsample(x, y):
    with handlers.substitute(data={"N": jnp.array([7, 0, 2, 5])}):
        regression_on_subsample(x, y)


@case(X, Y, shapes={"local": (4,), "y": (4,)}, observed=("y",))
def subsample_of_local_sites(x, y):
    with handlers.seed(rng_seed=1), numpyro.plate("N", 10, subsample_size=4):
        local = numpyro.sample("local", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(local, 1.0), obs=numpyro.subsample(jnp.asarray(y), event_dim=0))


@case(
    *(np.array([True, False, True, True]), np.array([0.3, np.nan, -1.0, 2.0])),
    shapes={"mu": (), "local": (4,), "y": (4,)},
    observed=("y",),
)
def masked_plate(present, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("N", 4), handlers.mask(mask=present):
        local = numpyro.sample("local", dist.Normal(mu, 1.0))
        numpyro.sample("y", dist.Normal(local, 0.5), obs=np.nan_to_num(y))


@case(
    *(np.array([True, False, True, True]), np.array([0.3, 0.0, -1.0, 2.0])),
    shapes={"mu": (), "y_observed": (4,), "y_unobserved": (4,), "y": (4,)},
    observed=("y_observed",),
    computed=("y",),
)
def masked_observation(present, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("N", 4):
        numpyro.sample("y", dist.Normal(mu, 0.5), obs=y, obs_mask=present)


@case(Y, shapes={"mu": (), "double": (), "y": (10,)}, observed=("y",), computed=("double",))
def factor_and_scale(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    double = numpyro.deterministic("double", 2.0 * mu)
    numpyro.factor("prior", -jnp.abs(double))
    with handlers.scale(scale=0.25), numpyro.plate("N", 10):
        numpyro.factor("penalty", -0.1 * (y - mu) ** 2)
        numpyro.sample("y", dist.Laplace(mu, 1.0), obs=y)


# -- discrete sites -------------------------------------------------------------------------------------------------


@case(
    RANDOM.normal(size=5),
    shapes={"weights": (3,), "locs": (3,), "scale": (), "assignment": (5,), "obs": (5,)},
    observed=("obs",),
)
def gaussian_mixture(data):
    weights = numpyro.sample("weights", dist.Dirichlet(0.5 * jnp.ones(3)))
    with numpyro.plate("components", 3):
        locs = numpyro.sample("locs", dist.Normal(0.0, 10.0))
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 2.0))
    with numpyro.plate("data", len(data)):
        which = numpyro.sample("assignment", dist.Categorical(weights), infer={"enumerate": "parallel"})
        numpyro.sample("obs", dist.Normal(locs[which], scale), obs=data)


@case(RANDOM.normal(size=5), shapes={"weight": (), "locs": (2,), "obs": (5,)}, observed=("obs",))
def marginal_mixture(data):
    weight = numpyro.sample("weight", dist.Uniform(0.0, 1.0))
    locs = numpyro.sample("locs", dist.Normal(jnp.array([-1.0, 1.0]), 1.0).to_event(1))
    which = dist.Categorical(jnp.stack([weight, 1.0 - weight]))
    with numpyro.plate("data", len(data)):
        numpyro.sample("obs", dist.MixtureSameFamily(which, dist.Normal(locs, 1.0)), obs=data)


@case(np.array([0, 3, 0, 1]), shapes={"gate": (), "rate": (), "fish": (4,)}, observed=("fish",))
def zero_inflated(fish):
    gate = numpyro.sample("gate", dist.Uniform(0.0, 1.0))
    rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
    with numpyro.plate("N", 4):
        numpyro.sample("fish", dist.ZeroInflatedPoisson(gate, rate), obs=fish)


@case(
    *(RANDOM.normal(size=5), np.array([0, 1, 3, 2, 2])),
    shapes={"slope": (), "cutpoints": (3,), "y": (5,)},
    observed=("y",),
)
def ordinal_regression(x, y):
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    steps = dist.Normal(0.0, 1.0).expand([3]).to_event(1)
    cutpoints = numpyro.sample("cutpoints", dist.TransformedDistribution(steps, transforms.OrderedTransform()))
    with numpyro.plate("N", 5):
        numpyro.sample("y", dist.OrderedLogistic(slope * x, cutpoints), obs=y)


@case(
    np.array([[3, 1, 2], [0, 4, 2]]),
    shapes={"concentration": (3,), "counts": (2, 3)},
    observed=("counts",),
)
def counts_of_categories(counts):
    concentration = numpyro.sample("concentration", dist.LogNormal(jnp.zeros(3), 1.0).to_event(1))
    with numpyro.plate("N", 2):
        numpyro.sample("counts", dist.DirichletMultinomial(concentration, 6), obs=counts)


@case(shapes={"fair": (), "side": (), "x": ()})
def branches():
    fair = numpyro.sample("fair", dist.Uniform(0.0, 1.0))
    side = numpyro.sample("side", dist.Bernoulli(fair))

    def heads(loc):
        numpyro.sample("x", dist.Normal(loc, 1.0))

    def tails(loc):
        numpyro.sample("x", dist.Normal(-loc, 2.0))

    cond(side == 1, heads, tails, 3.0)


# -- sequences ------------------------------------------------------------------------------------------------------


@case(np.arange(5.0), shapes={"x_0": (), "x": (5,), "y": (5,)}, observed=("y",))
def gaussian_hmm(y=None, length=5):
    def step(before, seen):
        x = numpyro.sample("x", dist.Normal(before, 1))
        y = numpyro.sample("y", dist.Normal(x, 1), obs=seen)
        return x, (x, y)

    start = numpyro.sample("x_0", dist.Normal(0, 1))
    return scan(step, start, y, length=length)


@case(shapes={"x_0": (), "x": (5,), "y": (5,)})
def free_gaussian_hmm():
    return gaussian_hmm(None, 5)


@case(
    np.array([[0, 1, 1], [2, 0, 2]]),
    shapes={"stay": (2,), "emission": (2, 3), "state": (3, 2), "word": (3, 2)},
    observed=("word",),
)
def discrete_hmm_in_a_plate(words):
    with numpyro.plate("states", 2):
        stay = numpyro.sample("stay", dist.Uniform(0.0, 1.0))
        emission = numpyro.sample("emission", dist.Normal(jnp.zeros(3), 1.0).to_event(1))
    transition = jnp.stack([stay, 1.0 - stay], -1)

    def step(before, word):
        with numpyro.plate("sequences", 2):
            state = numpyro.sample("state", dist.Categorical(transition[before]))
            numpyro.sample("word", dist.Categorical(logits=emission[state]), obs=word)
        return state, None

    scan(step, jnp.zeros(2, int), jnp.asarray(words).T)


@case(
    np.array([[1, 0, 1, 0], [0, 1, 0, 0], [1, 1, 1, 1]]),
    shapes={"survival": (), "capture": (), "z": (3, 3), "y": (3, 3)},
    observed=("y",),
)
def capture_and_recapture(history):
    survival = numpyro.sample("survival", dist.Uniform(0.0, 1.0))
    capture = numpyro.sample("capture", dist.Uniform(0.0, 1.0))

    def step(carry, y):
        seen, z = carry
        with numpyro.plate("animals", 3, dim=-1), handlers.mask(mask=seen):
            alive = seen * survival * z + (1 - seen)
            z = numpyro.sample("z", dist.Bernoulli(dist.util.clamp_probs(alive)))
            numpyro.sample("y", dist.Bernoulli(dist.util.clamp_probs(capture * z)), obs=y)
        return (seen | y.astype(bool), z), None

    start = jnp.asarray(history[:, 0]).astype(bool), jnp.ones(3, int)
    scan(step, start, jnp.asarray(history[:, 1:]).T)


@case(
    RANDOM.normal(size=5),
    shapes={"nu": (), "sigma": (), "s": (5,), "volatility": (5,), "r": (5,)},
    observed=("r",),
    computed=("volatility",),
)
def stochastic_volatility(returns):
    nu = numpyro.sample("nu", dist.Exponential(0.1))
    sigma = numpyro.sample("sigma", dist.Exponential(50.0))
    s = numpyro.sample("s", dist.GaussianRandomWalk(scale=sigma, num_steps=5))
    volatility = numpyro.deterministic("volatility", jnp.exp(s))
    numpyro.sample("r", dist.StudentT(df=nu, loc=0.0, scale=volatility), obs=returns)


@case(
    RANDOM.normal(size=4),
    shapes={"beta": (), "level": (4,), "forecast": (4,), "y": (4,)},
    observed=("y",),
    computed=("forecast",),
)
def autoregression(y):
    beta = numpyro.sample("beta", dist.TruncatedNormal(0.0, 1.0, low=-1.0, high=1.0))

    def step(before, seen):
        level = numpyro.sample("level", dist.Normal(beta * before, 1.0))
        forecast = numpyro.deterministic("forecast", beta * level)
        numpyro.sample("y", dist.Normal(forecast, 0.5), obs=seen)
        return level, None

    scan(step, jnp.zeros(()), jnp.asarray(y))


# -- families -------------------------------------------------------------------------------------------------------


@case(
    RANDOM.normal(size=(4, 3)),
    shapes={"scales": (3,), "root": (3, 3), "shift": (), "y": (4, 3)},
    observed=("y",),
)
def correlated_normals(y):
    scales = numpyro.sample("scales", dist.LogNormal(0.0, 0.5).expand([3]).to_event(1))
    root = numpyro.sample("root", dist.LKJCholesky(3, concentration=2.0))
    affine = transforms.AffineTransform(1.0, 2.0)
    shift = numpyro.sample("shift", dist.TransformedDistribution(dist.Normal(0.0, 1.0), affine))
    with numpyro.plate("N", 4):
        distribution = dist.MultivariateNormal(shift * jnp.ones(3), scale_tril=scales[:, None] * root)
        numpyro.sample("y", distribution, obs=y)


@case(
    *(np.linspace(0.0, 1.0, 4), RANDOM.normal(size=4)),
    shapes={"variance": (), "length": (), "noise": (), "y": (4,)},
    observed=("y",),
)
def gaussian_process(x, y):
    variance = numpyro.sample("variance", dist.LogNormal(0.0, 1.0))
    length = numpyro.sample("length", dist.InverseGamma(3.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    gaps = (x[:, None] - x) / length
    covariance = variance * jnp.exp(-0.5 * gaps**2) + (noise + 0.1) * jnp.eye(4)
    numpyro.sample("y", dist.MultivariateNormal(jnp.zeros(4), covariance_matrix=covariance), obs=y)


@case(
    np.array([0.2, 0.9]),
    shapes={"low": (), "above": (), "tail": (), "both": (), "y": (2,)},
    observed=("y",),
)
def truncated(y):
    low = numpyro.sample("low", dist.Normal(0.0, 1.0))
    above = numpyro.sample("above", dist.LeftTruncatedDistribution(dist.Cauchy(0.0, 1.0), low=low))
    tail = numpyro.sample("tail", dist.RightTruncatedDistribution(dist.Normal(above, 1.0), high=above))
    both = numpyro.sample("both", dist.TruncatedCauchy(tail, 1.0, low=-2.0, high=3.0))
    numpyro.sample("y", dist.TruncatedNormal(both, 1.0, low=0.0), obs=y)


class Triangle(dist.Distribution):
    """A user's own: the density 2 (x − low) / width² on [low, low + width]."""

    arg_constraints = {"low": constraints.real, "width": constraints.positive}  # noqa: RUF012
    reparametrized_params = ["low", "width"]  # noqa: RUF012

    def __init__(self, low, width, *, validate_args=None):
        self.low, self.width = low, width
        super().__init__(jnp.broadcast_shapes(jnp.shape(low), jnp.shape(width)), (), validate_args=validate_args)

    @constraints.dependent_property
    def support(self):
        return constraints.interval(self.low, self.low + self.width)

    def sample(self, key, sample_shape=()):
        part = dist.Uniform().sample(key, sample_shape + self.batch_shape)
        return self.low + self.width * jnp.sqrt(part)

    def log_prob(self, value):
        return jnp.log(2.0 * (value - self.low)) - 2.0 * jnp.log(self.width)


@case(np.array([0.7, 0.9, 0.2]), shapes={"width": (), "x": (2,), "y": (3,)}, observed=("y",))
def users_own_family(y):
    width = numpyro.sample("width", dist.LogNormal(1.0, 0.1))
    x = numpyro.sample("x", Triangle(jnp.zeros(2), width))
    with numpyro.plate("N", 3):
        numpyro.sample("y", Triangle(-x[0], 4.0 + x[0]), obs=y)
