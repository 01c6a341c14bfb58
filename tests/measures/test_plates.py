"""Programs with arrays: P2–P5 of the paper and A4.32–46, against quadrature and the formulas given there."""

import math
import re
import time

import numpy as np
import pytest

from fubini.measures import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    Normal,
    Uniform,
    condition,
    dirac,
    factor,
    measure,
    observe,
    opaque,
    plate,
    weight,
)
from fubini.measures.simplify import simplify
from fubini.measures.values import array, exp, lgamma, log, product, sqrt, symbol, total, where
from tests.measures.cases import Case, again, check, leaf
from tests.measures.oracle import value_of

N, M = 3, 2
mu, z = symbol("mu"), symbol("z", kind="positive")
t, f = symbol("t", N), symbol("f", N)
label = symbol("label", N, kind="whole", high=M - 1)
alpha = symbol("alpha", M, kind="positive")
a, b = symbol("a", kind="positive"), symbol("b", kind="positive")
counts = symbol("counts", N, M, kind="whole")
T, LABEL = np.array([0.3, -0.7, 1.1]), np.array([1, 0, 1])

CASES = {}


def case(*numbers, **options):
    def register(function):
        written, expected = function()
        CASES[function.__name__] = Case(written, expected, dict(numbers), **options)
        return function

    return register


def program(function):
    return measure(function)()


def pairs(size):
    @measure
    def twice():
        x = yield Normal(mu, 1)
        y = yield Normal(x, 1)
        w = yield Normal(x, 1)
        return y, w

    @program
    def inside():
        y, w = yield plate(size, lambda i: twice())
        return y, w

    @program
    def apart():
        x = yield plate(size, lambda i: Normal(mu, 1))
        y = yield plate(size, lambda i: Normal(x[i], 1))
        w = yield plate(size, lambda i: Normal(x[i], 1))
        return y, w

    @program
    def expected():
        y = yield plate(size, lambda i: Normal(mu, sqrt(2)))
        w = yield plate(size, lambda i: Normal((mu + y[i]) / 2, sqrt(6) / 2))
        return y, w

    return inside, apart, expected


@case((mu, 0.4), compares="density")
def p2():
    return pairs(2)[0], pairs(2)[2]


@case((mu, 0.4), compares="density")
def p3():
    return pairs(2)[1], pairs(2)[2]


def size_of(c):
    return total(N, lambda j: label[j] == c)


def sum_of(c):
    return total(N, lambda j: (label[j] == c) * t[j])


SQUARES = total(N, lambda j: t[j] ** 2)


@case((label, LABEL), (t, T), compares="density")
def p4_and_a4_37():
    @program
    def written():
        x = yield plate(M, lambda c: Normal(0, 1))
        yield plate(N, lambda j: observe(Normal(x[label[j]], 1), t[j]))
        return x

    @program
    def expected():
        yield factor(-N / 2 * math.log(2 * math.pi) - SQUARES / 2)
        each = lambda c: sum_of(c) ** 2 / (2 * (1 + size_of(c))) - log(1 + size_of(c)) / 2  # noqa: E731
        yield factor(total(M, each))
        x = yield plate(M, lambda c: Normal(sum_of(c) / (1 + size_of(c)), (1 + size_of(c)) ** -0.5))
        return x

    return written, expected


@case((label, [0, 0, 0]), (t, T))
def p4_mass_with_an_empty_class():
    @program
    def written():
        x = yield plate(M, lambda c: Normal(0, 1))
        yield plate(N, lambda j: observe(Normal(x[label[j]], 1), t[j]))

    return written, None


sticks = symbol("sticks", N, kind="whole", high=2)
last = symbol("last", kind="whole", high=2)


