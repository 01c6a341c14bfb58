"""Distributions, and their densities as factors.

A distribution is a record of a family and its parameters, which may be Values. Applied to a name or a Value it is a
density, a Factor, which becomes a Table, Gaussian or Delta only when a sum needs it. numpyro supplies the numerics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from numpyro.distributions import constraints

from fubini.base.arrays import is_traced, known_stays_known, require
from fubini.base.domains import Domain, merge_inputs
from fubini.base.names import Name
from fubini.distributions.blueprint import (
    FOREIGN,
    Blueprint,
    Constant,
    DistributionSignature,
    leaves_its_constraint,
    lift_statistic,
    log_probability,
    signature_of,
)
from fubini.distributions.named_site import Named
from fubini.distributions.normal_arguments import as_arrays
from fubini.distributions.parameter_checks import Requirement, requirements, satisfied, shown
from fubini.distributions.power import POWER, over_batch
from fubini.distributions.printed_summary import summary_of
from fubini.distributions.summary_statistics import COVARIANCE, ENTROPY, MEAN, VARIANCE, SummaryStatistic
from fubini.distributions.supports import POSITIVE, within
from fubini.errors import DataError, DomainError, NoRule
from fubini.show.notation import Call, Notation, Symbol
from fubini.show.printed_form import Block, Expression, Words
from fubini.terms.exactness import Exactness, combined
from fubini.terms.factor import Factor
from fubini.terms.fields import static_field, term_field
from fubini.terms.term import Term
from fubini.terms.value import Array, Value, Variable, apply, to_value

# Arguments that say what a family is rather than where it lies; they are not Values.
STATIC = frozenset(
    [
        "dimension",
        "num_steps",
        "event_dim",
        "reinterpreted_batch_ndims",
        "batch_shape",
        "event_shape",
        "sample_method",
        "is_sparse",
        "support",
        "transforms",
        "total_count_max",
        "sde_fn",
        "shape",
    ]
)
CIRCULAR = frozenset(("VonMises", "SineBivariateVonMises", "SineSkewed"))  # numpyro's variance is not that of x
CENTRED = frozenset(("Normal", "MultivariateNormal", "StudentT", "MultivariateStudentT"))
COUNTS = frozenset(("total_count", "total_count_max"))  # a whole number here bounds the support


class Distribution(Term):
    """A family with parameters: `dist.Normal(loc, scale)`. Applied to a name or a Value it is a density, a Factor.

    >>> d = fb.dist.Normal(0.0, 1.0)
    >>> d, d("x").inputs, float(d(0.0).log())
    (Normal(loc=0, scale=1), {'x': Real}, -0.9189385332046727)
    """

    _is_record = True
    family: str = static_field()
    keys: tuple[str, ...] = static_field()
    args: tuple[Term, ...] = term_field()
    statics: tuple[tuple[str, Any], ...] = static_field()

    def __init__(self, family: str, given: Mapping[str, Any]) -> None:
        given = as_arrays(family, _opened(given))
        for key, value in given.items():
            _require_parameter(family, key, value)
        terms = {key: _to_term(value) for key, value in given.items() if not _is_static(family, key, value)}
        statics = tuple((key, _hashable(value)) for key, value in given.items() if key not in terms)
        fields = {"family": family, "keys": tuple(terms), "statics": statics}
        self._set(args=tuple(terms.values()), **fields, inputs=merge_inputs(*(t.inputs for t in terms.values())))
        _ = self.signature  # parameters that do not fit together are refused at once
        self._set(args=tuple(self._checked(terms).values()))

    def replaced(self, values: Mapping[Name, Value]) -> Distribution:
        """Replace some names by Values."""
        if not any(name in self.inputs for name in values):
            return self
        args = {key: arg.replaced(values) for key, arg in zip(self.keys, self.args, strict=True)}  # type: ignore[attr-defined]
        return Distribution(self.family, {**args, **dict(self.statics)})

    def _remade(self, children: tuple) -> Distribution:
        return Distribution(self.family, {**dict(zip(self.keys, children, strict=True)), **dict(self.statics)})

    def __getitem__(self, key: str) -> Term:
        if key not in self.keys:
            raise self._not_a_value()
        return self.args[self.keys.index(key)]

    def _not_a_value(self, *_: Any, **__: Any) -> DomainError:
        return DomainError(
            f"{self} in place of one of its values",
            expected="a number, an array or a Value",
            advice=f"in a model, draw it: x = yield dist.{self.family}(…), or numpyro.sample; a factor is dist(…)('x')",
        )

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise self._not_a_value()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refused
    __matmul__ = __rmatmul__ = __pow__ = __rpow__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _refused
    __array__ = __jax_array__ = __float__ = _refused

    def __call__(self, value: Any) -> Density:
        """The density of a name or a Value, as a Factor."""
        return density(self, value)

    # -- modifiers ---------------------------------------------------------------------------------------------------

    def expand(self, batch_shape: Any) -> Distribution:
        """Independent copies in an array of this shape.

        >>> fb.dist.Normal(0.0, 1.0).expand([3]).domain
        Reals[3]
        """
        return Distribution("ExpandedDistribution", {"base_dist": self, "batch_shape": tuple(batch_shape)})

    def to_event(self, rank: int = 1) -> Distribution:
        """An array of independent values as one value.

        >>> fb.dist.Normal(np.zeros(3), 1.0).to_event(1).domain
        Reals[3]
        """
        return Distribution("Independent", {"base_dist": self, "reinterpreted_batch_ndims": int(rank)})

    def mask(self, mask: Any) -> Distribution:
        """The density where the mask is true, 1 elsewhere.

        >>> float(fb.dist.Normal(np.zeros(2), 1.0).mask(np.array([True, False]))(np.zeros(2)).log().data.round(6))
        -0.918939
        """
        return Distribution("MaskedDistribution", {"base_dist": self, "mask": mask})

    def to_power(self, exponent: Any) -> Distribution:
        """p(x)^s, unnormalised: log p times s, which broadcasts against the batch and adds up along axes beyond it.

        >>> float(fb.dist.Normal(0.0, 1.0).to_power(2.0)(0.0).log().data.round(6))
        -1.837877
        """
        signature = self.signature
        batch = signature.shape[: len(signature.shape) - signature.event_rank]
        return Distribution(POWER, {"base_dist": self, "exponent": over_batch(exponent, batch)})

    def named(self, name: str) -> Named:
        """Name the site that this distribution is in a joint.

        >>> fb.JointSequential([fb.dist.Normal(0.0, 1.0).named("m")]).names
        ('m',)
        """
        return Named(self, name)

    # -- structure ---------------------------------------------------------------------------------------------------

    @property
    def leaf_values(self) -> tuple[Value, ...]:
        """All parameters that are Values, in order, those of inner distributions included."""
        leaves: list[Value] = []
        for arg in self.args:
            leaves.extend(arg.leaf_values if isinstance(arg, Distribution) else [arg])  # type: ignore[list-item]
        return tuple(leaves)

    @property
    def blueprint(self) -> Blueprint:
        """The blueprint that builds it from its leaf values."""
        cached = self.__dict__.get("_cached_blueprint")
        if cached is None:
            inner = tuple(arg.blueprint if isinstance(arg, Distribution) else None for arg in self.args)
            cached = self.__dict__["_cached_blueprint"] = Blueprint(self.family, self.keys, inner, self.statics)
        return cached

    @property
    def signature(self) -> DistributionSignature:
        """The shape, the domain and the constraints."""
        return signature_of(self.blueprint, tuple(value.output for value in self.leaf_values))

    @property
    def domain(self) -> Domain:
        """The domain of its values.

        >>> fb.dist.Dirichlet(np.ones(3)).domain, fb.dist.Poisson(2.0).domain
        (Simplex[3], Nat)
        """
        return self.signature.domain

    @property
    def leaves_its_constraints(self) -> bool:
        """Whether some parameter is not valid for every value of the variables in it."""
        pairs = zip(self.keys, self.args, strict=True)
        return any(
            arg.leaves_its_constraints
            if isinstance(arg, Distribution)
            else leaves_its_constraint(arg, self.signature.constraints.get(key, constraints.real))  # type: ignore[arg-type]
            for key, arg in pairs
        )

    def _checked(self, terms: Mapping[str, Term]) -> dict[str, Term]:
        """Parameters within their constraints: an error where one is not, NaN under tracing."""
        parameters = dict(terms)
        for requirement in requirements(self.family, self.signature.constraints):
            given = [_number(parameters, dict(self.statics), key) for key in requirement.keys]
            if any(term is None for term in given):
                continue
            key = requirement.keys[0]
            checked = _allowed(requirement, given)  # type: ignore[arg-type]
            if key in parameters:
                parameters[key] = checked
        return parameters

    def notation(self) -> Notation:
        given = tuple((key, arg.notation()) for key, arg in zip(self.keys, self.args, strict=True))
        fixed = tuple((key, Symbol(repr(value))) for key, value in self.statics)
        return Call(self.family, (), (*given, *fixed))

    @property
    def exactness(self) -> Exactness:
        """The exactness of the parameters.

        >>> fb.dist.Normal(0.0, 1.0).exactness
        exact
        """
        return combined(self.args)


def lies_between(distribution: Distribution, domain: Domain) -> bool:
    """Whether a distribution of positive numbers, or between ends that are known, has all of its mass in a domain."""
    if distribution.family in POSITIVE and domain.kind == "positive":
        return True
    given = {**dict(distribution.statics), **dict(zip(distribution.keys, distribution.args, strict=True))}
    ends = [given.get("low", -np.inf), given.get("high", np.inf)]
    low, high = (end.array if isinstance(end, Array) else end for end in ends)
    is_known = [not isinstance(end, Term) and not is_traced(end) for end in (low, high)]
    return is_known[0] and "low" in given and within(low, high if is_known[1] else np.inf, domain)


def _number(terms: Mapping[str, Term], statics: Mapping[str, Any], key: str) -> Array | None:
    """A parameter whose numbers are there."""
    value = statics.get(key)
    term = to_value(float(value)) if isinstance(value, (int, np.integer)) else terms.get(key)
    return term if isinstance(term, Array) else None


def _allowed(requirement: Requirement, given: list[Array]) -> Array:
    """The first of these arrays, not a number where what is required does not hold."""
    if len(given) > 1 and any(term.inputs for term in given):
        return given[0]  # axes that have names, in an order of their own
    arrays = [term.array for term in given]
    with known_stays_known(*arrays):
        quantity = requirement.quantity(*arrays)
        ok = satisfied(requirement.constraint, quantity)
        while ok.shape != arrays[0].shape[: np.ndim(ok)]:  # numpyro tests the spectrum of a vector entry by entry
            ok = ok.all(axis=-1)
        ok = ok.reshape(ok.shape + (1,) * max(arrays[0].ndim - np.ndim(ok), 0))
    term = given[0]
    (data,) = require(ok, lambda: requirement.error(" - ".join(map(_shown, given)), quantity), term.array)
    return term if data is term.array else Array._of(data, term.names, term.inputs, term.output, term.mark)


def _shown(term: Array) -> str:
    return repr(term) if is_traced(term.array) else shown(np.asarray(term.array))


def _is_static(family: str, key: str, value: Any) -> bool:
    if isinstance(value, (Distribution, Value, jax.Array, np.ndarray)) and key not in STATIC:
        return False
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if whole and (key in COUNTS or family == "DiscreteUniform"):
        return True
    return key in STATIC or not isinstance(value, (int, float, np.generic, list))


def _require_parameter(family: str, key: str, value: Any) -> None:
    """A name is not a parameter, a factor is not a Value, and a distribution is not one of its values."""
    if isinstance(value, Distribution) and "dist" not in key:
        raise value._not_a_value()
    if (isinstance(value, str) and key != "sample_method") or (isinstance(value, Term) and not _is_parameter(value)):
        raise DomainError(
            f"dist.{family} with {key}={value!r}",
            expected="a number, an array, a Value or a distribution",
            advice=f"a variable is written fb.Variable({value!r}, fb.Real)" if isinstance(value, str) else "",
        )


def _is_parameter(value: Any) -> bool:
    return isinstance(value, (Value, Distribution))


def _to_term(value: Any) -> Term:
    if isinstance(value, Distribution):
        return value
    if isinstance(value, (int, np.integer, bool)) and not isinstance(value, np.ndarray):
        value = float(value)
    return to_value(value)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        value = tuple(value)
    try:
        hash(value)
    except TypeError:
        return Constant(value)
    return value


def _opened(given: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of distributions as one argument for each: `key:0`, `key:1` …"""
    arguments: dict[str, Any] = {}
    for key, value in given.items():
        if key not in STATIC and _is_column(value):
            value = np.asarray(value)
        several = isinstance(value, (list, tuple)) and value and all(isinstance(one, Distribution) for one in value)
        arguments.update({f"{key}:{place}": one for place, one in enumerate(value)} if several else {key: value})
    return arguments


