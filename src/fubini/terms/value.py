"""Values: array expressions in index notation.

A Value is a function of its free names. `Variable` is one of them, `Array` is data with named leading axes, `Apply` an
operation on other Values. Under `exact`, operations on arrays compute; under `lazy` they are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, as_integers, cached_for_precision, is_traced, namespace, owned, require
from fubini.base.distant import own_entries
from fubini.base.domains import Bint, Domain, Integer, Real, merge_inputs
from fubini.base.interpretations import current
from fubini.base.names import Bound, Name, as_names
from fubini.base.ops import Op
from fubini.errors import DataError, DomainError, FubiniError, NameClash, UnknownName, listed
from fubini.numerics.named_axes import align, gather, require_in_range
from fubini.show.notation import Call, Infix, Notation, Subscript, Symbol
from fubini.terms.exactness import Exactness, combined, exactly
from fubini.terms.fields import array_field, static_field, term_field
from fubini.terms.name_axis import require_added_axis
from fubini.terms.numbers import shown_array
from fubini.terms.operators import Operators
from fubini.terms.term import Term, typed_names


class Value(Operators, Term):
    """An array-valued function of named variables, with a domain `output`.

    >>> x = fb.Variable("x", fb.Real)
    >>> 2.0 * x + 1.0, (2.0 * x + 1.0)(x=3.0).data
    (2 * x + 1, array(7.))
    """

    output: Domain = static_field()

    # -- what every kind of Value supplies --------------------------------------------------------------------------

    def _ground(self, *children: Array) -> Array:
        """The value as an Array, given its children as Arrays."""
        raise FubiniError(f"the numbers of {self}", expected="a Value that supplies _ground")

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        """The value with names replaced; the default goes through to the children."""
        return self._remade(tuple(child.replaced(values) for child in self.value_children))

    def _remade(self, children: tuple) -> Value:
        """A value of the same kind over other children, simplified where the interpretation computes."""
        raise FubiniError(f"{self} over other arguments", expected="a Value that supplies _remade")

    def notation(self) -> Notation:
        """The notation of the Value."""
        return Call(type(self).__name__, tuple(child.notation() for child in self.value_children))

    @property
    def value_children(self) -> tuple[Value, ...]:
        """The sub-terms that are Values."""
        return tuple(child for child in self.children if isinstance(child, Value))

    @property
    def linear_children(self) -> tuple[int, ...]:
        """The positions of the children that the value is linear in, the others being held."""
        return ()

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def exactness(self) -> Exactness:
        """The approximations behind the Value: those of its parts together.

        >>> fb.Array(np.ones(2), ("i",)).exactness
        exact
        """
        return combined(self.children)

    @property
    def data(self) -> Data:
        """The numbers of a closed Value.

        >>> (fb.Variable("x", fb.Real) ** 2)(x=3.0).data
        array(9.)
        """
        if self.inputs:
            raise FubiniError(
                f"the data of {self}",
                expected="a closed Value",
                nearest=f"it still depends on {listed(self.inputs)}",
                advice="substitute values for these names, or call `to_array`",
            )
        return to_array(self).array

    def __float__(self) -> float:
        if self.inputs or self.output.shape:
            raise FubiniError(
                f"float of {self}", expected="one closed number", nearest=f"{self.output!r} over {listed(self.inputs)}"
            )
        return float(self.data)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.data, dtype=dtype)

    def __bool__(self) -> bool:
        """Return the truth of a comparison of known numbers."""
        closed = not self.inputs and not self.output.shape and _is_truth(self.output)
        if closed and not is_traced(data := self.data):
            return bool(data)
        raise DomainError(
            f"the truth of {self}",
            expected="a comparison of numbers that are known",
            nearest=f"{self.output!r}, traced" if closed else f"{self.output!r} over {listed(self.inputs)}",
            advice="fb.ops.where(test, a, b) chooses by a test; fb.same(a, b) compares how terms are written",
        )

    def _truths(self, symbol: str, *args: Any) -> tuple[Value, ...]:
        values = tuple(map(to_value, args))
        for value in values:
            if not _is_truth(value.output):
                raise DomainError(
                    f"{symbol} of {', '.join(map(str, values))}",
                    expected="truth values, of domain Bint[2], such as comparisons make",
                    nearest=f"{value}, of domain {value.output!r}",
                    advice="compare first: (x > 0) & (y > 0); the bits of whole numbers go through fb.lift",
                )
        return values

    # -- writing ----------------------------------------------------------------------------------------------------

    def __call__(self, values: Mapping[Name, Any] | None = None, /, **named: Any) -> Value:
        """Substitute simultaneously, without capture: `v(x=2 * y, y="z")`; a string renames."""
        given = {**(values or {}), **named}
        self._require_names(tuple(given), lambda name: f"{name!r} in a call of {self}")
        return self.replaced({name: to_argument(name, value, self.inputs[name]) for name, value in given.items()})

    def replaced(self, values: Mapping[Name, Value]) -> Value:
        """The value with Values of the right domains for some of the names given; others are passed over."""
        present = {name: value for name, value in values.items() if name in self.inputs}
        return _marked_where_outside(self._substituted(present), present, self.inputs) if present else self

    def _apply_op(self, op: Op, args: Sequence[Any]) -> Value:
        return apply(op, *args)

    def __len__(self) -> int:
        if not self.output.shape:
            raise DomainError(f"the length of {self}", expected="an array", nearest=f"its domain is {self.output!r}")
        return self.output.shape[0]

    def __iter__(self) -> Iterator[Value]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: Any) -> Value:
        indices = index if isinstance(index, tuple) else (index,)
        return getitem(self, *indices)


class Variable(Value):
    """A free name with its domain.

    >>> Variable("x", Real) * 2 + 1
    x * 2 + 1
    """

    def __init__(self, name: Name, domain: Domain) -> None:
        self._set(name=name, output=domain, inputs={name: domain})

    name: Name = static_field()

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        return values[self.name]

    def _ground(self, *children: Array) -> Array:
        if not self.output.is_finite:
            raise DomainError(
                f"the numbers of {self.name!r}",
                expected="a bounded integer, which can be enumerated",
                nearest=f"its domain is {self.output!r}",
                advice=f"substitute a number: v({self.name}=…)",
            )
        return Array._of(np.arange(self.output.extent), (self.name,), self.inputs, self.output)

    def notation(self) -> Notation:
        return Symbol(str(self.name))


class Array(Value):
    """Data with named leading axes; the remaining axes are the event.

    Integers without a domain are of any size: their range is checked where they are used as an index.

    >>> Array(np.array([2, 0, 0, 1]), ("j",)).inputs
    {'j': Bint[4]}
    """

    names: tuple[Name, ...] = static_field()
    array: Data = array_field()
    mark: Exactness = static_field()

    def __init__(self, data: Data, names: Sequence[Name] = (), domain: Domain | None = None) -> None:
        array, names = owned(own_entries(data)), as_names(names, "axes")
        if len(set(names)) != len(names):
            raise NameClash(f"an Array with axes {listed(names)}", expected="different names")
        if array.ndim < len(names):
            asked = f"an Array of shape {array.shape} with axes {listed(names)}"
            raise DomainError(asked, expected=f"at least {len(names)} axes, one for each name")
        output = _output_domain(array, array.shape[len(names) :], domain)
        (array,) = _require_within(as_integers(array), output)
        inputs = {name: Bint[size] for name, size in zip(names, array.shape, strict=False)}
        self._set(array=array, names=names, inputs=inputs, output=output, mark=exactly)

    @classmethod
    def _of(
        cls, array: Data, names: tuple[Name, ...], inputs: Mapping, output: Domain, mark: Exactness = exactly
    ) -> Array:
        """The array as it is, unchecked; `inputs` may be a larger mapping."""
        new = object.__new__(cls)
        own = {name: inputs[name] for name in names}
        new._set(array=array, names=names, inputs=own, output=output, mark=mark)
        return new

    @property
    def exactness(self) -> Exactness:
        """The approximations behind its numbers."""
        return self.mark

    def _leading_names(self, field: str) -> tuple[Name, ...]:
        return self.names

    @property
    def data(self) -> Data:
        """The numbers, named axes first."""
        return self.array

    def _ground(self, *children: Array) -> Array:
        extra = np.ndim(self.array) - len(self.names) - len(self.output.shape)
        if extra:
            raise DomainError(
                f"an operation on an Array with {extra} axes that have no name",
                expected="a name for each axis: this term was returned from vmap",
                advice='name the axis first: fb.name_axis(term, "i")',
            )
        return self

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        return substitute_owner(self, values)

    def _marked(self, mark: Exactness) -> Array:
        if not mark.marks or mark == self.mark:
            return self
        return Array._of(self.array, self.names, self.inputs, self.output, self.mark | mark)

    def _with_axis(self, name: Name) -> Array:
        require_added_axis(np.ndim(self.array) - len(self.names) - len(self.output.shape), self, name)
        inputs = {name: Bint[self.array.shape[0]], **self.inputs}
        return Array._of(self.array, (name, *self.names), inputs, self.output, self.mark)

    def notation(self) -> Notation:
        if np.ndim(self.array) == 0 and not is_traced(self.array):
            return Symbol(f"{np.asarray(self.array).item():.7g}")
        if not is_traced(self.array):
            numbers = Symbol(shown_array(self.array))
            return Subscript(numbers, tuple(Symbol(str(name)) for name in self.names)) if self.names else numbers
        return Call("Array", typed_names(self.inputs))


def _output_domain(array: Data, shape: tuple[int, ...], domain: Domain | None) -> Domain:
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        raise DomainError(f"data of dtype {array.dtype}", expected="numbers")
    if domain is None:
        kinds = {"b": Bint[2], "i": Integer, "u": Integer}
        return kinds.get(np.dtype(array.dtype).kind, Real).with_shape(shape)
    if domain.shape not in ((), shape):
        raise DomainError(f"data of event shape {shape} as {domain!r}", expected=f"shape {domain.shape}")
    if domain.is_discrete and np.dtype(array.dtype).kind not in "iub":
        raise DomainError(f"data of dtype {array.dtype} as {domain!r}", expected="integers")
    return domain.with_shape(shape)


def _require_within(array: Data, domain: Domain) -> tuple[Data, ...]:
    """Return the data, or raise where they leave a domain that has bounds."""
    bounds = {
        "bint": (0, (domain.size or 1) - 1),
        "nat": (0, np.inf),
        "positive": (0, np.inf),
        "unit": (0, 1),
        "simplex": (0, 1),
    }
    if domain.kind not in bounds or array.dtype == bool:
        return (array,)
    low, high = bounds[domain.kind]

    def error() -> DataError:
        return DataError(f"data outside {domain!r}", expected=f"numbers from {low} to {high}")

    return require((array >= low) & (array <= high), error, array)


class Apply(Value):
    """op(arguments), recorded."""

    op: Op = static_field()
    args: tuple[Value, ...] = term_field()

    def __init__(self, op: Op, args: Sequence[Value]) -> None:
        args = tuple(args)
        output = op.infer(*(arg.output for arg in args))
        self._set(op=op, args=args, output=output, inputs=merge_inputs(*(arg.inputs for arg in args)))

    def _remade(self, children: tuple) -> Value:
        return apply(self.op, *children)

    def _ground(self, *children: Array) -> Array:
        return compute(self.op, children, self.output)

    def notation(self) -> Notation:
        args = tuple(arg.notation() for arg in self.args)
        return Infix(self.op.symbol, args) if self.op.symbol else Call(self.op.name, args)


def _is_truth(domain: Domain) -> bool:
    return domain.kind == "bint" and (domain.size or 0) <= 2


def to_value(value: Any) -> Value:
    """Numbers and arrays become constants; an integer literal k is of domain Bint[k + 1].

    >>> to_value(2).output, to_value(0.5).output
    (Bint[3], Real)
    """
    if isinstance(value, Value):
        return value
    if isinstance(value, Term):
        raise DomainError(f"the factor {value} as a Value", expected="a Value", advice="its logarithm is one: f.log()")
    if isinstance(value, (bool, int)) and value >= 0:
        return Array(int(value), (), Bint[int(value) + 1])
    try:
        return Array(value)
    except (TypeError, ValueError) as error:
        raise DomainError(f"{value!r} as a Value", expected="a number, an array or a Value") from error


def apply(op: Op, *args: Any) -> Value:
    """op on Values: typed at once, computed where all arguments are arrays and the interpretation computes."""
    values = tuple(map(to_value, args))
    node = Apply(op, values)
    computes = not current().records and all(isinstance(value, Array) for value in values)
    return to_array(node) if computes else node


def compute(op: Op, args: Sequence[Array], output: Domain) -> Array:
    """op on arrays whose named axes are matched by name."""
    inputs = merge_inputs(*(arg.inputs for arg in args))
    names = tuple(inputs)
    if op.elementwise:
        event = len(output.shape)
        result = op.compute(*(_broadcastable(arg, names, event) for arg in args))
    else:
        result = _mapped(op, args, names)
    xp = namespace(result)
    shape = tuple(inputs[name].size for name in names) + output.shape
    return Array._of(xp.broadcast_to(as_integers(xp.asarray(result)), shape), names, inputs, output)


def _broadcastable(arg: Array, names: tuple[Name, ...], event: int) -> Data:
    own = len(arg.output.shape)
    data = align(arg.array, arg.names, names, own)
    return data.reshape(data.shape[: len(names)] + (1,) * (event - own) + data.shape[len(names) :])


def _mapped(op: Op, args: Sequence[Array], names: tuple[Name, ...]) -> Data:
    """A lifted function mapped over every name, the last innermost; arguments without a name are not repeated."""
    assert isinstance(op.function, ops.Lifted), "an op that is not elementwise is lifted"
    function = op.function.function
    axes = tuple(tuple(0 if name in arg.names else None for arg in args) for name in reversed(names))
    ordered = [align(arg.array, arg.names, [n for n in names if n in arg.names], len(arg.output.shape)) for arg in args]
    once = getattr(function, "reads_arguments_alone", False) and not is_traced(*ordered)
    lifted = _mapped_once(function, axes) if once else ops.Lifted(_mapped_over(ops.at_call(function), axes))
    return lifted(namespace(*ordered), *ordered)


@cached_for_precision(4096)
def _mapped_once(function: Callable[..., Any], axes: tuple[tuple[int | None, ...], ...]) -> ops.Lifted:
    """A function of its arguments alone, compiled for all of its uses."""
    return ops.Lifted(jax.jit(_mapped_over(function, axes)), compiled=True)


def _mapped_over(function: Callable[..., Any], axes: tuple[tuple[int | None, ...], ...]) -> Callable[..., Any]:
    for in_axes in axes:
        function = jax.vmap(function, in_axes=in_axes)
    return function


def to_array(value: Value) -> Array:
    """The value as an Array, its bounded-integer variables enumerated along axes of their names."""
    memo: dict[int, Array] = {}

    def ground(term: Value) -> Array:
        if id(term) not in memo:
            array = term._ground(*(ground(child) for child in term.value_children))
            memo[id(term)] = array._marked(term.exactness)
        return memo[id(term)]

    return ground(value)


def is_enumerable(value: Value) -> bool:
    """Whether all free names are bounded integers, so that `to_array` succeeds."""
    return all(domain.is_finite for domain in value.inputs.values())


@lru_cache(maxsize=4096)
def _constant(index: int, domain: Domain) -> Array:
    """An index as a Value; conditioning a network makes thousands."""
    return Array._of(np.asarray(index), (), {}, domain)


def to_argument(name: Name, given: Any, domain: Domain) -> Value:
    """Convert what a name is replaced by: a name (rename), a number, an array, a slice or a Value of its domain."""
    if type(given) is int and domain.is_finite and 0 <= given < domain.extent:
        return _constant(given, domain)
    if isinstance(given, str):
        if domain.labels is not None and given in domain.labels:
            raise NameClash(
                f"{name}={given!r}, where {given!r} is a label of {name!r}",
                expected="a new name or an integer: a string renames",
                advice=f"write {name}={domain.index(given)} for the label",
            )
        return Variable(given, domain)
    if isinstance(given, slice):
        if not domain.is_finite:
            raise DomainError(f"a slice along {name!r}: {domain!r}", expected="a bounded integer")
        return Array(np.arange(domain.extent)[given], (name,), Bint[domain.extent])
    if given is None or isinstance(given, (dict, set)):
        raise DomainError(f"{name}={given!r}", expected=f"a number, an array or a Value of domain {domain!r}")
    value = to_value(given)
    _require_fit(name, value, domain)
    return _within(name, value, domain)


def _marked_where_outside(result: Value, values: Mapping[Name, Value], domains: Mapping[Name, Domain]) -> Value:
    """The result of a substitution, NaN (−1 for integers) where a traced index was outside its domain."""
    for name, value in values.items():
        if domains[name].size is not None and isinstance(value, Array) and is_traced(value.array):
            inside = Array._of(value.array >= 0, value.names, value.inputs, Bint[2].with_shape(value.output.shape))
            result = apply(ops.where, inside, result, -1 if result.output.is_discrete else np.nan)
    return result


def _within(name: Name, value: Value, domain: Domain) -> Value:
    """The value, with numbers outside the domain refused, or marked when traced."""
    if isinstance(value, Variable) or (domain.size is not None and (value.output.size or np.inf) <= domain.size):
        return value
    if domain.size is not None and is_enumerable(value) and not current().records:
        value = to_array(value)
    if not isinstance(value, Array):
        return value
    bounded = domain.size is not None
    array = require_in_range(name, value.array, domain) if bounded else _require_within(value.array, domain)[0]
    return value if array is value.array else Array._of(array, value.names, value.inputs, value.output, value.mark)


def _require_fit(name: Name, value: Value, domain: Domain) -> None:
    output = value.output
    fits = output.shape == domain.shape and (output.is_discrete or not domain.is_discrete)
    if isinstance(value, Variable) and domain.is_discrete:
        labels_agree = None in (output.labels, domain.labels) or output.labels == domain.labels
        fits = fits and (output.kind, output.size) == (domain.kind, domain.size) and labels_agree
    if not fits:
        hint = f"an index of {domain!r} must be an integer" if domain.is_discrete else ""
        raise DomainError(
            f"{name}={value}, of domain {output!r}", expected=f"a value of domain {domain!r}", advice=hint
        )


class Substitution(Value):
    """value(name = argument, …), recorded: what indexing by something that is not known yet leaves."""

    value: Value = term_field()
    names: tuple[Name, ...] = static_field()
    args: tuple[Value, ...] = term_field()

    def __init__(self, value: Value, values: Mapping[Name, Value]) -> None:
        rest = {name: domain for name, domain in value.inputs.items() if name not in values}
        inputs = merge_inputs(rest, *(arg.inputs for arg in values.values()))
        self._set(value=value, names=tuple(values), args=tuple(values.values()), inputs=inputs, output=value.output)

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        inner = {name: values[name] for name in self.value.inputs if name in values and name not in self.names}
        args = {name: arg.replaced(values) for name, arg in zip(self.names, self.args, strict=True)}
        return self.value._substituted({**inner, **args})

    @property
    def linear_children(self) -> tuple[int, ...]:
        return (0,)

    def _remade(self, children: tuple) -> Value:
        return substitute_owner(children[0], dict(zip(self.names, children[1:], strict=True)))

    def _ground(self, *children: Array) -> Array:
        value, *args = children
        return gathered(value, dict(zip(self.names, args, strict=True)))

    def notation(self) -> Notation:
        keywords = tuple((str(name), arg.notation()) for name, arg in zip(self.names, self.args, strict=True))
        return Call(self.value.notation(), (), keywords)


def substitute_owner(owner: Value, values: Mapping[Name, Value]) -> Value:
    """Substitution into a value that holds the axis itself: renamed, gathered, or recorded."""
    renames = {name: value.name for name, value in values.items() if isinstance(value, Variable)}
    if isinstance(owner, Array) and len(renames) == len(values):
        owner._ground()
        names = tuple(renames.get(name, name) for name in owner.names)
        if len(set(names)) == len(names):
            inputs = {new: owner.inputs[old] for new, old in zip(names, owner.names, strict=True)}
            return Array._of(owner.array, names, inputs, owner.output, owner.mark)
    closed = all(isinstance(value, Array) and not value.names for value in values.values())
    ready = is_enumerable(owner) and all(is_enumerable(value) for value in values.values())
    if ready and (closed or not current().records):
        return gathered(to_array(owner), {name: to_array(value) for name, value in values.items()})
    return Substitution(owner, values)


def gathered(value: Array, args: Mapping[Name, Array]) -> Array:
    """value(name = args, …) on arrays."""
    rest = {name: domain for name, domain in value.inputs.items() if name not in args}
    inputs = merge_inputs(rest, *(arg.inputs for arg in args.values()))
    indices = {name: (arg.array, arg.names) for name, arg in args.items()}
    data, names = gather(value.array, value.inputs, indices)
    return Array._of(data, names, inputs, value.output, combined([value, *args.values()]))


def _require_index(axis: int, index: Value, size: int) -> None:
    """Raise unless an index is an integer, within the extent where that is known at once."""
    output = index.output
    if not output.is_discrete or output.shape:
        raise DomainError(
            f"the index {index}, of domain {output!r}",
            expected="an integer",
            advice="an fb.param is given to a model as an argument, and is an array in it" if output.shape else "",
        )
    if isinstance(index, Variable) and (output.size is None or output.size > size):
        raise DomainError(
            f"the index {index}, of domain {output!r}", expected=f"Bint[{size}], the extent of axis {axis}"
        )
    if isinstance(index, Array) and not is_traced(index.array):
        require_in_range(Bound(f"axis {axis}"), index.array, Bint[size])


class Getitem(Value):
    """value[index, …]: leading event axes indexed by integers that may be Values."""

    def __init__(self, value: Value, indices: Sequence[Value]) -> None:
        shape = value.output.shape
        if len(indices) > len(shape):
            raise DomainError(f"{len(indices)} indices into {value.output!r}", expected=f"at most {len(shape)}")
        for axis, index in enumerate(indices):
            _require_index(axis, index, shape[axis])
        inputs = merge_inputs(value.inputs, *(index.inputs for index in indices))
        output = value.output.with_shape(shape[len(indices) :])
        self._set(value=value, indices=tuple(indices), inputs=inputs, output=output)

    value: Value = term_field()
    indices: tuple[Value, ...] = term_field()

    @property
    def linear_children(self) -> tuple[int, ...]:
        return (0,)

    def _remade(self, children: tuple) -> Value:
        return getitem(*children)

    def _ground(self, *children: Array) -> Array:
        value, *indices = children
        axes = tuple(Bound(f"axis {position}") for position in range(len(indices)))
        domains = {axis: Bint[size] for axis, size in zip(axes, value.output.shape, strict=False)}
        named = Array._of(value.array, value.names + axes, {**value.inputs, **domains}, self.output, value.mark)
        return gathered(named, dict(zip(axes, indices, strict=True)))

    def notation(self) -> Notation:
        return Subscript(self.value.notation(), tuple(index.notation() for index in self.indices))


def getitem(value: Value, *indices: Any) -> Value:
    """value[index, …], computed where everything is an array."""
    if any(index is None or isinstance(index, (str, slice)) for index in indices):
        raise UnknownName(
            f"the index {indices!r} into {value}",
            expected="integers or Values",
            advice="name a variable with fb.Variable(name, domain); slice named axes by calling: v(i=slice(1, 5))",
        )
    values = tuple(map(to_value, indices))
    node = Getitem(value, values)
    computes = not current().records and all(isinstance(term, Array) for term in (value, *values))
    return to_array(node) if computes else node
