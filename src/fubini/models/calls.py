"""Questions compiled: one function for each structure of joint and values, mapped over batches.

A model is written for one sample. Values with more axes than their site's event are batches; each sample of a batch
gets a key of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context
from numpyro.distributions import constraints

from fubini.base.arrays import (
    Data,
    cached_for_precision,
    double_precision,
    is_jax,
    is_traced,
    require_room,
    unshared,
    within_memory,
)
from fubini.base.distant import DistantArray, distant, entries, is_distant, is_of_jax, rebuild
from fubini.base.domains import Domain
from fubini.base.even_rows import with_even_rows
from fubini.base.sharded_array import ShardedArray
from fubini.distributions.parameter_checks import satisfied
from fubini.engines.host_program import HostPrograms
from fubini.errors import DataError, DomainError
from fubini.models.call_values import FlatJoint
from fubini.models.data_numbers import require_numbers_on_devices
from fubini.models.outline import Outline, SiteOutline
from fubini.models.sample import Given

_MISSING = "entries that are missing are masked: np.ma.masked_invalid(data)"
_MATRIX = "a matrix that is symmetric, (S + S.T) / 2, and whose eigenvalues are positive"
ATTEMPTS = 16  # draws on numbers, to say what is wrong with some of many

Question = Callable[[Any, Data, Mapping[str, Any]], Any]


def ask(
    question: Question, flat_joint: FlatJoint, given: Mapping[str, Any], key: Data = None, shape: tuple[int, ...] = ()
) -> Any:
    """question(joint, key, given) on the engine of the data, for each sample of the batch."""
    leaves, tree = flat_joint.leaves, flat_joint.tree
    arrays, names = _flat(flat_joint.outline, given)
    batch = shape + _batch(arrays, names)
    mapped = tuple(array.ndim > rank for array, rank in arrays)
    values = [
        _spread(array, rank, batch) if many else array for (array, rank), many in zip(arrays, mapped, strict=True)
    ]
    count = math.prod(batch) if batch else None
    asked = f"a question to {type(flat_joint.joint).__name__}"
    if not is_traced(key, *values):
        each = {f"value of {'.'.join(path)}": value for path, value in zip(names, values, strict=True)}
        flat_joint.require_agreement(asked, {"key": key, **each})
    require_room(asked, *(batch + shape for site in flat_joint.outline.sites for shape in _event_shapes(site.shape)))
    with within_memory(asked):
        if any(map(is_of_jax, (*values, *leaves))) or is_traced(key):
            own = tuple(leaf.shape if isinstance(leaf, ShardedArray) else None for leaf in leaves)
            lying = [leaf.data if isinstance(leaf, ShardedArray) else leaf for leaf in leaves]
            compiled = _compiled(question, tree, names, mapped, count, own if is_distant(*leaves) else None)
            result = compiled(unshared(lying), key, unshared(values))
        else:
            with double_precision(), eval_context():
                made = _compiled if key is None else _on_host  # a density is asked for many times
                answer = made(question, tree, names, mapped, count)
                result = jax.tree_util.tree_map(np.asarray, answer(leaves, key, values))
    if batch:
        result = jax.tree_util.tree_map(lambda leaf: leaf.reshape(batch + leaf.shape[1:]), result)
    if not is_traced(*jax.tree_util.tree_leaves(result)) and _is_suspect(result):
        _diagnose(flat_joint, values, names, mapped, key)
    return result


@cached_for_precision(1024)
def _compiled(
    question: Question,
    tree: Any,
    names: tuple,
    mapped: tuple[bool, ...],
    count: int | None,
    on_mesh: tuple[tuple[int, ...] | None, ...] | None = None,
) -> Callable:
    """The question compiled; of data on a mesh, derivatives keep nothing but its arguments, which lie in equal parts.

    `on_mesh` has the own shapes of those that are padded.
    """

    def one(leaves: list[Data], key: Data, values: list[Data]) -> Any:
        if on_mesh is not None:
            leaves = [x if own is None else ShardedArray(x, own) for x, own in zip(leaves, on_mesh, strict=True)]
        joint = rebuild(tree, leaves)
        return question(joint, key, nested(names, [entries(value) for value in values]))

    def many(leaves: list[Data], key: Data, values: list[Data]) -> Any:
        keys = None if key is None else jax.random.split(key, count or 0)
        axes = (None, None if key is None else 0, [0 if axis else None for axis in mapped])
        return jax.vmap(one, in_axes=axes, axis_size=count)(leaves, keys, values)

    function = with_even_rows(one if count is None else many)
    return jax.jit(function if on_mesh is None else jax.checkpoint(function))


@cached_for_precision(1024)
def _on_host(question: Question, tree: Any, names: tuple, mapped: tuple[bool, ...], count: int | None) -> HostPrograms:
    return HostPrograms(_compiled(question, tree, names, mapped, count))


def _batch(arrays: list[tuple[Data, int]], names: tuple) -> tuple[int, ...]:
    shapes = [array.shape[: array.ndim - rank] for array, rank in arrays]
    if len(set(shapes)) <= 1:
        return shapes[0] if shapes else ()
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        each = ", ".join(f"{'.'.join(path)}: {shape}" for path, shape in zip(names, shapes, strict=True) if shape)
        raise DomainError(
            f"values in batches of the shapes {each}", expected="shapes that broadcast together"
        ) from None


def nested(names: tuple, values: list[Data]) -> dict[str, Any]:
    """Values by path as a dict of dicts."""
    values_by_name: dict[str, Any] = {}
    for path, value in zip(names, values, strict=True):
        place = values_by_name
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = value
    return values_by_name


def _event_shapes(shape: Any) -> list[tuple[int, ...]]:
    """The shape of a site; of a nested joint, those of its sites."""
    if isinstance(shape, tuple) and all(isinstance(size, int) for size in shape):
        return [shape]
    parts = shape.values() if isinstance(shape, Mapping) else shape if isinstance(shape, tuple | list) else ()
    return [event for part in parts for event in _event_shapes(part)]


def _flat(outline: Outline, given: Mapping[str, Any], path: tuple[str, ...] = ()) -> tuple[list, tuple]:
    """Each array given with the rank of its site's event, and the paths to them."""
    arrays: list[tuple[Data, int]] = []
    names: list[tuple[str, ...]] = []
    for site in outline.sites:
        if site.name not in given or site.kind == "deterministic":
            continue
        here = (*path, site.name)
        if site.inner is not None:
            more, below = _flat(site.inner, given[site.name], here)
            arrays.extend(more)
            names.extend(below)
        else:
            arrays.append((shaped(given[site.name], site, ".".join(here)), len(site.shape)))
            names.append(here)
    return arrays, tuple(names)


