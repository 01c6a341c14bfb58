"""Every operation on one factor, for every representation, against pointwise evaluation and quadrature."""

from functools import reduce
from operator import mul

import numpy as np
import pytest

import fubini as fb
from fubini.errors import Intractable, NoRule

from .oracles import DOMAINS, INTEGERS, integral, points
from .pair_tables import TWO_MEASURES
from .representations import (
    EXAMPLES,
    MIXED,
    MIXTURES,
    POINT_MASSES,
    assert_at,
    assert_total,
    priors,
    product,
    read,
    read_log,
    without,
)

each = pytest.mark.parametrize("key", EXAMPLES)


def number(value: np.ndarray) -> object:
    return value if value.shape else value.item()


@each
def test_it_is_the_function_it_should_be(key):
    example = EXAMPLES[key]
    factor, at = example.factor, points([example])
    assert isinstance(factor, example.kind)
    assert factor.inputs == {name: DOMAINS[name] for name in factor.inputs}
    if key in MIXED:
        for how in (read, read_log):
            with pytest.raises(Intractable, match=TWO_MEASURES):
                how(factor, at)
        return
    assert_at(factor, example(at), at)
    assert_at(factor, example(at), at, how=read_log)


@each
def test_renaming(key):
    """New names for all, and the old ones back; two names swapped."""
    example = EXAMPLES[key]
    at = points([example])
    names = {name: f"{name}_" for name in example.names}
    there = example.factor(**names)
    assert set(there.inputs) == set(names.values())
    back = there({new: old for old, new in names.items()})
    assert back.inputs.keys() == example.factor.inputs.keys()
    if key not in MIXED:
        assert_at(back, example(at), at)
    if {"x", "y"} <= set(example.names):
        assert_at(example.factor(x="y", y="x"), example({**at, "x": at["y"], "y": at["x"]}), at)


@pytest.mark.parametrize("key", [key for key in EXAMPLES if key != "quartic weight"])
def test_conditioning_and_then_summing(key):
    """∫ f(x = v) is the integral at x = v, for each name in turn, beside a prior."""
    example = EXAMPLES[key]
    rest = priors([example])
    for name in example.names:
        at = {name: points([example], count=3, nodes=True)[name]}
        for k, expected in enumerate(np.atleast_1d(integral([example, *rest], at))):
            if key in MIXED and example.parts[1](at)[k] > 0:
                with pytest.raises(Intractable, match=TWO_MEASURES):
                    example.factor(**{name: number(at[name][k])})
                continue
            given = (example.factor * product(*rest))(**{name: number(at[name][k])})
            assert_total(given.sum(*given.inputs) if given.inputs else given, expected)


@each
def test_sum_over_each_name(key):
    example = EXAMPLES[key]
    for name in example.names:
        at = without(points([example], nodes=True), name)
        if name not in example.closed:
            with pytest.raises(fb.FubiniError, match=f"'{name}'"):
                example.factor.sum(name)
        elif key not in MIXED or name == "x":
            assert_at(example.factor.sum(name), integral([example], at), at)


@each
def test_sum_over_an_absent_variable(key):
    """It multiplies by its size; over the reals it is an error."""
    example = EXAMPLES[key]
    at = points([example])
    found = example.factor.sum(fb.Variable("z", fb.Bint[4]))
    if key in MIXED:
        assert_total(found.sum("x"), 4.0 * integral([example]))
    else:
        assert_at(found, 4.0 * example(at), at)
    with pytest.raises(Intractable, match="'z'"):
        example.factor.sum(fb.Variable("z", fb.Real))


@pytest.mark.parametrize("key", [key for key, example in EXAMPLES.items() if example.is_proper])
def test_normalised_it_sums_to_one(key):
    example = EXAMPLES[key]
    whole = example.factor.normalize()
    assert_total(whole.sum(*example.names), 1.0, rtol=1e-12)
    if key not in MIXED:
        at = points([example])
        assert_at(whole, example(at) / integral([example]), at)


