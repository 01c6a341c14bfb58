"""Posterior moments of the twelve models from long runs of NumPyro, which sees none of our reading or elimination.

    python -m tests.infer.reference --data FOLDER --out tests/infer/reference.json

Continuous latents are all sampled. Discrete ones are summed here by hand; funnels are written without centres, which
changes the sampler's coordinates and not the posterior. Three need no sampler: given two numbers or the place of a
change, the others have textbook answers, which are averaged over a grid.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from scipy import stats
from scipy.linalg import solve_triangular
from scipy.special import betaln, gammaln, logsumexp

from examples.twelve.cases import Case, cases
from fubini.questions.draw_diagnostics import arviz

FILE = Path(__file__).with_name("reference.json")
Moments = dict[str, dict[str, list]]
Exact = dict[str, tuple[np.ndarray, np.ndarray]]


# -- the models of NumPyro that are not the peers' ---------------------------------------------------------------------


def eight_schools(spread, y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    unit = numpyro.sample("unit", dist.Normal(0.0, 1.0).expand([len(y)]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * unit)
    numpyro.sample("y", dist.Normal(theta, spread).to_event(1), obs=y)


def eight_schools_unknown(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    sigma = numpyro.sample("sigma", dist.HalfNormal(20.0))
    unit = numpyro.sample("unit", dist.Normal(0.0, 1.0).expand([len(y)]).to_event(1))
    theta = numpyro.deterministic("theta", mu + tau * unit)
    numpyro.sample("y", dist.Normal(theta[:, None], sigma).expand(y.shape).to_event(2), obs=y)


def mixture(x, k):
    weight = numpyro.sample("weight", dist.Dirichlet(jnp.ones(k)))
    mean = numpyro.sample("mean", dist.Normal(3.5, 2.0).expand([k]).to_event(1))
    spread = numpyro.sample("spread", dist.HalfNormal(1.0).expand([k]).to_event(1))
    terms = jnp.log(weight) + dist.Normal(mean, spread).log_prob(x[:, None])
    numpyro.factor("x", jnp.sum(jax.nn.logsumexp(terms, axis=1)))


def hidden_markov(y, k):
    move = numpyro.sample("move", dist.Dirichlet(jnp.ones(k) + 2.0 * jnp.eye(k)).to_event(1))
    mean = numpyro.sample("mean", dist.Normal(0.0, 3.0).expand([k]).to_event(1))
    sigma = numpyro.sample("sigma", dist.HalfNormal(2.0))
    seen = dist.Normal(mean, sigma).log_prob(y[:, None])

    def forward(alpha, now):
        return jax.nn.logsumexp(alpha[:, None] + jnp.log(move), axis=0) + now, None

    last, _ = jax.lax.scan(forward, seen[0] - jnp.log(k), seen[1:])
    numpyro.factor("y", jax.nn.logsumexp(last))


def zero_inflated(y):
    present = numpyro.sample("present", dist.Beta(1.0, 1.0))
    rate = numpyro.sample("rate", dist.Gamma(2.0, 0.5))
    seen = jnp.log(present) + dist.Poisson(rate).log_prob(y)
    absent = jnp.where(y == 0, jnp.log1p(-present), -jnp.inf)
    numpyro.factor("y", jnp.sum(jnp.logaddexp(seen, absent)))


OWN: dict[str, Callable[..., None]] = {
    "eight schools": eight_schools,
    "eight schools, variance unknown": eight_schools_unknown,
    "Gaussian mixture": mixture,
    "hidden Markov model": hidden_markov,
    "zero-inflated counts": zero_inflated,
}


# -- by sums and grids -------------------------------------------------------------------------------------------------


def of_weights(log_weight: np.ndarray, first: Mapping[str, Any], second: Mapping[str, Any]) -> Exact:
    """Mean and standard deviation of each site, from E x and E x² at weighted points, along the first axis."""
    weight = np.exp(log_weight - logsumexp(log_weight))
    means = {name: np.tensordot(weight, values, 1) for name, values in first.items()}
    return {name: (mean, np.sqrt(np.tensordot(weight, second[name], 1) - mean**2)) for name, mean in means.items()}


def change_point(y: np.ndarray) -> Exact:
    """For a known change, both rates are Gamma."""
    n = len(y)
    change = np.arange(n)
    before = np.array([y[:c].sum() for c in change])
    shapes = {"early": 2.0 + before, "late": 2.0 + y.sum() - before}
    rates = {"early": 1.0 + change, "late": 1.0 + n - change}
    log_weight = sum(gammaln(shapes[name]) - shapes[name] * np.log(rates[name]) for name in shapes)
    first = {name: shapes[name] / rates[name] for name in shapes} | {"change": change}
    second = {name: shapes[name] * (shapes[name] + 1) / rates[name] ** 2 for name in shapes} | {"change": change**2}
    return of_weights(log_weight, first, second)


def batting(at_bats: np.ndarray, hits: np.ndarray) -> Exact:
    """For a known mean and concentration, each rate is Beta."""
    mean, log_kappa = (axis.ravel() for axis in np.meshgrid(np.linspace(0.1, 0.5, 401), np.linspace(-2.0, 12.0, 401)))
    a, b = mean * np.exp(log_kappa), (1.0 - mean) * np.exp(log_kappa)
    log_weight = stats.beta(2.0, 2.0).logpdf(mean) + stats.norm(4.0, 1.5).logpdf(log_kappa)
    rates, squares = [], []
    for n, k in zip(at_bats, hits, strict=True):
        log_weight = log_weight + betaln(a + k, b + n - k) - betaln(a, b)
        rates.append((a + k) / (a + b + n))
        squares.append(rates[-1] * (a + k + 1) / (a + b + n + 1))
    first = {"mean": mean, "log_kappa": log_kappa, "theta": np.stack(rates, axis=1)}
    return of_weights(
        log_weight, first, {"mean": mean**2, "log_kappa": log_kappa**2, "theta": np.stack(squares, axis=1)}
    )


def local_level(y: np.ndarray) -> Exact:
    """For known variances, the start and the levels are normal: their means and variances given y."""
    place = np.arange(1, len(y) + 1)
    wander, noise = (axis.ravel() for axis in np.meshgrid(np.linspace(0.5, 200.0, 120), np.linspace(40.0, 240.0, 120)))
    log_weight = stats.halfnorm(0.0, 100.0).logpdf(wander) + stats.halfnorm(0.0, 200.0).logpdf(noise)
    means, variances = [], []
    for each, (w, s) in enumerate(zip(wander, noise, strict=True)):
        level = 300.0**2 + w**2 * np.minimum(place[:, None], place)
        root = np.linalg.cholesky(level + s**2 * np.eye(len(y)))
        with_y = np.vstack([np.full(len(y), 300.0**2), level])
        half = solve_triangular(root, np.column_stack([with_y.T, y - 1000.0]), lower=True)
        log_weight[each] += -0.5 * half[:, -1] @ half[:, -1] - np.log(np.diagonal(root)).sum()
        means.append(1000.0 + half[:, :-1].T @ half[:, -1])
        variances.append(np.append(300.0**2, np.diagonal(level)) - (half[:, :-1] ** 2).sum(axis=0))
    found, squares = np.stack(means), np.stack(variances) + np.stack(means) ** 2
    first = {"start": found[:, 0], "wander": wander, "noise": noise, "level": found[:, 1:]}
    second = {"start": squares[:, 0], "wander": wander**2, "noise": noise**2, "level": squares[:, 1:]}
    return of_weights(log_weight, first, second)


EXACT: dict[str, Callable[..., Exact]] = {
    "change point": change_point,
    "batting": batting,
    "local level": local_level,
}


# -- moments -----------------------------------------------------------------------------------------------------------


def summary(quantities: Mapping[str, np.ndarray]) -> dict[str, dict[str, np.ndarray]]:
    """Mean, sd, Monte Carlo error of the mean, R-hat and effective sample size of each entry [chain, draw, …]."""
    az = arviz()
    data = az.convert_to_dataset({name: np.asarray(value, float) for name, value in quantities.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of entries that are constant
        found = {"mcse": az.mcse(data), "rhat": az.rhat(data), "ess": az.ess(data, method="bulk")}
    return {
        name: {
            "mean": np.mean(value, axis=(0, 1)),
            "sd": np.std(value, axis=(0, 1)),
            **{what: np.asarray(values[name]) for what, values in found.items()},
        }
        for name, value in quantities.items()
    }


def sampled(case: Case, draws: int, warmup: int, seed: int = 1) -> dict[str, dict[str, np.ndarray]]:
    """A long run of a case."""
    peer, args = case.peer()
    kernel = NUTS(OWN.get(case.name, peer), target_accept_prob=0.9)
    mcmc = MCMC(
        kernel, num_warmup=warmup, num_samples=draws, num_chains=4, chain_method="vectorized", progress_bar=False
    )
    mcmc.run(jax.random.key(seed), *args)
    return summary(case.quantities({k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}))


def rounded(values: Any) -> Any:
    """Six digits."""
    return np.vectorize(lambda value: float(f"{value:.6g}"))(np.asarray(values, float)).tolist()


def reference(case: Case, draws: int, warmup: int) -> Moments:
    """The moments of a case that are stored."""
    if case.name in EXACT:
        exact = EXACT[case.name](*case.peer()[1])
        return {n: {"mean": rounded(m), "sd": rounded(s), "mcse": rounded(0.0 * m)} for n, (m, s) in exact.items()}
    found = sampled(case, draws, warmup)
    worst = max(float(np.nanmax(of["rhat"])) for of in found.values())
    least = min(float(np.nanmin(of["ess"])) for of in found.values())
    print(f"  R-hat at most {worst:.4f}, effective draws at least {least:,.0f}", flush=True)
    return {name: {what: rounded(of[what]) for what in ("mean", "sd", "mcse")} for name, of in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.infer.reference", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--warmup", type=int, default=2_000)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    numpyro.enable_x64()
    stored = json.loads(given.out.read_text()) if given.only else {}
    command = f"python -m tests.infer.reference --data FOLDER --draws {given.draws} --warmup {given.warmup}"
    stored["made by"] = command
    for case in cases(given.data):
        if given.only in case.name:
            print(case.name, flush=True)
            begun = time.perf_counter()
            stored[case.name] = reference(case, given.draws, given.warmup)
            print(f"  {time.perf_counter() - begun:.0f} s", flush=True)
            given.out.write_text(json.dumps(stored, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
