"""What versions of JAX say differently about a traced program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """The number of constants that a scan takes, and of parts that its state has."""
    if "num_consts" in params:  # before JAX 0.11
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(list(consts)), len(list(carry))
