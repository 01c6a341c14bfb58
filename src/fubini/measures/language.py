"""How measures are written: generator functions, in which each `yield` is a measure and gives its value back.

@measure
def twice(mu):
    x = yield Normal(mu, 1)
    y = yield Normal(x, 1)
    z = yield Normal(x, 1)
    return y, z
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Generator, Sequence
from typing import Any

from fubini.assignment import target
from fubini.errors import DomainError
from fubini.index.build import ONE, ZERO, call, const, equal, get, index, negate, plus, replaced
from fubini.index.build import where as chosen
from fubini.index.node import Index, Leaf, Node
from fubini.index.ranges import bounds
from fubini.index.sums import total
from fubini.measures.laws import FAMILIES, Law, Support, Vector, log_density, support_of
from fubini.measures.measure import Measure
from fubini.measures.program import (
    Branch,
    Draw,
    Items,
    Returned,
    Test,
    fresh_like,
    is_impossible,
    mapped_value,
    refreshed,
    transformed,
)
from fubini.measures.values import Entries, Number, entries, node_of

# -- values ---------------------------------------------------------------------------------------------------------


def returned(value: Any) -> Returned:
    """What a program returns, as nodes; nothing is an empty tuple."""
    if value is None:
        return ()
    if isinstance(value, tuple | list):
        return tuple(map(returned, value))
    if isinstance(value, Entries):
        over = tuple(Index(size) for size in value.shape)
        return Items(over, value.at(*map(index, over)))
    return node_of(value)


def given_back(value: Returned) -> Any:
    """What is returned, as Python works with it."""
    if isinstance(value, Items):
        return entries(tuple(i.size for i in value.over), functools.partial(_item, value))
    if isinstance(value, tuple):
        return tuple(map(given_back, value))
    return Number(value)


def _item(value: Items, *places: Node) -> Node:
    return replaced(value.entry, {index(i): place for i, place in zip(value.over, places, strict=True)})


# -- programs -------------------------------------------------------------------------------------------------------


def measure(function: Callable[..., Any]) -> Callable[..., Measure]:
    """A generator function as a function to measures; it runs once for each branch.

    >>> @measure
    ... def coin(p):
    ...     x = yield Bernoulli(p)
    ...     return 1 - x
    >>> print(coin(0.3))
    @measure
    def program():
        x = yield Bernoulli(3/10)
        return 1 - x
    """

    @functools.wraps(function)
    def made(*args: Any, **named: Any) -> Measure:
        start = function(*args, **named)
        if not isinstance(start, Generator):
            return as_measure(start)
        found: list[Branch] = []
        path: list[tuple[int, int]] = []  # which branch was taken, of how many
        while True:
            branch = _followed(function(*args, **named), path)
            if branch is not None and not is_impossible(branch):
                found.append(branch)
            while path and path[-1][0] + 1 == path[-1][1]:
                path.pop()
            if not path:
                return Measure(tuple(found))
            path[-1] = (path[-1][0] + 1, path[-1][1])

    return made


def as_measure(of: Any) -> Measure:
    """A measure as it is; anything else as what is returned with certainty."""
    return of if isinstance(of, Measure) else Measure((Branch((), (), ZERO, returned(of)),))


def dirac(*value: Any) -> Measure:
    """All mass at one value."""
    return as_measure(value[0] if len(value) == 1 else value)


def _followed(program: Generator, path: list[tuple[int, int]]) -> Branch | None:
    """One run, with the branches on the path taken, then the first ones, which are written to it."""
    draws: list[Draw] = []
    tests: list[Test] = []
    weights: list[Node] = []
    sent, step = None, 0
    try:
        while True:
            asked = program.send(sent)
            if not isinstance(asked, Measure):
                raise DomainError(
                    f"yield {asked!r}", expected="a measure", advice="yield Normal(0, 1), weight(w), condition(test) …"
                )
            if step == len(path):
                path.append((0, len(asked.branches)))
            taken, step = path[step][0], step + 1
            if not asked.branches:
                path[-1] = (0, 1)
                return None
            part = refreshed(asked.branches[taken])
            _name(part, target(program))
            draws.extend(part.draws)
            tests.extend(part.tests)
            weights.append(part.weight)
            sent = given_back(part.value)
    except StopIteration as end:
        return Branch(tuple(draws), tuple(tests), plus(*weights), returned(end.value))


def _name(branch: Branch, name: str | None) -> None:
    """The drawn value that is returned is called as the program calls it."""
    if name is None:
        return
    entry = branch.value.entry if isinstance(branch.value, Items) else branch.value
    if isinstance(entry, Node) and entry.kind == "get" and entry.args[0] in branch.drawn:
        entry.args[0].name = name


# -- draws ----------------------------------------------------------------------------------------------------------


def drawn(law: Law, name: str = "x") -> Measure:
    """One draw, and its value."""
    leaf = leaf_of(law, name)
    draw = Draw(leaf, (), law)
    over = tuple(Index(size) for size in leaf.shape)
    value = Items(over, get(leaf, *map(index, over))) if over else draw.entry()
    return Measure((Branch((draw,), (), ZERO, value),))


def leaf_of(law: Law, name: str) -> Leaf:
    """A leaf for one draw, with what the support says of it."""
    if law.family == "Dirichlet":
        (alpha,) = law.parameters
        assert isinstance(alpha, Vector)
        return Leaf(name, (alpha.over.size,), low=0.0, high=1.0, is_simplex=True, role="site")
    support = support_of(law)
    return Leaf(name, (), role="site") if support is None else leaf_in(support, name)


def leaf_in(support: Support, name: str, shape: tuple[int, ...] = ()) -> Leaf:
    """A leaf with the bounds of a support."""
    low, high = bounds(support.low)[0], bounds(support.high)[1]
    return Leaf(
        name,
        shape,
        low=None if math.isinf(low) else low,
        high=None if math.isinf(high) else high,
        is_integer=support.is_whole,
        role="site",
    )


def _constructor(family: str, **defaults: float) -> Callable[..., Measure]:
    names = FAMILIES[family].names

    def make(*args: Any, **named: Any) -> Measure:
        given = {**defaults, **dict(zip(names, args, strict=False)), **named}
        if set(given) != set(names) or len(args) > len(names):
            raise DomainError(f"{family} of {', '.join(map(str, given))}", expected=", ".join(names))
        return drawn(Law(family, tuple(node_of(given[name]) for name in names)))

    make.__name__ = make.__qualname__ = family
    make.__doc__ = f"{family}({', '.join(names)})"
    return make


Normal, Cauchy, Laplace = _constructor("Normal"), _constructor("Cauchy"), _constructor("Laplace")
StudentT = _constructor("StudentT", loc=0.0, scale=1.0)
Gamma, InverseGamma = _constructor("Gamma"), _constructor("InverseGamma")
Exponential, ChiSquared = _constructor("Exponential"), _constructor("ChiSquared")
HalfNormal, BetaPrime = _constructor("HalfNormal"), _constructor("BetaPrime")
LogNormal, GeneralizedGamma = _constructor("LogNormal"), _constructor("GeneralizedGamma")
TruncatedNormal = _constructor("TruncatedNormal", low=-math.inf, high=math.inf)
Beta, Uniform = _constructor("Beta"), _constructor("Uniform")
Lebesgue = _constructor("Lebesgue", low=-math.inf, high=math.inf)
Counting = _constructor("Counting", low=0.0, high=math.inf)
Bernoulli, Poisson, Geometric = _constructor("Bernoulli"), _constructor("Poisson"), _constructor("Geometric")
NegativeBinomial, Binomial = _constructor("NegativeBinomial"), _constructor("Binomial")
BetaBinomial, Hypergeometric = _constructor("BetaBinomial"), _constructor("Hypergeometric")


def Categorical(weights: Entries | Sequence[Any]) -> Measure:
    """0 … n − 1 with these weights, which need not add up to 1"""
    return drawn(Law("Categorical", (_vector(weights),)))


def Dirichlet(concentration: Entries | Sequence[Any]) -> Measure:
    """A point of the simplex"""
    return drawn(Law("Dirichlet", (_vector(concentration),)))


def _vector(values: Entries | Sequence[Any]) -> Vector:
    if isinstance(values, Entries):
        (size,) = values.shape
        over = Index(size)
        return Vector(over, values.at(index(over)))
    over = Index(len(values))
    *rest, found = map(node_of, values)
    for place in reversed(range(len(rest))):
        found = chosen(equal(index(over), const(place)), rest[place], found)
    return Vector(over, found)


def opaque(name: str, shape: tuple[int, ...] = ()) -> Callable[..., Measure]:
    """A measure of which only the name is known, as a function of its parameters.

    >>> m = opaque("m")
    >>> print(m(2))
    @measure
    def program():
        x = yield m(2)
        return x
    """

    def make(*args: Any) -> Measure:
        law = Law("Opaque", tuple(map(node_of, args)), name)
        leaf = Leaf("x", shape, role="site")
        over = tuple(Index(size) for size in shape)
        value = Items(over, get(leaf, *map(index, over))) if shape else get(leaf)
        return Measure((Branch((Draw(leaf, (), law),), (), ZERO, value),))

    make.__name__ = make.__qualname__ = name
    return make


# -- weights --------------------------------------------------------------------------------------------------------


def factor(log_weight: Any) -> Measure:
    """Mass e^log_weight, and nothing drawn."""
    return Measure((Branch((), (), node_of(log_weight), ()),))


def weight(of: Any) -> Measure:
    """Mass `of`, and nothing drawn; tests that are factors of it are conditions."""
    node = node_of(of)
    if node is ZERO:
        return Measure(())
    if node.kind == "where" and ZERO in node.args[1:]:
        test, first, second = node.args
        test, rest = (test, first) if second is ZERO else (negate(test), second)
        return bind_all(condition(Number(test)), weight(Number(rest)))
    factors = list(node.args) if node.kind == "mul" else [(node, 1.0)]
    tests = tuple(Test((), base) for base, _ in factors if base.kind in ("lt", "eq"))
    rest = node
    for test in tests:
        rest = replaced(rest, {test.node: ONE})
    return Measure((Branch((), tests, call("log", rest), ()),))


def condition(test: Any) -> Measure:
    """Mass 1 where a test holds, else 0."""
    node = node_of(test)
    if node.kind == "const":
        return Measure((Branch((), (), ZERO, ()),) if node.args[0] else ())
    factors = node.args if node.kind == "mul" else ((node, 1.0),)
    return Measure((Branch((), tuple(Test((), base) for base, _ in factors), ZERO, ()),))


reject = Measure(())


def bind_all(*parts: Measure) -> Measure:
    """Some measures one after the other, of which the last one's value is returned."""

    @measure
    def every() -> Generator:
        last = None
        for part in parts:
            last = yield part
        return last

    return every()


