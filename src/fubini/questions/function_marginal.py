"""The distribution of a function of the sites given the observations, where it has a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, precision
from fubini.base.domains import Domain
from fubini.base.names import Bound, Name
from fubini.bridge.open_marginal import probabilities_of_labels
from fubini.distributions.pushforward import push_forward, table_of_values
from fubini.errors import DomainError, FubiniError, Intractable, NoRule, UnknownName, closest, listed
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import exact_marginal
from fubini.questions.closed_form import with_mass
from fubini.questions.marginal import closed_marginal, marginal_of_names
from fubini.terms.factor import Factor
from fubini.terms.value import Value, Variable, apply, to_array

VECTOR = Bound("sites")


class Sites:
    """The sites of a model by name, `s.theta` or `s["theta"]`; it remembers which were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        self._used: dict[str, None] = {}

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            raise UnknownName(
                f"the site {name!r} in a function of the sites",
                expected=f"a remaining site: {listed(self._values)}",
                nearest=closest(name, self._values),
            )
        self._used[name] = None
        return self._values[name]


@exact_marginal.rule
def marginal_of_function(model: FlatModel, function: Callable) -> Factor:
    """p(v | observed)  =  ∫ δ(v = f(sites)) p(sites | observed) d sites"""
    domains = dict(model.joint.outline.free_domains())
    used = _used_sites(model, function, domains)
    name = _name_of(function, domains)
    value = apply(_of_values(function, used), *(Variable(site, domains[site]) for site in used))
    if all(domains[site].is_discrete for site in used):
        found = _of_finite(model, used, value, name)
    else:
        found = _of_vector(model, function, used, name) or push_forward(_marginal(model, used, name), value, name)
    if found is None:
        raise _no_marginal(model, used, name)
    return model.rounded(found)


def _used_sites(model: FlatModel, function: Callable, domains: Mapping[str, Domain]) -> tuple[str, ...]:
    """The sites that the function reads; an error where it fails, or reads none."""
    used: list[str] = []

    def run(values: Mapping[str, Any]) -> Any:
        sites = Sites(values)
        result = function(sites)
        used.extend(sites._used)
        return jax.numpy.asarray(result)

    with precision(model.is_float64):
        shapes = {
            name: jax.ShapeDtypeStruct(domain.shape, jax.numpy.result_type(int if domain.is_discrete else float))
            for name, domain in domains.items()
        }
        try:
            jax.eval_shape(run, shapes)
        except FubiniError:
            raise
        except Exception as error:
            raise DomainError(
                f"the marginal of a function of the sites, which raises {type(error).__name__}: {error}",
                expected="a function of one argument, the sites, that returns a number or an array in JAX",
                advice="sites are arrays by name: lambda s: s.theta[0] - s.theta[1]",
            ) from error
    if not used:
        raise DomainError(
            "the marginal of a function of no site",
            expected=f"a function that reads one of {listed(domains)}",
            advice="sites are arrays by name: lambda s: s.theta[0] - s.theta[1]",
        )
    return tuple(dict.fromkeys(used))


def _name_of(function: Callable, domains: Mapping[str, Domain]) -> str:
    """The name of the function, or `value` where it has none or it is that of a site."""
    name = getattr(function, "__name__", "value")
    return "value" if not name.isidentifier() or name in domains else name


def _of_values(function: Callable, used: tuple[str, ...]) -> ops.Op:
    return ops.lift(lambda *values: jax.numpy.asarray(function(Sites(dict(zip(used, values, strict=True))))))


def _marginal(model: FlatModel, used: tuple[str, ...], name: str) -> Factor:
    try:
        return marginal_of_names(model, used)
    except (Intractable, NoRule) as error:
        raise _no_marginal(model, used, name, str(error).splitlines()[0]) from error


def _of_vector(model: FlatModel, function: Callable, used: tuple[str, ...], name: str) -> Factor | None:
    """The function of several sites that are Student's t together, as one of the vector of their entries"""
    if model.tables is not None or len(used) < 2:
        return None
    try:
        closed = closed_marginal(model, used)
    except Intractable:
        return None
    vector = closed.as_vector(VECTOR)
    if vector is None:
        return None
    domains, ends = model.density.integrand.domains, 0
    places = {}
    for site in used:
        places[site] = slice(ends, ends + math.prod(domains[site].shape)), domains[site].shape
        ends = places[site][0].stop

    def of_vector(x: Data) -> Data:
        return jax.numpy.asarray(function(Sites({s: x[at].reshape(shape) for s, (at, shape) in places.items()})))

    return push_forward(vector, apply(ops.lift(of_vector), Variable(VECTOR, vector.inputs[VECTOR])), name)


def _of_finite(model: FlatModel, used: tuple[str, ...], value: Value, name: str) -> Factor | None:
    """Σ_s p(s) δ(v = f(s)), over all values s of these sites together"""
    if all(domain.is_finite for domain in value.inputs.values()):
        return push_forward(_marginal(model, used, name), value, name)
    labels = probabilities_of_labels(model.density, used, [s for s in model.reading.sites if s not in used])
    if labels is None:
        return None
    points, whole = labels

    def make() -> Factor:
        shares = whole.remaining.normalize(*points[used[0]].names)
        at: dict[Name, Value] = dict(points)
        values = to_array(value.replaced(at))
        return table_of_values(np.asarray(values.array), shares.weights, name, shares.exactness)

    return with_mass(whole, model, make)


def _no_marginal(model: FlatModel, used: tuple[str, ...], name: str, why: str = "") -> Intractable:
    sites = ", ".join(map(repr, used))
    return Intractable(
        f"the marginal of {name!r}, a function of {sites}",
        expected="an affine function of sites that are normal or Student's t together, any function of finite sites, "
        "or one of a single number that only rises or only falls",
        nearest=why or f"it is none of these in {sites}: {_described(model, used)}",
        advice="infer(key) gives draws of the sites, and the function of draws is a draw of it; its mean is "
        f"fb.expectation(post.marginal({sites}), …) where that is closed",
    )


def _described(model: FlatModel, used: tuple[str, ...]) -> str:
    """What the sites are together, in short."""
    words = f"{marginal_of_names(model, used)}".splitlines()[0]
    return f"p({', '.join(used)} | data) is {words[:160]}"
