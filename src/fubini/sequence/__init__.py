"""Sequences: Markov products, and chains with the questions that are asked of them."""

from fubini.sequence import mixture_plate as mixture_plate