def _is_column(value: Any) -> bool:
    """Numbers of pandas, or in a tuple."""
    numbers = isinstance(value, tuple) and value and all(isinstance(one, (int, float, np.number)) for one in value)
    return hasattr(value, "to_numpy") or bool(numbers)


def foreign(numpyro_distribution: Any) -> Distribution:
    """The record of numpyro's distribution by its pytree."""
    leaves, tree = jax.tree_util.tree_flatten(numpyro_distribution)
    given = {
        f"leaf{place}": leaf if isinstance(leaf, jax.Array) else np.asarray(leaf) for place, leaf in enumerate(leaves)
    }
    return Distribution(FOREIGN, {**given, "tree": tree, "shape": tuple(numpyro_distribution.batch_shape)})


def has_traced_setting(settings: Mapping[str, Any]) -> bool:
    """A support or a transform that reads a random value: what is a setting elsewhere is a parameter then."""
    values = [value.value if isinstance(value, Constant) else value for value in settings.values()]
    kept = [value for value in values if not isinstance(value, Term)]
    return is_traced(*jax.tree_util.tree_leaves(kept))


def spread(of: Distribution, shape: Sequence[int], event: int) -> Distribution:
    """Independent numbers in an array of this shape, or of that of the parameters; the last axes are one value."""
    whole = np.broadcast_shapes(of.signature.shape, tuple(shape))
    expanded = of if of.signature.shape == whole else of.expand(whole)
    return expanded.to_event(event) if event else expanded


