"""Bounds of whole numbers that a density of theirs says: there are finitely many."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from fubini.arrays import is_traced
from fubini.dist.density import Density, Distribution
from fubini.terms.factor import Factor, terms_of
from fubini.terms.term import Name
from fubini.terms.value import Array, Variable

OUTER = ("ExpandedDistribution", "Independent", "PowerDistribution")


def base_of(source: Distribution) -> Distribution:
    """A distribution without its expansions and powers."""
    inner = source.args[0] if source.family in OUTER else None
    return base_of(inner) if isinstance(inner, Distribution) else source


def known_bounds(f: Factor) -> dict[Name, tuple[float, float]]:
    """The least and greatest value of variables that are uniform over whole numbers between known ends."""
    bounds: dict[Name, tuple[float, float]] = {}
    for term in terms_of(f):
        if isinstance(term, Density) and isinstance(term.value, Variable) and not term.value.output.is_finite:
            ends = _ends(base_of(term.distribution))
            if ends is not None:
                bounds[term.value.name] = ends
    return bounds


def _ends(base: Distribution) -> tuple[float, float] | None:
    if base.family != "DiscreteUniform":
        return None
    parameters = {**dict(base.statics), **dict(zip(base.keys, base.args, strict=True))}
    low, high = (_whole_numbers(parameters.get(key)) for key in ("low", "high"))
    return None if low is None or high is None else (float(low.min()), float(high.max()))


def _whole_numbers(value: Any) -> np.ndarray | None:
    """Those that are known; the range of other numbers is no part of what a plan is found again by."""
    data = value.array if isinstance(value, Array) else value
    is_known = isinstance(data, (int, np.generic, np.ndarray, jax.Array)) and not is_traced(data)
    numbers = np.asarray(data) if is_known else None
    return numbers if numbers is not None and (numbers.dtype.kind in "iu" or not numbers.ndim) else None
