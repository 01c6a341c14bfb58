"""All rules of the reader: importing this registers them."""

from fubini.read import elementwise as elementwise
from fubini.read import indexing as indexing
from fubini.read import loops as loops
from fubini.read import shapes as shapes
from fubini.read import sums as sums
