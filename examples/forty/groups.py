"""Groups that resemble each other, and mixtures."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd

import fubini as fb
from examples.forty.study import Study, columns
from fubini import dist


@fb.model
def sepals(group, groups):
    """Means of kinds of flowers: these have a closed form, two scales remain."""
    mu = yield dist.Normal(5.0, 3.0)
    between = yield dist.HalfNormal(2.0)
    within = yield dist.HalfNormal(2.0)
    mean = yield dist.Normal(mu, between).expand([groups])
    y = yield dist.Normal(mean[group], within)


def sepals_peer(group, groups, y):
    mu = numpyro.sample("mu", nd.Normal(5.0, 3.0))
    between = numpyro.sample("between", nd.HalfNormal(2.0))
    within = numpyro.sample("within", nd.HalfNormal(2.0))
    mean = numpyro.sample("mean", nd.Normal(mu, between).expand([groups]).to_event(1))
    numpyro.sample("y", nd.Normal(mean[group], within).to_event(1), obs=y)


@fb.model
def patients(person, time, people):
    """A line for each patient; three scales remain."""
    mean_start = yield dist.Normal(0.0, 5.0)
    mean_slope = yield dist.Normal(0.0, 1.0)
    spread_start = yield dist.HalfNormal(3.0)
    spread_slope = yield dist.HalfNormal(1.0)
    noise = yield dist.HalfNormal(3.0)
    start = yield dist.Normal(mean_start, spread_start).expand([people])
    slope = yield dist.Normal(mean_slope, spread_slope).expand([people])
    y = yield dist.Normal(start[person] + slope[person] * time, noise)


def patients_peer(person, time, people, y):
    mean_start = numpyro.sample("mean_start", nd.Normal(0.0, 5.0))
    mean_slope = numpyro.sample("mean_slope", nd.Normal(0.0, 1.0))
    spread_start = numpyro.sample("spread_start", nd.HalfNormal(3.0))
    spread_slope = numpyro.sample("spread_slope", nd.HalfNormal(1.0))
    noise = numpyro.sample("noise", nd.HalfNormal(3.0))
    start = numpyro.sample("start", nd.Normal(mean_start, spread_start).expand([people]).to_event(1))
    slope = numpyro.sample("slope", nd.Normal(mean_slope, spread_slope).expand([people]).to_event(1))
    numpyro.sample("y", nd.Normal(start[person] + slope[person] * time, noise).to_event(1), obs=y)


@fb.model
def crossed(row, column, rows, columns):
    """Effects of rows and of columns of a table."""
    mean = yield dist.Normal(0.0, 3.0)
    row_spread = yield dist.HalfNormal(2.0)
    column_spread = yield dist.HalfNormal(2.0)
    noise = yield dist.HalfNormal(2.0)
    a = yield dist.Normal(0.0, row_spread).expand([rows])
    b = yield dist.Normal(0.0, column_spread).expand([columns])
    y = yield dist.Normal(mean + a[row] + b[column], noise)


def crossed_peer(row, column, rows, columns, y):
    mean = numpyro.sample("mean", nd.Normal(0.0, 3.0))
    row_spread = numpyro.sample("row_spread", nd.HalfNormal(2.0))
    column_spread = numpyro.sample("column_spread", nd.HalfNormal(2.0))
    noise = numpyro.sample("noise", nd.HalfNormal(2.0))
    a = numpyro.sample("a", nd.Normal(0.0, row_spread).expand([rows]).to_event(1))
    b = numpyro.sample("b", nd.Normal(0.0, column_spread).expand([columns]).to_event(1))
    numpyro.sample("y", nd.Normal(mean + a[row] + b[column], noise).to_event(1), obs=y)


@fb.model
def geyser(n):
    """Waiting times of two kinds; labels are summed."""
    share = yield dist.Beta(2.0, 2.0)
    short = yield dist.Normal(55.0, 5.0)
    long = yield dist.Normal(80.0, 5.0)
    label = yield dist.Bernoulli(share).expand([n])
    y = yield dist.Normal(jnp.where(label == 1, long, short), 6.0)


def geyser_peer(n, y):
    share = numpyro.sample("share", nd.Beta(2.0, 2.0))
    short = numpyro.sample("short", nd.Normal(55.0, 5.0))
    long = numpyro.sample("long", nd.Normal(80.0, 5.0))
    parts = nd.Normal(jnp.stack([short, long]), 6.0)
    weights = nd.Categorical(jnp.stack([1.0 - share, share]))
    numpyro.sample("y", nd.MixtureSameFamily(weights, parts).expand([n]).to_event(1), obs=y)


@fb.model
def velocities(n):
    """Galaxies of three clusters, with scales of their own; labels are summed."""
    weight = yield dist.Dirichlet(2.0 * jnp.ones(3))
    mean = yield dist.Normal(jnp.array([10.0, 21.0, 33.0]), 2.0)
    spread = yield dist.Gamma(4.0, 2.0).expand([3])
    label = yield dist.Categorical(weight).expand([n])
    y = yield dist.Normal(mean[label], spread[label])


def velocities_peer(n, y):
    weight = numpyro.sample("weight", nd.Dirichlet(2.0 * jnp.ones(3)))
    mean = numpyro.sample("mean", nd.Normal(jnp.array([10.0, 21.0, 33.0]), 2.0).to_event(1))
    spread = numpyro.sample("spread", nd.Gamma(4.0, 2.0).expand([3]).to_event(1))
    parts = nd.Normal(mean, spread)
    numpyro.sample("y", nd.MixtureSameFamily(nd.Categorical(weight), parts).expand([n]).to_event(1), obs=y)


def studies(folder: Path | None) -> list[Study]:
    """All; those that need a file of `folder` are left out where it is None."""
    random = np.random.default_rng(13)
    row, column = (each.ravel() for each in np.meshgrid(np.arange(6), np.arange(5), indexing="ij"))
    effects = random.normal(0.0, 1.5, 6)[row] + random.normal(0.0, 0.7, 5)[column]
    table = 1.0 + effects + random.normal(0.0, 0.5, 30)
    found = [
        Study("rows and columns", crossed, crossed_peer, (row, column, 6, 5), table,
              (np.array([0, 5]), np.array([0, 4]), 6, 5), "quadrature",
              ("mean", "row_spread", "column_spread", "noise")),
    ]  # fmt: skip
    if folder is None:
        return found
    length, kind = columns(folder, "classic/iris.csv", "Sepal.Length", "Species")
    codes = np.unique(kind, return_inverse=True)[1]
    person, time, y = columns(folder, "r2/hiv.csv", "person", "time", "y")
    people = np.unique(person, return_inverse=True)[1]
    (waiting,) = columns(folder, "classic/old_faithful.csv", "waiting")
    (speed,) = columns(folder, "classic/galaxies.csv", "dat")
    return [
        *found,
        Study("sepals", sepals, sepals_peer, (codes, 3), length, (np.array([0, 2]), 3), "quadrature",
              ("mu", "between", "within", "mean"), "classic/iris.csv"),
        Study("patients", patients, patients_peer, (people, time, int(people.max()) + 1), y,
              (np.array([0, 1]), np.array([2.0, 2.0]), int(people.max()) + 1), "quadrature",
              ("mean_start", "mean_slope", "spread_start", "spread_slope", "noise"), "r2/hiv.csv"),
        Study("geyser", geyser, geyser_peer, (len(waiting),), waiting, (2,), "quadrature", ("share", "short", "long"),
              "classic/old_faithful.csv", anew=("label",)),
        Study("galaxies", velocities, velocities_peer, (len(speed),), speed / 1000.0, (2,), "smc",
              ("weight", "mean", "spread"), "classic/galaxies.csv", anew=("label",)),
    ]  # fmt: skip
