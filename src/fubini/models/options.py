"""Options of questions: sizes, and names that other libraries have for them."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fubini.errors import DomainError, closest, listed

FOREIGN_OPTIONS = {
    **dict.fromkeys(("num_samples", "n_samples", "samples", "num_draws", "n_draws", "draws"), ("draws", "sweeps")),
    **dict.fromkeys(("num_steps", "n_steps", "num_iterations", "n_iter", "epochs"), ("steps", "sweeps")),
    **dict.fromkeys(("num_chains", "n_chains"), ("chains",)),
    **dict.fromkeys(("num_warmup", "n_warmup", "tune", "burn_in", "burnin", "warmup_steps"), ("warmup",)),
    **dict.fromkeys(("rng_key", "seed", "random_seed", "prng_key"), ("key",)),
    **dict.fromkeys(("progress_bar", "progressbar"), ("progress",)),
    **dict.fromkeys(("target_accept_prob",), ("target_accept",)),
    **dict.fromkeys(("thinning",), ("thin",)),
    **dict.fromkeys(("optim", "optimiser"), ("optimizer",)),
}


def whole_number(name: str, size: Any) -> int:
    """Return a positive whole number of any integer type, or raise."""
    try:
        number = -1 if isinstance(size, (bool, np.bool_)) else operator.index(size)
    except TypeError:
        number = -1
    if number < 1:
        raise DomainError(f"{name}={size!r}", expected="a positive whole number")
    return number


def require_options(what: str, options: Mapping[str, Any], known: Sequence[str], run: Sequence[str] = ()) -> None:
    """Raise if an option is not known, with the name of the one that may have been meant.

    `run` has the options of the run of what is made.
    """
    for name in options:
        if name in known:
            continue
        meant = (name, *FOREIGN_OPTIONS.get(name, ()))
        own = next((repr(one) for one in meant if one in known), "")
        later = next((f"run(key, {one}=…)" for one in meant if one in run and one != "key"), "")
        nearest = own or later or ("run(key)" if "key" in meant and run else "") or closest(name, known)
        raise DomainError(
            f"{what}(…, {name}=…)",
            expected=f"an option that there is: {listed(known)}",
            nearest=nearest,
            advice=f"did you mean {nearest}?" if nearest else "",
        )
