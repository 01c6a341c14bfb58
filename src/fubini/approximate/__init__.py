"""Approximations: projections after a sum, estimates by samples, expansions at a mode. Each says so in its result."""
