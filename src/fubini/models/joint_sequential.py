"""Joints written as a list: each item a distribution, or a function of the items before it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from fubini.base.closure import Closure
from fubini.distributions.families import DistributionMaker
from fubini.distributions.named_site import Named
from fubini.errors import DomainError, NameClash, listed
from fubini.models.container import is_namedtuple
from fubini.models.flavour import Sites, not_a_component, require_not_reserved
from fubini.models.joint import Joint
from fubini.models.sample import Deterministic
from fubini.terms.factor import Factor


@jax.tree_util.register_pytree_node_class
class JointSequential(Joint):
    """A list or tuple of distributions and functions; arguments are the items before, the nearest first.

    >>> from fubini import dist
    >>> seq = JointSequential([dist.InverseGamma(3.0, 2.0), dist.Normal(0.0, 1.0), lambda m, s: dist.Normal(m, s)])
    >>> seq.names
    ('s', 'm', 'x')
    """

    def __init__(self, model: Sequence[Any]) -> None:
        if not isinstance(model, (list, tuple)) or is_namedtuple(model):
            raise DomainError(
                f"JointSequential of a {type(model).__name__}",
                expected="a list or tuple",
                advice="a dict or namedtuple is written fb.JointNamed(…)",
            )
        self.items = tuple(as_item(item) for item in model)
        self.type = type(model)
        self.parents = tuple(_positions(item, place) for place, item in enumerate(self.items))
        self.site_names = _site_names(self.items, self.parents)
        for name, item in zip(self.site_names, self.items, strict=True):
            require_item(name, item)

    def sites(self) -> Sites:
        values: list[Any] = []
        for name, item, parents in zip(self.site_names, self.items, self.parents, strict=True):
            values.append((yield name, made(item, *(values[place] for place, _ in parents))))

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        return self.type(values.values())

    def tree_flatten(self) -> tuple[tuple, tuple]:
        return self.items, (self.type, self.site_names, self.parents)

    @classmethod
    def tree_unflatten(cls, static: tuple, items: tuple) -> JointSequential:
        new = object.__new__(cls)
        new.items = items
        new.type, new.site_names, new.parents = static
        return new


def as_item(item: Any) -> Any:
    """A component as a pytree: functions with what they capture."""
    if isinstance(item, Named):
        return Named(as_item(item.component), item.name)
    if isinstance(item, (type, DistributionMaker)) or (callable(item) and not isinstance(item, (Joint, Closure))):
        return item if _is_record(item) else Closure(item)
    return item


def _is_record(item: Any) -> bool:
    """Whether an item is a distribution or a factor, which are callable too."""
    return hasattr(item, "blueprint") or hasattr(item, "log_prob") or isinstance(item, Factor)


def require_item(name: str, item: Any) -> None:
    """Raise unless a name is free, and its component is a maker or something that a site can be."""
    require_not_reserved(name)
    component = item.component if isinstance(item, Named) else item
    if not isinstance(component, (Closure, Deterministic)) and not _is_record(component):
        raise not_a_component(name, component)


def made(item: Any, *args: Any, **named: Any) -> Any:
    """Return the component, calling its maker where it has one."""
    if isinstance(item, Named):
        return made(item.component, *args, **named)
    return item.function(*args, **named) if isinstance(item, Closure) else item


def parameters_of(function: Callable) -> dict[str, inspect.Parameter]:
    """The parameters that a maker requires. Those with a default keep it, but for a family's numbers."""
    numbers = isinstance(function, DistributionMaker)
    parameters = inspect.signature(function.maker if isinstance(function, DistributionMaker) else function).parameters
    return {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty or (numbers and type(parameter.default) in (int, float))
    }


def maker_of(item: Any) -> Callable | None:
    """The function of an item that has one."""
    item = item.component if isinstance(item, Named) else item
    return item.function if isinstance(item, Closure) else None


def _positions(item: Any, place: int) -> tuple[tuple[int, str], ...]:
    """The items that a maker takes, nearest first, with the names it has for them."""
    maker = maker_of(item)
    if maker is None:
        return ()
    positions: list[tuple[int, str]] = []
    for name, parameter in parameters_of(maker).items():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            positions.extend((back, "_") for back in range(place - 1 - len(positions), -1, -1))
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            positions.append((place - 1 - len(positions), name))
    if positions and positions[-1][0] < 0:
        raise DomainError(
            f"the maker at position {place}, which takes {listed(name for _, name in positions)}",
            expected=f"at most {place} arguments: its arguments are the items before it, the nearest first",
        )
    return tuple(positions)


def _site_names(items: tuple, parents: tuple) -> tuple[str, ...]:
    """Each item's own name, else the one that a maker after it uses, else x, x1 …"""
    names: dict[int, str] = {place: item.name for place, item in enumerate(items) if isinstance(item, Named)}
    for maker, arguments in enumerate(parents):
        for place, name in arguments:
            if name == "_":
                continue
            if names.setdefault(place, name) != name:
                raise NameClash(
                    f"the item at position {place} under the names {names[place]!r} and {name!r} (position {maker})",
                    expected="one name for each item",
                    advice="arguments are the items before, the nearest first; `_` skips one",
                )
    spare = (f"x{number or ''}" for number in range(len(items) + len(names) + 1))
    free = (name for name in spare if name not in names.values())
    site_names = tuple(names[place] if place in names else next(free) for place in range(len(items)))
    twice = [name for name in site_names if site_names.count(name) > 1]
    if twice:
        raise NameClash(f"two items called {twice[0]!r}", expected="a name of its own for each item")
    return site_names
