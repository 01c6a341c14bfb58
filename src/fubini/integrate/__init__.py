"""Integrals over array latents: what has a closed form, found in index notation."""
