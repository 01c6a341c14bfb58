"""Mixture: a few Gaussians for each value of the bounded integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound, Name
from fubini.errors import DataError, Intractable
from fubini.factors.carry import Advance, Carried, CarryLayout, NamedDomains, after_step
from fubini.factors.fallbacks import combined
from fubini.factors.gaussian import Gaussian
from fubini.factors.gaussian_carry import settle_gaussian
from fubini.factors.mixture_moments import Moments, gaussian_of, match, stacked_moments
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.split_boxes import split_boxes
from fubini.factors.tally import note_projection
from fubini.numerics.gaussian_splitting import with_moments
from fubini.numerics.mixture_masses import Terms, log_masses_kept
from fubini.numerics.mixture_reduction import ReducedMixture, reduce_in_groups
from fubini.numerics.quadratic import places
from fubini.numerics.scaled import positive_log
from fubini.representations.projection import is_cut, named_where_opaque, require_moments, summed_without_boxes
from fubini.representations.quotients import quotient, where_definite
from fubini.representations.truncated import ProjectedLayout, Truncated
from fubini.terms.factor import Factor, rename, substitute
from fubini.terms.value import Array

COMPONENT = Bound("component")
PIECE = Bound("piece")  # of a component that is cut
MOST_PIECES = 20


class Mixture(Truncated):
    """At most k Gaussians for each value of the bounded integers: after each step of a sequence, those that are alike
    are merged (Runnalls 2007). More components follow a distribution that bends; one is `fb.rep.Truncated()`.

    A component that an edge cuts leaks over it again when it becomes one Gaussian. With `split`, it is first split into
    so many narrower ones along each axis that is cut, which leak less.

    >>> fb.rep.Mixture(8), fb.rep.Mixture(8, split=3)
    (Mixture(8), Mixture(8, split=3))
    """

    stores = "at most k Gaussians for each value of the bounded integers"

    def __init__(self, k: int, split: int = 1) -> None:
        self.k, self.split = _whole("components", k), _whole("pieces", split)
        if self.split > MOST_PIECES:
            raise DataError(f"a mixture with split={split}", expected=f"at most {MOST_PIECES} pieces along an axis")

    def layout(self, carried: Carried, names: tuple[Name, ...]) -> CarryLayout | None:
        """Gaussians over one more index."""
        plain = super().layout(carried, names)
        if plain is None:
            return None
        assert isinstance(plain, ProjectedLayout), "a layout of Gaussians"
        return mixture_layout(plain, self.k, self.split, repr(self))

    def __repr__(self) -> str:
        return f"Mixture({self.k}, split={self.split})" if self.split > 1 else f"Mixture({self.k})"


def _whole(what: str, number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
        raise DataError(f"a mixture of {number!r} {what}", expected=f"a whole number of {what}, at least 1")
    return int(number)


@dataclass(frozen=True)
class MixtureLayout(ProjectedLayout):
    """A Gaussian over everything and a component; steps merge components."""

    k: int = 1
    split: int = 1

    @property
    def hidden(self) -> Mapping[Name, Domain]:
        return {COMPONENT: Bint[self.k]}

    @property
    def visible(self) -> dict[Name, Domain]:
        """The bounded integers without the component."""
        return {name: domain for name, domain in self.batch if name != COMPONENT}

    def begin(self, start: Factor, key: Data | None) -> Factor:
        require_moments(start, self.name)
        return self._settled(self.reduced(start)[0])

    def advance(self, steps: Any, carry: Factor, terms: Sequence[Factor], key: Data | None) -> Advance:
        """Σ over the oldest states and components: merged into k components, and which went into which."""
        reals = [name for name in steps.links.oldest if not steps.domains[name].is_finite]
        if is_cut(terms, reals):  # their moments are those of the states before and after together
            after = promoted(steps.joined([carry, *terms]))
        else:
            with named_where_opaque(terms, self.name):
                after = promoted(steps.summed([carry, *terms], reals))
        require_moments(after, self.name)
        made, labels = self.reduced(self._after(after, steps.links))
        return Advance(self._settled(made), labels)

    def reduced(self, f: Factor) -> tuple[Gaussian, Data]:
        """The mixture with k components for each cell of the batch, and the component that each source and box became.

        Labels have the axes of the batch, then one for all sources, pieces and boxes.
        """
        pieces, group = self._pieces(f)
        logs, mean, covariance = self._flat(pieces)
        top = jax.lax.stop_gradient(jnp.max(logs, axis=-1, keepdims=True))
        top = jnp.where(jnp.isfinite(top), top, 0.0)
        weights = jnp.exp(logs - top)
        merged: ReducedMixture = reduce_in_groups(weights, mean, covariance, self.k, group, 2 * self.split)
        shift = jnp.broadcast_to(top, merged.weight.shape)
        few = Moments(merged.weight, shift, merged.mean, merged.covariance)
        made = gaussian_of(few, dict(self.batch), self.reals, f)
        if logs.shape[-1] > self.k or isinstance(f, Piecewise):
            note_projection(f"{type(f).__name__} of {logs.shape[-1]}", made, self.name)
        return made, merged.labels

    def _pieces(self, f: Factor) -> tuple[Terms, int]:
        """The terms of each source, split where it is cut; and how many follow one another that are of one source."""
        whole, split = self._terms(f, self.reals), self._split(f)
        if PIECE not in split.inputs:
            return whole, 1
        pieces, place = self._terms(split, self.reals), whole.log_weight.ndim - 1
        apart = Terms(*(jnp.moveaxis(part, place, place + 1) for part in pieces))  # the pieces of a box side by side
        kept = Terms(*(jnp.moveaxis(part, place + 1, place) for part in with_moments(apart, whole)))
        return kept, kept.log_weight.shape[-1] * kept.log_weight.shape[-2]

    def _split(self, f: Factor) -> Factor:
        return split_boxes(f, self.split, PIECE)

    def retreat(self, steps: Any, carry: Factor, terms: Sequence[Factor], after: Advance, later: Factor) -> Factor:
        """Each source and box looks back at the component that it went into: carry · terms · later / after.

        Those that went into one component have the mass of that component together, as in `ProjectedLayout`.
        """
        assert after.link is not None, "a step merges components"
        joint = self._split(promoted(steps.joined([carry, *terms])))
        moves = {**steps.links.moves_back, COMPONENT: after_step(COMPONENT)}
        divided = quotient(later, after.carry, (*steps.links.before, COMPONENT))
        at: dict[Name, Any] = {after_step(COMPONENT): self._labels(after.link, steps, joint)}
        oldest = [name for name in steps.links.oldest if not steps.domains[name].is_finite]
        if is_cut(terms, oldest):
            earlier = summed_without_boxes(steps.joined([carry, *terms]), oldest)
        else:
            earlier = steps.summed([carry, *terms], oldest)
        ratio = where_definite(divided.mapped(lambda part: substitute(rename(part, moves), at)), earlier)
        whole = self._after(_times(joint, ratio), steps.links)
        before = tuple((self._before[name], domain) for name, domain in self.reals if name in oldest)
        each = self._terms(whole, (*before, *self.reals))
        now = self._flat(self._terms(later, self.reals))
        logs = log_masses_kept(self._flat(each).log_weight, after.link, now.log_weight)
        kept = each._replace(log_weight=logs.reshape(each.log_weight.shape))
        return self._settled(self._earlier(kept, whole, (*before, *self.reals), steps.links))

    def _labels(self, labels: Data, steps: Any, joint: Factor) -> Array:
        """The labels over the names of the states before and after a step."""
        if not isinstance(joint, (Gaussian, Piecewise)):
            raise Intractable(
                f"a smoother by {self.name} of {joint}",
                expected="a step that is one Gaussian for each value of the bounded integers, in boxes or not",
                advice="name the terms of the sum by a bounded integer, as a state; or use fb.rep.Truncated",
            )
        newest = {steps.links.moves_back.get(name, name): domain for name, domain in self.visible.items()}
        oldest = [name for name in self.visible if name in steps.links.oldest]
        sources = {name: joint.inputs[name] for name in (*oldest, COMPONENT, PIECE) if name in joint.inputs}
        inputs = {**newest, **sources, **(joint.indices if isinstance(joint, Piecewise) else {})}
        shape = tuple(domain.extent for domain in inputs.values())
        return Array._of(labels.reshape(shape), tuple(inputs), inputs, Bint[self.k])

    def _earlier(self, terms: Terms, f: Factor, reals: NamedDomains, links: Any) -> Gaussian:
        """The state before a step, from the terms of both: Σ over the states after it and the boxes."""
        own = {
            name: self._before[name] if name in links.oldest else links.moves.get(name, name) for name in self._names
        }
        axes = [*self.visible, *self._sources_in(f)]
        kept = [axes.index(own[name]) for name, _ in self.batch]
        order = [*kept, *(axis for axis in range(len(axes) + 1) if axis not in kept)]
        at = places(reals)
        elements = np.concatenate([np.arange(at[own[name]].start, at[own[name]].stop) for name, _ in self.reals])
        logs, mean, covariance = (_axes_first(part, order, len(kept)) for part in terms)
        mean, covariance = mean[..., elements], covariance[..., elements[:, None], elements]
        some = jnp.isfinite(logs)
        moments = Moments(some.astype(logs.dtype), jnp.where(some, logs, 0.0), mean, covariance)
        made = gaussian_of(match(moments, len(kept)), dict(self.batch), self.reals, f)
        if logs.shape[-1] > 1 or isinstance(f, Piecewise):
            note_projection(f"{type(f).__name__} of {logs.shape[-1]}", made, self.name)
        return made

    def _after(self, f: Factor, links: Any) -> Factor:
        """A factor of a step: the state after it under the names of the layout, the one before it under others."""
        old: dict[Name, Name] = {name: self._before[name] for name in links.oldest}
        return rename(rename(promoted(f), old), links.moves)

    def _sources_in(self, f: Factor) -> dict[Name, Domain]:
        """The bounded integers before a step, the component, and the pieces of one that is cut."""
        sources = (*self._before.values(), COMPONENT, PIECE)
        return {name: f.inputs[name] for name in sources if name in f.inputs and f.inputs[name].is_finite}

    def _terms(self, f: Factor, reals: NamedDomains) -> Terms:
        """The moments of each box, over the batch, the sources, and an axis of the boxes."""
        weight, shift, mean, covariance = stacked_moments(f, {**self.visible, **self._sources_in(f)}, reals)
        return Terms(positive_log(weight) + shift, mean, covariance)

    def _flat(self, terms: Terms) -> Terms:
        """The same with one axis for sources and boxes."""
        batch, every = len(self.visible), terms.log_weight.ndim
        return Terms(*(part.reshape((*part.shape[:batch], -1, *part.shape[every:])) for part in terms))

    @property
    def _names(self) -> list[Name]:
        return [name for name, _ in (*self.batch, *self.reals)]

    @cached_property
    def _before(self) -> dict[Name, Bound]:
        return {name: Bound(f"{name} before") for name in self._names}

    def _settled(self, made: Gaussian) -> Gaussian:
        return settle_gaussian(made, self)


def mixture_layout(plain: ProjectedLayout, k: int, split: int, name: str) -> MixtureLayout:
    """The layout with one more name, the component."""
    batch = (*plain.batch, (COMPONENT, Bint[k]))
    names = tuple(name for name, _ in batch)
    return MixtureLayout(batch, plain.reals, plain.dtype, plain.homogeneous, names, names, plain.white, name, k, split)


def _axes_first(data: Data, order: Sequence[int], kept: int) -> Data:
    """The axes in another order, those after the kept ones in one; axes of the event stay behind."""
    turned = jnp.transpose(data, [*order, *range(len(order), data.ndim)])
    return turned.reshape((*turned.shape[:kept], -1, *turned.shape[len(order) :]))


def _times(joint: Factor, ratio: Gaussian) -> Factor:
    if isinstance(joint, Piecewise):
        return joint.with_parts(combined((promoted(joint.parts), ratio)))
    return combined((joint, ratio))
