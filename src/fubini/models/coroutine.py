"""Joints written as generator functions: each `yield` is a site, and gets its value back."""

from __future__ import annotations

import functools
import inspect
import keyword
import types
from collections.abc import Callable, Generator, Mapping
from typing import Any

import jax
import numpy as np

from fubini.base.assignment import target
from fubini.base.closure import Closure, is_record
from fubini.base.distant import DistantArray
from fubini.distributions.named_site import Named
from fubini.errors import DomainError, NameClash
from fubini.models.container import struct
from fubini.models.fixed import Fixed
from fubini.models.flavour import Sites
from fubini.models.joint import Joint
from fubini.models.param import Param


@jax.tree_util.register_pytree_node_class
class JointCoroutine(Joint):
    """A generator function with arguments: int, bool, str and callable ones are fixed, floats and arrays parameters.

    The target of a plain assignment names its site; `.named("x")` does otherwise, else sites are var0, var1 …

    >>> from fubini import dist
    >>> def model(scale):
    ...     m = yield dist.Normal(0.0, scale)
    ...     x = yield dist.Normal(m, 1.0)
    >>> JointCoroutine(model, 2.0).names
    ('m', 'x')
    """

    def __init__(self, function: Callable[..., Generator], *args: Any, **named: Any) -> None:
        if not inspect.isgeneratorfunction(inspect.unwrap(function)):
            raise DomainError(
                f"a model from {function!r}",
                expected="a generator function",
                nearest="no line of it has a `yield`",
                advice="write each site as `x = yield dist.Normal(0., 1.)`",
            )
        try:
            inspect.signature(function).bind(*args, **named)
        except TypeError as error:
            asked = f"{function.__name__} with {len(args)} arguments and {sorted(named)}"
            raise DomainError(asked, expected=str(error)) from error
        self.closure = Closure(function)
        self.arguments = tuple(map(_argument, (*args, *named.values())))
        self.keywords = tuple(named)

    def sites(self) -> Sites:
        count = len(self.arguments) - len(self.keywords)
        values = list(map(_opened, self.arguments))
        generator = self.closure.function(*values[:count], **dict(zip(self.keywords, values[count:], strict=True)))
        labels = Labels()
        sent = None
        while True:
            try:
                component = generator.send(sent)
            except StopIteration:
                return
            sent = yield labels.name(component, target(generator)), component

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        return struct(tuple(values))(*values.values())

    def tree_flatten(self) -> tuple[tuple, tuple[str, ...]]:
        return (self.closure, *self.arguments), self.keywords

    @classmethod
    def tree_unflatten(cls, keywords: tuple[str, ...], children: tuple) -> JointCoroutine:
        new = object.__new__(cls)
        new.closure, *arguments = children
        new.arguments, new.keywords = tuple(arguments), keywords
        return new

    @property
    def title(self) -> str:
        return super().title.replace(type(self).__name__, self.closure.function.__name__, 1)


def model(function: Callable[..., Generator]) -> Callable[..., JointCoroutine]:
    """A generator function as a family of joints: `simple(…)` is one for these arguments.

    >>> from fubini import dist
    >>> @model
    ... def simple():
    ...     s = yield dist.InverseGamma(3.0, 2.0)
    ...     m = yield dist.Normal(0.0, 1.0)
    ...     x = yield dist.Normal(m, s)
    >>> round(float(simple().log_prob(s=1.0, m=0.0, x=0.5)), 6)
    -2.576583
    """

    @functools.wraps(function)
    def make(*args: Any, **named: Any) -> JointCoroutine:
        return JointCoroutine(function, *args, **named)

    make.makes_joints = True  # type: ignore[attr-defined]
    return make


def is_model_function(value: Any) -> bool:
    """Whether a value is a function under `@fb.model`.

    >>> is_model_function(model(lambda: (yield))), is_model_function(len)
    (True, False)
    """
    return getattr(value, "makes_joints", False) is True


def _argument(value: Any) -> Any:
    """Floats and arrays are parameters, also inside containers; what else there is, is fixed."""
    if isinstance(value, (list, tuple, dict)):
        return jax.tree_util.tree_map(_argument, value, is_leaf=lambda item: item is not value)
    if _is_of_pandas(value):
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind not in "biufc":
        raise DomainError(
            f"an argument of dtype {value.dtype}",
            expected="numbers",
            nearest=f"an entry {value.flat[0]!r}" if value.size else "",
            advice="turn labels into whole numbers: np.unique(labels, return_inverse=True)[1]",
        )
    if isinstance(value, (float, np.ndarray, np.floating, jax.Array, DistantArray)):
        return value
    if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)) or is_record(value):
        return Closure(value)
    if value is not None and not jax.tree_util.all_leaves([value]):
        return value
    return Fixed(value)


def _is_of_pandas(value: Any) -> bool:
    """Whether a value is a data frame of pandas, or a column of one."""
    return hasattr(value, "to_numpy") and getattr(value, "ndim", 0) in (1, 2)


def _opened(argument: Any) -> Any:
    """The arguments that the function is called with."""

    def opened(item: Any) -> Any:
        if isinstance(item, Closure):
            return item.function
        return item.value if isinstance(item, (Fixed, Param)) else item

    return jax.tree_util.tree_map(opened, argument, is_leaf=lambda item: isinstance(item, (Closure, Fixed, Param)))


class Labels:
    """Names for the sites of one run."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}
        self.unnamed = 0
        self.explicit: set[str] = set()

    def name(self, component: Any, target: str | None) -> str:
        """Choose a site's name: its own, else that of the assignment, numbered from the second on, else var0 …"""
        if isinstance(component, Named):
            if not component.name.isidentifier() or keyword.iskeyword(component.name) or component.name[0] == "_":
                raise NameClash(
                    f"a site called {component.name!r}", expected="a name that the field of a tuple can have"
                )
            if component.name in self.explicit or component.name in self.seen:
                raise NameClash(f"two sites called {component.name!r}", expected="a name of its own for each site")
            self.explicit.add(component.name)
            return component.name
        if target is None or target.startswith("_"):
            self.unnamed += 1
            return f"var{self.unnamed - 1}"
        count = self.seen[target] = self.seen.get(target, -1) + 1
        return f"{target}_{count}" if count else target
