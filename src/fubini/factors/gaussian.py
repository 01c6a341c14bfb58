"""Gaussian: a factor over real arrays, w · exp(h·z − ½ z·K z), for each cell of bounded-integer batch inputs.

The weights w are a Table over the batch; K may be singular: a conditional density is a rank-deficient Gaussian over
all its variables. It is normalised only if you normalise it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, as_floats, is_jax, namespace, require
from fubini.base.domains import Bint, Domain, Real
from fubini.base.names import Name
from fubini.base.ops import Op
from fubini.errors import DataError, DomainError, listed
from fubini.factors.gaussian_forms import only_one, over_batch, require_reals, to_information
from fubini.factors.integer_moments import mean_given_others, variance_given_others
from fubini.factors.printed import moments_form
from fubini.factors.table import Table
from fubini.numerics import quadratic as numerics
from fubini.numerics import quadratic_algebra as algebra
from fubini.numerics import quadratic_elimination as elimination
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import EliminatedQuadratic, Names, Quadratic, Reals, Shifted
from fubini.numerics.scaled import Scaled
from fubini.show.printed_form import Block
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor
from fubini.terms.fields import array_field, static_field, term_field
from fubini.terms.name_axis import require_added_axis
from fubini.terms.value import Apply, Array, Value, Variable


class Gaussian(Factor):
    """exp(h·z − ½ z·K z), times `exp(log_scale)`, z the real inputs in order, each flattened.

    The location is given by `info` (h), `mean` or `white` (h = P·white), the matrix by `precision` (K), `covariance`,
    `scale_tril` or `precision_sqrt` (any P with K = P·Pᵀ, of any rank): the same function, whichever they are.

    >>> g = Gaussian(info=[2.0], precision=[[2.0]], inputs={"x": Real})
    >>> g.mean("x"), g.variance("x")
    (1, 0.5)
    """

    smooth_draws = True
    vector: Data = array_field()
    matrix: Data = array_field()
    scale: Table = term_field()
    reals: Reals = static_field()
    vector_names: Names = static_field()
    matrix_names: Names = static_field()
    white: bool = static_field()

    def __init__(
        self,
        *,
        inputs: Mapping[Name, Domain],
        info: Data = None,
        mean: Data = None,
        white: Data = None,
        precision: Data = None,
        covariance: Data = None,
        scale_tril: Data = None,
        precision_sqrt: Data = None,
        log_scale: Data = 0.0,
    ) -> None:
        reals = tuple((name, domain) for name, domain in inputs.items() if not domain.is_finite)
        batch = {name: domain for name, domain in inputs.items() if domain.is_finite}
        require_reals(reals, inputs)
        size = sum(math.prod(domain.shape) for _, domain in reals)
        location = only_one("a location", info=info, mean=mean, white=white)
        matrix = only_one(
            "a matrix",
            precision=precision,
            covariance=covariance,
            scale_tril=scale_tril,
            precision_sqrt=precision_sqrt,
        )
        h, K = to_information(location, matrix, batch, size)
        scale = Table.from_log(*over_batch("log_scale", as_floats(log_scale), batch, ()))
        names = {0: (), len(batch): tuple(batch)}
        fields = {"vector_names": names[h.ndim - 1], "matrix_names": names[K.ndim - 2], "white": False}
        self._set(vector=h, matrix=K, scale=scale, reals=reals, inputs={**batch, **dict(reals)}, **fields)

    @classmethod
    def _of(cls, scale: Table, quadratic: Quadratic, reals: Reals, domains: Mapping[Name, Domain]) -> Gaussian:
        """Make a Gaussian from numerics, unchecked; `domains` has at least the batch names of the quadratic."""
        new = object.__new__(cls)
        inputs = dict(scale.inputs)
        for name in numerics.used(quadratic):
            if name not in inputs:
                inputs[name] = domains[name]
        inputs.update(reals)
        new.__dict__.update(quadratic._asdict(), scale=scale, reals=reals, inputs=inputs, _cached_quadratic=quadratic)
        return new

    @property
    def quadratic(self) -> Quadratic:
        """The exponent as named arrays."""
        quadratic = self.__dict__.get("_cached_quadratic")
        if quadratic is None:
            quadratic = Quadratic(self.vector, self.vector_names, self.matrix, self.matrix_names, self.white)
            extra = self.vector.ndim - len(self.vector_names) - 1
            if extra:
                raise DomainError(
                    f"an operation on a Gaussian with {extra} axes that have no name",
                    expected="a name for each axis: this term was returned from vmap",
                    advice='name the axis first: fb.name_axis(term, "i")',
                )
            self.__dict__["_cached_quadratic"] = quadratic
        return quadratic

    @property
    def exactness(self) -> Exactness:
        """The approximations behind its numbers."""
        return self.scale.mark.without_error()

    @property
    def is_known_zero(self) -> bool:
        return self.scale.is_known_zero

    @property
    def is_solvable(self) -> bool:
        is_solvable = self.__dict__.get("_cached_solvable")
        if is_solvable is None:
            v, _, M, _, _ = self.quadratic
            plain = all([type(x) is np.ndarray and x.dtype == np.float64 for x in (v, M)])
            is_solvable = plain and v.ndim == 1 and M.ndim == 2 and self.scale.is_solvable
            self.__dict__["_cached_solvable"] = is_solvable
        return is_solvable

    @property
    def info(self) -> Array:
        """h of the canonical form exp(g + h·z − ½ z·K z).

        >>> fb.Gaussian(mean=[1.0], precision=[[2.0]], inputs={"x": fb.Real}).info.data
        array([2.])
        """
        form = algebra.canonical(self.quadratic).rest
        return Array._of(form.vector, form.vector_names, self.inputs, Real[self.quadratic.size], self.exactness)

    @property
    def precision(self) -> Array:
        """K of the canonical form.

        >>> fb.Gaussian(mean=[1.0], precision=[[2.0]], inputs={"x": fb.Real}).precision.data
        array([[2.]])
        """
        form = algebra.canonical(self.quadratic).rest
        return self._matrix(form.matrix, form.matrix_names)

    @property
    def batch(self) -> dict[Name, Domain]:
        """The bounded-integer inputs.

        >>> fb.Gaussian(mean=[1.0], precision=[[2.0]], inputs={"x": fb.Real}).batch
        {}
        """
        return {name: domain for name, domain in self.inputs.items() if domain.is_finite}

    # -- what every factor supplies ---------------------------------------------------------------------------------

    def _leading_names(self, field: str) -> tuple[Name, ...]:
        return self.vector_names if field == "vector" else self.matrix_names

    def _renamed(self, names: Mapping[Name, Name]) -> Gaussian:
        def new(name: Name) -> Name:
            return names.get(name, name)

        v, v_names, M, M_names, white = self.quadratic
        there = Quadratic(v, tuple(map(new, v_names)), M, tuple(map(new, M_names)), white)
        own = {name: other for name, other in names.items() if name in self.scale.inputs}
        scale = self.scale._renamed(own) if own else self.scale
        reals = tuple((new(name), domain) for name, domain in self.reals)
        return Gaussian._of(scale, there, reals, {new(name): domain for name, domain in self.inputs.items()})

    def _with_axis(self, name: Name) -> Gaussian:
        require_added_axis(self.vector.ndim - len(self.vector_names) - 1, self, name)
        scale = self.scale._with_axis(name)
        names = ((name, *self.vector_names), (name, *self.matrix_names))
        there = Quadratic(self.vector, names[0], self.matrix, names[1], self.white)
        return Gaussian._of(scale, there, self.reals, {name: Bint[self.vector.shape[0]], **self.inputs})

    def _marked(self, mark: Exactness) -> Gaussian:
        return Gaussian._of(self.scale._marked(mark), self.quadratic, self.reals, self.inputs)

    def _log(self) -> Value:
        v, v_names, M, M_names, white = self.quadratic
        arrays = (Array._of(v, v_names, self.inputs, Real[v.shape[-1]]), self._matrix(M, M_names))
        variables = tuple(Variable(name, domain) for name, domain in self.reals)
        return self.scale.log() + Apply(_exponent(tuple(self.reals), white), (*arrays, *variables))

    def _matrix(self, matrix: Data, names: Names) -> Array:
        return Array._of(matrix, names, self.inputs, Real.with_shape(matrix.shape[-2:]), self.exactness)

    # -- numerics by name -------------------------------------------------------------------------------------------

    def positions(self, names: frozenset[Name]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The positions in z of the elements of some variables, and of the others."""
        return numerics.positions(self.reals, names)

    def onto(self, reals: Reals) -> Quadratic:
        """The exponent over more variables."""
        return numerics.padded(self.quadratic, self.reals, reals)

    def reduced(self, names: frozenset[Name], integrate: bool = True) -> Factor:
        """∫ (or max) over real names."""
        gone, kept = self.positions(names)
        exponent = elimination.reduced(self.quadratic, gone, kept, integrate)
        if exponent.ok is not True:
            exponent = exponent._replace(log=require(exponent.ok, lambda: improper(self, names), exponent.log)[0])
        return self.with_exponent(exponent, tuple(pair for pair in self.reals if pair[0] not in names), self.inputs)

    def with_exponent(
        self, exponent: EliminatedQuadratic | Shifted, reals: Reals, domains: Mapping[Name, Domain]
    ) -> Factor:
        """The scale times the result of a reduction, over the remaining variables: a Table where none remain."""
        scale = shifted(self.scale, exponent.log, exponent.log_names, domains)
        return to_gaussian(scale, exponent.rest, reals, domains)

    def _form(self) -> Iterable[Block]:
        return moments_form(self, has_interval=True)

    # -- moments ----------------------------------------------------------------------------------------------------

    def _mean(self, name: Name) -> Value:
        """E[x | the other real inputs]  =  K_xx⁻¹ (h_x − K_xy y)"""
        if name not in dict(self.reals):
            return mean_given_others(self, name)
        conditional, shape = self.conditional(name), dict(self.reals)[name].shape
        others = tuple(pair for pair in self.reals if pair[0] != name)
        if not others:
            mean = conditional.mean.reshape((*conditional.mean.shape[:-1], *shape))
            return Array._of(mean, conditional.mean_names, self.inputs, Real.with_shape(shape), self.exactness)
        centre = Array._of(
            conditional.mean, conditional.mean_names, self.inputs, Real[conditional.mean.shape[-1]], self.exactness
        )
        slope = self._matrix(conditional.slope, conditional.names)
        return Apply(_linear(others, shape), (centre, slope, *(Variable(*pair) for pair in others)))

    def _covariance(self, name: Name) -> Value:
        if name not in dict(self.reals):
            return variance_given_others(self, name)
        conditional, shape = self.conditional(name), dict(self.reals)[name].shape
        with np.errstate(over="ignore", invalid="ignore"):
            covariance = conditional.covariance
        if not is_jax(covariance) and not np.isfinite(covariance).all():
            raise DataError(
                f"the variance of {name!r} in {self}",
                expected="a number that a double can hold, below 1.8e308",
                advice="scale the variable",
            )
        data = covariance.reshape((*covariance.shape[:-2], *shape, *shape))
        return Array._of(data, conditional.names, self.inputs, Real.with_shape((*shape, *shape)), self.exactness)

    def conditional(self, *names: Name) -> elimination.Conditional:
        """Mean and covariance of some variables, in this order, given the others."""
        places = numerics.places(self.reals)
        own = tuple(position for name in names for position in places[name])
        others = tuple(position for name, place in places.items() if name not in names for position in place)
        conditional = elimination.conditional(self.quadratic, own, others)
        mean, half = require(
            conditional.ok.all(), lambda: improper(self, frozenset(names)), conditional.mean, conditional.half
        )
        return conditional._replace(mean=mean, half=half)

    def given_rest(self, names: frozenset[Name]) -> Gaussian:
        """The density of some real variables given all the others: normalised over them, whatever the others are."""
        own, _ = self.positions(names)
        conditional = elimination.given_rest(self.quadratic, own)
        (log,) = require(conditional.ok, lambda: improper(self, names), conditional.log)
        scale = shifted(Table(np.ones(())), log, conditional.log_names, self.inputs)
        return Gaussian._of(scale, conditional.rest, self.reals, self.inputs)

    def _entropy(self) -> Value:
        """½ log det(2πe Σ) of a normalised Gaussian without a batch."""
        self._require_no_batch("entropy")
        conditional = self.conditional(*dict(self.reals))
        size = self.quadratic.size
        entropy = 0.5 * (size * (1 + math.log(2 * math.pi)) + conditional.log_determinant)
        return Array._of(namespace(entropy).asarray(entropy), (), {}, Real, self.exactness)

    def _kl(self, other: Factor) -> Value:
        """E_p[log p − log q] of normalised Gaussians over the same variables."""
        self._require_no_batch("kl")
        if not isinstance(other, Gaussian):
            raise DomainError(f"the divergence of {self} from {other}", expected="two Gaussians")
        other._require_no_batch("kl")
        names = tuple(dict(self.reals))
        own, theirs = self.conditional(*names), other.conditional(*names)
        xp = namespace(own.half, theirs.half)
        log_ratio = theirs.log_determinant - own.log_determinant
        spread = xp.sum(xp.linalg.solve(theirs.half, own.half) ** 2)
        distance = xp.sum(xp.linalg.solve(theirs.half, (own.mean - theirs.mean)[:, None]) ** 2)
        total = 0.5 * (log_ratio + spread + distance - self.quadratic.size)
        return Array._of(xp.asarray(total), (), {}, Real, self.exactness | other.exactness)

    def _require_no_batch(self, asked: str) -> None:
        if self.batch:
            raise DomainError(
                f"{asked} of {self}",
                expected="a Gaussian over real inputs alone",
                nearest=f"{listed(self.batch)} and real inputs together have no closed form",
                advice="sum the bounded integers out or observe them first",
            )


