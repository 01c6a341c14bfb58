"""Time series and curves."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as nd

import fubini as fb
from examples.forty.regressions import conjugate, conjugate_peer
from examples.forty.study import Study, columns
from fubini import dist

# -- a trend and months ------------------------------------------------------------------------------------------------


@fb.model
def months(time, month):
    """A trend, and a level for each month; two scales remain."""
    start = yield dist.Normal(5.0, 2.0)
    slope = yield dist.Normal(0.0, 1.0)
    spread = yield dist.HalfNormal(0.5)
    noise = yield dist.HalfNormal(0.5)
    level = yield dist.Normal(0.0, spread).expand([12])
    y = yield dist.Normal(start + slope * time + level[month], noise)


def months_peer(time, month, y):
    start = numpyro.sample("start", nd.Normal(5.0, 2.0))
    slope = numpyro.sample("slope", nd.Normal(0.0, 1.0))
    spread = numpyro.sample("spread", nd.HalfNormal(0.5))
    noise = numpyro.sample("noise", nd.HalfNormal(0.5))
    level = numpyro.sample("level", nd.Normal(0.0, spread).expand([12]).to_event(1))
    numpyro.sample("y", nd.Normal(start + slope * time + level[month], noise).to_event(1), obs=y)


# -- hidden states -----------------------------------------------------------------------------------------------------


@fb.model
def seal(n):
    """Log-distances of a seal that rests or travels further; its states are summed."""
    stay = yield dist.Beta(8.0, 2.0).expand([2])
    low = yield dist.Normal(5.0, 1.5)
    gap = yield dist.Gamma(3.0, 1.0)
    spread = yield dist.Gamma(3.0, 2.0).expand([2])
    mean = jnp.stack([low, low + gap])
    move = jnp.stack([jnp.stack([stay[0], 1.0 - stay[0]]), jnp.stack([1.0 - stay[1], stay[1]])])
    state = yield dist.Markov(dist.Categorical(jnp.ones(2) / 2), lambda z: dist.Categorical(move[z]), n)
    y = yield dist.Normal(mean[state], spread[state])


def seal_peer(n, y):
    stay = numpyro.sample("stay", nd.Beta(8.0, 2.0).expand([2]).to_event(1))
    low = numpyro.sample("low", nd.Normal(5.0, 1.5))
    gap = numpyro.sample("gap", nd.Gamma(3.0, 1.0))
    mean = jnp.stack([low, low + gap])
    spread = numpyro.sample("spread", nd.Gamma(3.0, 2.0).expand([2]).to_event(1))
    move = jnp.stack([jnp.stack([stay[0], 1.0 - stay[0]]), jnp.stack([1.0 - stay[1], stay[1]])])
    if y is None:
        state = numpyro.sample("state", nd.Bernoulli(0.5))
        seen = []
        for step in range(n):
            state = numpyro.sample(f"state{step}", nd.Bernoulli(move[state, 1])) if step else state
            seen.append(numpyro.sample(f"y{step}", nd.Normal(mean[state], spread[state])))
        numpyro.deterministic("y", jnp.stack(seen))
        return
    now = nd.Normal(mean, spread).log_prob(y[:, None])

    def forward(alpha, each):
        return jax.nn.logsumexp(alpha[:, None] + jnp.log(move), axis=0) + each, None

    last, _ = jax.lax.scan(forward, now[0] - jnp.log(2.0), now[1:])
    numpyro.factor("y", jax.nn.logsumexp(last))


@fb.model
def volatility(n):
    """Returns whose scale wanders."""
    persistence = yield dist.Beta(8.0, 2.0)
    wander = yield dist.Gamma(4.0, 10.0)
    unit = yield dist.Normal(0.0, 1.0).expand([n])
    level = [unit[0]]
    for step in range(1, n):
        level.append(persistence * level[-1] + wander * unit[step])
    y = yield dist.Normal(0.0, jnp.exp(0.5 * jnp.stack(level)))


def volatility_peer(n, y):
    persistence = numpyro.sample("persistence", nd.Beta(8.0, 2.0))
    wander = numpyro.sample("wander", nd.Gamma(4.0, 10.0))
    unit = numpyro.sample("unit", nd.Normal(0.0, 1.0).expand([n]).to_event(1))
    level = [unit[0]]
    for step in range(1, n):
        level.append(persistence * level[-1] + wander * unit[step])
    numpyro.sample("y", nd.Normal(0.0, jnp.exp(0.5 * jnp.stack(level))).to_event(1), obs=y)


# -- a curve -----------------------------------------------------------------------------------------------------------


def _kernel(x, amplitude, length):
    gap = (x[:, None] - x) / length
    return amplitude**2 * jnp.exp(-0.5 * gap**2) + 1e-6 * jnp.eye(len(x))


@fb.model
def curve(x):
    """A Gaussian process with unknown amplitude, length and noise."""
    amplitude = yield dist.HalfNormal(2.0)
    length = yield dist.Gamma(4.0, 4.0)
    noise = yield dist.HalfNormal(1.0)
    f = yield dist.MultivariateNormal(jnp.zeros(len(x)), _kernel(x, amplitude, length))
    y = yield dist.Normal(f, noise)


def curve_peer(x, y):
    amplitude = numpyro.sample("amplitude", nd.HalfNormal(2.0))
    length = numpyro.sample("length", nd.Gamma(4.0, 4.0))
    noise = numpyro.sample("noise", nd.HalfNormal(1.0))
    covariance = _kernel(x, amplitude, length) + noise**2 * jnp.eye(len(x))
    numpyro.sample("y", nd.MultivariateNormal(jnp.zeros(len(x)), covariance), obs=y)


@fb.model
def intensity(n):
    """Counts whose log-rate wanders."""
    start = yield dist.Normal(1.0, 1.0)
    wander = yield dist.Gamma(3.0, 10.0)
    unit = yield dist.Normal(0.0, 1.0).expand([n])
    y = yield dist.Poisson(jnp.exp(start + wander * jnp.cumsum(unit)))


def intensity_peer(n, y):
    start = numpyro.sample("start", nd.Normal(1.0, 1.0))
    wander = numpyro.sample("wander", nd.Gamma(3.0, 10.0))
    unit = numpyro.sample("unit", nd.Normal(0.0, 1.0).expand([n]).to_event(1))
    numpyro.sample("y", nd.Poisson(jnp.exp(start + wander * jnp.cumsum(unit))).to_event(1), obs=y)


def lagged(values: np.ndarray, lags: int) -> np.ndarray:
    """A one, and the values before, of each but the first few."""
    return np.stack([np.ones(len(values) - lags), *(values[lags - k - 1 : -k - 1] for k in range(lags))], axis=1)


def studies(folder: Path | None) -> list[Study]:
    """All; those that need a file of `folder` are left out where it is None."""
    random = np.random.default_rng(14)
    level = np.zeros(25)
    for step in range(1, 25):
        level[step] = 0.85 * level[step - 1] + 0.4 * random.normal()
    found = [
        Study("volatility", volatility, volatility_peer, (25,), np.exp(level / 2) * random.normal(size=25), (25,),
              "smc", ("persistence", "wander")),
    ]  # fmt: skip
    if folder is None:
        return found
    (trapped,) = columns(folder, "classic/lynx.csv", "value")
    (spots,) = columns(folder, "classic/sunspot_year.csv", "value")
    (passengers,) = columns(folder, "classic/air_passengers.csv", "value")
    when, carbon = columns(folder, "classic/co2_mauna_loa_monthly.csv", "time", "value")
    times, push = columns(folder, "classic/mcycle.csv", "times", "accel")
    (disasters,) = columns(folder, "classic/coal_disaster_yearly.csv", "count")
    animal, step = columns(folder, "harbour_seals/seal_steps_2h.csv.gz", "id", "step_m")
    walked = np.log(step[(animal == 1) & (step > 0)][:150])
    log_lynx, root_spots = np.log10(trapped), np.sqrt(spots)
    time = np.arange(len(passengers)) / 12.0
    t = when - when.mean()
    x = np.stack([np.ones_like(t), t, t**2 / 100, np.sin(2 * np.pi * t), np.cos(2 * np.pi * t)], axis=1)
    some = np.arange(0, len(times), 4)
    return [
        *found,
        Study("lynx", conjugate, conjugate_peer, (lagged(log_lynx, 2), 2.0), log_lynx[2:],
              (lagged(log_lynx, 2)[:2], 2.0), "closed", ("b", "variance"), "classic/lynx.csv"),
        Study("sunspots", conjugate, conjugate_peer, (lagged(root_spots, 3), 2.0), root_spots[3:],
              (lagged(root_spots, 3)[:2], 2.0), "closed", ("b", "variance"), "classic/sunspot_year.csv"),
        Study("passengers", months, months_peer, (time, np.arange(len(time)) % 12), np.log(passengers),
              (np.array([12.0, 12.5]), np.array([0, 6])), "quadrature", ("start", "slope", "spread", "noise", "level"),
              "classic/air_passengers.csv"),
        Study("carbon dioxide", conjugate, conjugate_peer, (x, 50.0), carbon - carbon.mean(), (x[:2], 50.0), "closed",
              ("b", "variance"), "classic/co2_mauna_loa_monthly.csv"),
        Study("seal", seal, seal_peer, (len(walked),), walked, (2,), "smc", ("stay", "low", "gap", "spread"),
              "harbour_seals/seal_steps_2h.csv.gz", anew=("state",)),
        Study("crash", curve, curve_peer, (times[some] / 10.0,), push[some] / 40.0, (times[some] / 10.0,),
              "quadrature", ("amplitude", "length", "noise"), "classic/mcycle.csv", anew=("f",)),
        Study("disasters that wander", intensity, intensity_peer, (28,),
              disasters[:112].reshape(28, 4).sum(axis=1).astype(int), (28,), "smc",
              ("start", "wander"), "classic/coal_disaster_yearly.csv"),
    ]  # fmt: skip
