"""What is eliminated before latents are drawn: all that can be, or what was asked for."""

from __future__ import annotations

from collections.abc import Sequence

import jax

from fubini.base.arrays import Data
from fubini.distributions.array_distribution import made
from fubini.distributions.density import Distribution
from fubini.distributions.supports import is_everywhere
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
        if eliminated_model.reading.domains[name].kind == "real" and _is_bounded(eliminated_model.model, name):
            read = {top, *outline.reached.get(top, ())} if "." in name else set(outline.reached.get(top, ()))
            held.update(other for other in eliminated_model.eliminated if other.split(".")[0] in read)
    return held


def _is_bounded(model: FlatModel, name: str) -> bool:
    """Its support is not all real numbers: an interval, say."""
    bounded: list[bool] = []

    def look(leaves: list[Data]) -> Data:
        sites = flat_sites(model.rebuilt(leaves).run(Blank()))
        source = sites[name].source
        bounded.append(isinstance(source, Distribution) and not is_everywhere(made(source).support))
        return leaves

    jax.eval_shape(look, model.leaves)
    return bounded[0]
