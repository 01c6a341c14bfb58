"""Distributions as bars of text: for people who would rather look than read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fubini.factors.table import Table
from fubini.terms.term import Name

BLOCKS = " ▏▎▍▌▋▊▉█"


def bar(share: float, width: int) -> str:
    """A share of the width, to an eighth of a character.

    >>> bar(0.5, 4)
    '██'
    """
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return ("█" * (eighths // 8) + BLOCKS[eighths % 8]).rstrip()


def distribution(name: Name, table: Table, width: int = 40) -> str:
    """The marginal of one variable, a line for each value.

    >>> from fubini.domains import Bint
    >>> print(distribution("rain", Table([0.75, 0.25], {"rain": Bint.labelled("dry", "wet")}), 8))
    rain
      dry  0.7500 ██████
      wet  0.2500 ██
    """
    domain = table.inputs[name]
    shares = np.exp(np.asarray(table.log().data))
    labels = [str(domain.label(index)) for index in range(len(shares))]
    longest = max(map(len, labels))
    lines = [
        f"  {label.ljust(longest)}  {share:.4f} {bar(share, width)}"
        for label, share in zip(labels, shares, strict=True)
    ]
    return "\n".join([str(name), *(line.rstrip() for line in lines)])


def distributions(marginals: Mapping[str, Table]) -> str:
    """Several marginals, one under the other."""
    return "\n".join(distribution(name, table) for name, table in marginals.items())
