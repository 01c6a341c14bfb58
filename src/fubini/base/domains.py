"""Domains: what values a variable takes.

`Bint[n]` is {0 … n−1}, `Bint[n, 10]` an array of ten of them; `Real`, `Reals[2, 3]`; `Nat`; reals with a support
(`Positive`, `Unit`, `Simplex[k]`, `PositiveDefinite[p]`), each also as arrays (`Positive[3]`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fubini.errors import DataError, DomainError, closest, listed

K = TypeVar("K")
LABELS, LONGEST, CUT = 12, 80, 20  # labels of a domain that are all printed, characters of all, and of one


@dataclass(frozen=True, eq=True)
class Domain:
    """A set of scalars (`kind`, with `size` for bounded integers), repeated over an array `shape`.

    >>> Real, Reals[2, 3], Positive[3], Simplex[4]
    (Real, Reals[2, 3], Positive[3], Simplex[4])
    """

    kind: str
    size: int | None = None
    shape: tuple[int, ...] = ()
    labels: tuple[str, ...] | None = None

    def __getitem__(self, shape: int | tuple[int, ...]) -> Domain:
        return Domain(self.kind, self.size, _as_shape(shape) + self.shape, self.labels)

    @property
    def is_discrete(self) -> bool:
        """Whether the values are integers, bounded or not.

        >>> Nat.is_discrete, Real.is_discrete
        (True, False)
        """
        return self.kind in ("bint", "nat", "integer")

    @property
    def is_finite(self) -> bool:
        """A scalar bounded integer: what a table can have as an axis.

        >>> Bint[3].is_finite, Nat.is_finite
        (True, False)
        """
        return self.kind == "bint" and not self.shape

    @property
    def extent(self) -> int:
        """The number of values that a bounded integer takes.

        >>> Bint[3].extent
        3
        """
        assert self.size is not None, f"{self!r} is not bounded"
        return self.size

    @property
    def scalar(self) -> Domain:
        """The domain of one element of the array.

        >>> Reals[2, 3].scalar
        Real
        """
        return Domain(self.kind, self.size, (), self.labels)

    def with_shape(self, shape: tuple[int, ...]) -> Domain:
        """The same scalars in another array shape.

        >>> Positive.with_shape((2,))
        Positive[2]
        """
        return self if shape == self.shape else Domain(self.kind, self.size, tuple(shape), self.labels)

    def index(self, label: str, asked: str = "") -> int:
        """The position of a label.

        >>> Bint.labelled("no", "yes").index("yes")
        1
        """
        labels = self.labels or ()
        if label in labels:
            return labels.index(label)
        raise DataError(
            asked or f"the label {label!r} in {self!r}",
            expected=f"one of {listed(labels)}" if labels else "an integer: this domain has no labels",
            nearest=closest(label, labels),
        )

    def label(self, index: int) -> str | int:
        """The label at a position, or the position itself where there are no labels.

        >>> Bint.labelled("no", "yes").label(1), Bint[2].label(1)
        ('yes', 1)
        """
        return int(index) if self.labels is None else self.labels[int(index)]

    def __repr__(self) -> str:
        if self.kind == "bint":
            if self.labels is not None:
                extent = f", shape={self.shape}" if self.shape else ""
                return f"Bint.labelled({', '.join(_few(self.labels))}{extent})"
            return f"Bint[{', '.join(map(str, (self.size, *self.shape)))}]"
        if self.kind == "simplex":
            *batch, k = self.shape
            inner = f"Simplex[{k}]"
            return f"{inner}[{', '.join(map(str, batch))}]" if batch else inner
        if self.kind == "positive_definite":
            *batch, p, _ = self.shape
            inner = f"PositiveDefinite[{p}]"
            return f"{inner}[{', '.join(map(str, batch))}]" if batch else inner
        name = _NAMES[self.kind]
        if not self.shape:
            return name
        return f"{'Reals' if name == 'Real' else name}[{', '.join(map(str, self.shape))}]"


def _few(labels: tuple[str, ...]) -> list[str]:
    """Labels in quotes; of many, or of long ones, the first, cut short, and how many there are beside them."""
    shown = [repr(label) for label in labels[: LABELS + 1]]
    if len(labels) <= LABELS and sum(map(len, shown)) <= LONGEST:
        return shown
    first = [repr(label if len(label) <= CUT else f"{label[: CUT - 1]}…") for label in labels[: LABELS // 4]]
    return [*first, f"… {len(labels) - len(first):,} more"]


def _as_shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    extents = shape if isinstance(shape, tuple) else (shape,)
    for extent in extents:
        if isinstance(extent, bool) or not hasattr(extent, "__index__") or operator.index(extent) < 0:
            raise DomainError(f"a domain of shape {shape!r}", expected="non-negative integers")
    return tuple(map(operator.index, extents))


_NAMES = {"real": "Real", "nat": "Nat", "integer": "Integer", "positive": "Positive", "unit": "Unit"}


class _BintFactory:
    """`Bint[n]`, `Bint[n, 10]`, `Bint.labelled("no", "yes")`.

    >>> Bint[3], Bint[3, 10], Bint.labelled("no", "yes").size
    (Bint[3], Bint[3, 10], 2)
    """

    def __getitem__(self, size: int | tuple[int, ...]) -> Domain:
        size, *shape = _as_shape(size)
        if size < 1:
            raise DomainError(f"Bint[{size}]", expected="a size of at least 1")
        return Domain("bint", size, tuple(shape))

    def labelled(self, *labels: str) -> Domain:
        """A bounded integer whose values have names.

        >>> Bint.labelled("no", "yes")
        Bint.labelled('no', 'yes')
        """
        if not labels or len(set(map(str, labels))) != len(labels):
            raise DomainError(f"labels {listed(labels)}", expected="at least one label, all different")
        return Domain("bint", len(labels), (), tuple(map(str, labels)))

    def __repr__(self) -> str:
        return "Bint"


class _SimplexFactory:
    """`Simplex[k]`: k non-negative numbers that add up to 1.

    >>> Simplex[3], Simplex[3][5]
    (Simplex[3], Simplex[3][5])
    """

    def __getitem__(self, size: int) -> Domain:
        return Domain("simplex", None, _as_shape(size))

    def __repr__(self) -> str:
        return "Simplex"


class _PositiveDefiniteFactory:
    """`PositiveDefinite[p]`: symmetric matrices of p rows and columns whose eigenvalues are positive.

    >>> PositiveDefinite[2].shape, PositiveDefinite[2][5]
    ((2, 2), PositiveDefinite[2][5])
    """

    def __getitem__(self, size: int) -> Domain:
        return Domain("positive_definite", None, _as_shape((size, size)))

    def __repr__(self) -> str:
        return "PositiveDefinite"


Bint = _BintFactory()
Real = Domain("real")
Reals = Real
Nat = Domain("nat")
Integer = Domain("integer")
Positive = Domain("positive")
Unit = Domain("unit")
Simplex = _SimplexFactory()
PositiveDefinite = _PositiveDefiniteFactory()


def merge_domains(name: object, first: Domain, second: Domain) -> Domain:
    """The one domain of a name that two factors share; labels may be missing on one side.

    >>> merge_domains("a", Bint[2], Bint.labelled("no", "yes"))
    Bint.labelled('no', 'yes')
    """
    if first == second:
        return first
    same = (first.kind, first.size, first.shape) == (second.kind, second.size, second.shape)
    if same and (first.labels is None or second.labels is None):
        return second if first.labels is None else first
    raise DomainError(
        f"the name {name!r} with the domains {first!r} and {second!r}",
        expected="one domain for each name",
        advice=f"rename one of the two: f({name}='another_name')",
    )


def merge_inputs(*inputs: Mapping[K, Domain]) -> dict[K, Domain]:
    """The union of typed names, in order of first appearance.

    >>> merge_inputs({"a": Bint[3], "b": Bint[2]}, {"b": Bint[2], "c": Bint[4]})
    {'a': Bint[3], 'b': Bint[2], 'c': Bint[4]}
    """
    merged: dict[K, Domain] = dict(inputs[0]) if inputs else {}
    for more in inputs[1:]:
        for name, domain in more.items():
            known = merged.setdefault(name, domain)
            if known is not domain and known != domain:
                merged[name] = merge_domains(name, known, domain)
    return merged


def table_size(domains: Sequence[Domain]) -> int:
    """The number of cells of a table over these domains."""
    return math.prod(domain.extent for domain in domains)
