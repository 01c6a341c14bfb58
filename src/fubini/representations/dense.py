"""Dense: factors as they are."""

from __future__ import annotations

from fubini.factors.represent import Representation


class Dense(Representation):
    """Tables of all entries, and Gaussians: what factors are where nothing else is named.

    >>> fb.rep.Dense()
    Dense()
    """

    def __repr__(self) -> str:
        return "Dense()"
