"""Draws as users have them: ArviZ data, data sets of xarray, or arrays by name [chain, draw, …]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

LEADS = (("chain", "draw"), ("sample",), ("draw",))  # names of the axes in front, as ArviZ and xarray have them


def has_draws(draws: Any) -> bool:
    """Whether these are draws by name, as `infer` and samplers give them, and not how many to make."""
    return isinstance(draws, Mapping) or hasattr(draws, "posterior")


def group_of(draws: Any) -> Mapping[str, Any]:
    """The posterior group of ArviZ data (InferenceData, or from version 1 on DataTree), or arrays by name as they are.

    >>> list(group_of({"m": np.zeros((4, 100))}))
    ['m']
    """
    group = getattr(draws, "posterior", draws)
    return getattr(group, "dataset", group)  # of a DataTree


def is_labelled(draws: Any) -> bool:
    """Whether draws are those of ArviZ or xarray, which hold computed sites beside the latents."""
    return hasattr(draws, "posterior") or hasattr(draws, "data_vars")


def key_in(group: Mapping[str, Any], name: str) -> str | None:
    """The name under which draws of a latent are kept: a DataTree has dots for slashes."""
    return next((key for key in (name, name.replace("/", ".")) if key in group), None)


def draw_array(value: Any) -> np.ndarray:
    """An array [chain, draw, …]; where axes have names, those of draws in front."""
    dims = getattr(value, "dims", None)
    lead = () if dims is None else next((names for names in LEADS if set(names) <= set(dims)), ())
    if not lead:
        return np.asarray(value)
    array = np.asarray(value.transpose(*lead, ...))
    return array if len(lead) == 2 else array[None]


def arrays_of(draws: Any, names: Iterable[str]) -> Any:
    """Arrays of these latents by name, those that there are, of ArviZ data; what else was given as it is."""
    if not is_labelled(draws):
        return draws
    group = group_of(draws)
    keys = {name: key_in(group, name) for name in names}
    return {name: draw_array(group[key]) for name, key in keys.items() if key is not None}
