"""Radon in homes of Minnesota: counties differ in level; a basement adds."""

import fubini as fb
from fubini import dist


@fb.model
def radon(basement, uranium, county_name, n_county_name):
    sigma = yield dist.HalfNormal(1.0)
    tau = yield dist.HalfNormal(1.0)
    intercept = yield dist.Normal(0.0, 2.0)
    slope = yield dist.Normal(0.0, 2.0)
    effect = yield dist.Normal(0.0, 1.0)
    county = yield dist.Normal(0.0, tau).expand([n_county_name])
    log_radon = yield dist.Normal(intercept + slope * uranium + effect * basement + county[county_name], sigma)
