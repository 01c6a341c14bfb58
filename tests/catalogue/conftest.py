"""What a test of the catalogue asks of a model is asked of its factors too: evidence, marginals and posterior agree."""

import os
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.algebra.evaluation import Evaluation
from fubini.base.arrays import is_traced
from fubini.errors import DataError, Intractable, NoRule
from fubini.models.flat_model import FlatModel
from fubini.models.paths import flat
from fubini.models.questions import Questions
from fubini.questions.model_factors import model_factors
from fubini.terms.factor import product

SEEN: dict[int, FlatModel] = {}  # by their readings, which are kept
VALUES = {"real": 0.3, "positive": 0.7, "unit": 0.4, "bint": 1, "nat": 2, "integer": 1}


@pytest.fixture(autouse=True)
def every_door(monkeypatch):
    by_model = Questions.log_evidence

    def by_both(self, *semiring):
        found = by_model(self, *semiring)
        if not is_traced(*jax.tree_util.tree_leaves(self)):
            model = FlatModel(self)
            factors, variables = model_factors(model)
            names = [variable.name for variable in variables]
            tolerance = 1e-7 if np.asarray(found.data).dtype == np.float64 else 1e-4
            assert float(fb.eliminate(factors, names).log()) == pytest.approx(float(found), rel=tolerance, abs=1e-7)
            if id(model.reading) in SEEN or not is_chosen(str(factors)):
                return found
            SEEN[id(model.reading)] = model
            for variable in variables:
                ways = lambda: self.marginal(variable.name), lambda: fb.marginals(factors, [variable.name])  # noqa: B023
                agree(ways, [variable], tolerance)
            agree((self.posterior, lambda: product(*factors).normalize()), variables, tolerance)
            agree_as_a_measure(model, float(found), tolerance)
            if "EVERY_DOOR" in os.environ:
                agree_when_traced(model, by_model, names)
        return found

    monkeypatch.setattr(Questions, "log_evidence", by_both)


def agree_as_a_measure(model, log_evidence, tolerance):
    """The mass of the model as a measure, where that language can say it, and a float can hold it."""
    program = fb.simplify(model.joint)
    if program.measure is None:
        return
    with np.errstate(all="ignore"):
        mass = float(Evaluation(model.reading.arrays({}), xp=np).of(fb.total_mass(program.measure).node).data)
    if 0 < mass < np.inf:
        assert np.log(mass) == pytest.approx(log_evidence, rel=tolerance, abs=1e-7)


def agree_when_traced(model, by_model, names):
    """Under jit, vmap and grad, as a function of a shift of the observations that are real."""
    observed = {id(value) for value in flat(getattr(model.joint, "observed", {})).values()}

    def shifted(shift):
        is_real = lambda leaf: id(leaf) in observed and np.asarray(leaf).dtype.kind == "f"  # noqa: E731
        return model.rebuilt([leaf + shift if is_real(leaf) else leaf for leaf in model.leaves])

    def of_model(shift):
        return by_model(shifted(shift)).data + 0.0 * shift

    def of_factors(shift):
        factors, _ = model_factors(FlatModel(shifted(shift)))
        return fb.eliminate(factors, names).log().data + 0.0 * shift

    with jax.enable_x64(True):
        shifts = jnp.asarray([0.0, 0.01])
        values, found = (jax.jit(jax.vmap(jax.value_and_grad(ask)))(shifts) for ask in (of_model, of_factors))
    np.testing.assert_allclose(found[0], values[0], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found[1], values[1], rtol=1e-5, atol=1e-5)


def is_chosen(text):
    """All models where EVERY_DOOR is set, as it is by `make thorough`; else one of six."""
    return "EVERY_DOOR" in os.environ or zlib.crc32(text.encode()) % 6 == 0


def agree(ways, variables, tolerance):
    """Two ways to one factor: what the first answers the second does, with the same density at a point."""
    try:
        first = ways[0]()
    except (Intractable, NoRule):
        return
    try:
        second = ways[1]()
    except DataError:
        assert tolerance > 1e-6, "single precision alone may be too little for it"
        return
    second = second if isinstance(second, fb.Factor) else second[variables[0].name]
    ask = density if tolerance < 1e-6 else mean  # single precision tells no densities far away from each other
    expected, found = (ask(factor, variables) for factor in (first, second))
    np.testing.assert_allclose(found, expected, rtol=100 * tolerance, atol=100 * tolerance)


def mean(factor, variables):
    """Of one variable that has one."""
    name, *others = (v.name for v in variables)
    return 0.0 if others or factor.inputs[name].is_discrete else np.asarray(factor.mean(name).data)


def density(factor, variables):
    """The logarithm at one point, for each place of an array of labels."""
    places = {
        name: domain for name, domain in factor.inputs.items() if str(name).startswith(f"{variables[0].name}_place")
    }
    at = {v.name: point(v.output) for v in variables if v.name in factor.inputs}
    return np.asarray(factor(**at).log().data) if not places else np.asarray(factor.log().data)


def point(domain):
    """A point of a domain that is no special one."""
    if domain.kind == "simplex":
        weights = 1.0 + np.arange(domain.shape[-1])
        return np.broadcast_to(weights / weights.sum(), domain.shape)
    return np.full(domain.shape, min(VALUES[domain.kind], (domain.size or 9) - 1))
