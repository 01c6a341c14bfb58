"""The laws of the algebra for every representation and every pair, against pointwise evaluation and quadrature."""

from functools import reduce
from itertools import permutations
from operator import mul

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import fubini as fb
from fubini.errors import DataError, Intractable, NoRule

from .representations import DOMAINS, EXAMPLES, Example, assert_at, integral, on_jax, pairs, points, priors, read
from .toy import Steps, steps

each = pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
every_pair = pytest.mark.parametrize(("one", "two"), [pytest.param(*pair, id=" and ".join(pair)) for pair in pairs()])
ordered = [(one, two) for one in EXAMPLES for two in EXAMPLES]
every_ordered_pair = pytest.mark.parametrize(("one", "two"), [pytest.param(*p, id=" by ".join(p)) for p in ordered])

POINT_MASSES = {key for key, example in EXAMPLES.items() if example.pins}
MIXTURES = {key for key, example in EXAMPLES.items() if example.kind is fb.Mixture}
OPEN = {"gamma density", "poisson density", "quartic weight"}  # no rule makes a representation of them
STEPS = {"steps", "box"}


def all_names(*examples: Example) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for example in examples for name in example.names))


def product(*examples: Example) -> fb.Factor:
    return reduce(mul, [example.factor for example in examples])


def blocked(one: str, two: str) -> tuple[type, str] | None:
    """The documented error of summing a pair over all its names, if there is one."""
    shared = EXAMPLES[one].pins & EXAMPLES[two].pins
    if shared and not (one != two and "delta at a real name" in (one, two)):
        return NoRule, "both fix 'x'"
    if one == two and one in OPEN - {"quartic weight"}:
        return Intractable, "the integral over|the sum over"
    other = {one, two} - {"quartic weight"}
    if "quartic weight" in (one, two) and not other & {"real delta", "delta at a discrete name"}:
        return Intractable, "the integral over"
    return None


# -- each alone -----------------------------------------------------------------------------------------------------


@each
def test_it_is_the_function_it_should_be(example):
    factor = example.factor
    assert isinstance(factor, example.kind)
    assert factor.inputs == {name: DOMAINS[name] for name in factor.inputs}
    assert set(factor.inputs) == set(example.names)
    at = points([example])
    if example.is_mixed:
        with pytest.raises(Intractable, match="a point mass outweighs any density"):
            read(factor, at)
    else:
        assert_at(factor, example(at), at)


@each
def test_renaming(example):
    """One name for another, two names swapped, and back."""
    at = points([example])
    names = {name: f"{name}_" for name in example.names}
    there = example.factor(**names)
    assert set(there.inputs) == set(names.values())
    back = there({new: old for old, new in names.items()})
    if not example.is_mixed:
        assert_at(back, example(at), at)
    if {"x", "y"} <= set(example.names):
        assert_at(example.factor(x="y", y="x"), example({**at, "x": at["y"], "y": at["x"]}), at)


@each
def test_conditioning(example):
    """f(x = v) for each name, v a number or numbers along a name of their own."""
    at = points([example])
    for name in example.names:
        known = fb.Array(at[name], ("point",), DOMAINS[name])
        if example.is_mixed:
            with pytest.raises(Intractable, match="a point mass outweighs any density"):
                example.factor(**{name: known})
            continue
        given = example.factor(**{name: known})
        assert set(given.inputs) == set(example.names) - {name} | {"point"}
        value = given.log()
        rest = {other: fb.Array(at[other], ("point",), DOMAINS[other]) for other in example.names if other != name}
        found = fb.stack(value(**rest) if rest else value, "point")
        np.testing.assert_allclose(np.exp(np.asarray(found.data)), example(at), rtol=1e-9, atol=1e-11)


@each
def test_sum_over_each_name_it_can_be_summed_over(example):
    for name in example.names:
        if name not in example.closed:
            continue
        kept = [other for other in example.names if other != name]
        at = {other: value for other, value in points([example], nodes=True).items() if other in kept}
        found = example.factor.sum(name)
        assert set(found.inputs) == set(kept)
        if not (example.is_mixed and "x" in kept):
            assert_at(found, integral([example], kept, at), at)


@each
def test_sum_over_an_absent_variable_multiplies_by_its_size(example):
    at = points([example])
    found = example.factor.sum(fb.Variable("z", fb.Bint[4]))
    if not example.is_mixed:
        assert_at(found, 4.0 * example(at), at)
    with pytest.raises(Intractable, match="'z'"):
        example.factor.sum(fb.Variable("z", fb.Real))


