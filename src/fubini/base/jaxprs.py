"""What versions of JAX say differently about a traced program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Primitives that stand for the program inside of them.
NESTED = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "custom_vjp_call_jaxpr",
    "remat",
    "remat2",
    "checkpoint",
)


def inner_program(equation: Any) -> Any:
    """The program that an equation stands for, closed or not; None where it stands for itself."""
    if equation.primitive.name not in NESTED:
        return None
    return next(equation.params[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in equation.params)


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """The number of constants that a scan takes, and of parts that its state has."""
    if "num_consts" in params:  # before JAX 0.11
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(list(consts)), len(list(carry))
