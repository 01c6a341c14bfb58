"""Quotients of Gaussian carries: what later steps say of a state that the earlier ones do not."""

from __future__ import annotations

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
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic
from fubini.numerics.quadratic_algebra import canonical
from fubini.numerics.quadratic_elimination import root
from fubini.numerics.scaled import Scaled
from fubini.terms.factor import Factor
from fubini.terms.heads import DIVIDE


def quotient(later: Factor, after: Factor) -> tuple[Gaussian, Table]:
    """later / after, and the quotient of their masses; both over the same names."""
    ratio = interpret(DIVIDE, later, after)
    assert isinstance(ratio, Gaussian), "a quotient of Gaussians is one"
    return ratio, divide_tables(mass_of(later), mass_of(after))


def mass_of(f: Factor) -> Table:
    """∫ f over its real variables."""
    reals = [name for name, domain in f.inputs.items() if not domain.is_finite]
    mass = promoted(f.sum(*reals))
    assert isinstance(mass, Table), "all that is left is bounded integers"
    return mass


def kept_mass(f: Factor, mass: Table) -> Table:
    """What f is multiplied by to have this mass over some of its bounded integers; 0 where it has none."""
    own = mass_of(f)
    others = [name for name in own.inputs if name not in mass.inputs]
    total = promoted(own.sum(*others)) if others else own
    assert isinstance(total, Table), "a sum of a table is one"
    some = Table._of(Scaled((total.pair.weights > 0) * 1.0, 0.0), total.inputs)
    return divide_tables(multiply_tables(mass, some), total)


def where_definite(ratio: Gaussian, masses: Table, earlier: Factor) -> Gaussian:
    """The quotient where its product with what is known earlier is a proper Gaussian; elsewhere that of the masses."""
    form, log, log_names = canonical(ratio.quadratic)
    scale = shifted(ratio.scale, log, log_names, ratio.inputs)
    names = form.matrix_names
    ok = align(scale.pair.weights > 0, scale.names, names)
    for part, _ in components(promoted(earlier)):
        own = promoted(part.parts) if isinstance(part, Piecewise) else part
        assert isinstance(own, Gaussian), "what is summed over is Gaussian in each box"
        ok = ok & _definite(own, form, names)
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
    kept = [_full(table, names, inputs) for table in (scale, masses)]
    pair = [jnp.where(ok, one, other) for one, other in zip(*kept, strict=True)]
    made = Table._of(Scaled(pair[0], pair[1]), inputs)
    return Gaussian._of(made, Quadratic(vector, names, matrix, names, False), ratio.reals, inputs)


def _full(table: Table, names: tuple[Name, ...], inputs: dict) -> tuple[Data, Data]:
    pair = table.aligned(names)
    shape = tuple(domain.extent for domain in inputs.values())
    return jnp.broadcast_to(pair.weights, shape), jnp.broadcast_to(pair.shift, shape)
