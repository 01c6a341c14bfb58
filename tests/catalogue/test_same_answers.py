"""One model written in several ways has one answer, in whatever order its latents go."""

from functools import cache
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fubini as fb
from fubini import dist
from fubini.integrate.search import Latent, PartialElimination, Search
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from tests.catalogue.ways import EFFECTS, GROUP, ITEM, MODELS, SCHOOLS, X, Y, schools

OTHERS = [(model, way) for model, ways in MODELS.items() for way in list(ways)[1:]]


def mean_of(post, names):
    """Means of exact marginals, end to end."""
    return np.concatenate([np.ravel(post.marginal(name).mean(name).data) for name in names])


@cache
def first(model):
    """The answers of the first way: evidence, and means by quantity."""
    post, sites = next(iter(MODELS[model].values()))
    return float(post.log_evidence()), {quantity: mean_of(post, names) for quantity, names in sites.items()}


@pytest.mark.parametrize(("model", "way"), OTHERS)
def test_one_evidence(model, way):
    post, _ = MODELS[model][way]
    assert not eliminated(FlatModel(post)).kept
    assert float(post.log_evidence()) == pytest.approx(first(model)[0], rel=1e-9)


@pytest.mark.parametrize(("model", "way"), OTHERS[::2])
def test_one_mean(model, way):
    post, sites = MODELS[model][way]
    for quantity, names in sites.items():
        np.testing.assert_allclose(mean_of(post, names), first(model)[1][quantity], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("way", SCHOOLS)
def test_one_density_of_the_remaining_latents(way):
    plan, reference = eliminated(FlatModel(SCHOOLS[way])), schools().condition(y=EFFECTS)
    assert plan.kept == ("tau",) == eliminated(FlatModel(reference)).kept
    for tau in (1e-3, 4.0):
        found = SCHOOLS[way].eliminate(*plan.eliminated).log_prob(tau=tau)
        assert float(found) == pytest.approx(float(reference.eliminate("theta", "mu").log_prob(tau=tau)), rel=1e-9)


# -- any order of sites and operands --------------------------------------------------------------------------------

PRIORS = {
    "m": lambda: dist.Normal(0.0, 3.0),
    "a": lambda: dist.Normal(0.0, 1.5).expand([3]),
    "b": lambda: dist.Normal(0.0, 0.7).expand([2]),
    "w": lambda: dist.Normal(0.0, 2.0).expand([3]),
}
TERMS = {"m": lambda m: m, "a": lambda a: a[GROUP], "b": lambda b: b[ITEM], "w": lambda w: X @ w}


@fb.model
def effects(sites, operands):
    found = {}
    for name in sites:
        found[name] = yield PRIORS[name]().named(name)
    mean = TERMS[operands[0]](found[operands[0]])
    for name in operands[1:]:
        mean = mean + TERMS[name](found[name])
    y = yield dist.Normal(mean, 0.5)


@settings(max_examples=6)
@given(st.permutations(sorted(PRIORS)), st.permutations(sorted(TERMS)))
def test_any_order_of_sites_and_operands(sites, operands):
    post = effects(tuple(sites), tuple(operands)).condition(y=Y)
    groups, items = np.eye(3)[GROUP], np.eye(2)[ITEM]
    covariance = 0.25 * np.eye(6) + 9 + 2.25 * groups @ groups.T + 0.49 * items @ items.T + 4 * X @ X.T
    expected = -0.5 * (Y @ np.linalg.solve(covariance, Y) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert float(post.log_evidence()) == pytest.approx(expected, rel=1e-9)


# -- any order of elimination ---------------------------------------------------------------------------------------


def groupings(names):
    """Names in every order, those that go together in one group."""
    for order in permutations(names):
        for cuts in range(2 ** (len(order) - 1)):
            groups = [[order[0]]]
            for place, name in enumerate(order[1:]):
                if cuts >> place & 1:
                    groups.append([name])
                else:
                    groups[-1].append(name)
            if all(group == sorted(group) for group in groups):
                yield groups


def eliminated_in_order(post, groups):
    """One group of latents after another, or nothing where one is blocked."""
    model = FlatModel(post)
    reading = model.reading
    terms, steps = tuple(reading.terms.values()), ()
    for names in groups:
        latents = {name: Latent(reading.sites[name], reading.domains[name]) for name in names}
        found = Search(latents).best(terms)
        if found.blocked:
            return None
        terms, steps = found.terms, (*steps, *found.steps)
    return EliminatedModel(model, reading.integrand.planned(PartialElimination(terms, steps, {})))


ORDERS = {name: next(iter(MODELS[name].values()))[0] for name in MODELS if name not in ("rates", "a coin", "a die")}


@pytest.mark.parametrize("model", ORDERS)
def test_any_order_of_elimination(model):
    post, seen = ORDERS[model], set()
    for groups in groupings(post.outline.free):
        plan = eliminated_in_order(post, groups)
        if plan is not None and plan.eliminated not in seen:
            seen.add(plan.eliminated)
            found = float(plan.compute_log_density({}, float64=True))
            assert found == pytest.approx(float(post.log_evidence()), rel=1e-9), groups
    assert seen


POINTS = {
    ("regression", "v"): 0.3,
    ("regression", "w"): np.array([0.4, -0.9, 1.8]),
    ("an intercept", "b"): 0.2,
    ("an intercept", "w"): np.array([0.4, -0.9, 1.8]),
    ("crossed effects", "m"): 0.2,
    ("crossed effects", "a"): np.array([0.3, -0.2, 1.0]),
    ("crossed effects", "b"): np.array([0.1, -0.4]),
    ("nested means", "m"): 0.2,
    ("nested means", "a"): np.array([0.3, -0.2, 1.0]),
    ("a mean and a variance", "m"): 0.2,
    ("a mean and a variance", "v"): 1.7,
}


@pytest.mark.parametrize(("model", "name"), POINTS)
def test_a_density_is_the_evidence_times_a_marginal(model, name):
    """p(data, x) = p(data) p(x | data)"""
    post, value = ORDERS[model], POINTS[model, name]
    others = [other for other in post.outline.free if other != name]
    found = post.eliminate(*others).log_prob(**{name: value})
    expected = float(post.log_evidence()) + float(post.marginal(name)(**{name: value}).log())
    assert float(found) == pytest.approx(expected, rel=1e-9)
