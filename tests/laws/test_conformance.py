"""The laws of the algebra for every representation and every pair, against pointwise evaluation and quadrature.

Where a pair is not closed the documented error is the law.
"""

from collections.abc import Iterable
from functools import reduce
from itertools import combinations_with_replacement, permutations
from operator import mul

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

import fubini as fb
from fubini.errors import DataError, Intractable, NoRule
from fubini.factors.diagram import Diagram
from fubini.factors.sparse import Sparse

from .oracles import DOMAINS, INTEGERS, Example, integral, points
from .representations import EXAMPLES, assert_at, assert_total, priors, read, read_log
from .toy import Steps, steps

# Examples of representations that have another: FURTHER ones are tested alone; SECOND ones in slow tests, each with
# itself and with one example of every kind (PARTNERS): a covering design, where pairs of kinds are those of the others.
FURTHER = {"log table", "sum of gaussians", "multivariate normal density", "categorical density", "poisson density"}
FURTHER |= {"unit of a discrete name", "gaussian", "steps"}
SECOND = {"rank-deficient gaussian", "array gaussian", "quadratic weight"}
PARTNERS = {
    "table",
    "batched gaussian",
    "delta at a discrete name",
    "mixture over a bound index",
    "gamma density",
    "box",
}
PAIRED = [key for key in EXAMPLES if key not in FURTHER]


def is_paired(one: str, two: str) -> bool:
    return one == two or all(key not in SECOND or other in PARTNERS for key, other in ((one, two), (two, one)))


def _pair(one: str, two: str, word: str) -> object:
    return pytest.param(one, two, id=f"{one} {word} {two}", marks=[pytest.mark.slow] if {one, two} & SECOND else [])


FIRST = (
    "table",
    "diagram",
    "sparse",
    "train",
    "batched gaussian",
    "delta at a real name",
    "gaussian plus delta",
    "box",
)


def _of_arrays(key: str) -> object:
    """Compiling takes its time: one example of each representation beside the slow tests."""
    return pytest.param(key, marks=[] if key in FIRST else [pytest.mark.slow])


POINT_MASSES = {key for key, example in EXAMPLES.items() if example.pins}
MIXTURES = {key for key, example in EXAMPLES.items() if example.kind is fb.Mixture}
JOINED = dict.fromkeys(("normal density", "multivariate normal density", "quadratic weight"), fb.Gaussian)
OPEN = {"gamma density", "poisson density", "quartic weight"}  # no rule makes a representation of them
STEPS = {"steps", "box"}
MIXED = {key for key, example in EXAMPLES.items() if example.is_mixed}
TWO_MEASURES = "a point mass outweighs any density"


def all_names(*examples: Example) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for example in examples for name in example.names))


def without(at: dict, name: str) -> dict:
    return {other: value for other, value in at.items() if other != name}


def product(*examples: Example) -> fb.Factor:
    return reduce(mul, [example.factor for example in examples], fb.Table(1.0))


def number(value: np.ndarray) -> object:
    return value if value.shape else value.item()


def blocked(one: str, two: str) -> tuple[type, str] | None:
    """The documented error of summing a pair over all its names, if there is one."""
    if EXAMPLES[one].pins & EXAMPLES[two].pins:
        return NoRule, "both fix 'x'"
    if one == two == "poisson density":
        return Intractable, "the integral over 'n'"
    if "quartic weight" in (one, two) and not {one, two} & {"real delta", "delta at a discrete name"}:
        return Intractable, "the integral over '[xy]'"
    return None


def not_a_quotient(one: str, two: str) -> tuple[type | tuple, str] | None:
    """The documented error of dividing one by two, if there is one."""
    if two in MIXED:
        return (NoRule, Intractable), f"a quotient by a sum of factors is not|a Delta over 'x'|{TWO_MEASURES}"
    if two in MIXTURES and one not in ("real delta", "delta at a discrete name"):  # which put their point there
        return NoRule, "a quotient by a sum of factors is not a sum of factors"
    if two in POINT_MASSES:
        return NoRule, "a Delta over 'x' is zero everywhere but at a point"
    if two == "discrete delta" and one != two:
        return DataError, "over zero|zero somewhere"
    if (two in STEPS and one not in STEPS) or (one, two) == ("steps", "box"):
        return (NoRule, DataError), "divide|over zero"  # zero outside an interval
    if one in STEPS and fb.Gaussian in (EXAMPLES[two].kind, JOINED.get(two)):
        return NoRule, r"divide\((Steps|Box), Gaussian\)"  # which the toy does not have
    return None


