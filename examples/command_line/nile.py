"""The Nile at Aswan: a level that wanders, measured with noise."""

import fubini as fb
from fubini import dist


@fb.model
def nile(n):
    step = yield dist.HalfNormal(50.0)
    noise = yield dist.HalfNormal(150.0)
    start = yield dist.Normal(1000.0, 300.0)
    level = yield dist.GaussianRandomWalk(step, n)
    flow = yield dist.Normal(start + level, noise)
