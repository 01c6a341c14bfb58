"""`fb.rep`: how factors over a variable may be stored, by name.

>>> with fb.represent(x=fb.rep.Truncated(), s=fb.rep.Dense()) as named:
...     named
represent(x=Truncated(), s=Dense())
"""

from fubini.representations import gaussian_recurrence as gaussian_recurrence
from fubini.representations import linearized_chain as linearized_chain
from fubini.representations import mixture_plate as mixture_plate
from fubini.representations import table_recurrence as table_recurrence
from fubini.representations.circuit import Circuit as Circuit
from fubini.representations.dense import Dense as Dense
from fubini.representations.diagram import Diagram as Diagram
from fubini.representations.grid import Grid as Grid
from fubini.representations.mixture import Mixture as Mixture
from fubini.representations.particles import Particles as Particles
from fubini.representations.sparse import Sparse as Sparse
from fubini.representations.train import Train as Train
from fubini.representations.truncated import Truncated as Truncated
