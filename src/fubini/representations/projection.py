"""What can be projected onto Gaussians, and the error of what cannot."""

from __future__ import annotations

from fubini.errors import Intractable, listed
from fubini.terms.factor import Factor, Product, Unit, terms_of


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
