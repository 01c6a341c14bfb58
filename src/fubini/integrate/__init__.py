"""Integrals over array latents: closed forms, derived in index notation."""
