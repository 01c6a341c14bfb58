"""Values that bind an index: reductions, stacking, concatenation, scattering.

Each holds its bound names as fresh objects, so that a substitution can neither reach nor capture them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fubini.base import ops
from fubini.base.arrays import namespace
from fubini.base.domains import Bint, Domain, merge_inputs
from fubini.base.interpretations import current
from fubini.base.names import Bound, Name
from fubini.base.ops import Op
from fubini.errors import DomainError, NameClash
from fubini.numerics.named_axes import align
from fubini.numerics.named_axes import scatter as scatter_data
from fubini.show.notation import Big, Call, Notation, Symbol
from fubini.terms.fields import static_field, term_field
from fubini.terms.value import Array, Value, Variable, substitute_owner, to_array, to_value

_SYMBOLS = {ops.add: "Σ", ops.multiply: "Π", ops.maximum: "max", ops.minimum: "min"}


def bind(body: Value, index: Name | Variable) -> tuple[Value, Bound, Domain]:
    """The body over a fresh bound name in place of `index`; a Variable need not occur in the body."""
    if not isinstance(index, Variable):
        body._require_names((index,), lambda name: f"an index {name!r} over {body}")
    name = index.name if isinstance(index, Variable) else index
    inputs = merge_inputs(body.inputs, index.inputs) if isinstance(index, Variable) else body.inputs
    domain = inputs[name]
    if not domain.is_finite:
        raise DomainError(f"an index {name!r} of domain {domain!r}", expected="a bounded integer")
    bound = Bound(name)
    return body.replaced({name: Variable(bound, domain)}), bound, domain


class _Binder(Value):
    """A Value with one body and one bound index."""

    body: Value = term_field()
    bound: Bound = static_field()
    domain: Domain = static_field()

    def _bind(self, body: Value, bound: Bound, domain: Domain, output: Domain, **more: Any) -> None:
        inputs = {name: kind for name, kind in body.inputs.items() if name is not bound}
        self._set(body=body, bound=bound, domain=domain, output=output, inputs=inputs, **more)

    def _spread(self, body: Array) -> Array:
        """The body with the bound axis first, repeated where it does not depend on it."""
        names = (self.bound, *(name for name in body.names if name is not self.bound))
        data = align(body.array, body.names, names, len(body.output.shape))
        xp = namespace(data)
        spread = xp.broadcast_to(data, (self.domain.size, *data.shape[1:]))
        return Array._of(spread, names, {**body.inputs, self.bound: self.domain}, body.output)


class Fold(_Binder):
    """op over an index: Σ_i body, Π_i body, max_i body …"""

    op: Op = static_field()

    def __init__(self, op: Op, body: Value, bound: Bound, domain: Domain) -> None:
        ops.reduction(op)
        output = body.output if op in (ops.maximum, ops.minimum) else op.infer(body.output, body.output)
        if op in (ops.add, ops.multiply) and output.size is not None:
            output = ops.Integer.with_shape(output.shape)  # the bound of two is not the bound of many
        self._bind(body, bound, domain, output, op=op)

    @property
    def linear_children(self) -> tuple[int, ...]:
        return (0,) if self.op is ops.add else ()

    def _remade(self, children: tuple) -> Value:
        return _ready(Fold(self.op, children[0], self.bound, self.domain))

    def _ground(self, *children: Array) -> Array:
        spread = self._spread(children[0])
        data = ops.reduction(self.op)(namespace(spread.array), spread.array, 0)
        return Array._of(data, spread.names[1:], spread.inputs, self.output)

    def notation(self) -> Notation:
        return Big(_SYMBOLS.get(self.op, self.op.name), (str(self.bound),), self.body.notation())


class Stack(_Binder):
    """A named axis as the first axis of the event: stack_i body [k, …] = body(i = k)[…]."""

    def __init__(self, body: Value, bound: Bound, domain: Domain) -> None:
        self._bind(body, bound, domain, body.output.with_shape((domain.size or 0, *body.output.shape)))

    @property
    def linear_children(self) -> tuple[int, ...]:
        return (0,)

    def _remade(self, children: tuple) -> Value:
        return _ready(Stack(children[0], self.bound, self.domain))

    def _ground(self, *children: Array) -> Array:
        spread = self._spread(children[0])
        data = namespace(spread.array).moveaxis(spread.array, 0, len(spread.names) - 1)
        return Array._of(data, spread.names[1:], spread.inputs, self.output)

    def notation(self) -> Notation:
        return Call("stack", (self.body.notation(), Symbol(str(self.bound))))


def _own_names(
    domains: Mapping[Name, Domain], values: Mapping[Name, Value], children: Sequence[Value]
) -> tuple[list[Name], dict[Name, Value]]:
    """New names for the axes a node owns, and what is still to be substituted for them.

    An axis takes its new name at once where nothing else has it; otherwise it steps aside under a fresh one first.
    """
    taken = {name for child in children for name in child.inputs}
    own: list[Name] = []
    outer: dict[Name, Value] = {}
    for name in domains:
        value = values.get(name)
        wanted = name if value is None else value.name if isinstance(value, Variable) else None
        if wanted is None or wanted in taken or wanted in own:
            wanted = Bound(name)
            outer[wanted] = value if value is not None else Variable(name, domains[name])
        own.append(wanted)
    return own, outer


def _ready(node: Value) -> Value:
    """Compute a value where its children are arrays and the interpretation computes."""
    arrays = all(isinstance(child, Array) for child in node.children)
    return to_array(node) if arrays and not current().records else node


def fold(op: Op, value: Any, *indices: Name | Variable) -> Value:
    """op over named indices of a Value; over a Variable the value need not depend on.

    >>> fold(ops.add, Array(np.ones((2, 3)), ("i", "j")), "j").data
    array([3., 3.])
    """
    value = to_value(value)
    for index in indices:
        value = _ready(Fold(op, *bind(value, index)))
    return value


def stack(value: Any, index: Name | Variable) -> Value:
    """The named axis `index` as the first axis of the event.

    >>> stack(Array(np.ones((2, 3)), ("i", "j")), "i").output
    Reals[2]
    """
    return _ready(Stack(*bind(to_value(value), index)))


class Concatenate(Value):
    """parts end to end along an index; each part's own index is bound."""

    parts: tuple[Value, ...] = term_field()
    name: Name = static_field()
    bounds: tuple[Bound, ...] = static_field()
    sizes: tuple[int, ...] = static_field()

    def __init__(self, parts: Sequence[Value], bounds: Sequence[Bound], sizes: Sequence[int], name: Name) -> None:
        outputs = {part.output.shape for part in parts}
        if len(outputs) != 1:
            asked = f"a concatenation along {name!r} of {', '.join(repr(part.output) for part in parts)}"
            raise DomainError(asked, expected="parts of one event shape")
        free = merge_inputs(*({n: d for n, d in part.inputs.items() if n not in bounds} for part in parts))
        if name in free:
            raise NameClash(f"a concatenation along {name!r}", expected="an index each part has once")
        output = parts[0].output
        for part in parts[1:]:
            output = output if output == part.output else ops.maximum.infer(output, part.output)
        fields = {"parts": tuple(parts), "bounds": tuple(bounds), "sizes": tuple(sizes), "name": name}
        self._set(**fields, output=output, inputs={name: Bint[sum(sizes)], **free})

    @property
    def linear_children(self) -> tuple[int, ...]:
        return tuple(range(len(self.parts)))

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        inner = {name: value for name, value in values.items() if name != self.name}
        parts = tuple(part.replaced(inner) for part in self.parts)
        own, outer = _own_names({self.name: self.inputs[self.name]}, values, parts)
        node = _ready(Concatenate(parts, self.bounds, self.sizes, own[0]))
        return substitute_owner(node, outer) if outer else node

    def _remade(self, children: tuple) -> Value:
        return _ready(Concatenate(children, self.bounds, self.sizes, self.name))

    def _ground(self, *parts: Array) -> Array:
        names = tuple(name for name in self.inputs if name != self.name)
        pieces = [_piece(part, bound, names, self) for part, bound in zip(parts, self.bounds, strict=True)]
        data = namespace(*pieces).concatenate(pieces, axis=0)
        return Array._of(data, (self.name, *names), self.inputs, self.output)

    def notation(self) -> Notation:
        return Call("concatenate", tuple(part.notation() for part in self.parts), (("along", Symbol(str(self.name))),))


