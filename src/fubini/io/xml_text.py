"""XML texts, read within limits: no entities of a file's own, nothing from elsewhere, as many tags as are allowed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.parsers import expat

from fubini.base.file_limits import DEFAULT, Limits
from fubini.errors import FileFormatError, closest, listed
from fubini.io.text import SourceText, decode

ENCODINGS = re.compile(r"utf-?8|(?:us-)?ascii|(?:iso-?8859-|latin-?)[0-9]{1,2}|(?:windows-|cp)125[0-8]", re.IGNORECASE)
_DECLARED = re.compile(rb"""<\?xml[^>]{0,200}?\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}


class _Done(Exception):
    """The parser has seen enough."""


def decode_xml(content: bytes) -> str:
    """Text in the encoding that its first bytes or its XML declaration name; UTF-8 where they name none.

    >>> decode_xml('<?xml version="1.0" encoding="ISO-8859-1"?><a>\xe9</a>'.encode("latin-1"))[-6:]
    '>\xe9</a>'
    """
    declared = _DECLARED.match(content)
    if not declared:
        return decode(content)
    name = declared[1].decode()
    if not ENCODINGS.fullmatch(name):
        raise LookupError(f"the encoding {name!r} is none of UTF-8, UTF-16, ISO-8859 and Windows-125x")
    return content.decode(name).replace("\r\n", "\n").replace("\r", "\n")


@dataclass(frozen=True, eq=False)
class XmlFile(SourceText):
    """The elements of an XML text. A position is that of an element among those that a reader has noted."""

    content: bytes = b""  # without the document type
    root: Element = field(default_factory=lambda: Element(""))
    noted: list[Element] = field(default_factory=list)

    @property
    def end(self) -> int:
        return -1

    def line(self, offset: int) -> int:
        """The line of a noted element, looked for only when a message wants it; or the last one."""
        if offset < 0:
            return self.text.rstrip().count("\n") + 1
        wanted = self.noted[offset]
        index = next(place for place, one in enumerate(self.root.iter()) if one is wanted)
        parser, seen = expat.ParserCreate("utf-8"), [0]

        def begin(*_: object) -> None:
            if seen[0] == index:
                raise _Done
            seen[0] += 1

        parser.StartElementHandler = begin
        with suppress(_Done):
            parser.Parse(self.content, True)
        return parser.CurrentLineNumber

    def find(self, word: str, offset: int) -> int:
        return offset

    def note(self, element: Element) -> int:
        """The position of an element, for messages."""
        self.noted.append(element)
        return len(self.noted) - 1

    def wrong(
        self, element: Element, cause: str, *, expected: str = "", nearest: str = "", advice: str = ""
    ) -> FileFormatError:
        """The error at the line of an element."""
        return self.error(self.note(element), cause, expected=expected, nearest=nearest, advice=advice)

    def require_known(self, element: Element, known: Sequence[str]) -> None:
        """Raise unless all elements in one, and no text between them, are known."""
        for child in element:
            if child.tag not in known:
                raise self.wrong(
                    child,
                    f"the element {child.tag!r} in {element.tag!r}",
                    expected=f"one of {listed(known)}",
                    nearest=closest(child.tag, known),
                    advice="check the spelling, or remove it",
                )
            if child.tail and not child.tail.isspace():
                raise self._stray(child, child.tail)
        if element.text and not element.text.isspace():
            raise self._stray(element, element.text)

    def _stray(self, element: Element, text: str) -> FileFormatError:
        return self.wrong(
            element, f"the text {text.strip()[:40]!r} beside elements", expected="values inside of elements alone"
        )

    def only(self, element: Element, tag: str) -> Element:
        """The one child with a tag."""
        children = element.findall(tag)
        if len(children) == 1:
            return children[0]
        raise self.wrong(
            element, f"{len(children)} elements {tag!r} in {element.tag!r}", expected="one", advice=f"give one {tag}"
        )

    def words(self, element: Element) -> str:
        """The text of an element that holds no others; blanks around it count where `xml:space` says so."""
        if len(element):
            raise self.wrong(element, f"elements in {element.tag!r}", expected="text alone")
        text = element.text or ""
        return text if element.get(_SPACE) == "preserve" else text.strip()