def shaped(value: Any, site: SiteOutline, name: str, batch: bool = True) -> Data:
    """An array whose last axes are those of the site."""
    array = value if is_of_jax(value) or is_distant(value) else as_numbers(value, name)
    shape, event = array.shape, site.shape
    if shape != event and (not batch or shape[max(len(shape) - len(event), 0) :] != event):
        more = ", with axes of a batch before it" if batch else ""
        raise DomainError(f"a value of shape {shape} for the site {name!r}", expected=f"the shape {event}{more}")
    return array


def as_numbers(value: Any, name: str) -> np.ndarray:
    """Convert the value of a site to an array of numbers."""
    try:
        array = np.asarray(value)
    except ValueError:
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise DomainError(f"the value {value!r} for the site {name!r}", expected="numbers")
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _spread(array: Data, rank: int, batch: tuple[int, ...]) -> Data:
    """Flatten a batch to one axis."""
    xp = jnp if is_jax(array) else np
    event = array.shape[array.ndim - rank :]
    return xp.broadcast_to(array, batch + event).reshape((math.prod(batch), *event))


# -- numbers that are not -------------------------------------------------------------------------------------------


def _is_suspect(result: Any) -> bool:
    """Whether an answer is not a number somewhere, or a density of zero."""
    return any(bool(is_lost(leaf).any()) for leaf in jax.tree_util.tree_leaves(result))


