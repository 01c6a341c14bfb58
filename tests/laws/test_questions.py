"""Mean, variance, expectation, maximum, arg max and draws of every representation, against quadrature."""

from functools import partial
from itertools import combinations_with_replacement

import jax
import numpy as np
import pytest
from scipy import optimize

import fubini as fb
from fubini.errors import DataError, Intractable, NoRule

from .oracles import DOMAINS, INTEGERS, Example, Part, axes_of, integral, points
from .real_examples import INNER
from .representations import EXAMPLES, MIXED, MIXTURES, assert_total, without

PROPER = [key for key, example in EXAMPLES.items() if example.is_proper]


def monomial(*axes: str) -> Example:
    """The product of elements, x², x·y, as an example that others are multiplied by in an integral."""

    def value(p: dict) -> np.ndarray:
        return np.prod([p["v"][..., int(axis[1])] if axis in ("v0", "v1") else p[axis] for axis in axes], axis=0)

    names = tuple(dict.fromkeys("v" if axis in ("v0", "v1") else axis for axis in axes))
    return Example({}, lambda p: fb.Table(1.0), (Part(names, value),), fb.Table)


# -- mean and variance, given the other inputs ----------------------------------------------------------------------

NO_MOMENTS: dict[tuple[str, str], tuple[type, str]] = {
    ("half-lines", "x"): (DataError, "boxes without bound"),
    ("gamma density", "a"): (NoRule, "of its own variable"),
    ("poisson density", "a"): (NoRule, "of its own variable"),
    ("quartic weight", "x"): (NoRule, "mean of"),
    ("unit of a real name", "y"): (NoRule, "mean of"),
    **{(key, name): (NoRule, "mean of") for key in ("steps", "box") for name in "abu"},
}
MOMENTS = [(key, name) for key, example in EXAMPLES.items() if key not in MIXED for name in example.names]


@pytest.mark.parametrize(("key", "name"), MOMENTS)
def test_mean_and_variance(key, name):
    """Of one variable for each value of the others, which stay inputs; not a number where there is no mass."""
    example = EXAMPLES[key]
    if (key, name) in NO_MOMENTS:
        error, message = NO_MOMENTS[key, name]
        with pytest.raises(error, match=message):
            example.factor.mean(name)
        return
    mean, variance = example.factor.mean(name), example.factor.variance(name)
    assert mean.exactness.is_exact
    at = without(points([example], nodes=True), name)
    for element, axis in enumerate(axes_of((name,))):
        mass, first, second = (integral([example, monomial(*[axis] * power)], at) for power in range(3))
        known = mass > 0
        safe = np.where(known, mass, 1.0)
        expected = np.where(known, first / safe, np.nan)
        spread = np.where(known, second / safe - expected**2, np.nan)
        for value, wanted in ((mean, expected), (variance, spread)):
            found = _at(value, at)
            found = found[..., element] if name == "v" else found
            np.testing.assert_allclose(np.broadcast_to(found, wanted.shape)[known], wanted[known], rtol=1e-8, atol=1e-9)


def _at(value: fb.Value, at: dict) -> np.ndarray:
    given = {name: fb.Array(at[name], ("point",), DOMAINS[name]) for name in value.inputs}
    value = value(**given) if given else value
    return np.asarray(fb.stack(value, "point").data if "point" in value.inputs else value.data)


def test_the_mean_of_a_density_with_a_point_mass():
    example = EXAMPLES["gaussian plus delta"]
    mass, first, second = (integral([example, monomial(*["x"] * power)]) for power in range(3))
    np.testing.assert_allclose(float(example.factor.mean("x")), first / mass, rtol=1e-9)
    np.testing.assert_allclose(float(example.factor.variance("x")), second / mass - (first / mass) ** 2, rtol=1e-9)


def test_a_mean_of_boxes_given_another_real_variable_is_an_error():
    f = EXAMPLES["pieces"].factor * EXAMPLES["batched gaussian"].factor
    with pytest.raises(Intractable, match="a moment of 'x' given 'y'"):
        f.mean("x")


