"""Pictures by matplotlib: of posteriors, networks, chains and ranks; rules of the head `plot`."""

from fubini.plots import chain_plot as _chain_plot  # noqa: F401  (rules are registered)
from fubini.plots import network_plot as _network_plot  # noqa: F401
from fubini.plots import posterior_plot as _posterior_plot  # noqa: F401
from fubini.plots import rank_plot as _rank_plot  # noqa: F401
