"""Distributions: every family of `numpyro.distributions`, with Values as parameters.

>>> from fubini import dist
>>> dist.Normal(0.0, 1.0)("x").inputs
{'x': Real}
"""

from fubini.dist import density_choice as density_choice
from fubini.dist import density_rules as density_rules
from fubini.dist.density import Density as Density
from fubini.dist.density import Distribution as Distribution
from fubini.dist.families import Family as Family
from fubini.dist.families import family as family
from fubini.dist.makers import family_names as family_names
from fubini.dist.makers import maker_names
from fubini.dist.markov import Markov as Markov


def __getattr__(name: str) -> Family:
    if name.startswith("_"):
        raise AttributeError(name)
    return family(name)


def __dir__() -> list[str]:
    return sorted((*globals(), *maker_names()))