# -- expectations ---------------------------------------------------------------------------------------------------

NO_EXPECTATION: dict[str, tuple[type, str]] = {
    "steps": (NoRule, "expect"),
    "box": (NoRule, "expect"),
}


@pytest.mark.parametrize("key", PROPER)
def test_expectation(key):
    """E[Σ_ij c_ij z_i z_j] over all names, of each pair of elements in turn; E[z] too."""
    example = EXAMPLES[key]
    elements = {axis: _element(axis) for axis in axes_of(example.names)}
    if key == "array gaussian":
        elements.pop("v1")  # its integrals take their time
    total = integral([example])
    for pair in [*((axis,) for axis in elements), *combinations_with_replacement(elements, 2)]:
        value = elements[pair[0]] * (elements[pair[1]] if pair[1:] else 1.0)
        if key in NO_EXPECTATION and set(pair) - set(INTEGERS):
            with pytest.raises(NO_EXPECTATION[key][0], match=NO_EXPECTATION[key][1]):
                fb.expectation(example.factor, value)
            continue
        expected = integral([example, monomial(*pair)]) / total
        np.testing.assert_allclose(float(fb.expectation(example.factor, value)), expected, rtol=1e-6, atol=1e-9)


def _element(axis: str) -> fb.Value:
    if axis in ("v0", "v1"):
        return fb.Variable("v", fb.Reals[2])[int(axis[1])]
    return fb.Variable(axis, DOMAINS[axis]) * 1.0


def test_expectations_given_the_point_of_a_delta():
    """E[y² | x] of δ(x = y + ½) is (x − ½)²; E[a | x] at an atom is the atom's."""
    y = fb.Variable("y", fb.Real)
    found = fb.expectation(EXAMPLES["delta at a real name"].factor, y * y, "y")
    np.testing.assert_allclose(float(found(x=2.0)), 2.25)
    example = EXAMPLES["delta at a discrete name"]
    at, a = example.parameters["points"], fb.Variable("a", fb.Bint[3])
    found = fb.expectation(example.factor, 1.0 * a * a, "a")
    np.testing.assert_allclose([_at(found, {"x": at, "b": np.zeros(3, int)})], [[0.0, 1.0, 4.0]])
    with pytest.raises(Intractable, match="given 'x'"):
        fb.expectation(example.factor, 1.0 * a * fb.Variable("b", fb.Bint[2]), "a", "b")


# -- draws ----------------------------------------------------------------------------------------------------------

NOT_DRAWN: dict[str, tuple[type, str]] = {
    "gamma density": (Intractable, "draw the parameters of a density before its value"),
    "poisson density": (Intractable, "draw the parameters of a density before its value"),
    "steps": (NoRule, "draw"),
    "box": (NoRule, "draw"),
}
DRAWS = 200_000


@pytest.mark.parametrize("key", PROPER)
def test_draws_have_the_moments(key):
    """E[z] and E[z z′] of every pair of elements, within five standard errors."""
    example = EXAMPLES[key]
    draw = partial(example.factor.sample, jax.random.key(3), *example.names, n=DRAWS)
    if key in NOT_DRAWN:
        with pytest.raises(NOT_DRAWN[key][0], match=NOT_DRAWN[key][1]):
            draw()
        return
    drawn = draw()
    elements = {a: drawn["v"][:, int(a[1])] if a in ("v0", "v1") else drawn[a] for a in axes_of(example.names)}
    total = integral([example])
    for pair in [*((axis,) for axis in elements), *combinations_with_replacement(elements, 2)]:
        values = np.prod([elements[axis] for axis in pair], axis=0)
        expected = integral([example, monomial(*pair)]) / total
        assert abs(values.mean() - expected) <= 5 * values.std() / np.sqrt(DRAWS) + 1e-12


