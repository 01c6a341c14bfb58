"""Which parameters a family allows, checked on numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_families
from numpyro.distributions import constraints

from fubini.base.arrays import Data, double_precision, is_jax, is_traced, namespace
from fubini.base.interpretations import uninterpreted
from fubini.errors import DataError
from fubini.numerics.sparse_roots import is_sparse, sparse_root

# Bounds of which one is below the other: their difference is positive, or not negative.
ORDERED = {
    "DiscreteUniform": constraints.nonnegative,
    "DoublyTruncatedPowerLaw": constraints.positive,
    "LogUniform": constraints.positive,
    "TruncatedCauchy": constraints.positive,
    "TruncatedDistribution": constraints.positive,
    "TruncatedNormal": constraints.positive,
    "TwoSidedTruncatedDistribution": constraints.positive,
    "TwoSidedTruncatedGamma": constraints.positive,
    "Uniform": constraints.positive,
}
DEGREES_OF_FREEDOM = frozenset(("Wishart", "WishartCholesky", "InverseWishart", "InverseWishartCholesky"))
MANY = 1_000  # rows of a matrix, whose Cholesky factor is sparse if it is
UNCHECKED = frozenset(("log_factor", "log_density"))  # weights of a point, which may be log 0
_ADVICE = {
    "covariance_matrix": "average it with its transpose: (S + S.T) / 2; a Cholesky factor goes in as scale_tril",
    "precision_matrix": "average it with its transpose: (P + P.T) / 2",
    "scale_matrix": "average it with its transpose: (S + S.T) / 2; its eigenvalues are positive",
    "rate_matrix": "average it with its transpose: (R + R.T) / 2; its eigenvalues are positive",
    "scale_tril": "jnp.linalg.cholesky(covariance); a covariance goes in as covariance_matrix",
    "total_count": "a count is a whole number that is not negative",
}
_NOT_DEFINITE = "check its sign, or add a small multiple of the identity: S + 1e-6 * jnp.eye(len(S))"
_SUM_TO_ONE = "probabilities sum to one; unnormalised ones go in as logits=jnp.log(weights)"
_DEGREES = "a Wishart matrix of p rows has more than p - 1 degrees of freedom"
_IN_RANGE = "give numbers in this range; jnp.exp(x) is positive, jax.nn.sigmoid(x) is between 0 and 1"


class Requirement(NamedTuple):
    """A constraint on one parameter, or on the first of two less the second."""

    family: str
    keys: tuple[str, ...]
    constraint: Any

    @property
    def label(self) -> str:
        """The parameter, or the difference of two."""
        return " - ".join(self.keys)

    def quantity(self, *parameters: Any) -> Any:
        """The number that the constraint is on."""
        return parameters[0] if len(parameters) == 1 else parameters[0] - parameters[1]

    def error(self, shown: str, numbers: Data | None = None) -> DataError:
        """The error of a value that is not allowed; of numbers that are known, with what is wrong with a matrix."""
        simplex = self.constraint == constraints.simplex
        is_wishart = self.family in DEGREES_OF_FREEDOM and self.label == "concentration"
        return DataError(
            f"dist.{self.family} with {self.label}={shown}",
            expected=f"{self.label} to satisfy {self.constraint}",
            nearest=_least_eigenvalue(self.constraint, numbers),
            advice=_NOT_DEFINITE
            if _least_eigenvalue(self.constraint, numbers)
            else _SUM_TO_ONE
            if simplex
            else _DEGREES
            if is_wishart
            else _ADVICE.get(self.label, _IN_RANGE),
        )


def _least_eigenvalue(constraint: Any, numbers: Data | None) -> str:
    """In words, of a symmetric matrix; empty of another, and where it is not known."""
    if constraint != constraints.positive_definite or numbers is None or is_traced(numbers):
        return ""
    matrices = np.asarray(numbers, float)
    if not np.isfinite(matrices).all() or not np.all(is_symmetric(matrices)):
        return ""
    return f"it is symmetric, and its least eigenvalue is {np.linalg.eigvalsh(matrices).min():.3g}"


def requirements(family: str, checks: Mapping[str, Any]) -> Iterator[Requirement]:
    """All that a family requires of its parameters."""
    for key, constraint in checks.items():
        if key not in UNCHECKED:
            yield Requirement(family, (key,), constraint)
    if family in ORDERED:
        yield Requirement(family, ("high", "low"), ORDERED[family])


def satisfied(constraint: Any, data: Data) -> Data:
    """Test where parameters are within their constraint; of NumPy data, in double precision."""
    if is_jax(data):
        return _holds(constraint, data)
    with double_precision(), jax.ensure_compile_time_eval(), uninterpreted():
        return np.asarray(_holds(constraint, np.asarray(data)))


def _holds(constraint: Any, data: Data) -> Data:
    if constraint == constraints.positive_definite:
        return is_symmetric(data) & _has_root(data)
    if constraint == constraints.simplex:
        xp = namespace(data)
        slack = 1e-6 if data.dtype == np.float64 else 1e-4  # a sum of many rounds
        return xp.all(data >= 0, axis=-1) & (xp.abs(xp.sum(data, axis=-1) - 1) < slack)
    return constraint(data)


def _has_root(matrix: Data) -> Data:
    """Test which matrices have a Cholesky factor."""
    if is_jax(matrix):
        return jnp.all(jnp.isfinite(jnp.linalg.cholesky(matrix)), axis=(-2, -1))
    if matrix.ndim == 2 and len(matrix) >= MANY and is_sparse(matrix) and sparse_root(matrix) is not None:
        return np.array(True)
    try:
        return np.isfinite(np.linalg.cholesky(matrix)).all(axis=(-2, -1))
    except np.linalg.LinAlgError:  # of one of them at least
        return np.array(False) if matrix.ndim == 2 else np.array([_has_root(one) for one in matrix])


def is_symmetric(matrix: Data) -> Data:
    """A = Aᵀ, up to rounding."""
    xp = namespace(matrix)
    return xp.all(xp.isclose(matrix, xp.swapaxes(matrix, -2, -1)), axis=(-2, -1))


def constraints_of(made: Any) -> dict[str, Any]:
    """The constraints of the parameters of numpyro's distribution, where other parameters do not decide them.

    A Wishart matrix of p rows has more than p − 1 degrees of freedom.
    """
    checks = {key: c for key, c in type(made).arg_constraints.items() if not is_dependent(c)}
    if type(made).__name__ in DEGREES_OF_FREEDOM:
        checks["concentration"] = constraints.greater_than(float(made.event_shape[-1] - 1))
    return checks


def parameters_hold(made: Any) -> Data:
    """Test where all parameters of numpyro's distribution are allowed, those of inner distributions included."""
    allowed: Data = jnp.asarray(True)
    for requirement in requirements(type(made).__name__, constraints_of(made)):
        given = [made.__dict__.get(key) for key in requirement.keys]
        if all(value is not None for value in given):
            allowed = allowed & _holds_inside(requirement.constraint, requirement.quantity(*map(jnp.asarray, given)))
    for inner in _inside(made):
        ok = parameters_hold(inner)
        allowed = allowed & jnp.all(ok, axis=tuple(range(len(made.batch_shape), ok.ndim)))
    masked = isinstance(made, numpyro_families.MaskedDistribution) and made._mask is not None
    return allowed | ~jnp.asarray(made._mask, bool) if masked else allowed


def _holds_inside(constraint: Any, data: Data) -> Data:
    """A constraint inside a density, which is not a number itself where a matrix has no root."""
    return is_symmetric(data) if constraint == constraints.positive_definite else satisfied(constraint, data)


def _inside(made: Any) -> Iterator[Any]:
    """The distributions that it is made of."""
    for value in vars(made).values():
        for one in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(one, numpyro_families.Distribution):
                yield one


def is_dependent(constraint: Any) -> bool:
    """A constraint that other parameters decide."""
    return isinstance(constraint, type(constraints.dependent)) or constraint is constraints.dependent


def shown(numbers: np.ndarray) -> str:
    """Numbers as they stand in a message."""
    return f"{numbers.item():.6g}" if numbers.ndim == 0 else np.array2string(numbers, precision=6, threshold=12)