@case((a, 1.3), (b, 0.8), (sticks, [0, 2, 1]), (last, 1), compares="density")
def p5():
    def broken(p, at):
        """log of the length of a piece"""
        return total(2, lambda i: (i < at) * log(p[i]) + (i == at) * log(1 - p[i]))

    @program
    def written():
        p = yield plate(2, lambda i: Beta(a + 1, b + 1))
        yield plate(N, lambda j: factor(broken(p, sticks[j])))
        yield factor(broken(p, last))
        return p

    def up(i):
        return a + 1 + total(N, lambda j: i < sticks[j]) + (i < last)

    def down(i):
        return b + 1 + total(N, lambda j: sticks[j] == i) + (last == i)

    @program
    def expected():
        ratio = lambda i: lgamma(up(i)) + lgamma(down(i)) - lgamma(up(i) + down(i))  # noqa: E731
        yield factor(total(2, ratio) - 2 * (lgamma(a + 1) + lgamma(b + 1) - lgamma(a + b + 2)))
        p = yield plate(2, lambda i: Beta(up(i), down(i)))
        return p

    return written, expected


@case()
def a4_32():
    @program
    def written():
        x = yield plate(N, lambda i: dirac(i))
        return x

    return written, dirac(array(N, lambda i: i))


def test_a4_32_sizes():
    assert float(array(50, lambda i: 2 * i)[42].node.args[0]) == 84
    assert len(array(7, lambda i: i)) == 7


@case((t, T))
def a4_33():
    @program
    def written():
        x = yield Normal(0, 1)
        yield plate(N, lambda i: observe(Normal(x, 1), t[i]))
        return x

    @program
    def expected():
        whole = total(N, lambda i: t[i])
        yield weight((2 * math.pi) ** (-N / 2) * (N + 1) ** -0.5 * exp(whole**2 / (2 * (N + 1)) - SQUARES / 2))
        x = yield Normal(whole / (N + 1), (N + 1) ** -0.5)
        return x

    return written, expected


@case((t, T))
def a4_33_mass():
    @program
    def written():
        x = yield Normal(0, 1)
        yield plate(N, lambda i: observe(Normal(x, 1), t[i]))

    whole = total(N, lambda i: t[i])
    return written, weight((2 * math.pi) ** (-N / 2) * (N + 1) ** -0.5 * exp(whole**2 / (2 * (N + 1)) - SQUARES / 2))


@case((t, T), compares="density")
def a4_33_fission():
    @measure
    def kernel(x, i):
        yield observe(Normal(x, 1), t[i])
        w = yield Normal(t[i], 1)
        return w

    @program
    def written():
        x = yield Normal(0, 1)
        w = yield plate(N, lambda i: kernel(x, i))
        return x, w

    @program
    def expected():
        whole = total(N, lambda i: t[i])
        yield factor(whole**2 / (2 * (N + 1)) - SQUARES / 2 - N / 2 * math.log(2 * math.pi) - math.log(N + 1) / 2)
        x = yield Normal(whole / (N + 1), (N + 1) ** -0.5)
        w = yield plate(N, lambda i: Normal(t[i], 1))
        return x, w

    return written, expected


coins = symbol("coins", N, kind="whole", high=1)
HEADS = total(N, lambda i: coins[i])


def beta_coin(likelihood):
    @program
    def written():
        p = yield Beta(a, b)
        yield plate(N, lambda i: likelihood(p, coins[i]))
        return p

    @program
    def expected():
        up, down = a + HEADS, b + N - HEADS
        log_beta = lambda a, b: lgamma(a) + lgamma(b) - lgamma(a + b)  # noqa: E731
        yield factor(log_beta(up, down) - log_beta(a, b))
        p = yield Beta(up, down)
        return p

    return written, expected


@case((a, 1.3), (b, 0.8), (coins, [1, 0, 1]))
def a4_34_test():
    return beta_coin(lambda p, x: weight(where(x == 1, p, 1 - p)))


@case((a, 1.3), (b, 0.8), (coins, [1, 0, 1]))
def a4_34_power():
    return beta_coin(lambda p, x: weight(p**x * (1 - p) ** (1 - x)))


LOCATIONS = {"opaque": lambda i: f[i], "one": lambda i: 1, "power": lambda i: z**i}


