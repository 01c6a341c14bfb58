"""Draws and models that do not fit together: each an error that says what to do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, NoRule, UnknownName

KEY = jax.random.key(0)


@fb.model
def groups(group, count, spread=None):
    mu = yield dist.Normal(0.0, 3.0)
    tau = (yield dist.HalfNormal(1.0).named("tau")) if spread is None else spread
    alpha = yield dist.Normal(mu, tau).expand([count])
    y = yield dist.Normal(alpha[group], 1.0)


GROUP, Y = np.array([0, 0, 1]), np.array([1.0, 2.0, 3.0])
POST = groups(GROUP, 2, 2.0).condition(y=Y)
DRAWS = {"mu": np.zeros((2, 5)), "alpha": np.ones((2, 5, 2))}


def predict(**options):
    return POST.predict(KEY, "y", **{"draws": DRAWS, **options})


def with_alpha(alpha):
    return {**DRAWS, "alpha": alpha}


def message(error, call, *parts: str) -> None:
    with pytest.raises(error) as raised:
        call()
    for part in parts:
        assert part in str(raised.value), str(raised.value)


def test_draws_of_another_model_are_refused() -> None:
    message(
        UnknownName,
        lambda: predict(draws={"beta": DRAWS["mu"]}),
        "without the latent 'mu'",
        "expected: draws of all latents: 'mu', 'alpha'",
        "nearest:  the draws are of 'beta'",
        "recover(key, draws)",
        "of another model do not fit",
    )
    message(
        DomainError, lambda: predict(draws=with_alpha(np.ones((2, 5, 3)))), "(2, 5, 3)", "(chains, draws, 2)", "another"
    )
    message(DomainError, lambda: predict(draws=with_alpha(np.ones((2, 4, 2)))), "as many chains and draws of each")


def test_draws_that_are_not_numbers_are_refused() -> None:
    alpha = np.ones((2, 5, 2))
    alpha[1, 3, 0] = np.nan
    message(DataError, lambda: predict(draws=with_alpha(alpha)), "draws of 'alpha'", "chain 1, draw 3 has nan at (0,)")
    post = groups(GROUP, 2).condition(y=Y)
    negative = {**DRAWS, "tau": np.full((2, 5), -1.0)}
    message(DataError, lambda: post.predict(KEY, "y", draws=negative), "draws of 'tau'", "domain Positive", "has -1.0")


def test_draws_must_be_draws_or_their_number() -> None:
    message(DomainError, lambda: predict(draws="many"), "draws='many'", "a positive whole number")
    message(DomainError, lambda: predict(draws=0), "draws=0")
    message(DomainError, lambda: predict(num_samples=3), "num_samples", "draws")


def test_new_model_that_lacks_a_latent_is_refused() -> None:
    other = fb.JointNamed(dict(mu=dist.Normal(0.0, 1.0), y=lambda mu: dist.Normal(mu, 1.0)))
    message(UnknownName, lambda: predict(model=other), "without the latent 'alpha'", "by the same function")
    message(DomainError, lambda: predict(model=np.zeros(3)), "a model at the new inputs", "from_numpyro")
    message(UnknownName, lambda: POST.predict(KEY, "z", draws=DRAWS), "the site 'z'")


def test_shorter_arrays_are_refused() -> None:
    new = groups(np.array([0]), 1, 2.0)
    message(DomainError, lambda: predict(model=new), "shape (2,)", "has (1,)", "one axis that is longer", "new='alpha'")


def test_two_longer_axes_are_refused() -> None:
    def table(rows, columns):
        return fb.JointNamed(dict(m=dist.Normal(0.0, 1.0).expand([rows, columns]), y=lambda m: dist.Normal(m, 1.0)))

    post = table(2, 2).condition(y=np.zeros((2, 2)))
    message(DomainError, lambda: post.predict(KEY, "y", model=table(3, 3), draws=5), "shape (2, 2)", "(3, 3)")


def test_entries_without_a_conditional_are_refused() -> None:
    def shares(k):
        return fb.JointNamed(dict(p=dist.Dirichlet(np.ones(k)), y=lambda p: dist.Categorical(p)))

    post = shares(2).condition(y=1)
    message(NoRule, lambda: post.predict(KEY, "y", model=shares(3), draws=5), "the later entries", "Dirichlet", "new=")


def test_draws_that_depend_on_what_is_new_are_refused() -> None:
    message(
        DomainError,
        lambda: predict(model=groups(GROUP, 3)),
        "draws of 'alpha', whose distribution in the new model depends on what is new",
        "'alpha' depends on 'tau'",
    )
    new = predict(model=groups(np.array([2]), 3), new="alpha")
    assert new.shape == (10, 1)


def test_names_in_new_are_sites_of_the_new_model() -> None:
    message(UnknownName, lambda: predict(new="gamma"), "new='gamma'", "random sites", "'alpha'")


def test_observed_series_with_gaps_does_not_go_on() -> None:
    def series(steps):
        return fb.JointNamed(dict(y=dist.MultivariateNormal(np.zeros(steps), 0.5 * np.eye(steps) + 0.5)))

    post = series(3).condition(y=np.ma.masked_invalid([0.1, np.nan, 0.3]))
    message(DomainError, lambda: post.predict(KEY, "y", model=series(4), draws=5), "missing entries", "new='y'")


def test_new_inputs_that_are_not_numbers_are_found() -> None:
    @fb.model
    def line(x):
        w = yield dist.Normal(0.0, 1.0)
        y = yield dist.Poisson(jnp.exp(w * x))

    draws = {"w": np.zeros((1, 3))}
    post = line(np.ones(2)).condition(y=np.array([1, 2]))
    message(DataError, lambda: post.predict(KEY, "y", model=line(np.array([np.nan])), draws=draws), "rate")


# -- log_predictive and recover -------------------------------------------------------------------------------------


def test_held_out_data_are_needed() -> None:
    new = groups(np.array([0]), 2, 2.0)
    message(DomainError, lambda: POST.log_predictive(new), "conditioned on the new data")
    message(DomainError, lambda: POST.log_predictive(new.condition(y=np.ones(1)), draws=5), "draws=5", "infer(key)")


def test_data_that_were_seen_do_not_count_twice() -> None:
    again = groups(np.append(GROUP, 1), 2, 2.0).condition(y=np.append(Y, 3.5))
    message(DomainError, lambda: POST.log_predictive(again), "begin with the data", "mask", "log_evidence()")


def test_log_predictive_without_a_closed_form_needs_draws() -> None:
    post = groups(GROUP, 2).condition(y=Y)
    held_out = groups(np.array([1]), 2).condition(y=np.array([2.0]))
    message(Intractable, lambda: post.log_predictive(held_out), "closed form", "draws=infer(key)")


def test_what_is_new_without_a_closed_form_needs_a_key() -> None:
    @fb.model
    def counts(extra):
        w = yield dist.Normal(0.0, 1.0)
        u = (yield dist.Normal(0.0, 1.0).named("u")) if extra else 0.0
        y = yield dist.Poisson(jnp.exp(w + u))

    post = counts(False).condition(y=2)
    draws = {"w": np.zeros((1, 4))}
    message(DomainError, lambda: post.log_predictive(counts(True).condition(y=1), draws=draws), "without a key", "'u'")


def test_recover_needs_draws_of_some_latent() -> None:
    message(UnknownName, lambda: POST.recover(KEY, {"beta": np.zeros(3)}), "draws of no latent", "'mu', 'alpha'")
    message(Intractable, lambda: groups(GROUP, 2).condition(y=Y).recover(KEY, {"mu": np.zeros(3)}), "'tau'")
