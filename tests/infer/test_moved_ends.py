"""Numbers whose support has ends that another latent decides, moved by the no-U-turn sampler while it moves."""

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import poisson

import fubini as fb
from fubini import dist

COUNTS = np.array([2, 5, 3, 9, 1, 4])


@fb.model
def rates(n):
    end = yield dist.Uniform(1.0, 4.0)
    x = yield dist.Uniform(0.0, end)
    z = yield dist.Bernoulli(0.3).expand([n])
    y = yield dist.Poisson(jnp.exp(x + z))


def test_numbers_stay_where_they_are_when_an_end_of_their_support_moves():
    """Means of draws against sums over a grid; the labels are summed out in the grid."""
    post = rates(6).condition(y=COUNTS)
    draws = post.gibbs("z").run(jax.random.key(0), sweeps=700, chains=2, progress=False)
    end, x = (np.asarray(draws[name])[:, 100:] for name in ("end", "x"))
    assert (x > 0).all() and (x < end).all()
    ends, places = np.linspace(1.0, 4.0, 601)[:, None], np.linspace(0.0, 4.0, 801)[1:]
    log_likelihood = sum(np.logaddexp(np.log(0.7) + poisson.logpmf(y, np.exp(places)),
                                      np.log(0.3) + poisson.logpmf(y, np.exp(places + 1))) for y in COUNTS)  # fmt: skip
    weight = np.exp(log_likelihood - log_likelihood.max()) * (places < ends) / ends
    weight /= weight.sum()
    assert abs(x.mean() - (weight * places).sum()) < 0.1  # 0.45 is the standard deviation
    assert abs(end.mean() - (weight * ends).sum()) < 0.2
