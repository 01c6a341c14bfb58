"""Representations of factors, one file each, and their numerics."""
