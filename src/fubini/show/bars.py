"""Distributions as bars of text: for people who would rather look than read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fubini.base.names import Name
from fubini.errors import Intractable, escaped
from fubini.terms.factor import Factor
from fubini.terms.value import Array, to_array

BLOCKS = " ▏▎▍▌▋▊▉█"
RISING = "▁▂▃▄▅▆▇█"


def bar(share: float, width: int) -> str:
    """A share of the width, to an eighth of a character.

    >>> bar(0.5, 4)
    '██'
    """
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    return ("█" * (eighths // 8) + BLOCKS[eighths % 8]).rstrip()


def distribution(name: Name, factor: Factor, width: int = 40) -> str:
    """The marginal of one variable: a line for each value, or mean, deviation and outline of a real number.

    >>> from fubini.base.domains import Bint
    >>> print(distribution("rain", fb.Table([0.75, 0.25], {"rain": Bint.labelled("dry", "wet")}), 8))
    rain
      dry  0.7500 ██████
      wet  0.2500 ██
    >>> print(distribution("height", fb.dist.Normal(170.0, 10.0)("height"), 16))
    height
      170 ± 10  from 140 to 200: ▁▁▁▂▄▅▇██▇▅▄▂▁▁▁
    """
    domain = factor.inputs[name]
    if not domain.is_finite:
        return f"{escaped(str(name))}\n{_outline(name, factor, width)}"
    shares = np.exp(np.asarray(factor.log().data))
    labels = [escaped(str(domain.label(index))) for index in range(len(shares))]
    longest = max(map(len, labels))
    lines = [
        f"  {label.ljust(longest)}  {share:.4f} {bar(share, width)}"
        for label, share in zip(labels, shares, strict=True)
    ]
    return "\n".join([escaped(str(name)), *(line.rstrip() for line in lines)])


def _outline(name: Name, factor: Factor, width: int) -> str:
    """Mean ± deviation, and the density over three deviations on either side as a row of blocks."""
    if factor.inputs[name].shape:
        mean, deviation = np.asarray(factor.mean(name)), np.sqrt(np.asarray(factor.variance(name)))
        return f"  {np.array2string(mean, precision=4)} ± {np.array2string(deviation, precision=4)}"
    mean, deviation = float(factor.mean(name)), float(factor.variance(name)) ** 0.5
    summary = f"  {mean:.6g} ± {deviation:.4g}"
    low, high = mean - 3 * deviation, mean + 3 * deviation
    try:
        density = np.exp(
            np.asarray(to_array(factor({name: Array(np.linspace(low, high, width), ("at",))}).log()).array)
        )
    except Intractable:  # a point mass among densities: no curve to draw
        return f"{summary}, with mass at a point"
    heights = np.ceil(density / density.max() * 8).astype(int).clip(1, 8)
    return f"{summary}  from {low:.6g} to {high:.6g}: {''.join(RISING[height - 1] for height in heights)}"


def distributions(marginals: Mapping[str, Factor]) -> str:
    """Several marginals, one under the other."""
    return "\n".join(distribution(name, factor) for name, factor in marginals.items())
