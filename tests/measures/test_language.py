"""The language: how programs are written, compared and printed, and what is said where they are wrong."""

import numpy as np
import pytest

from fubini.errors import DomainError, Intractable, UnknownName
from fubini.measures import (
    Bernoulli,
    Beta,
    Categorical,
    Lebesgue,
    Measure,
    Normal,
    Poisson,
    Uniform,
    array,
    condition,
    dirac,
    exp,
    factor,
    function,
    log,
    measure,
    observe,
    opaque,
    plate,
    reject,
    sqrt,
    superpose,
    symbol,
    total,
    weight,
    where,
)
from fubini.measures.mass import total_mass
from fubini.measures.simplify import simplify
from tests.measures.cases import again, leaf
from tests.measures.oracle import expectations, value_of

mu, t = symbol("mu"), symbol("t", 3)


@measure
def twice(mu):
    x = yield Normal(mu, 1)
    y = yield Normal(x, 1)
    z = yield Normal(x, 1)
    return y, z


def test_what_is_written_is_what_is_printed():
    assert twice(mu).source().splitlines() == [
        "@measure",
        "def program():",
        "    x = yield Normal(mu, 1)",
        "    y = yield Normal(x, 1)",
        "    z = yield Normal(x, 1)",
        "    return y, z",
    ]


def test_names_of_draws_do_not_matter():
    @measure
    def other(mu):
        first = yield Normal(mu, 1)
        second = yield Normal(first, 1)
        third = yield Normal(first, 1)
        return second, third

    @measure
    def another(mu):
        first = yield Normal(mu, 1)
        second = yield Normal(first, 1)
        third = yield Normal(second, 1)
        return second, third

    assert twice(mu) == other(mu) and hash(twice(mu)) == hash(other(mu))
    assert twice(mu) != another(mu)


PROGRAMS = {
    "nested plates": lambda: plate(3, lambda i: plate(2, lambda j: Normal(t[i] * (j + 1), sqrt(2)))),
    "a test of all entries": lambda: plate(3, lambda i: condition(t[i] < 1)),
    "sums": lambda: factor(total(3, lambda i: where(i < 1, t[i], exp(-t[i])) * total(3, lambda j: t[j] - t[i]))),
    "an array": lambda: dirac(array(3, lambda i: 2 * t[i])),
    "nothing": lambda: dirac(),
    "zero": lambda: superpose(reject, reject),
    "numbers": lambda: dirac(0.1, 1 / 3, 2**0.5, -1.5, 1e-30, 12345.678),
    "a name that is taken": lambda: same_names(),
    "a mixture in a plate": lambda: plate(3, lambda i: superpose((0.3, Normal(0, 1)), (0.7, Normal(t[i], 2)))),
    "functions": lambda: factor(function("tanh", mu) + abs(mu) - log(1 + mu**2) / 3),
}


def same_names():
    @measure
    def program():
        mu_ = yield Normal(mu, 1)
        x = yield Normal(mu_, 1)
        for _ in range(2):
            x = yield Normal(x, 1)
        return x

    return program()


@pytest.mark.parametrize("name", PROGRAMS)
def test_round_trip(name):
    written = PROGRAMS[name]()
    if not written.branches:
        assert written == reject
        return
    assert again(written, {leaf(mu): 0, leaf(t): 0}) == written, str(written)


def test_one_measure_is_drawn_from_twice():
    distribution = Normal(0, 1)

    @measure
    def pair():
        x = yield distribution
        y = yield distribution
        return x, y

    (branch,) = pair().branches
    assert len(set(branch.drawn)) == 2


def test_a_superposition_runs_once_for_each_branch():
    @measure
    def mixture():
        x = yield superpose((0.3, Normal(0, 1)), (0.7, dirac(5)))
        y = yield Normal(x, 1)
        return y

    found = simplify(mixture())
    expected = superpose((0.3, Normal(0, sqrt(2))), (0.7, Normal(5, 1)))
    assert set(found.key) == set(expected.key)


def test_a_mixture_in_a_plate_has_its_mass():
    @measure
    def mixed():
        x = yield plate(3, lambda i: superpose((0.3, Normal(0, 1)), (0.5, Normal(4, 2))))
        yield plate(3, lambda i: factor(-(x[i] ** 2) / 8))

    # each entry apart: Σ_b w_b ∫ N(x; m_b, s_b) e^(−x²/8) dx
    each = sum(w * 2 / np.sqrt(4 + s**2) * np.exp(-(m**2) / (2 * (4 + s**2))) for w, m, s in ((0.3, 0, 1), (0.5, 4, 2)))
    found = expectations(simplify(mixed()), {}, 15)
    assert found[0] == pytest.approx(each**3, rel=1e-3)


