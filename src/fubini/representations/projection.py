"""What can be projected onto Gaussians, and the error of what cannot."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from fubini.base.names import Name
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.terms.factor import Factor, Product, Unit, product, terms_of


def is_cut(terms: Sequence[Factor], names: Collection[Name]) -> bool:
    """Whether a term has boxes of some of these variables: their integral is then no Gaussian."""
    return any(isinstance(term, Piecewise) and any(cut.name in names for cut in term.cuts) for term in terms)


def summed_without_boxes(joint: Factor, names: Sequence[Name]) -> Factor:
    """∫ of the parts of a piecewise factor over the whole line: Gaussians with the precisions of its boxes."""
    whole = promoted(joint)
    parts = promoted(whole.parts) if isinstance(whole, Piecewise) else whole
    return promoted(parts.sum(*names))


@contextmanager
def named_where_opaque(terms: Sequence[Factor], name: str) -> Iterator[None]:
    """Where a sum of a product is refused, and one of its factors is neither a Gaussian nor a box, say which."""
    try:
        yield
    except (Intractable, NoRule) as error:
        opaque = _opaque(terms)
        if not opaque:
            raise
        raise _not_read(name, product(*terms), opaque) from error


def require_moments(f: Factor, name: str) -> None:
    """Raise where a factor of a product is neither a Gaussian nor a box, and say which."""
    if isinstance(f, Product):
        raise _not_read(name, f, _opaque(terms_of(f)) or terms_of(f))


def _opaque(terms: Sequence[Factor]) -> list[Factor]:
    """The terms that no rule turns into a representation."""
    return [term for term in map(promoted, terms) if term.promotes and not isinstance(term, Unit)]


def _not_read(name: str, f: Factor, opaque: Sequence[Factor]) -> Intractable:
    return Intractable(
        f"{name} of {f}",
        expected="Gaussians, tables, and factors that jump where a real variable crosses a number",
        nearest=f"{listed(opaque)}: not read as any of these",
        advice="write the condition by comparisons with numbers, fb.ops.where(x[0] > 0, …), or as fb.Piecewise; "
        "or represent the variable by fb.rep.Particles or fb.rep.Grid, which read any function",
    )
