"""Questions to models, by name: the modules that answer them register a rule for each."""

from fubini.base.interpretations import exact
from fubini.base.rules import RuleSet
from fubini.terms.heads import Head

LOG_EVIDENCE = Head("log_evidence")  # (model)
PREDICT = Head("predict")  # (model, key, names, options)
ELIMINATE = Head("eliminate")  # (model, all names to eliminate, those that are new)
GIBBS = Head("gibbs")  # (eliminated model, names, options)
METROPOLIS = Head("metropolis")  # (eliminated model, names, options)

exact_log_evidence = exact.register(RuleSet("exact.log_evidence", LOG_EVIDENCE))
exact_predict = exact.register(RuleSet("exact.predict", PREDICT))
exact_eliminate = exact.register(RuleSet("exact.eliminate", ELIMINATE))
exact_gibbs = exact.register(RuleSet("exact.gibbs", GIBBS))
exact_metropolis = exact.register(RuleSet("exact.metropolis", METROPOLIS))
