"""Readers of network files that know nothing of fubini's: slow, short, and strict; None for what they refuse."""

import json
import math
import re

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
