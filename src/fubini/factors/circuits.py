"""Circuits, all in one place: the representation, its constructors, and learning. What `fb.rep` is to export."""

from fubini.factors.circuit import Circuit as Circuit
from fubini.factors.circuit_constructors import choices as choices
from fubini.factors.circuit_constructors import exactly_one as exactly_one
from fubini.factors.circuit_constructors import from_clauses as from_clauses
from fubini.factors.circuit_constructors import from_formula as from_formula
from fubini.factors.circuit_constructors import parity as parity
from fubini.factors.circuit_constructors import permutations as permutations
from fubini.factors.circuit_constructors import simple_paths as simple_paths
from fubini.factors.circuit_constructors import unconstrained as unconstrained
from fubini.factors.circuit_learning import learn as learn
from fubini.factors.circuit_learning import normalize_locally as normalize_locally
