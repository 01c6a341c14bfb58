"""Several variables that are one Student's t: the first, and each given those before it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from fubini.base import ops
from fubini.base.arrays import Data, namespace
from fubini.base.domains import Domain, Reals
from fubini.base.names import Name
from fubini.distributions.density import Density, Distribution
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor
from fubini.terms.operators import matmul
from fubini.terms.value import Array, Value, Variable


def students_in_turn(df: Data, loc: Data, scale: Data, domains: Mapping[Name, Domain], mark: Exactness) -> list[Factor]:
    """p(x) p(y | x) …,  y | x  ~  t_{ν+d}(m_y + B (x − m_x), (ν + δ)/(ν + d) (S_yy − B S_xy)),  B = S_yx S_xx⁻¹

    δ = (x − m_x)ᵀ S_xx⁻¹ (x − m_x), d the length of x (Ding 2016, On the conditional distribution of the t).
    """
    parts, start, before = [], 0, {}
    for name, domain in domains.items():
        place = slice(start, start + math.prod(domain.shape))
        parts.append(_given(df, loc, scale, Variable(name, domain), place, before, mark))
        before[Variable(name, domain)] = place
        start = place.stop
    return parts


def student_of_vector(df: Array, loc: Array, scale: Array, name: Name) -> Factor:
    """t_ν(m, S) of one vector, from the matrix of its scale."""
    root = Array(namespace(scale.array).linalg.cholesky(scale.array), scale.names)
    distribution = Distribution("MultivariateStudentT", {"df": df, "loc": loc, "scale_tril": root})
    return Density(distribution, Variable(name, Reals[loc.output.shape[0]]))


def _given(
    df: Data, loc: Data, scale: Data, y: Variable, own: slice, before: Mapping[Variable, slice], mark: Exactness
) -> Factor:
    xp = namespace(df, loc, scale)
    centre, spread, wrap = loc[own], scale[own, own], _marking(mark)
    count = own.start
    is_vector = bool(y.output.shape)
    if not count:
        return _student(wrap(df), wrap(centre if is_vector else centre[0]), spread, wrap(xp.ones(())), y, wrap)
    gain = xp.linalg.solve(scale[:count, :count], scale[:count, own]).T
    mean: Value = wrap(centre if is_vector else centre[0])
    for x, place in before.items():
        gap = x - wrap(loc[place] if x.output.shape else loc[place][0])
        mean = mean + _times(wrap, gain[:, place], gap, is_vector)
    root = xp.linalg.cholesky(xp.linalg.inv(scale[:count, :count]))
    distance: Value = _squared(before, root, loc, wrap)
    ratio = (distance + wrap(df)) / wrap(df + count)
    return _student(wrap(df + count), mean, spread - gain @ scale[:count, own], ops.sqrt(ratio), y, wrap)


def _squared(before: Mapping[Variable, slice], root: Data, loc: Data, wrap: Callable[[Data], Array]) -> Value:
    """(x − m)ᵀ R Rᵀ (x − m), as a sum of the squares of Rᵀ (x − m)"""
    total: Value = wrap(namespace(root).zeros(()))
    for row in range(root.shape[0]):
        score: Value = wrap(namespace(root).zeros(()))
        for x, place in before.items():
            gap = x - wrap(loc[place] if x.output.shape else loc[place][0])
            score = score + _times(wrap, root[place, row][None, :], gap, False)
        total = total + score * score
    return total


def _times(wrap: Callable[[Data], Array], matrix: Data, x: Value, is_vector: bool) -> Value:
    """A x of a matrix, a row where the result is a number, a column where x is one."""
    if not x.output.shape:
        return wrap(matrix[:, 0] if is_vector else matrix[0, 0]) * x
    return matmul(wrap(matrix if is_vector else matrix[0]), x)


def _student(df: Array, mean: Value, spread: Data, ratio: Value, y: Variable, wrap: Callable[[Data], Array]) -> Factor:
    xp = namespace(spread)
    if not y.output.shape:
        return Density(
            Distribution("StudentT", {"df": df, "loc": mean, "scale": ratio * wrap(xp.sqrt(spread[0, 0]))}), y
        )
    root = wrap(xp.linalg.cholesky(spread))
    return Density(Distribution("MultivariateStudentT", {"df": df, "loc": mean, "scale_tril": ratio * root}), y)


def _marking(mark: Exactness) -> Callable[[Data], Array]:
    return lambda data: Array(data)._marked(mark)
