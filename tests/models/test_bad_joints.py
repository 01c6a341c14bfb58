"""Bad models: what was asked, what was expected, and what to do, in every message."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, NameClash, UnknownName

from .bad import Bad, check
from .flavours import Simple, in_dict, in_list, items, simple

KEY = jax.random.key(0)
NORMAL = dist.Normal(0.0, 1.0)
VECTOR = fb.JointNamed(dict(x=dist.Normal(np.zeros(3), 1.0)))


def coroutine(*yielded: Any) -> fb.Joint:
    def model() -> Iterator[Any]:
        yield from (item for item in yielded)

    return fb.JointCoroutine(model)


def target(name: str) -> fb.Joint:
    """A generator function that assigns a site to a variable of this name."""
    scope: dict[str, Any] = {"NORMAL": NORMAL}
    exec(f"def model():\n    {name} = yield NORMAL\n    return {name}", scope)
    return fb.JointCoroutine(scope["model"])


def ring() -> fb.Joint:
    makers = dict(a=lambda b: dist.Normal(b, 1.0), b=lambda c: dist.Normal(c, 1.0), c=lambda a: dist.Normal(a, 1.0))
    return fb.JointNamed({**makers, "d": NORMAL})


def branch() -> Iterator[Any]:
    x = yield NORMAL
    if x > 0:
        yield NORMAL


def sized() -> Iterator[Any]:
    n = yield dist.Poisson(3.0)
    yield NORMAL.expand([n])


def counted() -> Iterator[Any]:
    n = yield dist.Poisson(3.0)
    for _ in range(n):
        yield NORMAL


MODELS: dict[str, Bad] = {
    # order and parents
    "a cycle": (ring, ValueError, ["a → c → b → a", "depend only on sites before them"]),
    "a site that needs itself": (lambda: fb.JointNamed(dict(a=lambda a: NORMAL)), ValueError, ["a → a"]),
    "a missing parent": (
        lambda: fb.JointNamed(dict(mean=NORMAL, x=lambda maen: NORMAL)),
        UnknownName,
        ["the argument 'maen' of the maker of 'x'", "'mean', 'x'", "nearest:  'mean'"],
    ),
    "too many arguments": (
        lambda: fb.JointSequential([NORMAL, lambda a, b: NORMAL]),
        DomainError,
        ["the maker at position 1, which takes 'a', 'b'", "at most 1"],
    ),
    # names
    "two own names": (lambda: fb.JointSequential([NORMAL.named("a")] * 2), NameClash, ["two items called 'a'"]),
    "a name and a maker's": (
        lambda: fb.JointSequential([NORMAL.named("a"), lambda b: NORMAL]),
        NameClash,
        ["position 0 under the names 'a' and 'b' (position 1)", "`_` skips one"],
    ),
    "two makers' names": (
        lambda: fb.JointSequential([NORMAL, lambda a: NORMAL, lambda _, b: NORMAL]),
        NameClash,
        ["position 0 under the names 'a' and 'b' (position 2)"],
    ),
    "two own names in a generator": (
        lambda: coroutine(NORMAL.named("a"), NORMAL.named("a")).names,
        NameClash,
        ["two sites called 'a'"],
    ),
    "a name that no field can have": (
        lambda: coroutine(NORMAL.named("a b")).names,
        NameClash,
        ["a site called 'a b'", "the field of a tuple"],
    ),
    # containers and components
    "a list for a dict": (lambda: fb.JointNamed([NORMAL]), DomainError, ["JointNamed of a list", "JointSequential"]),
    "a set for a list": (lambda: fb.JointSequential({NORMAL}), DomainError, ["JointSequential of a set", "JointNamed"]),
    "a dict for a list": (lambda: fb.JointSequential({"a": NORMAL}), DomainError, ["JointSequential of a dict"]),
    "a namedtuple for a list": (
        lambda: fb.JointSequential(Simple(*items())),
        DomainError,
        ["JointSequential of a Simple", "JointNamed"],
    ),
    "a number for a distribution": (
        lambda: fb.JointSequential([NORMAL, 3.0]),
        DomainError,
        ["the component 3.0 of the site 'x1'", "a distribution, a joint"],
    ),
    "a number from a maker": (
        lambda: fb.JointNamed(dict(a=lambda: 3.0)).names,
        DomainError,
        ["the component 3.0 of the site 'a'"],
    ),
    "a number from a generator": (lambda: coroutine("q").names, DomainError, ["the component 'q' of the site 'var0'"]),
    "no generator function": (
        lambda: fb.JointCoroutine(lambda: NORMAL),
        DomainError,
        ["a generator function", "yield"],
    ),
    "an argument too many": (lambda: simple(NORMAL, 2.0), DomainError, ["simple with 2 arguments", "too many"]),
    "a mixture of one joint": (lambda: fb.JointMixture([1.0], in_list()), DomainError, ["a mixture of", "a list"]),
    "a mixture of distributions": (lambda: fb.JointMixture([1.0], [NORMAL]), DomainError, ["a mixture of Normal"]),
    "a weight too many": (
        lambda: fb.JointMixture([0.5, 0.25, 0.25], [in_list(), in_list()]),
        DomainError,
        ["weights of shape (3,)", "2 joints"],
    ),
    "weights that add up to more": (lambda: fb.JointMixture([0.5, 0.6], [in_list()] * 2), DataError, ["probs"]),
    "a mixture of unlike joints": (
        lambda: fb.JointMixture([0.5, 0.5], [in_dict(), VECTOR]),
        DomainError,
        ["{'s': (), 'm': (), 'x': ()} and {'x': (3,)}", "the same names"],
    ),
    # control flow
    "a branch on a random value": (
        lambda: fb.JointCoroutine(branch).names,
        DomainError,
        ["control flow on a random value or a parameter, after the site 'x'", "jnp.where"],
    ),
    "a random size": (lambda: fb.JointCoroutine(sized).names, DomainError, ["control flow", "after the site 'n'"]),
    "a loop of random length": (lambda: fb.JointCoroutine(counted).names, DomainError, ["control flow", "'n'"]),
    "a branch in a maker": (
        lambda: fb.JointSequential([NORMAL, lambda x: dist.Normal(1.0 if x > 0 else 0.0, 1.0)]).sample(KEY),
        DomainError,
        ["control flow on a random value", "'x' of JointSequential"],
    ),
}


def test_a_joint_is_no_list() -> None:
    """Slices of a model are models, for ever."""
    with pytest.raises(TypeError, match="not iterable"):
        list(in_list())


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    check(MODELS[name])


RESERVED: dict[str, Callable[[str], Any]] = {
    "a dict": lambda name: fb.JointNamed({name: NORMAL}),
    "an own name in a list": lambda name: fb.JointSequential([NORMAL.named(name)]),
    "a maker's argument": lambda name: fb.JointSequential([NORMAL, eval(f"lambda {name}: NORMAL", {"NORMAL": NORMAL})]),
    "an own name in a generator": lambda name: coroutine(NORMAL.named(name)).names,
    "the target of an assignment": lambda name: target(name).names,
}


@pytest.mark.parametrize("name", ["key", "shape", "value", "name"])
@pytest.mark.parametrize("where", RESERVED)
def test_reserved_names(where: str, name: str) -> None:
    """A9: the arguments of `sample`."""
    with pytest.raises(NameClash, match=f"a site called '{name}'(.|\n)*'key', 'shape', 'value', 'name'"):
        RESERVED[where](name)
