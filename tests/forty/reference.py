"""Evidence, moments and predictions of the models of examples/forty from long runs of NumPyro.

    python -m tests.forty.reference --data FOLDER

NumPyro sees none of our reading or elimination: it samples all latents, those apart that the peers sum by hand. The
evidence is by bridge sampling (Meng and Wong 1996, equation 4.1) between the posterior and a normal of its moments,
with the standard error of the chains' own estimates.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from jax.flatten_util import ravel_pytree
from numpyro.infer import MCMC, NUTS, Predictive
from numpyro.infer.util import initialize_model
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from examples.forty.all_studies import studies
from examples.forty.study import Study
from tests.infer.reference import rounded, summary

FILE = Path(__file__).with_name("reference.json")
CHAINS = 4


def reference(study: Study, draws: int, warmup: int) -> dict[str, Any]:
    """What is stored of one model."""
    key, sampling, predicting = jax.random.split(jax.random.key(1), 3)
    made = initialize_model(key, study.peer, model_args=(*study.inputs, study.y))
    kernel = NUTS(potential_fn=made.potential_fn, target_accept_prob=0.9)
    mcmc = MCMC(kernel, num_warmup=warmup, num_samples=draws, num_chains=CHAINS, chain_method="vectorized",
                progress_bar=False)  # fmt: skip
    begun = time.perf_counter()
    start = jax.tree.map(lambda z: z + 0.1 * jax.random.normal(key, (CHAINS, *z.shape)), made.param_info.z)
    mcmc.run(sampling, init_params=start)
    free = mcmc.get_samples(group_by_chain=True)
    seconds = time.perf_counter() - begun
    values = jax.vmap(jax.vmap(made.postprocess_fn))(free)
    found = summary({name: np.asarray(values[name]) for name in study.compared})
    worst = max(float(np.nanmax(of["rhat"])) for of in found.values())
    least = min(float(np.nanmin(of["ess"])) for of in found.values())
    log_evidence, error = bridge(made.potential_fn, free)
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in values.items() if name != study.site}
    seen = np.asarray(Predictive(study.peer, flat)(predicting, *study.new, None)[study.site], float)
    print(f"  R-hat ≤ {worst:.4f}, effective draws ≥ {least:,.0f}, log-evidence {log_evidence:.4f} ± {error:.4f}, "
          f"{seconds:.0f} s", flush=True)  # fmt: skip
    return {
        "log_evidence": rounded(log_evidence),
        "error": rounded(error),
        "moments": {name: {k: rounded(of[k]) for k in ("mean", "sd", "mcse")} for name, of in found.items()},
        "predicted": {"mean": rounded(seen.mean(axis=0)), "sd": rounded(seen.std(axis=0)), "draws": len(seen)},
    }


def bridge(potential: Any, free: Any) -> tuple[float, float]:
    """log ∫ exp(−potential), from draws [chain, draw, …] of it, and its standard error."""
    flat = np.asarray(jax.vmap(jax.vmap(lambda z: ravel_pytree(z)[0]))(free))
    _, unravel = ravel_pytree(jax.tree.map(lambda z: z[0, 0], free))
    log_density = jax.jit(jax.vmap(lambda point: -potential(unravel(point))))
    half = flat.shape[1] // 2
    fitted = flat[:, :half].reshape(-1, flat.shape[-1])
    normal = multivariate_normal(fitted.mean(axis=0), np.cov(fitted, rowvar=False).reshape(flat.shape[-1], -1))
    random = np.random.default_rng(0)
    each = [_meng_wong(flat[c, half:], log_density, normal, random) for c in range(len(flat))]
    return float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each)))


def _meng_wong(points: np.ndarray, log_density: Any, normal: Any, random: np.random.Generator) -> float:
    """Iterate equation 4.1 to its fixed point."""
    proposed = np.atleast_2d(normal.rvs(len(points), random_state=random))
    proposed = proposed.reshape(len(points), -1)
    at_draws = np.asarray(log_density(jnp.asarray(points))) - normal.logpdf(points)
    at_proposed = np.asarray(log_density(jnp.asarray(proposed))) - normal.logpdf(proposed)
    at_proposed = np.where(np.isnan(at_proposed), -np.inf, at_proposed)
    log_r, last = float(np.median(at_draws)), np.inf
    while abs(log_r - last) > 1e-10:
        last = log_r
        above = logsumexp(at_proposed - np.logaddexp(at_proposed, log_r))
        below = logsumexp(-np.logaddexp(at_draws, log_r))
        log_r = float(above - below)
    return log_r


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.forty.reference", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=5_000)
    parser.add_argument("--warmup", type=int, default=1_000)
    parser.add_argument("--only", default="", help="models whose names hold this")
    parser.add_argument("--missing", action="store_true", help="models that are not stored")
    given = parser.parse_args()
    numpyro.enable_x64()
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    stored["made by"] = f"python -m tests.forty.reference --data FOLDER --draws {given.draws} --warmup {given.warmup}"
    for study in studies(given.data):
        if given.only in study.name and not (given.missing and study.name in stored):
            print(study.name, flush=True)
            stored[study.name] = reference(study, given.draws, given.warmup)
            FILE.write_text(json.dumps(stored, separators=(",", ":")).replace('},"', '},\n"') + "\n")


if __name__ == "__main__":
    main()
