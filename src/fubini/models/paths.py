"""Values and sites of nested joints by path: "inner.x"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fubini.models.sample import Run, Site


def nested(paths: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a dict by path into a dict of dicts.

    >>> nested({"a": 1, "inner.x": 2})
    {'a': 1, 'inner': {'x': 2}}
    """
    values: dict[str, Any] = {}
    for path, value in paths.items():
        *outer, name = path.split(".")
        place = values
        for part in outer:
            place = place.setdefault(part, {})
        place[name] = value
    return values


def flat(values: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Convert a dict of dicts to values by path.

    >>> flat({"a": 1, "inner": {"x": 2}})
    {'a': 1, 'inner.x': 2}
    """
    by_path: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            by_path.update(flat(value, f"{path}{name}."))
        else:
            by_path[f"{path}{name}"] = value
    return by_path


def flat_sites(run: Run, path: str = "") -> dict[str, Site]:
    """The sites of a run by path, in order."""
    sites: dict[str, Site] = {}
    for site in run.sites:
        if site.inner is not None:
            sites.update(flat_sites(site.inner, f"{path}{site.name}."))
        else:
            sites[f"{path}{site.name}"] = site
    return sites
