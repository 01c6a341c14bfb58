"""The parameters that a Gaussian may be given by, checked, and turned into information and precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from fubini.base.arrays import Data, as_floats, namespace, require
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.errors import DataError, DomainError, listed
from fubini.numerics import quadratic_elimination as elimination
from fubini.numerics.quadratic import Reals, diagonal


def require_reals(reals: Reals, inputs: Mapping[Name, Domain]) -> None:
    """Raise unless there is a real input, and no other kind beside bounded integers."""
    for name, domain in reals:
        if domain.kind != "real":
            raise DomainError(
                f"a Gaussian over {name!r}: {domain!r}", expected="real inputs, and bounded integers for the batch"
            )
    if not reals:
        raise DomainError(
            f"a Gaussian over {listed(inputs)}", expected="at least one real input", advice="use fb.Table"
        )


def only_one(what: str, **given: Data) -> tuple[str, Data]:
    """The one parameter that was given, of several that say the same; its numbers are finite."""
    present = [(key, as_floats(value)) for key, value in given.items() if value is not None]
    if len(present) != 1:
        nearest = f"given: {listed(key for key, _ in present)}" if present else "none was given"
        raise DomainError(f"a Gaussian with {what}", expected=f"one of {listed(given)}", nearest=nearest)
    key, data = present[0]

    def error() -> DataError:
        return DataError(f"a Gaussian with {key} that has NaN or infinity", expected="finite numbers")

    return key, require(namespace(data).isfinite(data), error, data)[0]


def over_batch(what: str, data: Data, batch: Mapping[Name, Domain], event: tuple[int | None, ...]) -> tuple[Data, dict]:
    """The data with the batch it has: all of it or none."""
    shape = tuple(domain.extent for domain in batch.values())
    fits = len(data.shape) >= len(event) and all(
        want in (None, got) for want, got in zip(event, data.shape[len(data.shape) - len(event) :], strict=True)
    )
    leading = data.shape[: len(data.shape) - len(event)]
    if not fits or leading not in ((), shape):
        expected = f"shape {_shape(shape, event)}" + (f" or {_shape((), event)}" if shape else "")
        raise DomainError(f"a Gaussian with {what} of shape {data.shape}", expected=expected)
    return data, dict(batch) if leading else {}


def _shape(batch: tuple, event: tuple) -> str:
    return f"({', '.join('any' if extent is None else str(extent) for extent in (*batch, *event))})"


def to_information(
    location: tuple[str, Data], matrix: tuple[str, Data], batch: Mapping[Name, Domain], size: int
) -> tuple[Data, Data]:
    """h and K from any of the forms."""
    kind, M = matrix
    over_batch(kind, M, batch, (size, None) if kind == "precision_sqrt" else (size, size))
    if kind in ("precision", "covariance"):
        M = _checked(kind, M, elimination.is_symmetric, "symmetric")
    if kind == "precision":
        M = _checked(kind, M, elimination.is_semidefinite, "positive semi-definite (it is indefinite)")
    where, v = location
    over_batch(where, v, batch, (None,) if where == "white" else (size,))
    xp = namespace(v, M)
    root = _precision_root(kind, M, xp) if kind != "precision" or where == "white" else None
    K = M if kind == "precision" else root @ xp.swapaxes(root, -1, -2)
    if where == "info":
        return v, K
    if where == "white" and root is not None and v.shape[-1] != root.shape[-1]:
        raise DomainError(f"a Gaussian with white of length {v.shape[-1]}", expected=f"length {root.shape[-1]}")
    return xp.matmul(K if where == "mean" else root, v[..., None])[..., 0], K


def _precision_root(kind: str, M: Data, xp: object) -> Data:
    """P with K = P·Pᵀ."""
    if kind == "precision_sqrt":
        return M
    eye = xp.broadcast_to(xp.eye(M.shape[-1], dtype=M.dtype), M.shape)  # type: ignore[attr-defined]
    if kind == "precision":
        return _cholesky(kind, M, xp)
    tril = _cholesky(kind, M, xp) if kind == "covariance" else _checked(kind, M, _is_lower, "lower triangular")
    ok = xp.all(diagonal(tril) > 0)  # type: ignore[attr-defined]
    (tril,) = require(ok, lambda: DataError(f"a Gaussian with {kind}", expected="a positive diagonal"), tril)
    return xp.swapaxes(xp.linalg.solve(tril, eye), -1, -2)  # type: ignore[attr-defined]


def _cholesky(kind: str, M: Data, xp: object) -> Data:
    def error() -> DataError:
        return DataError(f"a Gaussian with {kind}", expected="a positive definite matrix")

    try:
        root = xp.linalg.cholesky(M)  # type: ignore[attr-defined]
    except np.linalg.LinAlgError as cause:
        raise error() from cause
    return require(xp.isfinite(root), error, root)[0]  # type: ignore[attr-defined]


def _is_lower(M: Data) -> Data:
    xp = namespace(M)
    return xp.all(xp.triu(M, 1) == 0, axis=(-2, -1))


def _checked(kind: str, M: Data, holds: Callable[[Data], Data], what: str) -> Data:
    """The matrix where it is what it should be; an error where not, NaN under tracing."""

    def error() -> DataError:
        return DataError(
            f"a Gaussian with {kind} that is not {what}",
            expected=f"a matrix that is {what.partition(' (')[0]}",
            nearest="a quotient of Gaussians may be indefinite; one that is given may not" if "semi" in what else "",
        )

    return require(holds(M)[..., None, None], error, M)[0]
