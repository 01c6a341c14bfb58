"""min |A x − b|² and |AᵀA| where rows have outputs of a linear recursion in them: one pass over its steps, and back.

Of the unknowns, u_t are the inputs of a step and z are in all rows. The rows of step t are E u_t + S s_{t−1} + B z = b
with the states s_t = F s_{t−1} + G u_t, s_{−1} = 0. From the last step on, u_t is eliminated against its rows and those
that all later steps left, |P (s_t, z) − c|² (as a linear regulator is solved: Anderson and Moore 1990, section 2.4).
What remains is a triangle in s_{t−1}, z and the right side. The normal equations are never formed, nor is A.
"""

from __future__ import annotations

from typing import NamedTuple

from fubini.base.arrays import Data
from fubini.numerics.arithmetic import scanned, upper_solved, xp_of
from fubini.numerics.least_squares import LinearRecursions, PartialQR, Triangle, reduce_rows, reduced
from fubini.numerics.linear_recursions import on_xla
from fubini.numerics.recursion_rows import RecursionRows, StepRows, by_step, count_unknowns, end_to_end


class Eliminated(NamedTuple):
    """log |AᵀA|, the minimum, the triangles U u_t + V (s_{t−1}, z) = c of the steps, and that of z."""

    logdet: Data
    rss: Data
    steps: Triangle
    shared: Triangle


@on_xla
def eliminate_inputs(rows: StepRows, others: tuple[Data, Data]) -> Eliminated:
    """The least-squares problem of the rows of all steps, and of rows in z alone, as triangles."""
    xp = xp_of(*rows, *others)
    states, width = rows.F.shape[-1], rows.F.shape[-1] + rows.B.shape[-1] + 1

    def step(carried: Data, here: StepRows) -> tuple[Data, tuple[Data, Triangle]]:
        P = carried[:, :states]
        inputs = xp.concatenate([here.E, P @ here.G])
        own = xp.concatenate([here.S, here.B, here.b[:, None]], axis=-1)
        later = xp.concatenate([P @ here.F, carried[:, states:]], axis=-1)
        U, turned, residual, logdet = reduce_rows(inputs, xp.concatenate([own, later]))
        return reduced(residual), (logdet, Triangle(U, turned[:, :-1], turned[:, -1]))

    start = xp.zeros((width, width), rows.b.dtype)
    carried, (logdets, steps) = scanned(step, start, rows, reverse=True)
    matrix, right = others
    last = xp.concatenate([carried[:, states:], xp.concatenate([matrix, right[:, None]], axis=-1)])
    U, turned, residual, logdet = _in_shared(last[:, :-1], last[:, -1:])
    return Eliminated(xp.sum(logdets) + logdet, xp.sum(residual**2), steps, Triangle(U, turned[:, :0], turned[:, 0]))


def _in_shared(A: Data, right: Data) -> PartialQR:
    if A.shape[-1]:
        return reduce_rows(A, right)
    xp = xp_of(A, right)
    return PartialQR(A[:0], right[:0], right, xp.zeros((), A.dtype))


@on_xla
def solve_back(rows: StepRows, solved: Eliminated, noise: Data, shared: Data, centre: Data) -> tuple[Data, Data]:
    """Inputs [step, input, column] and z with U (x − centre · x̂) = noise, for every column of the noise."""
    xp = xp_of(*rows, noise)
    z = _solve_upper(solved.shared.U, centre * solved.shared.c[:, None] + shared)

    def step(s: Data, here: tuple[Data, Data, Triangle, Data]) -> tuple[Data, Data]:
        F, G, (U, V, c), own = here
        u = upper_solved(U, centre * c[:, None] + own - V @ xp.concatenate([s, z]))
        return F @ s + G @ u, u

    start = xp.zeros((rows.F.shape[-1], noise.shape[-1]), noise.dtype)
    return scanned(step, start, (rows.F, rows.G, solved.steps, noise))[1], z