class Density(Factor):
    """p(value; parameters).

    >>> p = fb.dist.Gamma(2.0, 3.0)("r")
    >>> p
    Gamma(concentration=2, rate=3)(r)
      r: mean 0.6667, sd 0.4714, 90 % interval 0.1185 to 1.581
    >>> float(p(r=1.0).log().data.round(6))
    -0.802775
    """

    promotes = True
    distribution: Distribution = term_field()
    value: Value = term_field()

    def __init__(self, distribution: Distribution, value: Value) -> None:
        inputs = merge_inputs(distribution.inputs, value.inputs)
        self._set(distribution=distribution, value=value, inputs=inputs)

    @property
    def own(self) -> Name | None:
        value, signature = self.value, self.distribution.signature
        if not isinstance(value, Variable) or value.name in self.distribution.inputs or not signature.is_proper:
            return None
        if self.distribution.leaves_its_constraints:
            return None
        inside = signature.domain.kind in ("real", "positive", "unit")  # of full dimension among the reals
        covers = value.output == signature.domain or (value.output.kind == "real" and inside)
        covers = covers or lies_between(self.distribution, value.output)
        return value.name if covers and value.output.shape == signature.shape else None

    @property
    def pins(self) -> tuple[Name, ...]:
        if self.distribution.family != "Delta" or not isinstance(self.value, Variable):
            return ()
        return (self.value.name,)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        fresh = {old: Variable(new, self.inputs[old]) for old, new in names.items()}
        return Density(self.distribution.replaced(fresh), self.value.replaced(fresh))

    def _evaluated(self, children: tuple) -> Factor:
        return Density(*children)

    def _log(self) -> Value:
        return apply(log_probability(self.distribution.blueprint), self.value, *self.distribution.leaf_values)

    def notation(self) -> Notation:
        return Call(self.distribution.notation(), (self.value.notation(),))

    def _form(self) -> Iterable[Block]:
        """The family with its parameters; where these are numbers, the mean and the 90 % interval beneath."""
        yield Expression(self._brief_notation())
        name = self.own
        if name is not None and set(self.inputs) == {name}:
            numbers = summary_of(self.distribution, self.inputs[name].shape)
            yield from [Words(f"{name}: {numbers}", 2)] if numbers else []

    # -- moments, where numpyro has them -----------------------------------------------------------------------------

    def _mean(self, name: Name) -> Value:
        return self._statistic(MEAN, name) if not self._is_centred(name) else self.distribution["loc"]  # type: ignore[return-value]

    def _is_centred(self, name: Name) -> bool:
        """Whether the mean is the location, which depends on other variables: as it is written, it may be affine."""
        distribution = self.distribution
        if name != self.own or distribution.family not in CENTRED or isinstance(distribution["loc"], Array):
            return False
        df = distribution["df"] if "df" in distribution.keys else None
        finite = df is None or (isinstance(df, Array) and not is_traced(df.array) and bool(np.all(df.array > 1)))
        return finite and distribution["loc"].output.shape == self.inputs[name].shape  # type: ignore[attr-defined]

    def _variance(self, name: Name) -> Value:
        return self._statistic(VARIANCE, name)

    def _covariance(self, name: Name) -> Value:
        if self.inputs[name].shape:
            return self._statistic(COVARIANCE, name)
        return self._statistic(VARIANCE, name)

    def _entropy(self) -> Value:
        return self._statistic(ENTROPY, self.own)

    def _statistic(self, statistic: SummaryStatistic, name: Name | None) -> Value:
        circular = statistic in (VARIANCE, COVARIANCE) and self.distribution.family in CIRCULAR
        if name is None or name != self.own or circular:
            raise self._unknown(statistic.name, name)
        try:
            return apply(lift_statistic(self.distribution.blueprint, statistic), *self.distribution.leaf_values)
        except NotImplementedError as error:
            raise self._unknown(statistic.name, name) from error

    def _unknown(self, what: str, name: Name | None) -> NoRule:
        return NoRule(
            f"the {what} of {name!r} under {self}",
            expected=f"a family whose {what} is known, of its own variable",
            nearest=f"{self.distribution.family} has none that numpyro knows",
            advice=f"quantile(0.5) and interval(0.9) may be known; draws have a {what}: f.sample(key, n=10_000)",
        )


