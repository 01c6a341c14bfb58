"""Checks of sparse factors: their axes, weights and cells, the capacity, and whether integers can number the cells."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import ModuleType

import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data, is_jax, is_traced, require
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.errors import DataError, DomainError, MemoryLimit, listed
from fubini.factors.table import Table
from fubini.numerics.mixed_radix import greatest_key


def sizes_of(inputs: Mapping[Name, Domain]) -> tuple[int, ...]:
    """The extents of the axes."""
    return tuple(domain.extent for domain in inputs.values())


def require_axes(cells: Data, weights: Data, inputs: Mapping[Name, Domain]) -> dict[Name, Domain]:
    """Raise unless there is a bounded integer for each column of the cells."""
    if not isinstance(inputs, Mapping) or not inputs or not all(domain.is_finite for domain in inputs.values()):
        raise DomainError(
            f"a Sparse over {inputs!r}",
            expected='a bounded integer for each name: {"a": fb.Bint[3]}',
            advice="a factor without names is a number, or fb.Table(number)",
        )
    if not (np.issubdtype(cells.dtype, np.integer) or cells.size == 0) or cells.shape != (*weights.shape, len(inputs)):
        raise DomainError(
            f"a Sparse over {listed(inputs)} with cells of shape {cells.shape} and dtype {cells.dtype}",
            expected=f"integers of shape {(*weights.shape, len(inputs))}: one row for each weight, one column a name",
        )
    return dict(inputs)


def bad_weights(weights: Data, ok: Data, inputs: Mapping, what: str = "weight") -> DataError:
    """The error of a weight that is none."""
    where = "" if is_traced(ok, weights) else f" (got {np.asarray(weights)[~np.asarray(ok)].flat[0]})"
    kind = "non-negative and finite" if what == "weight" else "numbers below infinity, not NaN"
    advice = "log-weights go through Sparse.from_log" if what == "weight" else "−inf is a weight of zero"
    return DataError(
        f"a Sparse over {listed(inputs)} with a bad {what}{where}", expected=f"{what}s {kind}", advice=advice
    )


def outside(cells: Data, inside: Data, inputs: Mapping[Name, Domain]) -> DataError:
    """The error of a cell outside the domains."""
    row = "" if is_traced(inside) else f" {np.asarray(cells)[~np.asarray(inside)][0].tolist()}"
    return DataError(
        f"a Sparse over {listed(inputs)} with a cell{row} outside its domains",
        expected=", ".join(f"{name} from 0 to {domain.extent - 1}" for name, domain in inputs.items()),
    )


def as_capacity(given: int | None, default: int) -> int:
    """A capacity that is given, or the default."""
    if given is None:
        return default
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1:
        raise DataError(f"a Sparse of capacity {given!r}", expected="a whole number of at least 1")
    return int(given)


def multiply_capacity(capacity: int, times: int) -> int:
    """As many slots several times over, as far as 32 bits count them."""
    return min(capacity * times, 2**31 - 1)


def require_capacity(count: Data, capacity: int, asked: object, absent: Data, *weights: Data) -> Data:
    """The weight of absent cells; an error that says which capacity is needed, or NaN, where there are more cells.

    The derivatives with respect to the weights given are NaN then, also of those that found no slot.
    """
    if is_traced(count):
        absent = sum((jnp.sum(0.0 * numbers) for numbers in weights), absent)

    def error() -> MemoryLimit:
        needed, most = ("a greater one", "…") if is_traced(count) else (str(int(count)),) * 2
        return MemoryLimit(
            f"{asked}, in a Sparse of capacity {capacity}",
            expected=f"at most {capacity} cells to store",
            nearest=f"the capacity needed is {needed}",
            advice=f"fb.rep.Sparse({most}), or f.with_capacity({most}) of a factor f",
        )

    return require(count <= capacity, error, absent)[0]  # type: ignore[arg-type]


def overflowed(asked: object, capacity: int) -> DataError:
    """The error of numbers that a compiled function could not find."""
    return DataError(
        f"{asked}, which a compiled function made",
        expected="numbers: it had more cells than slots on the way, or bad data",
        nearest=f"its capacity is {capacity}",
        advice="a greater capacity; `fb.checked(function)` says which step it was",
    )


def require_keys(xp: ModuleType, inputs: Mapping[Name, Domain]) -> None:
    """Raise where the integers of an engine cannot number the cells."""
    cells = math.prod(sizes_of(inputs))
    if cells <= greatest_key(xp):
        return
    on_jax = xp is not np
    raise MemoryLimit(
        f"a Sparse over {listed(inputs)}, of {cells:.3g} cells",
        expected=f"at most {greatest_key(xp):,} cells, which integers of {32 if greatest_key(xp) < 2**32 else 64} bits "
        f"{'of JAX ' * on_jax}number",
        advice="enable double precision, jax.enable_x64(True), or give its weights as arrays of NumPy"
        if on_jax and greatest_key(xp) < 2**32
        else "sum or condition names out before factors are multiplied",
    )


def fault_of(table: Table) -> Data:
    """0, and NaN where a table of JAX holds one: no cell of what is computed from it is known then."""
    weights, shift, *_ = table.pair
    if not is_jax(weights) and not is_jax(shift):
        return 0.0
    return jnp.where(jnp.any(jnp.isnan(weights)) | jnp.any(jnp.isnan(shift)), jnp.nan, 0.0)
