"""What is eliminated before latents are drawn: all that can be, or what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import Data
from fubini.distributions.array_distribution import made
from fubini.distributions.density import Distribution
from fubini.distributions.supports import domain_of, is_everywhere
from fubini.models.checks import required
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.paths import flat_sites
from fubini.models.sample import Blank
from fubini.questions.closed_form import no_closed_form


def elimination_for_draws(model: FlatModel, names: Sequence[str] | None = None) -> EliminatedModel:
    """All that can be eliminated, or what was asked for; nothing that the support of a remaining site depends on."""
    if isinstance(names, str):
        names = [names]
    for name in names or ():
        required(name, model.joint, model.reading.sites)
    eliminated_model = eliminated(model, names)
    if names is not None and eliminated_model.blocked:
        raise no_closed_form(f"infer(eliminate={list(names)!r})", eliminated_model)
    while held := _read_by_supports(eliminated_model):
        eliminated_model = eliminated(model, [name for name in eliminated_model.eliminated if name not in held])
    return eliminated_model


def _read_by_supports(eliminated_model: EliminatedModel) -> set[str]:
    """Eliminated sites from which bounds of remaining sites may be computed."""
    outline = eliminated_model.model.outline
    held: set[str] = set()
    for name in eliminated_model.kept:
        top = name.split(".")[0]
        if has_ends(eliminated_model.model, name):
            read = {top, *outline.reached.get(top, ())} if "." in name else set(outline.reached.get(top, ()))
            held.update(other for other in eliminated_model.eliminated if other.split(".")[0] in read)
    return held


def has_ends(model: FlatModel, name: str) -> bool:
    """Its support has ends that parameters may decide: it is neither all numbers of a domain nor all real numbers."""
    shapes = tuple(jax.ShapeDtypeStruct(np.shape(leaf), jax.dtypes.result_type(leaf)) for leaf in model.leaves)
    return name in _sites_with_ends(model.tree, shapes)


@lru_cache(maxsize=64)
def _sites_with_ends(tree: Any, shapes: tuple[jax.ShapeDtypeStruct, ...]) -> frozenset[str]:
    """The sites of models of one structure that have such supports."""
    names: set[str] = set()

    def look(leaves: list[Data]) -> list[Data]:
        for name, site in flat_sites(jax.tree_util.tree_unflatten(tree, leaves).run(Blank())).items():
            if isinstance(site.source, Distribution):
                support = made(site.source).support
                if not is_everywhere(support) and domain_of(support, site.source.domain.shape).kind == "real":
                    names.add(name)
        return leaves

    jax.eval_shape(look, list(shapes))
    return frozenset(names)
