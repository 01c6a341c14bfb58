"""Factors: non-negative functions of named variables, and the operations on them.

A method types its arguments and hands the operation to the interpretation in force as a *head* with arguments:
`f.sum("x")` is `interpret(Sum, sum_product, f, ("x",))`. Products are flat and lazy under every interpretation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from fubini.arrays import Data
from fubini.domains import Real, merge_inputs
from fubini.errors import DomainError, FubiniError, NoRule, listed
from fubini.interpretations import exact, interpret
from fubini.rules import RuleSet
from fubini.semirings import Semiring, max_product, sum_product
from fubini.terms import notation
from fubini.terms.exactness import Exactness, exactly
from fubini.terms.notation import Big, Call, Infix, Notation, Symbol
from fubini.terms.term import Bound, Name, Term
from fubini.terms.value import Value, Variable, to_argument, to_value


class Question:
    """A head that is asked for arrays rather than terms: it can be answered, not recorded."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, *args: Any) -> Any:
        raise NoRule(
            f"{self.__name__} of a recorded term",
            expected="an interpretation that computes",
            advice="ask it outside `with fb.lazy:`, or of fb.evaluate(term)",
        )

    def __repr__(self) -> str:
        return self.__name__


Argmax = Question("argmax")
Draw = Question("sample")
Join = Question("join")

# What may stand where a factor is expected, beside factors: numbers.
to_factor_rules = RuleSet("to_factor", head="to_factor")


