"""Texts and where they came from: what a reader needs to say at which line a file goes wrong."""

import gzip
import lzma
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from fubini.errors import FileFormatError, closest

_OPENERS: dict[str, Callable] = {".gz": gzip.open, ".xz": lzma.open}
_DAMAGE = (UnicodeDecodeError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError)


@dataclass(frozen=True)
class SourceText:
    """A text and the name of the place it was read from."""

    text: str
    source: str = "<text>"

    def error(
        self, offset: int, cause: str, *, expected: str = "", nearest: str = "", advice: str = ""
    ) -> FileFormatError:
        """The error whose first part gives the source, the line of the offset and the cause."""
        asked = f"{self.source}, line {line_of(self.text, offset)}: {cause}"
        return FileFormatError(asked, expected=expected, nearest=nearest, advice=advice)

    def truncated(self, what: str, expected: str) -> FileFormatError:
        """The error of a text that ends too early."""
        cause = f"truncated: the text ends {what}"
        return self.error(len(self.text.rstrip()), cause, expected=expected, advice="fetch or write the file again")


def line_of(text: str, offset: int) -> int:
    r"""The number, from 1, of the line that holds an offset.

    >>> line_of("one\ntwo\n", 0), line_of("one\ntwo\n", 4)
    (1, 2)
    """
    return text.count("\n", 0, offset) + 1


def first_misread(words: Sequence[str]) -> int | None:
    """The position of the first word that is not a number.

    >>> first_misread(["1", "2e-3", "0,5"]), first_misread(["1"])
    (2, None)
    """
    return next((index for index, word in enumerate(words) if not _is_number(word)), None)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return "_" not in word


def read_text(path: str | PathLike[str]) -> str:
    """The text of a file, plain or compressed by gzip (`.gz`) or xz (`.xz`).

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.uai.gz")
    ...     _ = path.write_bytes(gzip.compress(b"MARKOV"))
    ...     read_text(path)
    'MARKOV'
    """
    path = Path(path)
    try:
        with _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8-sig") as file:
            return file.read()
    except _DAMAGE as damage:
        raise FileFormatError(
            f"{path}: {damage or type(damage).__name__}",
            expected="UTF-8 text, plain or compressed as the suffix .gz or .xz says",
            advice="fetch the file again, or give it the suffix of its compression",
        ) from damage
    except OSError as refusal:
        raise _unopened(path, refusal) from refusal


def _unopened(path: Path, refusal: OSError) -> FileFormatError:
    siblings = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    return FileFormatError(
        f"{path}: {refusal.strerror or refusal}",
        expected="a file that exists and may be read",
        nearest=closest(path.name, siblings) if not path.exists() else "",
        advice="check the path",
    )


def write_text(path: str | Path, text: str) -> None:
    """Write a file, compressed as its suffix says."""
    with _OPENERS.get(Path(path).suffix, open)(path, "wt", encoding="utf-8") as file:
        file.write(text)
