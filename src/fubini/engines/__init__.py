"""Engines: programs that Numba compiles once for all plans, and the choice among them."""
