"""The public classes: those that the reference documents, and those that public functions and methods return."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tests.test_reference import INSIDE, documented, named


def classes_in(annotation: Any) -> Iterator[type]:
    """Yield the classes of the library in a type: its own, and those of its arguments."""
    if isinstance(annotation, type) and annotation.__module__.startswith("fubini."):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from classes_in(argument)


def functions_of(thing: Any) -> Iterator[Callable]:
    """Yield a function itself, and the public methods and properties of a class."""
    if not isinstance(thing, type):
        yield from [thing] if inspect.isfunction(thing) else []
        return
    for name in dir(thing):
        member = inspect.getattr_static(thing, name)
        function = getattr(member, "fget", None) or getattr(member, "__func__", member)
        if not name.startswith("_") and name not in INSIDE and inspect.isfunction(function):
            yield function


@cache
def public_classes() -> dict[str, type]:
    """The public classes by the name of their module and their own."""
    things = [named(name) for name in documented()]
    classes = {thing for thing in things if isinstance(thing, type)}
    for thing in things:
        for function in functions_of(thing):
            classes.update(classes_in(typing.get_type_hints(function).get("return")))
    return {f"{kind.__module__.removeprefix('fubini.')}.{kind.__name__}": kind for kind in classes}
