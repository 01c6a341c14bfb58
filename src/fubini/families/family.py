"""What is known of a family of distributions, in one record; and all records by name.

The numbers of a density come from `fubini.distributions`; index notation, recognition, draws, moments, modes from here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fubini.algebra.build import ONE, ZERO, less, plus, power, times, where
from fubini.algebra.node import Index, Node
from fubini.base.arrays import Data
from fubini.errors import Intractable, NameClash, UnknownFamily, closest
from fubini.families.functions import INFINITY, UNDEFINED, is_never_positive
from fubini.families.parameters import Arrays, DerivedParameter, MatrixParameters, Support, Vector
from fubini.families.signature import Form, Recognised, Signature
from fubini.families.summand import Summand

Function = Callable[[Any], Any]  # of parameters by name: nodes, or Vectors where the parameter is one
Density = Callable[[Any, Any], Node]  # of a value and parameters by name


@dataclass(frozen=True, eq=False)
class Family:
    """A family by its mathematics. What is not known of it is None, and what needs that is refused."""

    name: str
    parameters: Mapping[str, Any]  # constraints by name, in order
    support: Support | Callable[[Any], Support | None]
    log_density: Density  # on the support
    log_density_everywhere: Density | None = None  # −∞ outside; None where the domain of the values is the support
    names: tuple[str, ...] = ()  # in `fubini.distributions`: the first of them is made, all of them are read
    finite_draws: Mapping[str, Any] | None = None  # stricter constraints of parameters, under which a draw ends
    alternatives: Mapping[str, Any] | None = None  # other parameters that `log_density` knows, by name
    signature: Signature | None = None
    draw: Callable[[Any, Arrays], Data] | None = None  # of parameters of one shape
    draw_later: Callable[[Any, Arrays, Data, int], Data] | None = (
        None  # so many more entries of a value, by a key, the parameters and its first entries
    )
    mean: Function | None = None
    variance: Function | None = None
    moments: Callable[[Any, int], list[Node]] | None = None  # E[x^j] for j from 0 to a greatest power
    mean_logs: Callable[[Any], Mapping[str, Node]] | None = None  # E[log x] as log, and E[log(1 − x)] as log1m
    summand: Callable[[Any], Summand] | None = None  # what a draw adds to a sum of independent ones
    log_mass: Callable[[Any, Node, Node], Node] | None = None  # log P(low < x < high)
    log_survival: Density | None = None  # log P(X > x), for x of the support
    log_tail: Callable[[Any, Node], Node] | None = None  # log P(low ≤ x) of counts, for low of 1 or more
    truncated: str | None = None  # the family between two ends, with these parameters and the ends
    exponential: str | None = None  # the family of e^x, with these parameters
    folded: str | None = None  # the family of |x| around 0, with these parameters but loc
    folds: str | None = None  # the family that it is |x| of, where it has no other name in `fubini.distributions`
    special_case: Callable[[Any], tuple[str, tuple[Node, ...]] | None] = lambda parameters: (
        None
    )  # a family of fewer parameters, and those
    gamma_of_power: Callable[[Any], tuple[Node, Node, float]] | None = None  # a, b, p where b x^p is Gamma(a, 1)
    student_matrix: Callable[[Arrays], Data] | None = None  # S with t(m, scale S, ν − p + 1) = ∫ N(m, S) p(S) dS
    mode: Function | None = None
    mode_in_numbers: Callable[[Arrays], Data] | None = None  # where it has no form in index notation
    mode_needs: Callable[[Any], tuple[Any, ...]] = lambda parameters: ()  # positive where the mode is inside
    flat: Function | None = None  # the log-density where it is the same at every value
    finite_needs: Callable[[Any], tuple[Node, ...]] = (
        lambda parameters: ()
    )  # positive where what is recognised is finite
    equation: str = ""  # the integral, as `explain` prints it
    plain_words: str = ""  # what it is, where `fubini.distributions` has no name for it
    is_probability: bool = True
    event_dim: int = 0  # axes of a value
    derived: Callable[[Collection[str]], Mapping[str, DerivedParameter]] = (
        lambda names: {}
    )  # by the names of the parameters that are given, and `present` where entries of a value are missing
    structured: Callable[[Any, Any, MatrixParameters], Node | None] | None = (
        None  # the density of values, parameters and matrices with a structure; None where these have no such
    )
    is_possible: Density | None = None  # the test of values that their domain allows, and the support does not
    has_marginals: bool = False  # the density of the entries that are present is known
    degree: tuple[int, bool] | None = None  # of log p, a polynomial in the value, and whether entries are multiplied
    is_enumerated: bool = False  # few values of a draw are summed over one by one
    is_read: bool = True  # models with this family are read in index notation

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.parameters)})"

    @property
    def is_of_vectors(self) -> bool:
        """Whether some parameter is a vector: its values are vectors, or labels."""
        return bool(self.event_dim) or any(constraint.event_dim for constraint in self.parameters.values())

    @property
    def is_flat(self) -> bool:
        """The same density at every value between its ends `low` and `high`."""
        return self.flat is not None and {"low", "high"} <= self.parameters.keys()

    @property
    def is_of_labels(self) -> bool:
        """It is recognised from the weights of finitely many labels."""
        return self.signature is not None and self.signature.form == "labels"

    @property
    def constraints(self) -> dict[str, Any]:
        """The constraints of all parameters that `log_density` knows, by name."""
        return {**self.parameters, **(self.alternatives or {})}

    @property
    def rank(self) -> int:
        """The most axes that one of its parameters has."""
        return max((constraint.event_dim for constraint in self.constraints.values()), default=0)

    def places(self, name: str, at: Sequence[Index]) -> tuple[Index, ...]:
        """The indices of a parameter among those of its batch and of the parameter with most axes."""
        batch = len(at) - self.rank
        return (*at[:batch], *at[len(at) - self.constraints[name].event_dim :])

    def support_at(self, parameters: Any) -> Support | None:
        """The support, where the density is not zero; None of points of a simplex."""
        return self.support if isinstance(self.support, Support) else self.support(parameters)

    def log_density_of(self, x: Any, parameters: Any) -> Node:
        """log p(x), −∞ outside the support."""
        return (self.log_density_everywhere or self.log_density)(x, parameters)

    def moments_up_to(self, parameters: Any, most: int) -> list[Node] | None:
        """E[x^j] for j from 0 to a greatest power; None where they are not known."""
        if self.moments is not None:
            return self.moments(parameters, most)
        known = [ONE]
        if self.mean is not None:
            known.append(self.mean(parameters))
        if self.mean is not None and self.variance is not None:
            known.append(plus(self.variance(parameters), power(known[1], 2.0)))
        return known[: most + 1] if most < len(known) else None

    # -- the greatest value ------------------------------------------------------------------------------------------

    def require_mode(self, parameters: Any) -> None:
        """Raise where no parameters that are possible have a mode inside the support."""
        entries = [need.entry if isinstance(need, Vector) else need for need in self.mode_needs(parameters)]
        if (self.mode is None and self.flat is None) or any(map(is_never_positive, entries)):
            raise Intractable(
                f"the mode of {self.name} with {', '.join(f'{key} = {part}' for key, part in parameters.items())}",
                expected="a density with its maximum inside the support"
                + "".join(f", with {entry} > 0" for entry in entries),
                advice="ask for the mean or for draws; elsewhere the density is greatest at an end of the support",
            )

    def mode_at(self, parameters: Any) -> Any:
        """The value of greatest density: not a number where it is not inside the support."""
        self.require_mode(parameters)
        if self.mode is None:
            raise Intractable(f"one mode of {self.name}", expected="a density that is not the same everywhere")
        mode = self.mode(parameters)
        if isinstance(mode, Vector):
            return mode
        return where(self._has_mode(parameters), mode, UNDEFINED)

    def log_maximum(self, parameters: Any) -> Node:
        """max_x log p(x): ∞ where the mode is not inside the support."""
        self.require_mode(parameters)
        if self.flat is not None:
            return self.flat(parameters)
        assert self.mode is not None
        return where(self._has_mode(parameters), self.log_density(self.mode(parameters), parameters), INFINITY)

    def _has_mode(self, parameters: Any) -> Node:
        return times(*(less(ZERO, need) for need in self.mode_needs(parameters) if isinstance(need, Node)))


# -- all of them ----------------------------------------------------------------------------------------------------

_BY_NAME: dict[str, Family] = {}
_BY_DIST_NAME: dict[str, Family] = {}


def register(family: Family) -> Family:
    """A family that is known from now on, by its name and by those it has in `fubini.distributions`."""
    taken = [name for name in (family.name, *family.names) if name in _BY_NAME or name in _BY_DIST_NAME]
    if taken:
        raise NameClash(
            f"a family {family.name!r}",
            expected="a name that no family has",
            nearest=f"{taken[0]!r} is {(_BY_NAME.get(taken[0]) or _BY_DIST_NAME[taken[0]])!r}",
            advice="register it under another name",
        )
    _BY_NAME[family.name] = family
    _BY_DIST_NAME.update(dict.fromkeys(family.names, family))
    return family


def families() -> Iterator[Family]:
    """All families that are known."""
    yield from tuple(_BY_NAME.values())


def is_family(name: str) -> bool:
    """A family of this name is known."""
    return name in _BY_NAME


def family_of(name: str) -> Family:
    """The family of this name.

    >>> family_of("Gamma")
    Gamma(concentration, rate)
    """
    if name not in _BY_NAME:
        raise UnknownFamily(
            f"the family {name!r}",
            expected="one that is known in index notation",
            nearest=closest(name, _BY_NAME),
            advice="fb.register_family(…) adds one",
        )
    return _BY_NAME[name]


def read_family(dist_name: str) -> Family | None:
    """The family that goes by this name in `fubini.distributions`, where its log-density is read."""
    family = _BY_DIST_NAME.get(dist_name)
    return family if family is not None and family.is_read else None


def is_divergent(distribution: Recognised) -> bool:
    """The integral of what was recognised is infinite, whatever the coefficients are."""
    return any(map(is_never_positive, family_of(distribution.family).finite_needs(distribution.parameters)))


def recognise(form: Form, *coefficients: Any) -> Recognised | None:
    """The family whose signature accepts the coefficients of a form, with its parameters and normaliser."""
    for family in _BY_NAME.values():
        if family.signature is not None and family.signature.form == form:
            match = family.signature.make(*coefficients)
            if match is not None:
                peak = family.signature.peak
                return Recognised(family.name, *match, None if peak is None else peak(*coefficients))
    return None


def is_of_labels(name: str) -> bool:
    """A family of finitely many labels."""
    return is_family(name) and family_of(name).is_of_labels


def family_on_simplex() -> Family:
    """The family that is recognised on a simplex."""
    return next(record for record in families() if record.signature is not None and record.signature.form == "simplex")
