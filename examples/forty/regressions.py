"""Regressions: linear, logistic, Poisson, ordinal, robust, with priors that shrink."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd

import fubini as fb
from examples.forty.study import Study, columns
from fubini import dist

# -- a linear regression of which all is conjugate --------------------------------------------------------------------


@fb.model
def conjugate(x, spread):
    """Slopes, of a scale that is known in units of the noise, and noise together have a closed form."""
    variance = yield dist.InverseGamma(2.0, 1.0)
    b = yield dist.Normal(0.0, spread * jnp.sqrt(variance)).expand([x.shape[1]])
    y = yield dist.Normal(x @ b, jnp.sqrt(variance))


def conjugate_peer(x, spread, y):
    variance = numpyro.sample("variance", nd.InverseGamma(2.0, 1.0))
    b = numpyro.sample("b", nd.Normal(0.0, spread * jnp.sqrt(variance)).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", nd.Normal(x @ b, jnp.sqrt(variance)).to_event(1), obs=y)


# -- two lines of R2 ---------------------------------------------------------------------------------------------------


@fb.model
def line(x):
    """Hakaru's linear regression."""
    w = yield dist.Gamma(1.0, 1.0)
    a = yield dist.Normal(0.0, 1.0 / jnp.sqrt(w))
    b = yield dist.Normal(5.0, jnp.sqrt(10.0 / 3.0 / w))
    y = yield dist.Normal(a * x + b, 1.0 / jnp.sqrt(w))


def line_peer(x, y):
    w = numpyro.sample("w", nd.Gamma(1.0, 1.0))
    a = numpyro.sample("a", nd.Normal(0.0, 1.0 / jnp.sqrt(w)))
    b = numpyro.sample("b", nd.Normal(5.0, jnp.sqrt(10.0 / 3.0 / w)))
    numpyro.sample("y", nd.Normal(a * x + b, 1.0 / jnp.sqrt(w)).to_event(1), obs=y)


@fb.model
def robust(x):
    """Noise with heavy tails."""
    a = yield dist.Normal(0.0, 2.0)
    b = yield dist.Normal(0.0, 5.0)
    s = yield dist.HalfNormal(2.0)
    y = yield dist.StudentT(4.0, a * x + b, s)


def robust_peer(x, y):
    a = numpyro.sample("a", nd.Normal(0.0, 2.0))
    b = numpyro.sample("b", nd.Normal(0.0, 5.0))
    s = numpyro.sample("s", nd.HalfNormal(2.0))
    numpyro.sample("y", nd.StudentT(4.0, a * x + b, s).to_event(1), obs=y)


# -- damage of O-rings over temperature --------------------------------------------------------------------------------

TEMPERATURE = np.array([66, 70, 69, 68, 67, 72, 73, 70, 57, 63, 70, 78, 67, 53, 67, 75, 70, 81, 76, 79, 75, 76, 58.0])
DAMAGE = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1])


@fb.model
def flights(t):
    """Logistic regression with two numbers."""
    at_70 = yield dist.Normal(0.0, 3.0)
    per_degree = yield dist.Normal(0.0, 0.5)
    y = yield dist.Bernoulli(logits=at_70 + per_degree * (t - 70.0))


def flights_peer(t, y):
    at_70 = numpyro.sample("at_70", nd.Normal(0.0, 3.0))
    per_degree = numpyro.sample("per_degree", nd.Normal(0.0, 0.5))
    numpyro.sample("y", nd.Bernoulli(logits=at_70 + per_degree * (t - 70.0)).to_event(1), obs=y)


# -- admissions: binomial, with an intercept for each department -------------------------------------------------------


@fb.model
def admissions(department, male, applied, departments):
    """Logistic regression with seven numbers."""
    a = yield dist.Normal(0.0, 1.5).expand([departments])
    b = yield dist.Normal(0.0, 1.0)
    y = yield dist.Binomial(applied, logits=a[department] + b * male)


def admissions_peer(department, male, applied, departments, y):
    a = numpyro.sample("a", nd.Normal(0.0, 1.5).expand([departments]).to_event(1))
    b = numpyro.sample("b", nd.Normal(0.0, 1.0))
    numpyro.sample("y", nd.Binomial(applied, logits=a[department] + b * male).to_event(1), obs=y)


@fb.model
def admissions_by_group(department, male, applied, departments):
    """The same with departments that resemble each other."""
    mean = yield dist.Normal(0.0, 1.5)
    spread = yield dist.HalfNormal(1.5)
    unit = yield dist.Normal(0.0, 1.0).expand([departments])
    b = yield dist.Normal(0.0, 1.0)
    y = yield dist.Binomial(applied, logits=mean + spread * unit[department] + b * male)


