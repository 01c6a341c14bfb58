"""Names and values that are asked for: remaining sites, parameters within their constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jax.core import eval_context

from fubini.algebra.node import Leaf
from fubini.base.arrays import Data, double_precision
from fubini.distributions.parameter_checks import satisfied, shown
from fubini.errors import UnknownName, closest, listed
from fubini.models.flavour import Flavour
from fubini.models.reading import Reading


def required(name: str, joint: Flavour, among: Iterable[str] | None = None) -> str:
    """Return the name of a free site, or raise."""
    free = tuple(joint.outline.free) if among is None else tuple(among)
    if name not in free:
        seen, gone = name in getattr(joint, "observed", {}), name in joint.outline.free
        why = ", which is observed" if seen else ", which is eliminated already" if gone else ""
        raise UnknownName(
            f"the site {name!r}{why}",
            expected=f"a remaining site: {listed(free)}" if free else "none, as no site remains",
            nearest="" if why else closest(name, free),
        )
    return name


def require_allowed(reading: Reading, values: Mapping[str, Data]) -> None:
    """Raise where a parameter leaves its constraint at values of the latents."""
    for mark, array, _ in reading.reader.marks:
        if all(leaf.name in values for leaf in _sites_in(array, reading)):
            with double_precision(), eval_context():
                numbers = np.asarray(reading.arrays(values).whole(array))
            if not np.all(satisfied(mark.requirement.constraint, numbers)):
                raise mark.requirement.error(shown(numbers))


def _sites_in(array: Any, reading: Reading) -> set[Leaf]:
    return set(reading.reader.leaves_of(array)) & set(reading.sites.values())
