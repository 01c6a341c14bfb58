"""Questions to a model: what has a closed form is integrated out, without anyone deriving it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.arrays import Data, is_traced
from fubini.domains import Domain, Real
from fubini.eliminate.ask import eliminate
from fubini.errors import DataError, DomainError, FubiniError, UnknownName, closest, listed
from fubini.factors.randomness import require_key
from fubini.index.node import Leaf
from fubini.joint.approximate import approximation
from fubini.joint.calls import require_in_domain
from fubini.joint.closed_form import (
    is_network,
    no_closed_form,
    require_allowed,
    require_evidence,
    required,
)
from fubini.joint.closed_posterior import posterior_of
from fubini.joint.collapse import Collapse, collapse
from fubini.joint.explain import Report, report
from fubini.joint.flavour import Flavour
from fubini.joint.form import Form
from fubini.joint.inference import infer
from fubini.joint.kernel import Kernel
from fubini.joint.marginal import marginal
from fubini.joint.mode import mode
from fubini.joint.model_factors import model_factors
from fubini.joint.options import require_options, whole_number
from fubini.joint.paths import nested
from fubini.joint.posterior import factors_if_any, factors_of
from fubini.joint.sampler import RUN_OPTIONS, Options, Sampler
from fubini.terms.factor import Factor
from fubini.terms.value import Array, Value


class Questions(Flavour):
    """What can be asked of any joint: of one with observations, about its other sites given these."""

    def log_evidence(self) -> Value:
        """log p(observed), the other sites integrated out exactly; an error that names what blocks it.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=0.5).log_evidence()), 6)
        -1.328012
        """
        if is_network(self) and (written := factors_if_any(self)) is not None:
            return eliminate(*written).log()
        return Collapsed(self, ()).log_evidence()

    def posterior(self) -> Factor:
        """The sites that are not observed given those that are: a normalised factor, or the error that says why not.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=0.5).posterior().mean("m")), 6)
        0.25
        """
        return posterior_of(self)

    def factors(self) -> list[Factor]:
        """The density as a list of factors over the sites that are not observed, for `fb.eliminate` and its like.

        >>> model = fb.JointNamed(dict(r=fb.dist.Gamma(2.0, 3.0), x=lambda r: fb.dist.Poisson(jnp.sqrt(r))))
        >>> model.condition(x=4).factors()
        [Gamma(concentration=2, rate=3)(r), Poisson(rate=√r)(4)]
        """
        try:
            return factors_of(self)[0]  # as they are written in operators and fb.ops
        except FubiniError:
            return model_factors(self)[0]

    def marginal(self, name: str) -> Factor:
        """One site given the observations, the others integrated out exactly: a normalised factor.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=0.5).marginal("m").variance("m")), 6)
        0.5
        """
        return marginal(self, required(name, self))

    def eliminate(self, *names: str) -> Collapsed:
        """The model with these sites integrated out, for `recover` to draw back; an error where that is not closed.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.eliminate("m").names
        ('x',)
        """
        return Collapsed(self, ()).eliminate(*names)

    def predict(self, key: Data, *names: str, draws: int = 1000, model: Any = None, **options: Any) -> Any:
        """Draws of observed sites given latents drawn from the exact posterior: one array for one name, else a dict.

        `model` is another model of the same latents, at new inputs say.
        """
        return Collapsed(self, ()).predict(key, *names, draws=draws, model=model, **options)

    def explain(self) -> Report:
        """What is eliminated and how, what is left and what blocks it; `fb.explain(post)`."""
        return report(self)

    def gibbs(self, *names: str, without: Sequence[str] = (), **options: Any) -> Sampler:
        """A compiled sampler of these labels, or of all that are finite; see `Collapsed.gibbs`."""
        return Collapsed(self, ()).gibbs(*names, without=without, **options)

    def kernel(self, *names: str, engine: str = "numba") -> Kernel:
        """The exact laws of latents as one compiled function of the data; of the one eliminated last if none is named.

        A law is given the latents that are eliminated after it, whose values the function takes too.
        """
        return Kernel(self, names, engine)

    def map(self) -> Any:
        """The values at which the posterior density of all latents together is greatest."""
        return mode(self)

    def infer(
        self,
        key: Data = None,
        draws: int = 1000,
        chains: int = 4,
        *,
        warmup: int | None = None,
        method: str | None = None,
        eliminate: Sequence[str] | None = None,
        checkpoint: str | os.PathLike | None = None,
        dims: Mapping[str, Sequence[str]] | None = None,
        coords: Mapping[str, Sequence[Any]] | None = None,
        progress: bool = True,
        log_likelihood: bool | None = None,
        predictive: bool | None = None,
        **options: Any,
    ) -> Any:
        """Draws of all latents given the observations, as ArviZ data.

        What has a closed form is integrated out (or only the sites named in `eliminate`), the rest is sampled by
        `method`, and what was integrated out is drawn back. Methods: "grid", independent draws of one to three numbers;
        "nuts", the no-U-turn sampler; "svi" and "laplace", normal approximations. By default it is a grid where one
        describes what is left well, and the no-U-turn sampler otherwise, or where a checkpoint or an option of it is
        given: target_accept, max_tree_depth, dense_mass. With `checkpoint`, a path, a killed run goes on where it was.
        The groups of log-likelihoods and predictive draws are there unless they would be very large. Where a discrete
        site cannot be summed out, a compiled sampler draws it one entry after another (see `gibbs`), or NumPyro's Gibbs
        steps do so with all sites where no rule makes one.
        """
        return infer(
            self,
            key,
            draws=draws,
            chains=chains,
            warmup=warmup,
            method=method,
            eliminate=eliminate,
            checkpoint=checkpoint,
            dims=dims,
            coords=coords,
            progress=progress,
            log_likelihood=log_likelihood,
            predictive=predictive,
            options=options,
        )


class Collapsed:
    """A model with some of its sites integrated out: a density of the others, from which these can be drawn back."""

    def __init__(self, joint: Any, eliminated: tuple[str, ...]) -> None:
        self.joint, self.eliminated = joint, eliminated

    @cached_property
    def collapse(self) -> Collapse:
        """The reduction."""
        return collapse(self.joint, self.eliminated)

    @property
    def names(self) -> tuple[str, ...]:
        """The sites that are left."""
        return self.collapse.kept

    @property
    def wide(self) -> bool:
        """Numbers are NumPy's, in double precision."""
        return Form(self.joint).is_wide

    def __repr__(self) -> str:
        gone = f" without {listed(self.eliminated)}" if self.eliminated else ""
        return f"{self.joint}{gone}"

    # -- densities ---------------------------------------------------------------------------------------------------

    def log_prob(self, **values: Any) -> Data:
        """log p(observed, the sites that are left), for values of these; leading axes are batches."""
        given, batch = self._given(values, self.names)
        found = self.collapse.asked("log_density", given, wide=self.wide, many=bool(batch))
        if not is_traced(found) and np.isnan(wrong := np.asarray(found)).any():
            at = int(np.argmax(np.isnan(wrong.reshape(-1))))
            require_allowed(self.collapse.reading, {n: v[at] if batch else v for n, v in given.items()})
        return found.reshape(batch) if batch else found

    def recover(self, key: Data, draws: Mapping[str, Any]) -> dict[str, Data]:
        """Values of all sites: those given, and for each a draw of the sites that were integrated out."""
        require_key(key)
        given, batch = self._given(draws, self.names)
        if not batch:
            return self.collapse.asked("recovered", key, given, wide=self.wide)
        keys = jax.random.split(key, math.prod(batch))
        found = self.collapse.asked("recovered", keys, given, wide=self.wide, many=True)
        return {name: value.reshape(batch + value.shape[1:]) for name, value in found.items()}

    def _given(self, values: Mapping[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Data], tuple[int, ...]]:
        """Values of these sites, one leading axis for all batches."""
        if not isinstance(values, Mapping):
            raise DomainError(f"values {values!r}", expected=f"a dict with {listed(names)}")
        lacking = [name for name in names if name not in values]
        if lacking:
            raise DataError(f"no value for the site {lacking[0]!r}", expected=f"values for {listed(names)}")
        for name in values:
            required(name, self.joint, names)
        domains = self.collapse.reading.domains
        sites = self.collapse.reading.sites
        arrays = {name: _numbers(name, values[name], domains[name], sites[name]) for name in names}
        batches: list[tuple[int, ...]] = []
        for name, array in arrays.items():
            shape = domains[name].shape
            if array.shape[array.ndim - len(shape) :] != shape:
                raise DomainError(
                    f"a value of shape {array.shape} for the site {name!r}",
                    expected=f"the shape {shape}, with axes of a batch before it",
                )
            batches.append(array.shape[: array.ndim - len(shape)])
        try:
            batch = np.broadcast_shapes(*batches)
        except ValueError:
            each = ", ".join(f"{name}: {shape}" for name, shape in zip(arrays, batches, strict=True))
            raise DomainError(f"values in batches of the shapes {each}", expected="shapes that broadcast") from None
        if batch:
            arrays = {
                name: (jnp if is_traced(array) else np)
                .broadcast_to(array, batch + domains[name].shape)
                .reshape(-1, *domains[name].shape)
                for name, array in arrays.items()
            }
        return arrays, batch

    # -- questions ---------------------------------------------------------------------------------------------------

    def eliminate(self, *names: str) -> Collapsed:
        """With these integrated out too."""
        for name in names:
            required(name, self.joint, self.names)
        new = Collapsed(self.joint, (*self.eliminated, *names))
        blocked = new.collapse.blocked
        if blocked:
            raise no_closed_form(f"eliminate({', '.join(map(repr, names))})", new.collapse)
        return new

    def log_evidence(self) -> Value:
        """log p(observed), all sites integrated out exactly."""
        whole = collapse(self.joint)
        if whole.blocked:
            points = approximation(self.joint, "log_evidence()", whole).points
            data = np.asarray(points.log_total) if self.wide else jnp.asarray(points.log_total)
            mark, rounding = points.exactness, abs(float(data) - points.log_total)
            mark = mark if mark.error is None else mark.with_error(mark.error + rounding)
            return Array._of(data, (), {}, Real, mark)
        found = whole.asked("log_density", {}, wide=self.wide)
        if not is_traced(found):
            require_evidence(float(found), self.joint, whole.reading)
        return Array(found)

    def gibbs(
        self,
        *names: str,
        without: Sequence[str] = (),
        specialise: str = "sizes",
        blocked: bool = False,
        engine: str = "numba",
        **options: Any,
    ) -> Sampler:
        """A compiled sampler of these labels, or of all that are finite, one entry after another.

        What else is left is drawn from its conditionals, or moved by the no-U-turn sampler where there are none. With
        `blocked`, labels are drawn whole from theirs, all chains side by side on XLA. `without` names passes to leave
        out: the draws stay the same, and take longer. Code is made for the sizes of the data, or for their values too
        with `specialise="values"`. The engine "python" runs the same loops uncompiled.
        """
        require_options("gibbs", options, ("without", "specialise", "blocked", "engine"), RUN_OPTIONS)
        return Sampler(self.joint, self.collapse, names, Options(tuple(without), specialise, blocked, engine))

    def metropolis(self, *names: str, proposal: Callable[..., Any], engine: str = "numba", **options: Any) -> Sampler:
        """A compiled sampler that proposes one candidate for each entry of these labels, and accepts by the ratio.

        `proposal(place, old, size, uniform)` gives a candidate from 0 to size − 1, from one uniform number, and
        log q(old | new) − log q(new | old); Numba compiles it.
        """
        require_options("metropolis", options, ("proposal", "engine"), RUN_OPTIONS)
        return Sampler(self.joint, self.collapse, names, Options(engine=engine, proposal=proposal))

    def predict(self, key: Data, *names: str, draws: int = 1000, model: Any = None, **options: Any) -> Any:
        """Draws of observed sites given latents drawn from the exact posterior."""
        require_options("predict", options, ("key", "draws", "model"))
        require_key(key)
        whole = collapse(self.joint)
        draws = whole_number("draws", draws)
        first, second = jax.random.split(key)
        kept: dict[str, Data] = {}
        if whole.blocked:
            first, third = jax.random.split(first)
            advice = "infer(key) draws the latents, and has predictive draws too"
            whole, points, values = approximation(self.joint, "predict(…)", whole, advice=advice)
            chosen = jax.random.choice(third, len(points.points), (draws,), p=jnp.asarray(points.shares))
            kept = {name: value[chosen] for name, value in values.items()}
        else:
            self.log_evidence()
        keys = jax.random.split(first, draws)
        latents = whole.asked("recovered", keys, kept, wide=self.wide, many=True)
        return predicted(second, self.joint if model is None else model, latents, names)


