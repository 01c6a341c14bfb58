"""A model with some of its latents integrated out: the density of the remaining ones, and draws of those latents."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_context

from fubini.algebra.axes import Axes
from fubini.algebra.constant_parts import QUICK, known_parts, largest
from fubini.algebra.evaluation import Evaluation
from fubini.algebra.mesh_sums import without_rows
from fubini.algebra.node import Leaf, Node
from fubini.base.arrays import (
    Data,
    double_precision,
    in_force,
    is_double_precision,
    is_traced,
    precision,
    within_memory,
)
from fubini.base.distant import is_distant
from fubini.base.domains import Domain
from fubini.base.interpretations import interpret
from fubini.base.semirings import sum_product
from fubini.base.stream import refuse_rows
from fubini.bridge.described import described
from fubini.bridge.indexed_density import plan_of
from fubini.bridge.parameter import nodes_of
from fubini.eliminate.plan import Plan
from fubini.engines.host_keys import split
from fubini.errors import DataError, DomainError, listed
from fubini.integrate.gamma_ratios import with_gamma_ratios
from fubini.integrate.latent_draws import drawn
from fubini.models.calls import as_numbers, require_in_domain
from fubini.models.checks import require_allowed, required
from fubini.models.compiled_function import Answer, CompiledFunction
from fubini.models.data_numbers import require_numbers
from fubini.models.draw_arrays import arrays_of
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import ELIMINATE, GIBBS, LOG_EVIDENCE, METROPOLIS, PREDICT
from fubini.models.reading import Reading
from fubini.models.structure import NotComparable, Structure
from fubini.numerics.randomness import require_key
from fubini.read.leaf_arrays import sums_over_mesh
from fubini.show.printed_form import Block, Shown, Words
from fubini.terms.value import Value

_MODELS: dict[tuple, EliminatedModel] = {}
_SHARED: dict[Hashable, EliminatedModel] = {}  # by structure
_KEPT = 256
SHOWN = 12  # eliminated latents that are printed


def eliminated(model: FlatModel, names: Iterable[str] | None = None) -> EliminatedModel:
    """Eliminate as many of these latents as have a closed form, or of all; equal models give the same object."""
    reading = model.reading
    asked = frozenset(reading.sites if names is None else names)
    key = (id(reading), asked, model.is_on_jax)
    eliminated_model = _MODELS.get(key)
    if eliminated_model is None or eliminated_model.reading is not reading:
        eliminated_model = EliminatedModel(model, plan_of(reading.integrand, asked))
        if not eliminated_model.is_traced:
            _MODELS[key] = eliminated_model
            if len(_MODELS) > _KEPT:
                del _MODELS[next(iter(_MODELS))]
    return eliminated_model


class EliminatedModel(Shown):
    """A model with some of its sites integrated out: a density of the others, from which these can be drawn back."""

    def __init__(self, model: FlatModel, plan: Plan) -> None:
        self.model, self.plan = model, plan
        self._leaves = tuple(model.reading.reader.known)
        self._on_device: dict[bool, Any] = {}
        self._evidence: dict[bool, Data] = {}  # by precision, where no latent remains

    @property
    def _title(self) -> str:
        """The name of the model in a text, with the latents that are integrated out."""
        gone = f" without {listed(self.eliminated)}" if self.eliminated else ""
        return f"{self.joint}{gone}"

    def __format__(self, spec: str) -> str:
        """Show the title alone inside another text, on one line."""
        return self._title

    def _form(self) -> Iterable[Block]:
        """The conditional of each latent that is integrated out, the remaining latents, and what can be asked."""
        yield Words(self._title)
        for one in described(self.plan, self.reading.integrand)[:SHOWN]:
            yield Words(f"{', '.join(map(str, one.names))}: {one.family} given the rest, {one.cost}", 2)
        if len(self.eliminated) > SHOWN:
            yield Words(f"… {len(self.eliminated) - SHOWN:,} more", 2)
        if self.kept:
            yield Words(f"remaining: {listed(self.kept)}")
            yield Words("ask: log_prob(…), recover(key, values), eliminate(name), gibbs(name), metropolis(name)")
        else:
            yield Words("nothing remains")
            yield Words("ask: log_evidence(), recover(key), predict(key, name)")

    @property
    def joint(self) -> Any:
        """The model itself."""
        return self.model.joint

    @property
    def reading(self) -> Reading:
        """The model in index notation."""
        return self.model.reading

    @property
    def eliminated(self) -> tuple[str, ...]:
        """The latents that are integrated out, in order."""
        return tuple(map(str, self.plan.eliminated))

    @property
    def kept(self) -> tuple[str, ...]:
        """The remaining latents, in the order of the model."""
        return tuple(name for name in self.reading.sites if name not in self.eliminated)

    names = kept

    @property
    def blocked(self) -> Mapping[str, Any]:
        """Why each latent that was asked for remains."""
        return self.plan.blocked  # type: ignore[return-value]

    @property
    def is_traced(self) -> bool:
        """Whether its numbers are not known yet."""
        return is_traced(*self.reading.reader.known.values())

    @property
    def is_distant(self) -> bool:
        """Whether some of its numbers stay where they are, over several devices say.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), y=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.condition(y=1.0).eliminate("m").is_distant
        False
        """
        return is_distant(*self.reading.reader.known.values())

    @cached_property
    def latents_of_rows(self) -> tuple[str, ...]:
        """Eliminated latents whose distribution reads all rows of a stream, one number for each: none is drawn."""
        left_out: list[str] = []
        unread = set(self.reading.reader.rows)
        for step in reversed(self.plan.integrals):
            if unread and nodes_of(step).leaves & unread:
                left_out.extend(map(str, step.names))
                unread |= {self.reading.sites[name] for name in step.names}
        return tuple(left_out)

    # -- questions ---------------------------------------------------------------------------------------------------

    def log_prob(self, **values: Any) -> Data:
        """log p(observed, remaining latents), for values of these; leading axes are batches."""
        given, batch = self._given(values, self.names)
        if not is_traced(*given.values()):
            each = {f"value of {name}": value for name, value in given.items()}
            self.model.require_agreement("a density", each)
        log_p = self.compute_log_density(given, many=bool(batch))
        if not is_traced(log_p) and np.isnan(wrong := np.asarray(log_p)).any():
            at = int(np.argmax(np.isnan(wrong.reshape(-1))))
            require_allowed(self.reading, {n: v[at] if batch else v for n, v in given.items()})
            require_numbers(self.joint)
        return log_p.reshape(batch) if batch else log_p

    def recover(self, key: Data, draws: Any) -> dict[str, Data]:
        """Values of all sites: those given, and for each a draw of the sites that were integrated out.

        The draws are arrays by name, with axes of a batch in front, or ArviZ data.
        """
        require_key(key)
        if self.latents_of_rows:
            refuse_rows(stream=next(iter(self.reading.reader.rows.values())))
        given, batch = self._given(arrays_of(draws, self.names), self.names)
        if not batch:
            return self.draw_all(key, given)
        keys = split(key, math.prod(batch))
        values = self.draw_all(keys, given, many=True)
        return {name: value.reshape(batch + value.shape[1:]) for name, value in values.items()}

    def eliminate(self, *names: str) -> EliminatedModel:
        """Return the model with these integrated out too."""
        for name in names:
            required(name, self.joint, self.names)
        return interpret(ELIMINATE, self.model, (*self.eliminated, *names), names)

    def log_evidence(self) -> Value:
        """log p(observed), all sites integrated out."""
        return interpret(LOG_EVIDENCE, self.model, sum_product)

    def predict(self, key: Data, *names: str, draws: Any = 1000, model: Any = None, **options: Any) -> Any:
        """Draws of sites given latents drawn from the posterior; options as of `Joint.predict`."""
        return interpret(PREDICT, self.model, key, names, {"draws": draws, "model": model, **options})

    def gibbs(self, *names: str, **options: Any) -> Any:
        """A compiled sampler of these labels, or of all that are finite, one entry after another.

        The other remaining latents are drawn from their conditionals, or moved by the no-U-turn sampler where there are
        none. With `blocked`, labels are drawn whole from theirs, all chains side by side on XLA. `without` names passes
        to leave out: the draws stay the same, and take longer. Code is made for the sizes of the data, or for their
        values too with `specialise="values"`. The engine "python" runs the same loops uncompiled.
        """
        return interpret(GIBBS, self, names, options)

    def metropolis(self, *names: str, proposal: Callable[..., Any], **options: Any) -> Any:
        """A compiled sampler that proposes one candidate for each entry of these labels, and accepts by the ratio.

        `proposal(place, old, size, uniform)` gives a candidate from 0 to size − 1, from one uniform number, and
        log q(old | new) − log q(new | old); Numba compiles it.
        """
        return interpret(METROPOLIS, self, names, {"proposal": proposal, **options})

    def _given(self, values: Mapping[str, Any], names: tuple[str, ...]) -> tuple[dict[str, Data], tuple[int, ...]]:
        """Return values of these sites, one leading axis for all batches."""
        if not isinstance(values, Mapping):
            raise DomainError(f"values {values!r}", expected=f"a dict with {listed(names)}")
        lacking = [name for name in names if name not in values]
        if lacking:
            raise DataError(f"no value for the site {lacking[0]!r}", expected=f"values for {listed(names)}")
        for name in values:
            required(name, self.joint, names)
        domains = self.reading.domains
        sites = self.reading.sites
        arrays = {name: _numbers(name, values[name], domains[name], sites[name]) for name in names}
        batches: list[tuple[int, ...]] = []
        for name, array in arrays.items():
            shape = domains[name].shape
            if array.shape[array.ndim - len(shape) :] != shape:
                raise DomainError(
                    f"a value of shape {array.shape} for the site {name!r}",
                    expected=f"the shape {shape}, with axes of a batch before it",
                )
            batches.append(array.shape[: array.ndim - len(shape)])
        try:
            batch = np.broadcast_shapes(*batches)
        except ValueError:
            each = ", ".join(f"{name}: {shape}" for name, shape in zip(arrays, batches, strict=True))
            raise DomainError(f"values in batches of the shapes {each}", expected="shapes that broadcast") from None
        if batch:
            arrays = {
                name: (jnp if is_traced(array) else np)
                .broadcast_to(array, batch + domains[name].shape)
                .reshape(-1, *domains[name].shape)
                for name, array in arrays.items()
            }
        return arrays, batch

    # -- numbers -----------------------------------------------------------------------------------------------------

    @cached_property
    def _parts(self) -> tuple[Node, ...]:
        """The nodes that the data alone decide; where no latent remains, all is computed at once instead."""
        if not self.kept or self.is_distant:
            return tuple(self._sums)
        sites = frozenset(self.reading.sites.values())
        return tuple(known_parts(self._terms, lambda this: bool(this.leaves & sites)))

    @cached_property
    def _sums(self) -> dict[Node, Axes]:
        """The sums over rows on a mesh that the density and the conditionals need, of data alone."""
        return sums_over_mesh(self.reading.reader, (*self._terms, *map(nodes_of, self.plan.integrals)))

    @cached_property
    def _terms(self) -> tuple[Node, ...]:
        """The terms of the density, as they are computed."""
        return with_gamma_ratios(self.plan.terms)

    @cached_property
    def _prepared(self) -> list[Axes]:
        """The values of these nodes, computed once in double precision."""
        if self.is_distant:
            return list(self._sums.values())
        if self._is_quick:
            with double_precision(), eval_context(), np.errstate(all="ignore"):
                evaluation = Evaluation(self._arrays({}, self._known), xp=np)
                return [evaluation.of(part) for part in self._parts]
        orders: list[Any] = []

        def compute(known: list[Data]) -> list[Data]:
            evaluation = Evaluation(self._arrays({}, known))
            parts = [evaluation.of(part) for part in self._parts]
            orders.extend(part.of for part in parts)
            return [part.data for part in parts]

        with double_precision(), eval_context():
            numbers = jax.jit(compute)(self._known)
        return [Axes(np.asarray(data), order) for data, order in zip(numbers, orders, strict=True)]

    @cached_property
    def _is_quick(self) -> bool:
        """Whether NumPy is done before a compiler would be."""
        if not without_rows(self._terms, self._sums, self.reading.reader.placed):
            return False
        sizes, opaque = largest(self.plan.terms, self._sums), set(self.reading.reader.opaque)
        return not any(term.leaves & opaque for term in self.plan.terms) and all(
            size <= most for size, most in zip(sizes, QUICK, strict=True)
        )

    @property
    def _known(self) -> list[Data]:
        return [self.reading.reader.known[leaf] for leaf in self._leaves]

    @property
    def numbers(self) -> tuple[Any, ...]:
        """The data, and the nodes that they alone decide."""
        return self._known, [] if self.is_traced else [axes.data for axes in self._prepared]

    def evaluation(self, values: Mapping[str, Data], numbers: Any = None, xp: Any = jnp) -> Evaluation:
        """Return an evaluation of nodes at values of the remaining latents."""
        known, prepared = self.numbers if numbers is None else numbers
        order = zip(self._parts, prepared, self._prepared, strict=True) if prepared else ()
        before = {part: Axes(xp.asarray(data), axes.of) for part, data, axes in order}
        return Evaluation(self._arrays(values, known), before, xp)

    def _arrays(self, values: Mapping[str, Data], known: list[Data]) -> Any:
        return self.reading.arrays(values, dict(zip(self._leaves, known, strict=True)))

    def log_density(self, values: Mapping[str, Data], numbers: Any = None, xp: Any = jnp) -> Data:
        """log p(data, remaining latents); not a number where it is infinite: no integral is, nor a density."""
        evaluation = self.evaluation(values, numbers, xp)
        total = sum((evaluation.of(term).data for term in self._terms), start=xp.zeros(()))
        return xp.where(total == xp.inf, xp.nan, total)

    def draw_eliminated(self, key: Data, values: Mapping[str, Data], numbers: Any = None) -> dict[str, Data]:
        """Draw the latents that were eliminated given values of the remaining ones, the last one first.

        One number for each row of a stream is too many: such latents are left out.
        """
        known = dict(values)
        for place, step in enumerate(reversed(self.plan.integrals)):
            if set(map(str, step.names)) & set(self.latents_of_rows):
                continue
            evaluation = self.evaluation(known, numbers)
            leaves = [self.reading.sites[name] for name in step.names]
            new = drawn(step, leaves, jax.random.fold_in(key, place), evaluation)
            known.update((leaf.name, value) for leaf, value in new.items())
        return {name: known[name] for name in self.reading.sites if name in known}

    # -- compiled ----------------------------------------------------------------------------------------------------

    @cached_property
    def shared(self) -> EliminatedModel:
        """The first model that is the same but for its numbers: what is compiled for it serves this one."""
        structure = None if self.is_traced else self._structure()
        if structure is None:
            return self
        first = _SHARED.pop(structure, self)
        _SHARED[structure] = first
        if len(_SHARED) > _KEPT:
            del _SHARED[next(iter(_SHARED))]
        return first

    def _structure(self) -> Hashable | None:
        """What is computed apart from the numbers; None where some function is opaque."""
        reading = self.reading
        leaves: dict[Leaf, Hashable] = {
            leaf: (name, leaf.shape, leaf.low, leaf.high) for name, leaf in reading.sites.items()
        }
        leaves |= {leaf: (place, leaf.shape, leaf.is_integer, leaf.is_test) for place, leaf in enumerate(self._leaves)}
        structure = Structure(leaves)
        try:
            parts = [structure.of(part) for part in (self.plan.terms, self.plan.integrals, self._parts)]
            prepared = [(structure.of(axes.of), np.shape(axes.data)) for axes in self._prepared]
        except (NotComparable, RecursionError):
            return None
        lies = tuple(getattr(known, "sharding", None) for known in self._known)
        return (self.model.tree, self.kept, *parts, *prepared, *structure.objects, lies)

    @cached_property
    def _log_density(self) -> CompiledFunction[Data]:
        if self.shared is not self:
            return self.shared._log_density
        return CompiledFunction("log_density", self.log_density, 1)

    @cached_property
    def _draws(self) -> CompiledFunction[dict[str, Data]]:
        if self.shared is not self:
            return self.shared._draws
        return CompiledFunction("draws", self.draw_eliminated, 2, on_host=True)

    def compute_log_density(
        self, values: Mapping[str, Data], *, many: bool = False, float64: bool | None = None
    ) -> Data:
        """Compute log p(data, remaining latents), along the leading axes of the values if many.

        At tracers it is traced; at numbers it is computed by NumPy in double precision if that is quick, and compiled
        if not, or for many.
        """
        if self._has_tracers(values):
            return self._log_density.trace(values, numbers=self.numbers, many=many)
        float64 = self.model.is_float64 if float64 is None else float64
        if self.kept or many:
            return self._log_density_at(values, many, float64)
        if float64 not in self._evidence:  # of data alone: one number
            self._evidence[float64] = self._log_density_at(values, many, float64)
        return self._evidence[float64]

    def draw_all(
        self, keys: Data, values: Mapping[str, Data], *, many: bool = False, float64: bool | None = None
    ) -> dict[str, Data]:
        """Draw the eliminated latents, and return all sites; along the leading axes of keys and values if many."""
        if self._has_tracers((keys, values)):
            return self._draws.trace(keys, values, numbers=self.numbers, many=many)
        float64 = self.model.is_float64 if float64 is None else float64
        return self._run(self._draws, keys, values, many=many, float64=float64)

    def _has_tracers(self, arguments: Any) -> bool:
        return self.is_traced or is_traced(*jax.tree_util.tree_leaves(arguments))

    def _log_density_at(self, values: Mapping[str, Data], many: bool, float64: bool) -> Data:
        if self._is_quick and not many:
            return self._log_density_by_numpy(values, float64)
        if not float64 and not self.kept:  # of data alone: exact, then rounded
            return in_force(jnp.asarray(self._log_density_at(values, many, float64=True)))
        return self._run(self._log_density, values, many=many, float64=float64)

    def _log_density_by_numpy(self, values: Mapping[str, Data], float64: bool) -> Data:
        arrays = {name: np.asarray(value) for name, value in values.items()}
        with double_precision(), eval_context(), np.errstate(all="ignore"):
            log_p = self.log_density(arrays, self.numbers, np)
        with np.errstate(over="ignore"):  # in single precision, what is too large is infinite
            return np.asarray(log_p) if float64 else jnp.asarray(log_p)

    def _run(self, function: CompiledFunction[Answer], *arguments: Any, many: bool, float64: bool) -> Answer:
        """Run a compiled function in this precision, at the data on the device."""
        with within_memory(f"{function.name} of {listed(self.reading.sites)}"), precision(float64), eval_context():
            answer = function.run(*arguments, numbers=self._numbers(is_double_precision()), many=many)
            if self.is_distant:
                return jax.block_until_ready(answer)  # of two programs over a mesh at once, each may wait for the other
            return jax.tree_util.tree_map(np.asarray, answer) if float64 else answer

    def _numbers(self, float64: bool) -> Any:
        """The data on the device, in float64 or float32."""
        if float64 not in self._on_device:
            known, *others = self.numbers
            rounded = ([in_force(jnp.asarray(n)) for n in each] for each in others)
            self._on_device[float64] = list(map(jnp.asarray, known)), *rounded
        return self._on_device[float64]


def _numbers(name: str, value: Any, domain: Domain, leaf: Leaf) -> Data:
    """Convert a value to an array of the domain of a site."""
    if is_traced(value):
        return value
    array = as_numbers(value, name)
    require_in_domain(domain, array, name)
    low, high = (-np.inf if leaf.low is None else leaf.low), (np.inf if leaf.high is None else leaf.high)
    if domain.is_discrete and not np.all((array >= low) & (array <= high)):
        raise DataError(f"the value {value!r} of the site {name!r}", expected=f"values from {low:g} to {high:g}")
    return array
