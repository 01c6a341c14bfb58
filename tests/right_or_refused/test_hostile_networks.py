"""XML and NET made to harm: each is refused by an error of ours, and soon."""

import time

import pytest

from fubini.base.file_limits import Limits
from fubini.errors import FileFormatError
from fubini.io.net import parse_net
from fubini.io.xdsl import parse_xdsl
from fubini.io.xmlbif import parse_xmlbif

pytestmark = pytest.mark.right_or_refused

LAUGHS = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 10))
NOTHING = "<NETWORK></NETWORK></BIF>"
DEFAULTS = "".join(f'<!ATTLIST a b{k} CDATA "{k}">' for k in range(5_000))
ATTRIBUTES = " ".join(f'a{k}="0"' for k in range(100_000))
BAD_XML = {
    "a billion laughs": f'<!DOCTYPE BIF [<!ENTITY a0 "ha">{LAUGHS}]><BIF>&a9;</BIF>',
    "one large entity": f'<!DOCTYPE BIF [<!ENTITY a "{"a" * 10**5}">]><BIF>{"&a;" * 10**5}</BIF>',
    "a file as an entity": '<!DOCTYPE BIF [<!ENTITY a SYSTEM "file:///etc/passwd">]><BIF>&a;</BIF>',
    "parameters": '<!DOCTYPE BIF [<!ENTITY % a SYSTEM "http://127.0.0.1:9/a"> %a;]><BIF></BIF>',
    "a document type elsewhere": f'<!DOCTYPE BIF SYSTEM "http://127.0.0.1:9/a"><BIF>&b;{NOTHING}',
    "an open document type": "<!DOCTYPE BIF [" * 10_000,
    "many default attributes": f"<!DOCTYPE BIF [{DEFAULTS}]><BIF>{'<a/>' * 100_000}</BIF>",
    "nested elements": "<a>" * 500_000,
    "nested and closed elements": "<a>" * 300_000 + "</a>" * 300_000,
    "many elements": f"<BIF>{'<a/>' * 2_200_000}</BIF>",
    "many attributes": f"<BIF {ATTRIBUTES}>{NOTHING}",
    "a long name": f"<{'a' * 10**6}>",
    "open comments": "<!--" * 200_000,
    "open sections": "<![CDATA[" * 100_000,
    "a number of characters": f"<BIF>&#{'9' * 10_000};</BIF>",
    "a null": "<BIF>\0</BIF>",
    "a surrogate": "<BIF>\ud800</BIF>",
    "two roots": f"<BIF>{NOTHING}<BIF>{NOTHING}",
    "nothing": "",
}
BLANKS = " " * 200_000
BAD_NET = {
    "blanks": "node a {" + BLANKS,
    "open strings": 'node a { label = "' + "\\" * 200_001,
    "strings": "node a { label = " + '"a"' * 60_000,
    "brackets": f'node a {{ states = ("u" "v"); }} potential (a) {{ data = {"(" * 200_000}0.5 0.5{")" * 200_000}; }}',
    "nodes": "node" * 60_000,
    "open blocks": "node a {" * 30_000,
    "comments": "%" * 200_000,
    "bars": "potential (" + "|" * 200_000,
    "equals": "node a { a " + "=" * 200_000,
}


def check(parse, text: str, name: str) -> None:
    start = time.process_time()
    with pytest.raises(FileFormatError, match=name):
        parse(text, name)
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize("what", BAD_XML)
def test_bad_xml_is_refused(what: str) -> None:
    for parse in (parse_xmlbif, parse_xdsl):
        check(parse, BAD_XML[what], "evil.xml")


@pytest.mark.parametrize("what", BAD_NET)
def test_bad_net_is_refused(what: str) -> None:
    check(parse_net, BAD_NET[what], "evil.net")


@pytest.mark.parametrize("what", [what for what in BAD_XML if "ENTITY" in BAD_XML[what]])
def test_entities_are_named(what: str) -> None:
    with pytest.raises(FileFormatError, match=r"line 1: the entity 'a0?' in the document type(.|\n)*no entities"):
        parse_xmlbif(BAD_XML[what])


def test_tags_of_xml_are_counted_before_it_is_read() -> None:
    with pytest.raises(FileFormatError, match=r"the limit on tags(.|\n)*limits=fb.io.Limits\(tags=…\)"):
        parse_xmlbif("<BIF>" + "<a/>" * 20 + "</BIF>", limits=Limits(tags=20))


def test_sizes_are_counted_before_tables_are_made() -> None:
    names = [f"v{i}" for i in range(27)]
    net = "".join(f'node {name} {{ states = ("x" "y"); }} ' for name in names)
    net += "".join(f"potential ({name}) {{ data = (0.5 0.5); }} " for name in names[1:])
    net += f"potential (v0 | {' '.join(names[1:])}) {{ data = (0.5); }}"
    nodes = "".join(
        f'<cpt id="{name}"><state id="x"/><state id="y"/>'
        + (f"<parents>{' '.join(names[1:])}</parents>" if name == "v0" else "")
        + "<probabilities>0.5 0.5</probabilities></cpt>"
        for name in names
    )
    for parse, text in ((parse_net, net), (parse_xdsl, f"<smile><nodes>{nodes}</nodes></smile>")):
        with pytest.raises(FileFormatError, match=r"cells would be 134217\d+(.|\n)*Limits\(cells=…\)"):
            parse(text)
        for limit in ({"variables": 20}, {"states": 1}, {"scope": 20, "cells": 2**40}):
            (name, *_) = limit
            with pytest.raises(FileFormatError, match=f"the limit on {name}"):
                parse(text, limits=Limits(**limit))
