"""Harbour seals: a hierarchical hidden Markov model with discrete random effects, summed exactly."""
