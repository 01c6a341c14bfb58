"""Which distributions have draws that are smooth functions of their parameters."""

from __future__ import annotations

from fubini.distributions.blueprint import Blueprint
from fubini.distributions.makers import maker_of

# Families whose samplers cannot be differentiated twice, or not at all: their draws are constants, weighted.
IMPLICIT = frozenset(
    (
        *("Beta", "BetaProportion", "Chi2", "Dirichlet", "Gamma", "InverseGamma", "LKJ", "LKJCholesky"),
        *("StudentT", "MultivariateStudentT", "VonMises", "Wishart", "WishartCholesky"),
    )
)


# Functions of numpyro that make a distribution whose draws are smooth, though they are no class to say so.
SMOOTH = frozenset(("TruncatedCauchy", "TruncatedNormal"))


def has_smooth_draws(blueprint: Blueprint) -> bool:
    """A draw can be differentiated with respect to the parameters, twice."""
    if blueprint.family in IMPLICIT:
        return False
    if blueprint.family in SMOOTH:
        return True
    inner = [part for part in blueprint.inner if part is not None]
    family = maker_of(blueprint.family)
    known = set(getattr(family, "reparametrized_params", None) or ())
    return (bool(known) or bool(inner)) and all(map(has_smooth_draws, inner))
