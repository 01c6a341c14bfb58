"""Sequences: Markov products, and chains with the questions that are asked of them."""
