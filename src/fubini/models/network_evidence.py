"""Values and likelihoods of the variables of a network as users give them: labels, positions, numbers, lists.

A list of weights, one for each value of a variable, is soft evidence: a virtual finding (Pearl 1988, section 2.2.2).
It stands for an observation e that depends on this variable alone, with P(e | x) proportional to the weights, so that
P(everything | e) ∝ P(everything) · weight(x). It says how likely the observation is, not what the marginal becomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fubini.base.domains import Domain
from fubini.errors import DataError, DomainError


def is_finding(domain: Domain, value: Any) -> bool:
    """Whether evidence is soft: a list of weights of the values of a discrete variable."""
    return domain.is_finite and (isinstance(value, (list, tuple)) or np.ndim(value) == 1)


def finding_of(domain: Domain, name: str, value: Any) -> np.ndarray:
    """The weights of soft evidence, one for each value of the variable."""
    what, size = f"the soft evidence {name}={_shown(value)}", domain.extent
    expected = f"{size} weights, one for each value of {name!r}: {_values(domain)}"
    advice = "an observed value is given as a label, or as a position"
    try:
        weights = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise DomainError(what, expected=expected, advice=advice) from None
    if weights.shape != (size,):
        raise DomainError(what, expected=expected, nearest=_count(weights), advice=f"{advice}: a label or an integer")
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        raise DataError(
            what,
            expected="finite weights from 0 on: P(finding | value), up to a common factor",
            nearest=f"{weights[~np.isfinite(weights) | (weights < 0)][0]}",
        )
    if not weights.any():
        raise DataError(
            what,
            expected="at least one positive weight: with none the finding is impossible whatever the value",
        )
    weights.flags.writeable = False
    return weights


def position_of(domain: Domain, name: str, value: Any) -> int:
    """The position of a label, or a position that was given."""
    if isinstance(value, str):
        return domain.index(value, f"the evidence {name}={value!r}")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise DomainError(f"the evidence {name}={value!r}", expected="a label or an integer")
    if not 0 <= value < domain.extent:
        raise DataError(f"the evidence {name}={value}", expected=f"0 to {domain.extent - 1}")
    return int(value)


def numbers_of(domain: Domain, name: str, value: Any) -> Any:
    """The numbers of a real variable."""
    try:
        numbers = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise DomainError(f"the evidence {name}={value!r}", expected=f"numbers of domain {domain!r}") from None
    if numbers.shape != domain.shape:
        raise DomainError(f"the evidence {name}={value!r}", expected=f"numbers of domain {domain!r}")
    if not np.all(np.isfinite(numbers)):
        raise DataError(f"the evidence {name}={value!r}", expected="finite numbers")
    return numbers if domain.shape else float(numbers)


def require_unambiguous(domain: Domain, name: str, value: Any) -> None:
    """A position that is also written as the label of another one may have been meant as the label."""
    if (
        not domain.is_finite
        or isinstance(value, str)
        or str(value) not in (domain.labels or ())
        or domain.label(value) == str(value)
    ):
        return
    raise DataError(
        f"the evidence {name}={value}, which is the label of position {domain.index(str(value))}",
        expected=f"{str(value)!r} for the label, or {str(domain.label(value))!r} for position {value}",
    )


def finding_name(name: str, names: Mapping[str, Any]) -> str:
    """A name for the finding of a variable that no variable has."""
    made = f"finding of {name}"
    while made in names:
        made += "′"
    return made


def _values(domain: Domain) -> str:
    names = [str(domain.label(k)) for k in range(min(domain.extent, 12))]
    return ", ".join(names) + (", …" if domain.extent > 12 else "")


def _count(weights: np.ndarray) -> str:
    return f"{len(weights)} weights" if weights.ndim == 1 else f"an array of shape {weights.shape}"


def _shown(value: Any) -> str:
    shown = np.array2string(np.asarray(value, object), threshold=12, separator=", ") if np.ndim(value) else repr(value)
    return shown.replace("\n", "")
