"""A plate of mixtures under moment matching: one cell after another, projected after each (assumed density filtering).

Π_j Σ_c f(j, c, z) has |c|^|j| terms. It stays lazy until a Gaussian over z comes to be multiplied by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fubini.approximate.moment_matching import matches_multiply, matches_multiply_out
from fubini.base import lax_loops
from fubini.base.interpretations import current
from fubini.base.names import Name
from fubini.base.semirings import sum_product
from fubini.errors import Intractable, listed
from fubini.factors.carry import layout_of, settled
from fubini.factors.gaussian import Gaussian
from fubini.factors.gaussian_carry import GaussianLayout
from fubini.factors.mixture import Mixture, require_discrete
from fubini.factors.mixture_moments import matched
from fubini.factors.slices import slices
from fubini.sequence.compiled import run
from fubini.sequence.links import fixed_bound
from fubini.sequence.steps import joined
from fubini.show.notation import Big, Notation
from fubini.terms.exactness import combined, projected
from fubini.terms.factor import Factor, rename
from fubini.terms.fields import static_field, term_field
from fubini.terms.value import Value


class MixturePlate(Factor):
    """Π_j Σ_c f(j, c, …), not multiplied out."""

    body: Mixture = term_field()
    plate: Name = static_field()

    def __init__(self, body: Mixture, plate: Name) -> None:
        inputs = {name: domain for name, domain in body.inputs.items() if name != plate}
        self._set(body=body, plate=plate, inputs=inputs)

    def _renamed(self, names: Mapping[Name, Name]) -> Factor:
        return MixturePlate(rename(self.body, names), self.plate)  # type: ignore[arg-type]

    def _evaluated(self, children: tuple) -> Factor:
        return MixturePlate(children[0], self.plate)

    def _log(self) -> Value:
        raise Intractable(
            f"the logarithm of {self}",
            expected="a Gaussian to multiply it by: then each cell is projected",
            advice="ask outside `with fb.moment_matching():`",
        )

    def notation(self) -> Notation:
        return Big("Π", (str(self.plate),), self.body.notation())


@matches_multiply_out.rule
def multiply_out_mixture_in_order(f: Mixture, names: tuple) -> Factor:
    """Π_j Σ_c f(j, c), lazy until a Gaussian is multiplied in"""
    require_discrete(f, names)
    if len(names) != 1:
        raise Intractable(
            f"the product over {listed(names)} of {f}, projected",
            expected="one plate at a time",
            advice="make one index of the plates",
        )
    plate = fixed_bound(f"{names[0]} of a plate")
    return MixturePlate(rename(f, {names[0]: plate}), plate)  # type: ignore[arg-type]


@matches_multiply.rule
def multiply_gaussian_mixture_plate(f: Gaussian, g: MixturePlate) -> Factor:
    """f·Π_j Σ_c g(j, c)  →  each cell multiplied in, and the mixture matched by one Gaussian"""
    gaussian = run(_filtered, _Plate(g.plate), [[f], [g.body]])
    return gaussian._marked(combined((f, g)) | projected(current().name))


@matches_multiply.rule
def multiply_mixture_plate_gaussian(f: MixturePlate, g: Gaussian) -> Factor:
    """(Π_j Σ_c f(j, c))·g  =  g·Π_j Σ_c f(j, c)"""
    return multiply_gaussian_mixture_plate(g, f)


class _Plate(NamedTuple):
    """The key of the compiled function."""

    name: Name

    @property
    def in_order(self) -> tuple[Name, ...]:
        """Cells are taken one after another."""
        return (self.name,)


def _filtered(plate: _Plate, start: Sequence[Factor], bodies: Sequence[Factor]) -> Factor:
    (first,), (body,) = start, bodies
    cut = slices(body, plate.name)
    batch = {name: domain for name, domain in body.inputs.items() if domain.is_finite and name != plate.name}
    layout = layout_of([first], (), batch, sum_product).over_everything()
    assert isinstance(layout, GaussianLayout)
    layout = replace(layout, white=True)

    def step(carry: Factor, parts: Any) -> tuple[Factor, None]:
        whole = joined([carry, cut.at(parts)])
        return settled(matched(whole) if isinstance(whole, Mixture) else whole, layout), None

    return lax_loops.scan(step, settled(first, layout), cut.stacked)[0]
