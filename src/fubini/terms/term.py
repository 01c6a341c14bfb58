"""Terms: immutable trees of typed expressions that may hold arrays.

A term class declares its fields (`fubini.terms.fields`): arrays, sub-terms and static data. Everything generic
(traversal, pytrees, structural keys, equality, pickling) follows from that declaration.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Self

import jax
import numpy as np

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.names import Bound, Name
from fubini.errors import DomainError, FubiniError, UnknownName, closest, listed
from fubini.show.markup import latex
from fubini.show.notation import Notation, Phrase, Symbol
from fubini.show.printed_form import Block, Expression, Shown
from fubini.show.styles import text
from fubini.terms.exactness import Exactness
from fubini.terms.fields import Fields, collect_fields

WRITTEN_OUT = 400  # terms of an expression that are all written out
NAMES = 12  # of a term that are all printed


class Term(Shown):
    """A Value or a Factor.

    `inputs` maps the free names to their domains. Subclasses declare their fields, and assign each exactly once, in
    `__init__`.
    """

    _declared: ClassVar[Fields] = Fields()
    _is_record: ClassVar[bool] = False  # a pytree of its sub-terms, so that those can be distinguished in it
    inputs: dict[Name, Domain]
    __array_ufunc__ = None  # so that NumPy's arrays and numbers on the left of an operator leave it to the term

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._declared = collect_fields(cls)
        flatten, unflatten = (_flatten_record, _unflatten_record) if cls._is_record else (_flatten, _unflatten)
        jax.tree_util.register_pytree_node(cls, flatten, unflatten)

    def _set(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise FubiniError(f"assigning {name!r} of a {type(self).__name__}", expected="terms are immutable")

    def __delattr__(self, name: str) -> None:
        raise FubiniError(f"deleting {name!r} of a {type(self).__name__}", expected="terms are immutable")

    def _statics(self) -> dict[str, Any]:
        return {field: self.__dict__[field] for field in self._declared.statics}

    @property
    def children(self) -> tuple[Term, ...]:
        """The sub-terms, in order."""
        terms: list[Term] = []
        for field in self._declared.terms:
            value = self.__dict__[field]
            terms.extend(value) if isinstance(value, tuple) else terms.append(value)
        return tuple(terms)

    def leaves(self) -> Iterator[Data]:
        """The arrays in the term, in a fixed order."""
        for field in self._declared.arrays:
            yield self.__dict__[field]
        for child in self.children:
            yield from child.leaves()

    def _leading_names(self, field: str) -> tuple[Name, ...] | None:
        """The names of the leading axes of one of its own arrays; None where they are not told."""
        return None

    def rebuilt(self, leaves: Iterator[Data]) -> Self:
        """The same term over other leaves; nothing is validated."""
        return self._copied(lambda _: next(leaves), lambda child: child.rebuilt(leaves))

    def _copied(self, of_leaf: Callable[[Data], Data], of_child: Callable[[Term], Term]) -> Self:
        new = object.__new__(type(self))
        fields = new.__dict__
        fields.update((key, value) for key, value in self.__dict__.items() if not key.startswith("_cached"))
        for field in self._declared.arrays:
            fields[field] = of_leaf(fields[field])
        for field in self._declared.terms:
            value = fields[field]
            fields[field] = tuple(map(of_child, value)) if isinstance(value, tuple) else of_child(value)
        return new

    @property
    def structure(self) -> tuple:
        """Heads, domains, static data, with bound variables by position: what two alike terms share."""
        cached = self.__dict__.get("_cached_structure")
        if cached is None:
            cached = _structure(self, {})
            self.__dict__["_cached_structure"] = cached
        return cached

    @property
    def key(self) -> tuple:
        """The structural key: structure, leaf shapes and dtypes, and which leaves coincide."""
        leaves = tuple(self.leaves())
        first: dict[int, int] = {}
        arrays = [(position, leaf) for position, leaf in enumerate(leaves) if isinstance(leaf, (jax.Array, np.ndarray))]
        pattern = tuple(first.setdefault(id(leaf), position) for position, leaf in arrays)
        return (self.structure, tuple(map(_signature, leaves)), pattern)

    def __eq__(self, other: object) -> bool:
        raise DomainError(
            f"{self} == {other}",
            expected="Values or numbers: factors and distributions are functions",
            nearest="a comparison of how terms are written, which `==` is not",
            advice="fb.same(a, b) compares terms by structure, and their arrays by identity",
        )

    __hash__ = object.__hash__

    def __getstate__(self) -> dict:
        return {key: value for key, value in self.__dict__.items() if not key.startswith("_cached")}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)

    def notation(self) -> Notation:
        """The notation of the term."""
        raise FubiniError(f"a text for a {type(self).__name__}", expected="a term that supplies notation()")

    def _brief_notation(self) -> Notation:
        """The notation; of an expression too long to be read, what it is of."""
        if _is_readable(self):
            return self.notation()
        names = ", ".join(map(str, list(self.inputs)[:NAMES])) + ", …" * (len(self.inputs) > NAMES)
        return Phrase(f"an expression of more than {WRITTEN_OUT} terms{f' over {names}' if names else ''}")

    def _form(self) -> Iterable[Block]:
        yield Expression(self._brief_notation())

    def __format__(self, spec: str) -> str:
        """Show the term on one line inside another text, or as a number where the format is one of numbers."""
        return format(float(self), spec) if spec else text(self._brief_notation())  # type: ignore[arg-type]

    def _repr_latex_(self) -> str:
        return f"${latex(self._brief_notation())}$"

    def _require_names(self, names: Mapping | tuple, asked: Callable[[object], str]) -> None:
        for name in names:
            if name not in self.inputs:
                raise UnknownName(
                    asked(name),
                    expected=f"a free name of the term: {listed(self.inputs)}",
                    nearest=closest(name, self.inputs),
                    advice="check the spelling; `.inputs` lists the names",
                )


def typed_names(inputs: Mapping[Name, Domain]) -> tuple[Notation, ...]:
    """Names with their domains; of many, the first."""
    shown = [Symbol(str(name), repr(domain)) for name, domain in itertools.islice(inputs.items(), NAMES)]
    return (*shown, *([Symbol(f"… {len(inputs) - NAMES:,} more")] if len(inputs) > NAMES else []))


def _is_readable(term: Term) -> bool:
    """Whether an expression has few terms; shared ones are written, and counted, each time."""
    count, terms = 0, [term]
    while terms and count <= WRITTEN_OUT:
        count += 1
        terms.extend(terms.pop().children)
    return count <= WRITTEN_OUT


def _signature(leaf: Data) -> tuple:
    if isinstance(leaf, (jax.Array, np.ndarray)):
        return (isinstance(leaf, jax.Array), leaf.shape, leaf.dtype.name)
    return (False, (), type(leaf).__name__)


def _structure(term: Term, bound: dict[Bound, int]) -> tuple:
    """Bound names are numbered in order of first appearance, so the numbering is the same for alike terms."""
    statics = tuple(_canonical(value, bound) for value in term._statics().values())
    inputs = tuple((_canonical(name, bound), domain) for name, domain in term.inputs.items())
    return (type(term), statics, inputs, tuple(_structure(child, bound) for child in term.children))


def _canonical(value: Any, bound: dict[Bound, int]) -> Any:
    if isinstance(value, Bound):
        return (Bound, bound.setdefault(value, len(bound)))
    if isinstance(value, tuple):
        return tuple(_canonical(item, bound) for item in value)
    return value


def same(a: object, b: object) -> bool:
    """Two terms are written alike, up to the names that they bind, over the very same arrays.

    >>> from fubini.terms.value import Variable
    >>> from fubini.base.domains import Real
    >>> x = Variable("x", Real)
    >>> same(x * x, Variable("x", Real) * x), same(x * x, x + x)
    (True, False)
    """
    if not isinstance(a, Term) or not isinstance(b, Term) or a.structure != b.structure:
        return False
    return all(map(_same_leaf, a.leaves(), b.leaves()))


def _same_leaf(a: Data, b: Data) -> bool:
    """Whether two leaves are one array, or equal numbers of one type."""
    if a is b or isinstance(a, (jax.Array, np.ndarray)) or type(a) is not type(b):
        return a is b
    return bool(a == b)


class _Skeleton:
    """A term without its leaves and the error of its numbers: the static part of the pytree, equal for alike terms."""

    __slots__ = ("hash", "structure", "template")

    def __init__(self, term: Term) -> None:
        self.structure = term.structure
        self.hash = hash(term.structure)
        self.template = term._copied(lambda _: None, lambda child: _Skeleton(child).template)
        for field, mark in term._statics().items():
            if isinstance(mark, Exactness):
                self.template._set(**{field: mark.without_error()})

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Skeleton) and self.structure == other.structure)

    def __hash__(self) -> int:
        return self.hash

    def __repr__(self) -> str:
        return f"{type(self.template).__name__}{dict(self.template.inputs)}"


def _skeleton(term: Term) -> _Skeleton:
    skeleton = term.__dict__.get("_cached_skeleton")
    if skeleton is None:
        skeleton = term.__dict__["_cached_skeleton"] = _Skeleton(term)
    return skeleton


def _flatten(term: Term) -> tuple[tuple[Data, ...], _Skeleton]:
    return tuple(term.leaves()), _skeleton(term)


def _flatten_record(term: Term) -> tuple[tuple[Term, ...], _Skeleton]:
    return term.children, _skeleton(term)


def _unflatten_record(skeleton: _Skeleton, children: tuple[Term, ...]) -> Term:
    parts = iter(children)
    return skeleton.template._copied(lambda _: None, lambda _: next(parts))


def _unflatten(skeleton: _Skeleton, leaves: tuple[Data, ...]) -> Term:
    return skeleton.template.rebuilt(iter(leaves))
