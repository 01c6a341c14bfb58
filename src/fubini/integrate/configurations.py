"""Finite latents whose entries are coupled in any way, summed out together where they have few configurations.

The configurations of n entries of S values each are counted by c < Sⁿ: entry number i has the digit ⌊c / Sⁱ⌋ mod S.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fubini.algebra.binding import closed, remade
from fubini.algebra.build import add, call, const, index, minus, plus, scale, times
from fubini.algebra.features import NoClosedForm, Place
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite, walk
from fubini.families.signature import Recognised
from fubini.integrate.finite import Summed, bodies, tests

CONFIGURATIONS = "Configurations"
MOST = 1024  # configurations of the entries that are coupled


def summed_together(with_latent: Node, latent: Leaf, size: int) -> Summed:
    """log Σ_c exp g(i, x_c), over the configurations of the coupled axes, for each entry i of the others."""
    parts = [(over, scale(coefficient, body)) for over, body, coefficient in bodies(with_latent, latent)]
    inside = [(over, body, _places(body, latent)) for over, body in parts if latent in body.leaves]
    batch = [axis for axis in range(len(latent.shape)) if all(_is_shared(axis, places) for *_, places in inside)]
    coupled = [axis for axis in range(len(latent.shape)) if axis not in batch]
    entries = math.prod(latent.shape[axis] for axis in coupled)
    if size > 1 and entries > math.log(MOST + 0.5, size):
        raise NoClosedForm(latent, with_latent, f"at most {MOST:,} values of its coupled entries together")
    count = size**entries
    at, c = tuple(Index(latent.shape[axis], "i") for axis in batch), Index(count, "c")
    logits: list[Node] = []
    for over, body, places in inside:
        place = next(iter(places))
        known = rewrite(body, _with_digits(latent, size, coupled, index(c)))
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


def _is_shared(axis: int, places: set[Place]) -> bool:
    """Whether all entries in a term stand at one index along an axis, which no sum inside the term binds."""
    first, *others = {place[axis] for place in places}
    return not others and not any(this.kind == "index" and isinstance(this.args[0], int) for this in walk(first))


def _with_digits(
    latent: Leaf, size: int, coupled: Sequence[int], c: Node
) -> Callable[[Node, Callable[[Node], Node]], Node]:
    """A rule that puts the digits of a configuration in the place of entries."""
    strides = [math.prod(latent.shape[axis] for axis in coupled[k + 1 :]) for k in range(len(coupled))]

    def rule(of: Node, visit: Callable[[Node], Node]) -> Node:
        if of.kind != "get" or of.args[0] is not latent:
            return remade(of, visit) if latent in of.leaves else of
        place = [visit(part) for part in of.args[1:]]
        number = plus(*(scale(float(stride), place[axis]) for axis, stride in zip(coupled, strides, strict=True)))
        return plus(const(latent.first), _digit(c, number, size))

    return rule


def _digit(c: Node, number: Node, size: int) -> Node:
    """⌊c / Sⁱ⌋ − S ⌊c / Sⁱ⁺¹⌋; with a half added to c, rounding never crosses a whole number"""
    half = plus(c, const(0.5))

    def quotient(shift: float) -> Node:
        return call("floor", times(half, call("exp", scale(-math.log(size), plus(number, const(shift))))))

    return minus(quotient(0.0), scale(float(size), quotient(1.0)))
