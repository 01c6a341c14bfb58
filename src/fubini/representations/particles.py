"""Particles: points of a variable with weights; the other variables are summed exactly for each of them.

Known as Rao-Blackwellised particle filtering, or delayed sampling. The evidence that it estimates is unbiased.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.approximate.proposals import averaged, drawn
from fubini.base import lax_loops
from fubini.base.arrays import Data, is_traced
from fubini.base.domains import Bint, Domain
from fubini.base.interpretations import interpret
from fubini.base.names import Bound, Name
from fubini.errors import DataError, Intractable, listed
from fubini.factors.carry import Advance, Carried, CarryLayout, after_step, default_layout, filled, settled
from fubini.factors.gaussian import Gaussian
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted, to_kind
from fubini.factors.represent import Representation, key_of, representation_of, samples_states
from fubini.factors.samples import Samples
from fubini.factors.sparse import Sparse
from fubini.factors.table import Table
from fubini.factors.tally import note_replaced, tallied
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness, require_key
from fubini.numerics.resampling import systematic
from fubini.numerics.scaled import read_log
from fubini.sequence.steps import joined, summed
from fubini.terms.exactness import Exactness, estimated
from fubini.terms.factor import Factor, Product, rename, substitute, terms_of
from fubini.terms.heads import DIVIDE, DRAW
from fubini.terms.value import Array, to_array

PARTICLE = Bound("particle")
BLOCK = 2048  # points after a step that are weighed against all before it at once


@samples_states
class Particles(Representation):
    """n weighted points. In a sequence they move by the factors of a step that can be drawn from, are weighed by the
    others, and are drawn anew where few carry most of the weight; variables with a closed form are summed for each.

    >>> fb.rep.Particles(1000, jax.random.key(0))
    Particles(1000)
    """

    stores = "weighted points; the other variables are summed for each of them"
    projects = True
    nests = True

    def __init__(self, n: int, key: Data) -> None:
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
            raise DataError(f"Particles({n!r}, key)", expected="a whole number of particles, at least 1")
        require_key(key)
        self.n, self.key = int(n), key

    @property
    def mark(self) -> Exactness:
        return estimated(self.n)

    def layout(self, carried: Carried, names: tuple[Name, ...]) -> CarryLayout | None:
        """Points of the names, and the other variables in a layout of their own."""
        states = {name: domain for name, domain in carried.states.items() if name not in names}
        batch = tuple(pair for pair in carried.batch if pair[0] not in names)
        reals = tuple(pair for pair in carried.reals if pair[0] not in names)
        free = [name for name, _ in reals if name not in carried.states]
        if free:
            raise Intractable(
                f"particles of {listed(names)} with {listed(free)} free",
                expected="no real variable beside the states",
                advice="condition on it, or make it a state that does not change",
            )
        rest = carried._replace(batch=batch, reals=reals, states=states)
        own = {representation_of(name) for name, _ in (*batch, *reals)} - {None}
        others = [made for each in own if (made := each.layout(rest, _named(each, rest))) is not None]  # type: ignore[union-attr]
        if len(others) > 1:
            raise Intractable(
                f"particles of {listed(names)} beside {listed(own)}",
                expected="one representation for the states that are not drawn, beside fb.rep.Dense",
            )
        plain = others[0] if others else default_layout(rest)
        inner = plain.over(PARTICLE, Bint[self.n]).over_everything()
        domains = {**dict(carried.batch), **dict(carried.reals)}
        located = tuple((name, domains[name]) for name in names)
        beside = tuple(states)
        return ParticleLayout(inner.batch, inner.reals, inner.dtype, inner.homogeneous, located, beside, self.n, inner)

    def require_answer(self, answer: Factor) -> None:
        """Raise where no particle has weight, so that nothing can be normalised."""
        for leaf in answer.leaves():
            if not is_traced(leaf) and np.isnan(np.asarray(leaf)).any():
                raise DataError(
                    f"an answer by {self}",
                    expected="particles with weight after every step",
                    nearest="at some step no particle has any: all of them are where a factor is zero",
                    advice="use more particles, or widen what they are drawn from",
                )

    def __repr__(self) -> str:
        return f"Particles({self.n})"


def _named(own: Representation, carried: Carried) -> tuple[Name, ...]:
    return tuple(name for name, _ in (*carried.batch, *carried.reals) if representation_of(name) == own)


@dataclass(frozen=True)
class ParticleLayout(CarryLayout):
    """Samples: points of `located` over the particles and the batch, and the other states in the layout `inner`.

    Whatever is neither a state nor a particle is a batch: it has particles of its own for each value.
    """

    located: tuple[tuple[Name, Domain], ...]
    states: tuple[Name, ...]
    n: int
    inner: CarryLayout

    @property
    def holds(self) -> str:
        return "weighted points"

    @property
    def projects(self) -> bool:
        return True

    @property
    def hidden(self) -> Mapping[Name, Domain]:
        return {PARTICLE: Bint[self.n]}

    @property
    def names(self) -> tuple[Name, ...]:
        """The variables that are drawn."""
        return tuple(name for name, _ in self.located)

    def keys(self, count: int) -> Data:
        return jax.random.split(key_of(self.names[0]), count)

    def shown(self, carry: Factor) -> Factor:
        assert isinstance(carry, Samples), "a carry of this layout"
        return carry.shown() if not isinstance(carry.weight, Sparse) else _with_table(carry).shown()

    @property
    def cells(self) -> dict[Name, Domain]:
        """Particles and batch inputs: what there is one point for."""
        return {name: domain for name, domain in self.batch if name not in self.states}

    def begin(self, start: Factor, key: Data | None) -> Factor:
        """Draws from the start."""
        return self._drawn([start, averaged(self.n)], self.names, (), self.states, {}, key)

    def advance(self, steps: Any, carry: Factor, terms: Sequence[Factor], key: Data | None) -> Advance:
        """Exact sums, then a draw for each particle, then new particles where few carry the weight."""
        assert isinstance(carry, Samples), "a carry of this layout"
        links = steps.links
        if links.lag > 1:
            raise Intractable(
                f"particles of {listed(self.names)} in a sequence with the lagged states {listed(links.before)}",
                expected="states of lag 1",
                advice="make one state of the lagged ones: an array that each step shifts",
            )
        newest = dict(zip(links.before, links.newest, strict=True))
        along = _along_samples(carry)
        given = [along.weight, *(substitute(term, dict(along.located)) for term in terms)]
        oldest = tuple(name for name in links.oldest if name not in self.names)
        drawn_after = tuple(newest[name] for name in self.names)
        others = tuple(name for name in links.newest if name not in drawn_after)
        return Advance(self._drawn(given, drawn_after, oldest, others, links.moves, key), None)

    def _drawn(
        self,
        given: Sequence[Factor],
        names: tuple[Name, ...],
        oldest: tuple[Name, ...],
        others: tuple[Name, ...],
        moves: Mapping[Name, Name],
        key: Data | None,
    ) -> Factor:
        assert key is not None, "particles are drawn with a key"
        draw_key, key = jax.random.split(key)
        randomness = Randomness(draw_key, self.n, jnp)
        points, rest = propose(given, names, oldest, others, randomness)
        rest = rename(summed([rest], [n for n in oldest if n in rest.inputs]), {**moves, SAMPLES: PARTICLE})
        back = {moves.get(name, name): rename_array(value) for name, value in points.items()}
        cells = self.cells
        data = {
            name: Array._of(filled(back[name], cells), tuple(cells), cells, domain) for name, domain in self.located
        }
        return self._resampled(Samples(data, settled(rest, self.inner)), key)

    def _resampled(self, cloud: Samples, key: Data) -> Factor:
        """Particles in proportion to their weight, all with the same weight then, where few carry most of it."""
        cells = self.cells
        exact = [name for name in cloud.weight.inputs if name not in cells]
        weights = to_kind(summed([cloud.weight], exact), Table)
        assert isinstance(weights, Table), "all but the particles and the batch is summed"
        logs = align(read_log(weights.pair), weights.names, tuple(cells))
        n = logs.shape[0]
        shares = jax.nn.softmax(logs, axis=0)
        few = 1.0 / jnp.sum(shares**2, axis=0) < 0.5 * n
        chosen = jnp.where(few, systematic(key, shares), jnp.arange(n).reshape((n,) + (1,) * (logs.ndim - 1)))
        index = Array._of(chosen, tuple(cells), cells, Bint[n])
        even = jax.nn.logsumexp(logs, axis=0) - jnp.log(n) - jnp.take_along_axis(logs, chosen, axis=0)
        change = Table.from_log(jax.lax.stop_gradient(jnp.where(few, even, 0.0)), dict(cells))
        points = {name: _gathered(value, index) for name, value in cloud.located.items()}
        rest = joined([substitute(cloud.weight, {PARTICLE: index}), change])
        return Samples(points, settled(rest, self.inner))

    def retreat(self, steps: Any, carry: Factor, terms: Sequence[Factor], after: Advance, later: Factor) -> Factor:
        """w(i) Σ_j k(i, j) w′(j) / Σ_i w(i) k(i, j), k being the step at the points before and after it."""
        assert isinstance(carry, Samples) and isinstance(later, Samples), "carries of this layout"
        reals = [name for name, _ in self.inner.reals]
        if reals:
            raise Intractable(
                f"a smoother by particles of {listed(self.names)} with {listed(reals)} summed for each",
                expected="particles of every real state: one set of them cannot be divided by a mixture over another",
                advice=f"represent {listed(reals)} by particles too, or ask for filter(), log_evidence() or sample()",
            )
        fresh = {**steps.links.moves_back, PARTICLE: after_step(PARTICLE)}
        then = rename(later, fresh)
        assert isinstance(then, Samples), "a renamed carry is one"
        oldest = tuple(name for name in steps.links.oldest if name not in self.names)
        newest = tuple(name for name in steps.links.newest if name not in then.located)

        def share(then: Samples) -> Factor:
            """What some of the points after the step add to the weights before it."""
            at = {**carry.located, **then.located}
            here = [carry.weight, *(promoted(substitute(term, at)) for term in terms)]
            ratio = interpret(DIVIDE, then.weight, summed(here, (*oldest, PARTICLE)))
            return settled(summed([*here, ratio], (*newest, after_step(PARTICLE))), self.inner)

        return Samples(carry.located, _in_blocks(share, then))


def propose(
    given: Sequence[Factor],
    names: tuple[Name, ...],
    oldest: tuple[Name, ...],
    others: tuple[Name, ...],
    randomness: Randomness,
) -> tuple[dict[Name, Array], Factor]:
    """Points of the names along SAMPLES, and the factor over the rest that makes their mean Σ over the names.

    They are drawn from the product of those factors that multiply into a table or Gaussians; those that have no closed
    form with these are evaluated at the points.
    """
    terms = [part for factor in given for term in terms_of(factor) for part in _split(promoted(term))]
    terms.sort(key=lambda term: sorted(map(str, term.inputs)))  # the same draws whatever the order of the factors
    evaluated = [term for term in terms if not _is_closed(term, names)]
    whole = joined([term for term in terms if _is_closed(term, names)])
    if all(name in whole.inputs for name in names) and not isinstance(whole, Product):
        whole = summed([whole], [n for n in oldest if n in whole.inputs and not whole.inputs[n].is_finite])
    hidden = [name for name in others if name in whole.inputs]
    source = summed([whole], hidden) if not isinstance(whole, Product) else whole
    source = to_kind(source, Table) if isinstance(source, Sparse) else source
    if not isinstance(source, (Table, Gaussian)) or not all(name in source.inputs for name in names):
        draws = drawn(terms, names, randomness)
        return dict(draws.points), joined(draws.terms)  # type: ignore[arg-type]
    beside = [name for name in (*oldest, *others) if name in whole.inputs]
    stay = tuple(name for name in beside if name in source.inputs and source.inputs[name].is_finite)
    points = interpret(DRAW, randomness, source, (*stay, *names))
    points = {name: jax.lax.stop_gradient(points[name]) for name in names}
    total, there = summed([source], (*stay, *names)), summed([substitute(source, points)], stay)
    # The quotient is a constant: the weight then has the derivative of the draw too, as with a DiCE weight.
    share = jax.lax.stop_gradient(interpret(DIVIDE, total, there))
    rest = [substitute(term, points) for term in (whole, *evaluated)]
    return points, summed([*rest, share], [name for name in oldest if any(name in r.inputs for r in rest)])


def _in_blocks(share: Callable[[Samples], Factor], cloud: Samples) -> Factor:
    """Σ of a share over the points after a step, some at a time: all with all would be n² numbers at once."""
    name = after_step(PARTICLE)
    count = cloud.inputs[name].extent
    if count <= BLOCK:
        return share(cloud)
    places = np.arange(-(-count // BLOCK) * BLOCK).reshape(-1, BLOCK)  # the last points again, of weight 0

    def one(places: Data) -> tuple[Factor, Data]:
        index = Array._of(jnp.minimum(places, count - 1), (name,), {name: Bint[BLOCK]}, Bint[count])
        points = {each: to_array(value({name: index})) for each, value in cloud.located.items()}
        counted = Table(jnp.where(places < count, 1.0, 0.0), {name: Bint[BLOCK]})
        with tallied() as tally:
            own = share(Samples(points, joined([substitute(cloud.weight, {name: index}), counted])))
        replaced = tally.total_replaced()
        return own, jnp.zeros((), int) if replaced is None else replaced

    def add(total: tuple[Factor, Data], places: Data) -> tuple[tuple[Factor, Data], None]:
        own, replaced = one(places)
        return (promoted(total[0] + own), total[1] + replaced), None

    (weight, replaced), _ = lax_loops.scan(add, one(places[0]), places[1:])
    note_replaced(replaced)
    return weight


def _split(term: Factor) -> tuple[Factor, ...]:
    """A Gaussian and its weights in the boxes, where it is the same in all of them."""
    parts = promoted(term.parts) if isinstance(term, Piecewise) else None
    if not isinstance(term, Piecewise) or not isinstance(parts, Gaussian):
        return (term,)
    used = (*parts.quadratic.vector_names, *parts.quadratic.matrix_names)
    if any(name in term.indices for name in used):
        return (term,)
    own = Gaussian._of(Table(np.ones(())), parts.quadratic, parts.reals, parts.inputs)
    return own, term.with_parts(parts.scale)


def _is_closed(term: Factor, names: Sequence[Name]) -> bool:
    """Whether a factor multiplies into those that points of the names are drawn from."""
    if isinstance(term, Piecewise):
        return not any(name in dict(term.reals) for name in names)
    return isinstance(term, (Table, Gaussian)) or not any(name in term.inputs for name in names)


def _with_table(carry: Samples) -> Samples:
    """The same, its cells that are not zero among all: sums over particles that stay open have them so."""
    return Samples(carry.located, to_kind(carry.weight, Table))


def _along_samples(carry: Samples) -> Samples:
    renamed = rename(carry, {PARTICLE: SAMPLES})
    assert isinstance(renamed, Samples), "a renamed carry is one"
    return renamed


def rename_array(value: Array) -> Array:
    """An array along particles in place of samples."""
    names = tuple(PARTICLE if name == SAMPLES else name for name in value.names)
    inputs = {PARTICLE if name == SAMPLES else name: domain for name, domain in value.inputs.items()}
    return Array._of(value.array, names, inputs, value.output)


def _gathered(value: Array, index: Array) -> Array:
    places = index.array.reshape(index.array.shape + (1,) * len(value.output.shape))
    return Array._of(jnp.take_along_axis(value.array, places, axis=0), value.names, value.inputs, value.output)
