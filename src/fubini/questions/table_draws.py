"""Exact draws of models whose sites have finitely many values, by the plan of their tables."""

from __future__ import annotations

import math

import numpy as np

from fubini.base.arrays import Data
from fubini.eliminate.ask import sample
from fubini.errors import MemoryLimit
from fubini.models.flat_model import FlatModel
from fubini.questions.draw_block import Block


def draw_from_tables(model: FlatModel, key: Data, block: Block) -> dict[str, np.ndarray] | None:
    """Draws [chain, draw] of all sites; None of a model that is not tables of scalar sites."""
    names = [name for name, _ in model.outline.free_domains()]
    if model.tables is None or any(domain.shape for _, domain in model.outline.free_domains()):
        return None
    factors, variables = model.tables
    if {str(variable.name) for variable in variables} != set(names):
        return None
    try:
        with model.represented():
            drawn = sample(key, factors, variables, n=math.prod(block.lead))
    except MemoryLimit as error:
        raise MemoryLimit(
            f"infer(…) of {len(names):,} variables",
            expected="a network of which a plan within the memory limit makes exact draws",
            nearest=str(error).splitlines()[0],
            advice='fb.propagate(net.observed_factors, method="belief propagation") approximates marginals, '
            'infer(key, method="gibbs") draws one variable after another; or observe more variables',
        ) from None
    return {name: np.asarray(drawn[name]).reshape(block.lead) for name in names}