def _piece(part: Array, bound: Bound, names: tuple[Name, ...], whole: Concatenate) -> Any:
    data = align(part.array, part.names, (bound, *names), len(part.output.shape))
    size = whole.sizes[whole.bounds.index(bound)]
    shape = (size, *(whole.inputs[name].size for name in names), *part.output.shape)
    return namespace(data).broadcast_to(data, shape)


def concatenate(values: Sequence[Any], index: Name) -> Value:
    """Values end to end along the index they share by name.

    >>> concatenate([Array(np.zeros(2), ("t",)), Array(np.ones(3), ("t",))], "t").data
    array([0., 0., 1., 1., 1.])
    """
    bound = [bind(to_value(value), index) for value in values]
    if not bound:
        raise DomainError("a concatenation of nothing", expected="at least one Value")
    parts, bounds, domains = zip(*bound, strict=True)
    return _ready(Concatenate(parts, bounds, [domain.size for domain in domains], index))


class Scatter(Value):
    """out(i) = Σ over cells c with index(c) = i of value(c): the inverse of a substitution; duplicates add."""

    value: Value = term_field()
    indices: tuple[Value, ...] = term_field()
    names: tuple[Name, ...] = static_field()
    consumed: tuple[Bound, ...] = static_field()

    def __init__(
        self, value: Value, names: Sequence[Name], indices: Sequence[Value], consumed: Sequence[Bound]
    ) -> None:
        rest = {name: domain for name, domain in value.inputs.items() if name not in consumed}
        clash = [name for name in names if name in rest]
        if clash:
            raise NameClash(f"scatter onto {clash[0]!r}", expected="a name the value does not have")
        inputs = {**{name: index.output for name, index in zip(names, indices, strict=True)}, **rest}
        fields = {"value": value, "names": tuple(names), "indices": tuple(indices), "consumed": tuple(consumed)}
        output = ops.Integer.with_shape(value.output.shape) if value.output.is_discrete else value.output
        self._set(**fields, inputs=inputs, output=output)

    @property
    def linear_children(self) -> tuple[int, ...]:
        return (0,)

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        inner = {name: value for name, value in values.items() if name not in self.names}
        value, *indices = (child.replaced(inner) for child in self.value_children)
        own, outer = _own_names({name: self.inputs[name] for name in self.names}, values, (value, *indices))
        node = _ready(Scatter(value, own, indices, self.consumed))
        return substitute_owner(node, outer) if outer else node

    def _remade(self, children: tuple) -> Value:
        return _ready(Scatter(children[0], self.names, children[1:], self.consumed))

    def _ground(self, *children: Array) -> Array:
        value, *indices = children
        by_name = {name: (at.array, at.names) for name, at in zip(self.names, indices, strict=True)}
        sizes = {name: self.inputs[name] for name in self.names}
        data, names = scatter_data(value.array, value.names, by_name, sizes)
        return Array._of(data, names, self.inputs, self.output)

    def notation(self) -> Notation:
        keywords = tuple((str(name), at.notation()) for name, at in zip(self.names, self.indices, strict=True))
        return Call("scatter", (self.value.notation(),), keywords)