def superpose(*parts: Measure | tuple[Any, Measure]) -> Measure:
    """The sum of measures, or of pairs of a weight and a measure."""
    found: list[Branch] = []
    for part in parts:
        whole = bind_all(weight(part[0]), part[1]) if isinstance(part, tuple) else part
        found.extend(whole.branches)
    return Measure(tuple(found))


def observe(law: Measure, value: Any) -> Measure:
    """The density of a draw at a value, as a weight."""
    branch = law.branches[0] if len(law.branches) == 1 else None
    plain = branch is not None and len(branch.draws) == 1 and not branch.tests and branch.weight is ZERO
    if branch is None or not plain or branch.draws[0].at or branch.draws[0].law.is_opaque:
        raise DomainError(
            f"observe {law}", expected="one draw of a known family", advice="disintegrate a program at what it returns"
        )
    draw, at = branch.draws[0], given_entry(value)
    support = support_of(draw.law)
    tests = () if support is None else inside(support, at())
    return Measure((Branch((), tests, log_density(draw.law, at), ()),))


def given_entry(value: Any) -> Callable[..., Node]:
    """How an observed value is read."""
    return value.at if isinstance(value, Entries) else lambda: node_of(value)


def inside(support: Support, at: Node) -> tuple[Test, ...]:
    """That a value is in a support, as far as it is not known."""
    from_low = negate(less_than(at, support.low))
    to_high = negate(less_than(support.high, at))
    return tuple(Test((), test) for test in (from_low, to_high) if test is not ONE)


