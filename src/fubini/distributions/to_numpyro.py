"""Normalised factors as distributions of numpyro, with the same log-density.

Bounded integers beside the variable are batch axes, in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpyro.distributions as numpyro_families

from fubini.base import ops
from fubini.base.arrays import Data, namespace
from fubini.base.domains import Bint, Domain
from fubini.base.names import Bound, Name
from fubini.distributions.density import Density
from fubini.distributions.family_summaries import WRAPPERS
from fubini.errors import Intractable, NoRule, listed
from fubini.factors.delta import Delta
from fubini.factors.gaussian import Gaussian
from fubini.factors.mixture import Mixture
from fubini.factors.mixture_moments import components
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.terms.factor import Factor, Unit, is_tabular, product, substitute, terms_of
from fubini.terms.heads import exact_to_numpyro
from fubini.terms.value import Array, Value, to_array

TERM = Bound("term")
MOST = 256  # distributions of several families in one mixture
Batch = Mapping[Name, Domain]


@exact_to_numpyro.rule
def convert_factor(f: Factor, names: tuple) -> Any:
    """p(x) of one variable x, for each cell of the others where these are finite"""
    names = _variables(f, names)
    return _made(f, names, {name: domain for name, domain in f.inputs.items() if name not in names})


@exact_to_numpyro.rule(when=lambda f, names: not is_tabular(f))
def convert_mixture(f: Mixture, names: tuple) -> Any:
    """Σ_c share_c p_c, with shares and components along one axis after those of the batch"""
    names = _variables(f, names)
    batch = {name: domain for name, domain in f.inputs.items() if name not in names}
    total = f.sum(*names).log()
    parts = [_flattened(part, bounds) for part, bounds in components(f)]
    shares = [_shares(part, names, total, batch) for part in parts]
    if len(parts) == 1:
        made = _made(parts[0]._joined(), names, {**batch, TERM: parts[0].inputs[TERM]})
        return numpyro_families.MixtureSameFamily(numpyro_families.CategoricalProbs(shares[0]), made)
    count = sum(share.shape[-1] for share in shares)
    if count > MOST:
        raise Intractable(
            f"{f} as a distribution of numpyro",
            expected=f"a mixture of one family, or one of at most {MOST} distributions of several",
            nearest=f"it has {count:,} of {len(parts)} kinds",
            advice="project it onto one Gaussian: `with fb.moment_matching():`",
        )
    mixing = numpyro_families.CategoricalProbs(namespace(*shares).concatenate(shares, axis=-1))
    each = [
        _made(part({TERM: place})._joined(), names, batch)
        for part in parts
        for place in range(part.inputs[TERM].extent)
    ]
    return numpyro_families.MixtureGeneral(mixing, each)


def _flattened(part: Factor, bounds: Batch) -> Factor:
    """A component with one index in place of all that it is summed over."""
    sizes = [domain.extent for domain in bounds.values()]
    places = np.indices(sizes).reshape(len(sizes), -1) if sizes else np.zeros((0, 1), int)
    count = places.shape[1]
    at: dict[Name, Value] = {
        name: Array._of(place, (TERM,), {TERM: Bint[count]}, domain)
        for (name, domain), place in zip(bounds.items(), places, strict=True)
    }
    return product(substitute(part, at), Unit({TERM: Bint[count]}))


def _shares(part: Factor, names: tuple[Name, ...], total: Value, batch: Batch) -> Data:
    """The share of each term of a component, along the batch and the terms."""
    share = to_array(ops.exp(part.sum(*names).log() - total))
    return _along(share.array, share.names, {**batch, TERM: part.inputs[TERM]}, 0)


def _variables(f: Factor, names: tuple[Name, ...]) -> tuple[Name, ...]:
    """The names that are given, or all real variables; of a factor of bounded integers alone, its one variable."""
    reals = tuple(name for name, domain in f.inputs.items() if not domain.is_finite)
    names = tuple(dict.fromkeys((*names, *reals))) or tuple(f.inputs)
    if not names or (len(names) > 1 and not _is_gaussian(f)):
        raise NoRule(
            f"{f} as a distribution of numpyro",
            expected="a factor of one variable, or a Gaussian, whose variables are one vector",
            nearest=f"it is one of {listed(names)} together" if names else "it is a number",
            advice="convert the marginal of each variable, or the conditional of one given values of the others",
        )
    return names


def _is_gaussian(f: Factor) -> bool:
    parts = [part for part, _ in components(f)] if isinstance(f, Mixture) else [f]
    return all(isinstance(part, Gaussian) for part in parts)


def _made(f: Factor, names: tuple[Name, ...], batch: Batch) -> Any:
    """The distribution of one factor that is no mixture, its parameters along the batch."""
    if isinstance(f, Gaussian):
        return _of_gaussian(f, names, batch)
    if isinstance(f, Delta) and names == tuple(f.names):
        return _of_point(f, names[0], batch)
    if is_tabular(f):
        return _of_table(f, names[0], batch)
    own = [term for term in terms_of(f) if names[0] in term.inputs]
    if len(own) == 1 and isinstance(own[0], Density) and own[0].own == names[0]:
        return distribution_along(own[0], names[0], batch)
    raise NoRule(
        f"{f} as a distribution of numpyro",
        expected="a table, a Gaussian, a point, a density of a family, or a mixture of these",
        nearest=f"{type(f).__name__} is none of them",
        advice="sum or observe variables until one of these remains; f.log() is its log-density",
    )


def _of_gaussian(f: Gaussian, names: tuple[Name, ...], batch: Batch) -> Any:
    """N(K⁻¹ h, K⁻¹)"""
    conditional = f.conditional(*names)
    mean = _along(conditional.mean, conditional.mean_names, batch, 1)
    covariance = _along(conditional.covariance, conditional.names, batch, 2)
    if len(names) == 1 and not f.inputs[names[0]].shape:
        return numpyro_families.Normal(mean[..., 0], namespace(covariance).sqrt(covariance[..., 0, 0]))
    made = numpyro_families.MultivariateNormal(mean, covariance_matrix=covariance)
    if len(names) == 1 and len(f.inputs[names[0]].shape) > 1:
        shape = f.inputs[names[0]].shape
        reshape = numpyro_families.transforms.ReshapeTransform(shape, (mean.shape[-1],))
        return numpyro_families.TransformedDistribution(made, reshape)
    return made


def _of_point(f: Delta, name: Name, batch: Batch) -> Any:
    """δ(x = a)"""
    point, rank = to_array(f.point(name)), len(f.inputs[name].shape)
    return numpyro_families.Delta(_along(point.array, point.names, batch, rank), event_dim=rank)


def _of_table(f: Factor, name: Name, batch: Batch) -> Any:
    """p(k)"""
    logs = to_array(f.log())
    table = Table.from_log(logs.array, {own: f.inputs[own] for own in logs.names}).transposed((*batch, name))
    return numpyro_families.CategoricalProbs(probs=table.normalized((name,)).weights)


def distribution_along(f: Density, name: Name, batch: Batch) -> Any:
    """The family itself: independent entries are one event, as they are in the factor"""
    shape: tuple[int, ...] = f.inputs[name].shape
    distribution: Any = f.distribution
    while batch and distribution.family in WRAPPERS:
        distribution = distribution["base_dist"]
    event = distribution.signature.event_rank
    rank = len(shape) - event
    room = rank if batch and not event else 0  # axes that parameters of single numbers have beside the batch
    made = distribution.blueprint.build(_parameter(value, batch, room) for value in distribution.leaf_values)
    if batch:
        made = made.expand((*(domain.extent for domain in batch.values()), *shape[:rank]))
    return made.to_event(rank) if rank else made


def _parameter(value: Value, batch: Batch, room: int) -> Data:
    array = to_array(value)
    own = len(array.output.shape)
    data = _along(array.array, array.names, batch, own, is_full=False)
    return data.reshape((*data.shape[: len(batch)], *(1,) * (room - own), *data.shape[len(batch) :]))


def _along(data: Data, names: Sequence[Name], batch: Batch, event: int, is_full: bool = True) -> Data:
    """Data with an axis for each name of the batch, of its extent or else of 1, and then those of the event."""
    aligned = align(data, names, tuple(batch), event)
    sizes = [domain.extent for domain in batch.values()] if is_full else aligned.shape[: len(batch)]
    return namespace(aligned).broadcast_to(aligned, (*sizes, *aligned.shape[len(batch) :]))
