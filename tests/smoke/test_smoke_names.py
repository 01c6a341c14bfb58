"""Site names, on every supported Python: the target of a yield is read from bytecode, which differs between them."""

import numpy as np
import pytest

import fubini as fb
from fubini import dist

pytestmark = pytest.mark.right_or_refused

NORMAL = dist.Normal(0.0, 1.0)


def plain():
    a = yield NORMAL
    b: float = yield NORMAL
    c = yield dist.Normal(a + b, 1.0)  # the stores before it may be joined with loads
    yield dist.Normal(c, 1.0).named("end")


def not_plain():
    a, b = yield dist.Normal(np.zeros(2), 1.0)
    c = (yield NORMAL) + a + b
    yield NORMAL
    _ = yield dist.Normal(c, 1.0)
    d = yield NORMAL


def loops():
    total = 0.0
    for place in range(2):
        x = yield dist.Normal(total, 1.0)
        while total < place:
            y = yield dist.Normal(x, 1.0)
            total += 1


def blocks():
    try:
        with np.errstate(all="ignore"):
            a = yield NORMAL
            if True:
                b = yield dist.Normal(a, 1.0)
    finally:
        pass
    c = (yield NORMAL) if False else 1.0
    d = yield dist.Normal(b, 1.0)


def cells():
    a = yield NORMAL
    shifted = lambda value: a + value  # noqa: E731
    b = yield dist.Normal(shifted(1.0), 1.0)
    return lambda: b


def shared():
    global outside
    outside = yield NORMAL
    y = yield dist.Normal(outside, 1.0)


def pair(m):
    y = yield dist.Normal(m, 1.0)
    z = yield dist.Normal(y, 1.0)
    return z


def nested():
    m = yield NORMAL
    z = yield from pair(m)
    w = yield dist.Normal(z, 1.0)


def keyword(scale, *, loc=0.0):
    m = yield dist.Normal(loc, scale)
    x = yield dist.Normal(m, scale)


CASES = {
    plain: ("a", "b", "c", "end"),
    not_plain: ("var0", "var1", "var2", "var3", "d"),
    loops: ("x", "x_1", "y"),
    blocks: ("a", "b", "d"),
    cells: ("a", "b"),
    shared: ("outside", "y"),
    nested: ("m", "y", "z", "w"),
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_targets_of_yields_name_sites(function) -> None:
    assert fb.model(function)().names == CASES[function]


def test_arguments_are_not_sites() -> None:
    assert fb.model(keyword)(2.0, loc=1.0).names == ("m", "x")


def test_a_function_of_many_variables_names_its_sites() -> None:
    """Beyond 255 variables, an instruction has a prefix before it."""
    lines = ["def many():", *(f"    v{place} = 0.0" for place in range(300))]
    lines += ["    last = yield NORMAL", "    end = yield dist.Normal(last, 1.0)"]
    namespace = {"NORMAL": NORMAL, "dist": dist}
    exec("\n".join(lines), namespace)
    assert fb.model(namespace["many"])().names == ("last", "end")


def test_draws_of_a_measure_are_named() -> None:
    @fb.measure
    def program():
        x = yield fb.measures.Normal(0, 1)
        height = yield fb.measures.Normal(x, 1)
        return height

    assert "height = yield Normal(0, sqrt(2))" in fb.simplify(program()).source()


def test_lists_dicts_and_mixtures() -> None:
    assert fb.JointSequential([NORMAL, lambda m: dist.Normal(m, 1.0)]).names == ("m", "x")
    assert fb.JointNamed(dict(m=NORMAL, y=lambda m: dist.Normal(m, 1.0))).names == ("m", "y")
