"""Sparse factors, diagrams and trains beside other kinds of factors: each is a table there."""

from __future__ import annotations

from fubini.base.interpretations import interpret
from fubini.base.semirings import Semiring, max_product, sum_product
from fubini.factors.diagram import Diagram
from fubini.factors.gaussian import Gaussian
from fubini.factors.promotion import to_kind
from fubini.factors.sparse import Sparse
from fubini.factors.table import Table
from fubini.factors.train import Train
from fubini.terms.factor import Factor
from fubini.terms.heads import ADD, EMBED, MULTIPLY, exact_add, exact_embed, exact_multiply

Finite = Sparse | Diagram | Train


def as_table(f: Finite) -> Factor:
    """f, with every cell stored."""
    return to_kind(f, Table)


@exact_multiply.rule
def multiply_finite_gaussian(f: Sparse | Diagram | Train, g: Gaussian) -> Factor:
    """f(a)·g(a, x), f as a table"""
    return interpret(MULTIPLY, as_table(f), g)


@exact_multiply.rule
def multiply_gaussian_finite(f: Gaussian, g: Sparse | Diagram | Train) -> Factor:
    """f(a, x)·g(a), g as a table"""
    return interpret(MULTIPLY, f, as_table(g))


@exact_add.rule
def add_sparse_and_others(f: Sparse, g: Diagram | Train) -> Factor:
    """f + g, as tables"""
    return interpret(ADD, as_table(f), as_table(g))


@exact_add.rule
def add_diagram_and_others(f: Diagram, g: Sparse | Train) -> Factor:
    """f + g, as tables"""
    return interpret(ADD, as_table(f), as_table(g))


@exact_add.rule
def add_train_and_others(f: Train, g: Sparse | Diagram) -> Factor:
    """f + g, as tables"""
    return interpret(ADD, as_table(f), as_table(g))


# -- other semirings ------------------------------------------------------------------------------------------------


@exact_embed.rule(when=lambda semiring, f: not semiring.homogeneous, overlaps=("embed_sparse", "embed_diagram"))
def embed_finite(semiring: Semiring, f: Sparse | Diagram) -> Factor:
    """f as a table in the carrier: its ⊗ is not the product of weights"""
    return interpret(EMBED, semiring, as_table(f))


@exact_embed.rule(when=lambda semiring, f: semiring not in (sum_product, max_product))
def embed_train(semiring: Semiring, f: Train) -> Factor:
    """f as a table in the carrier: its entries are sums of products"""
    return interpret(EMBED, semiring, as_table(f))