def read_xml(text: str, source: str = "<text>", limits: Limits = DEFAULT) -> XmlFile:
    """Parse an XML text; its names go without their namespaces.

    >>> read_xml("<a><b>1</b></a>").root.tag
    'a'
    """
    limits.require("tags", text.count("<"), source)
    file = XmlFile(text, source)
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError as refusal:
        raise FileFormatError(f"{source}: {refusal}", expected="characters that UTF-8 has") from refusal
    if b"<!DOCTYPE" in content:
        content = _without_document_type(file, content)
    parser = ElementTree.XMLParser(encoding="utf-8")
    try:
        parser.feed(content)
        root = parser.close()
    except ElementTree.ParseError as error:
        raise _malformed(file, error.position[0], error.code) from error
    if root.tag.startswith("{"):
        for element in root.iter():
            element.tag = element.tag.rpartition("}")[2]
    return XmlFile(text, source, content, root)


def _malformed(file: XmlFile, line: int, code: int) -> FileFormatError:
    cause = expat.ErrorString(code)
    where = f"{file.source}, line {line}"
    if code == expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]:
        return FileFormatError(
            f"{where}: truncated: the text ends inside an element",
            expected="a closing tag for each opened one",
            advice="fetch or write the file again",
        )
    return FileFormatError(
        f"{where}: not XML: {cause}",
        expected="elements that are opened and closed in turn; & and < in words as &amp; and &lt;",
    )


def _without_document_type(file: XmlFile, content: bytes) -> bytes:
    """The text without its document type, which may declare elements and attributes but no entities."""
    parser, places = expat.ParserCreate("utf-8"), list[int]()

    def refuse(name: str, *_: object) -> None:
        raise FileFormatError(
            f"{file.source}, line {parser.CurrentLineNumber}: the entity {name!r} in the document type",
            expected="no entities of the file's own: they may grow without end, or name other files",
            advice="write what it stands for in its place",
        )

    def stop(*_: object) -> None:
        raise _Done

    def finish() -> None:
        places.append(parser.CurrentByteIndex)
        raise _Done

    parser.EntityDeclHandler = refuse
    parser.StartDoctypeDeclHandler = lambda *_: places.append(parser.CurrentByteIndex)
    parser.EndDoctypeDeclHandler, parser.StartElementHandler = finish, stop
    try:
        parser.Parse(content, True)
    except _Done:
        pass
    except expat.ExpatError as error:
        raise _malformed(file, error.lineno, error.code) from error
    if len(places) < 2:
        return content
    start, end = content.rfind(b"<!DOCTYPE", 0, places[0]), content.index(b">", places[1]) + 1
    return content[:start] + b"\n" * content.count(b"\n", start, end) + content[end:]


def escape_xml(text: str) -> str:
    """Text as it stands in an element or an attribute.

    >>> escape_xml("a < b")
    'a &lt; b'
    """
    illegal = _ILLEGAL.search(text)
    if illegal:
        raise FileFormatError(
            f"the name {text!r} as XML", expected=f"a name without {illegal[0]!r}", advice="rename it before writing"
        )
    return "".join(_ESCAPES.get(character, character) for character in text)


def leaf(tag: str, text: str) -> str:
    """An element that holds text alone.

    >>> leaf("NAME", "rain"), leaf("NAME", " rain")
    ('<NAME>rain</NAME>', '<NAME xml:space="preserve"> rain</NAME>')
    """
    kept = ' xml:space="preserve"' if text != text.strip() else ""
    return f"<{tag}{kept}>{escape_xml(text)}</{tag}>"
