"""A picture: a matplotlib figure with a text for those who do not see it."""

from __future__ import annotations

import base64
import os
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any

from fubini.base.whole_files import written_whole
from fubini.errors import DomainError

SHARPNESS = 100  # dots per inch
LONGEST = 90  # characters of the text in a line of a terminal
DESCRIPTIONS = {".png": "Description", ".svg": "Description", ".pdf": "Subject"}  # where a file keeps the text
OTHERS = (".jpg", ".webp")  # no place for a text


class Picture:
    """A matplotlib figure and its alternative text; shown in a notebook, and saved to a file.

    >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
    >>> picture = model.condition(x=0.5).plot()
    >>> picture
    Picture: Exact posterior of m: mean 0.25, 90 % interval −0.9131 to 1.413.
    >>> picture.figure.axes[0].get_xlabel()
    'm'
    """

    def __init__(self, figure: Any, text: str) -> None:
        self.figure, self.text = figure, text

    def save(self, path: str | os.PathLike) -> Path:
        """Write the picture to a file, by the ending of its name; PNG, SVG and PDF files keep the text inside.

        >>> import tempfile
        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.condition(x=0.5).plot().save(f"{folder}/m.png").name
        'm.png'
        """
        ending = Path(path).suffix.lower()
        if ending not in (*DESCRIPTIONS, *OTHERS):
            raise DomainError(
                f"a picture saved to {path}", expected=f"a name that ends in {', '.join((*DESCRIPTIONS, *OTHERS))}"
            )
        with written_whole(path, f"a picture saved to {path}") as beside:
            beside.write_bytes(self._bytes(ending))
        return Path(path)

    def _bytes(self, ending: str) -> bytes:
        stream = BytesIO()
        metadata: dict[str, Any] = {DESCRIPTIONS[ending]: self.text} if ending in DESCRIPTIONS else {}
        if ending == ".svg":
            metadata["Date"] = None  # the same picture is the same file
        self.figure.savefig(stream, format=ending[1:], dpi=SHARPNESS, metadata=metadata or None)
        return stream.getvalue()

    def __repr__(self) -> str:
        line = self.text if len(self.text) <= LONGEST else f"{self.text[: LONGEST - 1]}…"
        return f"Picture: {line}"

    def _repr_html_(self) -> str:
        data = base64.b64encode(self._bytes(".png")).decode()
        return f'<img src="data:image/png;base64,{data}" alt="{escape(self.text)}" style="max-width: 100%"/>'
