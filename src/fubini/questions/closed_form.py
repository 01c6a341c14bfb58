"""What exact answers need, and the errors of those that there are none of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.algebra.build import index, plus
from fubini.algebra.features import require_convergent
from fubini.algebra.node import Index, Node
from fubini.algebra.node_notation import written
from fubini.base.arrays import Data, is_traced
from fubini.bridge.indexed_density import Disintegration
from fubini.errors import DataError, Intractable, listed
from fubini.models.data_numbers import require_numbers
from fubini.models.eliminated_model import EliminatedModel
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Flavour
from fubini.models.reading import Reading
from fubini.terms.factor import Factor

LINEARISE = "`with fb.linearize():` or `with fb.unscented():` makes the sequence linear and Gaussian"
APPROXIMATE = "`with fb.quadrature():` (up to three numbers) or `with fb.monte_carlo(key, n):` approximates it"


def require_evidence(value: float, joint: Flavour, reading: Reading | None = None) -> None:
    """A finite evidence."""
    if math.isnan(value):
        require_numbers(joint)
        if reading is not None and reading.reader.marks:
            raise may_leave(f"the evidence of {joint!r}", reading.reader.marks[0])
    if value == -math.inf:
        raise DataError(
            f"the evidence of {joint}",
            expected="observations of positive density under the model",
            nearest="p(observed) is 0: some observation is impossible, whatever the latents are",
        )
    if not math.isfinite(value):
        raise DataError(
            f"the evidence of {joint}",
            expected="a density with a finite integral",
            nearest=f"log p(observed) is {value}: the posterior is improper, or its numbers overflow",
            advice="give proper priors, and check the scale of the data",
        )


def with_mass(disintegration: Disintegration, model: FlatModel, make: Callable[[], Factor]) -> Factor:
    """A factor of a density whose evidence is finite; where numbers are traced, it is not a number if that is not."""
    try:
        data = disintegration.remaining.log().data  # type: ignore[attr-defined]
    except DataError:
        require_numbers(model.joint)  # what is wrong may be said better
        raise
    if not is_traced(data):
        require_evidence(float(np.max(data)), model.joint, model.reading)
        return make()
    mark = jnp.where(jnp.isfinite(jnp.max(data)), 0.0, jnp.nan)

    def marked(leaf: Data) -> Data:
        return leaf + mark.astype(leaf.dtype) if np.dtype(leaf.dtype).kind == "f" else leaf

    return jax.tree_util.tree_map(marked, make())


def may_leave(asked: str, mark: tuple[Any, Any, Node]) -> DataError:
    """The error of a parameter that some values of the latents make impossible."""
    requirement, array = mark[0].requirement, mark[1]
    entry = array.at(*(index(Index(size)) for size in array.shape))
    return DataError(
        f"{asked}, where a parameter may leave what its family allows",
        expected=f"{requirement.label} of dist.{requirement.family} that satisfies {requirement.constraint}"
        " whatever the latents are",
        nearest=f"{requirement.label} = {written(entry)[:160]}",
        advice="use a form that stays inside: jnp.exp, jax.nn.sigmoid, jax.nn.softmax, logits=",
    )


def require_proper(eliminated_model: EliminatedModel, names: Iterable[str]) -> None:
    """Every one of these sites has some density, and no integral is known to be infinite."""
    require_convergent(eliminated_model.blocked)
    whole = plus(*eliminated_model.plan.terms)
    for name in names:
        if eliminated_model.reading.sites[name] not in whole.leaves:
            raise DataError(
                f"the posterior of {name!r}",
                expected="a posterior that integrates to one",
                nearest=f"no term of the density depends on {name!r}: it is improper",
                advice="give it a proper prior, or observations that depend on it",
            )


def require_labels(eliminated_model: EliminatedModel, node: Node) -> None:
    """Where entries are taken by known labels, all of these are in range."""
    opaque = eliminated_model.reading.reader.opaque
    for leaf in node.leaves & set(opaque):
        array, starts, *_ = (*opaque[leaf].operands, None, None)
        labels = None if starts is None else starts.constant
        if not leaf.name.startswith("gather") or labels is None or array is None or labels.shape[-1:] != (1,):
            continue
        outside = np.argwhere((labels[..., 0] < 0) | (labels[..., 0] >= array.shape[0]))
        if len(outside):
            place = tuple(map(int, outside[0]))
            raise DataError(
                f"label {labels[place][0]} at {place}",
                expected=f"labels from 0 to {array.shape[0] - 1}, of an array of shape {array.shape}",
                advice="count classes from 0, and give the array one entry for each",
            )


def _is_part(mark: Node, of: Node) -> bool:
    """An opaque mark is known by its leaf, whatever its indices are."""
    return of.kind == mark.kind == "get" and of.args[0] is mark.args[0]


def _unread(eliminated_model: EliminatedModel, node: Node) -> str:
    """Which arrays in a node are not read, in words."""
    unread = sorted(leaf.name for leaf in node.leaves & set(eliminated_model.reading.reader.opaque))
    return f" (not read, but computed as it stands: {listed(unread)})" if unread else ""


def no_closed_form(asked: str, eliminated_model: EliminatedModel, advice: str = "") -> Intractable:
    """The error of sites that could not be integrated out: which, and what stands in the way."""
    require_convergent(eliminated_model.blocked)
    error = next(iter(eliminated_model.blocked.values()))
    require_labels(eliminated_model, error.node)
    for mark in eliminated_model.reading.reader.marks:
        if error.node is mark[2] or _is_part(mark[2], error.node):
            restriction = may_leave(asked, mark)
            return Intractable(*restriction.args)
    gone = f"; {listed(eliminated_model.eliminated)} can be" if eliminated_model.eliminated else ""
    reasons = "; ".join(f"of {name!r}, {error.why}" for name, error in eliminated_model.blocked.items())
    is_sequence = any(name in eliminated_model.reading.chains for name in eliminated_model.blocked)
    ways = [advice or "infer(key) integrates the others out and draws the remaining latents"]
    ways += [LINEARISE, APPROXIMATE] if is_sequence else [APPROXIMATE]
    return Intractable(
        f"{asked}: the integral over {listed(eliminated_model.blocked)} has no closed form here",
        expected=f"{error.why if len(eliminated_model.blocked) == 1 else reasons}{gone}",
        nearest="; ".join(
            dict.fromkeys(
                f"in {written(error.node)[:160]}{_unread(eliminated_model, error.node)}"
                for error in eliminated_model.blocked.values()
            )
        ),
        advice="; ".join(ways),
    )
