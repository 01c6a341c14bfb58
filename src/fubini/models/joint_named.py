"""Joints written as a dict: each name a distribution, or a function of others by name."""

from __future__ import annotations

import graphlib
import inspect
from collections.abc import Mapping
from typing import Any

import jax

from fubini.errors import DomainError, FubiniError, UnknownName, closest, listed
from fubini.models.container import is_namedtuple, struct
from fubini.models.flavour import Sites
from fubini.models.joint import Joint
from fubini.models.joint_sequential import as_item, made, maker_of, parameters_of, require_item


class CyclicModel(FubiniError, ValueError):
    """Sites that depend on each other in a ring."""


@jax.tree_util.register_pytree_node_class
class JointNamed(Joint):
    """A dict, OrderedDict or namedtuple of distributions and functions; arguments name other sites.

    Sites run in the order given, each after the sites it depends on.

    >>> from fubini import dist
    >>> JointNamed(dict(x=lambda m: dist.Normal(m, 1.0), m=dist.Normal(0.0, 1.0))).names
    ('m', 'x')
    """

    def __init__(self, model: Any) -> None:
        if not isinstance(model, Mapping) and not is_namedtuple(model):
            raise DomainError(
                f"JointNamed of a {type(model).__name__}",
                expected="a dict, OrderedDict or namedtuple",
                advice="a list or tuple is written fb.JointSequential(…)",
            )
        given = dict(model) if isinstance(model, Mapping) else model._asdict()
        items = {name: as_item(item) for name, item in given.items()}
        self.type = type(model)
        self.container_names = tuple(items)
        self.parents = {name: _parents(name, item, tuple(items)) for name, item in items.items()}
        self.items = {name: items[name] for name in _ordered(self.parents)}
        for name, item in self.items.items():
            require_item(name, item)

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.type is not dict

    def sites(self) -> Sites:
        values: dict[str, Any] = {}
        for name, item in self.items.items():
            values[name] = yield name, made(item, **{parent: values[parent] for parent in self.parents[name]})

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        order = [name for name in self.container_names if name in values]
        make: Any = self.type
        if not issubclass(self.type, tuple):
            return make({name: values[name] for name in order})
        complete = len(order) == len(self.container_names)
        return (make if complete else struct(tuple(order)))(*(values[name] for name in order))

    def tree_flatten(self) -> tuple[tuple, tuple]:
        parents = tuple(self.parents.items())
        return tuple(self.items.values()), (self.type, self.container_names, parents, tuple(self.items))

    @classmethod
    def tree_unflatten(cls, static: tuple, items: tuple) -> JointNamed:
        new = object.__new__(cls)
        new.type, new.container_names, parents, names = static
        new.parents, new.items = dict(parents), dict(zip(names, items, strict=True))
        return new


def _parents(name: str, item: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """The sites that a maker names; one with **others takes all those written before it."""
    maker = maker_of(item)
    if maker is None:
        return ()
    parents: list[str] = []
    for argument, parameter in parameters_of(maker).items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            parents.extend(other for other in names[: names.index(name)] if other not in parents)
        elif argument not in names:
            raise UnknownName(
                f"the argument {argument!r} of the maker of {name!r}",
                expected=f"one of the sites {listed(names)}",
                nearest=closest(argument, names),
                advice="an argument with a default keeps it",
            )
        else:
            parents.append(argument)
    return tuple(parents)


def _ordered(parents: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Sort the components in the order given, each after its parents."""
    try:
        graphlib.TopologicalSorter(parents).prepare()
    except graphlib.CycleError as error:
        ring = " → ".join(error.args[1])
        raise CyclicModel(
            f"a model in which {ring}",
            expected="sites that depend only on sites before them",
            advice="one of these must not take the others as arguments",
        ) from None
    ordered: dict[str, None] = {}

    def place(name: str) -> None:
        for parent in parents[name]:
            if parent not in ordered:
                place(parent)
        ordered[name] = None

    for name in parents:
        if name not in ordered:
            place(name)
    return tuple(ordered)
