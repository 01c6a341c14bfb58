"""A Gaussian times a factor without a closed form, as the Gaussian of the same mass, mean and covariance.

The factor may depend on many variables through one or two linear functions u = A z + b of them: what it changes is the
distribution of u, and z given u stays. The integrals over u are those of `numerics/tilted_moments.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, double_precision, is_jax, namespace, require
from fubini.base.domains import Bint, Domain, merge_inputs
from fubini.base.interpretations import interpret
from fubini.base.names import Bound, Name
from fubini.errors import DataError, Intractable, listed
from fubini.factors.fallbacks import combined
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.promotion import is_open
from fubini.factors.table import Table
from fubini.numerics import quadratic as numerics
from fubini.numerics.in_range import compiled
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic, Reals
from fubini.numerics.tilted_moments import NODES, TiltedMoments, tilted_moments
from fubini.terms.exactness import projected
from fubini.terms.factor import Factor, Product, product, substitute
from fubini.terms.heads import DIVIDE, exact_moments
from fubini.terms.linear_functions import linear_functions
from fubini.terms.value import Array, Value, to_array

NODE = Bound("node")


def _split(f: Product) -> tuple[Factor, Factor]:
    """The terms that no rule joins, and the others joined."""
    closed = [term for term in f.terms if not is_open(term)]
    return product(*(term for term in f.terms if is_open(term))), combined(closed)


def _is_tilted_gaussian(f: Product, names: tuple) -> bool:
    if not any(map(is_open, f.terms)):
        return False
    factor, cavity = _split(f)
    reals = {name for name, domain in factor.inputs.items() if not domain.is_finite}
    return isinstance(cavity, Gaussian) and reals <= {name for name, _ in cavity.reals}


@exact_moments.rule(when=_is_tilted_gaussian)
def match_tilted_gaussian(f: Product, names: tuple) -> Gaussian:
    """f(A z + b) N(z; m, V)  →  Z N(z; m′, V′): N(u; Am + b, AVAᵀ) becomes the normal of the moments of f(u) N(u)"""
    factor, cavity = _split(f)
    assert isinstance(cavity, Gaussian)
    batch = {n: d for n, d in merge_inputs(cavity.inputs, factor.inputs).items() if d.is_finite}
    order = tuple(batch)
    conditional = cavity.conditional(*(name for name, _ in cavity.reals))
    mean = align(conditional.mean, conditional.mean_names, order, 1)
    covariance = align(conditional.covariance, conditional.names, order, 2)
    A, b = _directions(factor.log(), cavity, order)
    xp = namespace(mean, covariance, A, b)
    turned = xp.swapaxes(A, -1, -2)
    centre = (A @ mean[..., None])[..., 0] + b
    spread = A @ covariance @ turned
    gain = xp.swapaxes(xp.linalg.solve(spread, A @ covariance), -1, -2)  # V Aᵀ (A V Aᵀ)⁻¹
    shape = tuple(domain.extent for domain in batch.values())
    centre, spread = (xp.broadcast_to(x, (*shape, *x.shape[len(shape) :])) for x in (centre, spread))

    def log_factor(points: Data) -> Data:
        z = mean[..., None, :] + xp.einsum("...ij,...kj->...ki", gain, points - centre[..., None, :])
        return _log_at(factor, z, cavity.reals, batch)

    moments = tilted_moments(log_factor, centre, spread)
    (log_mass,) = require(moments.ok, lambda: _no_grid(f), moments.log_mass)
    change = _change(moments._replace(log_mass=log_mass), centre, spread, A, b)
    return _updated(cavity, change, log_mass, batch)._marked(factor.exactness | projected("Gaussian"))


def _directions(log: Value, cavity: Gaussian, order: tuple[Name, ...]) -> tuple[Data, Data]:
    """A and b of the linear functions that a log-factor depends on, with the elements of z side by side."""
    names = tuple(name for name, _ in cavity.reals)
    functions = linear_functions(log, names)
    sizes = [math.prod(function.constant.output.shape) for function in functions]
    if sum(sizes) not in NODES:
        raise Intractable(
            f"the moments of {log}, exponentiated, under a Gaussian",
            expected="a factor of one or two numbers, or of one or two linear functions of more",
            nearest=f"it depends on {sum(sizes)} numbers",
            advice="write it as a function of one linear function of its variables, or give another project=",
        )
    places = numerics.places(cavity.reals)
    rows, constants = [], []
    for function, size in zip(functions, sizes, strict=True):
        blocks = [_block(function.slopes.get(name), size, len(place), order) for name, place in places.items()]
        rows.append(_joined(blocks, -1, 2))
        constants.append(_flat(function.constant, size, order))
    return _joined(rows, -2, 2), _joined(constants, -1, 1)


def _block(slope: Array | None, size: int, width: int, order: tuple[Name, ...]) -> Data:
    if slope is None:
        return np.zeros((*(1,) * len(order), size, width))
    batch = slope.array.shape[: len(slope.names)]
    return align(slope.array.reshape((*batch, size, width)), slope.names, order, 2)


def _flat(constant: Array, size: int, order: tuple[Name, ...]) -> Data:
    batch = constant.array.shape[: len(constant.names)]
    return align(constant.array.reshape((*batch, size)) * 1.0, constant.names, order, 1)


def _joined(parts: Sequence[Data], axis: int, event: int) -> Data:
    xp = namespace(*parts)
    batch = np.broadcast_shapes(*(part.shape[: part.ndim - event] for part in parts))
    return xp.concatenate([xp.broadcast_to(part, (*batch, *part.shape[part.ndim - event :])) for part in parts], axis)


def _log_at(factor: Factor, z: Data, reals: Reals, batch: dict[Name, Domain]) -> Data:
    """log f at points [batch…, node, element of z], compiled."""
    given = (reals, tuple(batch.items()))
    if is_jax(z) or any(map(is_jax, factor.leaves())):
        return _evaluate(*given, factor, z)
    with double_precision(), jax.ensure_compile_time_eval():
        return np.asarray(compiled(_evaluate, given, jax.tree.map(jnp.asarray, factor), jnp.asarray(z)))


def _evaluate(reals: Reals, batch: tuple[tuple[Name, Domain], ...], factor: Factor, z: Data) -> Data:
    shape = tuple(domain.extent for _, domain in batch)
    z = jnp.broadcast_to(z, (*shape, *z.shape[-2:]))
    names, inputs = (*dict(batch), NODE), {**dict(batch), NODE: Bint[z.shape[-2]]}
    values: dict[Name, Value] = {}
    for name, place in numerics.places(reals).items():
        domain = dict(reals)[name]
        data = z[..., place.start : place.stop].reshape((*z.shape[:-1], *domain.shape))
        values[name] = Array._of(data, names, inputs, domain)
    log = to_array(substitute(factor, values).log())
    return jnp.broadcast_to(align(log.array, log.names, names), (*shape, z.shape[-2]))


def _change(moments: TiltedMoments, centre: Data, spread: Data, A: Data, b: Data) -> tuple[Data, Data]:
    """What is added to h and K:  Aᵀ (S′⁻¹ (m′ − b) − S⁻¹ (m − b)),  Aᵀ (S′⁻¹ − S⁻¹) A"""
    xp = namespace(moments.mean, spread, A)
    turned = xp.swapaxes(A, -1, -2)
    eye = np.eye(spread.shape[-1])
    after, before = (xp.linalg.solve(S, xp.broadcast_to(eye, S.shape)) for S in (moments.covariance, spread))
    h = after @ (moments.mean - b)[..., None] - before @ (centre - b)[..., None]
    return (turned @ h)[..., 0], turned @ (after - before) @ A


def _updated(cavity: Gaussian, change: tuple[Data, Data], log_mass: Data, batch: dict[Name, Domain]) -> Gaussian:
    """The cavity with more information, and the mass that it had times Z."""
    order = tuple(batch)
    h, K = cavity.info, cavity.precision
    quadratic = Quadratic(
        align(h.array, h.names, order, 1) + change[0], order, align(K.array, K.names, order, 2) + change[1], order
    )
    one = Table(jnp.ones(()) if is_jax(log_mass) else 1.0)
    bare = Gaussian._of(one, quadratic, cavity.reals, batch)
    names = frozenset(name for name, _ in cavity.reals)
    mass = shifted(cavity.reduced(names), log_mass, order, batch)  # type: ignore[arg-type]
    scale = interpret(DIVIDE, mass, bare.reduced(names))
    return Gaussian._of(scale, quadratic, cavity.reals, batch)


def _no_grid(f: Product) -> DataError:
    return DataError(
        f"the moments of {f}",
        expected="a product that a grid describes: smooth, and with mass where the Gaussian has it",
        nearest="grids of different steps disagree: a jump, a spike, or no mass at all",
        advice=f"smooth the factor of {listed(f.inputs)}, or give project= another projection",
    )
