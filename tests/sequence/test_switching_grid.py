"""Chains of discrete and real states under a window over everything: every kind of model by every question.

Derivatives are those of a third of the models.

Nothing is forgotten, so that the answers are those of all paths of the discrete variables, for each of which the real
part is one Gaussian, written out in NumPy. A marginal that is a mixture has its mass, mean and covariance.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

import fubini as fb

from .models import Model, check_gradients, every, random_model

TWO, REAL, PAIR = fb.Bint[2], fb.Real, fb.Reals[2]
SWITCHING = {"s": TWO, "x": REAL}

# A covering design: each thing that a model may have is in one of them at least.
MODELS: dict[str, Callable[[], Model]] = {
    "plain": lambda: random_model(SWITCHING, 3),
    "one step": lambda: random_model(SWITCHING, 1),
    "two states": lambda: random_model({"s": TWO, "x": PAIR, "y": REAL}, 2),
    "two switches, timeless": lambda: random_model({"s": TWO, "r": TWO, "x": REAL}, 2, timed=False),
    "a plate, summed global": lambda: random_model(SWITCHING, 2, plates={"i": 2}, shared=fb.Bint[3], summed=True),
    "a switch with lags, free global": lambda: random_model(SWITCHING, 2, lags={"s": 2}, shared=TWO),
    "summed bias": lambda: random_model(SWITCHING, 2, shared=REAL, summed=True),
    "a state with lags": lambda: random_model(SWITCHING, 2, lags={"x": 2}),
}


# -- all paths --------------------------------------------------------------------------------------------------------

Part = tuple[float, np.ndarray, np.ndarray]  # log-mass, mean and covariance


def domains_of(factors: Iterable[fb.Factor]) -> dict[str, fb.Domain]:
    return {name: domain for factor in factors for name, domain in factor.inputs.items()}


def places_of(names: Iterable[str], domains: dict[str, fb.Domain]) -> dict[str, np.ndarray]:
    """Where the elements of real variables stand, one variable after another."""
    found, end = {}, 0
    for name in names:
        size = int(np.prod(domains[name].shape))
        found[name], end = np.arange(end, end + size), end + size
    return found


def all_paths(factors: list[fb.Factor]) -> Iterator[tuple[dict[str, int], dict[str, np.ndarray], Part]]:
    """For each value of all discrete variables: the Gaussian of the real ones, and where these stand in it."""
    domains = domains_of(factors)
    discrete = sorted(name for name, domain in domains.items() if domain.is_finite)
    places = places_of(sorted(name for name in domains if name not in discrete), domains)
    size = sum(map(len, places.values()))
    terms = [term for whole in factors for term in getattr(whole, "terms", (whole,))]
    known: dict[tuple, tuple] = {}
    for values in itertools.product(*(range(domains[name].extent) for name in discrete)):
        path = dict(zip(discrete, values, strict=True))
        log, precision, info = 0.0, np.zeros((size, size)), np.zeros(size)
        for number, term in enumerate(terms):
            own = {name: path[name] for name in discrete if name in term.inputs}
            key = (number, *own.values())
            if key not in known:
                known[key] = numbers(term(**own) if own else term)
            more, K, h, names = known[key]
            at = np.concatenate([places[name] for name in names]) if names else np.zeros(0, int)
            log, info[at] = log + more, info[at] + h
            precision[np.ix_(at, at)] += K
        covariance = np.linalg.inv(precision)
        mean = covariance @ info
        yield path, places, (log + 0.5 * (info @ mean + np.linalg.slogdet(2 * np.pi * covariance)[1]), mean, covariance)


def numbers(factor: Any) -> tuple[float, np.ndarray, np.ndarray, list[str]]:
    """Of a factor exp(g + h·z − ½ z·K z): g, K, h and the names of z."""
    names = list(factor.inputs)
    zeros = {name: np.zeros(domain.shape) for name, domain in factor.inputs.items()}
    g = float((factor(**zeros) if zeros else factor).log().data)
    return (
        (g, np.asarray(factor.precision), np.asarray(factor.info), names) if names else (g, np.eye(0), np.zeros(0), [])
    )


def match(parts: list[Part]) -> Part:
    """Mass, mean and covariance of a sum of Gaussians."""
    logs, means, covariances = (np.array(data) for data in zip(*parts, strict=True))
    log = logsumexp(logs)
    share = np.exp(logs - log)
    mean = share @ means
    gap = means - mean
    return float(log), mean, np.einsum("c,cij->ij", share, covariances + gap[:, :, None] * gap[:, None, :])


def marginal(factors: list[fb.Factor], names: dict[str, str]) -> dict[tuple, Part]:
    """For each value of the discrete ones among the names: probability, mean and covariance of the real ones."""
    cells: dict[tuple, list[Part]] = {}
    for path, places, (log, mean, covariance) in all_paths(factors):
        at = np.concatenate([places[name] for name in names.values() if name in places])
        key = tuple((name, path[unrolled]) for name, unrolled in names.items() if unrolled in path)
        cells.setdefault(key, []).append((log, mean[at], covariance[np.ix_(at, at)]))
    total = logsumexp([part[0] for parts in cells.values() for part in parts])
    found = {key: match(parts) for key, parts in cells.items()}
    return {key: (log - total, mean, covariance) for key, (log, mean, covariance) in found.items()}


# -- the questions ----------------------------------------------------------------------------------------------------


def batch_cells(model: Model) -> Iterator[tuple[dict[str, int], Model]]:
    """The model for each value of what is neither a state, nor time, nor summed."""
    free = {
        name: domain.extent
        for name, domain in domains_of(model.copies(1)).items()
        if name in ("i", "g") and name not in model.globals
    }
    for values in itertools.product(*map(range, free.values())):
        cell = dict(zip(free, values, strict=True))
        init, *terms = (fixed(factor, cell) for factor in (model.init, *model.terms))
        yield cell, Model(init, tuple(terms), model.step, model.length, model.globals)


def fixed(factor: fb.Factor, values: dict[str, Any]) -> fb.Factor:
    own = {name: value for name, value in values.items() if name in factor.inputs}
    return factor(**own) if own else factor


def assert_marginal(found: fb.Factor, want: dict[tuple, Part], names: dict[str, str]) -> None:
    reals = [name for name in names if not found.inputs[name].is_finite]
    for key, (log, mean, covariance) in want.items():
        cell: Any = fixed(found, dict(key))
        assert set(cell.inputs) == set(reals)
        places = places_of(cell.inputs, dict(cell.inputs))
        order = np.concatenate([places[name] for name in reals])
        spread = np.linalg.inv(np.asarray(cell.precision))
        centre = spread @ np.asarray(cell.info)
        assert float(cell.sum(*reals).log()) == pytest.approx(log, abs=1e-8)
        np.testing.assert_allclose(centre[order], mean, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(spread[np.ix_(order, order)], covariance, rtol=1e-7, atol=1e-8)


def ask(name: str, question: Callable[[fb.Chain], Any]) -> tuple[Model, Any]:
    model = MODELS[name]()
    with fb.moment_matching(window=window(model)):
        found = question(model.chain())
    return model, found


def window(model: Model) -> int:
    """How many values a switch has: one for each step, and those before the first."""
    return model.length + max(len(old) for old, _ in model.links)


def mark(model: Model) -> str:
    return f"projected(moment_matching(window={window(model)}))"


@pytest.mark.parametrize("name", every(MODELS, "one step", "two switches, timeless"))
def test_evidence(name: str) -> None:
    """The sum over all paths, for each cell of the batch; it says that it was projected."""
    model, found = ask(name, fb.Chain.log_evidence)
    assert found.exactness.marks == (mark(model),)
    for cell, one in batch_cells(model):
        want = logsumexp([log for _, _, (log, *_) in all_paths(one.copies())])
        assert float(found(**cell) if cell else found) == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("name", every(MODELS, "one step"))
def test_filter(name: str) -> None:
    """After each step, given the steps up to it; it says that it was projected."""
    model, found = ask(name, fb.Chain.filter)
    assert found.exactness.marks == (mark(model),)
    for cell, one in batch_cells(model):
        for t in range(model.length):
            names = one.after(t)
            assert_marginal(fixed(found, {**cell, "t": t}), marginal(one.copies(t + 1), names), names)


@pytest.mark.parametrize("name", every(MODELS, "one step"))
def test_smooth(name: str) -> None:
    """After each step, and before the first, given all of them; it says that it was projected."""
    model, found = ask(name, fb.Chain.smooth)
    assert found.exactness.marks == found.initial.exactness.marks == (mark(model),)
    for cell, one in batch_cells(model):
        for t in range(model.length):
            names = one.after(t)
            assert_marginal(fixed(found, {**cell, "t": t}), marginal(one.copies(), names), names)
        first = one.before(0)
        assert_marginal(fixed(found.initial, cell), marginal(one.copies(), first), first)


@pytest.mark.parametrize("name", every(MODELS, "one step"))
def test_draws(name: str) -> None:
    """Frequencies of whole paths, and means and covariances of all real variables, within 5 standard errors."""
    n = 4000
    model, found = ask(name, lambda chain: chain.sample(jax.random.key(7), n))
    cell, one = list(batch_cells(model))[-1]
    drawn = {key: np.asarray(value) for key, value in found.items()}
    after = {new[-1] for _, new in one.links}
    lead = {key: (slice(None),) * (1 + (key in after)) for key in drawn}
    drawn = {key: value[(*lead[key], *cell.values())] for key, value in drawn.items()}
    values = {one.before(0)[key]: drawn[key] for old, _ in one.links for key in old}
    for old, new in one.links:
        values.update({f"{old[0]}_{t + len(old)}": drawn[new[-1]][:, t] for t in range(one.length)})
    values.update({key: drawn[key] for key in one.globals})
    paths = list(all_paths(one.copies()))
    total = logsumexp([log for _, _, (log, *_) in paths])
    for path, _, (log, *_) in paths:
        share = math.exp(log - total)
        here = np.all([values[key] == value for key, value in path.items()], axis=0)
        assert here.mean() == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / n) + 1e-3), path
    _, mean, covariance = match([part for *_, part in paths])
    flat = np.concatenate([values[key].reshape(n, -1) for key in paths[0][1]], axis=1)
    np.testing.assert_array_less(np.abs(flat.mean(0) - mean), 5 * np.sqrt(np.diag(covariance) / n))
    product = (flat - mean)[:, :, None] * (flat - mean)[:, None, :]
    np.testing.assert_array_less(np.abs(product.mean(0) - covariance), 5 * product.std(0) / math.sqrt(n))


# A third of the models: a plain one, one with more labels, and one with more real variables.
DERIVED = ["plain", "two switches, timeless", "summed bias"]


@pytest.mark.slow
@pytest.mark.parametrize("name", DERIVED)
def test_gradients(name: str) -> None:
    """Of the log-evidence in every array of the model, in single and in double width by turns."""
    model = MODELS[name]()
    dtype = ("float64", "float32")[DERIVED.index(name) % 2]
    check_gradients(model, None, dtype, lambda: fb.moment_matching(window=window(model)))
