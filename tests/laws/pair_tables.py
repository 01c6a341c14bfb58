"""Which pairs of representations have which sums and quotients in closed form, and the documented error of the others.

One letter for each pair, columns in the order of the rows. Where a letter no longer holds a test fails: a pair that is
closed now fails as one does that was.
"""

from __future__ import annotations

from fubini.errors import DataError, Intractable, NoRule

# Sums of a product of two, times a prior for each real variable.
#   .  over any names, against quadrature
#   x  over all names; over x alone, while the y or v of a Gaussian stays, it is the marginal of a truncated Gaussian
#   i  the integral over x has no closed form
#   2  a product of two point masses of x is not a factor
SUMS = {
    "table": ".",
    "diagram": "..",
    "sparse": "...",
    "train": "....",
    "log linear": ".....",
    "circuit": "......",
    "constrained circuit": ".......",
    "rank-deficient gaussian": "........",
    "batched gaussian": ".........",
    "array gaussian": "..........",
    "discrete delta": "...........",
    "real delta": "...........2",
    "delta at a discrete name": "...........22",
    "delta at a real name": "...........222",
    "atoms": "...........2222",
    "pieces": ".......xxx......",
    "half-lines": ".......xxx.......",
    "truncated gaussian": ".......xxx........",
    "mixture over a bound index": "...................",
    "gaussian plus delta": "...........2222....2",
    "normal density": "...............xxx...",
    "gamma density": "......................",
    "quadratic weight": "...............xxx.....",
    "quartic weight": "iiiiiiiiiii..i.iiiiiiiii",
    "unit of a real name": ".......................i.",
    "box": ".......................i..",
}

# Quotients of the row by the column.
#   .  a factor, which times the divisor is the dividend
#   0  the divisor is zero where the dividend is positive
#   +  a quotient by a sum of factors is not a sum of factors
#   d  a point mass of x is zero everywhere but at a point
#   m  the divisor has a density and a point mass at a point
#   n  a representation from outside the package, without a rule for it
QUOTIENTS = {
    "table": "......0...0ddd+0.0++.....n",
    "diagram": "......0...0ddd+0.0++.....n",
    "sparse": "......0...0ddd+0.0++.....n",
    "train": "......0...0ddd+0.0++.....n",
    "log linear": "......0...0ddd+0.0++.....n",
    "circuit": "......0...0ddd+0.0++.....n",
    "constrained circuit": "..........0ddd+0.0++.....n",
    "rank-deficient gaussian": "......0...0ddd+0.0++.....n",
    "batched gaussian": "......0...0ddd+0.0++.....n",
    "array gaussian": "......0...0ddd+0.0++.....n",
    "discrete delta": "......0....ddd+0.0++.....n",
    "real delta": "......0...0ddd...........n",
    "delta at a discrete name": "......0...0ddd0..0.......n",
    "delta at a real name": "......0...0ddd+0.0+m.....n",
    "atoms": "......0...0ddd+...++.....n",
    "pieces": "......0...0ddd+..0++.....n",
    "half-lines": "......0...0ddd+0.0++.....n",
    "truncated gaussian": "......0...0ddd+0..++.....n",
    "mixture over a bound index": "......0...0ddd+0.0++.....n",
    "gaussian plus delta": "......0...0ddd+0.0++.....n",
    "normal density": "......0...0ddd+0.0++.....n",
    "gamma density": "......0...0ddd+0.0++.....n",
    "quadratic weight": "......0...0ddd+0.0++.....n",
    "quartic weight": "......0...0ddd+0.0++.....n",
    "unit of a real name": "......0...0ddd+0.0++.....n",
    "box": "......0nnn0ddd+0.0++n.n...",
}

PAIRED = tuple(SUMS)
TWO_MEASURES = "a point mass outweighs any density"
ERRORS: dict[str, tuple[type, str]] = {
    "x": (Intractable, "stays: a truncated Gaussian's marginal is none"),
    "i": (Intractable, "the integral over '[xyv]'"),
    "2": (NoRule, "both fix 'x'"),
    "0": (DataError, "over zero|zero somewhere"),
    "+": (NoRule, "a quotient by a sum of factors is not a sum of factors"),
    "d": (NoRule, "a Delta over 'x' is zero everywhere but at a point"),
    "m": (Intractable, TWO_MEASURES),
    "n": (NoRule, "divide"),
}


def sum_letter(one: str, two: str) -> str:
    """The letter of the sums of a pair, in either order."""
    first, second = sorted((PAIRED.index(one), PAIRED.index(two)))
    return SUMS[PAIRED[second]][first]


def quotient_letter(one: str, two: str) -> str:
    """The letter of one over the other."""
    return QUOTIENTS[one][PAIRED.index(two)]
