"""Questions to a model some of whose sites have a representation of their own: its sites are a chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from fubini.base.arrays import Data, require_room
from fubini.base.rules import RuleSet
from fubini.base.semirings import Semiring, sum_product
from fubini.eliminate.explanation import Explanation
from fubini.errors import DomainError, Intractable
from fubini.factors.represent import answers_models
from fubini.models.checks import required
from fubini.models.flat_model import FlatModel
from fubini.models.joint import Joint
from fubini.models.options import whole_number
from fubini.models.paths import nested
from fubini.models.question_heads import EXPLAIN, INFER, LOG_EVIDENCE, MARGINAL, MODE, POSTERIOR, PREDICT
from fubini.numerics.randomness import require_key
from fubini.questions.arviz_groups import groups_of, observed_on_mesh, to_arviz
from fubini.questions.draw_block import Block
from fubini.questions.predict import predict_from
from fubini.questions.represented_chain import ask_chain, asked_under, is_represented
from fubini.terms.factor import Factor
from fubini.terms.value import Value

represented_log_evidence = answers_models(RuleSet("represent.log_evidence", head=LOG_EVIDENCE))
represented_marginal = answers_models(RuleSet("represent.marginal", head=MARGINAL))
represented_posterior = answers_models(RuleSet("represent.posterior", head=POSTERIOR))
represented_mode = answers_models(RuleSet("represent.mode", head=MODE))
represented_infer = answers_models(RuleSet("represent.infer", head=INFER))
represented_predict = answers_models(RuleSet("represent.predict", head=PREDICT))
represented_explain = answers_models(RuleSet("represent.explain", head=EXPLAIN))

BACKWARD = "backward sampling"  # as ArviZ data say it


@represented_log_evidence.rule(when=is_represented)
def log_evidence_of_chain(model: FlatModel, semiring: Semiring = sum_product) -> Value:
    """log ∫ p(observed, θ) dθ, one step after another"""
    if semiring is not sum_product:
        raise Intractable(
            f"log_evidence({semiring}) of {model} under {asked_under()}",
            expected="fb.sum_product: a chain whose states are represented is summed",
            advice="ask without fb.represent or fb.linearize, or for map()",
        )
    return ask_chain(model, lambda made: made.chain.log_evidence())


@represented_marginal.rule(when=is_represented)
def marginal_of_chain(model: FlatModel, name: Any) -> Factor:
    """p(x | observed), from the smoother; of an array along time, for each place there"""
    if not isinstance(name, str):
        raise Intractable(
            f"the marginal of several sites, or of a function of them, of {model} under {asked_under()}",
            expected="the name of one site: a chain whose states are represented has those one by one",
            advice="ask without fb.represent or fb.linearize, or for infer(key), which draws them together",
        )
    site = required(name, model.joint)
    return ask_chain(model, lambda made: made.marginal(site))


@represented_posterior.rule(when=is_represented)
def posterior_of_chain(model: FlatModel) -> Factor:
    """p(θ | observed) of all steps together, which no representation holds"""
    raise Intractable(
        f"posterior() of {model} under {asked_under()}",
        expected="a factor over the states of all steps together: representations hold those of one step",
        advice="marginal(name) has the states one by one, and infer(key) draws them together",
    )


@represented_mode.rule(when=is_represented)
def mode_of_chain(model: FlatModel) -> Any:
    """arg max p(θ | observed), over all steps together"""
    values = ask_chain(model, lambda made: made.assignment(made.chain.argmax()))
    return model.unflatten(nested({str(name): value for name, value in values.items()}))


@represented_explain.rule(when=is_represented)
def explain_chain(model: FlatModel) -> Explanation:
    """The model, and the chain that it is: its steps, and how factors are converted and projected."""
    joint = model.joint
    assert isinstance(joint, Joint)
    plan: Explanation = ask_chain(model, lambda made: made.explain())
    sites = [f"  {line}" for line in joint.graph().lines()]
    return replace(plan, notes=(f"{joint}", *sites, *plan.notes))


# -- draws ------------------------------------------------------------------------------------------------------------


@represented_infer.rule(when=is_represented)
def draw_from_chain(model: FlatModel, key: Any, options: dict) -> Any:
    """θ ~ p(θ | observed), the last step first"""
    require_key(key)
    draws, chains = whole_number("draws", options["draws"]), whole_number("chains", options["chains"])
    plain = ("draws", "chains", "dims", "coords", "progress", "log_likelihood", "predictive")
    given = [n for n, v in options.items() if n not in (*plain, "options") and v is not None]
    _require_none([*given, *options["options"]])
    first, second = jax.random.split(key)
    with model.precision():
        latents = _latents(model, first, draws * chains)
        values = {name: np.asarray(v).reshape(chains, draws, *np.shape(v)[1:]) for name, v in latents.items()}
        asked = options["log_likelihood"], options["predictive"]
        groups = groups_of(second, model, values, *asked, Block(chains, draws))
    kept = observed_on_mesh(model)
    attributes = {"method": BACKWARD, "eliminated": [], **({"not_fetched": list(kept)} if kept else {})}
    return to_arviz(values, {}, groups, attributes, options["dims"], options["coords"])


@represented_predict.rule(when=is_represented)
def predict_from_chain(model: FlatModel, key: Any, names: tuple, options: dict) -> Any:
    """y* ~ p(y* | θ), θ ~ p(θ | observed)"""
    return predict_from(model, key, names, options, _latents)


def _latents(model: FlatModel, key: Data, n: int) -> dict[str, Data]:
    """Draws of all sites that are not observed."""
    domains = dict(model.outline.free_domains())
    require_room(f"draws of {model}", *((n, *domain.shape) for domain in domains.values()))
    values = ask_chain(model, lambda made: made.assignment(made.chain.sample(key, n)))
    lacking = [name for name in domains if name not in values]
    if lacking:
        raise Intractable(
            f"draws of {lacking[0]!r} in {model} under {asked_under()}",
            expected="sites that are states of the chain, or parameters of all steps",
            advice="make it the first entry of the site along time",
        )
    return {name: values[name] for name in domains}


def _require_none(given: Sequence[str]) -> None:
    if given:
        raise DomainError(
            f"infer(…, {given[0]}=…) under {asked_under()}",
            expected=f"draws= and chains= alone: draws are independent, by {BACKWARD}",
        )