def two_plates(size, location):
    @program
    def apart():
        x = yield plate(size, lambda i: Normal(location(i), 1))
        w = yield plate(size, lambda i: Normal(x[i], 1))
        return w

    @measure
    def kernel(i):
        x = yield Normal(location(i), 1)
        w = yield Normal(x, 1)
        return w

    @program
    def one_by_one():
        found = []
        for i in range(size):
            x = yield Normal(location(i), 1)
            w = yield Normal(x, 1)
            found.append(w)
        return tuple(found)

    return apart, plate(size, kernel), one_by_one


for name, at in LOCATIONS.items():
    expected = plate(N, lambda i, at=at: Normal(at(i), sqrt(2)))
    apart, fused, unrolled = two_plates(N, at)
    numbers = {f: [0.1, 0.5, -0.4], z: 0.7}
    CASES[f"a4_35_fission_{name}"] = Case(apart, expected, numbers, compares="density")
    CASES[f"a4_35_fusion_{name}"] = Case(fused, expected, numbers, compares="density")
    CASES[f"a4_35_unrolled_{name}"] = Case(unrolled, None, numbers, compares="density")


def shifted(step):
    @program
    def written():
        x = yield plate(N, lambda i: Normal(0, 1))
        w = yield plate(N - 1, lambda i: Normal(x[i + step], 1))
        return w

    return written, plate(N - 1, lambda i: Normal(0, sqrt(2)))


@case(compares="density")
def a4_36_no_shift():
    return shifted(0)


@case(compares="density")
def a4_36_shift():
    return shifted(1)


@case((counts, [[1, 0], [2, 3], [0, 0]]), compares="density")
def a4_38():
    @program
    def written():
        p = yield plate(N, lambda k: Dirichlet(array(M, lambda i: 1)))
        yield plate(N, lambda k: factor(total(M, lambda i: counts[k, i] * log(p[k, i]))))
        return p

    @program
    def expected():
        mass = lambda k: total(M, lambda i: lgamma(1 + counts[k, i])) - lgamma(total(M, lambda i: 1 + counts[k, i]))  # noqa: E731
        yield factor(total(N, mass) + N * math.lgamma(M))
        p = yield plate(N, lambda k: Dirichlet(array(M, lambda i: 1 + counts[k, i])))
        return p

    return written, expected


@case((alpha, [1.3, 0.8]))
def a4_38_round_trip():
    return Dirichlet(alpha), Dirichlet(alpha)


@case((alpha, [1.3, 0.8]), (counts, [[1, 0], [2, 3], [0, 0]]))
def a4_38_multinomial():
    @program
    def written():
        p = yield Dirichlet(alpha)
        yield weight(product(M, lambda i: p[i] ** counts[1, i]))

    @program
    def expected():
        after, before = (lambda i: alpha[i] + counts[1, i]), (lambda i: alpha[i])
        log_beta = lambda of: total(M, lambda i: lgamma(of(i))) - lgamma(total(M, of))  # noqa: E731
        yield factor(log_beta(after) - log_beta(before))

    return written, expected


@case((alpha, [1.3, 0.8]), compares="density")
def a4_39():
    @program
    def written():
        p = yield plate(N, lambda k: Dirichlet(alpha))
        w = yield plate(N, lambda k: Categorical(p[k]))
        return w

    whole = total(M, lambda i: alpha[i])
    return written, plate(N, lambda k: Categorical(array(M, lambda i: alpha[i] / whole)))


@case((label, LABEL))
def a4_39_dice():
    @program
    def written():
        p = yield Dirichlet(array(M, lambda i: 1))
        yield plate(N, lambda k: observe(Categorical(p), label[k]))
        return p

    @program
    def expected():
        yield factor(total(M, lambda c: lgamma(1 + size_of(c))) + math.lgamma(M) - math.lgamma(M + N))
        p = yield Dirichlet(array(M, lambda c: 1 + size_of(c)))
        return p

    return written, expected


# -- the models of the benchmarks ------------------------------------------------------------------------------------

U = 1  # the item whose label is asked for


def with_label(k):
    return lambda j: where(j == U, k, label[j])


def mixture(at, s):
    """Labels, and data of unit noise around means with prior sd s, both latents integrated out."""

    @measure
    def model():
        theta = yield Dirichlet(alpha)
        phi = yield plate(M, lambda c: Normal(0, s))
        k = yield Categorical(theta)
        yield plate(N, lambda j: weight(where(j == U, 1, theta[label[j]])))
        yield plate(N, lambda j: observe(Normal(phi[at(k)(j)], 1), t[j]))
        return k

    return model()


