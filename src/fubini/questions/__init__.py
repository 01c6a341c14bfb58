"""What is asked of a model, one file each: evidence, marginals, modes, predictions, draws. Importing registers them."""

from fubini.questions import evidence as evidence
from fubini.questions import explain_model as explain_model
from fubini.questions import function_marginal as function_marginal
from fubini.questions import gibbs as gibbs
from fubini.questions import infer as infer
from fubini.questions import log_predictive as log_predictive
from fubini.questions import marginal as marginal
from fubini.questions import mode as mode
from fubini.questions import model_factors as model_factors
from fubini.questions import posterior as posterior
from fubini.questions import posterior_function as posterior_function
from fubini.questions import predict as predict
from fubini.questions import prior_draws as prior_draws
from fubini.questions import represented as represented
