"""Options that say how an evidence without a closed form is approximated."""

from __future__ import annotations

import argparse

import jax

from fubini.approximate.laplace_interpretation import laplace
from fubini.approximate.monte_carlo import monte_carlo
from fubini.approximate.quadrature import quadrature
from fubini.base.interpretations import Interpretation, exact


def add_approximation_options(parser: argparse.ArgumentParser) -> None:
    """One of three ways, or none: what has no closed form is not approximated unasked."""
    approximate = parser.add_mutually_exclusive_group()
    approximate.add_argument(
        "--quadrature", action="store_true", help="integrate up to three numbers without a closed form on a grid"
    )
    approximate.add_argument(
        "--monte-carlo", type=int, metavar="DRAWS", help="estimate integrals without a closed form from so many draws"
    )
    approximate.add_argument(
        "--laplace", action="store_true", help="put a normal at the mode in place of what has no closed form"
    )


def approximation(options: argparse.Namespace) -> Interpretation:
    """The interpretation that the options ask for."""
    if options.quadrature:
        return quadrature()
    if options.laplace:
        return laplace()
    return exact if options.monte_carlo is None else monte_carlo(jax.random.key(options.seed), options.monte_carlo)
