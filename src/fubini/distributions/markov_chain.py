"""Chains inside a model: each value is drawn given the one before."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as numpyro_families
from numpyro.distributions import constraints

from fubini.base import lax_loops
from fubini.base.arrays import Data
from fubini.base.closure import Closure
from fubini.distributions.array_distribution import draw, log_density, support
from fubini.distributions.convert import foreign
from fubini.distributions.density import Distribution
from fubini.distributions.supports import is_everywhere
from fubini.errors import DomainError


class MarkovChain(numpyro_families.Distribution):
    """x₀ from one distribution, x_t from another that depends on x_(t−1), and on t where it asks for that."""

    written = "Markov"  # as a user makes one
    pytree_data_fields = ("init", "step")
    pytree_aux_fields = ("length", "takes_time")

    def __init__(self, init: Distribution, step: Closure, length: int, takes_time: bool) -> None:
        self.init, self.step, self.length, self.takes_time = init, step, length, takes_time
        super().__init__((), (length, *init.domain.shape), validate_args=False)

    @property
    def support(self) -> Any:  # type: ignore[override]
        """The support of the first value, at all times."""
        first = support(self.init)
        return constraints.independent(first, self.event_dim - first.event_dim)

    def after(self, value: Data, t: Data) -> Distribution:
        """The distribution of the value at t, given the one before."""
        return self.step.function(value, t) if self.takes_time else self.step.function(value)

    def sample(self, key: Data, sample_shape: tuple[int, ...] = ()) -> Data:
        def one(key: Data) -> Data:
            keys = jax.random.split(key, self.length)
            first = draw(self.init, keys[0])
            return jnp.concatenate([first[None], self._simulated(keys[1:], first, 1)])

        for _ in sample_shape:
            one = jax.vmap(one)
        return one(jax.random.split(key, sample_shape) if sample_shape else key)

    def draw_later(self, key: Data, first: Data) -> Data:
        """x_t ~ p(x_t | x_(t−1)) after its first values; axes before that of time are of an array of chains."""

        def one(key: Data, first: Data) -> Data:
            return self._simulated(jax.random.split(key, self.length - len(first)), first[-1], len(first))

        lead = first.shape[: first.ndim - self.event_dim]
        for _ in lead:
            one = jax.vmap(one)
        return one(jax.random.split(key, lead) if lead else key, first)

    def _simulated(self, keys: Data, value: Data, start: int) -> Data:
        """The values from t = start on, after this one."""

        def step(value: Data, here: tuple[Data, Data]) -> tuple[Data, Data]:
            t, key = here
            new = draw(self.after(value, t), key).astype(value.dtype)
            return new, new

        return lax_loops.scan(step, value, (jnp.arange(start, self.length), keys))[1]

    def log_prob(self, value: Data, intermediates: Any = None) -> Data:
        def one(value: Data) -> Data:
            steps = jax.vmap(lambda before, here, t: log_density(self.after(before, t), here))
            later = steps(value[:-1], value[1:], jnp.arange(1, self.length))
            return log_density(self.init, value[0]) + jnp.sum(later)

        for _ in range(jnp.ndim(value) - self.event_dim):
            one = jax.vmap(one)
        return one(jnp.asarray(value))


def Markov(init: Distribution, step: Callable[..., Distribution], length: int) -> Distribution:
    """A chain of `length` values: the first from `init`, each later one from step(value before), or step(value, t).

    >>> chain = Markov(fb.dist.Normal(0.0, 1.0), lambda x: fb.dist.Normal(0.9 * x, 0.5), 10)
    >>> chain.domain
    Reals[10]
    """
    if not isinstance(init, Distribution):
        raise DomainError(f"dist.Markov from {init!r}", expected="a distribution of the first value")
    if not callable(step):
        raise DomainError(f"dist.Markov with the step {step!r}", expected="a function from a value to a distribution")
    if not isinstance(length, int) or length < 1:
        raise DomainError(f"dist.Markov of length {length!r}", expected="a positive whole number")
    takes_time = len([p for p in inspect.signature(step).parameters.values() if p.default is p.empty]) > 1
    chain = MarkovChain(init, Closure(step), length, takes_time)
    if length > 1:
        _require_alike(chain)
    return foreign(chain)


def _require_alike(chain: MarkovChain) -> None:
    """Each value is of the kind of the first."""
    domain = chain.init.domain
    kind = jax.dtypes.canonicalize_dtype(int if domain.is_discrete else float)
    seen: list[Any] = []

    def look(value: Data) -> Data:
        seen.append(chain.after(value, jnp.zeros((), int)))
        return value

    jax.eval_shape(look, jax.ShapeDtypeStruct(domain.shape, kind))
    if not isinstance(seen[0], Distribution) or seen[0].domain != domain:
        what = seen[0].domain if isinstance(seen[0], Distribution) else seen[0]
        raise DomainError(f"a step of dist.Markov to {what!r}", expected=f"a distribution on {domain!r}, as the first")
    first, later = chain.init, seen[0]
    if domain.kind == "real" and not (_is_everywhere(first) and _is_everywhere(later)):
        raise DomainError(
            f"dist.Markov from {first.family} to {later.family}",
            expected="values on all real numbers, or on a domain of their own (positive, unit, simplex, finite)",
            advice="write the chain of an unbounded value, and map it where it is used",
        )


def _is_everywhere(of: Distribution) -> bool:
    everywhere: list[bool] = []

    def look(leaves: list[Data]) -> list[Data]:
        everywhere.append(is_everywhere(of.blueprint.build(iter(leaves)).support))
        return leaves

    jax.eval_shape(look, [jax.ShapeDtypeStruct(value.output.shape, jnp.result_type(float)) for value in of.leaf_values])
    return everywhere[0]


def markov_chain(distribution: Any) -> MarkovChain | None:
    """The chain behind a distribution, where it is one; of an array of chains, the one that all are like."""
    if not isinstance(distribution, Distribution):
        return None
    if distribution.family == "ExpandedDistribution":
        return markov_chain(distribution.args[0])
    if distribution.family != "Foreign":
        return None
    numpyro_distribution: Any = distribution.blueprint.build(
        iter([jnp.asarray(value.data) for value in distribution.leaf_values])
    )
    return numpyro_distribution if isinstance(numpyro_distribution, MarkovChain) else None
