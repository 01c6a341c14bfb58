"""Log-densities of factors in index notation: named axes are indices, variables are leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.algebra.binding import remade
from fubini.algebra.build import ONE, const, index, less, negate, plus, times, where
from fubini.algebra.node import Index, Leaf, Node
from fubini.algebra.ranges import bounds
from fubini.algebra.sums import total
from fubini.algebra.walk import rewrite
from fubini.base import ops
from fubini.base.arrays import Data, double_precision, is_traced
from fubini.base.distant import distant, is_distant
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.base.ops import Lifted, Op
from fubini.bridge.bounds import FamilyBounds
from fubini.bridge.expression import Expression
from fubini.distributions.blueprint import Blueprint, LogProbability, signature_of
from fubini.distributions.density import Density, Distribution
from fubini.errors import NoRule
from fubini.factors.delta import Delta
from fubini.factors.mixture import Mixture
from fubini.families.functions import MINUS_INFINITY
from fubini.read import all_rules as all_rules
from fubini.read.jaxpr_reader import Reader
from fubini.read.log_density import log_density
from fubini.read.symbolic_array import SymbolicArray, of_leaf, whole_leaf
from fubini.terms.factor import Factor, Unit, Weight, terms_of
from fubini.terms.indexing import Fold, Stack
from fubini.terms.term import Term
from fubini.terms.value import Apply, Array, Getitem, Substitution, Value, Variable

Axes = Mapping[Name, Node]


class Unreadable(NoRule):
    """A Value or a factor that has no form in index notation."""

    def __init__(self, what: object) -> None:
        super().__init__(f"{what} in index notation", expected="densities, tables, Gaussians and functions of them")


def leaf_of(name: Name, domain: Domain, bounds: FamilyBounds | None = None) -> Leaf:
    """The leaf that stands for a variable, within its domain, or within bounds that are known to hold."""
    low = 0.0 if domain.kind in ("positive", "unit", "simplex", "nat", "bint") else None
    high = 1.0 if domain.kind in ("unit", "simplex") else domain.extent - 1.0 if domain.kind == "bint" else None
    if bounds is not None:
        low = bounds.low if low is None else max(low, bounds.low)
        high = bounds.high if bounds.high is not None else high
    return Leaf(
        str(name),
        domain.shape,
        low=low,
        high=high,
        is_integer=domain.is_discrete,
        is_simplex=domain.kind == "simplex",
        is_positive_definite=domain.kind == "positive_definite",
        role="site",
    )


class Facts(tuple):
    """The facts of an array that a plan depends on: its shape, whether it is whole, its sign; or the one number.

    Also its role: derivatives may be asked for in numbers that are traced.
    """

    __slots__ = ()

    @classmethod
    def of(cls, array: Data) -> Facts:
        """A number itself; of more numbers, and of tracers, what changes seldom."""
        shape, kind = np.shape(array), np.dtype(array.dtype).kind
        if is_traced(array):
            return cls((shape, kind, None, None, "traced"))
        if not shape:
            return cls((shape, kind, array.item(), array.item(), "data"))
        record = distant(array)
        low, high, is_finite = _range(np.asarray(array)) if record is None else record.range
        if not is_finite:
            return cls((shape, kind, None, None, "data"))
        return cls((shape, kind, *((low, high) if kind in "biu" else _coarse(low, high)), "data"))

    @classmethod
    def of_entries(cls, array: Data) -> Facts:
        """All of its entries, where they decide a rule; of tracers, what is known."""
        if is_traced(array) or not np.shape(array) or is_distant(array):
            return cls.of(array)
        known = np.asarray(array)
        return cls((known.shape, known.dtype.str, known.tobytes(), None, "known"))

    @property
    def number(self) -> float | None:
        """The number that it is, if it is one and known."""
        return self[2] if not self[0] else None

    @property
    def entries(self) -> Data | None:
        """All of its entries, if the plan depends on them."""
        shape, kind, entries, _, role = self
        return np.frombuffer(entries, kind).reshape(shape) if role == "known" else None

    def leaf(self, name: str) -> Leaf:
        """A leaf of which so much is known."""
        shape, kind, low, high, role = self
        return Leaf(name, shape, low=low, high=high, is_integer=kind in "biu", is_test=kind == "b", role=role)


def _range(known: np.ndarray) -> tuple[float, float, bool]:
    """The least and the greatest number, and whether all are finite and there are some."""
    if not known.size or not np.all(np.isfinite(known)):
        return 0.0, 0.0, False
    return float(known.min()), float(known.max()), True


_TINY = float(np.finfo(np.float64).tiny)


def _coarse(low: float, high: float) -> tuple[float | None, float | None]:
    """FamilyBounds by sign, and by 1."""
    below = 1.0 if low >= 1 else _TINY if low > 0 else 0.0 if low >= 0 else None
    above = -_TINY if high < 0 else 0.0 if high <= 0 else 1.0 if high <= 1 else None
    return below, above


class FactorReader:
    """The terms of a log-density. Kept names of finite domains are indices, other names leaves."""

    def __init__(self, latents: Mapping[Name, Leaf], indices: Mapping[Name, Index], facts: Mapping[int, Facts]) -> None:
        self.reader = Reader(is_checked=True)
        self.latents = latents
        self.axes: dict[Name, Node] = {name: index(of) for name, of in indices.items()}
        self.facts = facts
        self.slots: dict[Leaf, Value] = {}
        self._arrays: dict[int, SymbolicArray] = {}
        self._others: dict[Name, Leaf] = {}

    # -- factors -----------------------------------------------------------------------------------------------------

    def terms(self, factor: Factor) -> list[Node]:
        """One node for each term of a product."""
        return [self.term(term) for term in terms_of(factor) if not isinstance(term, Unit)]

    def term(self, factor: Factor) -> Node:
        """log f."""
        if isinstance(factor, (Delta, Mixture)):
            raise Unreadable(factor)
        if (parts := parts_of_density(factor)) is not None:
            return self._density(*parts, self.axes)
        log = factor.value if isinstance(factor, Weight) else factor.log()
        return self.value(log, self.axes).at()

    def _density(self, blueprint: Blueprint, value: Value, leaves: Sequence[Value], axes: Axes) -> Node:
        """log p(value; leaves), −∞ outside the support."""
        signature = signature_of(blueprint, tuple(leaf.output for leaf in leaves))
        whole = np.broadcast_shapes(value.output.shape, signature.shape)
        point = _spread(self.value(value, axes), whole)
        given = [self.value(leaf, axes) for leaf in leaves]
        batch = len(whole) - signature.event_rank
        log_p = log_density(blueprint, given, point, batch, None, self.reader)
        if log_p is None:
            raise Unreadable(f"{blueprint.family}(…)({value})")
        inside = self._inside(value.output, point, signature.domain)
        return log_p if inside is ONE else where(inside, log_p, MINUS_INFINITY)

    def _inside(self, given: Domain, value: SymbolicArray, domain: Domain) -> Node:
        """Test that a value lies in the support of its family: 1 where its domain or its range proves it."""
        if given.kind == domain.kind and (domain.size is None or given.size == domain.size):
            return ONE
        if domain.kind in ("simplex", "positive_definite"):
            raise Unreadable(f"a density on {domain!r} at a value of domain {given!r}")
        lows = {"positive": 0.0, "unit": 0.0, "nat": 0.0, "bint": 0.0}
        highs = {"unit": 1.0, "bint": domain.extent - 1.0 if domain.kind == "bint" else None}
        over = [Index(size) for size in value.shape]
        entry = value.at(*map(index, over))
        low, high = bounds(entry)
        tests = []
        if (least := lows.get(domain.kind)) is not None and low < least:
            tests.append(negate(less(entry, const(least))))
        if (most := highs.get(domain.kind)) is not None and high > most:
            tests.append(negate(less(const(most), entry)))
        if not tests:
            return ONE
        outside = total(over, plus(ONE, times(const(-1.0), times(*tests))))
        return negate(less(const(0.0), outside))

    # -- values ------------------------------------------------------------------------------------------------------

    def value(self, value: Value, axes: Axes) -> SymbolicArray:
        """A Value as a function of the indices of its event."""
        if isinstance(value, Variable):
            return self._variable(value, axes)
        if isinstance(value, Array):
            return self._array(value, axes)
        if (parts := parts_of_density(value)) is not None:
            log_p = self._density(*parts, axes)
            return SymbolicArray((), lambda: log_p)
        if isinstance(value, Apply):
            return self._apply(value.op, [self.value(arg, axes) for arg in value.args], value)
        if isinstance(value, Getitem):
            return self._getitem(value, axes)
        if isinstance(value, Substitution):
            given = {name: self.value(arg, axes).at() for name, arg in zip(value.names, value.args, strict=True)}
            return self.value(value.value, {**axes, **given})
        if isinstance(value, Fold) and value.op is ops.add:
            i = Index(value.domain.extent)
            body = self.value(value.body, {**axes, value.bound: index(i)})
            return SymbolicArray(value.output.shape, lambda *at: total([i], body.at(*at)))
        if isinstance(value, Stack):
            return self._stack(value, axes)
        if isinstance(value, Expression):
            return self._expression(value, axes)
        raise Unreadable(value)

    def _variable(self, value: Variable, axes: Axes) -> SymbolicArray:
        node = axes.get(value.name)
        if node is not None:
            return SymbolicArray((), lambda: node)
        leaf = self.latents.get(value.name)
        if leaf is None:
            leaf = self._others.setdefault(value.name, leaf_of(value.name, value.output))
            self.slots.setdefault(leaf, value)
        return of_leaf(leaf)

    def _array(self, value: Array, axes: Axes) -> SymbolicArray:
        """Read one number as a constant, and an array as its entries at the indices of its names."""
        whole = self._arrays.get(id(value.array))
        if whole is None:
            facts = self.facts[id(value.array)]
            if facts.number is not None:
                known = np.asarray(facts.number, float)
                whole = SymbolicArray((), lambda: const(float(known)), known)
            elif (entries := facts.entries) is not None:
                whole = self.reader.constant(entries, f"known{len(self.reader.known)}")
            else:
                leaf = facts.leaf(f"data{len(self.slots)}")
                self.slots[leaf] = value
                whole = of_leaf(leaf)
            self._arrays[id(value.array)] = whole
        places = [self._place(name, value.inputs[name], axes) for name in value.names]
        if not places:
            return whole
        return SymbolicArray(value.output.shape, lambda *at: whole.at(*places, *at))

    def _getitem(self, value: Getitem, axes: Axes) -> SymbolicArray:
        """Entries at indices that are numbers, or at one that is an array of them."""
        of = self.value(value.value, axes)
        places = [self.value(place, axes) for place in value.indices]
        rank = places[0].rank
        if rank and len(places) > 1:
            raise Unreadable(value)
        return SymbolicArray(
            value.output.shape, lambda *at: of.at(*(place.at(*at[:rank]) for place in places), *at[rank:])
        )

    def _place(self, name: Name, domain: Domain, axes: Axes) -> Node:
        """The index of a named axis: one that is kept, or a latent of finite values."""
        return axes[name] if name in axes else self._variable(Variable(name, domain), axes).at()

    def _apply(self, op: Op, args: list[SymbolicArray], value: Apply) -> SymbolicArray:
        shapes = tuple((arg.shape, child.output.is_discrete) for arg, child in zip(args, value.args, strict=True))
        jaxpr, consts = _traced(op, shapes)
        (result,) = self.reader.read(jaxpr, consts, args)
        return result

    def _stack(self, value: Stack, axes: Axes) -> SymbolicArray:
        return SymbolicArray(
            value.output.shape, lambda first, *rest: self.value(value.body, {**axes, value.bound: first}).at(*rest)
        )

    def _expression(self, value: Expression, axes: Axes) -> SymbolicArray:
        """Return the node with the arrays of the arguments in place of its leaves."""
        given = {slot: self.value(arg, axes) for slot, arg in zip(value.slots, value.args, strict=True)}
        given.update((leaf, self._hidden(leaf, value.reader, given)) for leaf in value.node.leaves if leaf not in given)
        own = {index(i): self._place(n, value.inputs[n], axes) for i, n in zip(value.axes, value.names, strict=True)}

        def at(*where_: Node) -> Node:
            named = {**own, **dict(zip(map(index, value.event), where_, strict=True))}
            return _rewritten(value.node, given, named)

        return SymbolicArray(value.output.shape, at)

    def _hidden(self, leaf: Leaf, reader: Reader, given: Mapping[Leaf, SymbolicArray]) -> SymbolicArray:
        """The array of a leaf that an expression reads and that is no argument: numbers, or what a function makes."""
        if leaf in reader.known:
            self.reader.known[leaf] = reader.known[leaf]
            return of_leaf(leaf)
        made = reader.opaque[leaf]

        def rewritten(part: SymbolicArray) -> SymbolicArray:
            inside = dict(given)
            hidden = [other for other in reader.leaves_of(part) if other not in inside]
            inside.update((other, self._hidden(other, reader, given)) for other in hidden)
            return SymbolicArray(part.shape, lambda *at: _rewritten(part.at(*at), inside, {}))

        operands = tuple(map(rewritten, made.operands))
        matrix = whole_leaf(operands[0]) if leaf.root_of is not None else None
        if leaf.root_of is not None and matrix is not None:
            return self.reader.root(matrix, leaf.root_of[1], made.function)
        if (response := leaf.response) is not None:
            transition = rewritten(SymbolicArray((), lambda: response.transition)).at()
            moved = response._replace(transition=transition)
            return self.reader.response(leaf.name, leaf.shape, made.function, operands, moved)
        return self.reader.opaque_array(leaf.name, leaf.shape, made.function, operands)


def _rewritten(node: Node, leaves: Mapping[Leaf, SymbolicArray], named: Mapping[Node, Node]) -> Node:
    """A node with arrays in place of its leaves, and nodes in place of its free indices."""

    def change(this: Node, visit: Callable[[Node], Node]) -> Node:
        own = this.kind == "get" and this.args[0] in leaves
        return leaves[this.args[0]].at(*map(visit, this.children)) if own else remade(this, visit)

    return rewrite(node, change, dict(named))


class DensityParts(NamedTuple):
    """The distribution of a density without its parameters, its value and its parameters."""

    blueprint: Blueprint
    value: Value
    parameters: Sequence[Value]


def parts_of_density(term: Term) -> DensityParts | None:
    """The parts of a density, or of its logarithm."""
    if isinstance(term, Density):
        source: Distribution = term.distribution
        return DensityParts(source.blueprint, term.value, source.leaf_values)
    if isinstance(term, Apply) and isinstance(log_probability := _function(term.op), LogProbability):
        return DensityParts(log_probability.blueprint, term.args[0], term.args[1:])
    return None


def _function(op: Op) -> Any:
    """Return the function that is lifted in an op."""
    return op.function.function if isinstance(op.function, Lifted) else None


def _spread(value: SymbolicArray, shape: tuple[int, ...]) -> SymbolicArray:
    if value.shape == shape:
        return value
    return SymbolicArray(shape, lambda *at: value.at(*at[len(at) - value.rank :]))


def _traced(op: Op, shapes: tuple) -> tuple[Any, Any]:
    """The program of an op on arrays of these shapes; what a lifted function captures may change."""
    return _program(op, shapes) if isinstance(op.function, Lifted) else _known_program(op, shapes)


def _program(op: Op, shapes: tuple) -> tuple[Any, Any]:
    with double_precision():
        given = [jax.ShapeDtypeStruct(shape, np.int64 if whole else np.float64) for shape, whole in shapes]
        made = jax.make_jaxpr(lambda *arrays: jnp.asarray(op.function(jnp, *arrays)))(*given)
    return made.jaxpr, made.consts


_known_program = lru_cache(maxsize=4096)(_program)
