"""The E-step of expectation–maximisation: the evidence, and the expected statistics of every factor, in one pass back.

A model is read as groups of factors, Tables or Gaussians: those of one joint distribution, or of the start of a chain
and of its steps. Expected counts of a table are the derivatives of the log-evidence in the logarithms of its weights;
moments of a Gaussian are those of the states that it is of, given everything.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from fubini.base.arrays import Data
from fubini.base.names import Name
from fubini.errors import FubiniError, Intractable, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.promotion import promoted
from fubini.factors.table import Table
from fubini.models.flat_model import FlatModel
from fubini.models.joint import Conditioned
from fubini.questions.chain_of_sites import chain_of_sites
from fubini.questions.expected_log import Counts, Statistics, log_cells, moments_of, shifted_by
from fubini.questions.model_factors import model_factors
from fubini.questions.plate_of_sites import plate_of_sites
from fubini.sequence.chain import Chain
from fubini.terms.factor import Factor, product, terms_of
from fubini.terms.value import Variable, to_array

Groups = tuple[tuple[Factor, ...], ...]


class Terms(ABC):
    """The factors of a model in groups, and what is asked of their product."""

    groups: Groups

    @abstractmethod
    def over(self, groups: Groups) -> Terms:
        """The same model with other factors."""

    @abstractmethod
    def log_evidence(self) -> Data:
        """The logarithm of the sum over all latents, of all cells and sequences together."""

    @abstractmethod
    def joints(self) -> Sequence[Factor]:
        """The distribution of the latents of each group, given everything."""

    @property
    def has_reals(self) -> bool:
        """Whether a latent is real."""
        return any(not domain.is_finite for domain in self._latents().values())

    def finite(self) -> set[Name]:
        """The latents of finitely many values."""
        return {name for name, domain in self._latents().items() if domain.is_finite}

    @abstractmethod
    def _latents(self) -> dict[Name, Any]:
        """The latents with their domains."""


@dataclass(frozen=True)
class ChainTerms(Terms):
    """The start of a chain, and its steps."""

    chain: Chain

    @property
    def groups(self) -> Groups:  # type: ignore[override]
        return tuple(tuple(map(_closed, terms_of(factor))) for factor in (self.chain.init, self.chain.factor))

    def over(self, groups: Groups) -> Terms:
        return ChainTerms(self.chain.over(*(product(*group) for group in groups)))

    def log_evidence(self) -> Data:
        return _total(self.chain.log_evidence())

    def joints(self) -> Sequence[Factor]:
        smooth = self.chain.smooth()
        return smooth.initial, smooth.pairs

    def _latents(self) -> dict[Name, Any]:
        return self.chain.domains


@dataclass(frozen=True)
class JointTerms(Terms):
    """Factors of latents that are summed out in every cell of a plate, or of all of a model."""

    factors: tuple[Factor, ...]
    variables: tuple[Variable, ...]

    @property
    def groups(self) -> Groups:  # type: ignore[override]
        return (tuple(map(_closed, self.factors)),)

    def over(self, groups: Groups) -> Terms:
        return replace(self, factors=groups[0])

    def log_evidence(self) -> Data:
        return _total(product(*self.factors).sum(*(variable.name for variable in self.variables)).log())

    def joints(self) -> Sequence[Factor]:
        names = [variable.name for variable in self.variables]
        return (promoted(product(*self.factors).normalize(*names)),)

    def _latents(self) -> dict[Name, Any]:
        return {variable.name: variable.output for variable in self.variables}


def terms_in(model: Any) -> Terms:
    """The factors of a chain or of a model with data."""
    if isinstance(model, Chain):
        return ChainTerms(model)
    if not isinstance(model, Conditioned):
        raise _not_closed(model, "it is neither a fb.Chain nor a model with data")
    flat = FlatModel(model)
    chain = chain_of_sites(flat, [str(name) for name in flat.reading.domains])
    if chain is not None:
        return ChainTerms(chain.chain)
    plate = plate_of_sites(flat)
    if plate is not None:
        return JointTerms(tuple(plate.factors), tuple(plate.variables))
    factors, variables = flat.tables or flat.written or model_factors(flat)
    return JointTerms(tuple(factors), tuple(variables))


def expectation_step(terms: Terms) -> tuple[Data, list[list[Statistics]]]:
    """The log-evidence, and the statistics of each factor of each group."""
    groups = terms.groups
    if terms.has_reals:
        ready = terms.over(groups)
        joints = ready.joints()
        return ready.log_evidence(), [
            [_under(joint, factor) for factor in group] for joint, group in zip(joints, groups, strict=True)
        ]

    def evidence(logs: list[list[Data]]) -> Data:
        shifted = [
            tuple(shifted_by(f, log) for f, log in zip(group, of, strict=True))  # type: ignore[arg-type]
            for group, of in zip(groups, logs, strict=True)
        ]
        return terms.over(tuple(shifted)).log_evidence()

    zeros = [[jnp.zeros_like(log_cells(factor)) for factor in group] for group in groups]
    value, counts = jax.value_and_grad(evidence)(zeros)
    return value, [[Counts(each) for each in of] for of in counts]


def expected_log_density(terms: Terms, statistics: Sequence[Sequence[Statistics]]) -> Data:
    """Q: the expectation of the logarithm of the product of all factors, of other parameters, under what is known."""
    parts = [
        known.expected_log(factor)
        for group, of in zip(terms.groups, statistics, strict=True)
        for factor, known in zip(group, of, strict=True)
    ]
    return jnp.sum(jnp.stack(parts))


def require_closed(terms: Terms) -> None:
    """Raise where a factor is neither a table nor a Gaussian, or where latents are of both kinds."""
    own = terms.groups
    if terms.has_reals and terms.finite():
        raise _not_closed(product(*own[0]), f"{listed(terms.finite())} beside real latents: a mixture")


def _under(joint: Factor, factor: Factor) -> Statistics:
    """The statistics of a factor of reals, or of none, under a distribution of reals."""
    if isinstance(factor, Gaussian):
        assert isinstance(joint, Gaussian)
        return moments_of(joint, factor)
    sizes = [d.extent for name, d in joint.inputs.items() if d.is_finite and name not in factor.inputs]
    return Counts(jnp.full_like(log_cells(factor), math.prod(sizes)))


def _closed(factor: Factor) -> Factor:
    """A factor as a Table or a Gaussian, of which expected logarithms are known."""
    try:
        made = promoted(factor)
    except FubiniError as error:
        raise _not_closed(factor, f"{error}".splitlines()[0]) from None
    if not isinstance(made, Table | Gaussian):
        raise _not_closed(factor, f"it is a {type(made).__name__}")
    return made


def _not_closed(what: Any, reason: str) -> Intractable:
    return Intractable(
        f"expectation–maximisation of {what}",
        expected="a chain, or a model with data, whose latents are all of finitely many values, or all real and linear "
        "with normal noise: their expected statistics have a closed form",
        nearest=reason,
        advice='fb.fit(…, method="gradient") asks for the evidence alone; infer(…) draws where there is none',
    )


def _total(log: Any) -> Data:
    """The sum over the cells of a plate, or sequences."""
    value = to_array(log)
    others = [name for name, domain in value.inputs.items() if not domain.is_finite]
    if others:
        raise _not_closed(value, f"it depends on {listed(others)}")
    return jnp.sum(jnp.asarray(value.array))
