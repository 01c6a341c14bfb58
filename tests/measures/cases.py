"""How a program is tested: simplified it is what was expected, with the same integrals, and its text makes it again."""

from dataclasses import dataclass, field

import numpy as np

import fubini.measures as language
from fubini.algebra.build import get
from fubini.measures import values
from fubini.measures.measure import Measure
from fubini.measures.simplify import simplify
from tests.measures.oracle import alike, densities, expectations

WORDS = {**vars(language), "inf": np.inf}


@dataclass
class Case:
    """A program, what it should become (None: only its integrals are compared), and numbers for its symbols."""

    written: Measure
    expected: Measure | None
    numbers: dict = field(default_factory=dict)
    count: int = 31  # nodes of the quadrature for each draw
    tolerance: float = 1e-6
    opaque: dict = field(default_factory=dict)
    cuts: tuple = ()  # where densities jump
    compares: str = "integrals"  # or the density of what is returned, or nothing: a test of its own does


def leaf(symbol):
    """The leaf of a symbol."""
    node = symbol.node if isinstance(symbol, values.Number) else symbol.at(*[values.node_of(0)] * len(symbol.shape))
    return node.args[0]


def again(measure, numbers, opaque=()):
    """The measure that the text of a measure makes."""
    names = {symbol.name: values.entries(symbol.shape, _reading(symbol)) for symbol in numbers}
    space = {**WORDS, **names, **{name: language.opaque(name) for name in opaque}}
    exec(measure.source(), space)
    return space["program"]()


def _reading(symbol):
    return lambda *at: get(symbol, *at)


def perturbed(leaf, value, rng):
    """Other numbers that a symbol may have: whole ones stay, probabilities stay between 0 and 1."""
    by = rng.uniform(0.8, 1.25, np.shape(value))
    return value if leaf.is_integer else np.asarray(value) ** by if leaf.high == 1 else np.asarray(value) * by


def check(case):
    """Simplify a case, and compare: at its numbers, and at some that are drawn at random."""
    numbers = {leaf(symbol): value for symbol, value in case.numbers.items()}
    found = simplify(case.written)
    assert again(case.written, numbers, case.opaque) == case.written
    assert again(found, numbers, case.opaque) == found, str(found)
    rng = np.random.default_rng(len(found.source()))
    for some in (numbers, {leaf: perturbed(leaf, value, rng) for leaf, value in numbers.items()}):
        _compare(case, found, some)
    return found


def _compare(case, found, numbers):
    if case.expected is not None:
        assert alike(found, case.expected, numbers), f"{found}\n\nexpected\n\n{case.expected}"
    if case.compares == "density":
        before, after = (densities(one, numbers, case.count) for one in (case.written, found))
        np.testing.assert_allclose(after, before, rtol=case.tolerance, err_msg=str(found))
    elif case.compares == "integrals":
        before, after = (
            expectations(one, numbers, case.count, case.opaque, case.cuts) for one in (case.written, found)
        )
        np.testing.assert_allclose(after, before, rtol=case.tolerance, atol=1e-9, err_msg=str(found))
