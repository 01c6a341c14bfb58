"""`kernel`: the exact distribution of a latent as one compiled function of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jax
import numpy as np

from fubini.algebra.features import NoClosedForm
from fubini.algebra.node import Index, Leaf, Node
from fubini.base.arrays import is_traced
from fubini.compile.exact import Function, Output, function_of, room
from fubini.compile.machine import interpreted, loaded, require_engine
from fubini.errors import DataError, DomainError, Intractable, listed
from fubini.integrate.elimination import Eliminated
from fubini.integrate.one_latent import eliminate_one
from fubini.integrate.search import ORDER
from fubini.models.call_values import FlatJoint
from fubini.models.checks import required
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Flavour
from fubini.models.question_heads import exact_posterior_function
from fubini.models.reading import Reading, read


class PosteriorFunction:
    """The parameters of latents' distributions given data and the latents eliminated after them.

    Calling it with arrays in place of the observations, and values of later latents, gives parameters by latent.
    """

    def __init__(self, model: FlatModel, names: Sequence[str], engine: str = "numba") -> None:
        require_engine(engine)
        self.flat_joint, self.joint, self.engine = model, model.joint, engine
        joint = model.joint
        if is_traced(*self.flat_joint.leaves):
            raise DomainError(
                f"kernel of {joint} under jit, vmap or grad",
                expected="data like those to come when it is made",
                advice="make it outside; its function takes NumPy arrays",
            )
        self.reading, self.places = _read(self.flat_joint)
        for name in names:
            required(name, joint, self.reading.sites)
        self.steps = _steps(joint, self.reading)
        self.names = tuple(names) or tuple(self.steps)[-1:]

    @cached_property
    def compiled(self) -> Function:
        """The function's text and arguments."""
        outputs = [
            Output(f"{name}_{parameter}", _used(self.steps[name], node), node)
            for name in self.names
            for parameter, node in self.steps[name].distribution.parameters.items()
        ]
        return function_of(outputs, self._unknown, frozenset(self.reading.reader.known))

    def _unknown(self, node: Node, order: Sequence[Index]) -> np.ndarray:
        """Numbers are of no interest when the text is written."""
        return np.zeros([i.size for i in order])

    def source(self) -> str:
        """The text of the function, as it is compiled."""
        return self.compiled.source

    @cached_property
    def function(self) -> Any:
        """The compiled function of arrays: those of `compiled.arguments`, outputs last."""
        return (loaded if self.engine == "numba" else interpreted)(self.compiled.source).value

    def arrays(self, given: Mapping[str, Any]) -> list[np.ndarray]:
        """All arguments: those given by name, and the model's own for others."""
        wanted: dict[str, list[Leaf]] = {}
        for leaf in self.compiled.data.values():
            wanted.setdefault(leaf.name, []).append(leaf)
        for name in given:
            if name not in wanted:
                raise DomainError(f"kernel({name}=…)", expected=f"arrays that it reads: {listed(wanted)}")
        self._require_own(name for name in given if any(map(self._is_of_whole_numbers, wanted[name])))
        return [
            np.asarray(self._array(leaf, given), np.int64 if leaf.is_integer else float)
            for leaf in self.compiled.data.values()
        ]

    def _is_of_whole_numbers(self, leaf: Leaf) -> bool:
        """Whether a leaf holds whole numbers, or what was made of an argument."""
        return leaf.is_integer or (leaf.role != "site" and leaf not in self.places)

    def _require_own(self, names: Iterable[str]) -> None:
        """Whole numbers may be replaced where each array of them was read as one of its own, and nothing made of it."""
        asked = listed(names)
        whole_numbers = [
            _content(leaf)
            for leaf in self.flat_joint.leaves
            if np.asarray(leaf).dtype.kind in "biu" and np.size(leaf) > 1
        ]
        others = [leaf for leaf in self.compiled.data.values() if leaf.role != "site" and leaf not in self.places]
        read = [_content(self.reading.reader.known[leaf]) for leaf in others]
        made = [
            leaf
            for leaf, content in zip(others, read, strict=True)
            if content not in whole_numbers or not leaf.is_integer
        ]
        if asked != "none" and (len(set(whole_numbers)) < len(whole_numbers) or len(set(read)) < len(read) or made):
            raise DataError(
                f"other data for {asked}",
                expected="a kernel made for whole numbers of which no two arrays are equal, and none was computed with",
                nearest="equal arrays are read as one, and what depends on whole numbers alone is computed once",
                advice="make the kernel with data like those to come, or a new one for each",
            )

    def _array(self, leaf: Leaf, given: Mapping[str, Any]) -> np.ndarray:
        if leaf.name not in given:
            return self._own(leaf).reshape(leaf.shape)
        if np.ma.is_masked(given[leaf.name]):
            raise DataError(
                f"an array {leaf.name!r} with masked entries",
                expected="numbers for all entries",
                advice="make a kernel of the model conditioned on masked data",
            )
        array = np.asarray(given[leaf.name])
        if array.shape != leaf.shape:
            raise DomainError(f"an array {leaf.name!r} of shape {array.shape}", expected=f"the shape {leaf.shape}")
        if leaf.is_integer and not np.all(array == np.floor(array)):
            raise DataError(
                f"an array {leaf.name!r} of type {array.dtype}", expected="whole numbers, as those compiled for"
            )
        low, high = (-np.inf if leaf.low is None else leaf.low), (np.inf if leaf.high is None else leaf.high)
        if not np.all((array >= low) & (array <= high)):
            raise DataError(
                f"an array {leaf.name!r}", expected=f"numbers from {low:g} to {high:g}, as those compiled for"
            )
        return array

    def _own(self, leaf: Leaf) -> np.ndarray:
        """The model's own numbers."""
        if leaf.role == "site":
            expected = "values of the latents eliminated after those asked for"
            raise DataError(f"no value for {leaf.name!r}", expected=expected)
        return np.asarray(
            self.flat_joint.leaves[self.places[leaf]] if leaf in self.places else self.reading.reader.known[leaf]
        )

    def __call__(self, **given: Any) -> dict[str, dict[str, Any]]:
        """Parameters by latent."""
        outputs = list(room(self.compiled))
        self.function(*self.arrays(given), *outputs)
        parameters: dict[str, dict[str, Any]] = {name: {} for name in self.names}
        values = iter(outputs)
        for name in self.names:
            for parameter in self.steps[name].distribution.parameters:
                value = next(values)
                parameters[name][parameter] = value if value.shape else float(value)
        return parameters


