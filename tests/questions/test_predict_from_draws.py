"""Predictions from draws of a sampler, and learnt parameters by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DomainError, UnknownName
from fubini.questions.draws import arviz_data


@fb.model
def line(x):
    level = yield dist.Normal(0.0, 3.0)
    slope = yield dist.Normal(0.0, 3.0).expand([2])
    y = yield dist.Normal(level + x @ slope, 1e-6)


POST = line(np.eye(2)).condition(y=np.array([1.0, 2.0]))
RANDOM = np.random.default_rng(0)
DRAWS = {"level": RANDOM.normal(size=(2, 3)), "slope": RANDOM.normal(size=(2, 3, 2))}
NEW = np.array([[1.0, 2.0], [0.0, 1.0], [3.0, 0.0]])
EXPECTED = DRAWS["level"].reshape(6, 1) + DRAWS["slope"].reshape(6, 2) @ NEW.T


@pytest.mark.parametrize("kind", ["arrays", "arviz"])
def test_predictions_follow_the_draws(kind: str) -> None:
    draws = DRAWS if kind == "arrays" else arviz_data({"posterior": DRAWS}, None, None)
    predicted = POST.predict(jax.random.key(0), "y", draws=draws, model=line(NEW))
    assert predicted.shape == (6, 3)
    assert np.allclose(predicted, EXPECTED, atol=1e-4)


def test_draws_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnknownName, match="without the latent 'slope'"):
        POST.predict(jax.random.key(0), "y", draws={"level": DRAWS["level"]})
    with pytest.raises(DomainError, match=r"the shape \(chains, draws, 2\)"):
        POST.predict(jax.random.key(0), "y", draws={**DRAWS, "slope": DRAWS["slope"][0]})
    with pytest.raises(DomainError, match="draws='many'"):
        POST.predict(jax.random.key(0), "y", draws="many")


def test_learnt_parameters_have_the_names_of_arguments() -> None:
    @fb.model
    def counts(n, rate, shift):
        k = yield dist.Poisson(rate + shift["a"]).expand([n])

    post = counts(3, fb.param(1.0, fb.Positive), {"a": 0.5}).condition(k=np.array([1, 2, 3]))
    fit = fb.fit(post, steps=200, progress=False)
    assert list(fit.params) == ["rate"]
    assert np.isclose(fit.params["rate"], 1.5, atol=1e-3)
    assert "rate = 1.5" in repr(fit)


def test_parameters_without_a_name_are_numbered() -> None:
    model = fb.JointNamed({"x": dist.Normal(fb.param(0.5), fb.param(2.0, fb.Positive))})
    fit = fb.fit(model.condition(x=0.5), steps=1, progress=False)
    assert list(fit.params) == ["0", "1"]


def test_a_parameter_made_within_a_model_is_explained() -> None:
    @fb.model
    def inside():
        mean = fb.param(np.array([-1.0, 1.0]))
        z = yield dist.Categorical(jnp.ones(2) / 2).expand([3])
        y = yield dist.Normal(mean[z], 1.0)

    with pytest.raises(DomainError, match="given to a model as an argument"):
        inside().condition(y=np.zeros(3))
