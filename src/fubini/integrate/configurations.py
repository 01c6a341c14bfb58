"""Finite latents whose entries are coupled in any way, summed out together where they have few configurations."""

from __future__ import annotations

import math

from fubini.algebra.binding import closed
from fubini.algebra.build import add, const, index, scale, times
from fubini.algebra.features import NoClosedForm, Place
from fubini.algebra.label_digits import MOST, with_digits
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite, walk
from fubini.families.signature import Recognised
from fubini.integrate.finite import Summed, bodies, tests

CONFIGURATIONS = "Configurations"


def summed_together(with_latent: Node, latent: Leaf, size: int) -> Summed:
    """log Σ_c exp g(i, x_c), over the configurations of the coupled axes, for each entry i of the others."""
    parts = [(over, scale(coefficient, body)) for over, body, coefficient in bodies(with_latent, latent)]
    inside = [(over, body, _places(body, latent)) for over, body in parts if latent in body.leaves]
    each = [places for *_, places in inside]
    batch = [axis for axis, extent in enumerate(latent.shape) if all(_is_shared(axis, extent, p) for p in each)]
    coupled = [axis for axis in range(len(latent.shape)) if axis not in batch]
    entries = math.prod(latent.shape[axis] for axis in coupled)
    if size > 1 and entries > math.log(MOST + 0.5, size):
        raise NoClosedForm(latent, with_latent, f"at most {MOST:,} values of its coupled entries together")
    count = size**entries
    at, c = tuple(Index(latent.shape[axis], "i") for axis in batch), Index(count, "c")
    logits: list[Node] = []
    for over, body, places in inside:
        place = next(iter(places))
        known = rewrite(body, with_digits(latent, coupled, index(c)))
        logits.append(total(over, times(tests(tuple(place[axis] for axis in batch), at), known)))
    logit = add((part, 1.0) for part in logits)
    mask = const(float(sum(2**axis for axis in coupled)))
    distribution = Recognised(CONFIGURATIONS, {"logits": logit, "axes": mask}, closed("lse", [c], logit))
    outside = tuple(total(over, body) for over, body in parts if latent not in body.leaves)
    return Summed(at, (*at, c), distribution, outside)


def coupled_axes(distribution: Recognised, latent: Leaf) -> list[int]:
    """The axes of a latent whose entries were summed out together."""
    mask = int(distribution.parameters["axes"].args[0])
    return [axis for axis in range(len(latent.shape)) if mask >> axis & 1]


def _places(of: Node, latent: Leaf) -> set[Place]:
    """Where the entries of a latent are read, also at indices of sums; opaque functions of it are refused."""
    places: set[Place] = set()
    for this in walk(of, enter=lambda this: latent in this.leaves, descend=lambda this: this.args[0] is not latent):
        if this.kind == "get" and this.args[0] is latent:
            if any(latent in part.leaves for part in this.args[1:]):
                raise NoClosedForm(latent, this, "its entries at places that do not depend on it")
            places.add(this.args[1:])
        elif this.kind == "get" and latent in this.args[0].of:
            raise NoClosedForm(latent, this, "a function that can be read")
    return places


def _is_shared(axis: int, extent: int, places: set[Place]) -> bool:
    """Whether all entries in a term stand at one index along an axis, which no sum inside the term binds.

    An index that may lie outside, under a test that nothing is read there, is none: no entry would have that term.
    """
    first, *others = {place[axis] for place in places}
    low, high = bounds(first)
    is_bound = any(this.kind == "index" and isinstance(this.args[0], int) for this in walk(first))
    return not others and not is_bound and low >= 0 and high <= extent - 1
