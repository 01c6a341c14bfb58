"""What can be projected onto Gaussians, and the error of what cannot."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fubini.base.names import Name
from fubini.errors import Intractable, listed
from fubini.factors.piecewise import Piecewise
from fubini.factors.promotion import promoted
from fubini.terms.factor import Factor, Product, Unit, terms_of


def is_cut(terms: Sequence[Factor], names: Collection[Name]) -> bool:
    """Whether a term has boxes of some of these variables: their integral is then no Gaussian."""
    return any(isinstance(term, Piecewise) and any(cut.name in names for cut in term.cuts) for term in terms)


def summed_without_boxes(joint: Factor, names: Sequence[Name]) -> Factor:
    """∫ of the parts of a piecewise factor over the whole line: Gaussians with the precisions of its boxes."""
    whole = promoted(joint)
    parts = promoted(whole.parts) if isinstance(whole, Piecewise) else whole
    return promoted(parts.sum(*names))


def require_moments(f: Factor, name: str) -> None:
    """Raise where a factor of a product is neither a Gaussian nor a box, and say which."""
    if not isinstance(f, Product):
        return
    opaque = [term for term in terms_of(f) if term.promotes and not isinstance(term, Unit)]
    raise Intractable(
        f"{name} of {f}",
        expected="Gaussians, tables, and factors that jump where a real variable crosses a number",
        nearest=f"{listed(opaque or terms_of(f))}: not read as any of these",
        advice="write the condition by comparisons with numbers, fb.ops.where(x[0] > 0, …), or as fb.Piecewise; "
        "or represent the variable by fb.rep.Particles or fb.rep.Grid, which read any function",
    )
