"""Quotients of Gaussian carries: what later steps say of a state that the earlier ones do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.mixture_moments import components
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.factors.table_rules import divide_tables, multiply_tables
from fubini.factors.tally import note_replaced
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic
from fubini.numerics.quadratic_algebra import canonical
from fubini.numerics.quadratic_elimination import root
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Factor
from fubini.terms.heads import DIVIDE


class Quotient(NamedTuple):
    """later / after, the quotient of their masses, and the share that each state has of the later mass."""

    ratio: Factor
    masses: Factor
    shares: Factor

    def mapped(self, change: Callable[[Factor], Factor]) -> Quotient:
        """The same over other names."""
        return Quotient(*map(change, self))


def quotient(later: Factor, after: Factor, states: Sequence[Name]) -> Quotient:
    """later / after, both over the same names, some of which are states."""
    ratio = interpret(DIVIDE, later, after)
    assert isinstance(ratio, Gaussian), "a quotient of Gaussians is one"
    mass = mass_of(later)
    finite = [name for name in states if name in mass.inputs]
    return Quotient(ratio, divide_tables(mass, mass_of(after)), mass.normalize(*finite) if finite else Table(1.0))


def mass_of(f: Factor) -> Table:
    """∫ f over its real variables."""
    reals = [name for name, domain in f.inputs.items() if not domain.is_finite]
    mass = promoted(f.sum(*reals))
    assert isinstance(mass, Table), "all that is left is bounded integers"
    return mass


def kept_mass(f: Factor, mass: Factor) -> Table:
    """What f is multiplied by to have this mass over some of its bounded integers; 0 where it has none."""
    own = mass_of(f)
    others = [name for name in own.inputs if name not in mass.inputs]
    total = promoted(own.sum(*others)) if others else own
    assert isinstance(total, Table) and isinstance(mass, Table), "both are over bounded integers"
    some = Table._of(Scaled((total.pair.weights > 0) * 1.0, 0.0), total.inputs)
    return divide_tables(multiply_tables(mass, some), total)


def where_definite(divided: Quotient, earlier: Factor) -> Gaussian:
    """The quotient where its product with what is known earlier is a proper Gaussian; elsewhere that of the masses.

    Those replaced are counted, where the state has a share of the mass that is more than rounding.
    """
    ratio, masses, shares = divided
    assert isinstance(ratio, Gaussian) and isinstance(masses, Table) and isinstance(shares, Table)
    form, log, log_names = canonical(ratio.quadratic)
    scale = shifted(ratio.scale, log, log_names, ratio.inputs)
    names = form.matrix_names
    ok = align(scale.pair.weights > 0, scale.names, names)
    share, log_share = _full(shares, names, ratio.inputs)
    some = ok & (share * jnp.exp(log_share) > jnp.finfo(share.dtype).eps)
    for part, _ in components(promoted(earlier)):
        own = promoted(part.parts) if isinstance(part, Piecewise) else part
        assert isinstance(own, Gaussian), "what is summed over is Gaussian in each box"
        ok = ok & _definite(own, form, names)
    note_replaced(jnp.sum(some & ~ok))
    return _chosen(ratio, Quadratic(*form), scale, masses, ok, names)


def _definite(own: Gaussian, form: Quadratic, names: tuple[Name, ...]) -> Data:
    """Whether the precisions add up to one that is positive definite, for each cell of the names."""
    precision = own.precision
    every = (*names, *(name for name in precision.names if name not in names))
    total = align(form.matrix, names, every, 2) + align(precision.array, precision.names, every, 2)
    _, ok = root(total)
    return jnp.all(ok, axis=tuple(range(len(names), len(every))))


def _chosen(
    ratio: Gaussian, form: Quadratic, scale: Table, masses: Table, ok: Data, names: tuple[Name, ...]
) -> Gaussian:
    vector = jnp.where(ok[..., None], align(form.vector, form.vector_names, names, 1), 0.0)
    matrix = jnp.where(ok[..., None, None], form.matrix, 0.0)
    inputs = {name: ratio.inputs[name] for name in names}
    kept = [_full(table, names, ratio.inputs) for table in (scale, masses)]
    pair = [jnp.where(ok, one, other) for one, other in zip(*kept, strict=True)]
    made = Table._of(Scaled(pair[0], pair[1]), inputs)
    return Gaussian._of(made, Quadratic(vector, names, matrix, names, False), ratio.reals, inputs)


def _full(table: Table, names: tuple[Name, ...], inputs: dict) -> tuple[Data, Data]:
    pair = table.aligned(names)
    shape = tuple(inputs[name].extent for name in names)
    return jnp.broadcast_to(pair.weights, shape), jnp.broadcast_to(pair.shift, shape)