each = pytest.mark.parametrize("key", EXAMPLES)
PAIRS = [pair for pair in combinations_with_replacement(PAIRED, 2) if is_paired(*pair)]
ORDERED = [(one, two) for one in PAIRED for two in PAIRED if is_paired(one, two)]


def over(chosen: Iterable[tuple[str, str]], word: str = "and") -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("one", "two"), [_pair(one, two, word) for one, two in chosen])


# -- each alone -----------------------------------------------------------------------------------------------------


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
        at = {name: points([example], count=2, nodes=True)[name]}
        for k, expected in enumerate(np.atleast_1d(integral([example, *rest], at))):
            if key in MIXED:
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
    elif key == "gaussian plus delta":
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


REALS = [(key, name) for key, example in EXAMPLES.items() for name in example.names if name in "xyvurn"]


@pytest.mark.parametrize(("key", "name"), REALS)
def test_a_plate_over_an_infinite_name_is_an_error(key, name):
    with pytest.raises(fb.FubiniError, match=f"'{name}'"):
        EXAMPLES[key].factor.product(name)


MAXIMISED = ("table", "gaussian", "batched gaussian", "array gaussian", "discrete delta", "quadratic weight", "steps")


@pytest.mark.parametrize("key", (*MAXIMISED, "box", "normal density", "multivariate normal density"))
def test_max(key):
    """Over everything but what it is improper in, against an optimiser started in every cell."""
    example = EXAMPLES[key]
    fixed = {"x": np.array([0.3])} if key == "normal density" else {}
    names = [name for name in example.names if name not in fixed]
    integers = [name for name in names if name in INTEGERS]
    cells = np.ndindex(*(DOMAINS[name].extent for name in integers))
    grid = [{**fixed, **{name: np.array([k]) for name, k in zip(integers, cell, strict=True)}} for cell in cells]
    best = max(_largest(example, cell) for cell in grid)
    factor = example.factor(**{name: value.item() for name, value in fixed.items()}) if fixed else example.factor
    assert_total(factor.max(*names), best)


def _largest(example: Example, cell: dict) -> float:
    if "u" in example.names:
        return max(example({**cell, "u": np.array([u])})[0] for u in (-0.75, -0.25, 0.25, 1.0, 1.5))
    reals = [name for name in example.names if name in "xyv" and name not in cell]
    if not reals:
        return example(cell)[0]
    ends = np.cumsum([2 if name == "v" else 1 for name in reals])

    def cost(z: np.ndarray) -> float:
        parts = zip(reals, np.split(z, ends[:-1]), strict=True)
        return -np.log(example({**cell, **{name: part[None] if name == "v" else part for name, part in parts}})[0])

    return np.exp(-optimize.minimize(cost, np.zeros(ends[-1]), options={"gtol": 1e-9}).fun)


@pytest.mark.parametrize("key", sorted(MIXTURES))
def test_the_maximum_of_a_mixture_is_an_error(key):
    with pytest.raises(NoRule, match="mode of a mixture|maximum of a mixture|maximum of a sum"):  # noqa: RUF043
        EXAMPLES[key].factor.max("x")


@pytest.mark.parametrize(
    ("key", "grid"), [("gamma density", np.linspace(1e-3, 9, 90_000)), ("poisson density", range(60))]
)
def test_the_maximum_of_a_family(key, grid):
    example = EXAMPLES[key]
    found = np.exp(example.factor.max(example.names[-1]).log().data)
    grid = np.array(grid)
    for a, value in enumerate(found):
        assert value == pytest.approx(example({"a": np.full(len(grid), a), example.names[-1]: grid}).max(), rel=1e-6)


def test_the_maximum_of_an_open_form_is_an_error():
    name = EXAMPLES["quartic weight"].names[-1]
    with pytest.raises(Intractable, match=f"over '{name}'"):
        EXAMPLES["quartic weight"].factor.max(name)


# -- every pair -----------------------------------------------------------------------------------------------------


