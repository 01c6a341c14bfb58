"""The factor with a given value, mode and curvature at the mode."""

from __future__ import annotations

from collections.abc import Mapping

from fubini.base.arrays import Data
from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.factors.gaussian import Gaussian
from fubini.factors.table import Table
from fubini.numerics.quadratic import Quadratic, Reals
from fubini.terms.exactness import Exactness


def expanded_at_mode(
    log: Data, mode: Data, R: Data, reals: Reals, batch: Mapping[Name, Domain], exactness: Exactness
) -> Gaussian:
    """exp(log − ½ |R (z − mode)|²), for each cell of the batch."""
    names = tuple(batch)
    quadratic = Quadratic((R @ mode[..., None])[..., 0], names, R, names, True)
    return Gaussian._of(Table.from_log(log, batch)._marked(exactness), quadratic, reals, dict(batch))
