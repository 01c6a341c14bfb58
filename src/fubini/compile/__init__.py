"""Samplers compiled from a density in index notation: passes over its nodes, and the loops that they become."""