class Factor(Term):
    """A non-negative function of its `inputs`. A representation is a subclass with rules for the heads below."""

    @property
    def exactness(self) -> Exactness:
        """How the factor relates to the mathematics; that of its parts together."""
        return combined([child for child in self.children if isinstance(child, Factor)])

    # -- what a kind of factor supplies -----------------------------------------------------------------------------

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        """The same function of other names, one to one; the default goes through to the children."""
        raise _missing(self, "_renamed")

    def _evaluated(self, children: tuple) -> Factor:
        """The same operation under the current interpretation, on children already evaluated."""
        return self

    def _log(self) -> Value:
        raise _missing(self, "log")

    def notation(self) -> Notation:
        """How it is written."""
        typed = (Symbol(str(name), repr(domain)) for name, domain in self.inputs.items())
        return Call(type(self).__name__, tuple(typed))

    # -- the five operations, and their kin -------------------------------------------------------------------------

    def __mul__(self, other: Any) -> Factor:
        """Join: (f·g)(x, y, z) = f(x, y) g(y, z). Never built until something asks for it."""
        return product(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Factor:
        """Divide: 0/0 is 0, x/0 an error."""
        other = to_factor(other)
        merge_inputs(self.inputs, other.inputs)
        return interpret(Quotient, self, other)

    def __rtruediv__(self, other: Any) -> Factor:
        return to_factor(other) / self

    def __add__(self, other: Any) -> Factor:
        """Mix: (f + g)(x) = f(x) + g(x)."""
        other = to_factor(other)
        merge_inputs(self.inputs, other.inputs)
        return interpret(Addition, self, other)

    __radd__ = __add__

    def __pow__(self, exponent: Any) -> Factor:
        """f^a, pointwise."""
        return interpret(Power, self, _number(exponent))

    def sum(self, *names: Name | Variable) -> Factor:
        """Sum or integrate names out: Σ_x f. A Variable that is absent multiplies by its size."""
        return self.reduce(sum_product, *names)

    def max(self, *names: Name | Variable) -> Factor:
        """max_x f."""
        return self.reduce(max_product, *names)

    def reduce(self, semiring: Semiring, *names: Name | Variable) -> Factor:
        """⊕_x f in any semiring."""
        body, plain = self._covering(names, "sum")
        return interpret(Sum, semiring, body, plain) if plain else body

    def product(self, *names: Name | Variable) -> Factor:
        """Multiply out a plate: Π_i f. What lacks i is still multiplied |i| times."""
        body, plain = self._covering(names, "product")
        return interpret(PlateProduct, body, plain) if plain else body

    def __call__(self, values: Mapping[Name, Any] | None = None, /, **named: Any) -> Factor:
        """Condition or substitute, simultaneously and without capture: `f(x=2, y="z")`; a string renames."""
        given = {**(values or {}), **named}
        if values is None:
            self._require_names(tuple(given), lambda name: f"{name!r} in a call of {self}")
        wanted = {name: to_argument(name, given[name], self.inputs[name]) for name in given if name in self.inputs}
        return substitute(self, wanted)

    def log(self) -> Value:
        """log f, a Value."""
        return self._log()

    def normalize(self, *names: Name) -> Factor:
        """f / Σ f, over the names given, or all."""
        total = self.sum(*(names or self.inputs))
        return interpret(Normalize, self, total)

    # -- questions --------------------------------------------------------------------------------------------------

    def argmax(self, *names: Name) -> dict[Name, Data]:
        """The assignment of the names with the greatest weight, for each cell of the other inputs."""
        self._require_names(names, lambda name: f"argmax over {name!r} of {self}")
        return interpret(Argmax, self, names or tuple(self.inputs))

    def sample(self, key: Data, *names: Name, n: int | None = None) -> dict[Name, Data]:
        """Draws from the normalised factor; n first, then the other inputs."""
        self._require_names(names, lambda name: f"a sample of {name!r} from {self}")
        return interpret(Draw, key, self, names or tuple(self.inputs), n)

    def entropy(self, *names: Name) -> Value:
        """−Σ p log p of the normalised marginal of the names."""
        return self._marginal(names, "entropy")._entropy()

    def kl(self, other: Factor, *names: Name) -> Value:
        """Σ p log(p/q) of the normalised marginals of the names."""
        return self._marginal(names, "kl")._kl(other._marginal(names, "kl"))

    def mutual_information(self, first: Name, second: Name) -> Value:
        """I(first; second) = H(first) + H(second) − H(first, second)."""
        joint = self._marginal((first, second), "mutual information")
        return joint.sum(second).entropy(first) + joint.sum(first).entropy(second) - joint._entropy()

    def _marginal(self, names: tuple[Name, ...], asked: str) -> Any:
        self._require_names(names, lambda name: f"{asked} of {name!r} under {self}")
        kept = names or tuple(self.inputs)
        marginal = self.sum(*(name for name in self.inputs if name not in kept))
        return interpret(Join, interpret(Normalize, marginal, marginal.sum(*kept)))

    def _entropy(self) -> Value:
        raise _missing(self, "entropy")

    def _kl(self, other: Factor) -> Value:
        raise _missing(self, "kl")

    # -- reading ----------------------------------------------------------------------------------------------------

    def __float__(self) -> float:
        if self.inputs:
            raise FubiniError(
                f"float of {self}",
                expected="a closed factor",
                nearest=f"it still depends on {listed(self.inputs)}",
                advice="sum these names out, or call the factor with values for them",
            )
        logarithm = float(self.log())
        if logarithm > 709.0 or -math.inf < logarithm < -745.0:
            raise FubiniError(
                f"float of a factor equal to exp({logarithm:.6g})",
                expected="a number that a float can hold",
                advice="read its logarithm: float(f.log())",
            )
        return self._linear(logarithm)

    def _linear(self, logarithm: float) -> float:
        """A closed factor as a number, given its logarithm; a representation may know it to the last digit."""
        return math.exp(logarithm)

    def _covering(self, names: Sequence[Name | Variable], verb: str) -> tuple[Factor, tuple[Name, ...]]:
        """The factor times one for each Variable it lacks, and the plain names."""
        plain = tuple(dict.fromkeys(name.name if isinstance(name, Variable) else name for name in names))
        variables = [name for name in names if isinstance(name, Variable)]
        merge_inputs(self.inputs, *(variable.inputs for variable in variables))
        absent = [variable for variable in variables if variable.name not in self.inputs]
        body = product(self, *(Weight(0.0 * variable) for variable in absent)) if absent else self
        body._require_names(plain, lambda name: f"a {verb} over {name!r} of {self}")
        return body, plain

    def __repr__(self) -> str:
        return notation.text(self.notation())

    def _repr_latex_(self) -> str:
        return f"${notation.latex(self.notation())}$"

    def _repr_html_(self) -> str:
        return notation.to_html(self.notation())


def _missing(factor: Factor, what: str) -> NoRule:
    return NoRule(
        f"{what} of {factor}",
        expected=f"a representation that supplies {what}",
        nearest=f"{type(factor).__name__} does not",
        advice="sum variables out until a representation that does is left",
    )


def _number(exponent: Any) -> Value:
    value = to_value(exponent)
    if value.output.shape:
        raise DomainError(f"a power {value.output!r}", expected="a number")
    return value


def to_factor(given: Any) -> Factor:
    """A factor as it is; a number as a closed factor."""
    if isinstance(given, Factor):
        return given
    rule = to_factor_rules.find((given,))
    if rule is None:
        raise DomainError(
            f"{given!r} as a factor",
            expected="a factor or a non-negative number",
            advice="a log-weight becomes a factor by fb.weight(log=value)",
        )
    return rule.function(given)


class Product(Factor):
    """Π_k f_k: a flat list of factors, none of them a product."""

    _term_fields = ("terms",)
    terms: tuple[Factor, ...]

    def __init__(self, *terms: Factor) -> None:
        self._set(terms=terms, inputs=merge_inputs(*(term.inputs for term in terms)))

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Product(*(rename(term, names) for term in self.terms))

    def _evaluated(self, children: tuple) -> Factor:
        return product(*children)

    def _log(self) -> Value:
        logs = [term.log() for term in self.terms]
        total = logs[0]
        for value in logs[1:]:
            total = total + value
        return total

    def notation(self) -> Notation:
        return Infix("*", tuple(term.notation() for term in self.terms)) if self.terms else Symbol("1")


def combined(factors: Sequence[Factor]) -> Exactness:
    """The exactness of anything computed from these factors."""
    result = exactly
    for factor in factors:
        result = result | factor.exactness
    return result


def product(*factors: Any) -> Factor:
    """The flat product; of one factor, the factor itself.

    The product of nothing is the unit, a closed factor equal to 1.
    """
    flat: list[Factor] = []
    for factor in map(to_factor, factors):
        flat.extend(factor.terms if isinstance(factor, Product) else (factor,))
    if not flat:
        return to_factor(1.0)
    return flat[0] if len(flat) == 1 else Product(*flat)


def terms_of(factor: Factor) -> tuple[Factor, ...]:
    """The terms of a product, or the factor alone."""
    return factor.terms if isinstance(factor, Product) else (factor,)


def rename(factor: Factor, names: Mapping[Name, Name]) -> Factor:
    """The same function of other names, one to one."""
    mine = {old: new for old, new in names.items() if old in factor.inputs}
    return factor._renamed(mine) if mine else factor


def substitute(factor: Factor, values: Mapping[Name, Value]) -> Factor:
    """factor(name = value, …), simultaneously; a one-to-one renaming is done in every interpretation."""
    values = {name: value for name, value in values.items() if name in factor.inputs}
    if not values:
        return factor
    if all(isinstance(value, Variable) for value in values.values()):
        new = {name: value.name for name, value in values.items()}  # type: ignore[attr-defined]
        after = [new.get(name, name) for name in factor.inputs]
        if len(set(after)) == len(after):
            return factor._renamed(new)
    if isinstance(factor, Product):
        return product(*(substitute(term, values) for term in factor.terms))
    return interpret(Substituted, factor, values)


class _Node(Factor):
    """A recorded operation."""

    def _log(self) -> Value:
        return LogOf(self)


class Substituted(_Node):
    """factor(name = value, …), recorded."""

    _term_fields = ("factor", "args")
    _static_fields = ("names",)
    factor: Factor
    names: tuple[Name, ...]
    args: tuple[Value, ...]

    def __init__(self, factor: Factor, values: Mapping[Name, Value]) -> None:
        rest = {name: domain for name, domain in factor.inputs.items() if name not in values}
        inputs = merge_inputs(rest, *(value.inputs for value in values.values()))
        self._set(factor=factor, names=tuple(values), args=tuple(values.values()), inputs=inputs)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        inner = rename(self.factor, {old: new for old, new in names.items() if old not in self.names})
        variables = {old: Variable(new, self.inputs[old]) for old, new in names.items()}
        return Substituted(inner, {name: arg(variables) for name, arg in zip(self.names, self.args, strict=True)})

    def _evaluated(self, children: tuple) -> Factor:
        return substitute(children[0], dict(zip(self.names, children[1:], strict=True)))

    def notation(self) -> Notation:
        keywords = tuple((str(name), arg.notation()) for name, arg in zip(self.names, self.args, strict=True))
        return Call(f"({self.factor})", (), keywords)


class Quotient(_Node):
    """f / g, recorded."""

    _term_fields = ("over", "under")
    over: Factor
    under: Factor

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

    _term_fields = ("over", "total")
    over: Factor
    total: Factor

    def __init__(self, over: Factor, total: Factor) -> None:
        self._set(over=over, total=total, inputs=merge_inputs(over.inputs, total.inputs))

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Normalize(rename(self.over, names), rename(self.total, names))

    def _evaluated(self, children: tuple) -> Factor:
        return interpret(Normalize, *children)

    def notation(self) -> Notation:
        return Infix("/", (self.over.notation(), self.total.notation()))


class Addition(_Node):
    """f + g, recorded."""

    _term_fields = ("first", "second")
    first: Factor
    second: Factor

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

    _term_fields = ("base", "exponent")
    base: Factor
    exponent: Value

    def __init__(self, base: Factor, exponent: Value) -> None:
        self._set(base=base, exponent=exponent, inputs=merge_inputs(base.inputs, exponent.inputs))

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        variables = {old: Variable(new, self.inputs[old]) for old, new in names.items()}
        return Power(rename(self.base, names), self.exponent(variables))

    def _evaluated(self, children: tuple) -> Factor:
        return children[0] ** children[1]

    def notation(self) -> Notation:
        return Infix("**", (self.base.notation(), self.exponent.notation()))


class _Binding(_Node):
    """A recorded operation that binds names of its body."""

    _term_fields = ("body",)
    body: Factor
    bounds: tuple[Bound, ...]

    def _bind(self, body: Factor, names: Sequence[Name], **fields: Any) -> None:
        """Names that are bound already are kept: they come from a term being rebuilt."""
        bounds = tuple(name if isinstance(name, Bound) else Bound(name) for name in names)
        fresh = {name: bound for name, bound in zip(names, bounds, strict=True) if name is not bound}
        inputs = {name: domain for name, domain in body.inputs.items() if name not in names}
        self._set(body=rename(body, fresh), bounds=bounds, inputs=inputs, **fields)


class Sum(_Binding):
    """⊕_x f, recorded."""

    _static_fields = ("semiring", "bounds")
    semiring: Semiring

    def __init__(self, semiring: Semiring, body: Factor, names: Sequence[Name]) -> None:
        self._bind(body, names, semiring=semiring)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Sum(self.semiring, rename(self.body, names), self.bounds)

    def _evaluated(self, children: tuple) -> Factor:
        return interpret(Sum, self.semiring, children[0], self.bounds)

    def notation(self) -> Notation:
        symbols = {"sum_product": "Σ", "max_product": "max"}
        indices = tuple(map(str, self.bounds))
        return Big(symbols.get(self.semiring.name, f"⊕[{self.semiring}]"), indices, self.body.notation())


class PlateProduct(_Binding):
    """Π_i f, recorded."""

    _static_fields = ("bounds",)

    def __init__(self, body: Factor, names: Sequence[Name]) -> None:
        self._bind(body, names)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return PlateProduct(rename(self.body, names), self.bounds)

    def _evaluated(self, children: tuple) -> Factor:
        return interpret(PlateProduct, children[0], self.bounds)

    def notation(self) -> Notation:
        return Big("Π", tuple(map(str, self.bounds)), self.body.notation())


class Weight(Factor):
    """exp(value): a log-weight as a factor. It becomes a table only when a sum needs it."""

    _term_fields = ("value",)
    value: Value

    def __init__(self, value: Value) -> None:
        if value.output.shape or value.output.is_discrete:
            raise DomainError(f"a log-weight of domain {value.output!r}", expected="a real number")
        self._set(value=value, inputs=value.inputs)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Weight(self.value({old: Variable(new, self.inputs[old]) for old, new in names.items()}))

    def _log(self) -> Value:
        return self.value

    def notation(self) -> Notation:
        return Call("exp", (self.value.notation(),))


def weight(*, log: Any) -> Factor:
    """A factor from its logarithm, any real Value.

    >>> from fubini.domains import Bint
    >>> weight(log=-1.0 * Variable("n", Bint[3])).inputs
    {'n': Bint[3]}
    """
    value = to_value(log)
    return Weight(value * 1.0 if value.output.is_discrete else value)


class LogOf(Value):
    """log f of a factor that is recorded."""

    _term_fields = ("factor",)
    _static_fields = ("output",)
    factor: Factor

    def __init__(self, factor: Factor) -> None:
        self._set(factor=factor, inputs=factor.inputs, output=Real)

    def _substituted(self, values: Mapping[Name, Value]) -> Value:
        return self.factor(values).log()

    def _ground(self, *children: Any) -> Any:
        raise NoRule(
            f"the numbers of log({self.factor})",
            expected="a factor that has been computed",
            advice="evaluate it first: fb.evaluate(term)",
        )

    def notation(self) -> Notation:
        return Call("log", (self.factor.notation(),))


def evaluate(term: Any) -> Any:
    """Run a recorded term under the interpretation in force."""
    if isinstance(term, LogOf):
        return evaluate(term.factor).log()
    if not isinstance(term, Term) or not term.children:
        return term
    children = tuple(evaluate(child) for child in term.children)
    if isinstance(term, Factor):
        return Weight(*children) if isinstance(term, Weight) else term._evaluated(children)
    return term._remade(children)  # type: ignore[attr-defined]


# The rule sets of `exact`, one for each head; representations and the planner register theirs at import.
exact_sum = exact.register(RuleSet("exact.sum", head=Sum))
exact_product = exact.register(RuleSet("exact.product", head=PlateProduct))
exact_multiply = exact.register(RuleSet("exact.multiply", head=Product))
exact_divide = exact.register(RuleSet("exact.divide", head=Quotient))
exact_normalize = exact.register(RuleSet("exact.normalize", head=Normalize))
exact_add = exact.register(RuleSet("exact.add", head=Addition))
exact_power = exact.register(RuleSet("exact.power", head=Power))
exact_substitute = exact.register(RuleSet("exact.substitute", head=Substituted))
exact_join = exact.register(RuleSet("exact.join", head=Join))
exact_argmax = exact.register(RuleSet("exact.argmax", head=Argmax))
exact_sample = exact.register(RuleSet("exact.sample", head=Draw))