def _numbers(name: str, value: Any, domain: Domain, leaf: Leaf) -> Data:
    """An array of the domain of a site."""
    if is_traced(value):
        return value
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise DomainError(f"the value {value!r} for the site {name!r}", expected="numbers")
    require_in_domain(domain, array, name)
    low, high = (-np.inf if leaf.low is None else leaf.low), (np.inf if leaf.high is None else leaf.high)
    if domain.is_discrete and not np.all((array >= low) & (array <= high)):
        raise DataError(f"the value {value!r} of the site {name!r}", expected=f"values from {low:g} to {high:g}")
    return array


def predicted(key: Data, joint: Any, latents: Mapping[str, Data], names: tuple[str, ...]) -> Any:
    """Draws of sites given draws of latents."""
    plain = joint.uncondition() if hasattr(joint, "uncondition") else joint
    order = plain.outline.names
    asked = names or tuple(name for name in order if name not in latents)
    for name in asked:
        required(name, plain, order)
    given = nested(latents)
    unknown = [name for name in given if name not in order]
    if unknown:
        raise UnknownName(
            f"predictions by a model without the site {unknown[0]!r}",
            expected=f"the latents {listed(given)}, by these names",
            nearest=closest(unknown[0], order),
        )
    found = plain.sample(key, (), given)
    values = found if isinstance(found, Mapping) else plain.flatten(found, order)
    chosen = {name: values[name] for name in asked}
    return chosen[names[0]] if len(names) == 1 else chosen
