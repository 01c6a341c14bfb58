"""Elimination: plans, their engines, and the backward pass."""
