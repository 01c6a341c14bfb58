"""Multinomial draws whose count is itself random."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as numpyro_families

from fubini.base.arrays import Data, is_traced

MULTINOMIALS = (numpyro_families.MultinomialProbs, numpyro_families.MultinomialLogits)


class RandomCountMultinomial(numpyro_families.MultinomialProbs):
    """Drawn as binomials one after the other, for which the count need not be known when traced."""

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Data:
        shape = sample_shape + self.batch_shape
        count: Any = self.total_count
        probs: Any = self.probs
        count, probs = jnp.broadcast_to(count, shape), jnp.broadcast_to(probs, shape + self.event_shape)
        return jax.random.multinomial(key, count, probs).astype(int)


def with_random_count(numpyro_distribution: Any) -> Any:
    """A multinomial that can be drawn from, whether or not its count is known."""
    if (
        not isinstance(numpyro_distribution, MULTINOMIALS)
        or numpyro_distribution.total_count_max is not None
        or not is_traced(numpyro_distribution.total_count)
    ):
        return numpyro_distribution
    known = isinstance(numpyro_distribution, numpyro_families.MultinomialProbs)
    probs: Any = numpyro_distribution.probs if known else jax.nn.softmax(numpyro_distribution.logits)  # type: ignore[arg-type]
    return RandomCountMultinomial(probs, numpyro_distribution.total_count, validate_args=False)
