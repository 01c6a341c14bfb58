"""Fubini: automatic integration for probabilistic programs."""

from fubini import distributions as distributions
from fubini import io as io
from fubini import measures as measures
from fubini import representations as representations
from fubini.approximate.laplace_interpretation import laplace as laplace
from fubini.approximate.linearize import linearize as linearize
from fubini.approximate.linearize import unscented as unscented
from fubini.approximate.moment_matching import moment_matching as moment_matching
from fubini.approximate.monte_carlo import monte_carlo as monte_carlo
from fubini.approximate.quadrature import quadrature as quadrature
from fubini.base import matrix_products as _matrix_products  # noqa: F401  (in full precision)
from fubini.base import ops as ops
from fubini.base.arrays import checked as checked
from fubini.base.domains import Bint as Bint
from fubini.base.domains import Domain as Domain
from fubini.base.domains import Nat as Nat
from fubini.base.domains import Positive as Positive
from fubini.base.domains import PositiveDefinite as PositiveDefinite
from fubini.base.domains import Real as Real
from fubini.base.domains import Reals as Reals
from fubini.base.domains import Simplex as Simplex
from fubini.base.domains import Unit as Unit
from fubini.base.interpretations import Interpretation as Interpretation
from fubini.base.interpretations import exact as exact
from fubini.base.interpretations import jit as jit
from fubini.base.interpretations import lazy as lazy
from fubini.base.ops import lift as lift
from fubini.base.processes import Processes as Processes
from fubini.base.processes import distributed as distributed
from fubini.base.rules import RuleSet as RuleSet
from fubini.base.semirings import Semiring as Semiring
from fubini.base.semirings import boolean as boolean
from fubini.base.semirings import counting as counting
from fubini.base.semirings import max_product as max_product
from fubini.base.semirings import min_sum as min_sum
from fubini.base.semirings import sum_product as sum_product
from fubini.base.shard import shard as shard
from fubini.base.stream import Stream as Stream
from fubini.bridge import described as _described  # noqa: F401  (rules of open products are registered)
from fubini.bridge import open_marginal as _open_marginal  # noqa: F401
from fubini.eliminate.ask import argmax as argmax
from fubini.eliminate.ask import eliminate as eliminate
from fubini.eliminate.ask import marginals as marginals
from fubini.eliminate.ask import sample as sample
from fubini.eliminate.explain import explain as explain
from fubini.eliminate.explain import optimize as optimize
from fubini.engines import program_cache as _program_cache
from fubini.engines.choice import engine as engine
from fubini.engines.program_cache import clear as cache_clear  # noqa: F401
from fubini.errors import FubiniError as FubiniError
from fubini.factors import circuits as circuits
from fubini.factors.delta import Delta as Delta
from fubini.factors.gaussian import Gaussian as Gaussian
from fubini.factors.mixture import Mixture as Mixture
from fubini.factors.piecewise import Piecewise as Piecewise
from fubini.factors.represent import represent as represent
from fubini.factors.table import Table as Table
from fubini.measures.conditioning import disintegrate as disintegrate
from fubini.measures.language import measure as measure
from fubini.measures.mass import total_mass as total_mass
from fubini.models.coroutine import JointCoroutine as JointCoroutine
from fubini.models.coroutine import model as model
from fubini.models.joint import Joint as Joint
from fubini.models.joint_mixture import JointMixture as JointMixture
from fubini.models.joint_named import JointNamed as JointNamed
from fubini.models.joint_sequential import JointSequential as JointSequential
from fubini.models.network import Network as Network
from fubini.models.numpyro_model import from_numpyro as from_numpyro
from fubini.models.param import param as param
from fubini.models.sample import deterministic as deterministic
from fubini.numerics.randomness import WhiteNoise as WhiteNoise
from fubini.plots import posterior_plot as _posterior_plot  # noqa: F401  (rules of pictures are registered)
from fubini.propagate.division_policy import Division as Division
from fubini.propagate.expectation_propagation import expectation_propagation as expectation_propagation
from fubini.propagate.propagation import propagate as propagate
from fubini.propagate.result import Propagation as Propagation
from fubini.questions.compare import compare as compare
from fubini.questions.expectation import expectation as expectation
from fubini.questions.expectation import integrate as integrate
from fubini.questions.fit import fit as fit
from fubini.questions.simplify import simplify as simplify
from fubini.questions.simulated_ranks import sbc as sbc
from fubini.read.register_family import register_family as register_family
from fubini.report.document import report as report
from fubini.sequence.chain import Chain as Chain
from fubini.sequence.markov import markov as markov
from fubini.show.picture import Picture as Picture
from fubini.terms import heads as heads
from fubini.terms.composite import evaluate as evaluate
from fubini.terms.factor import Factor as Factor
from fubini.terms.factor import weight as weight
from fubini.terms.indexing import concatenate as concatenate
from fubini.terms.indexing import scatter as scatter
from fubini.terms.indexing import stack as stack
from fubini.terms.name_axis import name_axis as name_axis
from fubini.terms.term import same as same
from fubini.terms.value import Array as Array
from fubini.terms.value import Value as Value
from fubini.terms.value import Variable as Variable
from fubini.version import __version__ as __version__

dist = distributions
rep = representations

_program_cache.turn_on()
