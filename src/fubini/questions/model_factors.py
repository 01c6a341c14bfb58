"""A model as factors over its free sites: a density for each site, with parameters in index notation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fubini.algebra.build import index
from fubini.algebra.node import Index, Leaf, Node
from fubini.base.arrays import Data, is_jax, is_traced
from fubini.base.domains import Domain, Real
from fubini.base.names import Name
from fubini.bridge.expression import Expression
from fubini.distributions.density import Density, Distribution
from fubini.factors.table import Table
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import exact_factors
from fubini.models.reading import Reading, SitePart
from fubini.read.jaxpr_reader import Reader
from fubini.read.symbolic_array import SymbolicArray
from fubini.terms.factor import Factor, Unit, Weight
from fubini.terms.value import Array, Value, Variable


@exact_factors.rule
def factors(model: FlatModel) -> list[Factor]:
    """p(observed, θ)  =  Π f"""
    return (model.written or model_factors(model))[0]


def model_factors(model: FlatModel) -> tuple[list[Factor], list[Variable]]:
    """The log-density of a model as factors, one for each site and weight, and its free sites as variables."""
    reading = model.reading
    variables = [Variable(name, domain) for name, domain in reading.domains.items()]
    sites = {reading.sites[str(variable.name)]: variable for variable in variables}
    writer = _ValueWriter(reading, sites, model.numbers)
    factors = [writer.factor(name, term) for name, term in reading.terms.items()]
    present = {name for factor in factors for name in factor.inputs}
    flat: dict[Name, Domain] = {v.name: v.output for v in variables if v.name not in present}
    return [*factors, *([Unit(flat)] if flat else [])], variables


class _ValueWriter:
    """Nodes of a reading as Values: leaves of sites are variables, those of data arrays, of NumPy or of JAX."""

    def __init__(self, reading: Reading, sites: Mapping[Leaf, Variable], numbers: Callable[[Any], Data]) -> None:
        self.reading, self.sites, self.numbers = reading, sites, numbers

    def factor(self, name: str, term: Node) -> Factor:
        """The density of a site, or what weighs, as a factor."""
        part = self.reading.parts.get(name)
        if part is not None:
            return self._density(part)
        if not self._slots(term):
            return Table.from_log(self._value(term, (), Real).data, ())  # type: ignore[attr-defined]
        return Weight(self._value(term, (), Real))

    def _density(self, part: SitePart) -> Density:
        leaves = iter(
            [self._array(leaf, value.output) for leaf, value in zip(part.leaves, part.source.leaf_values, strict=True)]
        )
        variable = self.sites.get(part.site) if part.site is not None else None
        value = self._array(part.value, _domain_of(part)) if variable is None else variable
        return Density(_rebuilt(part.source, leaves), value)

    def _array(self, array: SymbolicArray, domain: Domain) -> Value:
        """A symbolic array as a Value."""
        if array.constant is not None and not is_traced(array.constant):
            return Array(self.numbers(array.constant), (), domain.with_shape(array.shape))
        event = tuple(Index(size) for size in array.shape)
        return self._value(array.at(*map(index, event)), event, domain.with_shape(()))

    def _value(self, node: Node, event: Sequence[Index], domain: Domain) -> Value:
        slots = self._slots(node)
        made = Expression(node, slots, self.reading.reader, {}, event, domain)
        if slots:
            return made
        known = made._ground()
        return known if is_jax(known.data) else Array(self.numbers(known.data), (), known.output)

    def _slots(self, node: Node) -> dict[Leaf, Value]:
        """The sites that a node depends on, through functions that were not read too."""
        reached = set(_reached(node.leaves, self.reading.reader))
        return {leaf: variable for leaf, variable in self.sites.items() if leaf in reached}


def _domain_of(part: SitePart) -> Domain:
    """Of a value: that of its distribution where it is known to be one; of what may be negative, all real numbers."""
    domain = part.source.domain
    is_known = part.value.constant is not None and not is_traced(part.value.constant)
    return domain if is_known or domain.kind not in ("positive", "unit") else Real.with_shape(domain.shape)


def _reached(leaves: frozenset[Leaf], reader: Reader) -> Iterator[Leaf]:
    for leaf in leaves:
        yield leaf
        made = reader.opaque.get(leaf)
        if made is not None:
            for operand in made.operands:
                yield from _reached(reader.leaves_of(operand), reader)


def _rebuilt(source: Distribution, leaves: Iterator[Value]) -> Distribution:
    """The same distribution over other parameters."""
    args: dict[str, Any] = {
        key: _rebuilt(arg, leaves) if isinstance(arg, Distribution) else next(leaves)
        for key, arg in zip(source.keys, source.args, strict=True)
    }
    return Distribution(source.family, {**args, **dict(source.statics)})