@exact_posterior_function.rule
def posterior_function(model: FlatModel, names: tuple, engine: Any) -> PosteriorFunction:
    """p(x | θ, data), in its parameters"""
    return PosteriorFunction(model, names, engine)


def _read(flat_joint: FlatJoint) -> tuple[Reading, dict[Leaf, int]]:
    """A model as a function of its real numbers, of which nothing is known; and which leaf is which of these."""
    readings: list[tuple[Reading, dict[Leaf, int]]] = []
    real = [place for place, leaf in enumerate(flat_joint.leaves) if np.asarray(leaf).dtype.kind == "f"]

    def look(numbers: list[Any]) -> list[Any]:
        leaves = list(flat_joint.leaves)
        for place, number in zip(real, numbers, strict=True):
            leaves[place] = number
        reading = read(FlatJoint(flat_joint.rebuilt(leaves)))
        places = {id(number): place for place, number in zip(real, numbers, strict=True)}
        known = reading.reader.known.items()
        readings.append((reading, {leaf: places[id(value)] for leaf, value in known if id(value) in places}))
        return numbers

    jax.eval_shape(look, [flat_joint.leaves[place] for place in real])
    return readings[0]


def _content(array: Any) -> tuple[int, bytes]:
    numbers = np.asarray(array, float)
    return numbers.size, numbers.tobytes()


def _steps(joint: Flavour, reading: Reading) -> dict[str, Eliminated]:
    """Latents eliminated one by one, locations first; blocked where entries are coupled or no family is known."""
    order = sorted(reversed(list(reading.sites)), key=lambda name: _rank(reading, name))
    terms, steps = tuple(reading.terms.values()), dict[str, Eliminated]()
    for name in order:
        try:
            steps[name] = eliminate_one(terms, reading.sites[name], reading.domains[name].kind, is_plain=True)
        except NoClosedForm as error:
            raise Intractable(
                f"kernel of {joint}: the conditional of {name!r} given the remaining latents has no closed form here",
                expected=error.why,
                nearest=f"in {error.node!r}"[:160],
            ) from error
        terms = steps[name].terms
    return steps


def _rank(reading: Reading, name: str) -> int:
    """Real latents before others, those with finitely many values last."""
    kind = reading.domains[name].kind
    return 9 if kind == "bint" else ORDER.get(kind, 3)


def _used(step: Eliminated, node: Node) -> tuple[Index, ...]:
    return tuple(i for i in step.at if i in node.free)
