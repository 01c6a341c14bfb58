"""log p(observed)."""

from __future__ import annotations

from fubini.algebra.label_digits import MOST
from fubini.base.arrays import is_traced
from fubini.base.domains import Real
from fubini.base.semirings import Semiring, sum_product
from fubini.bridge.open_marginal import count
from fubini.eliminate.ask import eliminate
from fubini.models.eliminated_model import EliminatedModel, eliminated
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import exact_eliminate, exact_log_evidence
from fubini.questions.approximate import approximation
from fubini.questions.closed_form import no_closed_form, require_evidence
from fubini.questions.model_factors import model_factors
from fubini.terms.value import Array, Value


@exact_log_evidence.rule
def log_evidence(model: FlatModel, semiring: Semiring = sum_product) -> Value:
    """log ∫ p(observed, θ) dθ, or log ⊕ p(observed, θ) in another semiring"""
    if semiring is not sum_product or model.tables is not None:
        with model.represented():
            return eliminate(*(model.tables or model.written or model_factors(model)), semiring=semiring).log()
    whole = eliminated(model)
    if whole.blocked:
        whole = _labels_last(model) or whole
    if whole.blocked:
        points = approximation(model, "log_evidence()", whole).points
        data = model.numbers(points.log_total)
        mark, rounding = points.exactness, abs(float(data) - points.log_total)
        return Array._of(data, (), {}, Real, mark if mark.error is None else mark.with_error(mark.error + rounding))
    log_p = whole.compute_log_density({})
    if not is_traced(log_p):
        require_evidence(float(log_p), model.joint, whole.reading)
    return Array(log_p)


def _labels_last(model: FlatModel) -> EliminatedModel | None:
    """Labels summed out after all others, which are coupled then: the evidence of a short mixture, say."""
    few = tuple(name for name, leaf in model.density.integrand.latents.items() if count(leaf) <= MOST)
    if not few:
        return None
    last = EliminatedModel(model, model.density.without(model.reading.sites, few).plan)
    return None if last.blocked else last


@exact_eliminate.rule
def without(model: FlatModel, names: tuple, new: tuple) -> EliminatedModel:
    """∫ p(observed, θ) dθ over some sites, or the error that says why not"""
    eliminated_model = eliminated(model, names)
    if eliminated_model.blocked:
        raise no_closed_form(f"eliminate({', '.join(map(repr, new))})", eliminated_model)
    return eliminated_model