def _solve_upper(U: Data, right: Data) -> Data:
    return upper_solved(U, right) if len(U) else right


@on_xla
def input_variances(rows: StepRows, solved: Eliminated) -> tuple[Data, Data]:
    """The variances of the inputs [step, input] and of z."""
    xp = xp_of(*rows)
    states, inputs = rows.F.shape[-1], rows.G.shape[-1]
    root = _solve_upper(solved.shared.U, xp.eye(len(solved.shared.U), dtype=rows.b.dtype))
    start = xp.zeros((states + len(root),) * 2, rows.b.dtype)
    joint = xp.concatenate([xp.zeros((states, len(root)), rows.b.dtype), root])
    every = xp.eye(inputs, dtype=rows.b.dtype)

    def step(C: Data, here: tuple[Data, Data, Triangle]) -> tuple[Data, Data]:
        """u = K (s, z) + U⁻¹ ε, so that C′ = (F + G K) C (F + G K)ᵀ + G U⁻¹ U⁻ᵀ Gᵀ over s and z"""
        F, G, (U, V, _) = here
        K, own = upper_solved(U, -V), upper_solved(U, every)
        moved = xp.concatenate([G @ K, xp.zeros((len(root), K.shape[-1]), K.dtype)])
        moved = moved + _beside(F, xp.eye(len(root), dtype=K.dtype))
        pushed = xp.concatenate([G @ own, xp.zeros((len(root), inputs), K.dtype)])
        return moved @ C @ moved.T + pushed @ pushed.T, xp.sum((K @ C) * K, axis=-1) + xp.sum(own**2, axis=-1)

    variances = scanned(step, start + joint @ joint.T, (rows.F, rows.G, solved.steps))[1]
    return variances, xp.sum(root**2, axis=-1)


def _beside(F: Data, last: Data) -> Data:
    """A matrix with two on its diagonal."""
    xp = xp_of(F, last)
    above = xp.concatenate([F, xp.zeros((len(F), len(last)), F.dtype)], axis=1)
    return xp.concatenate([above, xp.concatenate([xp.zeros((len(last), len(F)), F.dtype), last], axis=1)])


# -- solutions ------------------------------------------------------------------------------------------------------


class RecursionSolution(NamedTuple):
    """log |AᵀA| and min |A x − b|², and what solutions come from."""

    sizes: LinearRecursions
    rows: RecursionRows
    solved: Eliminated

    @property
    def logdet(self) -> Data:
        """log |AᵀA|"""
        return self.solved.logdet

    @property
    def rss(self) -> Data:
        """min |A x − b|²"""
        return self.solved.rss

    def at(self, noise: Data) -> Data:
        """x with U (x − x̂) = noise, for each draw [… draw, unknown] of standard normal noise."""
        columns = noise.reshape(-1, noise.shape[-1]).T
        return self._solved(columns, 1.0).T.reshape(noise.shape)

    def roots(self) -> Data:
        """Columns whose products with themselves add up to the covariance (AᵀA)⁻¹: a dense matrix."""
        return self._solved(xp_of(*self.rows.steps).eye(count_unknowns(self.sizes), dtype=self.rows.steps.b.dtype), 0.0)

    @property
    def variances(self) -> Data:
        """The diagonal of (AᵀA)⁻¹."""
        steps, others = input_variances(self.rows.steps, self.solved)
        return end_to_end(self.sizes, steps[..., None], others[:, None])[:, 0]

    def _solved(self, noise: Data, centre: float) -> Data:
        one = xp_of(noise).asarray(centre, dtype=self.rows.steps.b.dtype)
        return end_to_end(self.sizes, *solve_back(self.rows.steps, self.solved, *by_step(self.sizes, noise), one))


def solve_recursions(sizes: LinearRecursions, rows: RecursionRows) -> RecursionSolution:
    """The solution of rows."""
    return RecursionSolution(sizes, rows, eliminate_inputs(*rows))
