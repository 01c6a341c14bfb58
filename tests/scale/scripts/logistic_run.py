"""A run of several processes with a checkpoint, which is written slowly enough for one of them to be killed."""

import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import fubini as fb
from fubini.infer.checkpoint import Checkpoint

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(399, 2))
Y = X @ np.array([1.0, -0.5]) + RANDOM.normal(size=399)
LABELS = (Y > 0).astype(np.int64)


@fb.model
def logistic(x):
    w = yield fb.dist.Normal(0.0, 1.0).named("w")
    yield fb.dist.Bernoulli(logits=w * x).named("y")


def draws(mesh: Any, key: int = 0, **options: Any) -> np.ndarray:
    """Draws of four chains, rows and chains over the mesh."""
    post = logistic(fb.shard(X[:, 0], mesh, "rows")).condition(y=fb.shard(LABELS, mesh, "rows"))
    some = dict(draws=6, chains=4, warmup=6, method="nuts", progress=False, log_likelihood=False, predictive=False)
    over = {"mesh": mesh} if "chains" in mesh.axis_names else {}
    return np.asarray(post.infer(jax.random.key(key), **{**some, **over, **options}).posterior["w"])


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    here = fb.distributed()
    save = Checkpoint.save

    def slowly(self: Checkpoint, arrays: Any) -> None:
        save(self, arrays)
        time.sleep(0.5)

    Checkpoint.save = slowly  # type: ignore[method-assign]
    draws(jax.make_mesh((2, 4), ("chains", "rows")), checkpoint=Path(sys.argv[1], "run.npz"))
    Path(sys.argv[1], f"ended-{here.index}").touch()