def admissions_by_group_peer(department, male, applied, departments, y):
    mean = numpyro.sample("mean", nd.Normal(0.0, 1.5))
    spread = numpyro.sample("spread", nd.HalfNormal(1.5))
    unit = numpyro.sample("unit", nd.Normal(0.0, 1.0).expand([departments]).to_event(1))
    b = numpyro.sample("b", nd.Normal(0.0, 1.0))
    numpyro.sample("y", nd.Binomial(applied, logits=mean + spread * unit[department] + b * male).to_event(1), obs=y)


# -- disasters in mines over the years ---------------------------------------------------------------------------------


@fb.model
def trend(t):
    """Poisson regression."""
    a = yield dist.Normal(0.0, 2.0)
    b = yield dist.Normal(0.0, 2.0)
    y = yield dist.Poisson(jnp.exp(a + b * t))


def trend_peer(t, y):
    a = numpyro.sample("a", nd.Normal(0.0, 2.0))
    b = numpyro.sample("b", nd.Normal(0.0, 2.0))
    numpyro.sample("y", nd.Poisson(jnp.exp(a + b * t)).to_event(1), obs=y)


@fb.model
def trend_overdispersed(t):
    """The same, with more spread than Poisson's."""
    a = yield dist.Normal(0.0, 2.0)
    b = yield dist.Normal(0.0, 2.0)
    k = yield dist.Gamma(2.0, 0.2)
    y = yield dist.NegativeBinomial2(jnp.exp(a + b * t), k)


def trend_overdispersed_peer(t, y):
    a = numpyro.sample("a", nd.Normal(0.0, 2.0))
    b = numpyro.sample("b", nd.Normal(0.0, 2.0))
    k = numpyro.sample("k", nd.Gamma(2.0, 0.2))
    numpyro.sample("y", nd.NegativeBinomial2(jnp.exp(a + b * t), k).to_event(1), obs=y)


# -- made data ---------------------------------------------------------------------------------------------------------

CUTS = np.array([-1.0, 0.5, 1.5])


@fb.model
def grades(x):
    """Ordered answers over one input."""
    b = yield dist.Normal(0.0, 2.0)
    y = yield dist.OrderedLogistic(b * x, CUTS)


def grades_peer(x, y):
    b = numpyro.sample("b", nd.Normal(0.0, 2.0))
    numpyro.sample("y", nd.OrderedLogistic(b * x, CUTS).to_event(1), obs=y)


@fb.model
def lasso(x):
    """Slopes that are mostly small."""
    b = yield dist.Laplace(0.0, 0.5).expand([x.shape[1]])
    s = yield dist.HalfNormal(2.0)
    y = yield dist.Normal(x @ b, s)


def lasso_peer(x, y):
    b = numpyro.sample("b", nd.Laplace(0.0, 0.5).expand([x.shape[1]]).to_event(1))
    s = numpyro.sample("s", nd.HalfNormal(2.0))
    numpyro.sample("y", nd.Normal(x @ b, s).to_event(1), obs=y)


@fb.model
def ridge(x):
    """Slopes whose own scale is not known: they have a closed form, two scales remain."""
    scale = yield dist.HalfNormal(2.0)
    s = yield dist.HalfNormal(2.0)
    b = yield dist.Normal(0.0, scale).expand([x.shape[1]])
    y = yield dist.Normal(x @ b, s)


def ridge_peer(x, y):
    scale = numpyro.sample("scale", nd.HalfNormal(2.0))
    s = numpyro.sample("s", nd.HalfNormal(2.0))
    b = numpyro.sample("b", nd.Normal(0.0, scale).expand([x.shape[1]]).to_event(1))
    numpyro.sample("y", nd.Normal(x @ b, s).to_event(1), obs=y)


@fb.model
def uneven_noise(x):
    """The noise grows with the input."""
    a = yield dist.Normal(0.0, 3.0)
    b = yield dist.Normal(0.0, 3.0)
    c = yield dist.Normal(0.0, 1.0)
    d = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(a + b * x, jnp.exp(c + d * x))


def uneven_noise_peer(x, y):
    a = numpyro.sample("a", nd.Normal(0.0, 3.0))
    b = numpyro.sample("b", nd.Normal(0.0, 3.0))
    c = numpyro.sample("c", nd.Normal(0.0, 1.0))
    d = numpyro.sample("d", nd.Normal(0.0, 1.0))
    numpyro.sample("y", nd.Normal(a + b * x, jnp.exp(c + d * x)).to_event(1), obs=y)


@fb.model
def with_outliers(x):
    """A line, some points of which are anywhere: their labels are summed."""
    a = yield dist.Normal(0.0, 3.0)
    b = yield dist.Normal(0.0, 3.0)
    share = yield dist.Beta(1.0, 9.0)
    wild = yield dist.Bernoulli(share).expand(x.shape)
    y = yield dist.Normal(jnp.where(wild == 1, 0.0, a + b * x), jnp.where(wild == 1, 10.0, 0.5))


