"""Questions to models: the modules of `fubini.questions` register a rule for each."""

from typing import Any

from fubini.base.interpretations import current, exact, interpret, no_rule
from fubini.base.rules import RuleSet
from fubini.terms.heads import Head

LOG_EVIDENCE = Head("log_evidence")  # (model, semiring)
MARGINAL = Head("marginal")  # (model, name, or names, or function of the sites)
POSTERIOR = Head("posterior")  # (model)
FACTORS = Head("factors")  # (model)
MODE = Head("mode")  # (model)
EXPLAIN = Head("explain")  # (model)
PREDICT = Head("predict")  # (model, key, names, options)
LOG_PREDICTIVE = Head("log_predictive")  # (model, new model, options)
ELIMINATE = Head("eliminate")  # (model, all names to eliminate, those that are new)
INFER = Head("infer")  # (model, key, options)
PRIOR = Head("prior")  # (model, key, options)
POSTERIOR_FUNCTION = Head("posterior_function")  # (model, names, engine)
GIBBS = Head("gibbs")  # (eliminated model, names, options)
METROPOLIS = Head("metropolis")  # (eliminated model, names, options)


def answer(question: Head, *args: Any) -> Any:
    """Ask the interpretation in force, and the rules of `exact` where that has none, as one that records factors."""
    if current().find(question, args) is not None:
        return interpret(question, *args)
    rule = exact.find(question, args)
    if rule is None:
        raise no_rule(exact, question, args)
    return rule.function(*args)


def _answers(question: Head) -> RuleSet:
    """The rules of `exact` for a question."""
    return exact.register(RuleSet(f"exact.{question}", question))


exact_log_evidence = _answers(LOG_EVIDENCE)
exact_marginal = _answers(MARGINAL)
exact_posterior = _answers(POSTERIOR)
exact_factors = _answers(FACTORS)
exact_mode = _answers(MODE)
exact_explain = _answers(EXPLAIN)
exact_predict = _answers(PREDICT)
exact_log_predictive = _answers(LOG_PREDICTIVE)
exact_eliminate = _answers(ELIMINATE)
exact_infer = _answers(INFER)
exact_prior = _answers(PRIOR)
exact_posterior_function = _answers(POSTERIOR_FUNCTION)
exact_gibbs = _answers(GIBBS)
exact_metropolis = _answers(METROPOLIS)
