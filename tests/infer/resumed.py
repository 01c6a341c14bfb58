"""A run with a checkpoint, in a process of its own that may be killed: python resumed.py CHECKPOINT OUT"""

import sys
import time

import jax
import numpy as np

import fubini as fb
from fubini import dist
from fubini.infer.checkpoint import Checkpoint

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


if __name__ == "__main__":
    Checkpoint.save = slowly(Checkpoint.save)
    found = infer(sys.argv[1]).posterior
    np.savez(sys.argv[2], **{name: np.asarray(value) for name, value in found.items()})
