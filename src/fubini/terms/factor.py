"""Factors: non-negative functions of named variables, and the operations on them.

A method types its arguments and hands the operation to the interpretation in force as a *head* with arguments:
`f.sum("x")` is `interpret(SUM, sum_product, f, ("x",))`. Products are flat and lazy under every interpretation.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base import ops
from fubini.base.arrays import Data, is_jax, require
from fubini.base.domains import Domain, Real, merge_inputs
from fubini.base.interpretations import current, interpret
from fubini.base.names import Bound, Name
from fubini.base.rules import RuleSet
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.errors import DataError, DomainError, FubiniError, NameClash, NoRule, UnknownName, listed
from fubini.show.notation import Call, Infix, Notation, Symbol
from fubini.terms.exactness import Exactness, combined, projected
from fubini.terms.fields import static_field, term_field
from fubini.terms.heads import (
    ADD,
    ARGMAX,
    COVARY,
    CUMULATE,
    DIVIDE,
    JOIN,
    MULTIPLY_OUT,
    NORMALIZE,
    POWER,
    QUANTILE,
    SAMPLE,
    SUBSTITUTE,
    SUM,
    TO_NUMPYRO,
)
from fubini.terms.storage import DENSE, Storage, joined_storage
from fubini.terms.term import Term, typed_names
from fubini.terms.value import Array, Value, Variable, to_argument, to_array, to_value

# What may stand where a factor is expected, beside factors: numbers.
to_factor_rules = RuleSet("to_factor", head="to_factor")


# The logarithms of the greatest and the least positive float.
LOG_GREATEST, LOG_LEAST = math.log(sys.float_info.max), -745.13


class Factor(Term):
    """A non-negative function of its `inputs`. A representation is a subclass with rules for the heads below.

    >>> f, g = fb.Table([0.25, 0.5], ("a",)), fb.Table([[0.5, 0.5], [1.0, 0.0]], ("a", "b"))
    >>> (f * g).inputs
    {'a': Bint[2], 'b': Bint[2]}
    >>> (f * g).sum("a").weights
    array([0.625, 0.125])
    """

    promotes: ClassVar[bool] = False  # an unfinished form: operations join it into a representation first
    lists_cells: ClassVar[bool] = False  # over bounded integers alone, with a weight held for every cell
    grows: ClassVar[bool] = False  # products and sums make it longer: `explain` says where a step makes one
    smooth_draws: ClassVar[bool] = False  # a draw of its real variables is a smooth function of its numbers

    @property
    def exactness(self) -> Exactness:
        """The approximations behind the factor: those of its parts together.

        >>> fb.Table([1.0, 2.0], ("a",)).exactness
        exact
        """
        return combined(self.children)

    @property
    def own(self) -> Name | None:
        """The variable of which the factor is a normalised density, whatever the others are, if there is one."""
        return None

    @property
    def is_known_zero(self) -> bool:
        """Whether it is zero everywhere, and its numbers are known."""
        return False

    @property
    def pins(self) -> tuple[Name, ...]:
        """The variables that the factor fixes to a point."""
        return ()

    @property
    def located(self) -> Mapping[Name, Value]:
        """The points that the factor fixes variables to, by name, where each has one alone."""
        return {}

    @property
    def cut_names(self) -> tuple[Name, ...]:
        """The real variables along which it jumps: an integral over one waits for the other real variables."""
        return ()

    @property
    def entrances(self) -> tuple[Name, ...]:
        """The variables that the factor would rather sum together with its neighbours there."""
        return ()

    @property
    def is_solvable(self) -> bool:
        """Whether it is the exponential of a quadratic function of real variables, or a constant, in double precision.

        A product of such factors of NumPy has a rule of SOLVE.
        """
        return False

    @property
    def storage(self) -> Storage:
        """The numbers that it holds, and the costs of its products and sums, as the planner asks for them."""
        return DENSE

    # -- what a kind of factor supplies -----------------------------------------------------------------------------

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        """The same function of other names, one to one."""
        raise _missing(self, "_renamed")

    def _marked(self, mark: Exactness) -> Factor:
        """The same function, tagged as approximate."""
        raise _missing(self, "a tag of its exactness")

    def _evaluated(self, children: tuple) -> Factor:
        """The same operation under the current interpretation, on children already evaluated."""
        return self

    def _log(self) -> Value:
        raise _missing(self, "log")

    # -- what a kind of factor may know better -----------------------------------------------------------------------

    def numbers(self) -> Value:
        """The weights as a Value; a representation may have a derivative where they are zero."""
        return ops.exp(self.log())

    def without(self, names: tuple[Name, ...]) -> Factor:
        """The factor without some of the variables that it has located."""
        raise _missing(self, "a point")

    def _normalized(self, names: tuple[Name, ...]) -> Factor:
        """f / Σ f over names."""
        return interpret(NORMALIZE, self, self.sum(*names))

    def _has_mass(self) -> Data:
        """Whether a closed factor is positive."""
        return self.log().data > -math.inf  # type: ignore[attr-defined]

    def _ordered(self, names: Sequence[Name]) -> Factor:
        """The same function, its inputs in this order where the representation has one."""
        return self

    def _relabelled(self, labels: Mapping[str, str]) -> Factor:
        """The same function, bound indices inside it called otherwise."""
        return self

    def _portable(self) -> Factor:
        """The same function with numbers that single precision can hold."""
        return self

    def _with_error(self, error: float | None) -> Factor:
        """The same function with the error of its numbers, where the representation holds one."""
        return self

    @classmethod
    def _blank(cls, names: Iterable[Name]) -> Factor:
        """A factor of this kind that has these names, of one value each: `explain` finds rules by it."""
        raise _missing(Unit({}), f"a blank {cls.__name__}")

    def notation(self) -> Notation:
        """The notation of the factor."""
        return Call(type(self).__name__, typed_names(self.inputs))

    # -- the five operations, and their kin -------------------------------------------------------------------------

    def __mul__(self, other: Any) -> Factor:
        """Join: (f·g)(x, y, z) = f(x, y) g(y, z). Never built until something asks for it."""
        return product(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Factor:
        """Divide: 0/0 is 0, x/0 an error."""
        other = to_factor(other)
        merge_inputs(self.inputs, other.inputs)
        return interpret(DIVIDE, self, other)

    def __rtruediv__(self, other: Any) -> Factor:
        return to_factor(other) / self

    def __add__(self, other: Any) -> Factor:
        """Mix: (f + g)(x) = f(x) + g(x)."""
        other = to_factor(other)
        merge_inputs(self.inputs, other.inputs)
        return interpret(ADD, self, other)

    __radd__ = __add__

    def __pow__(self, exponent: Any) -> Factor:
        """f^a, pointwise."""
        return interpret(POWER, self, _number(exponent))

    def sum(self, *names: Name | Variable) -> Factor:
        """Sum or integrate names out: Σ_x f. A Variable that is absent multiplies by its size.

        >>> f = fb.Table([[0.5, 0.25], [0.75, 0.0]], ("a", "b"))
        >>> f.sum("a").weights, float(f.sum("a", "b"))
        (array([1.25, 0.25]), 1.5)
        """
        return self.reduce(sum_product, *names)

    def max(self, *names: Name | Variable) -> Factor:
        """max_x f.

        >>> fb.Table([[0.5, 0.25], [0.75, 0.0]], ("a", "b")).max("a").weights
        array([0.75, 0.25])
        """
        return self.reduce(max_product, *names)

    def reduce(self, semiring: Semiring, *names: Name | Variable) -> Factor:
        """⊕_x f in any semiring.

        >>> f = fb.Table([[1.0, 2.0], [3.0, 0.0]], ("a", "b"))
        >>> f.reduce(fb.max_product, "b").weights
        array([2., 3.])
        """
        body, plain = self._covering(names, "max" if semiring is max_product else "sum")
        if not plain:
            return body
        result = interpret(SUM, semiring, body, plain)
        return result if isinstance(body, Product) else after_sum(result, plain)

    def product(self, *names: Name | Variable) -> Factor:
        """Multiply out a plate: Π_i f. What lacks i is still multiplied |i| times.

        >>> fb.Table([[0.5, 0.25], [0.5, 0.75]], ("i", "a")).product("i").weights
        array([0.25  , 0.1875])
        """
        body, plain = self._covering(names, "product")
        return interpret(MULTIPLY_OUT, body, plain) if plain else body

    def __call__(self, values: Mapping[Name, Any] | None = None, /, **named: Any) -> Factor:
        """Condition or substitute, simultaneously and without capture: `f(x=2, y="z")`; a string renames.

        >>> f = fb.Table([[0.5, 0.25], [0.75, 0.0]], ("a", "b"))
        >>> f(a=1).weights, f(b="c").inputs
        (array([0.75, 0.  ]), {'a': Bint[2], 'c': Bint[2]})
        """
        given = {**(values or {}), **named}
        self._require_names(tuple(given), lambda name: f"{name!r} in a call of {self}")
        return substitute(self, {name: to_argument(name, value, self.inputs[name]) for name, value in given.items()})

    def log(self) -> Value:
        """log f, a Value.

        >>> fb.Table([1.0, 2.0], ("a",)).log().data
        array([0.        , 0.69314718])
        """
        return self._log()

    def normalize(self, *names: Name) -> Factor:
        """f / Σ f, over the names given, or all.

        >>> fb.Table([1.0, 3.0], ("a",)).normalize().weights
        array([0.25, 0.75])
        """
        self._require_names(names, lambda name: f"normalising over {name!r} of {self}")
        if self.own is not None and set(names or self.inputs) == {self.own}:
            return self
        total = self.sum(*(names or self.inputs))
        return interpret(NORMALIZE, self, total)

    # -- questions --------------------------------------------------------------------------------------------------

    def argmax(self, *names: Name) -> dict[Name, Data]:
        """The assignment of the names with the greatest weight, for each cell of the other inputs.

        >>> fb.Table([[0.5, 0.25], [0.75, 0.0]], ("a", "b")).argmax("a", "b")
        {'a': np.int64(1), 'b': np.int64(0)}
        """
        self._require_names(names, lambda name: f"argmax over {name!r} of {self}")
        return interpret(ARGMAX, self, names or tuple(self.inputs))

    def sample(self, key: Data, *names: Name, n: int | None = None) -> dict[Name, Data]:
        """Draws from the normalised factor; n first, then the other inputs.

        >>> fb.Table([0.0, 1.0], ("a",)).sample(jax.random.key(0), "a", n=3)
        {'a': array([1, 1, 1])}
        """
        self._require_names(names, lambda name: f"a sample of {name!r} from {self}")
        return interpret(SAMPLE, key, self, names or tuple(self.inputs), n)

    def mean(self, name: Name | None = None) -> Value:
        """E[x] of the factor normalised over x, for each value of the other inputs; x is its one variable, or named.

        >>> fb.Table([1.0, 3.0], ("a",)).mean("a")
        0.75
        """
        name = self._only_variable(name, "the mean")
        return self._with_moments(name, "the mean")._mean(name)

    def covariance(self, first: Name | None = None, second: Name | None = None) -> Value:
        """The covariance of the elements of x, normalised over x, for each value of the other inputs.

        Of two names, the covariances of the elements of one with those of the other; of none, those of all numbers of
        all inputs, end to end.

        >>> f = fb.Gaussian(mean=[0.0, 1.0], covariance=[[2.0, 0.5], [0.5, 1.0]], inputs={"x": fb.Real, "y": fb.Real})
        >>> f.covariance("x", "y")
        0.5
        >>> f.covariance().data
        array([[2. , 0.5],
               [0.5, 1. ]])
        """
        if first is None:
            reals = tuple(name for name, domain in self.inputs.items() if not domain.is_finite)
            return interpret(COVARY, self._joined(), reals or tuple(self.inputs), reals or tuple(self.inputs))
        body = self._with_moments(first, "the covariance")
        if second is None or second == first:
            return body._covariance(first)
        self._require_names((second,), lambda unknown: f"the covariance with {unknown!r} under {self}")
        shape = (*self.inputs[first].shape, *self.inputs[second].shape)
        return _shaped(interpret(COVARY, body, (first,), (second,)), shape)

    def variance(self, name: Name | None = None) -> Value:
        """The variance of each element of x, normalised over x, for each value of the other inputs.

        >>> fb.dist.Normal(0.0, 2.0)("x").variance("x")
        4
        """
        name = self._only_variable(name, "the variance")
        return self._with_moments(name, "the variance")._variance(name)

    def cdf(self, at: Any, name: Name | None = None) -> Value:
        """P(x ≤ at) of each element of x, normalised over x; `at` broadcasts against x.

        >>> fb.dist.Exponential(2.0)("x").cdf(1.0)
        0.8646647
        """
        body, name = self._alone(name, "the distribution function")
        return interpret(CUMULATE, body, name, _real_numbers(at, "the distribution function at"))

    def quantile(self, level: Any, name: Name | None = None) -> Value:
        """The least t with P(x ≤ t) ≥ level, of each element of x, normalised over x; axes of `level` come first.

        >>> fb.dist.Exponential(2.0)("x").quantile(0.5)
        0.3465736
        >>> fb.Table([0.2, 0.5, 0.3], ("a",)).quantile([0.1, 0.5, 0.9]).data
        array([0, 1, 2])
        """
        body, name = self._alone(name, "a quantile")
        return interpret(QUANTILE, body, name, _levels(level))

    def interval(self, level: Any = 0.9, name: Name | None = None) -> tuple[Value, Value]:
        """The quantiles with (1 − level)/2 of the probability below and above them, of each element of x.

        >>> fb.dist.Normal(0.0, 1.0)("x").interval(0.9)
        (-1.644854, 1.644854)
        """
        body, name = self._alone(name, "an interval")
        tail = (1 - _levels(level, "the interval of level").array) / 2
        return tuple(interpret(QUANTILE, body, name, Array(edge)) for edge in (tail, 1 - tail))  # type: ignore[return-value]

    def to_numpyro(self, name: Name | None = None) -> Any:
        """The factor normalised over its one variable, or that of a name, as a distribution of numpyro.

        It has the same log-density. Bounded integers beside the variable become batch axes, in the order of the inputs.
        Several real variables of a Gaussian are one vector, end to end.

        >>> p = fb.dist.Normal(0.0, 1.0)("x") * fb.dist.Normal(2.0, 1.0)("x")
        >>> type(p.to_numpyro()).__name__, round(float(p.to_numpyro().mean), 6)
        ('Normal', 1.0)
        """
        names = () if name is None else (name,)
        self._require_names(names, lambda unknown: f"the distribution of {unknown!r} under {self}")
        return interpret(TO_NUMPYRO, self._joined(), names)

    def _only_variable(self, name: Name | None, asked: str) -> Name:
        """The name that is given, or that of the one variable; bounded integers beside a real one are a batch."""
        if name is not None:
            return name
        reals = [own for own, domain in self.inputs.items() if not domain.is_finite]
        names = reals or list(self.inputs)
        if len(names) != 1:
            raise UnknownName(
                f"{asked} of one variable of {self}",
                expected=f"its name, one of {listed(names)}"
                if names
                else "a factor of some variable: this is a number",
                advice=f"sum the others out, or name it: name={names[0]!r}" if names else "",
            )
        return names[0]

    def _alone(self, name: Name | None, asked: str) -> tuple[Factor, Name]:
        """The factor in one representation and its variable, which no other real one depends on."""
        name = self._only_variable(name, asked)
        self._require_names((name,), lambda unknown: f"{asked} of {unknown!r} under {self}")
        others = [own for own, domain in self.inputs.items() if own != name and not domain.is_finite]
        if others:
            raise DomainError(
                f"{asked} of {name!r} under {self}",
                expected=f"a factor of {name!r} and bounded integers alone: {asked} is one of numbers, not of points",
                nearest=f"it depends on {listed(others)} too",
                advice=f"integrate these out first: .sum({', '.join(repr(str(own)) for own in others)})",
            )
        return self._joined(), name

    def _with_moments(self, name: Name, asked: str) -> Factor:
        self._require_names((name,), lambda unknown: f"{asked} of {unknown!r} under {self}")
        return self._joined()

    def _joined(self) -> Factor:
        """Join into one representation, where there is a rule for it."""
        rule = current().find(JOIN, (self,))
        return self if rule is None else rule.function(self)

    def entropy(self, *names: Name) -> Value:
        """−Σ p log p of the normalised marginal of the names.

        >>> fb.Table([1.0, 1.0], ("a",)).entropy()
        0.6931472
        """
        return self._marginal(names, "entropy")._entropy()

    def kl(self, other: Factor, *names: Name) -> Value:
        """Σ p log(p/q) of the normalised marginals of the names.

        >>> p, q = fb.Table([0.5, 0.5], ("a",)), fb.Table([0.25, 0.75], ("a",))
        >>> p.kl(q)
        0.143841
        """
        if not names and self.inputs.keys() != other.inputs.keys():
            raise NameClash(
                f"kl of a factor over {listed(self.inputs)} from one over {listed(other.inputs)}",
                expected="the same names",
                advice='name the variables to compare: p.kl(q, "x")',
            )
        merge_inputs(self.inputs, other.inputs)
        names = names or tuple(self.inputs)
        return self._marginal(names, "kl")._kl(other._marginal(names, "kl"))

    def mutual_information(self, first: Name, second: Name) -> Value:
        """I(first; second) = H(first) + H(second) − H(first, second).

        >>> fb.Table([[0.5, 0.0], [0.0, 0.5]], ("a", "b")).mutual_information("a", "b")
        0.6931472
        """
        joint = self._marginal((first, second), "mutual information")
        return joint.sum(second).entropy(first) + joint.sum(first).entropy(second) - joint._entropy()

    def _marginal(self, names: tuple[Name, ...], asked: str) -> Any:
        self._require_names(names, lambda name: f"{asked} of {name!r} under {self}")
        kept = names or tuple(self.inputs)
        others = [name for name in self.inputs if name not in kept]
        marginal = self.sum(*others) if others else self
        if marginal.own is not None and tuple(marginal.inputs) == (marginal.own,):
            return marginal._joined()
        return interpret(NORMALIZE, marginal, marginal.sum(*kept))._joined()

    def _mean(self, name: Name) -> Value:
        raise _missing(self, "mean")

    def _covariance(self, name: Name) -> Value:
        raise _missing(self, "covariance")

    def _variance(self, name: Name) -> Value:
        return _diagonal(self._covariance(name), len(self.inputs[name].shape))

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
        if logarithm > LOG_GREATEST or -math.inf < logarithm < LOG_LEAST:
            raise FubiniError(
                f"float of a factor equal to exp({logarithm:.6g})",
                expected="a number that a float can hold",
                advice="read its logarithm: float(f.log())",
            )
        return self._linear(logarithm)

    def __getattr__(self, name: str) -> Any:
        """`weights`, of what is a table once it is joined; a class may have a field of that name."""
        if name != "weights":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        joined = self._joined()
        if type(joined) is type(self):
            raise _missing(self, "weights")
        return joined.weights

    def _linear(self, logarithm: float) -> float:
        """A closed factor as a number, given its logarithm; a representation may know it to the last digit."""
        return math.exp(logarithm)

    def _covering(self, names: Sequence[Name | Variable], verb: str) -> tuple[Factor, tuple[Name, ...]]:
        """The factor times one for each Variable it lacks, and the plain names."""
        strange = [name for name in names if not isinstance(name, (str, Bound, Variable))]
        if strange:
            raise DomainError(f"a {verb} over {strange[0]!r}", expected="names: strings, or Variables, one by one")
        plain = tuple(dict.fromkeys(name.name if isinstance(name, Variable) else name for name in names))
        variables = [name for name in names if isinstance(name, Variable)]
        merge_inputs(self.inputs, *(variable.inputs for variable in variables))
        absent = [variable for variable in variables if variable.name not in self.inputs]
        body = product(self, Unit(merge_inputs(*(variable.inputs for variable in absent)))) if absent else self
        body._require_names(plain, lambda name: f"a {verb} over {name!r} of {self}")
        return body, plain


def _missing(factor: Factor, what: str) -> NoRule:
    return NoRule(
        f"{what} of {factor}",
        expected=f"a representation that supplies {what}",
        nearest=f"{type(factor).__name__} does not",
        advice="sum variables out until a representation that does remains",
    )


def _shaped(matrix: Value, shape: tuple[int, ...]) -> Value:
    """A matrix of numbers end to end as an array of this shape."""
    whole = to_array(matrix)
    data = whole.array.reshape((*whole.array.shape[: len(whole.names)], *shape))
    return Array._of(data, whole.names, whole.inputs, Real.with_shape(shape), whole.mark)


def _diagonal(covariance: Value, rank: int) -> Value:
    """The variances in a covariance of shape s + s, s of this rank."""
    return covariance if rank == 0 else _take_diagonal(covariance)


@ops.lift
def _take_diagonal(covariance: Data) -> Data:
    shape = covariance.shape[: covariance.ndim // 2]
    return jnp.diagonal(covariance.reshape(math.prod(shape), -1)).reshape(shape)


def _number(exponent: Any) -> Value:
    value = to_value(exponent)
    if value.output.shape:
        raise DomainError(f"a power {value.output!r}", expected="a number")
    return value


def _real_numbers(given: Any, asked: str) -> Array:
    """Numbers that are asked about, as an Array of reals."""
    if isinstance(given, Array):
        return given
    try:
        data = given if is_jax(given) else np.asarray(given, np.float64)
    except (TypeError, ValueError) as error:
        raise DomainError(f"{asked} {given!r}", expected="a number, or an array of numbers") from error
    data = data * 1.0
    return Array._of(data, (), {}, Real.with_shape(data.shape))


def _levels(given: Any, asked: str = "the quantile of level") -> Array:
    """Probabilities between 0 and 1."""
    levels = _real_numbers(given, asked)

    def error() -> DataError:
        percent = np.all((np.asarray(levels.array) > 1) & (np.asarray(levels.array) < 100))
        advice = f"percent are given as shares: {np.asarray(levels.array) / 100}" if percent else ""
        return DataError(f"{asked} {given}", expected="a probability above 0 and below 1", advice=advice)

    (data,) = require((levels.array > 0) & (levels.array < 1), error, levels.array)
    return Array._of(data, levels.names, levels.inputs, levels.output, levels.mark)


def to_factor(given: Any) -> Factor:
    """A factor as it is; a number as a closed factor."""
    if isinstance(given, Factor):
        return given
    kind = jax.Array if isinstance(given, jax.Array) else type(given)  # a tracer's type does not say that it is one
    rules = to_factor_rules.candidates((kind,))
    if not rules:
        raise DomainError(
            f"{given!r} as a factor",
            expected="a factor or a non-negative number",
            advice="a log-weight becomes a factor by fb.weight(log=value)",
        )
    return rules[0].function(given)


class Product(Factor):
    """Π_k f_k: a flat list of factors, none of them a product."""

    promotes = True
    terms: tuple[Factor, ...] = term_field()

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

    @property
    def storage(self) -> Storage:
        return joined_storage([term.storage for term in self.terms]) if self.terms else DENSE

    def _relabelled(self, labels: Mapping[str, str]) -> Factor:
        return product(*(term._relabelled(labels) for term in self.terms))

    def notation(self) -> Notation:
        return Infix("*", tuple(term.notation() for term in self.terms)) if self.terms else Symbol("1")

    def _only(self, name: Name, asked: str) -> Factor:
        """The one term that depends on a name: the others do not change what is normalised over it."""
        dependent = [term for term in self.terms if name in term.inputs]
        if len(dependent) > 1:
            dependent = [term for term in terms_of(Product(*dependent).normalize(name)) if name in term.inputs]
        if len(dependent) != 1:
            raise _missing(self, f"{asked} of {name!r}")
        return dependent[0]

    def _mean(self, name: Name) -> Value:
        return self._only(name, "the mean").mean(name)

    def _covariance(self, name: Name) -> Value:
        return self._only(name, "the covariance").covariance(name)

    def _variance(self, name: Name) -> Value:
        return self._only(name, "the variance").variance(name)

    def _entropy(self) -> Value:
        (name,) = self.inputs if len(self.inputs) == 1 else (None,)
        if name is None:
            raise _missing(self, "the entropy")
        return self._only(name, "the entropy").entropy(name)


def product(*factors: Any) -> Factor:
    """The flat product; of one factor, the factor itself.

    The product of nothing is the unit, a closed factor equal to 1.
    """
    flat: list[Factor] = []
    for factor in map(to_factor, factors):
        flat.extend(factor.terms if isinstance(factor, Product) else (factor,))
    if any(type(factor) is Unit and not factor.inputs for factor in flat):
        flat = [factor for factor in flat if type(factor) is not Unit or factor.inputs]
    if not flat:
        return to_factor(1.0)
    return flat[0] if len(flat) == 1 else Product(*flat)


def after_sum(factor: Factor, names: tuple[Name, ...]) -> Factor:
    """The projection of the interpretation in force, and its tag; a plan applies it after each of its steps."""
    interpretation = current()
    if interpretation.project is None:
        return factor
    projection = interpretation.project(factor, names)
    if projection is None:
        return factor
    return to_factor(projection)._marked(factor.exactness | projected(interpretation.name))


def is_tabular(term: Term) -> bool:
    """Whether every input is a bounded integer."""
    return all(domain.is_finite for domain in term.inputs.values())


def terms_of(factor: Factor) -> tuple[Factor, ...]:
    """The terms of a product, or the factor alone."""
    return factor.terms if isinstance(factor, Product) else (factor,)


def rename(factor: Factor, names: Mapping[Name, Name]) -> Factor:
    """The same function of other names, one to one."""
    present = {old: new for old, new in names.items() if old in factor.inputs}
    return factor._renamed(present) if present else factor


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
    return interpret(SUBSTITUTE, factor, values)


class Unit(Factor):
    """1 for every value of its inputs: the unit of the product in whatever semiring it is summed."""

    promotes = True
    domains: tuple[tuple[Name, Domain], ...] = static_field()

    def __init__(self, inputs: Mapping[Name, Domain]) -> None:
        self._set(domains=tuple(inputs.items()), inputs=dict(inputs))

    @property
    def is_solvable(self) -> bool:
        return not self.inputs

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Unit({names.get(name, name): domain for name, domain in self.inputs.items()})

    def _log(self) -> Value:
        if all(domain.is_finite for domain in self.inputs.values()):
            shape = [domain.extent for domain in self.inputs.values()]
            return Array._of(np.zeros(shape), tuple(self.inputs), self.inputs, Real)
        total = to_value(0.0)
        for name, domain in self.inputs.items():
            total = total + 0.0 * Variable(name, domain)
        return total


class Weight(Factor):
    """exp(value): a log-weight as a factor. It becomes a table only when a sum needs it."""

    promotes = True
    value: Value = term_field()

    def __init__(self, value: Value) -> None:
        if value.output.shape or value.output.is_discrete:
            raise DomainError(f"a log-weight of domain {value.output!r}", expected="a real number")
        self._set(value=value, inputs=value.inputs)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return Weight(self.value.replaced({old: Variable(new, self.inputs[old]) for old, new in names.items()}))

    def _log(self) -> Value:
        return self.value

    def notation(self) -> Notation:
        return Call("exp", (self.value.notation(),))


def weight(*, log: Any) -> Factor:
    """A factor from its logarithm, any real Value.

    >>> from fubini.base.domains import Bint
    >>> weight(log=-1.0 * Variable("n", Bint[3])).inputs
    {'n': Bint[3]}
    """
    value = to_value(log)
    return Weight(value * 1.0 if value.output.is_discrete else value)
