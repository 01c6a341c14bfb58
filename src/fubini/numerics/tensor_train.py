"""Tensor trains: T(x₁ … x_d) = A₁(x₁) A₂(x₂) ⋯ A_d(x_d), a product of matrices of r_{k−1} × r_k with r₀ = r_d = 1.

A core is an array (…, n, r, r′): axes of a batch, the values of its variable, the rows and columns of the matrix. Axes
of the batch broadcast. Every function here is a polynomial of the cores: exact to rounding errors, and differentiable
everywhere. Ranks are made smaller in `train_rounding`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fubini.base.arrays import Data, namespace, stop_gradient
from fubini.numerics.scaled import positive_log

Cores = list[Data]

# Entries below this many units of rounding, relative to the sum of the absolute values of their terms, have no digit.
UNITS = 64
LARGEST_LOG_RATIO = 80.0  # of the sum of absolute values to the sum; all digits are lost long before


def ranks_of(cores: Sequence[Data]) -> tuple[int, ...]:
    """r_1 … r_{d−1}, the ranks between neighbouring cores."""
    return tuple(core.shape[-1] for core in cores[:-1])


def identity_core(size: int, rank: int) -> np.ndarray:
    """The core of a variable that the function does not depend on: A(x) = I."""
    return np.broadcast_to(np.eye(rank), (size, rank, rank))


def rows_core(size: int, rank: int) -> np.ndarray:
    """The core that opens a variable: row a of A(x) is the unit vector at (x, a)."""
    return np.eye(size * rank).reshape(size, rank, size * rank)


def columns_core(size: int, rank: int) -> np.ndarray:
    """The core that closes a variable: column b of A(x) is the unit vector at (x, b)."""
    return np.moveaxis(np.eye(size * rank).reshape(size * rank, size, rank), 1, 0)


def from_tensor(tensor: Data, event: int) -> Cores:
    """The cores of a tensor over its last `event` axes: its entries in one, unit vectors before and after it."""
    outer = tensor.ndim - event
    batch, sizes = tensor.shape[:outer], tensor.shape[outer:]
    center = _center(sizes)
    left, right = math.prod(sizes[:center]), math.prod(sizes[center + 1 :])
    xp = namespace(tensor)
    # The columns of a `rows_core` run through its own variable first, then through those before it.
    axes = [*range(outer), *reversed(range(outer, outer + center)), *range(outer + center, tensor.ndim)]
    middle = xp.moveaxis(xp.transpose(tensor, axes).reshape(*batch, left, sizes[center], right), -2, -3)
    before = [rows_core(size, math.prod(sizes[:k])) for k, size in enumerate(sizes[:center])]
    after = [columns_core(size, math.prod(sizes[center + 2 + k :])) for k, size in enumerate(sizes[center + 1 :])]
    return [constant_like(core, tensor) for core in before] + [middle] + [constant_like(core, tensor) for core in after]


def _center(sizes: Sequence[int]) -> int:
    """The first variable whose predecessors with it have no fewer values than its successors."""
    return next(k for k in range(len(sizes)) if math.prod(sizes[: k + 1]) >= math.prod(sizes[k + 1 :]))


def constant_like(core: np.ndarray, array: Data) -> Data:
    """A constant core in the engine and dtype of an array, with axes of extent 1 for its batch."""
    return namespace(array).asarray(core, array.dtype)


def multiply_cores(first: Sequence[Data], second: Sequence[Data]) -> Cores:
    """A_k(x) ⊗ B_k(x), the cores of the product entry by entry (Oseledets 2011, section 4.2)."""
    return [_kronecker(a, b) for a, b in zip(first, second, strict=True)]


def _kronecker(a: Data, b: Data) -> Data:
    product = a[..., :, None, :, None] * b[..., None, :, None, :]
    rows, columns = a.shape[-2] * b.shape[-2], a.shape[-1] * b.shape[-1]
    return product.reshape(*product.shape[:-4], rows, columns)


def add_cores(first: Sequence[Data], second: Sequence[Data]) -> Cores:
    """Block-diagonal cores, side by side at the start and one above the other at the end (section 4.1 there)."""
    last = len(first) - 1
    return [_block(a, b, k == 0, k == last) for k, (a, b) in enumerate(zip(first, second, strict=True))]


def _block(a: Data, b: Data, is_first: bool, is_last: bool) -> Data:
    xp = namespace(a, b)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = xp.broadcast_to(a, (*batch, *a.shape[-2:])), xp.broadcast_to(b, (*batch, *b.shape[-2:]))
    if is_first:
        return xp.concatenate([a, b], -1)
    if is_last:
        return xp.concatenate([a, b], -2)
    upper = xp.concatenate([a, xp.zeros((*batch, a.shape[-2], b.shape[-1]), a.dtype)], -1)
    lower = xp.concatenate([xp.zeros((*batch, b.shape[-2], a.shape[-1]), b.dtype), b], -1)
    return xp.concatenate([upper, lower], -2)


def scale_core(core: Data, axes: tuple[int, ...] = (-3, -2, -1)) -> tuple[Data, Data]:
    """The core over its greatest absolute entry, and the logarithm of that entry, a constant for derivatives."""
    xp = namespace(core)
    greatest = xp.max(xp.abs(stop_gradient(core)), axis=axes, keepdims=True)
    greatest = xp.where((greatest > 0) & (greatest < np.inf), greatest, 1.0)
    return core / greatest, xp.squeeze(xp.log(greatest), axes)


def scale_cores(cores: Sequence[Data]) -> tuple[Cores, Data]:
    """Cores whose greatest absolute entry is 1, and the logarithm of what they were divided by."""
    pairs = [scale_core(core) for core in cores]
    return [core for core, _ in pairs], sum(log for _, log in pairs)


def absorb_cores(cores: Sequence[Data], kept: Sequence[bool]) -> tuple[Cores, Data]:
    """Matrices of cores without a variable multiplied into the next core, and a shift; one core where none is kept."""
    done: Cores = []
    waiting, shift = None, 0.0
    for core, is_kept in zip(cores, kept, strict=True):
        core = core if waiting is None else namespace(core, waiting).matmul(waiting, core)
        if is_kept:
            done.append(core)
            waiting = None
        else:
            waiting, log = scale_core(core)
            shift = shift + log
    if waiting is not None:
        done = [*done[:-1], namespace(waiting, *done).matmul(done[-1], waiting)] if done else [waiting]
    return done, shift


def trim_cores(cores: Sequence[Data]) -> Cores:
    """The same tensor with r_k ≤ n_k r_{k−1} and r_{k−1} ≤ n_k r_k: no rank above the values on either side."""
    return reverse_cores(_trim_left(reverse_cores(_trim_left(cores))))


def _trim_left(cores: Sequence[Data]) -> Cores:
    cores = list(cores)
    for k in range(len(cores) - 1):
        core = cores[k]  # with what the last one left
        size, rows, columns = core.shape[-3:]
        if size * rows < columns:
            flat = core.reshape(*core.shape[:-3], 1, size * rows, columns)
            cores[k], cores[k + 1] = (
                constant_like(rows_core(size, rows), core),
                namespace(flat).matmul(flat, cores[k + 1]),
            )
    return cores


def reverse_cores(cores: Sequence[Data]) -> Cores:
    """The same function with its variables in reverse: A_d(x_d)ᵀ ⋯ A₁(x₁)ᵀ."""
    return [namespace(core).swapaxes(core, -1, -2) for core in reversed(cores)]


def swap_cores(left: Data, right: Data) -> tuple[Data, Data]:
    """Cores B, C with B(y) C(x) = A(x) A′(y): two neighbours change places, exactly."""
    xp = namespace(left, right)
    both = xp.matmul(left[..., :, None, :, :], right[..., None, :, :, :])  # (…, x, y, a, c)
    batch, (n, m, rows, columns) = both.shape[:-4], both.shape[-4:]
    if m * rows <= n * columns:
        return constant_like(rows_core(m, rows), both), both.reshape(*batch, n, m * rows, columns)
    before = xp.moveaxis(both, (-4, -3, -2, -1), (-2, -4, -3, -1)).reshape(*batch, m, rows, n * columns)
    return before, constant_like(columns_core(n, columns), both)


def to_tensor(cores: Sequence[Data], kept: Sequence[bool]) -> tuple[Data, Data]:
    """The entries over the variables kept, (…, n₁ … n_d), and the logarithm of their scale for each cell of the batch.

    Cores that are not kept have one matrix; where none is kept there is one axis of extent 1. An entry of which
    cancellation left no digit is 0.
    """
    xp = namespace(*cores)
    entries, shift = _contract(cores, kept)
    absolute, higher = _contract([xp.abs(core) for core in cores], kept)
    event = tuple(range(shift.ndim, entries.ndim))
    units = UNITS * float(np.finfo(entries.dtype).eps)
    ratio = xp.exp(xp.minimum(higher - shift, LARGEST_LOG_RATIO))
    level = stop_gradient(units * absolute * xp.expand_dims(ratio, event))
    value = stop_gradient(entries)
    return xp.where(abs(value) <= level, entries - value, entries), shift


def _contract(cores: Sequence[Data], kept: Sequence[bool]) -> tuple[Data, Data]:
    cores, shift = absorb_cores(cores, kept)
    xp = namespace(*cores)
    whole, log = scale_core(cores[0])  # (…, values, 1, r)
    shift = shift + log
    for core in cores[1:]:
        both = xp.matmul(whole[..., :, None, :, :], core[..., None, :, :, :])
        whole, log = scale_core(both.reshape(*both.shape[:-4], -1, *both.shape[-2:]))
        shift = shift + log
    batch = whole.shape[:-3]
    return whole.reshape(*batch, *(core.shape[-3] for core in cores)), xp.broadcast_to(shift, batch)


def linear_entries(weights: Data, shift: Data, axes: tuple[int, ...]) -> tuple[Data, Data]:
    """w · exp(s) with greatest 1 along the axes, and the logarithm that was taken out; what underflows is 0."""
    xp = namespace(weights, shift)
    logarithm = stop_gradient(positive_log(weights) + shift)
    top = xp.max(logarithm, axis=axes, keepdims=True, initial=-np.inf)
    top = xp.where(xp.isfinite(top), top, 0.0)
    exponent = xp.where(weights == 0, xp.minimum(shift - top, 0.0), shift - top)
    with np.errstate(under="ignore"):
        half = xp.exp(exponent / 2)  # one exponential alone may leave the range where the product does not
        return weights * half * half, xp.squeeze(top, axes)
