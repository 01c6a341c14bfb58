"""Models side by side, by evidence."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fubini.errors import DataError, DomainError, listed
from fubini.models.missing_entries import Partly
from fubini.models.paths import flat
from fubini.show.printed_form import Grid, Shown

SHOWN = 20  # models that are printed
LEAST = 5e-5  # an error that would show in the printed numbers


class Row(NamedTuple):
    """One model: log p(data), and its probability among those compared if all were equally likely before.

    `error` is a bound on the error of the log evidence, or its standard error; 0 where it is exact.
    """

    log_evidence: float
    probability: float
    error: float = 0.0


class Comparison(Shown, Mapping[str, Row]):
    """Models by name, the likeliest first; prints as a table."""

    def __init__(self, evidences: Mapping[str, float], errors: Mapping[str, float] = MappingProxyType({})) -> None:
        names = sorted(evidences, key=lambda name: -evidences[name])
        values = np.array([evidences[name] for name in names])
        shares = np.exp(values - values[0])
        shares /= shares.sum()
        self._rows = {
            name: Row(float(value), float(share), errors.get(name, 0.0))
            for name, value, share in zip(names, values, shares, strict=True)
        }

    def __getitem__(self, name: str) -> Row:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _form(self) -> Iterator[Grid]:
        best = next(iter(self.values())).log_evidence
        rows = [
            (name, f"{row.log_evidence:.4f}", f"{row.log_evidence - best:.4f}", f"{row.probability:.4f}", _shown(row))
            for name, row in itertools.islice(self.items(), SHOWN)
        ]
        titles = ("model", "log evidence", "difference", "probability", "error")
        if not any(row.error >= LEAST for row in self.values()):
            titles, rows = titles[:-1], [row[:-1] for row in rows]
        more = f"and {len(self) - SHOWN:,} more" if len(self) > SHOWN else ""
        yield Grid(titles, rows, more=more)


def _shown(row: Row) -> str:
    return f"{row.error:.1g}" if row.error >= LEAST else "0"


def compare(**models: Any) -> Comparison:
    """Models of the same data by their evidence: exact, or by the interpretation in force, with its error.

    >>> def normal(scale):
    ...     return fb.JointNamed(dict(m=fb.dist.Normal(0.0, scale), x=lambda m: fb.dist.Normal(m, 1.0)))
    >>> compare(narrow=normal(1.0).condition(x=3.0), wide=normal(3.0).condition(x=3.0))
    model   log evidence  difference  probability
    wide         -2.5202      0.0000       0.7301
    narrow       -3.5155     -0.9953       0.2699
    """
    if not models:
        raise DomainError("compare()", expected="models by name: compare(linear=post1, quadratic=post2)")
    require_same_data(models)
    evidences = {name: model.log_evidence() for name, model in models.items()}
    errors = {name: evidence.exactness.error or 0.0 for name, evidence in evidences.items()}
    return Comparison({name: float(evidence) for name, evidence in evidences.items()}, errors)


def require_same_data(models: Mapping[str, Any]) -> None:
    """All models are of the same observed numbers, by site where their sites have the same names."""
    (first, reference), *others = ((name, _observed(model)) for name, model in models.items())
    for name, values in others:
        difference = _difference(reference, values)
        if difference:
            raise DataError(
                f"compare({first}=…, {name}=…)",
                expected="models of the same observed values, whose evidences are densities of the same data",
                nearest=difference,
                advice="condition all models on the same data; their priors and latents may differ",
            )


def _observed(model: Any) -> dict[str, np.ndarray]:
    """Observed values by site, those that are missing NaN."""
    values = flat(getattr(model, "observed", None) or getattr(model, "evidence", {}))
    return {name: _numbers(value) for name, value in values.items()}


def _numbers(value: Any) -> np.ndarray:
    if isinstance(value, Partly):
        return np.where(np.asarray(value.present), np.asarray(value.value, float), np.nan)
    return np.asarray(value, float)


def _difference(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> str:
    """Where two sets of observed values differ, or nothing."""
    if a.keys() != b.keys():  # one site here may be several there
        first, second = (np.sort(np.concatenate([v.ravel() for v in each.values()] or [[]])) for each in (a, b))
        return "" if _are_equal(first, second) else f"values of {listed(a)} and of {listed(b)} differ"
    for name, value in a.items():
        if value.shape != b[name].shape:
            return f"{name!r} has the shape {value.shape} in one and {b[name].shape} in the other"
        if not _are_equal(value, b[name]):
            return f"{name!r} has other values in one than in the other"
    return ""


def _are_equal(a: np.ndarray, b: np.ndarray) -> bool:
    """Up to rounding to single precision."""
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-6, atol=0.0, equal_nan=True)
