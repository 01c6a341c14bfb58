"""All rules of the reader: importing this registers them."""

from fubini.read import branches as branches
from fubini.read import elementwise as elementwise
from fubini.read import entries as entries
from fubini.read import loops as loops
from fubini.read import reductions as reductions
from fubini.read import shapes as shapes