def is_lost(array: Data) -> Data:
    """Entries that are not finite numbers; −1 of whole numbers."""
    here = array if is_distant(array) else np.asarray(array)
    if jnp.issubdtype(array.dtype, jnp.floating):
        return ~(jnp if is_jax(here) else np).isfinite(here)
    is_signed = jnp.issubdtype(array.dtype, jnp.signedinteger)
    return here == -1 if is_signed else np.full(array.shape, False)


def _diagnose(flat_joint: FlatJoint, values: list[Data], names: tuple, mapped: tuple[bool, ...], key: Data) -> None:
    """Raise where the values given are wrong; a density that is truly zero is not."""
    for path, value in zip(names, values, strict=True):
        site: Any = flat_joint.outline
        for name in path[:-1]:
            site = site[name].inner
        require_in_domain(site[path[-1]].domain, np.asarray(value), ".".join(path))
    require_numbers_on_devices(flat_joint.joint)
    one = nested(names, [value[0] if many else value for value, many in zip(values, mapped, strict=True)])
    if set(flat_joint.outline.free) <= set(one):
        flat_joint.joint.run(Given(one))  # on numbers, so that wrong parameters raise
    elif key is not None:
        for draw in jax.random.split(key, ATTEMPTS):
            flat_joint.joint.run(Given(one, draw))


def is_inside(domain: Domain, value: Data, asked: np.ndarray | bool = True) -> Data:
    """Entries that are values of a domain; the density checks a support that depends on parameters."""
    xp = jnp if is_jax(value) else np
    inside = xp.isfinite(value) if value.dtype.kind == "f" else xp.full(value.shape, True)
    if domain.kind == "positive":
        inside &= value >= 0
    elif domain.kind == "unit":
        inside &= (value >= 0) & (value <= 1)
    elif domain.kind == "simplex":
        whole = xp.abs(value.sum(-1, keepdims=True) - 1) < 1e-3
        inside &= (value >= 0) & (whole | np.logical_not(np.all(asked)))
    elif domain.kind == "positive_definite":
        inside &= satisfied(constraints.positive_definite, value)[..., None, None] | np.logical_not(np.all(asked))
    elif domain.is_discrete:
        inside &= value == xp.floor(value)
        if domain.kind != "integer":
            inside &= value >= 0
        if domain.size is not None:
            inside &= value < domain.size
    return inside | np.logical_not(asked)


def require_in_domain(domain: Domain | None, value: Any, name: str, asked: np.ndarray | bool = True) -> None:
    """Raise unless values are of the domain of a site."""
    assert domain is not None
    if (record := distant(value)) is not None:
        return _require_distant(domain, record, name)
    inside = is_inside(domain, value, asked)
    if not inside.all():
        wrong = value[~inside].flat[0]
        missing = value.dtype.kind == "f" and np.isnan(wrong)
        raise DataError(
            f"the value {wrong} of the site {name!r}",
            expected=f"values of domain {domain!r}",
            advice=_MISSING if missing else _MATRIX if domain.kind == "positive_definite" else "",
        )


def _require_distant(domain: Domain, record: DistantArray, name: str) -> None:
    """Raise unless the numbers of an array that stays where it is are of a domain; its range may say so."""
    low, high, is_finite = record.range
    least, most = {"real": -np.inf, "positive": 0.0, "unit": 0.0}.get(domain.kind), np.inf
    if domain.is_discrete and record.dtype.kind in "biu" and not domain.shape[1:]:
        least = -np.inf if domain.kind == "integer" else 0.0
    if domain.kind == "unit":
        most = 1.0
    elif domain.size is not None:
        most = domain.size - 1.0
    if least is not None and is_finite and least <= low and high <= most:
        return
    found = record.first_outside(_domain_test(domain))
    if found is None:
        return
    place, wrong = found
    raise DataError(
        f"the value {wrong} of the site {name!r}",
        expected=f"values of domain {domain!r}",
        nearest=f"{record}: the first is {record.at(place)}",
        advice="rows that are missing are left out before they are placed: fb.shard(x[rows], mesh, …)"
        if np.isnan(wrong)
        else "",
    )


@lru_cache(maxsize=64)
def _domain_test(domain: Domain) -> Callable[[Data], Data]:
    return partial(is_inside, domain)
