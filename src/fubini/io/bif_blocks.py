"""The syntax of BIF: a text becomes blocks, each with its names and statements."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fubini.errors import FileFormatError, closest
from fubini.io.text import SourceText

BARE_NAME = re.compile(r'(?!.*(?://|/\*))[^\s{}()\[\],;|"]+')
_NAME = r'(?:"[^"]*+"|[^\s{}()\[\],;|"]++)'
_NAMES = re.compile(_NAME)
_COMMENT = re.compile(r'"[^"]*+"|//[^\n]*+|/\*.*?(?:\*/|(?P<open>\Z))', re.DOTALL)
# Repetitions are possessive: nothing is tried twice, so that a text that does not match costs no more than its length.
_BLOCK = re.compile(
    rf"""\s*+(?:(?P<end>\Z)
    | (?P<network>network\b)\s*+(?P<title>{_NAME})?+\s*+\{{
    | (?P<variable>variable\b)\s*+(?P<name>{_NAME})\s*+\{{
    | (?P<probability>probability\b)\s*+\((?P<header>[^(){{}}\[\];"]*+(?:"[^"]*+"[^(){{}}\[\];"]*+)*+)\)\s*+\{{)""",
    re.VERBOSE | re.IGNORECASE,
)
_STATEMENT = re.compile(
    r"""\s*+(?:(?P<end>\})
    | (?P<property>property\b)[^;{}"]*+(?:"[^"]*+"[^;{}"]*+)*+;
    | (?P<type>type)\s++discrete\s*+\[\s*+(?P<size>[0-9]{1,9})\s*+\]\s*+
      \{(?P<labels>[^(){}\[\];"]*+(?:"[^"]*+"[^(){}\[\];"]*+)*+)\}\s*+;
    | (?:(?P<keyword>table|default)(?!\S)|\((?P<row>[^(){}\[\];"]*+(?:"[^"]*+"[^(){}\[\];"]*+)*+)\))
      (?P<values>[^;{}()"]*+);)""",
    re.VERBOSE | re.IGNORECASE,
)
_FORMS = {
    "network": ("property ...;", "}"),
    "variable": ("type discrete [ size ] { labels };", "property ...;", "}"),
    "probability": ("(labels) values;", "table values;", "default values;", "property ...;", "}"),
}
_BLOCK_FORMS = ("network name {", "variable name {", "probability ( child | parents ) {")


@dataclass
class BifBlock:
    """One block as it stands in the file: the names of its header, its statements, where it begins."""

    kind: str
    names: list[str]
    offset: int
    statements: list[re.Match[str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The block as a message names it."""
        return f"{self.kind} block of {self.names[0]!r}" if self.names else f"{self.kind} block"


def blank_comments(file: SourceText) -> SourceText:
    """The text without its comments, every offset and line kept.

    >>> blank_comments(SourceText("a /* b */ c")).text
    'a         c'
    """

    def blank(match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            return match[0]
        if match["open"] is not None:
            raise file.error(match.start(), "a comment without an end", expected="*/", advice="close the comment")
        return re.sub(r"[^\n]", " ", match[0])

    has_comments = "//" in file.text or "/*" in file.text
    return SourceText(_COMMENT.sub(blank, file.text), file.source) if has_comments else file


def split_names(text: str) -> list[str]:
    """Names, bare or in quotes, between spaces, commas and bars.

    >>> split_names('a | b, "c d"')
    ['a', 'b', 'c d']
    """
    if '"' not in text:
        return text.replace(",", " ").replace("|", " ").split()
    return [name.strip('"') for name in _NAMES.findall(text)]


def read_blocks(file: SourceText) -> Iterator[BifBlock]:
    """The blocks of a text without comments, in its order; keywords in any case.

    >>> [block.title for block in read_blocks(SourceText('network "my net" { property "x"; }'))]
    ["network block of 'my net'"]
    """
    offset = 0
    while True:
        match = _BLOCK.match(file.text, offset)
        if match is None:
            raise _misplaced_block(file, offset)
        if match["end"] is not None:
            return
        kind = (match["network"] or match["variable"] or match["probability"]).lower()
        names = split_names(match["title"] or match["name"] or match["header"] or "")
        block = BifBlock(kind, names, match.start(kind))
        offset = _read_statements(file, block, match.end())
        yield block


def _read_statements(file: SourceText, block: BifBlock, offset: int) -> int:
    """Fills the block with its statements; the offset behind its closing brace."""
    while True:
        match = _STATEMENT.match(file.text, offset)
        if match is not None and match["end"]:
            return match.end()
        if match is None or not (match["property"] or _belongs(match, block)):
            raise _unreadable(file, offset, f"in the {block.title}", _FORMS[block.kind])
        if not match["property"]:
            block.statements.append(match)
        offset = match.end()


def _belongs(statement: re.Match[str], block: BifBlock) -> bool:
    return block.kind == ("variable" if statement["type"] else "probability")


def _misplaced_block(file: SourceText, offset: int) -> FileFormatError:
    rest = file.text[offset:].lstrip()
    keyword = _first_word(rest).lower()
    if "{" not in rest and any(form.startswith(keyword) for form in _BLOCK_FORMS if keyword):
        return file.truncated(f"inside {rest.splitlines()[0][:40]!r}", " or ".join(_BLOCK_FORMS))
    return _unexpected(file, rest, "between blocks", _BLOCK_FORMS)


def _unreadable(file: SourceText, offset: int, place: str, forms: tuple[str, ...]) -> FileFormatError:
    rest = file.text[offset:].lstrip()
    if "}" not in rest:
        return file.truncated(place, " or ".join(forms))
    return _unexpected(file, rest, place, forms)


def _unexpected(file: SourceText, rest: str, place: str, forms: tuple[str, ...]) -> FileFormatError:
    word = _first_word(rest)
    return file.error(
        len(file.text) - len(rest),
        f"{rest.splitlines()[0][:40]!r} {place}",
        expected=" or ".join(forms),
        nearest=closest(word.lower(), [form.split()[0] for form in forms]) if word else "",
        advice="check spelling and punctuation: statements end in ';', blocks in '}', odd names stand in quotes",
    )


def _first_word(text: str) -> str:
    return re.split(r"\W", text, maxsplit=1)[0]
