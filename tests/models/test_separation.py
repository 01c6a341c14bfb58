"""d-separation: against the definition on random graphs, and against independence by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DomainError, NameClash, UnknownName
from fubini.models.network_structure import Structure


def by_moral_graph(parents: dict[str, tuple[str, ...]], a: str, b: str, given: set[str]) -> bool:
    """Lauritzen's criterion: no path in the moral graph of the ancestors once the given are taken away."""
    ancestors, waiting = set(), [a, b, *given]
    while waiting:
        name = waiting.pop()
        if name not in ancestors:
            ancestors.add(name)
            waiting += parents[name]
    near: dict[str, set[str]] = {name: set() for name in ancestors}
    for name in ancestors:
        for one, other in itertools.permutations((name, *parents[name]), 2):
            near[one].add(other)
    seen, waiting = set(given), [a]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += near[name]
    return b not in seen


@pytest.mark.parametrize("seed", range(5))
def test_the_moral_graph(seed: int) -> None:
    """Every pair of a random graph of six, given every set of the others."""
    random, names = np.random.default_rng(seed), list("abcdef")
    parents = {n: tuple(m for m in names[:k] if random.random() < 0.4) for k, n in enumerate(names)}
    structure = Structure.of_parents(dict(sorted(parents.items(), key=lambda _: random.random())))
    for a, b in itertools.combinations(names, 2):
        others = [name for name in names if name not in (a, b)]
        for size in range(5):
            for given in itertools.combinations(others, size):
                expected = by_moral_graph(parents, a, b, set(given))
                assert structure.is_separated(a, b, given) is expected
                assert (b not in structure.reached(a, given)) is expected


def test_separation_is_independence() -> None:
    """Of random numbers, variables are independent where they are separated and nowhere else."""
    random = np.random.default_rng(0)
    parents = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("d",)}
    factors = [fb.Table(random.dirichlet(np.ones(2), (2,) * len(up)), (*up, name)) for name, up in parents.items()]
    net = fb.Network(dict.fromkeys(parents, fb.Bint[2]), tuple(factors), children=tuple(parents))
    for one, other in itertools.combinations(parents, 2):
        for given in itertools.chain.from_iterable(
            itertools.combinations([n for n in parents if n not in (one, other)], size) for size in range(3)
        ):
            table = np.exp(net.marginal(one, other, *given).log().data)
            names = list(net.marginal(one, other, *given).inputs)
            table = table.transpose([names.index(name) for name in (one, other, *given)])
            both = table * table.sum((0, 1)) - table.sum(0) * table.sum(1, keepdims=True)
            assert net.structure.is_separated(one, other, given) is bool(np.abs(both).max() < 1e-12)


def test_of_models_and_groups() -> None:
    """Observed sites are given anyway."""
    model = fb.JointNamed(
        dict(
            a=dist.Normal(0.0, 1.0), b=dist.Normal(0.0, 1.0),
            x=lambda a, b: dist.Normal(a + b, 1.0), z=lambda b: dist.Normal(b, 1.0),
        )
    )  # fmt: skip
    assert model.graph().is_separated("a", ("b", "z")) and not model.graph().is_separated("a", ["z"], given="x")
    assert not model.condition(x=0.0).graph().is_separated("a", "b")


def test_drawing() -> None:
    structure = Structure.of_parents({"grass": ["rain"]}, {"rain": fb.Bint.labelled("dry", "wet")})
    assert repr(structure) == "rain: dry, wet\ngrass, given rain"
    assert structure.to_dot() == 'digraph {\n  "rain";\n  "grass";\n  "rain" -> "grass";\n}'
    assert structure._repr_svg_().startswith("<svg") and dict(structure) == {"rain": (), "grass": ("rain",)}


def test_bad_structures() -> None:
    with pytest.raises(
        DomainError, match=r"(?s)the cycle (a → b → c → a|b → c → a → b|c → a → b → c).*without a cycle"
    ):
        Structure.of_parents({"b": ["a"], "c": ["b"], "a": ["c"]})
    with pytest.raises(DomainError, match=r"(?s)parents 'rain' of 'grass'.*a list of names"):
        Structure.of_parents({"grass": "rain"})
    with pytest.raises(DomainError, match=r"(?s)as list\n.*a network, or a mapping"):
        fb.Network.learn({"a": [0, 1]}, structure=["a"])
    with pytest.raises(NameClash, match="each parent once"):
        Structure.of_parents({"b": ["a", "a"]})
    with pytest.raises(UnknownName, match=r"(?s)values of 'rian'.*nearest: +'rain'"):
        Structure.of_parents({"grass": ["rain"]}, {"rian": fb.Bint[2]})
    structure = Structure.of_parents({"b": ["a"], "c": ["b"]})
    with pytest.raises(UnknownName, match=r"(?s)'d'.*3 sites"):
        structure.is_separated("a", "d")
    with pytest.raises(NameClash, match=r"(?s)in common.*'a' is in two"):
        structure.is_separated("a", "b", given=("a", "c"))
    undirected = fb.Network({"a": fb.Bint[2]}, (fb.Table([1.0, 3.0], ("a",)),), directed=False)
    with pytest.raises(DomainError, match=r"(?s)structure of.*a directed network"):
        _ = undirected.structure
