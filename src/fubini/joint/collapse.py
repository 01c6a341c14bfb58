"""A conditioned joint with some of its latents integrated out: the density that is left, and draws of those latents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.arrays import Data, is_double_precision, is_traced, within_memory
from fubini.errors import listed
from fubini.index.axes import Axes
from fubini.index.beforehand import QUICK, known_parts, largest
from fubini.index.build import scale
from fubini.index.lower import Evaluation
from fubini.index.node import Node
from fubini.joint.reading import Reading, read
from fubini.symbolic.block import Block
from fubini.symbolic.collect import Blocked
from fubini.symbolic.draws import drawn
from fubini.symbolic.elimination import Eliminated
from fubini.symbolic.laws import block_parameters, conditional_parameters, parameters
from fubini.symbolic.search import Latent, Reduced, Search, Step
from fubini.symbolic.student import Student, scale_law

_PLANS: dict[tuple, Collapse] = {}
_KEPT = 256


def collapse(joint: Any, names: Iterable[str] | None = None, last: str | None = None) -> Collapse:
    """As many of these latents eliminated as can be, or of all; `last` is kept until the others are gone."""
    reading = read(joint)
    asked = tuple(reading.sites) if names is None else tuple(names)
    key = (id(reading), frozenset(asked), last)
    found = _PLANS.get(key)
    if found is None or found.reading is not reading:
        found = Collapse(reading, _reduced(reading, asked, last))
        if not found.is_traced:
            _PLANS[key] = found
            if len(_PLANS) > _KEPT:
                del _PLANS[next(iter(_PLANS))]
    return found


def _reduced(reading: Reading, names: Sequence[str], last: str | None) -> Reduced:
    """Latents are in the order in which they were written."""
    latents = {n: Latent(reading.sites[n], reading.domains[n]) for n in reading.sites if n in names and n != last}
    terms = tuple(reading.terms.values())
    kept = {} if last is None else {last: Latent(reading.sites[last], reading.domains[last])}
    found = Search(latents, tuple(kept.values())).best(terms)
    if last is None or found.blocked:
        return found
    final = Search(kept).best(found.terms)
    return Reduced(final.terms, (*found.steps, *final.steps), final.blocked)


def collapse_real_first(joint: Any, last: str) -> Collapse | None:
    """All latents eliminated, the real ones in one block, and this one after all others; None where they cannot."""
    reading = read(joint)
    latents = {n: Latent(reading.sites[n], reading.domains[n]) for n in reading.sites}
    real = [n for n, latent in latents.items() if latent.domain.kind == "real" and n != last]
    step = Search(latents).together(tuple(reading.terms.values()), real[0]) if real else None
    if step is None or last in step.names:
        return None
    others = {n: latent for n, latent in latents.items() if n not in step.names and n != last}
    rest = Search(others).best(step.result.terms)
    final = Search({last: latents[last]}).best(rest.terms)
    if rest.blocked or final.blocked:
        return None
    return Collapse(reading, Reduced(final.terms, (step, *rest.steps, *final.steps), {}))


def collapse_together(joint: Any, name: str, labels: Sequence[str] = ()) -> Collapse | None:
    """All latents but labels eliminated, normal ones coupled with this one first, as one block; None where they cannot.

    With a variance that all of them share, a block of normals is one of Student's t. For marginals, not for draws.
    """
    reading = read(joint)
    latents = {n: Latent(reading.sites[n], reading.domains[n]) for n in reading.sites if n not in labels}
    search = Search(latents)
    terms = tuple(reading.terms.values())
    step = search.together(terms, name)
    if step is None:
        return None
    others = {n: latent for n, latent in latents.items() if n not in step.names}
    rest = Search(others).best(step.result.terms)
    if rest.blocked:
        return None
    if not rest.steps:
        return Collapse(reading, Reduced(rest.terms, (step,), {}))
    block, last = step.result, rest.steps[0]
    if len(rest.steps) != 1 or not isinstance(last.result, Eliminated) or not isinstance(block, Block):
        return None
    law = scale_law(block, reading.sites[last.names[0]], last.result.law)
    if law is None:
        return None
    shape, rate = law
    student = Student(rest.terms, block.latents, block.layout, block.rows, scale(2.0, shape), scale(2.0, rate))
    return Collapse(reading, Reduced(rest.terms, (Step(step.names, student), last), {}))


class Collapse:
    """A reading and its reduction, ready for numbers."""

    def __init__(self, reading: Reading, reduced: Reduced) -> None:
        self.reading, self.reduced = reading, reduced
        self._functions: dict[tuple, Callable[..., Any]] = {}
        self._on_device: dict[bool, Any] = {}

    @property
    def eliminated(self) -> tuple[str, ...]:
        """The latents that are integrated out, in order."""
        return tuple(name for step in self.reduced.steps for name in step.names)

    @property
    def kept(self) -> tuple[str, ...]:
        """The latents that are left, in the order of the model."""
        return tuple(name for name in self.reading.sites if name not in self.eliminated)

    @property
    def blocked(self) -> Mapping[str, Blocked]:
        """Why each of those that were asked for stayed."""
        return self.reduced.blocked

    @property
    def is_traced(self) -> bool:
        """Its numbers are not known yet."""
        return is_traced(*self.reading.reader.known.values())

    # -- numbers -----------------------------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> tuple[Node, ...]:
        """The nodes that the data alone decide; where nothing else is left, all is computed at once instead."""
        if not self.kept:
            return ()
        sites = frozenset(self.reading.sites.values())
        return tuple(known_parts(self.reduced.terms, lambda this: bool(this.leaves & sites)))

    @cached_property
    def _prepared(self) -> list[Axes]:
        """Their values, computed once in double precision."""
        if self._is_quick:
            with jax.enable_x64(True), eval_context(), np.errstate(all="ignore"):
                found = Evaluation(self._arrays({}, self._known), xp=np)
                return [found.of(part) for part in self._parts]
        orders: list[Any] = []

        def compute(known: list[Data]) -> list[Data]:
            found = Evaluation(self._arrays({}, known))
            parts = [found.of(part) for part in self._parts]
            orders.extend(part.of for part in parts)
            return [part.data for part in parts]

        with jax.enable_x64(True), eval_context():
            numbers = jax.jit(compute)(self._known)
        return [Axes(np.asarray(data), order) for data, order in zip(numbers, orders, strict=True)]

    @cached_property
    def _is_quick(self) -> bool:
        """NumPy is done before a compiler would be."""
        found = largest(self.reduced.terms)
        return not self.reading.reader.opaque and all(size <= most for size, most in zip(found, QUICK, strict=True))

    @property
    def _known(self) -> list[Data]:
        return list(self.reading.reader.known.values())

    @property
    def numbers(self) -> tuple[list[Data], list[Data]]:
        """Data, and what they alone decide."""
        return self._known, [] if self.is_traced else [axes.data for axes in self._prepared]

    def evaluation(self, values: Mapping[str, Data], numbers: Any = None, xp: Any = jnp) -> Evaluation:
        """Of nodes, at values of the latents that are left."""
        known, prepared = self.numbers if numbers is None else numbers
        order = zip(self._parts, prepared, self._prepared, strict=True) if prepared else ()
        before = {part: Axes(xp.asarray(data), axes.of) for part, data, axes in order}
        return Evaluation(self._arrays(values, known), before, xp)

    def _arrays(self, values: Mapping[str, Data], known: list[Data]) -> Any:
        return self.reading.arrays(values, dict(zip(self.reading.reader.known, known, strict=True)))

    def log_density(self, values: Mapping[str, Data], numbers: Any = None, xp: Any = jnp) -> Data:
        """log p(data, the latents that are left); not a number where it is infinite: no integral is, nor a density."""
        found = self.evaluation(values, numbers, xp)
        total = sum((found.of(term).data for term in self.reduced.terms), start=xp.zeros(()))
        return xp.where(total == xp.inf, xp.nan, total)

    def recovered(self, key: Data, values: Mapping[str, Data], numbers: Any = None) -> dict[str, Data]:
        """One draw of the latents that were eliminated, given values of those that are left; the last one first."""
        found = dict(values)
        for place, step in enumerate(reversed(self.reduced.steps)):
            evaluation = self.evaluation(found, numbers)
            leaves = [self.reading.sites[name] for name in step.names]
            new = drawn(step, leaves, jax.random.fold_in(key, place), evaluation)
            found.update((leaf.name, value) for leaf, value in new.items())
        return {name: found[name] for name in self.reading.sites}

    def parameters_of(
        self, values: Mapping[str, Data], numbers: Any = None, xp: Any = jnp, about: str = ""
    ) -> dict[str, Data]:
        """Of the family of a latent that was eliminated, given those that are left."""
        return parameters(self.step_of(about), self.reading.sites[about], self.evaluation(values, numbers, xp))

    def conditional_of(
        self,
        values: Mapping[str, Data],
        numbers: Any = None,
        xp: Any = jnp,
        about: str = "",
        known: tuple[str, ...] = (),
    ) -> dict[str, Data]:
        """The same, given some of the latents that were eliminated with it too."""
        step, sites = self.step_of(about), self.reading.sites
        evaluation = self.evaluation({n: v for n, v in values.items() if n not in known}, numbers, xp)
        if not isinstance(step.result, Block):
            return parameters(step, sites[about], evaluation)
        given = {sites[name]: values[name] for name in known}
        return conditional_parameters(step.result, sites[about], given, evaluation)

    def block_of(
        self, values: Mapping[str, Data], numbers: Any = None, xp: Any = jnp, names: tuple[str, ...] = ()
    ) -> dict[str, Data]:
        """Location and covariance of all latents of a block, end to end."""
        result = self.step_of(names[0]).result
        assert isinstance(result, Block)
        return block_parameters(result, [self.reading.sites[n] for n in names], self.evaluation(values, numbers, xp))

    # -- compiled ----------------------------------------------------------------------------------------------------

    def asked(self, question: str, *args: Any, wide: bool, many: bool = False, **static: Any) -> Any:
        """`log_density(values)` or `recovered(key, values)`; for many, along the leading axes.

        What is asked at tracers is traced; at numbers, computed by NumPy in double precision if that is quick, and
        compiled if not, or for draws and for many.
        """
        if self.is_traced or is_traced(*jax.tree_util.tree_leaves(args)):
            of = partial(getattr(self, question), numbers=self.numbers, **static)
            return (jax.vmap(of) if many else of)(*args)
        if self._is_quick and not many and question != "recovered":
            return self._at_once(question, *args, wide=wide, **static)
        if not wide and not self.kept and question != "recovered":  # of data alone: exact, then rounded
            found = self.asked(question, *args, wide=True, many=many, **static)
            return jax.tree_util.tree_map(jnp.asarray, found)
        with (
            within_memory(f"{question} of {listed(self.reading.sites)}"),
            jax.enable_x64(True) if wide else nullcontext(),
            eval_context(),
        ):
            found = self._jitted(question, many, *static.items())(*args, self._numbers(is_double_precision()))
            return jax.tree_util.tree_map(np.asarray, found) if wide else found

    def _at_once(self, question: str, values: Mapping[str, Data], *, wide: bool, **static: Any) -> Any:
        given = {name: np.asarray(value) for name, value in values.items()}
        with jax.enable_x64(True), eval_context(), np.errstate(all="ignore"):
            found = getattr(self, question)(given, self.numbers, np, **static)
        with np.errstate(over="ignore"):  # in single precision, what is too large is infinite
            return jax.tree_util.tree_map(np.asarray if wide else jnp.asarray, found)

    def _jitted(self, question: str, many: bool, *static: tuple[str, Any]) -> Callable[..., Any]:
        """Compiled once for each question."""
        key = (is_double_precision(), question, many, *static)
        if key not in self._functions:
            of = partial(getattr(self, question), **dict(static))
            axes = (0, 0, None) if question == "recovered" else (0, None)
            self._functions[key] = jax.jit(jax.vmap(of, in_axes=axes) if many else of)
        return self._functions[key]

    def _numbers(self, wide: bool) -> Any:
        """Data on the device, in one width or the other."""
        if wide not in self._on_device:
            self._on_device[wide] = jax.tree_util.tree_map(jnp.asarray, self.numbers)
        return self._on_device[wide]

    def step_of(self, name: str) -> Step:
        """How a latent was eliminated."""
        return next(step for step in self.reduced.steps if name in step.names)
