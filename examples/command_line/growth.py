"""CD4 percentages of children over time: each child its own line."""

import fubini as fb
from fubini import dist


@fb.model
def growth(time, person, n_person):
    sigma = yield dist.HalfNormal(2.0)
    between = yield dist.HalfNormal(3.0)
    slopes = yield dist.HalfNormal(2.0)
    mean = yield dist.Normal(0.0, 10.0)
    trend = yield dist.Normal(0.0, 2.0)
    level = yield dist.Normal(mean, between).expand([n_person])
    slope = yield dist.Normal(trend, slopes).expand([n_person])
    y = yield dist.Normal(level[person] + slope[person] * time, sigma)
