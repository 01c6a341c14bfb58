"""All models, in the order of their files."""

from __future__ import annotations

from pathlib import Path

from examples.forty import classics, counts, groups, regressions, series
from examples.forty.study import Study


def studies(folder: Path | None) -> list[Study]:
    """All; those that need a file of `folder` are left out where it is None."""
    return [study for each in (regressions, counts, groups, series, classics) for study in each.studies(folder)]
