"""Mixture: a few Gaussians for each value of the bounded integers."""

from __future__ import annotations

import math
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
from fubini.errors import DataError
from fubini.factors.carry import Advance, Carried, CarryLayout, after_step, settled
from fubini.factors.fallbacks import combined
from fubini.factors.gaussian import Gaussian
from fubini.factors.gaussian_carry import settle_gaussian
from fubini.factors.mixture import summed
from fubini.factors.mixture_moments import Moments, gaussian_of, stacked_moments
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.factors.split_boxes import split_boxes
from fubini.factors.tally import note_projection
from fubini.numerics.gaussian_splitting import Pieces, with_moments
from fubini.numerics.mixture_reduction import ReducedMixture, reduce_in_groups
from fubini.numerics.scaled import positive_log
from fubini.representations.projection import is_cut, named_where_opaque, require_moments, summed_without_boxes
from fubini.representations.quotients import quotient, where_definite
from fubini.representations.truncated import ProjectedLayout, Truncated
from fubini.terms.factor import Factor, rename, substitute
from fubini.terms.value import Array

COMPONENT = Bound("component")
PIECE = Bound("piece")  # of a component that is split
MOST_PIECES = 20


class Mixture(Truncated):
    """At most k Gaussians for each value of the bounded integers: after each step of a sequence, those that are alike
    are merged (Runnalls 2007). More components follow a distribution that bends; one is `fb.rep.Truncated()`.

    A component in boxes is first split into `split` narrower ones along each axis that is cut, if that is more than 1:
    the Gaussian of the moments of a narrow one reaches less far over the cut.

    >>> fb.rep.Mixture(8), fb.rep.Mixture(8, split=3)
    (Mixture(8), Mixture(8, split=3))
    """

    stores = "at most k Gaussians for each value of the bounded integers"

    def __init__(self, k: int, split: int = 1) -> None:
        for number, of_what in ((k, "components"), (split, "Gaussians that one is split into")):
            if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
                raise DataError(f"Mixture({k!r}, split={split!r})", expected=f"a whole number of {of_what}, at least 1")
        if split > MOST_PIECES:
            raise DataError(f"Mixture({k!r}, split={split!r})", expected=f"a split into at most {MOST_PIECES}")
        self.k, self.split = int(k), int(split)

    def layout(self, carried: Carried, names: tuple[Name, ...]) -> CarryLayout | None:
        """Gaussians over one more index."""
        plain = super().layout(carried, names)
        if plain is None:
            return None
        assert isinstance(plain, ProjectedLayout), "a layout of Gaussians"
        return mixture_layout(plain, self.k, self.split, repr(self))

    def __repr__(self) -> str:
        return f"Mixture({self.k}, split={self.split})" if self.split > 1 else f"Mixture({self.k})"


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
        return self._settled(self.reduced(promoted(start))[0])

    def advance(self, steps: Any, carry: Factor, terms: Sequence[Factor], key: Data | None) -> Advance:
        """Σ over the oldest states and components: merged into k components, and which went into which."""
        reals = [name for name in steps.links.oldest if not steps.domains[name].is_finite]
        old: dict[Name, Name] = {name: self._sources[name] for name in self._finite_oldest(steps)}
        if is_cut(terms, reals):  # their moments are those of the states before and after together
            after = promoted(steps.joined([carry, *terms]))
            old.update({name: after_step(name) for name in reals})
        else:
            with named_where_opaque(terms, self.name):
                after = promoted(steps.summed([carry, *terms], reals))
        require_moments(after, self.name)
        made, labels = self.reduced(rename(rename(after, old), steps.links.moves))
        return Advance(self._settled(made), labels)

    def reduced(self, f: Factor) -> tuple[Gaussian, Data]:
        """The mixture with k components for each cell of the batch, and the component that each box and source became.

        Labels have the axes of the batch, then one for all sources and boxes, and those that each was split into.
        """
        whole = self._moments(f)
        top = jax.lax.stop_gradient(jnp.max(whole.log_weight, axis=-1, keepdims=True))
        top = jnp.where(jnp.isfinite(top), top, 0.0)
        pieces, group = self._pieces(f, whole)
        every = jnp.exp(pieces.log_weight - top), pieces.mean, pieces.covariance
        merged: ReducedMixture = reduce_in_groups(*every, self.k, group, 2 * self.split)
        shift = jnp.broadcast_to(top, merged.weight.shape)
        batch = {**self.visible, COMPONENT: Bint[self.k]}
        few = Moments(merged.weight, shift, merged.mean, merged.covariance)
        made, count = gaussian_of(few, batch, self.reals, f), pieces.log_weight.shape[-1]
        if count > self.k or isinstance(f, Piecewise):
            note_projection(f"{type(f).__name__} of {count}", made, self.name)
        return made, merged.labels

    def _moments(self, f: Factor) -> Pieces:
        """The moments of every source and box, along one axis after those of the batch."""
        weight, shift, mean, covariance = stacked_moments(_bound(f, self._hidden_in(f)), self.visible, self.reals)
        return Pieces(positive_log(weight) + shift, mean, covariance)

    def _pieces(self, f: Factor, whole: Pieces) -> tuple[Pieces, int]:
        """What each source is split into in each box, the moments of their sum kept; how many are of one source."""
        split = self._split(f)
        if not isinstance(split, Piecewise) or PIECE not in split.inputs:
            return whole, 1
        boxes, count = math.prod(domain.extent for domain in split.indices.values()), split.inputs[PIECE].extent
        axis = len(self.visible)

        def in_boxes(data: Data) -> Data:
            """The pieces of a source in a box side by side."""
            apart = data.reshape((*data.shape[:axis], -1, count, boxes, *data.shape[axis + 1 :]))
            return jnp.moveaxis(apart, axis + 1, axis + 2).reshape(
                (*data.shape[:axis], -1, count, *data.shape[axis + 1 :])
            )

        pieces = with_moments(Pieces(*map(in_boxes, self._moments(split))), *whole)
        flat = (data.reshape((*data.shape[:axis], -1, *data.shape[axis + 2 :])) for data in pieces)
        return Pieces(*flat), boxes * count

    def _hidden_in(self, f: Factor) -> dict[Name, Domain]:
        """The bounded integers that a step sums out, those that a component is split into last."""
        finite = {name: domain for name, domain in f.inputs.items() if domain.is_finite and name not in self.visible}
        return {name: finite[name] for name in sorted(finite, key=lambda name: name == PIECE)}

    def retreat(self, steps: Any, carry: Factor, terms: Sequence[Factor], after: Advance, later: Factor) -> Factor:
        """Each source and box looks back at the component that it went into."""
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
        whole = _times(joint, ratio)
        whole = self.settled_joint(
            _bound(whole, {name: whole.inputs[name] for name in (PIECE,) if name in whole.inputs})
        )
        return settled(steps.summed([whole], steps.links.newest), self)

    def _labels(self, labels: Data, steps: Any, joint: Factor) -> Array:
        """The labels over the names of the states before and after a step."""
        sizes = dict(self.batch)
        newest = [steps.links.moves_back.get(name, name) for name in self.visible]
        cells = joint.indices if isinstance(joint, Piecewise) else {}
        sources = [name for name in joint.inputs if name in (*self._finite_oldest(steps), COMPONENT)]
        inputs = {
            **dict(zip(newest, self.visible.values(), strict=True)),
            **{name: sizes.get(name, joint.inputs[name]) for name in sources},
            **cells,
            **{name: domain for name, domain in joint.inputs.items() if name == PIECE},
        }
        shape = tuple(domain.extent for domain in inputs.values())
        return Array._of(labels.reshape(shape), tuple(inputs), inputs, Bint[self.k])

    def _finite_oldest(self, steps: Any) -> list[Name]:
        return [name for name in steps.links.oldest if steps.domains[name].is_finite]

    @cached_property
    def _sources(self) -> dict[Name, Bound]:
        return {name: Bound(f"{name} before") for name in dict(self.batch)}

    def _split(self, f: Factor) -> Factor:
        """A factor in boxes as narrower Gaussians, over one more index."""
        return split_boxes(f, self.split, PIECE)

    def _settled(self, made: Gaussian) -> Gaussian:
        return settle_gaussian(made, self)


def mixture_layout(plain: ProjectedLayout, k: int, split: int, name: str) -> MixtureLayout:
    """The layout with one more name, the component."""
    batch = (*plain.batch, (COMPONENT, Bint[k]))
    names = tuple(name for name, _ in batch)
    return MixtureLayout(batch, plain.reals, plain.dtype, plain.homogeneous, names, names, plain.white, name, k, split)


def _bound(f: Factor, sources: Mapping[Name, Domain]) -> Factor:
    """Σ over the sources."""
    return summed(f, tuple(sources)) if sources else f


def _times(joint: Factor, ratio: Gaussian) -> Factor:
    if isinstance(joint, Piecewise):
        return joint.with_parts(combined((promoted(joint.parts), ratio)))
    return combined((joint, ratio))
