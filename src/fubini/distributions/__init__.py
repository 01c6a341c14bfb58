"""Distributions: every family of `numpyro.distributions`, with Values as parameters.

>>> from fubini import dist
>>> dist.Normal(0.0, 1.0)("x").inputs
{'x': Real}
"""

from fubini.distributions import density_choice as density_choice
from fubini.distributions import density_quantiles as density_quantiles
from fubini.distributions import density_rules as density_rules
from fubini.distributions import piecewise_reading as piecewise_reading
from fubini.distributions import to_numpyro as to_numpyro
from fubini.distributions.density import Density as Density
from fubini.distributions.density import Distribution as Distribution
from fubini.distributions.families import DistributionMaker as Family
from fubini.distributions.families import family as family
from fubini.distributions.makers import family_names as family_names
from fubini.distributions.makers import maker_names
from fubini.distributions.markov_chain import Markov as Markov


def __getattr__(name: str) -> Family:
    if name.startswith("_"):
        raise AttributeError(name)
    return family(name)


def __dir__() -> list[str]:
    return sorted((*globals(), *maker_names()))