def test_a4_40_gibbs_conditional_of_a_mixture():
    s, numbers = 1.7, {leaf(alpha): [1.3, 0.8], leaf(t): T, leaf(label): LABEL}
    found = simplify(mixture(with_label, s))
    at = {one: np.asarray(value, float)[None] for one, value in numbers.items()}
    logs = {int(part.value.args[0]): float(value_of(part.weight, at)[0]) for part in found.branches}
    expected = []
    for k in range(M):
        new = np.where(np.arange(N) == U, k, LABEL)
        n, sums = np.bincount(new, minlength=M), np.bincount(new, T, M)
        before = np.bincount(np.delete(LABEL, U), minlength=M)
        quadratic = 0.5 * s**2 * np.sum(sums**2 / (1 + s**2 * n))
        expected.append(np.log(before[k] + [1.3, 0.8][k]) + quadratic - 0.5 * np.sum(np.log1p(s**2 * n)))
    assert logs[1] - logs[0] == pytest.approx(expected[1] - expected[0], abs=1e-9)


W = 4
word = symbol("word", W, kind="whole", high=2)
doc = symbol("doc", W, kind="whole", high=N - 1)
topic = symbol("topic", W, kind="whole", high=M - 1)
beta = symbol("beta", 3, kind="positive")
WORD, DOC, TOPIC = np.array([0, 2, 2, 1]), np.array([0, 0, 1, 2]), np.array([1, 0, 0, 1])
NUMBERS = {alpha: [1.3, 0.8], beta: [0.5, 1.1, 0.9], label: LABEL, word: WORD, doc: DOC, topic: TOPIC}


def naive_bayes(keep):
    @measure
    def model():
        theta = yield Dirichlet(alpha)
        phi = yield plate(M, lambda c: Dirichlet(beta))
        yield plate(N, lambda d: observe(Categorical(theta), label[d]))
        yield plate(W, lambda j: observe(Categorical(phi[label[doc[j]]]), word[j]))
        return (theta, phi) if keep else ()

    return model()


def topics(keep):
    @measure
    def model():
        theta = yield plate(N, lambda d: Dirichlet(alpha))
        phi = yield plate(M, lambda c: Dirichlet(beta))
        yield plate(W, lambda j: observe(Categorical(theta[doc[j]]), topic[j]))
        yield plate(W, lambda j: observe(Categorical(phi[topic[j]]), word[j]))
        return (theta, phi) if keep else ()

    return model()


def log_beta(x):
    return sum(map(math.lgamma, x)) - math.lgamma(sum(x))


def table(rows, columns, of_row, of_column):
    found = np.zeros((rows, columns))
    np.add.at(found, (of_row, of_column), 1)
    return found


def mass_of(model):
    (branch,) = simplify(model).branches
    assert not branch.draws
    at = {leaf(symbol): np.asarray(value, float)[None] for symbol, value in NUMBERS.items()}
    return float(np.ravel(value_of(branch.weight, at))[0])


def test_a4_43_naive_bayes():
    prior, words = np.array(NUMBERS[alpha]), np.array(NUMBERS[beta])
    expected = log_beta(prior + np.bincount(LABEL, minlength=M)) - log_beta(prior)
    expected += sum(log_beta(words + row) - log_beta(words) for row in table(M, 3, LABEL[DOC], WORD))
    assert mass_of(naive_bayes(keep=False)) == pytest.approx(expected, abs=1e-10)


def test_a4_43_topics():
    prior, words = np.array(NUMBERS[alpha]), np.array(NUMBERS[beta])
    expected = sum(log_beta(prior + row) - log_beta(prior) for row in table(N, M, DOC, TOPIC))
    expected += sum(log_beta(words + row) - log_beta(words) for row in table(M, 3, TOPIC, WORD))
    assert mass_of(topics(keep=False)) == pytest.approx(expected, abs=1e-10)


