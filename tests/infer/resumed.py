"""A run with a checkpoint, for a process of its own that may be killed."""

import time
from pathlib import Path

import jax
import numpy as np

import fubini as fb
from fubini import dist
from fubini.infer.checkpoint import Checkpoint
from fubini.questions.draws import arviz

arviz()  # imported once, for all processes that are started from one that has this module
Y = np.array([0.3, 1.9, -0.4, 2.2])


@fb.model
def spread():
    m = yield dist.Normal(0.0, 2.0)
    s = yield dist.HalfNormal(1.0)
    y = yield dist.Normal(m, s).expand([4])


POST = spread().condition(y=Y)


def infer(checkpoint, key=0, post=POST, draws=40, **options):
    """The run; the groups beside the posterior are left out."""
    return post.infer(
        jax.random.key(key),
        draws=draws,
        chains=2,
        warmup=40,
        method="nuts",
        checkpoint=checkpoint,
        progress=False,
        log_likelihood=False,
        predictive=False,
        **options,
    )


def slowly(save):
    """There is time to be killed before each checkpoint, and while it is written."""

    def wait(self, arrays):
        time.sleep(0.1)
        save(self, arrays)

    return wait


def run(folder: Path) -> None:
    """With its checkpoint in a folder, where the draws are left; what is compiled is kept there for the next one."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    Checkpoint.save = slowly(Checkpoint.save)
    found = infer(folder / "run.npz").posterior
    np.savez(folder / "draws.npz", **{name: np.asarray(value) for name, value in found.items()})
