"""Messages for what no sampler can be made from, and for numbers that do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, NoRule, UnknownName
from tests.compile.cases import gaussian

KEY = jax.random.key(0)
S = np.arange(6.0)


@pytest.fixture(scope="module")
def post():
    return gaussian(6, 3).condition(s=S)


@pytest.fixture(scope="module")
def sampler(post):
    return post.eliminate("theta", "mu").gibbs("y", engine="python")


@fb.model
def block_models(n, k):
    """Labels of two axes, coupled in pairs along the second."""
    p = yield dist.Beta(1.0, 1.0).expand([k, k])
    z = yield dist.Categorical(jnp.ones(k) / k).expand([2, n])
    a = yield dist.Bernoulli(p[z[:, :, None], z[:, None, :]])


def test_labels_of_two_axes_that_are_coupled_in_one_item() -> None:
    edges = np.triu(np.ones((2, 3, 3), int), 1)
    collapsed = block_models(3, 2).condition(a=edges).eliminate("p")
    with pytest.raises(NoRule, match=r"(?s)a compiled sampler of 'z'.*one of labels with several axes.*without="):
        collapsed.gibbs("z").source()
    slow = collapsed.gibbs("z", without=("difference",), engine="python")
    labels = np.array([[0, 1, 1], [0, 0, 1]])
    every = np.repeat(labels[None], 2, 0)
    every[:, 0, 2] = [0, 1]
    exact = np.exp(np.asarray(collapsed.log_prob(z=every)))
    assert np.abs(slow.conditional("z", (0, 2), z=labels) - exact / exact.sum()).max() < 1e-9


def test_an_index_map_that_blocks_the_unproduct() -> None:
    @fb.model
    def modulated(n, k):
        mu = yield dist.Normal(0.0, 1.0).expand([k])
        y = yield dist.Categorical(jnp.ones(k) / k).expand([n])
        s = yield dist.Normal(jnp.exp(mu[y]), 1.0)

    with pytest.raises(Intractable, match=r"(?s)eliminate\('mu'\): the integral over 'mu'.*no closed form"):
        modulated(4, 2).condition(s=np.zeros(4)).eliminate("mu").gibbs("y")


def test_a_family_that_loops_do_not_have() -> None:
    @fb.model
    def angles(n, k):
        mu = yield dist.Normal(0.0, 3.0).expand([k])
        y = yield dist.Categorical(jnp.ones(k) / k).expand([n])
        s = yield dist.VonMises(mu[y], 1.0)

    with pytest.raises(NoRule, match=r"a compiled loop with log VonMises in it"):
        angles(4, 2).condition(s=np.zeros(4)).gibbs("y").source()


def test_a_latent_that_is_not_finite(post) -> None:
    with pytest.raises(NoRule, match=r"(?s)gibbs\('mu'\).*a latent with finitely many values"):
        post.eliminate("theta").gibbs("mu")


def test_an_eliminated_latent(post) -> None:
    with pytest.raises(UnknownName, match=r"'mu', which is eliminated already"):
        post.eliminate("theta", "mu").gibbs("mu")


@pytest.mark.parametrize(
    "labels, message",
    [
        ([0, 1, 2, 3, 0, 0], r"(?s)labels 'y' with 3 at \(3,\).*labels from 0 to 2"),
        ([0, 1, -1, 0, 0, 0], r"labels 'y' with -1 at \(2,\)"),
        ([0, 1, 0.5, 0, 0, 0], r"(?s)labels 'y' of type float64.*whole numbers"),
    ],
)
def test_labels_out_of_range(sampler, labels, message: str) -> None:
    with pytest.raises(DataError, match=message):
        sampler.run(KEY, sweeps=1, start={"y": labels})


def test_labels_of_another_shape(sampler) -> None:
    with pytest.raises(DomainError, match=r"(?s)labels 'y' of shape \(3,\).*the shape \(6,\)"):
        sampler.run(KEY, sweeps=1, start={"y": [0, 1, 2]})


def test_fixed_entries_that_there_are_not(sampler) -> None:
    with pytest.raises(DataError, match=r"(?s)fixed entries of 'y' at 9.*indices from 0 to 5"):
        sampler.run(KEY, sweeps=1, fixed=[9])
    with pytest.raises(DomainError, match=r"as a mask of shape \(2,\)"):
        sampler.run(KEY, sweeps=1, fixed=[True, False])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_data_that_are_not_finite(value: float) -> None:
    with pytest.raises(DataError, match=r"the value (nan|inf) of the site 's'"):
        gaussian(6, 3).condition(s=np.where(S == 2, value, S)).eliminate("theta", "mu").gibbs("y")


def test_arguments_that_are_not_finite() -> None:
    @fb.model
    def scaled(scale):
        mu = yield dist.Normal(0.0, 1.0).expand([2])
        y = yield dist.Categorical(jnp.ones(2) / 2).expand([3])
        s = yield dist.Normal(mu[y] + scale, 1.0)

    with pytest.raises(DataError, match=r"(?s)finite numbers in the data and arguments.*has nan at \(1,\)"):
        scaled(np.array([1.0, np.nan, 2.0])).condition(s=np.zeros(3)).eliminate("mu").gibbs("y")


def test_no_data() -> None:
    collapsed = gaussian(0, 3).condition(s=np.zeros(0)).eliminate("theta", "mu")
    assert collapsed.gibbs("y", engine="python").run(KEY, sweeps=2, chains=2)["y"].shape == (2, 2, 0)


def test_empty_classes_without_a_prior() -> None:
    """A class without items has no density where its mean has no prior."""

    @fb.model
    def flat(n, k):
        mu = yield dist.ImproperUniform(constraints.real, (k,), ())
        y = yield dist.Categorical(jnp.ones(k) / k).expand([n])
        s = yield dist.Normal(mu[y], 1.0)

    with pytest.raises(DataError, match=r"(?s)'mu' integrated out.*a proper prior of it: a class without items"):
        flat(3, 5).condition(s=np.arange(3.0)).eliminate("mu").gibbs("y").source()


def test_classes_that_cannot_be() -> None:
    """No candidate has a positive weight: an observation that the model rules out."""

    @fb.model
    def counted(n):
        p = yield dist.Beta(1.0, 1.0)
        y = yield dist.Categorical(jnp.ones(2) / 2).expand([n])
        s = yield dist.Binomial(y, p)

    sampler = counted(2).condition(s=np.array([3, 0])).eliminate("p").gibbs("y", engine="python")
    with pytest.raises(DataError, match=r"(?s)the conditional of 'y' at entry 0.*all candidates have weight 0"):
        sampler.run(KEY, sweeps=1)


def test_a_pass_that_there_is_not(post) -> None:
    with pytest.raises(DomainError, match=r"(?s)without='histogran'.*'histogram'"):
        post.eliminate("theta", "mu").gibbs("y", without=("histogran",))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"sweeps": 0}, r"(?s)sweeps=0.*a whole number, at least 1"),
        ({"chains": 0}, r"(?s)chains=0.*at least 1"),
        ({"chains": True}, r"(?s)chains=True.*a whole number"),
        ({"thin": 0}, r"(?s)thin=0.*at least 1"),
        ({"keep": -1}, r"(?s)keep=-1.*at least 1"),
        ({"warmup": -3}, r"(?s)warmup=-3.*at least 0"),
        ({"warmup": 2.5}, r"(?s)warmup=2.5.*a whole number"),
        ({"sweeps": 2, "thin": 3}, r"(?s)thin=3 of 2 sweeps.*at least one sweep that is kept"),
    ],
)
def test_sizes_that_are_not_positive(sampler, options, message: str) -> None:
    with pytest.raises(DomainError, match=message):
        sampler.run(KEY, **options)


def test_fixed_entries_without_labels(sampler) -> None:
    with pytest.raises(DomainError, match=r"(?s)fixed entries of 'y' without labels.*start=\{'y': …\}"):
        sampler.run(KEY, sweeps=1, fixed=[0, 1])


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("shape", [(1, 6), (3, 6), (2, 2, 6)])
def test_labels_for_another_number_of_chains(sampler, post, shape, blocked: bool) -> None:
    mine = post.gibbs("y", blocked=True) if blocked else sampler
    with pytest.raises(DomainError, match=r"(?s)labels 'y' of shape.*\(6,\), or \(2, 6\) for 2 chains"):
        mine.run(KEY, sweeps=1, chains=2, start={"y": np.zeros(shape, int)})


def test_labels_that_are_masked(sampler) -> None:
    with pytest.raises(DataError, match=r"labels 'y' with masked entries"):
        sampler.run(KEY, sweeps=1, start={"y": np.ma.masked_equal([0, 1, 2, 0, 1, 2], 2)})


@pytest.mark.parametrize("place", [6, -1, (0, 0)])
def test_conditionals_of_entries_that_there_are_not(sampler, place) -> None:
    with pytest.raises(DomainError, match=r"(?s)the entry .* of 'y'.*an array of shape \(6,\)"):
        sampler.conditional("y", place, y=np.zeros(6, int))


def test_conditionals_given_too_little_or_too_much(sampler, post) -> None:
    labels = np.zeros(6, int)
    with pytest.raises(DataError, match=r"no value for the site 'y'"):
        sampler.conditional("y", 0)
    with pytest.raises(UnknownName, match=r"the site 'yy'"):
        sampler.conditional("y", 0, y=labels, yy=3)
    partly = post.eliminate("theta").gibbs("y", engine="python")
    with pytest.raises(DomainError, match=r"(?s)a value of 'mu' of shape \(\).*the shape \(3,\)"):
        partly.conditional("y", 0, y=labels, mu=3.0)


def test_data_that_are_traced() -> None:
    def question(ask):
        return lambda s: (ask(gaussian(6, 3).condition(s=s)), s)[1]

    for ask in (lambda post: post.eliminate("theta", "mu").gibbs("y"), lambda post: post.kernel("y")):
        with pytest.raises(DomainError, match=r"under jit, vmap or grad"):
            jax.jit(question(ask))(jnp.asarray(S))
