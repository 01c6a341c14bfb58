"""Recorded operations on factors: what `lazy` makes of every head, and how they are evaluated later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fubini.base.domains import Real, merge_inputs
from fubini.base.interpretations import interpret, lazy
from fubini.base.names import Bound, Name
from fubini.base.rules import RuleSet
from fubini.base.semirings import Semiring
from fubini.errors import NoRule
from fubini.show.notation import Big, Call, Infix, Notation
from fubini.terms.factor import Factor, Weight, rename, substitute
from fubini.terms.fields import static_field, term_field
from fubini.terms.heads import ADD, DIVIDE, MULTIPLY_OUT, NORMALIZE, POWER, SUBSTITUTE, SUM, Head
from fubini.terms.term import Term
from fubini.terms.value import Value, Variable


class _Node(Factor):
    """A recorded operation."""

    def _log(self) -> Value:
        return LogOf(self)


class Substituted(_Node):
    """factor(name = value, …), recorded."""

    factor: Factor = term_field()
    names: tuple[Name, ...] = static_field()
    args: tuple[Value, ...] = term_field()

    def __init__(self, factor: Factor, values: Mapping[Name, Value]) -> None:
        rest = {name: domain for name, domain in factor.inputs.items() if name not in values}
        inputs = merge_inputs(rest, *(value.inputs for value in values.values()))
        self._set(factor=factor, names=tuple(values), args=tuple(values.values()), inputs=inputs)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        variables = {old: Variable(new, self.inputs[old]) for old, new in names.items()}
        replaced = {name: Bound(name) for name in self.names}  # out of the way of the new names
        inner = rename(self.factor, {**names, **replaced})
        pairs = zip(self.names, self.args, strict=True)
        return Substituted(inner, {replaced[name]: arg.replaced(variables) for name, arg in pairs})

    def _evaluated(self, children: tuple) -> Factor:
        return substitute(children[0], dict(zip(self.names, children[1:], strict=True)))

    def notation(self) -> Notation:
        keywords = tuple((str(name), arg.notation()) for name, arg in zip(self.names, self.args, strict=True))
        return Call(self.factor.notation(), (), keywords)


class Quotient(_Node):
    """f / g, recorded."""

    over: Factor = term_field()
    under: Factor = term_field()

    def __init__(self, over: Factor, under: Factor) -> None:
        self._set(over=over, under=under, inputs=merge_inputs(over.inputs, under.inputs))

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Quotient(rename(self.over, names), rename(self.under, names))

    def _evaluated(self, children: tuple) -> Factor:
        return children[0] / children[1]

    def notation(self) -> Notation:
        return Infix("/", (self.over.notation(), self.under.notation()))


class Normalize(_Node):
    """f / Z where Z = Σ f over some names, recorded. A zero Z is an error: there is nothing to normalise."""

    over: Factor = term_field()
    total: Factor = term_field()

    def __init__(self, over: Factor, total: Factor) -> None:
        self._set(over=over, total=total, inputs=merge_inputs(over.inputs, total.inputs))

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Normalize(rename(self.over, names), rename(self.total, names))

    def _evaluated(self, children: tuple) -> Factor:
        return interpret(NORMALIZE, *children)

    def notation(self) -> Notation:
        return Infix("/", (self.over.notation(), self.total.notation()))


class Addition(_Node):
    """f + g, recorded."""

    first: Factor = term_field()
    second: Factor = term_field()

    def __init__(self, first: Factor, second: Factor) -> None:
        self._set(first=first, second=second, inputs=merge_inputs(first.inputs, second.inputs))

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Addition(rename(self.first, names), rename(self.second, names))

    def _evaluated(self, children: tuple) -> Factor:
        return children[0] + children[1]

    def notation(self) -> Notation:
        return Infix("+", (self.first.notation(), self.second.notation()))


class Power(_Node):
    """f^a, recorded."""

    base: Factor = term_field()
    exponent: Value = term_field()

    def __init__(self, base: Factor, exponent: Value) -> None:
        self._set(base=base, exponent=exponent, inputs=merge_inputs(base.inputs, exponent.inputs))

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        variables = {old: Variable(new, self.inputs[old]) for old, new in names.items()}
        return Power(rename(self.base, names), self.exponent.replaced(variables))

    def _evaluated(self, children: tuple) -> Factor:
        return children[0] ** children[1]

    def notation(self) -> Notation:
        return Infix("**", (self.base.notation(), self.exponent.notation()))


class _Binding(_Node):
    """A recorded operation that binds names of its body."""

    body: Factor = term_field()
    bounds: tuple[Bound, ...] = static_field()

    def _bind(self, body: Factor, names: Sequence[Name], **fields: Any) -> None:
        """Names that are bound already are kept: they come from a term being rebuilt."""
        bounds = tuple(name if isinstance(name, Bound) else Bound(name) for name in names)
        fresh = {name: bound for name, bound in zip(names, bounds, strict=True) if name is not bound}
        inputs = {name: domain for name, domain in body.inputs.items() if name not in names}
        self._set(body=rename(body, fresh), bounds=bounds, inputs=inputs, **fields)


def symbol_of(semiring: Semiring) -> str:
    """The symbol of a sum in a semiring."""
    symbols = {"sum_product": "Σ", "max_product": "max", "min_sum": "min"}
    return symbols.get(semiring.name, f"⊕[{semiring}]")


class Sum(_Binding):
    """⊕_x f, recorded."""

    semiring: Semiring = static_field()

    def __init__(self, semiring: Semiring, body: Factor, names: Sequence[Name]) -> None:
        self._bind(body, names, semiring=semiring)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Sum(self.semiring, rename(self.body, names), self.bounds)

    def _evaluated(self, children: tuple) -> Factor:
        return children[0].reduce(self.semiring, *self.bounds)

    def notation(self) -> Notation:
        return Big(symbol_of(self.semiring), tuple(map(str, self.bounds)), self.body.notation())


class PlateProduct(_Binding):
    """Π_i f, recorded."""

    def __init__(self, body: Factor, names: Sequence[Name]) -> None:
        self._bind(body, names)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return PlateProduct(rename(self.body, names), self.bounds)

    def _evaluated(self, children: tuple) -> Factor:
        return interpret(MULTIPLY_OUT, children[0], self.bounds)

    def notation(self) -> Notation:
        return Big("Π", tuple(map(str, self.bounds)), self.body.notation())


class LogOf(Value):
    """log f of a factor that is recorded."""

    factor: Factor = term_field()

    def __init__(self, factor: Factor) -> None:
        self._set(factor=factor, inputs=factor.inputs, output=Real)

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        return substitute(self.factor, values).log()

    def _remade(self, children: tuple) -> Value:
        return children[0].log()

    def _ground(self, *children: Any) -> Any:
        raise NoRule(
            f"the numbers of log({self.factor})",
            expected="a factor that has been computed",
            advice="evaluate it first: fb.evaluate(term)",
        )

    def notation(self) -> Notation:
        return Call("log", (self.factor.notation(),))


def evaluate(term: Any) -> Any:
    """Run a recorded term under the interpretation in force.

    >>> with fb.lazy:
    ...     total = fb.Table([1.0, 2.0], ("a",)).sum("a")
    >>> float(evaluate(total))
    3.0
    """
    if isinstance(term, LogOf):
        return evaluate(term.factor).log()
    if not isinstance(term, Term) or not term.children:
        return term
    children = tuple(evaluate(child) for child in term.children)
    if isinstance(term, Factor):
        return Weight(*children) if isinstance(term, Weight) else term._evaluated(children)
    return term._remade(children)  # type: ignore[attr-defined]


# The rules of `lazy`, one for each head.


def _of_lazy(head: Head) -> RuleSet:
    return lazy.register(RuleSet(f"lazy.{head}", head))


@_of_lazy(SUM).rule
def record_sum(semiring: Semiring, f: Factor, names: tuple) -> Factor:
    """⊕_x f, recorded"""
    return Sum(semiring, f, names)


@_of_lazy(MULTIPLY_OUT).rule
def record_product(f: Factor, names: tuple) -> Factor:
    """Π_i f, recorded"""
    return PlateProduct(f, names)


@_of_lazy(DIVIDE).rule
def record_quotient(f: Factor, g: Factor) -> Factor:
    """f / g, recorded"""
    return Quotient(f, g)


@_of_lazy(NORMALIZE).rule
def record_normalize(f: Factor, total: Factor) -> Factor:
    """f / Z, recorded"""
    return Normalize(f, total)


@_of_lazy(ADD).rule
def record_addition(f: Factor, g: Factor) -> Factor:
    """f + g, recorded"""
    return Addition(f, g)


@_of_lazy(POWER).rule
def record_power(f: Factor, exponent: Value) -> Factor:
    """f^a, recorded"""
    return Power(f, exponent)


@_of_lazy(SUBSTITUTE).rule
def record_substitution(f: Factor, values: Mapping) -> Factor:
    """f(x = v), recorded"""
    return Substituted(f, values)
