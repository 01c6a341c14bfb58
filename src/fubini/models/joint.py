"""Joint distributions: one contract, whatever the model is written in.

A question is a run of the model with some choice of values, compiled once for each structure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fubini.base.arrays import Data
from fubini.distributions.array_slices import sliced
from fubini.distributions.density import Distribution
from fubini.distributions.named_site import Named
from fubini.errors import DomainError, FubiniError, listed
from fubini.models.bijector import Bijector
from fubini.models.call_values import FlatJoint, randomness
from fubini.models.calls import ask
from fubini.models.container import print_fields
from fubini.models.eliminated_model import eliminated
from fubini.models.fixed import Fixed
from fubini.models.flat_model import FlatModel
from fubini.models.flavour import Sites
from fubini.models.independent_sites import compute_means, compute_variances, total_entropy, total_kl
from fubini.models.observed import Held, interventions, merged, observations, without
from fubini.models.paths import flat
from fubini.models.printed_observations import observed_form
from fubini.models.questions import Questions
from fubini.models.sample import Choice, Deterministic, Flowing, Given, Run
from fubini.models.site_graph import Graph, graph_of
from fubini.models.statements import statements
from fubini.show.printed_form import Block, Shown, Words
from fubini.terms.name_axis import name_axis
from fubini.terms.value import Array

TITLED = 12  # sites that are named in a title
QUESTIONS = "explain(), log_evidence(), marginal(name), posterior(), map(), infer(key), predict(key, name)"


class SampledDistributions(NamedTuple):
    """Distributions and values of one run, each in the structure of a sample."""

    distributions: Any
    values: Any

    def __repr__(self) -> str:
        return print_fields(self)


class Joint(Questions, Shown):
    """The distribution of several named sites.

    >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
    >>> isinstance(model, Joint)
    True
    >>> model
    JointNamed(m: Real, x: Real)
      m ~ Normal(0, 1)
      x ~ Normal(m, 1)
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The sites of a sample, in order.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0))).names
        ('m', 'x')
        """
        return self.outline.names

    @property
    def event_shape(self) -> Any:
        """The shape of each site, in the structure of a sample.

        >>> fb.JointNamed(dict(w=fb.dist.Normal(0.0, 1.0).expand([3]), n=fb.dist.Poisson(2.0))).event_shape
        {'w': (3,), 'n': ()}
        """
        outline = self.outline
        return self.unflatten({name: outline[name].shape for name in outline.names})

    @property
    def dtype(self) -> Any:
        """The dtype of each site, in the structure of a sample.

        >>> fb.JointNamed(dict(w=fb.dist.Normal(0.0, 1.0), n=fb.dist.Poisson(2.0))).dtype
        {'w': dtype('float64'), 'n': dtype('int64')}
        """
        outline = self.outline
        return self.unflatten({name: outline[name].dtype for name in outline.names})

    def graph(self) -> Graph:
        """The graph of dependences between sites: a drawing in a notebook, a list in a terminal.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0))).graph()
        m ~ Normal(0, 1)
        x ~ Normal(m, 1)
        """
        return graph_of(self.outline, partial(statements, self))

    def bijector(self) -> Bijector:
        """The map from unconstrained numbers to values, site by site; discrete sites are unchanged.

        >>> b = fb.JointNamed(dict(r=fb.dist.Gamma(2.0, 3.0))).bijector()
        >>> b.forward({"r": 0.0})
        {'r': array(1.)}
        """
        return Bijector(self)

    def __getitem__(self, index: Any) -> Sliced:
        """The same model with the sites that depend on no other sliced along their leading axes."""
        return Sliced(self, index)

    __iter__ = None  # a slice of a model is a model, so that Python would slice it for ever

    def mean(self) -> Any:
        """The mean of each site, where no site depends on another.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(1.0, 2.0), r=fb.dist.Gamma(2.0, 4.0))).mean()
        {'m': array(1.), 'r': array(0.5)}
        """
        return compute_means(self)

    def variance(self) -> Any:
        """The variance of each site, where no site depends on another.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(1.0, 2.0), r=fb.dist.Gamma(2.0, 2.0))).variance()
        {'m': array(4.), 'r': array(0.5)}
        """
        return compute_variances(self)

    def stddev(self) -> Any:
        """The standard deviation of each site, where no site depends on another.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(1.0, 2.0))).stddev()
        {'m': np.float64(2.0)}
        """
        return jax.tree_util.tree_map(lambda variance: variance**0.5, self.variance())

    def entropy(self) -> Data:
        """The entropy, where no site depends on another.

        >>> round(float(fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0))).entropy()), 6)
        1.418939
        """
        return total_entropy(self)

    def kl(self, other: Joint) -> Data:
        """KL(self ‖ other), where no site of either depends on another.

        >>> p, q = (fb.JointNamed(dict(m=fb.dist.Normal(loc, 1.0))) for loc in (0.0, 1.0))
        >>> float(p.kl(q))
        0.5
        """
        return total_kl(self, other)

    def condition(self, *values: Any, **named: Any) -> Any:
        """The joint given values of some sites, by structure or by name; `uncondition` takes them back.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> float(model.condition(x=0.5).log_prob(m=0.0).round(6))
        -1.962877
        """
        flat_joint = FlatJoint(self)
        given = flat_joint.complete(values, named, "an observation")
        if not given:
            raise DomainError("no observations", expected=f"values of some of the sites {listed(self.names)}")
        return Conditioned(self, observations(flat_joint, given))

    def do(self, *values: Any, **named: Any) -> Joint:
        """The joint in which some sites are set from outside, whatever they depend on: an intervention.

        A site that is set has no density, and tells nothing of what it was drawn from; the sites that read it see the
        value. With observations, both hold at once: p(rest | do(x), y).

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.do(x=3.0).marginal("m")
        Normal(loc=0, scale=1)(m)
          m: mean 0, sd 1, 90 % interval -1.645 to 1.645
        >>> model.condition(x=3.0).marginal("m")
        Normal(loc=1.5, scale=0.7071068)(m)
          m: mean 1.5, sd 0.7071, 90 % interval 0.3369 to 2.663
        """
        flat_joint = FlatJoint(self)
        given = flat_joint.complete(values, named, "an intervention")
        if not given:
            raise DomainError("no intervention", expected=f"values of some of the sites {listed(self.names)}")
        return self._intervened(interventions(flat_joint, given))

    def _intervened(self, values: Mapping[str, Any]) -> Joint:
        """The joint with values that are set, by name."""
        return Intervened(self, values)

    # -- questions ---------------------------------------------------------------------------------------------------

    def sample(self, key: Data, shape: int | tuple[int, ...] = (), value: Any = None, **named: Any) -> Any:
        """Draws: axes of `shape`, then each site's own. Sites given keep their values and change no other's draw.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> {name: draws.shape for name, draws in model.sample(jax.random.key(0), (4,)).items()}
        {'m': (4,), 'x': (4,)}
        """
        flat_joint = FlatJoint(self)
        given = flat_joint.partial(value, named)
        return flat_joint.unflatten(ask(_values, flat_joint, given, *randomness(key, shape)))

    def log_prob(self, *values: Any, **named: Any) -> Data:
        """log p of values for all sites: one structure, or one argument for each site, by position or name.

        >>> model = fb.JointSequential([fb.dist.Normal(0.0, 1.0), lambda m: fb.dist.Normal(m, 1.0)])
        >>> round(float(model.log_prob([0.0, 0.0])), 6)
        -1.837877
        """
        flat_joint = FlatJoint(self)
        given = flat_joint.complete(values, named)
        if flat_joint.is_streamed:
            return eliminated(FlatModel(self), ()).log_prob(**flat(given))
        return ask(_log_prob, flat_joint, given)

    def log_prob_parts(self, *values: Any, **named: Any) -> Any:
        """The terms of `log_prob`, one for each site, in the structure of a sample; a nested joint has one.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> {name: round(float(part), 6) for name, part in model.log_prob_parts(m=0.0, x=1.0).items()}
        {'m': -0.918939, 'x': -1.418939}
        """
        flat_joint = FlatJoint(self)
        return flat_joint.unflatten(ask(_parts, flat_joint, flat_joint.complete(values, named)))

    def sample_and_log_prob(self, key: Data, shape: int | tuple[int, ...] = ()) -> tuple[Any, Data]:
        """Draws and their log-densities in one pass: transforms are not inverted.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> draws, log_prob = model.sample_and_log_prob(jax.random.key(0), 4)
        >>> bool(jnp.allclose(log_prob, model.log_prob(draws)))
        True
        """
        flat_joint = FlatJoint(self)
        values, log_prob = ask(_values_and_log_prob, flat_joint, {}, *randomness(key, shape))
        return flat_joint.unflatten(values), log_prob

    def sample_distributions(
        self, key: Data, shape: int | tuple[int, ...] = (), value: Any = None, **named: Any
    ) -> SampledDistributions:
        """The distributions that sites were drawn from, and the values.

        In a batch they depend on the place in it, a variable "sample"; in one of more axes, "sample_0", "sample_1" …

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.sample_distributions(jax.random.key(0), m=2.0).distributions["x"]
        Normal(loc=2, scale=1)
        """
        flat_joint = FlatJoint(self)
        key, shape = randomness(key, shape)
        sources, values, batch = ask(_sources_and_values, flat_joint, flat_joint.partial(value, named), key, shape)
        return SampledDistributions(
            flat_joint.unflatten(_with_axes(sources, batch.shape)), flat_joint.unflatten(values)
        )

    def named(self, name: str) -> Named:
        """Name the site that this joint is in another one.

        >>> inner = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0)))
        >>> fb.JointSequential([inner.named("inner"), fb.dist.Poisson(2.0).named("n")]).names
        ('inner', 'n')
        """
        return Named(self, name)

    @property
    def title(self) -> str:
        """The name of the joint in a text: its kind, and its sites with their domains.

        >>> fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0))).title
        'JointNamed(m: Real)'
        """
        sites = self.outline.sites
        shapes = [f"{site.name}: {site.domain or site.kind}" for site in sites[:TITLED]]
        more = [f"… {len(sites) - TITLED:,} more"] if len(sites) > TITLED else []
        return f"{type(self).__name__}({', '.join([*shapes, *more])})"

    def _form(self) -> Iterable[Block]:
        """The title, and each site as a statement."""
        yield Words(self.title)
        yield self.graph().drawing(2)

    def __format__(self, spec: str) -> str:
        """Show the title alone inside another text, on one line."""
        return self.title


@jax.tree_util.register_pytree_node_class
class Sliced(Joint):
    """A joint whose roots are sliced; the sites that depend on them follow."""

    def __init__(self, joint: Joint, index: Any) -> None:
        self.joint, self.index = joint, index
        self.roots = tuple(name for name, parents in joint.outline.parents.items() if not parents)

    def sites(self) -> Sites:
        inner, sent = self.joint.sites(), None
        while True:
            try:
                name, component = inner.send(sent)
            except StopIteration:
                return
            cut = isinstance(component, Distribution) and name in self.roots
            sent = yield name, sliced(component, self.index) if cut else component

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        return self.joint.unflatten(values)

    def flatten(self, value: Any, names: Sequence[str], what: str = "a value") -> dict[str, Any]:
        return self.joint.flatten(value, names, what)

    @property
    def title(self) -> str:
        return f"{super().title.replace('Sliced', self.joint.title.partition('(')[0], 1)}, sliced"

    def tree_flatten(self) -> tuple[tuple, Fixed]:
        return (self.joint,), Fixed((self.index, self.roots), (repr(self.index), self.roots))

    @classmethod
    def tree_unflatten(cls, static: Fixed, children: tuple) -> Sliced:
        new = object.__new__(cls)
        new.joint, (new.index, new.roots) = children[0], static.value
        return new


@jax.tree_util.register_pytree_node_class
class Intervened(Joint):
    """A joint some of whose sites are set from outside: they are computed, and not random."""

    def __init__(self, base: Joint, values: Mapping[str, Any]) -> None:
        self.base, self.values = base, dict(values)

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.base.ordered

    def sites(self) -> Sites:
        inner, sent = self.base.sites(), None
        while True:
            try:
                name, component = inner.send(sent)
            except StopIteration:
                return
            sent = yield name, _set(component, self.values[name]) if name in self.values else component

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        return self.base.unflatten(values)

    def flatten(self, value: Any, names: Sequence[str], what: str = "a value") -> dict[str, Any]:
        return self.base.flatten(value, names, what)

    @property
    def title(self) -> str:
        kind = self.base.title.partition("(")[0]
        return f"{super().title.replace('Intervened', kind, 1)}, do({', '.join(self.values)})"

    def tree_flatten(self) -> tuple[tuple, None]:
        return (self.base, self.values), None

    @classmethod
    def tree_unflatten(cls, static: None, children: tuple) -> Intervened:
        new = object.__new__(cls)
        new.base, new.values = children
        return new


def _set(component: Any, value: Any) -> Any:
    """A value in place of a distribution; of a nested joint, values of some of its sites."""
    return component._intervened(value) if isinstance(component, Joint) else Deterministic(value)


@jax.tree_util.register_pytree_node_class
class Conditioned(Joint):
    """A joint with some of its sites observed; a function of the others.

    `log_prob` is that of the joint at the data. There is no `sample`: draws from the posterior come from `posterior()`
    where it has a closed form, and draws of the model with the observed sites held from `sample_and_log_weight`.

    >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
    >>> model.condition(x=0.5).names
    ('m',)
    """

    def __init__(self, joint: Joint, observed: Mapping[str, Any]) -> None:
        self.joint, self.observed = joint, dict(observed)

    @property
    def ordered(self) -> bool:  # type: ignore[override]
        return self.joint.ordered

    def sites(self) -> Sites:
        return self.joint.sites()

    def run(self, choice: Choice) -> Run:
        return self.joint.run(Held(self.observed, choice))

    def unflatten(self, values: Mapping[str, Any]) -> Any:
        return self.joint.unflatten(values)

    def flatten(self, value: Any, names: Sequence[str], what: str = "a value") -> dict[str, Any]:
        return self.joint.flatten(value, names, what)

    def condition(self, *values: Any, **named: Any) -> Conditioned:
        more = self.joint.condition(*values, **named)
        return Conditioned(self.joint, merged(self.observed, more.observed))

    def do(self, *values: Any, **named: Any) -> Joint:
        both = [name for name in named if name in self.observed]
        if both:
            raise DomainError(
                f"do({both[0]}=…) of a site that is observed",
                expected=f"a site that is not: {listed(self.names)}",
                nearest=f"{both[0]!r} is held at its observed value",
                advice=f"uncondition({both[0]!r}).do({both[0]}=…) sets it instead",
            )
        return super().do(*values, **named)

    def _intervened(self, values: Mapping[str, Any]) -> Joint:
        return Conditioned(self.joint._intervened(values), self.observed)

    def uncondition(self, *names: str) -> Joint:
        """Drop the observations of these sites, or of all: the inverse of `condition`.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> model.condition(x=0.5).uncondition("x").names
        ('m', 'x')
        """
        remaining = without(self.observed, names or tuple(self.observed))
        return Conditioned(self.joint, remaining) if remaining else self.joint

    def __getitem__(self, index: Any) -> Sliced:
        raise DomainError(
            f"a slice of a joint given {listed(self.observed)}",
            expected="a joint without observations",
            advice="slice first: joint[1:].condition(…)",
        )

    def log_prob_parts(self, *values: Any, **named: Any) -> DensityParts:
        """The terms of the density at the data, those of the observed sites separately.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=1.0).log_prob_parts(m=0.0).observed["x"]), 6)
        -1.418939
        """
        flat_joint = FlatJoint(self)
        parts = ask(_parts, flat_joint, flat_joint.complete(values, named))
        observed = {site.name for site in flat_joint.outline.sites if site.kind == "observed"}
        split = [{name: part for name, part in parts.items() if (name in observed) is seen} for seen in (True, False)]
        return DensityParts(*map(flat_joint.unflatten, split))

    def log_weight(self, *values: Any, **named: Any) -> Data:
        """The log-density of the observations given the other sites.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> round(float(model.condition(x=1.0).log_weight(m=0.0)), 6)
        -1.418939
        """
        flat_joint = FlatJoint(self)
        return ask(_log_weight, flat_joint, flat_joint.complete(values, named))

    def sample(self, key: Data, shape: int | tuple[int, ...] = (), value: Any = None, **named: Any) -> Any:
        raise FubiniError(
            f"draws of {listed(self.names)} given {listed(self.observed)}",
            expected="draws from a posterior, which `sample` of the model are not",
            advice="posterior() where there is a closed form; sample_and_log_weight holds the observed sites",
        )

    sample_and_log_prob = sample_distributions = sample  # type: ignore[assignment]

    def sample_and_log_weight(self, key: Data, shape: int | tuple[int, ...] = ()) -> Weighted:
        """Draws of the model with the observed sites held, and the log-density of the observations given each.

        >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
        >>> draws, log_weight = model.condition(x=1.0).sample_and_log_weight(jax.random.key(0), 4)
        >>> draws["m"].shape, log_weight.shape
        ((4,), (4,))
        """
        flat_joint = FlatJoint(self)
        values, weight = ask(_values_and_log_weight, flat_joint, {}, *randomness(key, shape))
        return Weighted(flat_joint.unflatten(values), weight)

    def tree_flatten(self) -> tuple[tuple, None]:
        return (self.joint, self.observed), None

    @classmethod
    def tree_unflatten(cls, static: None, children: tuple) -> Conditioned:
        new = object.__new__(cls)
        new.joint, new.observed = children
        return new

    @property
    def title(self) -> str:
        more = f", … {len(self.observed) - TITLED:,} more" if len(self.observed) > TITLED else ""
        return f"{self.joint.title} given {listed(list(self.observed)[:TITLED])}{more}"

    def _form(self) -> Iterable[Block]:
        """The sites as statements, the observed numbers, and what can be asked."""
        yield from super()._form()
        yield from observed_form(self.observed)
        yield Words(f"ask: {QUESTIONS}")


class DensityParts(NamedTuple):
    """The terms of a density at the data: those of the observed sites, and those of the others."""

    observed: Any
    free: Any

    def __repr__(self) -> str:
        return print_fields(self)


class Weighted(NamedTuple):
    """Draws of a model with the observed sites held, and the log-density of the observations given each."""

    values: Any
    log_weight: Data

    def __repr__(self) -> str:
        return print_fields(self)


# -- the questions, for one sample ----------------------------------------------------------------------------------


def _values(joint: Joint, key: Data, given: Mapping[str, Any]) -> dict[str, Any]:
    return joint.run(Given(given, key)).values


def _log_prob(joint: Joint, key: Data, given: Mapping[str, Any]) -> Data:
    return joint.run(Given(given)).log_prob


def _parts(joint: Joint, key: Data, given: Mapping[str, Any]) -> dict[str, Data]:
    return joint.run(Given(given)).parts


def _log_weight(joint: Joint, key: Data, given: Mapping[str, Any]) -> Data:
    return joint.run(Given(given)).log_weight


def _values_and_log_weight(joint: Joint, key: Data, given: Mapping[str, Any]) -> tuple[dict[str, Any], Data]:
    run = joint.run(Given(given, key))
    return run.values, run.log_weight


def _values_and_log_prob(joint: Joint, key: Data, given: Mapping[str, Any]) -> tuple[dict[str, Any], Data]:
    run = joint.run(Flowing(given, key))
    return run.values, run.log_prob


def _sources_and_values(joint: Joint, key: Data, given: Mapping[str, Any]) -> tuple[dict, dict, Data]:
    run = joint.run(Given(given, key))
    return run.sources, run.values, jnp.zeros(())


def _with_axes(sources: Any, batch: tuple[int, ...]) -> Any:
    """Distributions of a batch, its axes named: the batch is one axis, and then an array of places along it."""
    if not batch:
        return sources
    place = Array(np.arange(math.prod(batch)).reshape(batch), [f"sample_{axis}" for axis in range(len(batch))])

    def named(term: Distribution) -> Distribution:
        batched = name_axis(term, "sample")
        return batched if len(batch) == 1 else batched.replaced({"sample": place})

    flat = jax.tree_util.tree_map(lambda leaf: leaf.reshape((-1, *leaf.shape[len(batch) :])), sources)
    return jax.tree_util.tree_map(named, flat, is_leaf=lambda item: isinstance(item, Distribution))
