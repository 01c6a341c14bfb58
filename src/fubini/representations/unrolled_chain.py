"""A chain that is written out: variables in layers, each tied to the layer before it by factors of the same form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fubini.base.arrays import Data
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound, Name
from fubini.eliminate.explanation import Explanation
from fubini.factors.promotion import promoted
from fubini.representations.stacked import stack_factors
from fubini.sequence.chain import Chain
from fubini.sequence.links import fixed_bound
from fubini.terms.factor import Factor, product, rename, substitute, terms_of
from fubini.terms.value import Array

MOST_STATES = 8  # of one layer
TIME = Bound("step")


class UnrolledChain(NamedTuple):
    """The chain, and the variables of each layer in the order of its states."""

    chain: Chain
    layers: list[tuple[Name, ...]]
    before: tuple[Bound, ...]
    after: tuple[Bound, ...]

    def covers(self) -> dict[Name, Name]:
        """The states as the variables of the second layer, which they are represented like."""
        pairs = zip((*self.before, *self.after), self.layers[1] * 2, strict=True)
        return dict(pairs)

    def explain(self) -> Explanation:
        """Explain the chain."""
        return self.chain.explain()

    def marginal(self, name: Name) -> Factor:
        """p(variable | everything), from the smoother."""
        layer = next(k for k, names in enumerate(self.layers) if name in names)
        place = self.layers[layer].index(name)
        smooth = self.chain.smooth()
        if layer == 0:
            factor, own = smooth.initial, self.before
        else:
            at = Array(layer - 1, (), Bint[self.chain.length])
            factor, own = substitute(smooth.terms[0], {TIME: at}), self.after
        others = [other for other in own if other != own[place] and other in factor.inputs]
        return smooth.counting(rename(factor.sum(*others) if others else factor, {own[place]: name}))

    def assignment(self, values: Mapping[Name, Data]) -> dict[Name, Data]:
        """Values of the states as those of the variables."""
        assigned = {name: values[own] for name, own in zip(self.layers[0], self.before, strict=True)}
        for layer, names in enumerate(self.layers[1:]):
            for name, own in zip(names, self.after, strict=True):
                event = (slice(None),) * len(self.chain.domains[own].shape)
                assigned[name] = values[own][(..., layer, *event)]
        return assigned


def unrolled_chain(factors: Sequence[Factor], domains: Mapping[Name, Domain]) -> UnrolledChain | None:
    """The chain that these factors write out, their variables in order; None where they are none."""
    terms = [promoted(term) for factor in factors for term in terms_of(factor)]
    names = list(domains)
    for states in range(1, MOST_STATES + 1):
        if len(names) % states == 0 and len(names) >= 3 * states:
            layers = [tuple(names[k : k + states]) for k in range(0, len(names), states)]
            made = _in_layers(terms, layers, domains)
            if made is not None:
                return made
    return None


def _in_layers(
    terms: Sequence[Factor], layers: list[tuple[Name, ...]], domains: Mapping[Name, Domain]
) -> UnrolledChain | None:
    kinds = [tuple(domains[name] for name in layer) for layer in layers]
    if any(kind != kinds[0] for kind in kinds):
        return None
    layer_of = {name: k for k, layer in enumerate(layers) for name in layer}
    own: list[list[Factor]] = [[] for _ in layers]
    for term in terms:
        reached = sorted({layer_of[name] for name in term.inputs})
        if not reached:
            own[0].append(term)
        elif reached[-1] - reached[0] > 1:
            return None
        else:
            own[reached[-1]].append(term)
    before = tuple(fixed_bound(f"{name} before") for name in layers[0])
    after = tuple(fixed_bound(f"{name} after") for name in layers[0])
    steps = [_renamed(own[k], layers, k, before, after) for k in range(1, len(layers))]
    if len({len(step) for step in steps}) > 1:
        return None
    stacked = [stack_factors(column, TIME) for column in zip(*steps, strict=True)]
    if any(factor is None for factor in stacked):
        return None
    init = product(*(rename(term, dict(zip(layers[0], before, strict=True))) for term in own[0]))
    step = dict(zip([(name,) for name in before], [(name,) for name in after], strict=True))
    chain = Chain(init=init, factor=product(*stacked), time=TIME, step=step, length=_length(stacked, layers))
    return UnrolledChain(chain, layers, before, after)


def _renamed(
    terms: Sequence[Factor], layers: list, layer: int, before: tuple[Bound, ...], after: tuple[Bound, ...]
) -> list[Factor]:
    names: dict[Name, Name] = {
        **dict(zip(layers[layer - 1], before, strict=True)),
        **dict(zip(layers[layer], after, strict=True)),
    }
    return [rename(term, names) for term in terms]


def _length(stacked: Sequence[Factor | None], layers: list) -> int | None:
    return None if any(f is not None and TIME in f.inputs for f in stacked) else len(layers) - 1