def less_than(a: Node, b: Node) -> Node:
    """[a < b], for ends that may be infinite"""
    from_number = Number(a) < Number(b)
    return from_number.node


# -- plates ---------------------------------------------------------------------------------------------------------


def plate(size: int, kernel: Callable[[Number], Any]) -> Measure:
    """An array of independent draws: of the measure that a kernel makes from the index."""
    i = Index(size)
    inner = as_measure(kernel(Number(index(i))))
    if len(inner.branches) != 1:
        return _plate_of_cases(size, i, inner)
    (branch,) = inner.branches
    names = {leaf: fresh_like(leaf, shape=(size, *leaf.shape)) for leaf in branch.drawn}

    def raised(of: Node) -> Node:
        for old, new in names.items():
            of = transformed(of, old, lambda *at, new=new: get(new, index(i), *at))
        return of

    draws = tuple(Draw(names[d.leaf], (i, *d.at), d.law.mapped(raised)) for d in branch.draws)
    tests = tuple(Test((i, *test.over), raised(test.node)) for test in branch.tests)
    value = _with_axis(mapped_value(branch.value, raised), i)
    return Measure((Branch(draws, tests, total([i], raised(branch.weight)), value),))


def _with_axis(value: Returned, i: Index) -> Returned:
    if isinstance(value, Items):
        return Items((i, *value.over), value.entry)
    if isinstance(value, tuple):
        return tuple(_with_axis(part, i) for part in value)
    return Items((i,), value)


def _plate_of_cases(size: int, i: Index, inner: Measure) -> Measure:
    raise DomainError(
        f"a plate of a superposition of {len(inner.branches)} measures",
        expected="a kernel with one branch",
        advice="draw a label from Categorical and choose with where(label == k, a, b)",
    )
