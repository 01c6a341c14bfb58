"""min_X w |A X Bᵀ − C|² + v |X − Y|² and the determinant of its precision P = w (AᵀA ⊗ BᵀB) + v I.

By the singular values of A = U diag(a) Vᵀ and of B = U′ diag(b) V′ᵀ, in O(n³ + m³) for matrices X of n rows and m
columns: with X̃ = Vᵀ X V′, C̃ = Uᵀ C U′ and Ỹ = Vᵀ Y V′ each entry of X̃ is a problem of its own,

w (a b X̃ − C̃)² + v (X̃ − Ỹ)²,  with precision p = w a² b² + v.

On JAX the derivatives are those of P⁻¹ and log |P|, not of singular vectors, which have none where values coincide.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.errors import DomainError
from fubini.numerics.arithmetic import xp_of


class KroneckerRows(NamedTuple):
    """√w (A X Bᵀ) = √w C and √v X = √v Y."""

    left: Data  # A
    right: Data  # B
    offset: Data  # C
    data: Data  # Y
    weight: Data  # w
    noise: Data  # v


class Precision(NamedTuple):
    """w (AᵀA ⊗ BᵀB) + v I"""

    left: Data
    right: Data
    weight: Data
    noise: Data


class Spectrum(NamedTuple):
    """Right singular vectors of A and B in columns, their singular values, and the eigenvalues p [i, k] of P."""

    V: Data
    W: Data
    a: Data
    b: Data
    p: Data

    def turned(self, X: Data) -> Data:
        """Vᵀ X W"""
        return _t(self.V) @ X @ self.W

    def back(self, X: Data) -> Data:
        """V X Wᵀ"""
        return self.V @ X @ _t(self.W)


class KroneckerSolution(NamedTuple):
    """log |P| and the least sum of squares, and what solutions come from."""

    rows: KroneckerRows

    @property
    def precision(self) -> Precision:
        """P"""
        return Precision(self.rows.left, self.rows.right, self.rows.weight, self.rows.noise)

    @property
    def centre(self) -> Data:
        """X̂ = P⁻¹ (w Aᵀ C B + v Y)"""
        A, B, C, Y, w, v = self.rows
        return _with_derivatives(solve, A)(self.precision, w * (_t(A) @ C @ B) + v * Y)

    @property
    def logdet(self) -> Data:
        """log |P|"""
        return _with_derivatives(log_determinant, self.rows.left)(self.precision)

    @property
    def rss(self) -> Data:
        """w |A X̂ Bᵀ − C|² + v |X̂ − Y|²"""
        A, B, C, Y, w, v = self.rows
        X = self.centre
        xp = xp_of(X)
        return w * xp.sum((A @ X @ _t(B) - C) ** 2) + v * xp.sum((X - Y) ** 2)

    @property
    def variances(self) -> Data:
        """The diagonal of P⁻¹, row after row."""
        found = spectrum(self.precision)
        return (found.V**2 @ (1 / found.p) @ _t(found.W**2)).reshape(-1)

    def roots(self) -> Data:
        """Columns whose products with themselves add up to P⁻¹: a dense matrix."""
        found = spectrum(self.precision)
        return xp_of(found.p).kron(found.V, found.W) / xp_of(found.p).sqrt(found.p).reshape(-1)

    def at(self, noise: Data) -> Data:
        """X̂ and a draw around it, row after row, for each draw [… draw, unknown] of standard normal noise."""
        found = spectrum(self.precision)
        scaled = noise.reshape(*noise.shape[:-1], *found.p.shape) / xp_of(found.p).sqrt(found.p)
        return (self.centre + found.back(scaled)).reshape(noise.shape)


def _t(of: Data) -> Data:
    return xp_of(of).swapaxes(of, -1, -2)


def _with_derivatives(function: Any, data: Data) -> Any:
    return function if xp_of(data) is np else DIFFERENTIABLE[function]


def spectrum(of: Precision) -> Spectrum:
    """The eigenvectors and eigenvalues of P."""
    (a, V), (b, W) = (_singular(part) for part in (of.left, of.right))
    return Spectrum(V, W, a, b, of.weight * (a[:, None] * b) ** 2 + of.noise)


def _singular(of: Data) -> tuple[Data, Data]:
    if xp_of(of) is np:
        _, values, vectors = np.linalg.svd(of)
        return values, vectors.T
    return _singular_on_jax(of)


@jax.custom_jvp
def _singular_on_jax(of: Data) -> tuple[Data, Data]:
    _, values, vectors = jnp.linalg.svd(of)
    return values, vectors.T


@_singular_on_jax.defjvp
def _refuse(primals: Any, tangents: Any) -> Any:
    raise DomainError(
        "a derivative of draws or moments of normals with a Kronecker covariance",
        expected="a first or second derivative of their evidence, or of the density of the remaining latents",
        nearest="they come from singular vectors, which are not differentiated",
        advice="differentiate log_evidence() or log_prob(…), or draw outside the derivative",
    )


# -- solutions --------------------------------------------------------------------------------------------------------


def solve(of: Precision, right: Data) -> Data:
    """P⁻¹ R"""
    found = spectrum(of)
    return found.back(found.turned(right) / found.p)


def _times(of: Precision, X: Data) -> Data:
    """P X  =  w AᵀA X BᵀB + v X"""
    return of.weight * (_t(of.left) @ (of.left @ X @ _t(of.right)) @ of.right) + of.noise * X


def solve_on_jax(of: Precision, right: Data) -> Data:
    """P⁻¹ R, with the derivatives d(P⁻¹ R) = P⁻¹ (dR − dP P⁻¹ R) of all orders."""
    found = spectrum(jax.lax.stop_gradient(of))

    def divide(_: Any, right: Data) -> Data:
        return found.back(found.turned(right) / found.p)

    solved: Any = jax.lax.custom_linear_solve(partial(_times, of), right, divide, symmetric=True)
    return solved


# -- determinants -----------------------------------------------------------------------------------------------------


def log_determinant(of: Precision) -> Data:
    """log |P|  =  Σ_ik log p_ik"""
    p = spectrum(of).p
    return xp_of(p).sum(xp_of(p).log(p))


class Traces(NamedTuple):
    """Parts of P⁻¹: S = Σ_k over columns of P⁻¹ (I ⊗ BᵀB), T likewise over rows, and the trace of P⁻¹."""

    left: Data
    right: Data
    whole: Data


log_determinant_on_jax = jax.custom_jvp(log_determinant)


@log_determinant_on_jax.defjvp
def _differentiate_log_determinant(primals: Any, tangents: Any) -> Any:
    """d log |P|  =  tr P⁻¹ dP  =  dw ⟨AᵀA, S⟩ + 2 w (⟨A S, dA⟩ + ⟨B T, dB⟩) + dv tr P⁻¹"""
    (of,), (d_of,) = primals, tangents
    S, T, whole = _traces(of)
    turned, other = of.left @ S, of.right @ T
    of_matrices = jnp.sum(turned * d_of.left) + jnp.sum(other * d_of.right)
    slope = d_of.weight * jnp.sum(turned * of.left) + 2 * of.weight * of_matrices + d_of.noise * whole
    return log_determinant_on_jax(of), slope


@jax.custom_jvp
def _traces(of: Precision) -> Traces:
    """S = V diag(Σ_k b_k² / p_ik) Vᵀ,  T = W diag(Σ_i a_i² / p_ik) Wᵀ"""
    V, W, a, b, p = spectrum(of)
    return Traces((V * ((1 / p) @ b**2)) @ V.T, (W * (a**2 @ (1 / p))) @ W.T, jnp.sum(1 / p))


@_traces.defjvp
def _differentiate_traces(primals: Any, tangents: Any) -> Any:
    """dP⁻¹ = −P⁻¹ dP P⁻¹, in the basis of V and W: no difference of eigenvalues is divided by"""
    (of,), (d_of,) = primals, tangents
    V, W, a, b, p = (cast(jax.Array, part) for part in spectrum(of))
    E, F = (_d_gram(part, d, basis) for part, d, basis in zip(of[:2], d_of[:2], (V, W), strict=True))
    alone = d_of.weight * (a[:, None] * b) ** 2 + d_of.noise  # of dP, besides E and F
    e = cast(Data, jnp.diagonal(E))
    f = cast(Data, jnp.diagonal(F))
    along_a, along_b = e[:, None] * b**2, a[:, None] ** 2 * f
    q = 1 / p
    of_rows = q * f - (q * b) ** 2 * (alone + of.weight * along_b)
    of_columns = q * e[:, None] - (q * a[:, None]) ** 2 * (alone + of.weight * along_a)
    S = jnp.diag(jnp.sum(of_rows, axis=1)) - of.weight * E * ((q * b**4) @ q.T)
    T = jnp.diag(jnp.sum(of_columns, axis=0)) - of.weight * F * (q.T @ (q * a[:, None] ** 4))
    d_p = alone + of.weight * (along_a + along_b)
    return _traces(of), Traces(V @ S @ V.T, W @ T @ W.T, -jnp.sum(q**2 * d_p))


def _d_gram(matrix: Data, d_matrix: Data, basis: Data) -> Data:
    """Vᵀ d(AᵀA) V"""
    half = basis.T @ (matrix.T @ d_matrix) @ basis
    return half + half.T


DIFFERENTIABLE: dict[Any, Any] = {solve: solve_on_jax, log_determinant: log_determinant_on_jax}
