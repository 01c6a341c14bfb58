"""Batting averages of eighteen players: each his own rate, all of one population."""

import fubini as fb
from fubini import dist


@fb.model
def baseball(At_Bats, LastName, n_LastName):
    centre = yield dist.Beta(2.0, 5.0)
    players = yield dist.Gamma(2.0, 0.02)
    rate = yield dist.Beta(centre * players, (1.0 - centre) * players).expand([n_LastName])
    Hits = yield dist.Binomial(At_Bats, rate[LastName])
