"""Write the stored texts anew: `python -m tests.printing.renew`, and read what changed before it is committed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.printing.instances import INSTANCES

STORED = Path(__file__).parent / "stored"


def printed(thing: Any) -> str:
    """What a user sees of an object in a terminal: of an error, its message."""
    shown = str(thing) if isinstance(thing, BaseException) else repr(thing)
    return re.sub(r"\d+ kB", "… kB", shown) + "\n"  # of a report, which changes with its style


def renew() -> None:
    """Write a text for each instance, and remove those of none."""
    STORED.mkdir(exist_ok=True)
    for path in STORED.glob("*.txt"):
        if path.stem not in INSTANCES:
            path.unlink()
    for name, make in INSTANCES.items():
        (STORED / f"{name}.txt").write_text(printed(make()), encoding="utf-8")


if __name__ == "__main__":
    renew()