def to_gaussian(scale: Table, quadratic: Quadratic, reals: Reals, domains: Mapping[Name, Domain]) -> Factor:
    """A Gaussian, or the Table that it is where no real variable remains."""
    return Gaussian._of(scale, quadratic, reals, domains) if reals else scale


def shifted(table: Table, logs: Data, names: Names, domains: Mapping[Name, Domain]) -> Table:
    """A table times exp(logs), by name."""
    if type(logs) is float and logs == 0.0:
        return table
    weights, shift, low, high = table.pair
    if type(logs) is np.float64 and type(shift) is float and not names:
        return Table._of(Scaled(weights, shift + float(logs), low, high), table.inputs, table.mark)
    if not names and np.ndim(logs) == 0 and not (is_jax(weights) or is_jax(logs)):
        shift = shift + logs
        return Table._of(
            Scaled(weights, float(shift) if np.ndim(shift) == 0 else shift, low, high), table.inputs, table.mark
        )
    inputs = dict(table.inputs)
    for name in names:
        inputs.setdefault(name, domains[name])
    order = tuple(inputs)
    shape = tuple(domain.size for domain in inputs.values())
    xp = namespace(weights, shift, logs)
    shift = align(shift, table.names, order) if np.ndim(shift) else shift
    shift = xp.broadcast_to(shift + align(logs, names, order), shape)
    weights = xp.broadcast_to(align(weights, table.names, order), shape)
    if is_jax(shift) and not is_jax(weights):
        weights = jnp.asarray(weights, shift.dtype)
    return Table._of(Scaled(weights, shift), inputs, table.mark)


