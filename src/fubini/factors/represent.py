"""`fb.represent`: how factors over a variable are stored, under an unchanged model and unchanged algorithms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import jax

from fubini.base.arrays import Data
from fubini.base.interpretations import Interpretation, current
from fubini.base.names import Name
from fubini.base.rules import RuleSet
from fubini.errors import DomainError, Intractable, NameClash, UnknownName, closest, listed
from fubini.terms.exactness import Exactness, projected
from fubini.terms.factor import Factor, product, terms_of


class Representation:
    """How factors over a variable are stored. A layout says how a loop hands them on (`factors/carry.py`).

    `key` is a JAX key, of representations that draw; `projects` says that what is stored may differ from the factor;
    `stores` says in words what is stored.
    """

    key: Data | None = None
    stores: ClassVar[str] = "factors as they are"  # for explanations
    projects: ClassVar[bool] = False
    nests: ClassVar[bool] = False  # its layout has room for those of other variables

    @property
    def mark(self) -> Exactness:
        """How answers relate to the mathematics, where it projects."""
        return projected(repr(self))

    def layout(self, carried: Any, names: tuple[Name, ...]) -> Any:
        """The layout of carries whose variables `names` are so represented; None for that of factors as they are."""
        return None

    def require_answer(self, answer: Any) -> None:
        """Raise where an answer shows that the representation failed."""

    def recast(self, chain: Any) -> Any:
        """Another object that answers what is asked of a chain with such variables; None for the chain itself."""
        return None

    def convert(self, factor: Factor, names: tuple[Name, ...]) -> Factor:
        """A factor whose variables `names` are so represented, as it is stored; itself where nothing changes."""
        return factor

    def restore(self, factor: Factor) -> Factor:
        """An answer about one variable in the form that it has without this representation."""
        return factor

    @property
    def structure(self) -> tuple:
        """What it is, without its key."""
        return (type(self), repr(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Representation) and self.structure == other.structure

    def __hash__(self) -> int:
        return hash(self.structure)


class Represent(Interpretation):
    """An interpretation under which some variables have a representation of their own; `arrays` are its keys.

    `within` says whose names they are, once these are known to be there. A sequence stores factors as its layout says,
    and converts none: `in_sequence`.
    """

    by_name: dict[Name, Representation]
    sources: dict[Name, Name]  # the variable whose key a name uses
    within: str = ""
    in_sequence: bool = False
    of_results: bool = False  # of stored factors: a table that two representations would store stays one
    named: dict[Name, Representation] | None = None  # by the user, to whom those in force are added on entry

    def __enter__(self) -> Represent:
        """The interpretation that is in force now, with these variables added to those that it represents."""
        if self.named is None:
            super().__enter__()
            return self
        made = _added(self.named)
        made.named = None
        return made.__enter__()

    def covering(self, names: Mapping[Name, Name]) -> Represent:
        """The same, where names to the left are represented as those to the right."""
        more = {new: self.by_name[old] for new, old in names.items() if old in self.by_name and new not in self.by_name}
        for new, old in names.items():
            if new in self.by_name and old in self.by_name and self.by_name[new] != self.by_name[old]:
                raise NameClash(
                    f"{self}, where {old!r} and {new!r} are one state, before and after a step",
                    expected=f"one representation for both: {old} alone covers {new}",
                )
        made = _made(self.base, {**self.by_name, **more}, self.arrays, "a sequence", True)
        made.sources = {**self.sources, **{new: self.sources.get(names[new], names[new]) for new in more}}
        return made

    def versions(self) -> Iterator[tuple[Any, Any]]:
        """The rules, and whether factors are converted: `jax.jit` keeps these apart."""
        yield from super().versions()
        yield self.within, (self.in_sequence, self.of_results)

    def known(self, within: str) -> Represent:
        """The same, where its names are known to be those of what is asked."""
        made = _made(self.base, self.by_name, self.arrays, within, self.in_sequence)
        made.sources = self.sources
        return made


_MODEL_RULES: list[RuleSet] = []


def model_rules() -> tuple[RuleSet, ...]:
    """The rules by which models are answered that are sequences."""
    return tuple(_MODEL_RULES)


def answers_models(rules: RuleSet) -> RuleSet:
    """Register rules that come before those of `exact` where representations are named."""
    _MODEL_RULES.append(rules)
    return rules


def _made(
    base: Interpretation | None,
    by_name: dict[Name, Representation],
    keys: Any,
    within: str = "",
    in_sequence: bool = False,
) -> Represent:
    said = ", ".join(f"{name}={representation!r}" for name, representation in by_name.items())
    made = Represent(f"represent({said})", tuple(_MODEL_RULES), base=base, arrays=keys)
    made.by_name, made.sources, made.within, made.in_sequence = by_name, {}, within, in_sequence
    return made


def represent(**variables: Representation) -> Represent:
    """The interpretation in force, with some variables represented as named; one inside another adds to it.

    In a chain a state covers the one after a step: `F` covers `F_next`.

    >>> step = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("x", "x_next"))
    >>> chain = fb.Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "x_next"}, length=3)
    >>> with represent(x=fb.rep.Dense()):
    ...     chain.filter().weights[-1].round(4)
    array([0.6095, 0.3905])
    """
    for name, representation in variables.items():
        if not isinstance(representation, Representation):
            raise DomainError(
                f"represent({name}={representation!r})",
                expected="a representation: fb.rep.Dense(), fb.rep.Truncated(), fb.rep.Particles(n, key), …",
                advice="call it: fb.rep.Truncated()" if isinstance(representation, type) else "",
            )
    return _added({**variables})


def _added(variables: dict[Name, Representation]) -> Represent:
    """The interpretation in force, with these representations beside those that are named in it."""
    outer = represented()
    twice = [name for name in variables if outer is not None and name in outer.by_name]
    if twice and outer is not None and any(outer.by_name[name] != variables[name] for name in twice):
        raise NameClash(
            f"represent({twice[0]}={variables[twice[0]]!r}) inside {outer}",
            expected="one representation for a variable",
            advice="leave the outer `with` first",
        )
    keys = {name: each.key for name, each in variables.items() if each.key is not None}
    base = current().without(Represent)
    inherited = dict(outer.by_name) if outer is not None else {}
    outer_keys = dict(outer.arrays or {}) if outer is not None else {}
    made = _made(base, {**inherited, **variables}, {**outer_keys, **keys})
    made.named = variables
    return made


_SAMPLERS: list[Callable[[int, Data], Representation]] = []


def samples_states(maker: Callable[[int, Data], Representation]) -> Callable[[int, Data], Representation]:
    """Register the representation by which a Monte Carlo interpretation draws the states of a sequence."""
    _SAMPLERS.append(maker)
    return maker


def represent_by_draws(names: Sequence[Name], n: int, key: Data) -> Represent:
    """The interpretation in force, with some variables represented by n draws of them."""
    own = _SAMPLERS[0](n, key)
    outer = represented()
    inherited = dict(outer.by_name) if outer is not None else {}
    keys = dict(outer.arrays or {}) if outer is not None else {}
    drawn, base = dict.fromkeys(names, own), current().without(Represent)
    return _made(base, {**inherited, **drawn}, {**keys, **dict.fromkeys(names, key)}, "a sequence", True)


def represented() -> Represent | None:
    """The representations in force, if some are named."""
    interpretation: Interpretation | None = current()
    while interpretation is not None and not isinstance(interpretation, Represent):
        interpretation = interpretation.base
    return interpretation


def representation_of(name: Name) -> Representation | None:
    """The representation that is named for a variable."""
    own = represented()
    return own.by_name.get(name) if own is not None else None


def keys_in_force() -> dict[Name, Data]:
    """The keys of the representations in force, by variable."""
    own = represented()
    return {} if own is None else own.arrays


def key_of(name: Name) -> Data:
    """The key of a variable that is drawn."""
    own = represented()
    assert own is not None, "a variable is drawn where a representation of it is named"
    return own.arrays[own.sources.get(name, name)]


def with_keys(keys: dict[Name, Data]) -> AbstractContextManager:
    """The interpretation in force over other keys."""
    own = represented()
    return nullcontext() if own is None else _replaced(current(), own, own.with_arrays(keys))


def without_keys() -> AbstractContextManager:
    """The interpretation in force without the keys of its representations, which compiled functions are given."""
    return with_keys(jax.tree.map(lambda leaf: None, keys_in_force()))


def _replaced(interpretation: Interpretation, old: Interpretation, new: Interpretation) -> Interpretation:
    if interpretation is old:
        return new
    assert interpretation.base is not None, "the old one is among the bases"
    own = interpretation.with_arrays(interpretation.arrays)
    own.base, own._by_head = _replaced(interpretation.base, old, new), {}
    return own


def within(names: Mapping[Name, Name]) -> AbstractContextManager:
    """The interpretation in force, where names to the left are represented as those to the right."""
    own = represented()
    return nullcontext() if own is None else _replaced(current(), own, own.covering(names))


# -- what is asked ----------------------------------------------------------------------------------------------------


def converted(terms: Sequence[Factor]) -> list[Factor]:
    """The terms as the representations of their variables store them."""
    own = represented()
    return list(terms) if own is None or own.in_sequence else [_converted(term, own) for term in terms]


def _converted(term: Factor, own: Represent) -> Factor:
    named = {name: own.by_name[name] for name in term.inputs if name in own.by_name}
    several = dict.fromkeys(named.values())
    stored = {each: each.convert(term, tuple(name for name in named if named[name] == each)) for each in several}
    changed = [each for each, factor in stored.items() if factor is not term]
    if len(changed) > 1 and own.of_results:
        return term
    if len(changed) > 1:
        raise Intractable(
            f"{term} under {own}",
            expected="one representation for the variables of one factor, beside fb.rep.Dense",
            nearest=f"{changed[0]} and {changed[1]} would both store it",
        )
    return stored[changed[0]] if changed else term


def asked_by(question: str) -> AbstractContextManager:
    """The interpretation in force, for the parts of a question that has found its names."""
    own = represented()
    return nullcontext() if own is None else _replaced(current(), own, own.known(question))


def storing_results() -> AbstractContextManager:
    """The interpretation in force, where factors that are converted are products of stored ones."""
    own = represented()
    if own is None:
        return nullcontext()
    made = own.known(own.within)
    made.of_results = True
    return _replaced(current(), own, made)


def restored(factor: Factor) -> Factor:
    """An answer about one variable in the form that it has where nothing is represented."""
    own = represented()
    if own is None or own.in_sequence:
        return factor
    terms = terms_of(factor)
    for representation in dict.fromkeys(own.by_name.values()):
        terms = [representation.restore(term) for term in terms]
    return product(*terms)


def known_in(names: Callable[[], Iterable[Name]], asked: str, handed_on: Iterable[Name] = ()) -> AbstractContextManager:
    """The interpretation in force, once each name of its representations is found among those of what is asked.

    Representations of steps are for the names that are handed on. Parts of the question, which lack some of the names,
    are not asked again.
    """
    own = represented()
    if own is None or own.within:
        return nullcontext()
    require_known(names(), asked)
    require_stored(asked, handed_on)
    return _replaced(current(), own, own.known(asked))


def is_plain(representation: Representation) -> bool:
    """Whether factors stay as they are, in sequences and elsewhere."""
    kind, base = type(representation), Representation
    return (kind.layout, kind.recast, kind.convert) == (base.layout, base.recast, base.convert)


def is_of_steps(representation: Representation) -> bool:
    """Whether only sequences have a representation: no factor is stored by it otherwise."""
    return not is_plain(representation) and type(representation).convert is Representation.convert


def require_stored(asked: str, handed_on: Iterable[Name] = ()) -> None:
    """Raise where a representation is named that only sequences have, for a variable that no sequence hands on."""
    own, states = represented(), set(handed_on)
    for name, each in own.by_name.items() if own is not None else ():
        if is_of_steps(each) and name not in states:
            raise Intractable(
                f"{asked} under represent({name}={each!r})",
                expected="representations of tables: fb.rep.Sparse, Diagram, Train, Circuit or Dense",
                nearest=f"{each!r} projects what the steps of fb.Chain hand on",
                advice="ask fb.Chain, or project messages: `with fb.moment_matching():`, fb.expectation_propagation",
            )


def require_known(names: Iterable[Name], asked: str) -> None:
    """Raise where a representation is named for a variable that is not there."""
    own = represented()
    known = dict.fromkeys(names)
    unknown = [name for name in own.by_name if name not in known] if own is not None else []
    if unknown:
        raise UnknownName(
            f"{own} for {asked}", expected=f"variables of it: {listed(known)}", nearest=closest(unknown[0], known)
        )