@each
def test_normalised_it_sums_to_one(example):
    """Over all names, where the sum is finite."""
    if not set(example.names) <= example.closed:
        return
    whole = example.factor.normalize()
    assert whole.exactness.is_exact
    total = whole.sum(*example.names)
    assert not total.inputs
    np.testing.assert_allclose(float(total), 1.0, rtol=1e-12)
    if not example.is_mixed:
        at = points([example])
        assert_at(whole, example(at) / integral([example], (), {}), at)


@each
def test_normalised_over_one_name_it_sums_to_one_for_each_value_of_the_others(example, request):
    key = request.node.callspec.id
    for name in example.names:
        if name not in example.closed:
            continue
        total = example.factor.sum(name)
        if key in MIXTURES and any(not domain.is_finite for domain in total.inputs.values()):
            continue  # a sum that is itself a mixture does not divide
        if key == "delta at a real name" or (key == "delta at a discrete name" and name == "a"):
            continue  # its sum over one of its names is a Delta of the other, or of zero mass somewhere
        one = example.factor.normalize(name).sum(name)
        at = {other: value for other, value in points([example], nodes=True).items() if other in one.inputs}
        mass = integral([example], tuple(at), at)
        assert_at(one, np.where(mass > 0, 1.0, 0.0), at)


@each
@pytest.mark.parametrize("exponent", (0.5, 2.0))
def test_power(example, exponent, request):
    key = request.node.callspec.params["example"] and next(k for k, e in EXAMPLES.items() if e is example)
    if key in MIXTURES:
        with pytest.raises(NoRule, match="a power of a sum is not a sum of powers"):
            example.factor**exponent
    elif key in POINT_MASSES:
        with pytest.raises(NoRule, match="a power of a point mass over 'x' is not a factor"):
            example.factor**exponent
    else:
        at = points([example])
        assert_at(example.factor**exponent, example(at) ** exponent, at)


@each
def test_a_plate_is_the_product_of_its_slices(example):
    """With a constant beside it, which counts once for each cell."""
    at = points([example])
    key = next(k for k, e in EXAMPLES.items() if e is example)
    plates = [name for name in ("a", "b") if name in example.names]
    for plate in plates:
        size = DOMAINS[plate].extent
        if key in POINT_MASSES:
            with pytest.raises(NoRule, match="Delta"):
                example.factor.product(plate)
            continue
        expected = np.prod([example({**at, plate: np.full_like(at[plate], cell)}) for cell in range(size)], axis=0)
        rest = {name: value for name, value in at.items() if name != plate} or {"none": np.zeros(1)}
        count = len(next(iter(rest.values())))
        rest = {name: value for name, value in rest.items() if name != "none"}
        found = example.factor.product(plate)
        assert plate not in found.inputs
        assert_at(found, expected[:count] if not rest else expected, rest)
        assert_at((example.factor * 2.0).product(plate), 2.0**size * (expected if rest else expected[:count]), rest)
        slices = reduce(mul, [example.factor(**{plate: cell}) for cell in range(size)])
        assert_at(slices, expected if rest else expected[:count], rest)
    if not plates and key not in MIXTURES | POINT_MASSES:
        assert_at(example.factor.product(fb.Variable("z", fb.Bint[3])), example(at) ** 3, at)


@each
def test_a_plate_over_a_real_name_is_an_error(example):
    reals = [name for name in example.names if name in "xyvu"]
    for name in reals:
        with pytest.raises(fb.FubiniError):
            example.factor.product(name)


MAXIMISED = (
    "table",
    "gaussian",
    "batched gaussian",
    "array gaussian",
    "discrete delta",
    "quadratic weight",
    "steps",
    "box",
)


