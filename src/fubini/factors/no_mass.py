"""The errors of factors that are zero everywhere."""

from __future__ import annotations

from collections.abc import Sequence

from fubini.base.names import Name
from fubini.errors import DataError, listed
from fubini.terms.factor import Factor

ADVICE = "the evidence is impossible under the model: check the observed values"


def no_mass(f: Factor) -> DataError:
    """The error of normalising nothing."""
    asked = f"normalising {f}, which is zero everywhere"
    return DataError(asked, expected="a factor with positive mass", advice=ADVICE)


def nothing_to_choose(names: Sequence[Name]) -> DataError:
    """The error of a choice from nothing."""
    asked = f"a value of {listed(names)} from a factor that is zero everywhere"
    return DataError(asked, expected="a factor with positive mass", advice=ADVICE)