def test_a4_44_posterior_of_topics():
    found = simplify(topics(keep=True))
    (branch,) = found.branches
    assert [draw.distribution.family for draw in branch.draws] == ["Dirichlet", "Dirichlet"]
    at = {leaf(symbol): np.asarray(value, float)[None] for symbol, value in NUMBERS.items()}
    for draw, prior, counted in zip(
        branch.draws, (alpha, beta), (table(N, M, DOC, TOPIC), table(M, 3, TOPIC, WORD)), strict=True
    ):
        (distribution,), (i,) = draw.distribution.parameters, draw.at
        for row, column in np.ndindex(counted.shape):
            value = float(np.ravel(value_of(distribution.entry, at, {i: row, distribution.over: column}))[0])
            assert value == pytest.approx(NUMBERS[prior][column] + counted[row, column])


def test_a4_41_conditional_of_a_document():
    """The ratio of masses with the class put in, against products over the words of the document."""
    prior, words, u = np.array(NUMBERS[alpha]), np.array(NUMBERS[beta]), 0
    model = simplify(naive_bayes(keep=False)).branches[0].weight
    logs, expected = [], []
    others = u != DOC
    by_class = table(M, 3, LABEL[DOC[others]], WORD[others])
    sizes = np.bincount(np.delete(LABEL, u), minlength=M)
    for k in range(M):
        new = {**NUMBERS, label: np.where(np.arange(N) == u, k, LABEL)}
        at = {leaf(symbol): np.asarray(value, float)[None] for symbol, value in new.items()}
        logs.append(float(np.ravel(value_of(model, at))[0]))
        mine = np.bincount(WORD[u == DOC], minlength=3)
        above = np.prod([by_class[k, v] + j + words[v] for v in range(3) for j in range(mine[v])])
        below = np.prod([by_class[k].sum() + j + words.sum() for j in range(mine.sum())])
        expected.append((sizes[k] + prior[k]) * above / below)
    np.testing.assert_allclose(np.exp(np.array(logs) - logs[0]), np.array(expected) / expected[0], rtol=1e-9)


def test_a4_42_conditional_of_a_word():
    """The ratio of masses with the topic put in, against the counts without it."""
    prior, words = np.array(NUMBERS[alpha]), np.array(NUMBERS[beta])
    model = simplify(topics(keep=False)).branches[0].weight
    logs = []
    for k in range(M):
        new = {**NUMBERS, topic: np.where(np.arange(W) == U, k, TOPIC)}
        at = {leaf(symbol): np.asarray(value, float)[None] for symbol, value in new.items()}
        logs.append(float(np.ravel(value_of(model, at))[0]))
    others = np.delete(np.arange(W), U)
    by_doc = table(N, M, DOC[others], TOPIC[others])[DOC[U]]
    by_topic = table(M, 3, TOPIC[others], WORD[others])
    expected = (by_topic[:, WORD[U]] + words[WORD[U]]) * (by_doc + prior) / (by_topic.sum(1) + words.sum())
    np.testing.assert_allclose(np.exp(np.array(logs) - logs[0]), expected / expected[0], rtol=1e-9)


x, y = symbol("x", N), symbol("y", N)


def regression(keep):
    @measure
    def model():
        tau = yield Gamma(1, 1)
        slope = yield Normal(0, tau**-0.5)
        offset = yield Normal(5, math.sqrt(10 / 3) * tau**-0.5)
        yield plate(N, lambda i: observe(Normal(slope * x[i] + offset, tau**-0.5), y[i]))
        return (tau, slope, offset) if keep else ()

    return model()


