"""Diagrams in a loop: what is handed on has the same nodes at every step, so that it is a table, or what a layout has.

Slices are those of any factor: the name that is cut becomes one of the batch, and all slices have the same nodes.
"""

from __future__ import annotations

from fubini.base.arrays import Data
from fubini.factors.carry import CarryLayout, lightened, settled
from fubini.factors.diagram import Diagram, to_table
from fubini.terms.factor import Factor
from fubini.terms.heads import exact_lighten, exact_settle


@exact_settle.rule
def settle_diagram(f: Diagram, layout: CarryLayout) -> Factor:
    """f, with every cell stored, in the layout"""
    return settled(to_table(f), layout)


@exact_lighten.rule
def lighten_diagram(f: Diagram, names: tuple) -> tuple[Factor, Data]:
    """f / max_x f with every cell stored, log max_x f"""
    return lightened(to_table(f), names)
