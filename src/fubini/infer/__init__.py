"""Inference algorithms: they see a density over unconstrained numbers, never a model."""