CONDITIONALS = (
    ("table", "a"),
    ("log table", "a"),
    ("diagram", "a"),
    ("diagram", "b"),
    ("sparse", "a"),
    ("sparse", "b"),
    ("train", "a"),
    ("train", "b"),
    ("gaussian", "x"),
    ("batched gaussian", "x"),
    ("batched gaussian", "y"),
    ("array gaussian", "x"),
    ("array gaussian", "v"),
    ("real delta", "x"),
    ("delta at a discrete name", "x"),
    ("delta at a discrete name", "b"),
    ("delta at a real name", "x"),
    ("mixture over a bound index", "x"),
    ("sum of gaussians", "x"),
    ("normal density", "y"),
    ("multivariate normal density", "v"),
    ("categorical density", "a"),
    ("categorical density", "b"),
    ("gamma density", "r"),
    ("poisson density", "n"),
    ("quadratic weight", "x"),
    ("unit of a discrete name", "a"),
    ("steps", "u"),
    ("steps", "b"),
    ("box", "a"),
)


@pytest.mark.parametrize(("key", "name"), CONDITIONALS)
def test_normalised_over_one_name(key, name):
    """It sums to one over that name for each value of the others, wherever there is mass."""
    example = EXAMPLES[key]
    at = without(points([example], nodes=True), name)
    assert_at(example.factor.normalize(name).sum(name), np.where(integral([example], at) > 0, 1.0, 0.0), at)


@pytest.mark.parametrize("key", ["batched gaussian", "gamma density", "mixture over a bound index"])
def test_normalised_by_a_mixture_is_an_error(key):
    with pytest.raises(NoRule, match="a quotient by a sum of factors is not a sum of factors"):
        EXAMPLES[key].factor.normalize("a")


@each
@pytest.mark.parametrize("exponent", (0.5, 2.0))
def test_power(key, exponent):
    example = EXAMPLES[key]
    if key in MIXTURES and exponent != 2.0:
        with pytest.raises(NoRule, match="a power of a sum is not a sum of powers"):
            example.factor**exponent
    elif key in MIXTURES & (MIXED | POINT_MASSES):
        with pytest.raises(NoRule, match="both fix 'x'"):
            example.factor**exponent
    elif key in POINT_MASSES:
        with pytest.raises(NoRule, match="a power of a point mass over 'x' is not a factor"):
            example.factor**exponent
    else:
        at = points([example])
        assert_at(example.factor**exponent, example(at) ** exponent, at)


@pytest.mark.parametrize(
    ("key", "plate"), [(key, name) for key, example in EXAMPLES.items() for name in example.names if name in INTEGERS]
)
def test_a_plate_is_the_product_of_its_slices(key, plate):
    """A constant beside it counts once for each cell."""
    example, size = EXAMPLES[key], DOMAINS[plate].extent
    if key in POINT_MASSES:
        with pytest.raises(NoRule, match=r"Delta\(x="):
            example.factor.product(plate)
        return
    at = points([example])
    cells = [{**at, plate: np.full_like(at[plate], cell)} for cell in range(size)]
    expected, rest = np.prod([example(cell) for cell in cells], axis=0), without(at, plate)
    expected = expected if rest else expected[0]
    assert_at(example.factor.product(plate), expected, rest)
    assert_at((2.0 * example.factor).product(plate), 2.0**size * expected, rest)
    assert_at(reduce(mul, [example.factor(**{plate: cell}) for cell in range(size)]), expected, rest)


@each
def test_a_plate_that_it_lacks_is_a_power(key):
    example, plate = EXAMPLES[key], fb.Variable("z", fb.Bint[3])
    if key in POINT_MASSES or key == "gaussian plus delta":
        with pytest.raises(NoRule, match=r"a power of a|both fix 'x'"):
            example.factor.product(plate)
    else:
        at = points([example])
        assert_at(example.factor.product(plate), example(at) ** 3, at)


INFINITE = [(key, name) for key, example in EXAMPLES.items() for name in example.names if name not in INTEGERS]


@pytest.mark.parametrize(("key", "name"), INFINITE)
def test_a_plate_over_an_infinite_name_is_an_error(key, name):
    with pytest.raises(fb.FubiniError, match=f"'{name}'"):
        EXAMPLES[key].factor.product(name)