@over(PAIRS)
def test_products_commute(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    for whole in (f.factor * g.factor, g.factor * f.factor):
        if {one, two} & MIXED:
            with pytest.raises(Intractable, match=TWO_MEASURES):
                read(whole, at)
        else:
            assert_at(whole, f(at) * g(at), at)


@over(PAIRS)
def test_evidence_is_the_same_in_any_order(one, two):
    """Products in any order and grouping; sums at once, in turn in two orders, and by a plan."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    rest, names = priors([f, g]), all_names(f, g)
    prior = product(*rest)
    error = blocked(one, two)
    if error is not None:
        for ask in (
            lambda: (f.factor * g.factor * prior).sum(*names),
            lambda: fb.eliminate([g.factor * f.factor, prior], names),
        ):
            with pytest.raises(error[0], match=error[1]):
                ask()
        return
    expected = integral([f, g, *rest])
    grouped = ((f.factor * g.factor) * prior, g.factor * (f.factor * prior))
    for whole in grouped:
        assert_total(whole.sum(*names), expected)
    orders = list(permutations(names))
    for order in orders[:: max(1, len(orders) - 1)]:
        assert_total(fb.eliminate([f.factor, prior, g.factor], sum=order), expected)
    reals_first = sorted(names, key=lambda name: (name in INTEGERS, name))
    for order in (reals_first, reals_first[::-1]):
        assert_total(reduce(lambda whole, name: whole.sum(name), order, grouped[0]), expected)


@over(pair for pair in PAIRS if blocked(*pair) is None)
def test_sum_of_a_product_over_each_name(one, two):
    """Against quadrature, at points of the names that stay."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    rest, at = priors([f, g]), points([f, g], nodes=True)
    whole = product(f, g, *rest)
    for name in all_names(f, g):
        if not {one, two} & MIXED or name == "x":
            kept = without(at, name)
            assert_at(whole.sum(name), integral([f, g, *rest], kept), kept)


def private(one: str, two: str) -> list[str]:
    """The names of one that two lacks, and that leave a function of a point when they are summed out."""
    names = [name for name in EXAMPLES[one].names if name not in EXAMPLES[two].names and name in EXAMPLES[one].closed]
    return [name for name in names if two not in MIXED and (one not in MIXED or name == "x")]


@over((pair for pair in ORDERED if private(*pair)), "by")
def test_a_sum_passes_a_factor_without_its_variable(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g], nodes=True)
    for name in private(one, two):
        kept = without(at, name)
        expected = integral([f], {other: value for other, value in kept.items() if other in f.names}) * g(kept)
        assert_at((f.factor * g.factor).sum(name), expected, kept)
        assert_at(f.factor.sum(name) * g.factor, expected, kept)


@over(pair for pair in PAIRS if not set(pair) & MIXED)
def test_conditioning_commutes_with_products_and_mixes(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g], count=2)
    for name in all_names(f, g):
        value = fb.Array(at[name][0], (), DOMAINS[name])
        here = {**at, name: np.broadcast_to(at[name][:1], at[name].shape)}
        rest = without(at, name)
        expected = (
            [f(here) * g(here), f(here) + g(here)] if rest else [f(here)[0] * g(here)[0], f(here)[0] + g(here)[0]]
        )
        parts = [example.factor(**{name: value}) if name in example.names else example.factor for example in (f, g)]
        assert_at((f.factor * g.factor)(**{name: value}), expected[0], rest)
        assert_at(parts[0] * parts[1], expected[0], rest)
        if f.pins == g.pins:
            assert_at((f.factor + g.factor)(**{name: value}), expected[1], rest)


