"""Mistakes that a newcomer makes: each is an error of ours that says what to do, or simply works."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as numpyro_families
import pandas as pd
import pytest
from scipy import stats

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, FubiniError, Intractable, MemoryLimit

pytestmark = pytest.mark.right_or_refused

KEY = jax.random.key(0)


@fb.model
def line(x):
    w = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(w * x, 1.0)


X, Y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0])
LINE = line(X).condition(y=Y)
EVIDENCE = stats.multivariate_normal.logpdf(Y, np.zeros(3), np.eye(3) + np.outer(X, X))
FRAME = pd.DataFrame(dict(x=X, y=Y, group=["a", "b", "a"]))


# -- a forgotten yield ----------------------------------------------------------------------------------------------


def scale_forgotten():
    m = yield dist.Normal(0.0, 1.0)
    s = dist.HalfNormal(1.0)
    y = yield dist.Normal(m, s)


def arithmetic_forgotten():
    m = dist.Normal(0.0, 1.0)
    y = yield dist.Normal(2.0 * m, 1.0)


def function_forgotten():
    m = dist.Normal(0.0, 1.0).expand([3])
    y = yield dist.Normal(jnp.exp(m), 1.0)


def entry_forgotten():
    m = dist.Normal(0.0, 1.0).expand([3])
    y = yield dist.Normal(m[0], 1.0)


def all_forgotten():
    dist.Normal(0.0, 1.0)


@pytest.mark.parametrize(
    "model", [scale_forgotten, arithmetic_forgotten, function_forgotten, entry_forgotten, all_forgotten]
)
def test_a_forgotten_yield_is_named(model):
    with pytest.raises(DomainError, match="= yield dist"):
        _ = fb.model(model)().names


# -- functions that are not JAX's -----------------------------------------------------------------------------------


def by_numpy():
    m = yield dist.Normal(0.0, 1.0)
    y = yield dist.Poisson(np.exp(m))


def by_math():
    m = yield dist.Normal(0.0, 1.0)
    y = yield dist.Poisson(math.exp(m))


@pytest.mark.parametrize("model", [by_numpy, by_math])
def test_a_function_of_numpy_says_to_use_jax_numpy(model):
    with pytest.raises(DomainError, match=r"jnp\.exp") as error:
        fb.model(model)().condition(y=1).log_prob(m=0.0)
    assert "control flow" not in str(error.value)


def test_in_a_numpyro_function_too():
    def model():
        m = numpyro.sample("m", numpyro_families.Normal(0.0, 1.0))
        numpyro.sample("y", numpyro_families.Poisson(np.exp(m)), obs=1)

    with pytest.raises(DomainError, match=r"jnp\.exp"):
        fb.from_numpyro(model).log_evidence()


def test_pandas_inside_a_model_says_to_take_the_numbers_first():
    def model():
        w = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(FRAME.x * w, 1.0)

    with pytest.raises(DomainError, match="to_numpy"):
        fb.model(model)().condition(y=Y).log_evidence()


def test_a_branch_is_still_called_control_flow():
    def model():
        m = yield dist.Normal(0.0, 1.0)
        y = yield dist.Normal(1.0 if m > 0 else 2.0, 1.0)

    with pytest.raises(DomainError, match="control flow"):
        _ = fb.model(model)().names


# -- data and arguments ---------------------------------------------------------------------------------------------


def test_series_are_data_arguments_and_parameters():
    np.testing.assert_allclose(float(line(FRAME.x).condition(y=FRAME.y).log_evidence()), EVIDENCE)
    assert dist.Normal(FRAME.x, 1.0).domain == fb.Reals[3]


def test_a_data_frame_is_its_matrix():
    @fb.model
    def plane(x):
        w = yield dist.Normal(0.0, 1.0).expand([2])
        y = yield dist.Normal(x @ w, 1.0)

    frame = FRAME[["x", "y"]]
    found = [float(plane(x).condition(y=Y).log_evidence()) for x in (frame, frame.to_numpy())]
    assert found[0] == found[1]
    with pytest.raises(DomainError, match=r"np\.unique"):
        plane(FRAME)


@pytest.mark.parametrize("x", [[1.0, 2.0, 3.0], [1, 2, 3], (1.0, 2.0, 3.0)])
def test_a_list_as_an_argument_says_to_make_an_array(x):
    with pytest.raises(DomainError, match=r"np\.array"):
        line(x).condition(y=Y).log_evidence()


def test_a_column_of_labels_says_how_to_count_them():
    with pytest.raises(DomainError, match=r"np\.unique"):
        line(FRAME.group)


@pytest.mark.parametrize("kind", [np.array, jnp.array, pd.Series])
def test_nan_among_observations_names_the_masked_array(kind):
    with pytest.raises(DataError, match=r"np\.ma\.masked_invalid"):
        line(X).condition(y=kind([1.0, np.nan, 2.0]))


@pytest.mark.parametrize(
    "question",
    [
        lambda post: post.log_evidence(),
        lambda post: post.map(),
        lambda post: post.infer(KEY, draws=5, chains=1, progress=False),
        lambda post: post.log_prob(w=1.0),
        lambda post: post.uncondition().sample(KEY),
    ],
)
def test_nan_among_arguments_is_refused(question):
    with pytest.raises(DataError, match=r"(?i)nan"):
        question(line(np.array([1.0, np.nan, 2.0])).condition(y=Y))


# -- options --------------------------------------------------------------------------------------------------------


def test_sizes_may_be_integers_of_numpy():
    found = LINE.infer(KEY, draws=np.int64(10), chains=np.int32(1), progress=False)
    assert found.posterior["w"].shape == (1, 10)
    assert LINE.predict(KEY, "y", draws=np.int64(4)).shape == (4, 3)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("num_samples", "draws"), ("num_chains", "chains"), ("num_warmup", "warmup"), ("tune", "warmup")],
)
def test_an_option_of_another_library_is_translated(name, meant):
    with pytest.raises(DomainError, match=f"did you mean '{meant}'"):
        LINE.infer(KEY, **{name: 10})


def test_so_are_those_of_predict_and_sample():
    with pytest.raises(DomainError, match="did you mean 'draws'"):
        LINE.predict(KEY, num_samples=3)
    with pytest.raises(FubiniError, match="shape"):
        LINE.uncondition().sample(KEY, num_samples=3)


@fb.model
def labels(x):
    z = yield dist.Categorical(probs=np.array([0.5, 0.5])).expand([3])
    m = yield dist.Normal(0.0, 1.0).expand([2])
    y = yield dist.Normal(m[z], 1.0)


def test_so_are_those_of_samplers_and_fits():
    post = labels(X).condition(y=Y)
    sampler = post.gibbs("z", engine="python")
    flip = lambda place, old, size, uniform: (1 - old, 0.0)  # noqa: E731
    learnt = fb.JointNamed(dict(y=dist.Normal(fb.param(0.0), 1.0).expand([3]))).condition(y=Y)
    for ask, meant in (
        (lambda: post.gibbs("z", num_samples=3), r"run\(key, sweeps=…\)"),
        (lambda: post.gibbs("z", seed=3), r"run\(key\)"),
        (lambda: post.eliminate("m").metropolis("z", proposal=flip, num_chains=3), r"run\(key, chains=…\)"),
        (lambda: sampler.run(KEY, num_samples=3), "'sweeps'"),
        (lambda: sampler.run(seed=3), "'key'"),
        (lambda: sampler.run(KEY, num_warmup=3), "'warmup'"),
        (lambda: fb.fit(learnt, num_steps=3), "'steps'"),
        (lambda: fb.fit(learnt, optim=3), "'optimizer'"),
    ):
        with pytest.raises(DomainError, match=f"did you mean {meant}"):
            ask()


def test_a_key_that_is_missing_is_made():
    with pytest.raises(DataError, match=r"jax\.random\.key\(0\)"):
        LINE.infer()


# -- empty plates, loops, bounds, memory ----------------------------------------------------------------------------


@fb.model
def empty(n):
    m = yield dist.Normal(0.0, 1.0).expand([n])
    x = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(x, 1.0).expand([n])


def test_an_empty_plate_says_nothing():
    post = empty(0).condition(y=np.zeros(0))
    assert float(post.log_evidence()) == 0.0
    assert float(post.marginal("x").variance("x")) == 1.0
    assert post.infer(KEY, draws=5, chains=1, progress=False).posterior["m"].shape == (1, 5, 0)


def test_an_empty_plate_of_numpyro_is_refused():
    def model(y):
        m = numpyro.sample("m", numpyro_families.Normal(0.0, 1.0))
        with numpyro.plate("i", len(y)):
            numpyro.sample("y", numpyro_families.Normal(m, 1.0), obs=y)

    with pytest.raises(DomainError, match="plate"):
        fb.from_numpyro(model, np.zeros(0))


@pytest.mark.parametrize("question", ["posterior", "log_evidence"])
def test_a_loop_over_a_latent_is_named(question):
    def model():
        m = yield dist.Normal(0.0, 1.0).expand([3])
        _, xs = jax.lax.scan(lambda c, x: (jnp.tanh(c * x + 1), c * x), 1.0, m)
        y = yield dist.Normal(xs, 1.0)

    with pytest.raises(Intractable, match="'m'"):
        getattr(fb.model(model)().condition(y=np.ones(3)), question)()


def bounded():
    a = numpyro.sample("a", numpyro_families.Normal(0.0, 1.0))
    b = numpyro.sample("b", numpyro_families.ImproperUniform(numpyro_families.constraints.greater_than(a), (), ()))
    numpyro.sample("y", numpyro_families.Normal(b, 1.0), obs=1.0)


def test_a_bound_that_depends_on_another_site_is_part_of_the_density():
    post = fb.from_numpyro(bounded)
    assert post.outline.parents["b"] == ("a",)
    assert float(post.log_prob(a=0.0, b=-1.0)) == -np.inf
    with pytest.raises(Intractable):
        post.log_evidence()
    mode = post.map()
    np.testing.assert_allclose([mode["a"], mode["b"]], [0.0, 1.0], atol=1e-3)
    draws = post.infer(KEY, draws=2000, chains=1, progress=False).posterior
    a = np.linspace(-8, 8, 4001)  # p(a | y) ∝ N(a; 0, 1) P(b > a), b ~ N(1, 1)
    weight = stats.norm.pdf(a) * stats.norm.sf(a, 1.0)
    assert np.all(draws["b"].values > draws["a"].values)
    np.testing.assert_allclose(float(draws["a"].mean()), (a * weight).sum() / weight.sum(), atol=0.1)


def test_more_than_the_memory_is_refused_before_it_is_asked_for():
    with pytest.raises(MemoryLimit, match="GB"):
        line(X).sample(KEY, (10**13,))
    with pytest.raises(MemoryLimit, match="GB"):
        LINE.infer(KEY, draws=10**13)


# -- division where it is not chosen --------------------------------------------------------------------------------


@fb.model
def safe(x, s):
    mu = yield dist.Normal(0.0, s)
    y = yield dist.Normal(jnp.where(x > 0, mu / x, mu), 1.0)


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_a_division_that_is_not_chosen_does_no_harm(kind):
    x, slope = kind([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.5])

    def oracle(s):
        return stats.multivariate_normal.logpdf(Y, np.zeros(3), np.eye(3) + s * s * np.outer(slope, slope))

    def evidence(s):
        return safe(x, s).condition(y=Y).log_evidence().data

    np.testing.assert_allclose(float(safe(x, 2.0).condition(y=Y).log_evidence()), oracle(2.0), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(evidence)(2.0), oracle(2.0), rtol=1e-5)
    np.testing.assert_allclose(jax.grad(evidence)(1.0), (oracle(1.0 + 1e-5) - oracle(1.0 - 1e-5)) / 2e-5, rtol=1e-4)
    mean = safe(x, 1.0).condition(y=Y).marginal("mu").mean("mu")
    np.testing.assert_allclose(float(mean), slope @ Y / (1 + slope @ slope), rtol=1e-6)


@fb.model
def bent(x):
    w = yield dist.Normal(0.0, 1.0)
    y = yield dist.Normal(jnp.tanh(w) * x, 1.0)


def test_a_mode_that_is_searched_for_is_asked_for_outside_jit():
    mode = bent(X).condition(y=Y).map()
    with pytest.raises(DomainError, match="outside"):
        jax.jit(lambda y: bent(X).condition(y=y).map())(jnp.asarray(Y))
    np.testing.assert_allclose(np.asarray(bent(X).condition(y=Y).map()), np.asarray(mode))


def test_a_mode_in_closed_form_is_traced():
    found = jax.jit(lambda y: line(X).condition(y=y).map())(jnp.asarray(Y))
    np.testing.assert_allclose(np.asarray(found), X @ Y / (1 + X @ X), rtol=1e-6)
