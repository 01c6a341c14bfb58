"""What eliminated variables are distributed as: factors whose parameters are Expressions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fubini import distributions as dist
from fubini.algebra.node import Leaf, Node
from fubini.base.arrays import is_jax, namespace
from fubini.base.domains import Domain, Integer
from fubini.base.names import Name
from fubini.bridge.expression import Expression, computed
from fubini.bridge.integrand import Integrand
from fubini.bridge.large_conditional import is_large, large_conditional
from fubini.bridge.parameter import WORDS, How, Parameter, nodes_of
from fubini.distributions.density import Density
from fubini.distributions.student_conditionals import students_in_turn
from fubini.errors import NoRule, listed
from fubini.factors.gaussian import Gaussian
from fubini.factors.table import Table
from fubini.families.family import family_of, is_family
from fubini.integrate.block import Block
from fubini.integrate.configurations import CONFIGURATIONS
from fubini.integrate.elimination import Eliminated
from fubini.integrate.latent_distributions import family
from fubini.integrate.search import IntegrationStep
from fubini.integrate.student import Student
from fubini.numerics.named_axes import align
from fubini.numerics.randomness import SAMPLES, Randomness
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor
from fubini.terms.value import Array, Value, Variable, is_enumerable, to_array


def name_in_dist(kind: str) -> str:
    """The name in `fubini.distributions` of the conditional of an eliminated variable; empty where it has none."""
    if kind.startswith("Multivariate"):
        return kind
    return next(iter(family_of(kind).names), "") if is_family(kind) else ""


# Labels that are not independent of each other, in words.
COUPLED = {"Chain": "a path of a chain", CONFIGURATIONS: "several labels together"}


@dataclass(frozen=True)
class Conditionals:
    """The distributions of the variables of steps, given values of the slots."""

    integrand: Integrand
    slots: Mapping[Leaf, Value]
    mark: Exactness
    is_on_jax: bool = False

    # -- factors -----------------------------------------------------------------------------------------------------

    def of_step(self, step: IntegrationStep, later: Sequence[Name], names: Sequence[Name] = ()) -> list[Factor]:
        """The densities of the variables of one step, or of some, each given those before it and eliminated later."""
        names = names or step.names
        if is_large(step):
            return [self._large(step, names, later)]
        if not later and isinstance(step.result, Block) and self._is_one_gaussian(step):
            return [self._gaussian(step, names)]
        if not later and isinstance(step.result, Student) and len(names) > 1 and self._is_one_gaussian(step):
            return self._students(step, names)
        return [self.of_one(step, name, names[:place], later) for place, name in enumerate(names)]

    def of_one(
        self, step: IntegrationStep, name: Name, before: Sequence[Name] = (), later: Sequence[Name] = ()
    ) -> Factor:
        """The density of one variable of a step."""
        if isinstance(step.result, (Block, Student)):
            return self._of_block(step, name, before, later)
        kind, leaf, domain = family(step), self.integrand.latents[name], self.integrand.domains[name]
        folds = family_of(kind).folds if is_family(kind) else None
        if not name_in_dist(folds or kind):
            raise self._refusal(step, name, COUPLED[kind] if kind in COUPLED else family_of(kind).plain_words)
        if family_of(kind).is_of_labels:
            if not domain.is_finite and leaf.low:
                raise self._refusal(step, name, f"its values begin at {leaf.low:g}")
            probs = self._parameter("probs", How(step), name, self._shape_of_labels(leaf), before, later)
            return Density(getattr(dist, name_in_dist(kind))(probs=probs), Variable(name, domain))
        record, at = family_of(kind), step.result.at
        parameters = {
            key: self._value(node, record.places(key, at) if record.is_of_vectors else at[: len(leaf.shape)], later)
            for key, node in step.result.distribution.parameters.items()
        }
        made = getattr(dist, name_in_dist(folds or kind))(**parameters, **({"loc": 0.0} if folds else {}))
        return Density(dist.FoldedDistribution(made) if folds else made, Variable(name, domain))

    def marginal(self, step: IntegrationStep, name: Name) -> Factor:
        """The density of a variable that nothing is eliminated after: for arrays of labels, a table of each place."""
        kind, leaf = family(step), self.integrand.latents[name]
        if kind not in COUPLED and not (is_family(kind) and family_of(kind).is_of_labels):
            return self.of_one(step, name)
        if leaf.first < 0:
            raise self._refusal(step, name, f"its values begin at {leaf.low:g}")
        if kind in COUPLED and nodes_of(step).free & set(self.integrand.axes):
            raise self._refusal(step, name, "its parameters differ along named axes")
        probs = self._parameter("probs", How(step), name, self._shape_of_labels(leaf))
        if not is_enumerable(probs):
            raise self._refusal(step, name, f"it depends on {', '.join(map(str, probs.inputs))}")
        probabilities = to_array(probs)
        axes = (*probabilities.names, *places_of(name, len(leaf.shape)), name)
        return Table(probabilities.array, axes)._marked(probabilities.exactness)

    def draw(self, step: IntegrationStep, randomness: Randomness) -> dict[Name, Array]:
        """One draw of the variables of a step together, for each value of the names that these depend on."""
        of, how = self.integrand, How(step)
        names = {of.latents[name]: name for name in step.names}
        leaves = (of.latents[step.names[0]],) if isinstance(step.result, Eliminated) else step.result.latents
        ends = np.cumsum([math.prod(leaf.shape) for leaf in leaves])

        def whole(slots: Mapping[Leaf, Value], given: tuple[Leaf, ...]) -> Parameter:
            return Parameter("draw", how, leaves[0], (int(ends[-1]),), slots, of.reader, of.axes, given, self.mark)

        inputs = whole(self.slots, ()).inputs
        if not all(domain.is_finite for domain in inputs.values()):
            raise self._refusal(step, step.names[0], f"it depends on {listed(inputs)}")
        batch: dict[Name, Domain] = {SAMPLES: randomness.domain, **inputs}
        extents = tuple(domain.extent for domain in batch.values())
        words = jax.random.bits(randomness.next_key(), (*extents, 2), "uint32")
        keys = Array._of(randomness.xp.asarray(words), tuple(batch), batch, Integer[2])
        made = to_array(whole({**self.slots, WORDS: keys}, (WORDS,)))
        numbers = align(made.array, made.names, tuple(batch), 1)
        drawn: dict[Name, Array] = {}
        for leaf, entries in zip(leaves, namespace(numbers).split(numbers, ends[:-1], -1), strict=True):
            domain = of.domains[names[leaf]]
            values = entries.reshape((*extents, *leaf.shape))
            values = values.astype(int) if domain.is_discrete else values
            drawn[names[leaf]] = Array._of(values, tuple(batch), batch, domain)
        return drawn

    def modes(self, step: IntegrationStep) -> dict[Name, Value]:
        """The values at which the density of the variables of a step is greatest."""
        return {name: self._mode(step, name) for name in step.names}

    def _mode(self, step: IntegrationStep, name: Name) -> Value:
        mode = self._parameter("mode", How(step), name, self.integrand.latents[name].shape)
        domain = self.integrand.domains[name]
        if not isinstance(mode, Array):
            return mode
        return Array._of(mode.array, mode.names, mode.inputs, domain, mode.mark)

    # -- blocks of normal variables ----------------------------------------------------------------------------------

    def _of_block(self, step: IntegrationStep, name: Name, before: Sequence[Name], later: Sequence[Name]) -> Factor:
        result, leaf = step.result, self.integrand.latents[name]
        assert isinstance(result, (Block, Student))
        if is_large(step) and not before:
            return self._large(step, (name,), later)
        if nodes_of(step).free & set(self.integrand.axes):
            raise self._refusal(step, name, "its parameters differ along named axes")
        if isinstance(result, Student) and before:
            raise self._refusal(step, name, f"it is one of Student's t with {', '.join(map(str, before))}")
        batch_axes = result.layout.axes[: len(result.layout.independent)]
        is_vector = batch_axes == tuple(range(len(batch_axes))) and len(leaf.shape) == len(batch_axes) + 1
        if not _is_one(leaf) and not is_vector:
            if batch_axes or before or later or isinstance(result, Student):
                raise self._refusal(step, name, f"entries of shape {leaf.shape} are coupled along several axes")
            return self._gaussian(step, (name,))
        scale, shape = ("scale", leaf.shape) if _is_one(leaf) else ("scale_tril", (*leaf.shape, leaf.shape[-1]))
        kind = ("" if _is_one(leaf) else "Multivariate") + ("Normal" if isinstance(result, Block) else "StudentT")
        shapes = {"loc": leaf.shape, scale: shape, **({"df": ()} if isinstance(result, Student) else {})}
        with How(step) as how:
            made = {key: self._parameter(key, how, name, size, before, later) for key, size in shapes.items()}
        return Density(getattr(dist, kind)(**made), Variable(name, self.integrand.domains[name]))

    def _large(self, step: IntegrationStep, names: Sequence[Name], later: Sequence[Name]) -> Factor:
        """Some variables of a step together, too many for a dense covariance."""
        of, leaf = self.integrand, self.integrand.latents[names[0]]
        whole = Parameter("rows", How(step), leaf, (), self._slots(later), of.reader, of.axes, (), self.mark)
        made = large_conditional(step, names, whole, of, self.is_on_jax)
        if made is None:
            raise self._refusal(step, names[0], f"it depends on {listed(whole.inputs)}")
        return made

    def _is_one_gaussian(self, step: IntegrationStep) -> bool:
        """A block of variables that is no product of densities over vectors, or not in an order that is known."""
        free = nodes_of(step).free & set(self.integrand.axes)
        return not free and not step.result.layout.independent  # type: ignore[union-attr]

    def _gaussian(self, step: IntegrationStep, names: Sequence[Name]) -> Factor:
        """All entries of these together, one after the other."""
        leaves = [self.integrand.latents[name] for name in names]
        size = sum(math.prod(leaf.shape) for leaf in leaves)
        loc, covariance = (
            to_array(self._parameter(key, How(step), names[0], shape, beside=leaves))
            for key, shape in (("whole loc", (size,)), ("whole covariance", (size, size)))
        )
        inputs: dict[Name, Domain] = {name: self.integrand.domains[name] for name in names}
        cells = {name: loc.inputs[name] for name in loc.names}
        made = Gaussian(mean=loc.array, covariance=covariance.array, inputs={**cells, **inputs})
        return made.normalize(*names)._marked(loc.exactness)

    def _students(self, step: IntegrationStep, names: Sequence[Name]) -> list[Factor]:
        """All entries of these together as Student's t: the first, and each given those before it."""
        df, loc, scale = self.student(step, names)
        if loc.names or any(len(self.integrand.latents[name].shape) > 1 for name in names):
            raise self._refusal(step, names[-1], f"it is one of Student's t with {listed(names[:-1])}")
        domains = {name: self.integrand.domains[name] for name in names}
        return students_in_turn(df.array, loc.array, scale.array, domains, loc.exactness)

    def student(self, step: IntegrationStep, names: Sequence[Name]) -> tuple[Array, Array, Array]:
        """The degrees of freedom, location and scale matrix of all entries of these variables, end to end."""
        leaves = [self.integrand.latents[name] for name in names]
        size = sum(math.prod(leaf.shape) for leaf in leaves)
        shapes = {"whole df": (), "whole loc": (size,), "whole covariance": (size, size)}
        made = (self._parameter(key, How(step), names[0], shape, beside=leaves) for key, shape in shapes.items())
        df, loc, scale = map(to_array, made)
        return df, loc, scale

    # -- parameters --------------------------------------------------------------------------------------------------

    def _slots(self, later: Sequence[Name]) -> dict[Leaf, Value]:
        of = self.integrand
        return {**self.slots, **{of.latents[n]: Variable(n, of.domains[n]) for n in later}}

    def _value(self, node: Node, event: Sequence[Any], later: Sequence[Name]) -> Value:
        used = {slot: arg for slot, arg in self._slots(later).items() if slot in node.leaves}
        of = self.integrand
        return self._on_engine(computed(Expression(node, used, of.reader, of.axes, event, mark=self.mark)))

    def _on_engine(self, value: Value) -> Value:
        return on_jax(value) if self.is_on_jax and isinstance(value, Array) else value

    def _parameter(
        self,
        key: str,
        how: How,
        name: Name,
        shape: tuple[int, ...],
        before: Sequence[Name] = (),
        later: Sequence[Name] = (),
        beside: Sequence[Leaf] = (),
    ) -> Value:
        of = self.integrand
        given = beside or [of.latents[other] for other in before]
        slots = self._slots((*later, *before))
        made = Parameter(key, how, of.latents[name], shape, slots, of.reader, of.axes, tuple(given), self.mark)
        return self._on_engine(computed(made))

    def _shape_of_labels(self, leaf: Leaf) -> tuple[int, ...]:
        assert leaf.high is not None
        return (*leaf.shape, int(leaf.high) + 1)

    def _refusal(self, step: IntegrationStep, name: Name, why: str) -> NoRule:
        return NoRule(
            f"the distribution of {name!r} as one factor",
            expected="a family of `fubini.distributions`, over a number, an array of independent ones or a vector",
            nearest=why,
            advice=f"draws do not need one: sample, predict(key, {name!r}) and infer(key) answer",
        )


def on_jax(value: Array) -> Array:
    """Numbers as those of factors on JAX are, where all that they were made of was read as constants."""
    if is_jax(value.array):
        return value
    return Array._of(jnp.asarray(value.array), value.names, value.inputs, value.output, value.mark)


def places_of(name: Name, rank: int) -> list[Name]:
    """The names of the axes of an array of labels, in the table of what each of them is."""
    return [f"{name}_place"] if rank == 1 else [f"{name}_place{axis}" for axis in range(rank)]


def _is_one(leaf: Leaf) -> bool:
    return math.prod(leaf.shape) == 1
