"""A model at new inputs, run at draws of the latents of an old one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import Data, is_traced
from fubini.distributions.continuation import longer_axis
from fubini.errors import DomainError, UnknownName, closest, listed
from fubini.models.call_values import FlatJoint, prior_of
from fubini.models.checks import required
from fubini.models.continued import does_not_fit
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Flavour
from fubini.models.missing_entries import Partly, name_of_missing
from fubini.models.paths import flat
from fubini.questions.draws import arviz_data
from fubini.questions.given_draws import GivenDraws, require_values
from fubini.questions.runs_at_draws import LatentDraws, run_at, traits_of, values_of


@dataclass(frozen=True)
class Prediction:
    """What to predict: sites of a new model, which of them are all new, and how the answer is given."""

    old: FlatModel
    new: FlatJoint  # without observations, where new data are drawn
    names: tuple[str, ...]
    fresh: tuple[str, ...]  # sites that are drawn from the new model, not taken from the draws
    group: str | None  # of ArviZ data, where these are asked for
    axes: tuple[Any, Any] = (None, None)

    @classmethod
    def asked(cls, old: FlatModel, names: tuple[str, ...], options: Mapping[str, Any]) -> Prediction:
        """The prediction that these options of `predict` ask for, checked."""
        model = options["model"]
        _require_model(model)
        return cls.by(FlatJoint(prior_of(old.joint if model is None else model)), old, names, options)

    @classmethod
    def by(cls, new: FlatJoint, old: FlatModel, names: tuple[str, ...], options: Mapping[str, Any]) -> Prediction:
        """The prediction by this new model."""
        for name in names:
            required(name, new.joint, new.outline.names)
        fresh = options.get("new") or ()
        fresh = (fresh,) if isinstance(fresh, str) else tuple(fresh)
        for name in fresh:
            _require_site(name, new)
        fresh = (*fresh, *_missing_entries(old))
        kind = "posterior_predictive" if options["model"] is None else "predictions"
        group = kind if options.get("arviz") else None
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

    def checked(self, key: Data, latents: Mapping[str, Data], draws: GivenDraws) -> LatentDraws:
        """These draws, where what is new follows the new model given them."""
        at = LatentDraws(latents, math.prod(draws.lead), self.observed)
        _require_forward(key, self, at)
        return at

    def new_names(self, latents: Mapping[str, Data]) -> list[str]:
        """Random sites of the new model that are not wholly given by these draws."""
        domains = self.new.outline.free_domains()
        return [name for name, d in domains if name not in latents or latents[name].shape[1:] != d.shape]


def _missing_entries(old: FlatModel) -> Iterator[str]:
    """The sites of entries that the data do not have: new data have others, which may go by the same name."""
    for name, value in flat(getattr(old.joint, "observed", {})).items():
        if isinstance(value, Partly) and value.gaps is not None:
            yield name_of_missing(name)


def predicted(key: Data, asked: Prediction, draws: GivenDraws) -> Any:
    """Draws of sites given draws of latents: one array for one name, else a dict; or ArviZ data."""
    latents, order = asked.latents(draws.values), asked.new.outline.names
    whole = set(latents) - set(asked.new_names(latents))
    names = asked.names or tuple(name for name in order if name not in whole)
    at = asked.checked(key, latents, draws)
    values = run_at(values_of, key, asked.new, at, names)
    if asked.group is not None:
        arrays = {n: np.asarray(v).reshape(*draws.lead, *v.shape[1:]) for n, v in flat(values).items()}
        return arviz_data({asked.group: arrays}, *asked.axes)
    return values[asked.names[0]] if len(asked.names) == 1 else values


# -- checks ---------------------------------------------------------------------------------------------------------


def _require_model(model: Any) -> None:
    if model is not None and not isinstance(model, Flavour):
        raise DomainError(
            f"predict(…, model={model!r})"[:120],
            expected="a model at the new inputs: model=m(X_new)",
            advice="a NumPyro function goes in as fb.from_numpyro(function, X_new)",
        )


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
            f"predictions by a model without the latent {name!r} of the draws",
            expected="a model that has all latents of the draws, by these names",
            nearest=closest(name, domains),
            advice="make the new model by the same function as the old one, at the new inputs",
        )
    domain, shape = domains[name], value.shape[1:]
    if shape != domain.shape and longer_axis(domain.shape, shape) is None:
        raise does_not_fit(name, domain.shape, shape)
    if not is_traced(value):
        require_values(name, np.asarray(value)[None], domain, "predictions")


def _require_forward(key: Data, asked: Prediction, at: LatentDraws) -> None:
    """Raise where draws say something of what is new, which then does not follow the model given the rest alone."""
    latents, reached = at.latents, asked.new.outline.reached
    replicated = set(getattr(asked.old.joint, "observed", {}))  # new data in place of the old, given the latents
    new = {name.split(".")[0] for name in asked.new_names(latents)} - replicated
    suspects = [name for name in latents if new & set(reached.get(name.split(".")[0], ()))]
    if not suspects or is_traced(*latents.values(), *asked.new.leaves):
        return
    runs = [run_at(traits_of, each, asked.new, at.one(0), tuple(suspects)) for each in jax.random.split(key)]
    for name in suspects:
        if not all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*(run[name] for run in runs), strict=True)):
            raise DomainError(
                f"predictions from draws of {name!r}, whose distribution in the new model depends on what is new there",
                expected="new sites and entries that come after the draws: drawn from the model, given these",
                nearest=f"{name!r} depends on {listed(sorted(new & set(reached[name.split('.')[0]])))}",
                advice=f"new={name!r} draws it from the new model too; or infer with all data in the new model",
            )
