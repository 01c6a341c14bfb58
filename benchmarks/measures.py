"""Simplification of measures: the models of the paper at its sizes and at small ones, by the clock.

`python -m benchmarks.measures` prints, for each, milliseconds to simplify (the median of several) and characters of the
result. Aim: below 0.5 s for each (the paper's simplifier takes 134–545 s), and neither grows with the data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from fubini.measures import (
    Bernoulli,
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    Measure,
    Normal,
    array,
    measure,
    observe,
    plate,
    symbol,
    where,
)
from fubini.measures.simplify import simplify

ROUNDS = 5


@measure
def mixture(n: int, m: int):
    """Labels known: means and weights of a Gaussian mixture."""
    label, data = symbol("label", n, kind="whole", high=m - 1), symbol("data", n)
    theta = yield Dirichlet(array(m, lambda c: 1))
    phi = yield plate(m, lambda c: Normal(0, 14))
    yield plate(n, lambda j: observe(Categorical(theta), label[j]))
    yield plate(n, lambda j: observe(Normal(phi[label[j]], 1), data[j]))
    return theta, phi


@measure
def naive_bayes(documents: int, words: int, classes: int, vocabulary: int):
    """Classes of documents known: weights of classes, and of words in each."""
    label = symbol("label", documents, kind="whole", high=classes - 1)
    document = symbol("document", words, kind="whole", high=documents - 1)
    word = symbol("word", words, kind="whole", high=vocabulary - 1)
    theta = yield Dirichlet(array(classes, lambda c: 1))
    phi = yield plate(classes, lambda c: Dirichlet(array(vocabulary, lambda v: 1)))
    yield plate(documents, lambda d: observe(Categorical(theta), label[d]))
    yield plate(words, lambda j: observe(Categorical(phi[label[document[j]]]), word[j]))
    return theta, phi


@measure
def topics(documents: int, words: int, count: int, vocabulary: int):
    """Topics of words known: weights of topics in documents, and of words in topics."""
    document = symbol("document", words, kind="whole", high=documents - 1)
    topic = symbol("topic", words, kind="whole", high=count - 1)
    word = symbol("word", words, kind="whole", high=vocabulary - 1)
    theta = yield plate(documents, lambda d: Dirichlet(array(count, lambda c: 1)))
    phi = yield plate(count, lambda c: Dirichlet(array(vocabulary, lambda v: 1)))
    yield plate(words, lambda j: observe(Categorical(theta[document[j]]), topic[j]))
    yield plate(words, lambda j: observe(Categorical(phi[topic[j]]), word[j]))
    return theta, phi


@measure
def trial(n: int):
    """Whether a treatment is effective."""
    control, treated = (symbol(name, n, kind="whole", high=1) for name in ("control", "treated"))
    effective = yield Bernoulli(0.5)
    p, q, r = (yield Beta(1, 1)), (yield Beta(1, 1)), (yield Beta(1, 1))
    yield plate(n, lambda i: observe(Bernoulli(where(effective == 1, p, r)), control[i]))
    yield plate(n, lambda i: observe(Bernoulli(where(effective == 1, q, r)), treated[i]))
    return effective


@measure
def regression(n: int):
    """A line with unknown noise."""
    x, y = symbol("x", n), symbol("y", n)
    tau = yield Gamma(1, 1)
    slope = yield Normal(0, tau**-0.5)
    offset = yield Normal(5, (10 / 3) ** 0.5 * tau**-0.5)
    yield plate(n, lambda i: observe(Normal(slope * x[i] + offset, tau**-0.5), y[i]))
    return tau, slope, offset


MODELS: dict[str, tuple[Callable[..., Measure], tuple, tuple]] = {
    "Gaussian mixture": (mixture, (20, 3), (10_000, 50)),
    "naive Bayes": (naive_bayes, (20, 50, 3, 7), (19_997, 2_435_219, 20, 59_967)),
    "topics": (topics, (20, 50, 3, 7), (3_431, 353_160, 50, 6_907)),
    "clinical trial": (trial, (20,), (10_000,)),
    "linear regression": (regression, (20,), (10_000,)),
}


def measured(model: Callable[..., Measure], sizes: tuple) -> tuple[float, int]:
    """Seconds to simplify, and the length of the result."""
    written, seconds, text = model(*sizes), [], ""
    for _ in range(ROUNDS):
        start = time.perf_counter()
        text = simplify(written).source()
        seconds.append(time.perf_counter() - start)
    return median(seconds), len(text)


def main() -> None:
    """One line for each model."""
    print(f"{'model':<20}{'small':>24}{'as in the paper':>24}")
    for name, (model, *sizes) in MODELS.items():
        found = [measured(model, some) for some in sizes]
        print(f"{name:<20}" + "".join(f"{1e3 * s:>10.1f} ms {n:>6,} chars" for s, n in found))


if __name__ == "__main__":
    main()
