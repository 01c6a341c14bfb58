"""Whether labels are summed out before drawing, or drawn themselves: decided from the structure of a model alone.

Labels that are summed out of a mixture leave its components, whose density has a mode for each order of them and
ridges between. Where the components have a closed form given the labels, as topics do, integrating these out and
drawing one label after another (Griffiths and Steyvers 2004) is quicker, and mixes better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fubini.algebra.label_digits import is_finite
from fubini.algebra.node import Leaf, Node
from fubini.algebra.walk import walk
from fubini.errors import Intractable, NoRule, listed
from fubini.infer.grid import MOST_NUMBERS
from fubini.infer.methods import LABELS
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.questions.draw_elimination import elimination_for_draws
from fubini.questions.label_sampler import LabelSampler
from fubini.questions.sampler_target import target_of


def elimination_of(model: FlatModel, names: Sequence[str] | None, method: str | None) -> tuple[EliminatedModel, str]:
    """What is eliminated before the other latents are drawn, and where labels are kept instead, why."""
    if names is not None:
        return elimination_for_draws(model, names), ""
    if method == LABELS:
        return _with_labels(model, _labels(model)), ""
    eliminated_model = elimination_for_draws(model)
    labels = None if method is not None else labels_to_draw(eliminated_model)
    if labels is None:
        return eliminated_model, ""
    return labels, reason_of(eliminated_model, labels)


def labels_to_draw(eliminated_model: EliminatedModel) -> EliminatedModel | None:
    """The model with its labels kept, where these are better drawn than summed out; None where they are not.

    So where the labels of a mixture were summed one by one, more numbers remain than a grid has room for, and all of
    these have a closed form given the labels, from which a compiled sampler is made.
    """
    reading, kept = eliminated_model.reading, eliminated_model.kept
    labels = [name for name in _labels(eliminated_model.model) if name in eliminated_model.eliminated]
    if not labels or not kept or eliminated_model.is_traced:
        return None
    components, leaves = [reading.sites[name] for name in kept], [reading.sites[name] for name in labels]
    terms = tuple(reading.terms.values())
    if not _are_chosen_by(terms, components, leaves) or any(_is_coupled(terms, leaf) for leaf in leaves):
        return None
    if any(reading.domains[name].is_discrete for name in kept) or target_of(eliminated_model)[0].size <= MOST_NUMBERS:
        return None
    other = _with_labels(eliminated_model.model, labels)
    return other if set(other.kept) == set(labels) and _has_sampler(other) else None


def reason_of(summed: EliminatedModel, drawn: EliminatedModel) -> str:
    """A sentence on why labels are drawn."""
    return (
        f"{listed(drawn.kept)} summed out would leave the components {listed(summed.kept)} of a mixture, whose labels "
        f"can be exchanged; given {listed(drawn.kept)} they have a closed form"
    )


def _labels(model: FlatModel) -> list[str]:
    """Latents with finitely many values."""
    return [name for name, leaf in model.reading.sites.items() if is_finite(leaf)]


def _with_labels(model: FlatModel, labels: Sequence[str]) -> EliminatedModel:
    """All that can be eliminated but these."""
    names = [name for name in model.reading.sites if name not in labels]
    found = eliminated(model, names)
    try:
        return elimination_for_draws(model, found.eliminated)
    except Intractable:  # in another order
        return eliminated(model, ())


def _are_chosen_by(terms: Iterable[Node], components: Sequence[Leaf], labels: Sequence[Leaf]) -> bool:
    """Whether an entry of some component is read at a label: m[z[i]]."""
    return any(
        node.kind == "get" and node.args[0] in components and any(place.leaves & set(labels) for place in node.args[1:])
        for node in walk(*terms)
    )


def _is_coupled(terms: Iterable[Node], label: Leaf) -> bool:
    """Whether some term reads two entries of a label, as that of a chain does: z[i], z[i + 1]."""
    for term in terms:
        entries = {node.args[1:] for node in walk(term) if node.kind == "get" and node.args[0] is label}
        if len(entries) > 1:
            return True
    return False


def _has_sampler(eliminated_model: EliminatedModel) -> bool:
    """Whether a rule makes a compiled sampler, and it reaches all that is possible; nothing is compiled yet."""
    try:
        sampler = LabelSampler(eliminated_model, ())
        return bool(sampler.program.source) and not sampler.ties.tied
    except NoRule:
        return False
