"""A mixture as the Gaussian of the same mass, mean and covariance: the projection of expectation propagation."""

from __future__ import annotations

from fubini.approximate.moment_matching import project
from fubini.factors.fallbacks import combined
from fubini.factors.mixture import Mixture
from fubini.factors.promotion import is_open
from fubini.terms.exactness import projected
from fubini.terms.factor import Factor, Product
from fubini.terms.heads import exact_match


@exact_match.rule
def match_mixture(f: Mixture, names: tuple) -> Factor:
    """Σ_c w_c N(m_c, V_c)  →  w N(m, V)"""
    projection = project(f, names)
    return f if projection is None else projection._marked(projected("Gaussian"))


@exact_match.rule(when=lambda f, names: not any(map(is_open, f.terms)), overlaps=("match_tilted_gaussian",))
def match_product(f: Product, names: tuple) -> Factor:
    """the projection of the product, multiplied out"""
    joined = combined(f.terms)
    projection = project(joined, names)
    return joined if projection is None else projection._marked(projected("Gaussian"))
