"""Readers of network files that know nothing of fubini's: slow, short, and strict; None for what they refuse."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np


class Refused(Exception):
    """A text that is no network."""


def number(word: str) -> float:
    if "_" in word:
        raise Refused
    return float(word)


def rows(values: list[float], width: int, directed: bool) -> np.ndarray:
    """Rows over their sums, where they are distributions."""
    table = np.array(values, float).reshape(-1, width)
    if not np.isfinite(table).all() or (table < 0).any():
        raise Refused
    if directed:
        if (np.abs(table.sum(1) - 1) > 1e-3).any():
            raise Refused
        table = table / table.sum(1, keepdims=True)
    return table


def uai(text: str) -> list:
    """[(names, table)] of a UAI text, behind the sizes of all variables."""
    text = re.sub(r"(?ms)(?://|#|^[ \t]*c(?!\S))[^\n]*|/\*.*?\*/", " ", text)
    words = iter(text.split())

    def whole(low: int = 0) -> int:
        word = next(words)
        if not re.fullmatch(r"[0-9]{1,18}", word) or int(word) < low:
            raise Refused
        return int(word)

    directed = {"BAYES": True, "MARKOV": False}[next(words)]
    sizes = [whole(1) for _ in range(whole())]
    scopes = [[whole() for _ in range(whole())] for _ in range(whole())]
    made: list = [sizes]
    for scope in scopes:
        shape = [sizes[place] for place in scope]
        if len(set(scope)) != len(scope) or whole() != math.prod(shape):
            raise Refused
        values = [number(next(words)) for _ in range(math.prod(shape))]
        table = rows(values, shape[-1] if shape else 1, directed).reshape(shape)
        made.append(([f"x{place}" for place in scope], table))
    if next(words, None) is not None or (directed and sorted(scope[-1] for scope in scopes) != list(range(len(sizes)))):
        raise Refused
    return made


def evidence(text: str) -> dict:
    """Values by name."""
    words = [int(word) for word in re.sub(r"(?ms)(?://|#|^[ \t]*c(?!\S))[^\n]*|/\*.*?\*/", " ", text).split()]
    if words[0] == 1 and len(words) % 2 == 0:
        words = words[1:]
    count, *rest = words
    names = [f"x{word}" for word in rest[::2]]
    if len(rest) != 2 * count or len(set(names)) != count or min(words) < 0:
        raise Refused
    return dict(zip(names, rest[1::2], strict=True))


_TOKEN = re.compile(r'"([^"]*)"|([{}()\[\];])|([^\s{}()\[\],;|"]+)')


def bif(text: str) -> list:
    """[(names, table)] of a BIF text, behind the labels of all variables."""
    text = re.sub(r'(?s)("[^"]*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or " ", text)
    if _TOKEN.sub("", text).strip(" \t\r\n\f\v,|"):
        raise Refused
    tokens = [(mark or "name", quoted or bare) for quoted, mark, bare in _TOKEN.findall(text)]
    place, labels, blocks = 0, {}, []

    def until(*ends: str) -> list[str]:
        nonlocal place
        start = place
        while tokens[place][0] not in ends:
            place += 1
        place += 1
        return [word for mark, word in tokens[start : place - 1] if mark == "name"]

    while place < len(tokens):
        kind = tokens[place][1].lower()
        place += 1
        names = until("{")
        statements = []
        while tokens[place][0] != "}":
            start = place
            until(";")
            statements.append(tokens[start : place - 1])
        place += 1
        statements = [one for one in statements if one[0][1].lower() != "property"]
        if kind == "variable":
            ((_, _, _, size, *_),) = statements
            labels[names[0]] = [word for mark, word in statements[0][5:] if mark == "name"]
            if int(size[1]) != len(labels[names[0]]):
                raise Refused
        elif kind == "probability":
            blocks.append((names, statements))
    made: list = [labels]
    for (child, *parents), statements in blocks:
        shape = [len(labels[name]) for name in parents]
        table = np.full((*shape, len(labels[child])), np.nan)
        for one in sorted(statements, key=lambda one: one[0][1].lower() != "default"):
            words = [word for mark, word in one if mark == "name"]
            if one[0][0] == "(":
                where = tuple(labels[name].index(words[axis]) for axis, name in enumerate(parents))
                table[where] = [number(word) for word in words[len(parents) :]]
            elif words[0].lower() == "default":
                table[...] = [number(word) for word in words[1:]]
            else:
                values = np.array([number(word) for word in words[1:]])
                table = np.moveaxis(values.reshape(len(labels[child]), *shape), 0, -1)
        made.append(([*parents, child], rows(table.ravel().tolist(), len(labels[child]), True).reshape(table.shape)))
    return made


def json_tables(text: str) -> list:
    """[(names, table)] of the discrete nodes of a JSON text, and the numbers of the others."""
    nodes = json.loads(text)["nodes"]
    made: list = []
    for node in nodes:
        if node["type"] == "discrete":
            table = np.moveaxis(np.array(node["prob"], float), 0, -1)
            table = rows(table.ravel().tolist(), table.shape[-1], True).reshape(table.shape)
            made.append(([*node["parents"], node["name"]], table))
        else:
            made.append((node["name"], node["intercept"], node["coef"], node["sd"]))
    return made


def conditional(labels: dict, tables: list) -> list:
    """[labels by name, (names, table), …] of entries (child, parents, words), all checked against each other."""
    made: list = [labels]
    if sorted(child for child, _, _ in tables) != sorted(labels) or not labels:
        raise Refused
    for names in labels.values():
        if not names or len(set(names)) != len(names):
            raise Refused
    above = {child: set(parents) for child, parents, _ in tables}
    while above:
        free = [child for child, parents in above.items() if not parents & set(above)]
        if not free:
            raise Refused
        for child in free:
            del above[child]
    for child, parents, words in tables:
        if len(set(parents)) != len(parents):
            raise Refused
        table = rows([number(word) for word in words], len(labels[child]), True)
        made.append(([*parents, child], table.reshape([len(labels[name]) for name in (*parents, child)])))
    return made


def words_of(element: Element) -> str:
    if len(element):
        raise Refused
    text = element.text or ""
    return text if element.get("{http://www.w3.org/XML/1998/namespace}space") == "preserve" else text.strip()


def children(element: Element, allowed: str) -> Iterator[Element]:
    """The elements in one, which holds no other text."""
    texts = [element.text, *(child.tail for child in element)]
    if any((text or "").strip() for text in texts):
        raise Refused
    for child in element:
        if child.tag not in allowed.split():
            raise Refused
        yield child


def one(elements: list) -> Element:
    (element,) = elements
    return element


def root_of(text: str) -> Element:
    if "<!ENTITY" in text:
        raise Refused
    root = ElementTree.fromstring(text.encode(), parser=ElementTree.XMLParser(encoding="utf-8"))
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def xmlbif(text: str) -> list:
    root = root_of(text)
    network = one(list(children(root, "NETWORK")))
    assert root.tag == "BIF"
    labels: dict = {}
    tables = []
    parts = list(children(network, "NAME PROPERTY VARIABLE DEFINITION"))
    assert sum(part.tag == "NAME" for part in parts) < 2
    for part in parts:
        if part.tag == "VARIABLE":
            found = list(children(part, "NAME OUTCOME PROPERTY"))
            name = words_of(one([entry for entry in found if entry.tag == "NAME"]))
            if name in labels or part.get("TYPE", "nature") != "nature":
                raise Refused
            labels[name] = [words_of(entry) for entry in found if entry.tag == "OUTCOME"]
        if part.tag == "DEFINITION":
            found = list(children(part, "FOR GIVEN TABLE PROPERTY"))
            child = words_of(one([entry for entry in found if entry.tag == "FOR"]))
            parents = [words_of(entry) for entry in found if entry.tag == "GIVEN"]
            tables.append((child, parents, words_of(one([entry for entry in found if entry.tag == "TABLE"])).split()))
    return conditional(labels, tables)


def xdsl(text: str) -> list:
    root = root_of(text)
    assert root.tag == "smile"
    top = list(children(root, "nodes extensions property properties"))
    kept = {node.get("id"): node for part in top for node in part.findall("fubini/node")}
    nodes = list(children(one([part for part in top if part.tag == "nodes"]), "cpt deterministic"))
    labels, tables, names = {}, [], {}
    for node in nodes:
        parts = list(children(node, "state parents probabilities resultingstates property"))
        states = [part.attrib["id"] for part in parts if part.tag == "state"]
        other = kept.get(node.attrib["id"])
        name = node.attrib["id"] if other is None else other.get("name", node.attrib["id"])
        words = [] if other is None else [str(state.get("name")) for state in other.findall("state")]
        if name in labels or node.attrib["id"] in names:
            raise Refused
        names[node.attrib["id"]] = name
        labels[name] = words if len(words) == len(states) else states
        above = [part for part in parts if part.tag == "parents"]
        parents = words_of(one(above)).split() if above else []
        tag = "probabilities" if node.tag == "cpt" else "resultingstates"
        values = words_of(one([part for part in parts if part.tag == tag])).split()
        if node.tag == "deterministic":
            values = [str(int(state == value)) for value in values for state in states if states.index(value) >= 0]
        tables.append((name, parents, values))
    return conditional(labels, [(name, [names.get(p, p) for p in parents], values) for name, parents, values in tables])


def net(text: str) -> list:
    """By words: strings, signs, and what stands between."""
    text = re.sub(r'("(?:[^"\\]|\\.)*")|%[^\n]*', lambda match: match[1] or " ", text, flags=re.DOTALL)
    words = re.findall(r'"(?:[^"\\]|\\.)*"|[{}();=|,]|[^\s{}();=|,"]+|"', text, flags=re.DOTALL)
    if '"' in words:
        raise Refused
    place = 0

    def take(expected: str = "") -> str:
        nonlocal place
        place += 1
        if expected and words[place - 1] != expected:
            raise Refused
        return words[place - 1]

    def plain(word: str) -> str:
        if word[0] != '"':
            return word
        return re.sub(
            r"\\(.)", lambda m: {"n": "\n", "r": "\r", "t": "\t"}.get(m[1], m[1]), word[1:-1], flags=re.DOTALL
        )

    def attributes() -> dict:
        made: dict = {}
        take("{")
        while words[place] != "}":
            key = take()
            take("=")
            value = []
            while words[place] != ";":
                value.append(take())
            take(";")
            if key in made or not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", key) or {"{", "}"} & set(value):
                raise Refused
            made[key] = value
        take("}")
        return made

    labels, names, tables, nets = {}, {}, [], 0
    while place < len(words):
        kind = take()
        if kind == "net":
            nets += 1
            (_,) = attributes().get("name", [""])
            assert nets < 2
        elif kind in ("node", "discrete"):
            if kind == "discrete":
                take("node")
            identifier = take()
            found = attributes()
            (word,) = found.get("fubini_name", [identifier])
            name = plain(word)
            states = found["states"]
            if states[0] != "(" or states[-1] != ")" or identifier in names or name in labels:
                raise Refused
            names[identifier] = name
            labels[name] = [plain(word) for word in states if word not in ("(", ")", ",")]
        elif kind == "potential":
            take("(")
            header = []
            while words[place] != ")":
                header.append(take())
            take(")")
            child, *parents = [word for word in header if word not in (",", "|")]
            if header[1:2] not in ([], ["|"]) and header[:1] == [child]:
                raise Refused
            tables.append((child, parents, attributes()["data"]))
        else:
            raise Refused
    made = []
    for child, parents, data in tables:
        child, parents = names[child], [names[parent] for parent in parents]
        values = [word for word in data if word not in ("(", ")", ",")]
        brackets = [word for word in data if word != ","]
        if brackets != ["(", *values, ")"]:
            nested = values
            for size in reversed([*(len(labels[name]) for name in (*parents, child))]):
                nested = [["(", *nested[k : k + size], ")"] for k in range(0, len(nested), size)]
            if flat(nested) != brackets:
                raise Refused
        made.append((child, parents, values))
    return conditional(labels, made)


def flat(nested: Any) -> list:
    return [word for part in nested for word in flat(part)] if isinstance(nested, list) else [nested]