def with_outliers_peer(x, y):
    a = numpyro.sample("a", nd.Normal(0.0, 3.0))
    b = numpyro.sample("b", nd.Normal(0.0, 3.0))
    share = numpyro.sample("share", nd.Beta(1.0, 9.0))
    mean = jnp.stack([a + b * x, jnp.zeros_like(x)], axis=-1)
    parts = nd.Normal(mean, jnp.array([0.5, 10.0]))
    numpyro.sample(
        "y",
        nd.MixtureSameFamily(nd.Categorical(jnp.stack([1.0 - share, share])), parts).to_event(1),
        obs=y,
    )


def studies(folder: Path | None) -> list[Study]:
    """All; those that need a file of `folder` are left out where it is None."""
    random = np.random.default_rng(11)
    x = random.normal(size=(60, 4))
    y = x @ np.array([1.2, 0.0, -0.4, 0.0]) + random.normal(0.0, 0.8, 60)
    t = np.linspace(-1.0, 2.0, 50)
    graded = np.sum((1.3 * t + random.logistic(size=50))[:, None] > CUTS, axis=1)
    uneven = 1.0 + 0.5 * t + np.exp(-0.5 + 0.6 * t) * random.normal(size=50)
    spoilt = np.where(random.uniform(size=50) < 0.12, random.normal(0.0, 8.0, 50), 0.5 + t + random.normal(0, 0.5, 50))
    ends = np.array([-1.0, 0.5, 2.0])
    found = [
        Study("O-rings", flights, flights_peer, (TEMPERATURE,), DAMAGE, (np.array([31.0, 55.0, 75.0]),),
              "quadrature", ("at_70", "per_degree")),
        Study("grades", grades, grades_peer, (t,), graded, (ends,), "quadrature", ("b",)),
        Study("lasso", lasso, lasso_peer, (x,), y, (x[:3],), "smc", ("b", "s")),
        Study("ridge", ridge, ridge_peer, (x,), y, (x[:3],), "quadrature", ("b", "s", "scale")),
        Study("uneven noise", uneven_noise, uneven_noise_peer, (t,), uneven, (ends,), "smc", ("a", "b", "c", "d")),
        Study("outliers", with_outliers, with_outliers_peer, (t,), spoilt, (ends,), "quadrature", ("a", "b", "share"),
              anew=("wild",)),
    ]  # fmt: skip
    if folder is None:
        return found
    ruggedness, income, africa = columns(folder, "classic/rugged.csv", "rugged", "rgdppc_2000", "cont_africa")
    known = ~np.isnan(income)
    r, c = ruggedness[known] / np.nanmax(ruggedness), africa[known]
    design = np.stack([np.ones_like(r), r, c, r * c], axis=1)
    log_income = np.log(income[known]) - np.log(income[known]).mean()
    department, gender, admitted, applied = columns(
        folder, "classic/ucb_admissions.csv", "dept", "gender", "admit", "applications"
    )
    places = np.unique(department, return_inverse=True)[1]
    male, applied = (gender == "male").astype(float), applied.astype(int)
    year, disasters = columns(folder, "classic/coal_disaster_yearly.csv", "year", "count")
    years = (year - 1900.0) / 50.0
    xa, ya = columns(folder, "r2/linear_regression_a.csv", "x", "y")
    xb, yb = columns(folder, "r2/linear_regression_b.csv", "x", "y")
    rows = (places, male, applied, 6)
    fresh = (np.array([0, 5]), np.array([0.0, 1.0]), np.array([100, 100]), 6)
    return [
        *found,
        Study("rugged", conjugate, conjugate_peer, (design, 2.0), log_income, (design[:3], 2.0), "closed",
              ("b", "variance"), "classic/rugged.csv"),
        Study("line", line, line_peer, (xa,), ya, (np.array([1.0, 500.0]),), "closed", ("a", "b", "w"),
              "r2/linear_regression_a.csv"),
        Study("robust line", robust, robust_peer, (xb[::10],), yb[::10], (np.array([-1.0, 1.0]),), "quadrature",
              ("a", "b", "s"), "r2/linear_regression_b.csv"),
        Study("admissions", admissions, admissions_peer, rows, admitted.astype(int), fresh, "smc", ("a", "b"),
              "classic/ucb_admissions.csv"),
        Study("admissions by group", admissions_by_group, admissions_by_group_peer, rows, admitted.astype(int), fresh,
              "smc", ("mean", "spread", "b"), "classic/ucb_admissions.csv"),
        Study("disasters", trend, trend_peer, (years,), disasters.astype(int), (np.array([-1.0, 0.0, 1.3]),),
              "quadrature", ("a", "b"), "classic/coal_disaster_yearly.csv"),
        Study("disasters, overdispersed", trend_overdispersed, trend_overdispersed_peer, (years,),
              disasters.astype(int), (np.array([-1.0, 0.0, 1.3]),), "quadrature", ("a", "b", "k"),
              "classic/coal_disaster_yearly.csv"),
    ]  # fmt: skip
