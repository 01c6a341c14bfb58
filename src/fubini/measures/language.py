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
from collections.abc import Callable, Generator
from typing import Any

from fubini.algebra.binding import replaced
from fubini.algebra.build import ONE, ZERO, as_product, call, index, is_test, less, multiply, negate, plus, scale
from fubini.algebra.node import Index, Node
from fubini.algebra.ranges import bounds, is_whole
from fubini.base.assignment import target
from fubini.errors import DomainError
from fubini.families.parameters import Support
from fubini.measures.branch import (
    Branch,
    DrawStatement,
    Items,
    Returned,
    Test,
    is_impossible,
    refreshed,
)
from fubini.measures.draw_density import DrawDistribution, log_density, support_of
from fubini.measures.known_values import Check
from fubini.measures.measure import Measure
from fubini.measures.values import Entries, Number, as_number, entries, node_of, truth

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

    >>> from fubini.measures import Bernoulli
    >>> @measure
    ... def coin(p):
    ...     x = yield Bernoulli(p)
    ...     return 1 - x
    >>> print(coin(0.3))
    x ~ Bernoulli(3/10)
    returns 1 − x
    """

    @functools.wraps(function)
    def made(*args: Any, **named: Any) -> Measure:
        start = function(*args, **named)
        if not isinstance(start, Generator):
            return as_measure(start)
        branches: list[Branch] = []
        checks: list[Check] = []
        path: list[tuple[int, int]] = []  # which branch was taken, of how many
        while True:
            branch = _followed(function(*args, **named), path, checks)
            if branch is not None and not is_impossible(branch):
                branches.append(branch)
            while path and path[-1][0] + 1 == path[-1][1]:
                path.pop()
            if not path:
                return Measure(tuple(branches), checks)
            path[-1] = (path[-1][0] + 1, path[-1][1])

    return made


def as_measure(of: Any) -> Measure:
    """A measure as it is; anything else as what is returned with certainty."""
    return of if isinstance(of, Measure) else Measure((Branch((), (), ZERO, returned(of)),))


def dirac(*value: Any) -> Measure:
    """All mass at one value.

    >>> print(dirac(2))
    returns 2
    """
    return as_measure(value[0] if len(value) == 1 else value)


def _followed(program: Generator, path: list[tuple[int, int]], checks: list[Check]) -> Branch | None:
    """One run, with the branches on the path taken, then the first ones, which are written to it."""
    draws: list[DrawStatement] = []
    tests: list[Test] = []
    weights: list[Node] = []
    observed: list[DrawDistribution] = []
    sent, step = None, 0
    try:
        while True:
            asked = program.send(sent)
            if not isinstance(asked, Measure):
                raise DomainError(
                    f"yield {asked!r}", expected="a measure", advice="yield Normal(0, 1), weight(w), condition(test) …"
                )
            checks.extend(asked.checks)
            if step == len(path):
                path.append((0, len(asked.branches)))
            taken, step = path[step][0], step + 1
            if not asked.branches:
                path[-1] = (0, 1)
                return None
            part = refreshed(asked.branches[taken], target(program))
            draws.extend(part.draws)
            tests.extend(part.tests)
            weights.append(part.weight)
            observed.extend(part.observed)
            sent = given_back(part.value)
    except StopIteration as end:
        return Branch(tuple(draws), tuple(tests), plus(*weights), returned(end.value), tuple(observed))


# -- weights --------------------------------------------------------------------------------------------------------


def factor(log_weight: Any) -> Measure:
    """Mass e^log_weight, and nothing drawn.

    >>> round(float(fb.total_mass(factor(-1.5))), 6)
    0.22313
    """
    return Measure((Branch((), (), node_of(log_weight), ()),), as_number(log_weight).checks)


def weight(of: Any) -> Measure:
    """Mass `of`, and nothing drawn; tests that are factors of it are conditions.

    >>> fb.total_mass(weight(3))
    3
    """
    node, checks = node_of(of), as_number(of).checks
    if node is ZERO:
        return Measure(())
    if not bounds(node)[1] >= 0:
        raise DomainError(f"the weight {node}", expected="a number that is not negative")
    if node.kind == "where" and ZERO in node.args[1:]:
        test, first, second = node.args
        test, rest = (test, first) if second is ZERO else (negate(test), second)
        return bind_all(condition(Number(test, checks)), weight(Number(rest)))
    coefficient, factors = as_product(node)
    tests = [base for base in factors if is_test(base)]
    rest = scale(coefficient, multiply((base, power) for base, power in factors.items() if base not in tests))
    return Measure((Branch((), tuple(Test((), test) for test in tests), call("log", rest), ()),), checks)


def condition(test: Any) -> Measure:
    """Mass 1 where a test holds, else 0.

    >>> from fubini.measures import Uniform
    >>> @measure
    ... def late():
    ...     x = yield Uniform(0, 4)
    ...     yield condition(x > 1)
    ...     return x
    >>> fb.total_mass(late())
    0.75
    """
    node = node_of(test)
    if node.kind == "const":
        return Measure((Branch((), (), ZERO, ()),) if node.args[0] else ())
    tests = [truth(base) for base in as_product(node)[1]]
    return Measure((Branch((), tuple(Test((), test) for test in tests), ZERO, ()),), as_number(test).checks)


reject = Measure(())


def bind_all(*parts: Measure) -> Measure:
    """Some measures one after the other, of which the last one's value is returned.

    >>> from fubini.measures import Normal
    >>> print(bind_all(weight(2), Normal(0, 1)))
    last ~ Normal(0, 1)
    weight 2
    returns last
    """

    @measure
    def every() -> Generator:
        last = None
        for part in parts:
            last = yield part
        return last

    return every()


def superpose(*parts: Measure | tuple[Any, Measure]) -> Measure:
    """The sum of measures, or of pairs of a weight and a measure.

    >>> from fubini.measures import Normal
    >>> fb.total_mass(superpose(Normal(0, 1), (2, Normal(1, 1))))
    3
    """
    branches: list[Branch] = []
    checks: list[Check] = []
    for part in parts:
        whole = bind_all(weight(part[0]), part[1]) if isinstance(part, tuple) else part
        branches.extend(whole.branches)
        checks.extend(whole.checks)
    return Measure(tuple(branches), checks)


def observe(distribution: Measure, value: Any) -> Measure:
    """The density of a draw at a value, as a weight.

    >>> from fubini.measures import Exponential
    >>> fb.total_mass(observe(Exponential(2), 0))
    2
    """
    draw, at = _only_draw(distribution), value.at if isinstance(value, Entries) else lambda: node_of(value)
    support = support_of(draw.distribution)
    if support is not None and support.is_whole and not is_whole(at()):
        raise DomainError(
            f"{draw.distribution.family} observed at {at()}",
            expected="a whole number",
            advice='symbol("x", kind="whole")',
        )
    tests = () if support is None else inside(support, at())
    return Measure((Branch((), tests, log_density(draw.distribution, at), (), (draw.distribution,)),))


def _only_draw(distribution: Measure) -> DrawStatement:
    """The one draw of a measure that is nothing else."""
    branch = distribution.branches[0] if len(distribution.branches) == 1 else None
    if branch is not None and len(branch.draws) == 1 and not branch.tests and branch.weight is ZERO:
        (draw,) = branch.draws
        entry = branch.value.entry if isinstance(branch.value, Items) else branch.value
        is_returned = isinstance(entry, Node) and entry.kind == "get" and entry.args[0] is draw.leaf
        if is_returned and not draw.at and not draw.distribution.is_opaque:
            return draw
    raise DomainError(
        f"observe {distribution}",
        expected="one draw of a known family",
        advice="disintegrate a program at what it returns",
    )


def inside(support: Support, at: Node) -> tuple[Test, ...]:
    """That a value is in a support, as far as it is not known."""
    tests = (negate(less(at, support.low)), negate(less(support.high, at)))
    return tuple(Test((), test) for test in tests if test is not ONE)
