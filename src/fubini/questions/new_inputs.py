"""A model at new inputs, run at draws of the latents of an old one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.base.arrays import Data, cached_for_precision, double_precision, is_jax, is_traced, require_room, within_memory
from fubini.distributions.continuation import longer_axis
from fubini.errors import DomainError, UnknownName, closest, listed
from fubini.models.call_values import FlatJoint, prior_of
from fubini.models.calls import is_lost
from fubini.models.checks import required
from fubini.models.continued import Continued, does_not_fit, traits_of_first
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Flavour
from fubini.models.observed import Partly
from fubini.models.paths import flat, flat_sites, nested
from fubini.questions.draws import arviz_data
from fubini.questions.given_draws import GivenDraws, require_values


@dataclass(frozen=True)
class Prediction:
    """What to predict: sites of a new model, which of them are all new, and how the answer is given."""

    old: FlatModel
    new: FlatJoint  # without observations
    names: tuple[str, ...]
    fresh: tuple[str, ...]  # sites that are drawn from the new model, not taken from the draws
    group: str | None  # of ArviZ data, where these are asked for
    axes: tuple[Any, Any] = (None, None)

    @classmethod
    def asked(cls, old: FlatModel, names: tuple[str, ...], options: Mapping[str, Any]) -> Prediction:
        """The prediction that these options of `predict` ask for, checked."""
        model = options["model"]
        new = FlatJoint(prior_of(old.joint if model is None else model))
        for name in names:
            required(name, new.joint, new.outline.names)
        fresh = options.get("new") or ()
        fresh = (fresh,) if isinstance(fresh, str) else tuple(fresh)
        for name in fresh:
            _require_site(name, new)
        group = ("posterior_predictive" if model is None else "predictions") if options.get("arviz") else None
        return cls(old, new, names, fresh, group, (options.get("dims"), options.get("coords")))

    @property
    def observed(self) -> dict[str, Data]:
        """Observed arrays of the old model, by path, that the new one has more entries of."""
        shapes = {name: domain.shape for name, domain in self.new.outline.free_domains()}
        observed = flat(getattr(self.old.joint, "observed", {}))
        return {n: v for n, v in observed.items() if n in shapes and n not in self.fresh and _is_longer(shapes[n], v)}

    def latents(self, draws: Mapping[str, Data]) -> dict[str, Data]:
        """The draws that sites of the new model take their values from, checked."""
        domains = dict(self.new.outline.free_domains())
        latents = {name: value for name, value in draws.items() if name not in self.fresh}
        for name, value in latents.items():
            _require_latent(name, value, domains)
        return latents


def predicted(key: Data, asked: Prediction, draws: GivenDraws) -> Any:
    """Draws of sites given draws of latents: one array for one name, else a dict; or ArviZ data."""
    latents, order = asked.latents(draws.values), asked.new.outline.names
    domains = dict(asked.new.outline.free_domains())
    whole = {name for name, value in latents.items() if value.shape[1:] == domains[name].shape}
    names = asked.names or tuple(name for name in order if name not in whole)
    _require_forward(key, asked, latents)
    values = _run(key, asked, latents, names)
    _diagnose(key, asked, latents, values)
    if asked.group is not None:
        arrays = {n: np.asarray(v).reshape(*draws.lead, *v.shape[1:]) for n, v in flat(values).items()}
        return arviz_data({asked.group: arrays}, *asked.axes)
    return values[asked.names[0]] if len(asked.names) == 1 else values


# -- checks ---------------------------------------------------------------------------------------------------------


def _require_site(name: Any, new: FlatJoint) -> None:
    paths = [path for path, _ in new.outline.free_domains()]
    if name not in paths:
        raise UnknownName(
            f"predict(…, new={name!r})",
            expected=f"random sites of the new model: {listed(paths)}",
            nearest=closest(str(name), paths),
        )


def _is_longer(shape: tuple[int, ...], value: Any) -> bool:
    inner = value.value if isinstance(value, Partly) else value
    return longer_axis(shape, np.shape(inner)) is not None


def _require_latent(name: str, value: Data, domains: Mapping[str, Any]) -> None:
    """Raise unless the new model has a latent of this name, and of a shape that continues that of the draws."""
    if name not in domains:
        raise UnknownName(
            f"predictions by a model without the site {name.split('.')[0]!r}"
            if name.split(".")[0] not in {path.split(".")[0] for path in domains}
            else f"predictions by a model without the site {name!r}",
            expected=f"the latents of the draws, by these names: {listed(domains)} are there",
            nearest=closest(name, domains),
            advice="make the new model by the same function as the old one, at the new inputs",
        )
    domain, shape = domains[name], value.shape[1:]
    if shape != domain.shape and longer_axis(domain.shape, shape) is None:
        raise does_not_fit(name, domain.shape, shape)
    if not is_traced(value):
        require_values(name, np.asarray(value)[None], domain, "predictions")


def _require_forward(key: Data, asked: Prediction, latents: Mapping[str, Data]) -> None:
    """Raise where draws say something of what is new, which then does not follow the model given the rest alone."""
    domains, reached = dict(asked.new.outline.free_domains()), asked.new.outline.reached
    new = {n.split(".")[0] for n, d in domains.items() if n not in latents or latents[n].shape[1:] != d.shape}
    suspects = [name for name in latents if new & set(reached.get(name.split(".")[0], ()))]
    if not suspects or is_traced(*latents.values(), *asked.new.leaves):
        return
    first = {name: value[:1] for name, value in latents.items()}
    runs = [_run(each, asked, first, (), tuple(suspects)) for each in jax.random.split(key)]
    for name in suspects:
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*(run[name] for run in runs), strict=True)):
            raise DomainError(
                f"predictions from draws of {name!r}, whose distribution in the new model depends on what is new there",
                expected="new sites and entries that come after the draws: drawn from the model, given these",
                nearest=f"{name!r} depends on {listed(sorted(new & set(reached[name.split('.')[0]])))}",
                advice=f"new={name!r} draws it from the new model too; or condition the new model on all data, and infer",
            )


def _diagnose(key: Data, asked: Prediction, latents: Mapping[str, Data], values: Mapping[str, Any]) -> None:
    """Where predictions are not numbers, run the model on numbers, so that wrong parameters raise."""
    leaves = jax.tree_util.tree_leaves(values)
    if is_traced(*leaves):
        return
    lost = [at for leaf in leaves for at in np.argwhere(is_lost(leaf).reshape(len(leaf), -1).any(-1))[:1, 0]]
    for draw in lost[:1]:
        one = {name: jnp.asarray(value[draw]) for name, value in latents.items()}
        keys = jax.random.split(key, len(leaves[0]))
        asked.new.joint.run(Continued(nested(one), keys[draw], observed=nested(asked.observed)))


# -- runs -----------------------------------------------------------------------------------------------------------


def _run(key: Data, asked: Prediction, latents: Mapping[str, Data], names: tuple, traits: tuple = ()) -> dict[str, Any]:
    """The sites asked for, for each draw; or traits of the distributions of sites."""
    new, observed = asked.new, asked.observed
    count = len(next(iter(latents.values()))) if latents else 1
    text = f"predictions of {listed(names)}"
    require_room(text, *((count, *domain.shape) for _, domain in new.outline.free_domains()))
    function = _compiled(new.tree, names, traits)
    on_jax = any(map(is_jax, (*new.leaves, *latents.values()))) or is_traced(key)
    with within_memory(text):
        if on_jax:
            return function(jax.random.split(key, count), dict(latents), observed, new.leaves)
        with double_precision(), eval_context():
            answer = function(jax.random.split(key, count), dict(latents), observed, new.leaves)
            return jax.tree_util.tree_map(np.asarray, answer)


@cached_for_precision(64)
def _compiled(tree: Any, names: tuple[str, ...], traits: tuple[str, ...]) -> Callable:
    def one(key: Data, latents: Mapping[str, Data], observed: Mapping[str, Data], leaves: list[Data]) -> dict[str, Any]:
        joint: Flavour = jax.tree_util.tree_unflatten(tree, leaves)
        run = joint.run(Continued(nested(latents), key, observed=nested(observed)))
        if not traits:
            return {name: run.values[name] for name in names}
        sites = flat_sites(run)
        same = jax.random.key(0)
        return {n: traits_of_first(sites[n].source, jnp.shape(latents[n]), same) for n in traits}

    return jax.jit(jax.vmap(one, in_axes=(0, 0, None, None)))