def improper(gaussian: Gaussian, names: frozenset[Name]) -> DataError:
    """The error of integrating over variables that too little is known about."""
    return DataError(
        f"integrating {gaussian} over {listed(sorted(names, key=str))}",
        expected="a precision that is positive definite over the variables integrated",
        nearest="it is singular or indefinite there: the factor is improper in some direction",
        advice="multiply by a prior, or by more observations of these variables, before integrating",
    )


# -- Values ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _exponent(reals: Reals, white: bool) -> Op:
    """The exponent as an op on its vector, its matrix and the variables."""
    return ops.lift(_White(reals) if white else _Canonical(reals))


@lru_cache(maxsize=1024)
def _linear(reals: Reals, shape: tuple[int, ...]) -> Op:
    """a + B·z as an op on a, B and the variables."""
    return ops.lift(_Linear(reals, shape))


class _Canonical:
    """h·z − ½ z·K z. A function that compares by what it is made of."""

    __name__ = "quadratic"

    def __init__(self, reals: Reals) -> None:
        self.reals = reals

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.reals))

    def __call__(self, h: Data, K: Data, *variables: Data) -> Data:
        z = _flat(variables)
        return h @ z - 0.5 * (z @ (K @ z))


class _White(_Canonical):
    """−½ |R z − r|²."""

    __name__ = "squares"
    __hash__ = _Canonical.__hash__

    def __call__(self, r: Data, R: Data, *variables: Data) -> Data:
        residual = R @ _flat(variables) - r
        return -0.5 * (residual @ residual)


class _Linear(_Canonical):
    __name__ = "linear"

    def __init__(self, reals: Reals, shape: tuple[int, ...]) -> None:
        super().__init__(reals)
        self.shape = shape

    __hash__ = _Canonical.__hash__

    def __call__(self, a: Data, B: Data, *variables: Data) -> Data:
        return (a + B @ _flat(variables)).reshape(self.shape)


def _flat(variables: tuple[Data, ...]) -> Data:
    return jnp.concatenate([jnp.reshape(variable, -1) for variable in variables])