def scatter(value: Any, /, **indices: Value) -> Value:
    """out(i, …) = Σ_{c: index(c) = i} value(c, …), summed over the names that the indices depend on.

    >>> at = Array(np.array([0, 2, 2]), ("c",), Bint[4])
    >>> scatter(Array(np.array([1.0, 2.0, 3.0]), ("c",)), i=at).data
    array([1., 0., 5., 0.])
    """
    value, targets = to_value(value), {name: to_value(index) for name, index in indices.items()}
    for name, index in targets.items():
        if not index.output.is_finite:
            raise DomainError(
                f"scatter along {name}={index}, of domain {index.output!r}",
                expected="an index of domain Bint[n]: n is the extent of the result",
                advice=f"give the index its domain: fb.Array(data, {listed_names(index)}, fb.Bint[n])",
            )
    consumed = tuple(dict.fromkeys(name for index in targets.values() for name in index.inputs))
    bounds = {name: Bound(name) for name in consumed}
    domains = merge_inputs(*(index.inputs for index in targets.values()))
    fresh = {name: Variable(bounds[name], domains[name]) for name in consumed}
    inside = [index.replaced(fresh) for index in targets.values()]
    return _grounded_scatter(Scatter(value.replaced(fresh), tuple(targets), inside, tuple(bounds.values())))


def _grounded_scatter(node: Scatter) -> Value:
    enumerable = all(domain.is_finite for child in node.children for domain in child.inputs.values())
    return to_array(node) if enumerable and not current().records else node


def listed_names(value: Value) -> str:
    """The names of a value as a tuple a user can type."""
    return repr(tuple(value.inputs))