@over(ORDERED, "by")
def test_quotient_times_divisor_is_the_dividend(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    error, at = not_a_quotient(one, two), points([f, g])
    if error is not None:
        with pytest.raises(error[0], match=error[1]):
            read(f.factor / g.factor, at)
    elif one in MIXED:
        back = (f.factor / g.factor) * g.factor
        assert back.inputs.keys() == set(all_names(f, g))
        if two not in OPEN:  # which no rule integrates
            rest, names = priors([f, g]), all_names(f, g)
            size = np.prod([DOMAINS[name].extent for name in names if name not in all_names(f, *rest)])
            assert_total((back * product(*rest)).sum(*names), size * integral([f, *rest]))
    else:
        quotient = f.factor / g.factor
        assert_at(quotient, np.where(g(at) > 0, f(at) / np.where(g(at) > 0, g(at), 1.0), 0.0), at)
        assert_at(quotient * g.factor, f(at), at)


@over(PAIRS)
def test_a_mix_is_the_sum_at_every_point(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    for both in (f.factor + g.factor, g.factor + f.factor):
        assert both.inputs.keys() == set(all_names(f, g))
        if {one, two} & MIXED or f.pins != g.pins:
            with pytest.raises(Intractable, match=TWO_MEASURES):
                read(both, at)
        else:
            assert_at(both, f(at) + g(at), at)


@over(PAIRS)
def test_the_sum_of_a_mix_is_the_mix_of_the_sums(one, two):
    f, g = EXAMPLES[one], EXAMPLES[two]
    names, rest = all_names(f, g), priors([f, g])
    if {"r", "n", "u"} & (set(f.names) ^ set(g.names)):
        with pytest.raises(Intractable, match="is infinite"):  # one of them is constant along a name without a prior
            ((f.factor + g.factor) * product(*rest)).sum(*names)
        return
    whole = (f.factor + g.factor) * product(*rest)
    if "quartic weight" in (one, two):
        with pytest.raises(Intractable, match="the integral over"):
            whole.sum(*names)
        return
    sizes = [np.prod([DOMAINS[n].extent for n in names if n not in all_names(part, *rest)]) for part in (f, g)]
    expected = [size * integral([part, *rest]) for size, part in zip(sizes, (f, g), strict=True)]
    assert_total(whole.sum(*names), sum(expected))


def has_plate(one: str, two: str) -> bool:
    return "a" in all_names(EXAMPLES[one], EXAMPLES[two]) and not {one, two} & (MIXTURES | POINT_MASSES)


@over(pair for pair in PAIRS if has_plate(*pair))
def test_a_plate_of_a_product_is_the_product_of_its_slices(one, two):
    """Over `a`: what lacks it counts three times."""
    f, g = EXAMPLES[one], EXAMPLES[two]
    at = points([f, g])
    cells = [{**at, "a": np.full_like(at["a"], cell)} for cell in range(3)]
    expected, rest = np.prod([f(cell) * g(cell) for cell in cells], axis=0), without(at, "a")
    assert_at((f.factor * g.factor).product("a"), expected if rest else expected[0], rest)


# -- what comes out of it -------------------------------------------------------------------------------------------


KINDS = (
    (("table", "log table"), "a", fb.Table),
    (("table", "categorical density"), "a", fb.Table),
    (("table", "diagram"), "a", Diagram),
    (("table", "sparse"), "a", Sparse),
    (("sparse", "log table"), "a", Sparse),
    (("sparse", "discrete delta"), "a", Sparse),
    (("sparse", "batched gaussian"), "a", fb.Mixture),
    (("sparse", "diagram"), "a", fb.Table),
    (("sparse", "train"), "a", fb.Table),
    (("diagram", "train"), "a", fb.Table),
    (("table", "train"), "a", fb.Table),
    (("train", "batched gaussian"), "a", fb.Mixture),
    (("diagram", "discrete delta"), "a", Diagram),
    (("diagram", "batched gaussian"), "a", fb.Mixture),
    (("table", "discrete delta"), "a", fb.Table),
    (("table", "batched gaussian"), "x", fb.Gaussian),
    (("table", "batched gaussian"), "a", fb.Mixture),
    (("table", "batched gaussian"), "xy", fb.Table),
    (("gaussian", "rank-deficient gaussian"), "x", fb.Gaussian),
    (("gaussian", "rank-deficient gaussian"), "xy", fb.Table),
    (("gaussian", "normal density"), "x", fb.Gaussian),
    (("gaussian", "quadratic weight"), "y", fb.Gaussian),
    (("batched gaussian", "discrete delta"), "a", fb.Gaussian),
    (("batched gaussian", "real delta"), "x", fb.Gaussian),
    (("batched gaussian", "real delta"), "xy", fb.Table),
    (("table", "delta at a discrete name"), "b", fb.Delta),
    (("table", "delta at a discrete name"), "a", fb.Mixture),
    (("table", "delta at a discrete name"), "x", fb.Table),
    (("gaussian", "mixture over a bound index"), "x", fb.Table),
    (("batched gaussian", "mixture over a bound index"), "x", fb.Mixture),
    (("real delta", "mixture over a bound index"), "x", fb.Table),
    (("gaussian", "gaussian plus delta"), "x", fb.Table),
    (("table", "steps"), "b", Steps),
    (("steps", "box"), "u", fb.Table),
)


@pytest.mark.parametrize(("keys", "names", "kind"), KINDS)
def test_kind_of_a_sum(keys, names, kind):
    """A factor of the kind that the algebra says, beside tables perhaps."""
    result = fb.eliminate([EXAMPLES[key].factor for key in keys], sum=tuple(names))
    pieces = result.terms if hasattr(result, "terms") else (result,)
    kinds = {type(piece) for piece in pieces}
    assert kind in kinds
    assert kinds <= {kind, fb.Table}
    assert result.exactness.is_exact


def test_a_singular_integral_is_an_error():
    with pytest.raises(DataError, match="singular"):
        EXAMPLES["rank-deficient gaussian"].factor.sum("x", "y")


# -- the toy, with everything ---------------------------------------------------------------------------------------


def steps_and_gaussian() -> tuple[Steps, fb.Gaussian, np.ndarray]:
    """Over the same variable u, and ∫ steps · gaussian du for each b and a, by the normal distribution function."""
    heights, means = np.array([[1.0, 2.0, 0.5], [0.25, 1.5, 3.0]]), np.array([0.5, -0.25, 1.0])
    edges = np.array([-1.0, 0.0, 0.5, 2.0])
    f = steps("u", edges, heights, ("b",))
    g = fb.Gaussian(mean=means[:, None], precision=[[2.0]], inputs={"a": fb.Bint[3], "u": fb.Real})
    mass = np.sqrt(np.pi) * np.exp(means**2)
    shares = np.diff(stats.norm.cdf(edges[None], means[:, None], np.sqrt(0.5)), axis=1)
    return f, g, (heights @ shares.T) * mass


def test_a_toy_integrates_its_product_with_a_gaussian():
    f, g, expected = steps_and_gaussian()
    found = (f * g).sum("u")
    np.testing.assert_allclose([[float(found(b=b, a=a)) for a in range(3)] for b in range(2)], expected, rtol=1e-9)


def test_a_toy_integrates_its_product_with_a_gaussian_given_in_two_factors():
    f, g, expected = steps_and_gaussian()
    assert_total((f * g**0.5 * g**0.5).sum("u", "a", "b"), expected.sum())
    assert_total((g**0.5 * f * g**0.5).sum("u", "a", "b"), expected.sum())


def network() -> list[Example]:
    return [EXAMPLES[key] for key in ("table", "batched gaussian", "steps", "box", "log table")]


@pytest.mark.parametrize("name", ["a", "b", "x", "y", "u"])
def test_marginals_of_a_network_with_toys(name):
    """All from one backward pass over tables, a Gaussian, steps and a box."""
    examples = network()
    at = {name: points(examples, nodes=True)[name]}
    marginal = fb.marginals([example.factor for example in examples], ("a", "b", "x", "y", "u"))[name]
    kinds = {"a": fb.Table, "b": fb.Table, "x": fb.Mixture, "y": fb.Mixture, "u": Steps}
    assert isinstance(marginal, kinds[name])
    assert_at(marginal, integral(examples, at) / integral(examples), at)


def test_plates_with_toys():
    """Σ_b Π_a of a table and of steps that live in the plate, with their variable u shared by all cells."""
    rng = np.random.default_rng(0)
    heights, weights, table = rng.uniform(0.5, 2, (3, 2)), rng.uniform(0.5, 2, (2, 3)), rng.uniform(0.5, 2, 2)
    f = steps("u", (0.0, 1.0, 3.0), heights, ("a",))
    found = fb.eliminate([f, fb.Table(weights, ("b", "a")), fb.Table(table, ("b",))], {"u": (), "b": ()}, ("a",))
    assert_total(found, (heights.prod(0) @ [1.0, 2.0]) * (weights.prod(1) @ table))


# -- JAX: eagerly, and under jit, vmap and grad ---------------------------------------------------------------------

NO_ARRAYS = {"gamma density", "poisson density", "quadratic weight", "quartic weight", "categorical density"}
FEW = {"log table", "gaussian", "sum of gaussians", "multivariate normal density"}  # others of their kind are there
ARRAYS = [key for key, example in EXAMPLES.items() if example.parameters and key not in NO_ARRAYS | FEW]
arrays = pytest.mark.parametrize("key", [_of_arrays(key) for key in ARRAYS])
SINGLE = 1e-4


def on_jax(parameters: dict) -> dict:
    return {name: jnp.asarray(value) for name, value in parameters.items()}


def beside(example: Example) -> list[Example]:
    """What makes the evidence of an example finite, and depend on all of it."""
    return [EXAMPLES["table"], *priors([example])]


def evidence(example: Example, factor: fb.Factor) -> fb.Factor:
    return (factor * product(*beside(example))).sum(*all_names(example, EXAMPLES["table"]))


@pytest.mark.slow
@pytest.mark.parametrize("key", ["table", "batched gaussian", "delta at a discrete name", "gaussian plus delta", "box"])
def test_on_jax_eagerly(key):
    example = EXAMPLES[key]
    found = evidence(example, example.build(on_jax(example.parameters)))
    assert any(isinstance(leaf, jax.Array) for leaf in found.leaves())
    assert_total(found, integral([example, *beside(example)]), rtol=SINGLE)


@arrays
def test_under_jit(key):
    """A factor goes in; its evidence and the factor itself come out, and the next one is not traced again."""
    example, traced = EXAMPLES[key], []

    @jax.jit
    def run(factor: fb.Factor) -> tuple[fb.Factor, fb.Factor]:
        traced.append(factor)
        return factor, evidence(example, factor)

    for factor in [example.build(on_jax(example.parameters)) for _ in range(2)]:
        back, total = run(factor)
        assert type(back) is type(factor)
        assert back.inputs == factor.inputs
        assert_total(total, integral([example, *beside(example)]), rtol=SINGLE)
    assert len(traced) == 1


@pytest.mark.parametrize("key", FIRST)
def test_under_vmap(key):
    """A batch of factors built under vmap, its axis named, is the same as building each."""
    example, scales = EXAMPLES[key], (1.0, 1.25, 0.8)
    scaled = [{name: scale * value for name, value in example.parameters.items()} for scale in scales]
    stacked = {name: jnp.stack([jnp.asarray(one[name]) for one in scaled]) for name in example.parameters}

    @jax.jit
    def run(parameters: dict) -> tuple[fb.Factor, fb.Factor]:
        batch = fb.name_axis(jax.vmap(example.build)(parameters), "i")
        return batch, evidence(example, batch)

    batch, total = run(stacked)
    assert batch.inputs == {"i": fb.Bint[3], **{name: DOMAINS[name] for name in example.names}}
    expected = [float(evidence(example, example.build(parameters))) for parameters in scaled]
    np.testing.assert_allclose(_over_batch(total), expected, rtol=SINGLE)


def _over_batch(factor: fb.Factor) -> np.ndarray:
    return np.exp(np.asarray(fb.stack(factor.log(), "i").data, np.float64))


@pytest.mark.parametrize("key", FIRST)
def test_under_grad(key):
    """The derivative of the log-evidence along a direction, against central differences in double precision.

    One example of each representation; test_pairs_under_jax.py has the pairs.
    """
    example = EXAMPLES[key]
    direction = {name: 0.3 * value + (0.1 if value.ndim < 2 else 0.0) for name, value in example.parameters.items()}

    def log_evidence(parameters: dict) -> object:
        return evidence(example, example.build(parameters)).log().data

    def moved(step: float) -> float:
        return float(log_evidence({name: value + step * direction[name] for name, value in example.parameters.items()}))

    with jax.enable_x64(True):
        slopes = jax.jit(jax.grad(log_evidence))(on_jax(example.parameters))
        found = sum(float(jnp.vdot(slopes[name], direction[name])) for name in direction)
    np.testing.assert_allclose(found, (moved(1e-5) - moved(-1e-5)) / 2e-5, rtol=1e-7, atol=1e-8)