def density(distribution: Distribution, value: Any) -> Density:
    """The density at a name, which takes the domain of the distribution, or at a Value of that domain."""
    if isinstance(value, str):
        return Density(distribution, Variable(value, distribution.domain))
    point = to_value(value)
    _require_fit(distribution, point.output, point)
    return Density(distribution, _numbers(distribution, point))


def _numbers(distribution: Distribution, point: Value) -> Value:
    """Data that are numbers: NaN is refused, and stays NaN under tracing."""
    masked = distribution.family == "MaskedDistribution"
    if masked or not isinstance(point, Array) or point.output.is_discrete:
        return point

    def error() -> DataError:
        return DataError(
            f"{distribution} at data that are not numbers (NaN)",
            expected="numbers",
            advice="leave missing data out, or mask them: dist.Normal(…).mask(present)",
        )

    (data,) = require(point.array == point.array, error, point.array)
    return point if data is point.array else Array._of(data, point.names, point.inputs, point.output, point.mark)


def _require_fit(distribution: Distribution, given: Domain, value: Value) -> None:
    signature = distribution.signature
    rank = signature.event_rank
    try:
        np.broadcast_shapes(given.shape, signature.shape)
        fits = given.shape[len(given.shape) - rank :] == signature.shape[len(signature.shape) - rank :]
    except ValueError:
        fits = False
    if not fits:
        raise DomainError(
            f"{distribution} at {value}, of domain {given!r}", expected=f"a value of domain {signature.domain!r}"
        )
    if signature.domain.is_discrete and not given.is_discrete:
        raise DomainError(
            f"{distribution} at {value}, of domain {given!r}",
            expected=f"an integer: its values are of domain {signature.domain!r}",
        )
