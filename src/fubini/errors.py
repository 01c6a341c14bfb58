"""Every error of the library: what was asked, what was expected, what came nearest, what to do."""

import difflib
import sys
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

LONGEST_PART = 4000  # characters of one part of a message
LONGEST_NAME, MOST_NAMES = 100, 2000  # characters and names that are compared to find a near one


class FubiniError(Exception):
    """An error in four parts; every part but the first may be absent.

    >>> print(FubiniError("sum over 'z'", expected="one of 'a', 'b'", advice="name a free variable"))
    sum over 'z'
      expected: one of 'a', 'b'
      to do:    name a free variable
    """

    def __init__(self, asked: str, *, expected: str = "", nearest: str = "", advice: str = "") -> None:
        parts = (("expected", expected), ("nearest", nearest), ("to do", advice))
        lines = [_shortened(asked)] + [f"  {label + ':':<9} {_shortened(text)}" for label, text in parts if text]
        super().__init__("\n".join(lines))


def _shortened(text: str) -> str:
    """A part of a message; one of many names or of a whole file is cut."""
    return text if len(text) <= LONGEST_PART else f"{text[:LONGEST_PART]}… ({len(text) - LONGEST_PART} characters more)"


class DomainError(FubiniError, TypeError):
    """Domains that do not fit: one name with two domains, a float where an index is due."""


class FailedLine(DomainError, ValueError):
    """A line of a model that fails: a mistake in the model itself, with the error of that line as its cause."""


class UnknownName(FubiniError, LookupError):
    """A name that is not a free variable of the term."""


class UnknownFamily(UnknownName, AttributeError):
    """A family of distributions that there is not."""


class NameClash(FubiniError, ValueError):
    """One name used for two things, or a name where it may not stand."""


class DataError(FubiniError, ValueError):
    """Numbers outside what they may be: negative weights, NaN, an index out of range, x/0."""


class NoRule(FubiniError, TypeError):
    """No rule of the current interpretation applies."""


class Intractable(FubiniError, ValueError):
    """No exact plan exists, or none within the limits."""


class MemoryLimit(Intractable):
    """The best known plan needs more memory than allowed."""


class FileFormatError(FubiniError, ValueError):
    """A file that cannot be read; the message gives the line and the cause."""


class FileFormatWarning(FubiniError, UserWarning):
    """A warning: a file that was read after a correction."""


class OtherMesh(FubiniError, UserWarning):
    """A warning: a run that goes on over other devices than those of its checkpoint."""


class UnsafeCache(FubiniError, UserWarning):
    """A warning: a folder for compiled code that others may write to, which is not used."""


class DamagedCache(FubiniError, UserWarning):
    """A warning: compiled code on disk that is not whole, which is not used but compiled again."""


class EngineError(FubiniError, ValueError):
    """An engine that was asked for by name and cannot serve."""


class SamplerWarning(FubiniError, UserWarning):
    """A warning: draws of a sampler that say less than their number does."""


class Disagreement(SamplerWarning):
    """A warning: chains of a sampler that have not come to the same place."""


class Restriction(SamplerWarning):
    """A warning: values of the latents whose parameters a family does not allow, and that a sampler leaves out."""


def warn(warning: FubiniError) -> None:
    """Give a warning that points at the line of the user who called us."""
    package, level, frame = str(Path(__file__).parent), 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(warning, stacklevel=level)  # type: ignore[call-overload]


def listed(names: Iterable[object]) -> str:
    """Names as they stand in a message.

    >>> listed(["a", "b"]), listed([])
    ("'a', 'b'", 'none')
    """
    return ", ".join(repr(name) if isinstance(name, str) else str(name) for name in names) or "none"


def in_words(names: Sequence[object]) -> str:
    """Names as they stand in a sentence.

    >>> in_words(["a", "b", "c"])
    'a, b and c'
    """
    words = list(map(str, names))
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def escaped(text: str, keep: str = "") -> str:
    r"""The text with control characters, and others that are not printed, as escapes.

    >>> escaped("red \x1b[31m"), escaped("two\nlines", keep="\n") == "two\nlines"
    ('red \\x1b[31m', True)
    """
    if text.isprintable():
        return text
    return "".join(
        char if char in keep or char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def closest(name: object, names: Iterable[object]) -> str:
    """The name a user may have meant, quoted, or the empty string."""
    known = [str(other)[:LONGEST_NAME] for other in islice(names, MOST_NAMES)]
    matches = difflib.get_close_matches(str(name)[:LONGEST_NAME], known, n=1, cutoff=0.5)
    return repr(matches[0]) if matches else ""
