"""A power of a quadratic form: what normal latents become when the scale they share is integrated out first.

∫ (s + |A x − b|²)^(−p) dx  =  π^(d/2) · Γ(p − d/2) / Γ(p) · |AᵀA|^(−1/2) · (s + min |A x − b|²)^(d/2 − p)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fubini.algebra.build import ONE, ZERO, add, call, const, divide, factors_in, minus, multiply, plus, scale, times
from fubini.algebra.features import NoClosedForm, Square, squares
from fubini.algebra.node import Index, Leaf, Node, node
from fubini.algebra.sums import total
from fubini.families.family import family_of, is_family
from fubini.families.functions import log_gamma
from fubini.families.signature import Recognised
from fubini.integrate.block import Block, row
from fubini.integrate.coupling import CoupledSquare, LatentLayout, layout_of
from fubini.integrate.elimination import Eliminated
from fubini.numerics.least_squares import Unknowns


class MixedMatrix(NamedTuple):
    """A matrix that the rows of normal latents are scaled by, and what it is distributed as at indices."""

    leaf: Leaf
    at: tuple[Index, ...]
    distribution: Recognised


class Student(NamedTuple):
    """The remaining terms, and the problem that gives location and precision; df and the scale of the precision."""

    terms: tuple[Node, ...]
    latents: tuple[Leaf, ...]
    layout: LatentLayout
    rows: tuple[Node, ...]
    df: Node
    spread: Node  # s + min |A x − b|²
    mixed: MixedMatrix | None = None  # integrated over; the rows are read where it is the scale of Student's t


def eliminated_power(terms: Sequence[Node], latent: Leaf) -> Student:
    """log ∫ exp(Σ terms) d latent, where the latent is in one term, −p log(quadratic)."""
    rest = tuple(term for term in terms if latent not in term.leaves)
    with_latent = add((term, 1.0) for term in terms if latent in term.leaves)
    exponent, form, outside = _power_of(with_latent, latent)
    squared, constant = _quadratic(form, latent)
    layout = layout_of(squared, (latent,))
    if layout.independent:  # one power for all entries: they share it, though no row touches two
        layout = LatentLayout((), Unknowns(None, layout.size), (), {latent: 0}, False)
    rows = tuple(row(square, {}, layout) for square in squared)
    d = layout.size
    spread = plus(constant, node("rss", layout.frame, *rows))
    lower = minus(exponent, scale(0.5 * d, ONE))
    value = add(
        (
            (ONE, 0.5 * d * math.log(math.pi)),
            (log_gamma(lower), 1.0),
            (call("lgamma", exponent), -1.0),
            (node("logdet", layout.frame, *rows), -0.5),
            (times(lower, call("log", spread)), -1.0),
        )
    )
    remaining = (*rest, *([outside] if outside is not ZERO else []), value)
    return Student(remaining, (latent,), layout, rows, scale(2.0, lower), spread)


def scale_distribution(block: Block, latent: Leaf, distribution: Recognised) -> tuple[Node, Node] | None:
    """Shape and rate of the precision that multiplies a block, where it is a Gamma: a power of another latent."""
    gamma_of_power = family_of(distribution.family).gamma_of_power if is_family(distribution.family) else None
    if gamma_of_power is None or latent.shape:
        return None
    shape, rate, exponent = gamma_of_power(distribution.parameters)
    return (shape, rate) if list(factors_in(block.scale)) == [(node("get", latent), exponent)] else None


def mixed_over_matrix(block: Block, latent: Leaf, matrix: Eliminated) -> Student | None:
    """A normal vector whose covariance is a Wishart or inverse-Wishart matrix, integrated over that.

    ∫ N(m, S/w) p(S) dS  =  t(m, scale Ψ / (w (ν − p + 1)), ν − p + 1 degrees of freedom),  S ~ InverseWishart(ν, Ψ)
    """
    distribution = matrix.distribution
    record = family_of(distribution.family) if is_family(distribution.family) else None
    is_vector = len(block.latents) == 1 and block.latents[0].shape == latent.shape[-1:]
    if record is None or record.student_matrix is None or not is_vector or len(latent.shape) != 2:
        return None
    if latent in block.scale.leaves or not block.is_of_shared_root:
        return None
    df = minus(distribution.parameters["concentration"], const(latent.shape[-1] - 1.0))
    mixed = MixedMatrix(latent, matrix.at, distribution)
    return Student(matrix.terms, block.latents, block.layout, block.rows, df, divide(df, block.scale), mixed)


def _power_of(with_latent: Node, latent: Leaf) -> tuple[Node, Node, Node]:
    """p, Q and r of −p log Q + r"""
    parts = list(with_latent.args) if with_latent.kind == "add" else [(with_latent, 1.0)]
    inside = [(part, c) for part, c in parts if latent in part.leaves]
    if len(inside) == 1:
        part, coefficient = inside[0]
        factors = list(factors_in(part))
        logs = [base for base, power in factors if latent in base.leaves and power == 1]
        if len(logs) == 1 and logs[0].kind == "call" and logs[0].args[0] == "log":
            others = [(base, power) for base, power in factors if base is not logs[0]]
            if not any(latent in base.leaves for base, _ in others):
                from_others = multiply(others)
                return scale(-coefficient, from_others), logs[0].args[1], add(p for p in parts if p not in inside)
    raise NoClosedForm(latent, with_latent, "a power of a quadratic form of it")


def _quadratic(form: Node, latent: Leaf) -> tuple[list[CoupledSquare], Node]:
    squared: list[CoupledSquare] = []
    constant: list[tuple[Node, float]] = []
    for part in squares(form, latent):
        if any(i.size == 0 for i in part.over):
            continue  # a sum of nothing
        if isinstance(part, Square):
            slopes = tuple((latent, slope) for slope in part.slopes)
            squared.append(CoupledSquare(part.over, scale(-0.5, part.weight), slopes, part.offset))
        elif part.features:
            raise NoClosedForm(latent, form, "squares alone inside the power")
        else:
            constant.append((total(part.over, part.coefficient), 1.0))
    if not squared:
        raise NoClosedForm(latent, form, "a quadratic form of it")
    return squared, add(constant)
