"""Eliminating latents from densities in index notation."""