@pytest.mark.parametrize("key", MAXIMISED)
def test_max(key):
    """Over everything, against an optimiser started in every cell."""
    example = EXAMPLES[key]
    reals = [name for name in example.names if name in "xyv"]
    best = 0.0
    for cell in np.ndindex(*(DOMAINS[name].extent for name in example.names if name in "ab")):
        fixed = {name: np.array([k]) for name, k in zip([n for n in example.names if n in "ab"], cell, strict=True)}
        if "u" in example.names:
            best = max(best, *(example({**fixed, "u": np.array([u])})[0] for u in (-0.75, -0.25, 0.25, 1.0, 1.5)))
        elif not reals:
            best = max(best, example(fixed)[0])
        else:
            sizes = [2 if name == "v" else 1 for name in reals]

            def cost(z, fixed=fixed, sizes=sizes):
                parts = np.split(z, np.cumsum(sizes)[:-1])
                at = {n: p[None] if n == "v" else p for n, p in zip(reals, parts, strict=True)}
                return -np.log(example({**fixed, **at})[0])

            found = optimize.minimize(cost, np.zeros(sum(sizes)), options={"gtol": 1e-9})
            best = max(best, np.exp(-found.fun))
    top = example.factor.max(*example.names)
    assert not top.inputs and top.exactness.is_exact
    np.testing.assert_allclose(float(top), best, rtol=1e-9)


@pytest.mark.parametrize("key", sorted(MIXTURES))
def test_the_maximum_of_a_mixture_is_an_error(key):
    with pytest.raises(NoRule, match="mixture|Mixture"):
        EXAMPLES[key].factor.max("x")


@pytest.mark.parametrize("key", sorted(OPEN))
def test_the_maximum_of_an_open_form_is_an_error(key):
    name = EXAMPLES[key].names[-1]
    with pytest.raises(Intractable, match=f"over '{name}'"):
        EXAMPLES[key].factor.max(name)


# -- every pair -----------------------------------------------------------------------------------------------------