@pytest.mark.parametrize("key", ["truncated gaussian", "pieces"])
def test_draws_within_boxes_given_an_input(key):
    """For each value of the integer that is not drawn; none lies outside."""
    example, name = EXAMPLES[key], "a" if key == "truncated gaussian" else "b"
    drawn = example.factor.sample(jax.random.key(1), "x", n=DRAWS)["x"]
    mean, variance = example.factor.mean("x").data, example.factor.variance("x").data
    assert drawn.shape == (DRAWS, DOMAINS[name].extent)
    assert (np.abs(drawn.mean(0) - mean) <= 5 * np.sqrt(variance / DRAWS)).all()
    assert drawn.min() >= (INNER[0] if key == "pieces" else -0.375)


def test_draws_of_what_depends_on_a_truncated_variable():
    x = fb.Variable("x", fb.Real)
    half = fb.Piecewise([({"x": (0.0, np.inf)}, fb.dist.Normal(0.0, 1.0)("x"))])
    drawn = (half * fb.dist.Normal(2.0 * x, 0.5)("y")).sample(jax.random.key(2), "x", "y", n=DRAWS)
    covariance = np.cov(drawn["x"], drawn["y"])
    np.testing.assert_allclose(covariance[0, 1], 2 * 0.363380, rtol=0.02)
    np.testing.assert_allclose(drawn["y"].mean(), 2 * 0.797885, rtol=0.01)


# -- maxima ---------------------------------------------------------------------------------------------------------

FINITE = ("table", "log table", "diagram", "sparse", "train", "log linear", "circuit", "constrained circuit")
FINITE += ("discrete delta", "categorical density")
QUADRATIC = ("gaussian", "batched gaussian", "array gaussian", "quadratic weight", "normal density")
STEPS = ("steps", "box", "pieces", "half-lines")
INSIDE = {"u": (-0.75, -0.25, 0.25, 1.0, 1.5), "x": (-0.7, 0.5)}  # points of all steps


@pytest.mark.parametrize("key", (*FINITE, *QUADRATIC, *STEPS, "multivariate normal density"))
def test_max(key):
    """Over all but what it is improper in, against an optimiser started in every cell; the arg max attains it."""
    example = EXAMPLES[key]
    fixed = {"x": np.array([0.3])} if key == "normal density" else {}
    names = [name for name in example.names if name not in fixed]
    integers = [name for name in names if name in INTEGERS]
    cells = np.ndindex(*(DOMAINS[name].extent for name in integers))
    grid = [{**fixed, **{name: np.array([k]) for name, k in zip(integers, cell, strict=True)}} for cell in cells]
    best = max(_largest(key, cell) for cell in grid)
    factor = example.factor(**{name: value.item() for name, value in fixed.items()}) if fixed else example.factor
    assert_total(factor.max(*names), best)
    if key in STEPS:
        with pytest.raises(NoRule, match="choose"):
            factor.argmax(*names)
        return
    chosen = {name: np.asarray(value)[None] for name, value in factor.argmax(*names).items()}
    np.testing.assert_allclose(example({**fixed, **chosen})[0], best, rtol=1e-9)


def _largest(key: str, cell: dict) -> float:
    example = EXAMPLES[key]
    if key in STEPS:
        name = example.names[-1]
        return max(example({**cell, name: np.array([at])})[0] for at in INSIDE[name])
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


def test_the_maximum_of_a_truncated_gaussian_is_an_error():
    with pytest.raises(Intractable, match="the maximum over 'x'"):
        EXAMPLES["truncated gaussian"].factor.max("x")


def test_a_maximum_over_some_names_of_pieces():
    """max_b stays a function of x; boxes between equal edges hold no point."""
    example = EXAMPLES["pieces"]
    over_b = example.factor.max("b")
    for at in INSIDE["x"]:
        expected = max(example({"b": np.array([b]), "x": np.array([at])})[0] for b in range(2))
        np.testing.assert_allclose(float(over_b(x=at)), expected)
    low = fb.Piecewise([({"x": (0.0, 1.0)}, fb.Table(3.0)), ({"x": (1.0, 2.0)}, fb.Table(1.0))])
    high = fb.Piecewise([({"x": (0.0, 1.0)}, fb.Table(1.0)), ({"x": (1.0, 2.0)}, fb.Table(2.0))])
    np.testing.assert_allclose(float((low * high(x="x")).max("x")), 3.0)
