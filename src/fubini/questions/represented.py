"""Questions to a model whose real sites have a representation of their own: its sites are a chain, written out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fubini.base.names import Name
from fubini.base.rules import RuleSet
from fubini.base.semirings import Semiring, sum_product
from fubini.errors import Intractable, listed
from fubini.factors.represent import answers_models, represented, within
from fubini.models.checks import required
from fubini.models.flat_model import FlatModel
from fubini.models.paths import nested
from fubini.models.question_heads import LOG_EVIDENCE, MARGINAL, MODE
from fubini.questions.model_factors import model_factors
from fubini.representations.unrolled_chain import UnrolledChain, unrolled_chain
from fubini.terms.factor import Factor
from fubini.terms.value import Value

represented_log_evidence = answers_models(RuleSet("represent.log_evidence", head=LOG_EVIDENCE))
represented_marginal = answers_models(RuleSet("represent.marginal", head=MARGINAL))
represented_mode = answers_models(RuleSet("represent.mode", head=MODE))

NUMBERED = re.compile(r"^(.*?)_?\d+$")


def _covering(model: FlatModel) -> dict[Name, Name]:
    """Sites of a numbered name, represented as the name without its number: x covers x_1, x_2, …"""
    own = represented()
    assert own is not None, "a rule of fb.represent"
    names = {}
    for site in model.outline.sites:
        numbered = NUMBERED.match(str(site.name))
        if numbered and numbered.group(1) in own.by_name and site.name not in own.by_name:
            names[site.name] = numbered.group(1)
    return names


def _is_real(model: FlatModel, *args: Any) -> bool:
    """Whether a site that is no bounded integer has a representation."""
    own = represented()
    if own is None:
        return False
    named = {*own.by_name, *_covering(model)}
    return any(
        site.name in named and site.domain is not None and not site.domain.is_finite for site in model.outline.sites
    )


def _asked(model: FlatModel, ask: Callable[[UnrolledChain], Any]) -> Any:
    """Ask the chain that the sites of a model are."""
    with within(_covering(model)):
        factors, variables = model.written or model_factors(model)
        made = unrolled_chain(factors, {variable.name: variable.output for variable in variables})
        if made is None:
            raise Intractable(
                f"{model} under {represented()}",
                expected="sites in layers, each tied to the one before it by factors of the same form",
                nearest=f"sites {listed(variable.name for variable in variables)}",
                advice="write the model as fb.Chain, or ask without fb.represent",
            )
        with within(made.covers()):
            return ask(made)


@represented_log_evidence.rule(when=_is_real)
def log_evidence_of_chain(model: FlatModel, semiring: Semiring = sum_product) -> Value:
    """log ∫ p(observed, θ) dθ, one step after another"""
    return _asked(model, lambda made: made.chain.log_evidence())


@represented_marginal.rule(when=_is_real)
def marginal_of_chain(model: FlatModel, name: Any) -> Factor:
    """p(x | observed), from the smoother"""
    site = required(name, model.joint)
    return _asked(model, lambda made: made.marginal(site))


@represented_mode.rule(when=_is_real)
def mode_of_chain(model: FlatModel) -> Any:
    """arg max p(θ | observed), over all steps together"""
    values = _asked(model, lambda made: made.assignment(made.chain.argmax()))
    return model.unflatten(nested({str(name): value for name, value in values.items()}))
