"""Factors over real variables as they are printed: what they are, and the moments of each variable."""

from __future__ import annotations

from fubini.base.arrays import is_traced
from fubini.base.interpretations import exact
from fubini.base.names import Name
from fubini.errors import FubiniError
from fubini.terms.factor import Factor


def with_moments(factor: Factor) -> str:
    """A line for the factor and one for each real variable, with its mean and standard deviation where there are any.

    >>> print(with_moments(fb.dist.MultivariateNormal(np.array([1.0, 2.0]), np.diag([4.0, 9.0]))("x")._joined()))
    Gaussian(x: Reals[2])
      x: mean [1, 2], sd [2, 3]
    """
    lines = [f"{factor}"]
    if is_traced(*factor.leaves()):
        return lines[0]
    try:
        with exact:
            lines.extend(_line(factor, name) for name, domain in factor.inputs.items() if not domain.is_discrete)
    except FubiniError:  # an improper factor, or one returned from vmap, has no moments
        return lines[0]
    return "\n".join(lines)


def _line(factor: Factor, name: Name) -> str:
    others = [other for other, domain in factor.inputs.items() if other != name and not domain.is_discrete]
    alone = factor.sum(*others) if others else factor
    return f"  {name}: mean {alone.mean(name)}, sd {alone.variance(name) ** 0.5}"