@every_pair
def test_products_commute(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    if f.is_mixed or g.is_mixed:
        return  # no value at a point: the evidence below is the test
    assert_at(f.factor * g.factor, f(at) * g(at), at)
    assert_at(g.factor * f.factor, f(at) * g(at), at)


@every_pair
def test_evidence_is_the_same_in_any_order(one, two):
    """Products in any order and grouping; sums at once, in turn in several orders, and by a plan."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    rest = priors([f, g])
    names = all_names(f, g)
    prior = reduce(mul, [example.factor for example in rest], fb.Table(1.0))
    error = blocked(one, two)
    if error is not None:
        with pytest.raises(error[0], match=error[1]):
            (f.factor * g.factor * prior).sum(*names)
        with pytest.raises(error[0], match=error[1]):
            fb.eliminate([prior, g.factor, f.factor], sum=names)
        return
    expected = integral([f, g, *rest], (), {})
    grouped = ((f.factor * g.factor) * prior, f.factor * (g.factor * prior), prior * (g.factor * f.factor))
    for whole in grouped:
        assert_total(whole.sum(*names), expected)
    orders = list(permutations(names))
    for order in orders[:: max(1, len(orders) // 3)]:
        assert_total(fb.eliminate([f.factor, prior, g.factor], sum=order), expected)
    assert_total(reduce(lambda whole, name: whole.sum(name), reals_first(names), grouped[0]), expected)
    assert_total(reduce(lambda whole, name: whole.sum(name), reals_first(names)[::-1], grouped[0]), expected)


def reals_first(names: tuple[str, ...]) -> list[str]:
    return sorted(names, key=lambda name: (name in "ab", name))


def assert_total(total: fb.Factor, expected: np.ndarray) -> None:
    assert not total.inputs
    assert total.exactness.is_exact
    np.testing.assert_allclose(float(total), expected, rtol=1e-9)


@every_pair
def test_sum_of_a_product_over_each_name(one, two):
    """Against quadrature, at points of the names that stay."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    if blocked(one, two) is not None:
        return
    rest = priors([f, g])
    names = all_names(f, g)
    whole = product(f, g, *rest)
    for name in names:
        if (f.is_mixed or g.is_mixed) and name != "x":
            continue
        kept = [other for other in names if other != name]
        at = {other: value for other, value in points([f, g], nodes=True).items() if other != name}
        found = whole.sum(name)
        assert set(found.inputs) == set(kept)
        assert_at(found, integral([f, g, *rest], kept, at) if kept else integral([f, g, *rest], (), {}), at)


@every_ordered_pair
def test_a_sum_passes_a_factor_without_its_variable(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    own = [name for name in f.names if name not in g.names and name in f.closed]
    for name in own:
        if f.is_mixed and name != "x" or g.is_mixed:
            continue
        kept = [other for other in f.names if other != name]
        at = {other: value for other, value in points([f, g], nodes=True).items() if other != name}
        expected = integral([f], kept, at) * g(at)
        assert_at((f.factor * g.factor).sum(name), expected, at)
        assert_at(f.factor.sum(name) * g.factor, expected, at)


@every_pair
def test_conditioning_commutes_with_products_and_sums(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    if f.is_mixed or g.is_mixed:
        return
    names = all_names(f, g)
    at = {name: value[:1] for name, value in points([f, g], count=2).items()}
    one_measure = f.pins == g.pins
    for name in names:
        value = at[name][0] if name == "v" else at[name][0].item()
        rest = {other: values for other, values in at.items() if other != name}
        here = f.factor(**{name: value}) if name in f.names else f.factor
        there = g.factor(**{name: value}) if name in g.names else g.factor
        assert_at((f.factor * g.factor)(**{name: value}), f(at) * g(at), rest)
        assert_at(here * there, f(at) * g(at), rest)
        if one_measure:
            assert_at((f.factor + g.factor)(**{name: value}), f(at) + g(at), rest)
            assert_at(here + there, f(at) + g(at), rest)


@every_ordered_pair
def test_quotient_times_divisor_is_the_dividend(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    if two in MIXTURES:
        with pytest.raises(NoRule, match="a quotient by a sum of factors is not a sum of factors|a Delta over 'x'"):
            f.factor / g.factor
    elif two in POINT_MASSES:
        with pytest.raises(NoRule, match="a Delta over 'x' is zero everywhere but at a point"):
            f.factor / g.factor
    elif two == "discrete delta" and one != "discrete delta":
        with pytest.raises(DataError, match="over zero"):
            f.factor / g.factor
    elif two in STEPS and (one not in STEPS or (one, two) == ("steps", "box")):
        with pytest.raises((NoRule, DataError)):  # zero outside an interval
            f.factor / g.factor
    else:
        quotient = f.factor / g.factor
        if f.is_mixed:
            rest = priors([f, g])
            names = all_names(f, g)
            back = reduce(mul, [example.factor for example in rest], quotient * g.factor)
            times = integral([f, *rest, EXAMPLES["unit of a real name"]], (), {}) if "y" in names else 1.0
            del times
            lacking = [name for name in g.names if name not in (*f.names, "x", "y", "v") and name in "ab"]
            expected = integral([f, *rest], (), {}) * np.prod([DOMAINS[name].extent for name in lacking])
            if not {"r", "n", "u"} & set(names):
                np.testing.assert_allclose(float(back.sum(*names)), expected, rtol=1e-9)
            return
        at = points([f, g])
        safe = np.where(g(at) > 0, g(at), 1.0)
        assert_at(quotient, np.where(g(at) > 0, f(at) / safe, 0.0), at)
        assert_at(quotient * g.factor, f(at), at)


@every_pair
def test_a_mix_is_the_sum_at_every_point(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    both = f.factor + g.factor
    assert both.inputs.keys() == set(all_names(f, g))
    if f.is_mixed or g.is_mixed or f.pins != g.pins:
        with pytest.raises(Intractable, match="a point mass outweighs any density"):
            read(both, at)
    else:
        assert_at(both, f(at) + g(at), at)
        assert_at(g.factor + f.factor, f(at) + g(at), at)


@every_pair
def test_the_sum_of_a_mix_is_the_mix_of_the_sums(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    names, rest = all_names(f, g), priors([f, g])
    if {"r", "n", "u"} & set(names) and set(f.names) != set(g.names):
        return  # one of the two is constant along an infinite name that has no prior
    whole = reduce(mul, [example.factor for example in rest], f.factor + g.factor)
    if "quartic weight" in (one, two):
        with pytest.raises(Intractable, match="the integral over 'x'"):
            whole.sum(*names)
        return
    expected = 0.0
    for part in (f, g):
        lacking = [name for name in names if name not in all_names(part, *rest)]
        expected = expected + integral([part, *rest], (), {}) * np.prod([DOMAINS[name].extent for name in lacking])
    assert_total(whole.sum(*names), expected)


@every_pair
def test_a_plate_of_a_product_is_the_product_of_its_slices(one, two):
    """Over `a`: what lacks it counts three times."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    names = all_names(f, g)
    if "a" not in names or {one, two} & (MIXTURES | POINT_MASSES):
        return
    at = {name: value for name, value in points([f, g]).items() if name != "a"}
    count = len(next(iter(at.values()))) if at else 1
    cells = [{**at, "a": np.full(count, cell)} for cell in range(3)]
    expected = np.prod([f(cell) * g(cell) for cell in cells], axis=0)
    assert_at((f.factor * g.factor).product("a"), expected, at)