def test_a4_45_regression():
    at = {leaf(x): np.array([[0.5, 1.5, -1.0]]), leaf(y): np.array([[4.2, 6.6, 2.7]])}
    (xs,), (ys,) = at.values()
    precision = np.array([[xs @ xs + 1, xs.sum()], [xs.sum(), N + 0.3]])
    right = np.array([xs @ ys, ys.sum() + 1.5])
    mean = np.linalg.solve(precision, right)
    rate = 1 + 0.5 * (ys @ ys + 7.5 - right @ mean)
    (branch,) = simplify(regression(keep=True)).branches
    assert [draw.distribution.family for draw in branch.draws] == ["Gamma", "Normal", "Normal"]
    shape, found = (float(np.ravel(value_of(part, at))[0]) for part in branch.draws[0].distribution.parameters)
    assert (shape, found) == (pytest.approx(1 + N / 2), pytest.approx(rate))
    mass = -N / 2 * math.log(2 * math.pi) + 0.5 * math.log(0.3) - 0.5 * np.linalg.slogdet(precision)[1]
    mass += math.lgamma(1 + N / 2) - (1 + N / 2) * math.log(rate)
    assert float(np.ravel(value_of(branch.weight, at))[0]) == pytest.approx(mass, abs=1e-9)


treated = symbol("treated", N, kind="whole", high=1)


def test_a4_46_clinical_trial():
    @program
    def trial():
        is_effective = yield Bernoulli(0.5)
        control, treatment, every = (yield Beta(1, 1)), (yield Beta(1, 1)), (yield Beta(1, 1))
        yield plate(N, lambda i: observe(Bernoulli(where(is_effective == 1, control, every)), coins[i]))
        yield plate(N, lambda i: observe(Bernoulli(where(is_effective == 1, treatment, every)), treated[i]))
        return is_effective

    at = {leaf(coins): np.array([[1, 0, 1]]), leaf(treated): np.array([[1, 1, 1]])}
    found = {
        int(part.value.args[0]): float(np.exp(np.ravel(value_of(part.weight, at))[0]))
        for part in simplify(trial).branches
    }
    p, q = 2, 3
    assert found[1] == pytest.approx(0.5 * math.exp(log_beta([p + 1, N - p + 1]) + log_beta([q + 1, N - q + 1])))
    assert found[0] == pytest.approx(0.5 * math.exp(log_beta([p + q + 1, 2 * N - p - q + 1])))


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    check(CASES[name])


ends = symbol("ends", N)


@pytest.mark.parametrize("values", [[0.5, 2.0, 0.3], [0.2, 0.4, 0.6], [2.0, 3.0, 4.0], [0.5, -1.0, 0.3]])
def test_each_entry_has_its_own_end(values):
    """Π_i min(1, c_i), whichever of the two is less at each entry."""

    @program
    def written():
        x = yield plate(N, lambda i: Uniform(0, 1))
        yield plate(N, lambda i: condition(x[i] < ends[i]))
        return x

    found = simplify(written)
    (branch,) = found.branches
    at = {leaf(ends): np.array([values])}
    holds = all(value_of(test.node, at, {i: n for i in test.over}) for test in branch.tests for n in range(N))
    with np.errstate(all="ignore"):
        mass = float(np.exp(np.ravel(value_of(branch.weight, at))[0])) if holds else 0.0
    assert mass == pytest.approx(np.prod(np.clip(values, 0, 1)))
    assert again(found, {leaf(ends): 0}) == found


# -- sizes -----------------------------------------------------------------------------------------------------------


def grouped(n, m):
    data, labels = symbol("t", n), symbol("label", n, kind="whole", high=m - 1)

    @program
    def model():
        phi = yield plate(m, lambda c: Normal(0, 1))
        yield plate(n, lambda j: observe(Normal(phi[labels[j]], 1), data[j]))
        return phi

    return model


def test_neither_text_nor_time_depend_on_sizes():
    texts, times = [], []
    for n, m in ((7, 3), (1_000_000, 1_000)):
        model = grouped(n, m)
        start = time.perf_counter()
        texts.append(str(simplify(model)))
        times.append(time.perf_counter() - start)
    assert re.sub(r"\d[\d,.e+]*", "#", texts[0]) == re.sub(r"\d[\d,.e+]*", "#", texts[1])
    assert times[1] < 10 * times[0] + 0.5


def test_a_name_says_nothing():
    """Other names, and independent statements in another order: the same measure."""
    other = opaque("other")
    assert other(1).source().splitlines()[2] == "    x = yield other(1)"
    first, second = (simplify(pairs(size)[1]) for size in (2, 2))
    assert first == second
