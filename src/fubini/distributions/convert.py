"""From numpyro's distribution objects to records."""

from __future__ import annotations

import inspect
from typing import Any

import numpyro.distributions as numpyro_families

from fubini.distributions.density import STATIC, Distribution, foreign, has_traced_setting, spread
from fubini.distributions.makers import maker_names, maker_of
from fubini.distributions.same_distribution import named_family
from fubini.errors import DataError, FubiniError


def from_numpyro_distribution(numpyro_distribution: Any) -> Distribution:
    """The record of a numpyro distribution: by family and parameters, or, of one we do not know, by its leaves.

    >>> from_numpyro_distribution(numpyro_families.Normal(0.0, 1.0)).family
    'Normal'
    """
    if (same := named_family(numpyro_distribution)) is not None:
        return spread(Distribution(*same), numpyro_distribution.shape(), len(numpyro_distribution.event_shape))
    name = type(numpyro_distribution).__name__
    if name in maker_names() and maker_of(name) is type(numpyro_distribution):
        given = arguments_of(numpyro_distribution)
        settings = {key: value for key, value in (given or {}).items() if key in STATIC}
        if given is not None and not has_traced_setting(settings):
            try:
                return Distribution(name, given)
            except DataError:
                raise  # parameters that the family does not allow
            except (FubiniError, TypeError):
                pass  # arguments that are not kept under their own names
    return foreign(numpyro_distribution)


def arguments_of(numpyro_distribution: Any) -> dict[str, Any] | None:
    """The arguments that made it, where it keeps them all."""
    given = {}
    kept = _kept(numpyro_distribution)
    for key, parameter in inspect.signature(type(numpyro_distribution)).parameters.items():
        if key == "validate_args":
            continue
        value = kept.get(key, kept.get(f"_{key}"))
        if value is None and parameter.default is inspect.Parameter.empty:
            return None
        if value is None and parameter.default is not None:  # kept as a property, as the event_dim of a Delta is
            value = getattr(numpyro_distribution, key, None)
        if isinstance(value, numpyro_families.Distribution):
            value = from_numpyro_distribution(value)
        if value is not None:
            given[key] = value
    return _one_matrix(given)


def _kept(numpyro_distribution: Any) -> dict[str, Any]:
    """What a distribution keeps; a Wishart matrix, by its Cholesky factor, which keeps the parameters."""
    is_matrix = type(numpyro_distribution) in (numpyro_families.Wishart, numpyro_families.InverseWishart)
    return (numpyro_distribution.base_dist if is_matrix else numpyro_distribution).__dict__


def _one_matrix(given: dict[str, Any]) -> dict[str, Any]:
    """A family by the matrix that it was given: numpyro keeps the root of it too."""
    matrices = ("covariance_matrix", "precision_matrix", "scale_matrix", "rate_matrix")
    roots = [key for key in matrices if key in given]
    return {key: value for key, value in given.items() if not roots or key not in (*roots[1:], "scale_tril")}
