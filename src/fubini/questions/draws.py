"""What a sampler drew: arrays by name, [chain, draw, …]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fubini.errors import NameClash, listed
from fubini.questions.draw_diagnostics import arviz
from fubini.questions.posterior_summary import ENTRIES, summarise
from fubini.show.printed_form import Block, Shown


def arviz_data(
    groups: Mapping[str, Mapping[str, Any]],
    dims: Mapping[str, Sequence[str]] | None,
    coords: Mapping[str, Sequence[Any]] | None,
    **attributes: Any,
) -> Any:
    """Groups of arrays in the container of the installed ArviZ: InferenceData, or from version 1 on DataTree.

    A DataTree has no names with a slash, which NumPyro puts between a scope and a site: a dot stands there instead.
    """
    module = arviz()
    axes = {name: list(names) for name, names in (dims or {}).items()}
    labels = dict(coords) if coords else None
    if int(module.__version__.split(".")[0]) >= 1:
        named = {group: dotted(values) for group, values in groups.items()}
        data = module.from_dict(named, dims=dotted(axes) or None, coords=labels)
    else:
        data = module.from_dict(**groups, dims=axes or None, coords=labels)
    for group in groups:
        data[group].attrs.update(inference_library="fubini")
    data[next(iter(groups))].attrs.update(attributes)
    return data


def dotted(values: Mapping[str, Any]) -> dict[str, Any]:
    """The same by names without slashes."""
    dotted = {name.replace("/", "."): value for name, value in values.items()}
    if len(dotted) < len(values):
        raise NameClash(
            f"ArviZ data of the sites {listed(values)}",
            expected="names that still differ when a dot stands for each slash",
            advice="rename one of the sites",
        )
    return dotted


class Draws(dict[str, np.ndarray], Shown):
    """Draws by name; printed as a summary.

    >>> Draws(x=np.array([[1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]]))
    2 chains of 4 draws
       mean     sd    5%   95%  ESS  R-hat
    x     3  1.309  1.35  4.65    7  1.889
    """

    __repr__ = Shown.__repr__

    def _form(self) -> Iterable[Block]:
        return summarise(self, ENTRIES)._form()

    def to_arviz(
        self, dims: Mapping[str, Sequence[str]] | None = None, coords: Mapping[str, Sequence[Any]] | None = None
    ) -> Any:
        """As ArviZ data."""
        return arviz_data({"posterior": self}, dims, coords, method="gibbs")
