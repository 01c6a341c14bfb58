"""Names for formats that allow letters, digits and underscores alone."""

import re
from collections.abc import Iterable

IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_OTHER = re.compile(r"[^A-Za-z0-9_]+")


def to_identifiers(names: Iterable[str]) -> dict[str, str]:
    """An identifier for each name: the name itself where it is one, and all different.

    >>> to_identifiers(["rain", "far away", "far_away", "2"])
    {'rain': 'rain', 'far away': 'far_away_2', 'far_away': 'far_away', '2': 'x2'}
    """
    names = list(names)
    made = {name: name for name in names if IDENTIFIER.fullmatch(name)}
    taken, counts = set(made), dict[str, int]()
    for name in names:
        if name not in made:
            stem = _OTHER.sub("_", name)
            stem = stem if IDENTIFIER.fullmatch(stem) else f"x{stem}"
            made[name] = _untaken(stem, taken, counts)
            taken.add(made[name])
    return {name: made[name] for name in names}


def _untaken(stem: str, taken: set[str], counts: dict[str, int]) -> str:
    """The stem, or the stem with the first number behind it that gives a new name."""
    if stem not in taken:
        return stem
    number = counts.get(stem, 1) + 1
    while f"{stem}_{number}" in taken:
        number += 1
    counts[stem] = number
    return f"{stem}_{number}"
