"""Texts and where they came from: what a reader needs to say at which line a file goes wrong."""

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import BinaryIO

from fubini.base.file_limits import DEFAULT, Limits, open_file
from fubini.errors import FileFormatError, closest

_WRITERS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
PIECE = 2**20  # bytes that are decompressed at a time
DICTIONARY = 2**27  # bytes that xz may need; its best compression needs half of them
_DAMAGE = (UnicodeDecodeError, LookupError, gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError)


@dataclass(frozen=True)
class SourceText:
    """A text and the name of the place it was read from."""

    text: str
    source: str = "<text>"

    @property
    def end(self) -> int:
        """The offset behind the last word."""
        return len(self.text.rstrip())

    def line(self, offset: int) -> int:
        """The number, from 1, of the line that holds an offset."""
        return line_of(self.text, offset)

    def find(self, word: str, offset: int) -> int:
        """The offset of a word at or behind another offset."""
        return max(self.text.find(word, offset), offset)

    def error(
        self, offset: int, cause: str, *, expected: str = "", nearest: str = "", advice: str = ""
    ) -> FileFormatError:
        """The error whose first part gives the source, the line of the offset and the cause."""
        asked = f"{self.source}, line {self.line(offset)}: {cause}"
        return FileFormatError(asked, expected=expected, nearest=nearest, advice=advice)

    def truncated(self, what: str, expected: str) -> FileFormatError:
        """The error of a text that ends too early."""
        cause = f"truncated: the text ends {what}"
        return self.error(self.end, cause, expected=expected, advice="fetch or write the file again")


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


def decode(content: bytes) -> str:
    r"""Text in UTF-8, or in UTF-16 if its first bytes say so, with the newlines of Unix.

    >>> decode("a\r\nb".encode("utf-16"))
    'a\nb'
    """
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return content.decode(encoding).replace("\r\n", "\n").replace("\r", "\n")


def read_text(path: str | PathLike[str], limits: Limits = DEFAULT, decoder: Callable[[bytes], str] = decode) -> str:
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
        with open_file(path) as file:
            content = _joined(_PIECES.get(path.suffix, _plain)(file), limits.bytes)
        limits.require("bytes", len(content), f"{path}, decompressed" if path.suffix in _PIECES else f"{path}")
        return decoder(content)
    except FileFormatError:
        raise
    except _DAMAGE as damage:
        raise FileFormatError(
            f"{path}: {damage or type(damage).__name__}",
            expected="UTF-8 text (XML: the encoding it names), plain or compressed as the suffix .gz or .xz says",
            advice="fetch the file again, or give it the suffix of its compression",
        ) from damage
    except (OSError, ValueError) as refusal:  # a ValueError is a path with a null character
        raise _unopened(path, refusal) from refusal


def _joined(pieces: Iterator[bytes], most: int) -> bytes:
    """Pieces up to the first beyond so many bytes."""
    content = bytearray()
    for piece in pieces:
        content += piece
        if len(content) > most:
            break
    return bytes(content)


def _plain(file: BinaryIO) -> Iterator[bytes]:
    return iter(lambda: file.read(PIECE), b"")


def _from_gzip(file: BinaryIO) -> Iterator[bytes]:
    with gzip.open(file) as stream:
        yield from iter(lambda: stream.read(PIECE), b"")


def _from_xz(file: BinaryIO) -> Iterator[bytes]:
    """Decompress one stream after another: LZMAFile has no bound on the memory of a decoder."""
    content = file.read(PIECE)
    while content:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=DICTIONARY)
        while not decoder.eof:
            if decoder.needs_input and not content:
                raise EOFError("compressed file ended before the end-of-stream marker was reached")
            yield decoder.decompress(content, PIECE)
            content = file.read(PIECE) if decoder.needs_input else b""
        content = decoder.unused_data + content or file.read(PIECE)


_PIECES: dict[str, Callable[[BinaryIO], Iterator[bytes]]] = {".gz": _from_gzip, ".xz": _from_xz}


def _unopened(path: Path, refusal: Exception) -> FileFormatError:
    named = isinstance(refusal, FileNotFoundError)
    siblings = islice(path.parent.iterdir(), 1000) if named and path.parent.is_dir() else ()
    return FileFormatError(
        f"{path}: {getattr(refusal, 'strerror', None) or refusal}",
        expected="a file that exists and may be read",
        nearest=closest(path.name, [entry.name for entry in siblings]),
        advice="check the path",
    )


def write_text(path: str | Path, text: str) -> None:
    """Write a file, compressed as its suffix says."""
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as refusal:
        raise FileFormatError(
            f"writing {path}: {refusal}", expected="names of characters that UTF-8 has", advice="rename the variable"
        ) from refusal
    Path(path).write_bytes(_WRITERS.get(Path(path).suffix, bytes)(content))
