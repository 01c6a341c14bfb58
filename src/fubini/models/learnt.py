"""The parameters of a model to be learnt: where they are in it, and the same model over other values of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from numpyro.distributions import biject_to

from fubini.base.arrays import Data
from fubini.models.param import Param
from fubini.terms.term import Term


def params(model: Any) -> list[Param]:
    """The parameters of a model, a factor or a chain, each once, in order."""
    found = {id(param): param for leaf in _parts(model) for param in _params_in(leaf)}
    return list(found.values())


def with_free(model: Any, free: Sequence[Data]) -> Any:
    """The model with other unconstrained numbers behind its parameters."""
    return _replaced(model, lambda param, number: param.rebuilt(iter([number])), free)


def with_values(model: Any, values: Sequence[Data]) -> Any:
    """The model with its parameters at values within their supports: gradients are in the values themselves."""
    return _replaced(model, lambda param, value: param.at(value), values)


def free_of(model: Any, values: Sequence[Data]) -> list[Data]:
    """The unconstrained numbers behind values of the parameters."""
    return [biject_to(param.support.value).inv(value) for param, value in zip(params(model), values, strict=True)]


def _replaced(model: Any, make: Callable[[Param, Data], Param], numbers: Sequence[Data]) -> Any:
    new = {id(old): make(old, number) for old, number in zip(params(model), numbers, strict=True)}
    leaves, tree = jax.tree_util.tree_flatten(model, is_leaf=lambda item: isinstance(item, Term))
    return jax.tree_util.tree_unflatten(tree, [_with_params(leaf, new) for leaf in leaves])


def _parts(model: Any) -> list[Any]:
    return jax.tree_util.tree_leaves(model, is_leaf=lambda item: isinstance(item, Term))


def _params_in(leaf: Any) -> Iterator[Param]:
    if isinstance(leaf, Param):
        yield leaf
    elif isinstance(leaf, Term):
        for child in leaf.children:
            yield from _params_in(child)


def _with_params(leaf: Any, new: dict[int, Param]) -> Any:
    if id(leaf) in new:
        return new[id(leaf)]
    if not isinstance(leaf, Term) or next(_params_in(leaf), None) is None:
        return leaf
    return leaf._copied(lambda array: array, lambda child: _with_params(child, new))