def test_mass_as_a_number():
    @measure
    def ramp(a):
        x = yield Uniform(0, 1)
        yield weight(x**a)
        return x

    a = symbol("a", kind="positive")
    assert total_mass(ramp(a))(a=2.0) == pytest.approx(1 / 3, rel=1e-14)
    with pytest.raises(UnknownName, match="a value of 'a'"):
        total_mass(ramp(a))(b=2.0)


def test_weights_far_from_one_are_added():
    """e^−5000 + e^−5001, which are both zero as numbers."""
    far = symbol("far")
    found = simplify(superpose(factor(-(far**2)), factor(-(far**2) - 1)))
    (branch,) = found.branches
    assert float(np.ravel(value_of(branch.weight, {leaf(far): np.array([5000.0**0.5])}))[0]) == pytest.approx(
        -5000 + np.log1p(np.exp(-1))
    )
    (plain,) = simplify(superpose(factor(-5000), factor(-5001))).branches
    assert plain.weight.args[0] == pytest.approx(-5000 + np.log1p(np.exp(-1)))
    assert again(found, {leaf(far): 0}) == found


def test_opaque_measures_are_kept():
    m = opaque("m")

    @measure
    def program():
        x = yield m(mu)
        yield Normal(0, 1)
        y = yield m(x)
        return x, y

    (branch,) = simplify(program()).branches
    assert [draw.distribution.label for draw in branch.draws] == ["m", "m"]


# -- what is wrong --------------------------------------------------------------------------------------------------


def test_no_measure_is_yielded():
    @measure
    def wrong():
        yield 3.0

    with pytest.raises(DomainError, match="expected: a measure"):
        wrong()


def test_truth_of_a_symbol():
    with pytest.raises(DomainError, match=r"use where\(test, a, b\) or condition\(test\)"):
        bool(mu < 1)


def test_parameters_that_there_are_not():
    with pytest.raises(DomainError, match="expected: loc, scale"):
        Normal(0, 1, 2)


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        (lambda: Normal(0, -1), "a positive number"),
        (lambda: Poisson(0), "a positive number"),
        (lambda: Bernoulli(1.5), "a number between 0 and 1"),
        (lambda: Uniform(2, 1), "ends in order"),
    ],
)
def test_parameters_out_of_range(distribution, expected):
    with pytest.raises(DomainError, match=expected):
        distribution()


def test_an_array_where_a_number_is_due():
    with pytest.raises(DomainError, match="index an array to get an entry"):
        Normal(t, 1)


def test_an_entry_that_there_is_not():
    with pytest.raises(DomainError, match="expected: 0 … 2"):
        t[3]


def test_a_kind_of_symbol_that_there_is_not():
    with pytest.raises(DomainError, match="real, positive, unit, whole, simplex"):
        symbol("x", kind="negative")


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_size_that_there_is_not(size):
    with pytest.raises(DomainError, match="a positive whole number"):
        plate(size, lambda i: Normal(0, 1))


def test_observe_a_program():
    with pytest.raises(DomainError, match="one draw of a known family"):
        observe(twice(mu), 1.0)


def test_observe_a_function_of_a_draw():
    """Not the density of the draw: that of what is returned is asked of disintegrate."""

    @measure
    def doubled():
        x = yield Normal(0, 1)
        return 2 * x

    with pytest.raises(DomainError, match="disintegrate a program at what it returns"):
        observe(doubled(), 1.0)


@pytest.mark.parametrize("value", [2.5, mu])
def test_a_count_that_is_not_whole(value):
    with pytest.raises(DomainError, match="expected: a whole number"):
        observe(Poisson(2), value)


def test_a_count_beyond_the_support():
    assert simplify(observe(Bernoulli(0.3), 2)) == reject
    assert simplify(observe(Uniform(0, 1), 1.5)) == reject


def test_a_negative_weight():
    with pytest.raises(DomainError, match="a number that is not negative"):
        weight(-2)


def test_a_flat_measure_in_a_plate_of_mixtures():
    with pytest.raises(DomainError, match="draws that have mass 1"):
        plate(3, lambda i: superpose(Lebesgue(), Normal(0, 1)))


def test_a_mass_without_a_closed_form():
    @measure
    def heavy():
        x = yield Normal(0, 1)
        yield weight(exp(-(x**4)))

    with pytest.raises(Intractable, match="'x' could not be integrated out"):
        total_mass(heavy())


def test_a_measure_is_no_program_without_a_generator():
    assert isinstance(measure(lambda: Beta(1, 2))(), Measure)
    assert measure(lambda: 3)() == dirac(3)


def test_a_weight_of_zero_is_nothing():
    assert weight(0) == reject
    assert simplify(superpose((0, Bernoulli(0.5)), Categorical([1, 1]))).key == simplify(Categorical([1, 1])).key


def test_the_mass_of_a_program_that_was_not_called():
    with pytest.raises(DomainError, match=r"total_mass\(program\(\)\)"):
        total_mass(measure(lambda: (yield Normal(0, 1))))
