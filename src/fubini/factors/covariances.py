"""Covariances of the numbers of several variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, reduce

import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, namespace
from fubini.base.domains import Real
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture, mixture, share_of
from fubini.factors.table import Table
from fubini.terms.factor import Factor
from fubini.terms.heads import COVARY, EXPECT, exact_covary
from fubini.terms.value import Array, Value, Variable, apply

MOST = 64  # pairs of numbers whose products are averaged one by one


@exact_covary.rule(when=lambda f, rows, columns: all(name in dict(f.reals) for name in (*rows, *columns)))
def covary_gaussian(f: Gaussian, rows: tuple, columns: tuple) -> Value:
    """(K⁻¹) of these variables, given the others"""
    names = _united(rows, columns)
    conditional = f.conditional(*names)
    return _block(f, names, rows, columns, conditional.covariance, conditional.names)


@exact_covary.rule
def covary_table(f: Table, rows: tuple, columns: tuple) -> Value:
    """Σ p(x) (x − E x)(x − E x)ᵀ"""
    names = _united(rows, columns)
    others = tuple(name for name in f.names if name not in names)
    table = f.transposed((*others, *names)).normalized(names)
    sizes = [f.inputs[name].extent for name in names]
    points = np.stack(np.meshgrid(*map(np.arange, sizes), indexing="ij"), -1).reshape(-1, len(names)) * 1.0
    xp = namespace(table.weights)
    weights = table.weights.reshape((*table.weights.shape[: len(others)], len(points)))
    gap = points - xp.expand_dims(weights @ points, -2)
    return _block(f, names, rows, columns, xp.swapaxes(gap, -1, -2) @ (weights[..., None] * gap), others)


@exact_covary.rule
def covary_mixture(f: Mixture, rows: tuple, columns: tuple) -> Value:
    """Σ_c share_c (V_c + (m_c − m)(m_c − m)ᵀ)"""
    names = _united(rows, columns)
    parts = [component._joined() for component in f.components]
    masses = [part.sum(*names)._joined() for part in parts]
    total = mixture(masses, f.bounds)
    shares = [share_of(mass, total) for mass in masses]
    gaps = [_gaps(f, parts, shares, names, asked) for asked in (rows, columns)]
    spread = [
        f._averaged(share, interpret(COVARY, part, rows, columns) + apply(_outer, row, column))
        for part, share, row, column in zip(parts, shares, *gaps, strict=True)
    ]
    return reduce(ops.add, spread)


def _gaps(
    f: Mixture, parts: Sequence[Factor], shares: Sequence[Value], names: Sequence[Name], asked: Sequence[Name]
) -> list[Value]:
    """m_c − m of the numbers that are asked for."""
    means = [apply(_end_to_end, *(_mean(part, name, names) for name in asked)) for part in parts]
    mean = reduce(ops.add, map(f._averaged, shares, means))
    return [own - mean for own in means]


def _mean(part: Factor, name: Name, names: Sequence[Name]) -> Value:
    others = [other for other in names if other != name and other in part.inputs]
    return (part.sum(*others) if others else part)._joined().mean(name)


@exact_covary.rule
def covary_other(f: Factor, rows: tuple, columns: tuple) -> Value:
    """V[x] of one variable; E[x yᵀ] − E[x] E[y]ᵀ, number by number, of several"""
    names = _united(rows, columns)
    if len(names) == 1:
        size = math.prod(f.inputs[names[0]].shape)
        return apply(_as_matrix(size), f.covariance(names[0]))
    across, down = _numbers(f, rows), _numbers(f, columns)
    if len(across) * len(down) > MOST:
        raise _no_covariance(f, names, f"these have {len(across) * len(down):,} pairs of numbers")

    def average(value: Value) -> Value:
        return interpret(EXPECT, f, value, names)

    try:
        means = [apply(_end_to_end, *map(average, numbers)) for numbers in (across, down)]
        products = apply(_end_to_end, *(average(x * y) for x in across for y in down))
    except (Intractable, NoRule) as error:
        raise _no_covariance(f, names, str(error).splitlines()[0]) from error
    return apply(_less_the_product, products, *means)


def _numbers(f: Factor, names: Sequence[Name]) -> list[Value]:
    variables = [Variable(name, f.inputs[name]) for name in names]
    return [_entry(variable, at) for variable in variables for at in np.ndindex(variable.output.shape)]


def _united(rows: Sequence[Name], columns: Sequence[Name]) -> tuple[Name, ...]:
    return tuple(dict.fromkeys((*rows, *columns)))


def _block(
    f: Factor, names: Sequence[Name], rows: Sequence[Name], columns: Sequence[Name], matrix: Data, axes: Sequence[Name]
) -> Value:
    """The rows and columns of some names in the matrix of all of them."""
    sizes = [math.prod(f.inputs[name].shape) for name in names]
    ends = np.cumsum(sizes)
    at = {name: range(end - size, end) for name, end, size in zip(names, ends, sizes, strict=True)}
    row, column = ([place for name in asked for place in at[name]] for asked in (rows, columns))
    data = matrix[..., row, :][..., :, column]
    return Array._of(data, tuple(axes), f.inputs, Real[len(row), len(column)], f.exactness)


def _entry(variable: Variable, at: tuple[int, ...]) -> Value:
    return variable[at] if at else variable


def _no_covariance(f: Factor, names: Sequence[Name], why: str) -> Intractable:
    return Intractable(
        f"the covariance of {listed(names)} under {f}",
        expected="tables, Gaussians, mixtures of these, or conditionals whose means are affine in the others",
        nearest=why,
        advice="draws have one: np.cov of f.sample(key, n=10_000)",
    )


# -- arrays -----------------------------------------------------------------------------------------------------------


@ops.lift
def _end_to_end(*parts: Data) -> Data:
    return jnp.concatenate([jnp.reshape(part, -1) for part in parts])


@ops.lift
def _outer(rows: Data, columns: Data) -> Data:
    return rows[:, None] * columns[None, :]


@ops.lift
def _less_the_product(products: Data, rows: Data, columns: Data) -> Data:
    return products.reshape(rows.size, columns.size) - rows[:, None] * columns[None, :]


@lru_cache(maxsize=256)
def _as_matrix(size: int) -> ops.Op:
    return ops.lift(lambda covariance: jnp.reshape(covariance, (size, size)))
