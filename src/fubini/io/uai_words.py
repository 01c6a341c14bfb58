"""The words of a UAI text, taken one after another; lines are counted only when something is wrong."""

import re
from itertools import islice

import numpy as np

from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import FileFormatError
from fubini.io.record import first_invalid
from fubini.io.text import SourceText, first_misread

_COMMENT = re.compile(r"(?://|\#|^[ \t]*+c(?!\S))[^\n]*+|/\*.*?(?:\*/|(?P<open>\Z))", re.DOTALL | re.MULTILINE)


def blank_comments(file: SourceText) -> SourceText:
    """The text without comments, every line kept: `# …`, `// …`, `/* … */`, and lines that begin with the word c.

    >>> blank_comments(SourceText("MARKOV # a grid")).text
    'MARKOV         '
    """

    def blank(match: re.Match[str]) -> str:
        if match["open"] is not None:
            raise file.error(match.start(), "a comment without an end", expected="*/", advice="close the comment")
        return re.sub(r"[^\n]", " ", match[0])

    return SourceText(_COMMENT.sub(blank, file.text), file.source)


class Words:
    """The words of a text without its comments, and how many of them have been taken.

    >>> words = Words("2 0.5 0.5", "<text>")
    >>> words.numbers(words.integer("the size"), "the table")
    array([0.5, 0.5])
    """

    def __init__(self, text: str, source: str, limits: Limits = DEFAULT) -> None:
        self.file = blank_comments(SourceText(text, source))
        self.words = self.file.text.split()
        self.position = 0
        self.limits = limits
        self.has_underscores = "_" in self.file.text  # which float() passes over

    def error(
        self, position: int, cause: str, *, expected: str = "", nearest: str = "", advice: str = ""
    ) -> FileFormatError:
        """The error at the line of a word."""
        match = next(islice(re.finditer(r"\S+", self.file.text), position, None), None)
        offset = match.start() if match else len(self.file.text.rstrip())
        return self.file.error(offset, cause, expected=expected, nearest=nearest, advice=advice)

    def take(self, what: str) -> str:
        """The next word."""
        if self.position >= len(self.words):
            raise self.file.truncated(f"before {what}", what)
        self.position += 1
        return self.words[self.position - 1]

    def skip(self, keyword: str) -> None:
        """Passes over the keyword if it comes next."""
        if self.words[self.position : self.position + 1] == [keyword]:
            self.position += 1

    def integer(self, what: str, low: int = 0, high: int | None = None) -> int:
        """The next word as an integer between the bounds."""
        word = self.take(what)
        readable = word.isascii() and word.isdigit() and len(word) < 19
        if readable and low <= int(word) and (high is None or int(word) <= high):
            return int(word)
        raise self.error(
            self.position - 1,
            f"{what} is {word!r}",
            expected=f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}",
            advice="check this number, and that the counts before it are right",
        )

    def real(self, what: str) -> float:
        """The next word as a number below +∞."""
        word = self.take(what)
        if first_misread([word]) is None and float(word) < float("inf"):
            return float(word)
        raise self.error(
            self.position - 1,
            f"{what} is {word!r}",
            expected="a number, -inf included",
            advice="check that the file holds this one number",
        )

    def numbers(self, count: int, what: str) -> np.ndarray:
        """The next words as finite numbers, none negative."""
        words = self.words[self.position : self.position + count]
        if len(words) < count:
            raise self.file.truncated(f"inside {what}, after {len(words)} of {count} values", f"{count} values")
        try:
            values = np.array(list(map(float, words)), dtype=np.float64)
        except ValueError:
            values = np.empty(0)
        wrong = first_misread(words) if not values.size or self.has_underscores else None
        wrong = first_invalid(values) if wrong is None else wrong
        if wrong is not None:
            raise self._wrong_value(self.position + wrong, words[wrong], what)
        self.position += count
        return values

    def _wrong_value(self, position: int, word: str, what: str) -> FileFormatError:
        return self.error(
            position,
            f"{word!r} among the values of {what}",
            expected="finite numbers, none negative",
            advice="correct the value, and check that the counts before it are right",
        )

    def finish(self, what: str, ahead: int = 0) -> None:
        """Raise if any word follows after so many words ahead."""
        position = self.position + ahead
        if position < len(self.words):
            raise self.error(
                position,
                f"{self.words[position]!r} after {what}",
                expected="the end of the text",
                advice="remove what follows, and check that the counts before it are right",
            )
