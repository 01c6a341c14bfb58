"""A particle filter that draws only the states without a closed form; the others are summed exactly for each particle.

Known as Rao-Blackwellised particle filtering, or delayed sampling. The evidence it estimates is unbiased.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fubini.approximate.proposals import averaged, drawn
from fubini.base.arrays import Data, precision
from fubini.base.domains import Bint, Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Name
from fubini.base.semirings import sum_product
from fubini.eliminate.engine import engine_of
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.carry import CarryLayout, filled, layout_of, settled
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import summed as mixed
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.numerics.scaled import read_log
from fubini.sequence.chain_questions import evidence
from fubini.sequence.compiled import SequenceOutline
from fubini.sequence.steps import Steps, joined, prepared, summed
from fubini.terms.factor import Factor, rename, substitute, terms_of
from fubini.terms.heads import DIVIDE, DRAW
from fubini.terms.name_axis import name_axis
from fubini.terms.value import Array


class Cloud(NamedTuple):
    """Particles: a value of each state drawn, and a factor over the particles and the other states."""

    points: tuple[Data, ...]
    rest: Factor


class Filter(NamedTuple):
    """How particles move: which states are drawn, over which cells, and the layout of the other states."""

    steps: Steps
    names: tuple[Name, ...]  # the states drawn, as before a step
    cells: Mapping[Name, Domain]  # particles, and batch inputs
    layout: CarryLayout

    def init(self, start: Factor, randomness: Randomness) -> Cloud:
        """Particles of the first state."""
        whole = joined([start, averaged(self.cells[SAMPLES].extent)])
        return self.cloud(*_chosen(whole, self.names, self._others(self.steps.links.before), randomness))

    def _others(self, states: Sequence[Name]) -> tuple[Name, ...]:
        return tuple(name for name in states if name not in self.drawn_after and name not in self.names)

    @property
    def drawn_after(self) -> tuple[Name, ...]:
        """The states drawn, as after a step."""
        newest = dict(zip(self.steps.links.before, self.steps.links.newest, strict=True))
        return tuple(newest[name] for name in self.names)

    def cloud(self, points: Mapping[Name, Array], rest: Factor) -> Cloud:
        """Make particles of points and of the other states in their layout."""
        data = tuple(filled(points[name], self.cells) for name in self.names)
        return Cloud(data, settled(rest, self.layout))

    def at(self, cloud: Cloud) -> dict[Name, Array]:
        """The values of the states drawn."""
        domains = self.steps.domains
        pairs = zip(self.names, cloud.points, strict=True)
        return {name: Array._of(data, tuple(self.cells), self.cells, domains[name]) for name, data in pairs}

    def step(self, cloud: Cloud, terms: Sequence[Factor], key: Data) -> Cloud:
        """One step: exact sums, then a draw for each particle, then new particles where few carry the weight."""
        draw_key, key = jax.random.split(key)
        randomness = Randomness(draw_key, self.cells[SAMPLES].extent, jnp)
        given = [cloud.rest, *(substitute(term, self.at(cloud)) for term in terms)]
        oldest = [name for name in self.steps.links.oldest if name not in self.names]
        whole = summed(given, oldest)
        points, rest = _chosen(whole, self.drawn_after, self._others(self.steps.links.newest), randomness)
        moves = self.steps.links.moves
        moved = {moves[name]: value for name, value in points.items()}
        return self.resampled(self.cloud(moved, rename(rest, moves)), key)

    def resampled(self, cloud: Cloud, key: Data) -> Cloud:
        """Particles in proportion to their weight, all with the same weight then, where few carry most of it."""
        exact = [name for name in self.steps.links.before if name not in self.names]
        weights = summed([cloud.rest], exact)
        assert isinstance(weights, Table)
        logs = align(read_log(weights.pair), weights.names, tuple(self.cells))
        n = logs.shape[0]
        shares = jax.nn.softmax(logs, axis=0)
        few = 1.0 / jnp.sum(shares**2, axis=0) < 0.5 * n
        chosen = jnp.where(few, _systematic(key, shares), jnp.arange(n).reshape((n,) + (1,) * (logs.ndim - 1)))
        index = Array._of(chosen, tuple(self.cells), self.cells, self.cells[SAMPLES])
        even = jax.nn.logsumexp(logs, axis=0) - jnp.log(n) - jnp.take_along_axis(logs, chosen, axis=0)
        change = Table.from_log(jax.lax.stop_gradient(jnp.where(few, even, 0.0)), dict(self.cells))
        points = {name: _gathered(value, index) for name, value in self.at(cloud).items()}
        return self.cloud(points, joined([substitute(cloud.rest, {SAMPLES: index}), change]))


def _gathered(value: Array, index: Array) -> Array:
    data = jnp.take_along_axis(
        value.array, index.array.reshape(index.array.shape + (1,) * len(value.output.shape)), axis=0
    )
    return Array._of(data, value.names, value.inputs, value.output)


def _systematic(key: Data, shares: Data) -> Data:
    """n positions with these shares, one uniform number for each cell of the batch (Kitagawa 1996)."""
    n = shares.shape[0]
    first = jax.random.uniform(key, shares.shape[1:])
    places = (jnp.arange(n).reshape((n,) + (1,) * first.ndim) + first) / n
    edges = jnp.cumsum(shares, axis=0)

    def one(edge: Data, place: Data) -> Data:
        return jnp.minimum(jnp.searchsorted(edge, place * edge[-1], side="right"), n - 1)

    flat = jax.vmap(one, in_axes=1, out_axes=1)(edges.reshape(n, -1), places.reshape(n, -1))
    return flat.reshape(shares.shape)


def _chosen(
    whole: Factor, names: tuple[Name, ...], others: tuple[Name, ...], randomness: Randomness
) -> tuple[dict[Name, Array], Factor]:
    """A value of the names for each particle, and the remaining factor, with the weight that this leaves."""
    if isinstance(whole, (Table, Gaussian)):
        present = tuple(name for name in others if name in whole.inputs)
        marginal = joined([whole.sum(*present)]) if present else whole
        points = interpret(DRAW, randomness, marginal, names)
        points = {name: jax.lax.stop_gradient(value) for name, value in points.items()}
        total, there = joined([marginal.sum(*names)]), substitute(marginal, points)
        # The quotient is a constant: the weight then has the derivative of the draw too, as with a DiCE weight.
        return points, joined([substitute(whole, points), jax.lax.stop_gradient(interpret(DIVIDE, total, there))])
    draws = drawn(terms_of(whole), names, randomness)
    return dict(draws.points), joined(draws.terms)  # type: ignore[arg-type]


def filter_of(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], names: tuple[Name, ...], n: int
) -> tuple[Filter, Factor]:
    """The filter that draws these states, and where it starts."""
    steps, first = outline.steps(terms), joined(prepared(start, sum_product))
    gone = (steps.time, *steps.links.newest, *names)
    exact = {name: steps.domains[name] for name in steps.links.before if name not in names}
    plain = layout_of([first, *steps.terms], gone, exact, sum_product)
    free = [name for name, _ in plain.reals if name not in exact]
    if free:
        raise Intractable(
            f"a particle filter with {listed(free)} free",
            expected="no real variable beside the states",
            advice="condition on it, or make it a state that does not change",
        )
    layout = plain.over(SAMPLES, Bint[n]).over_everything()
    cells = {name: domain for name, domain in layout.batch if name not in exact}
    return Filter(steps, names, cells, layout), first


def run_particles(
    outline: SequenceOutline,
    start: Sequence[Factor],
    terms: Sequence[Factor],
    key: Data,
    names: tuple[Name, ...],
    n: int,
    keep: bool,
) -> tuple[Filter, Cloud, Any]:
    """The particles after the last step, and, if they are kept, those after every step."""
    particles, first = filter_of(outline, start, terms, names, n)
    first_key, key = jax.random.split(key)
    cloud = particles.init(first, Randomness(first_key, n, jnp))
    cut = particles.steps.cut()

    def body(now: Cloud, given: tuple) -> tuple[Cloud, Cloud | None]:
        parts, step_key = given
        after = particles.step(now, cut.at(parts), step_key)
        return after, after if keep else None

    keys = jax.random.split(key, outline.length)
    last, every = jax.lax.scan(body, cloud, (cut.stacked, keys))
    return particles, last, every


def estimated_evidence(
    outline: SequenceOutline,
    start: Sequence[Factor],
    terms: Sequence[Factor],
    key: Data,
    names: tuple[Name, ...],
    n: int,
) -> Factor:
    """Σ over all states: the mean over particles, unbiased."""
    _, last, _ = run_particles(outline, start, terms, key, names, n, False)
    return summed([last.rest], (*outline.links.before, SAMPLES))


def estimated_filter(
    outline: SequenceOutline,
    start: Sequence[Factor],
    terms: Sequence[Factor],
    key: Data,
    names: tuple[Name, ...],
    n: int,
) -> Factor:
    """p(state after step t | everything up to t): a mixture over the particles."""
    particles, _, every = run_particles(outline, start, terms, key, names, n, True)
    rest = name_axis(every.rest, outline.time)
    exact = [name for name in outline.links.before if name not in names]
    total = summed([rest], (*exact, SAMPLES))
    cells = {outline.time: Bint[outline.length], **particles.cells}
    points = {
        name: Array._of(data, tuple(cells), cells, particles.steps.domains[name])
        for name, data in zip(names, every.points, strict=True)
    }
    whole = Delta(points, joined([interpret(DIVIDE, rest, total)]))
    return mixed(rename(whole, outline.links.to_after), (SAMPLES,))


def drawn_states(
    outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], asked: frozenset[Name]
) -> tuple[Name, ...]:
    """The states that particles draw: those asked for, or the fewest without which no step has a closed form."""
    links, domains = outline.links, dict(outline.domains)
    by_name = {name: link.before[-1] for link in links.chains for name in (link.newest, link.before[-1])}
    wanted = tuple(dict.fromkeys(by_name[name] for name in asked if name in by_name))
    finite = tuple(name for name in links.before if domains[name].is_finite)
    infinite = tuple(name for name in links.before if name not in finite)
    if (links.lag > 1 or outline.globals) and (wanted or not _works(outline, start, terms, ())):
        raise Intractable(
            f"a particle filter of {listed(links.before)}",
            expected="states of lag 1 and no global variables to sum",
            advice="condition on the global variables, or make one state of the lagged ones",
        )
    if wanted:
        return wanted
    for candidate in ((), finite, infinite, links.before):
        if _works(outline, start, terms, candidate):
            return candidate
    raise Intractable(
        f"a particle filter of {listed(links.before)}",
        expected="states that can be drawn: densities of each state after a step given those before it",
        advice="write the step as densities, parents first",
    )


def _works(outline: SequenceOutline, start: Sequence[Factor], terms: Sequence[Factor], names: tuple[Name, ...]) -> bool:
    """One step goes through, without its numbers."""
    key = jax.random.key(0)
    ask = partial(estimated_evidence, outline, key=key, names=names, n=2) if names else partial(evidence, outline)
    try:
        with precision(engine_of([*start, *terms]) == "numpy"):
            jax.eval_shape(ask, tuple(start), tuple(terms))
    except (Intractable, NoRule):
        return False
    return True
