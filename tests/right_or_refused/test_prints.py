"""What is printed answers: numbers, weights under labels, distributions, the names of the author."""

import importlib.resources

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as ndist
import pytest

import fubini as fb
from fubini import dist
from fubini.questions.draws import Draws

pytestmark = pytest.mark.right_or_refused

DESIGN = np.array([[1.0, 0.5], [1.0, 1.5], [1.0, -2.0]])
OUTCOMES = np.array([0.3, 1.9, -4.1])


@fb.model
def regression(design, options):
    w = yield dist.Normal(0.0, 5.0).expand([2])
    s = yield dist.Exponential(options["rate"])
    k = yield dist.Categorical(np.array([0.2, 0.8]))
    bend = yield fb.deterministic(2 * w)
    y = yield dist.Normal(design @ w + w[k], s)


def numpyro_regression(design, y=None):
    w = numpyro.sample("w", ndist.Normal(0.0, 5.0).expand([2]).to_event(1))
    with numpyro.plate("row", len(design)):
        numpyro.sample("y", ndist.Normal(design @ w, 0.5), obs=y)


@pytest.mark.parametrize("library", [np, jnp])
def test_means_and_marginals_print_their_numbers(library) -> None:
    post = fb.from_numpyro(numpyro_regression, library.asarray(DESIGN), library.asarray(OUTCOMES))
    precision = np.eye(2) / 25 + DESIGN.T @ DESIGN / 0.25
    mean = np.linalg.solve(precision, DESIGN.T @ OUTCOMES / 0.25)
    shown = ", ".join(f"{number:.4g}" for number in mean)
    assert repr(post.marginal("w").mean("w")) == f"[{shown}]"
    assert f"loc=[{shown}]" in repr(post.marginal("w")) and "Array()" not in repr(post.marginal("w"))


def test_large_arrays_are_shortened() -> None:
    assert repr(fb.Array(np.arange(1000.0))) == "[0, 1, …, 998, 999]"
    assert repr(fb.Array(np.arange(6).reshape(3, 2), ("i",))) == "[[0, 1], [2, 3], [4, 5]][i]"
    table = repr(fb.Table(np.ones((100, 30)), ("a", "b")))
    assert len(table.splitlines()) < 20 and max(map(len, table.splitlines())) < 80


@pytest.mark.parametrize("library", [np, jnp])
def test_tables_print_weights_under_labels(library) -> None:
    network = fb.io.read_bif(importlib.resources.files("fubini.io") / "commute.bif")
    assert repr(network.marginals("strike")["strike"]).splitlines()[1:] == ["strike    no   yes", "        0.95  0.05"]
    table = fb.Table(library.asarray([[0.5, 0.8], [0.1, 0.0]]), {"a": fb.Bint[2], "b": fb.Bint.labelled("no", "yes")})
    assert repr(table).splitlines()[1:] == ["a \\ b   no  yes", "0      0.5  0.8", "1      0.1    0"]
    assert f"{table}" == "Table(a: Bint[2], b: Bint.labelled('no', 'yes'))"  # inside a sentence, one line


def test_weights_beyond_the_range_of_numbers_print_as_logarithms() -> None:
    assert "(log)" in repr(fb.Table.from_log([0.0, -1000.0], ("a",))) and "-1000" in repr(
        fb.Table.from_log([0.0, -1000.0], ("a",))
    )


def test_gaussians_and_mixtures_print_their_moments() -> None:
    prior = dist.Normal(fb.Array(np.array([-1.0, 1.0]), ("k",)), 1.0)("x")
    mixture = (fb.Table([0.3, 0.7], ("k",)) * prior).sum("k")
    assert repr(mixture).endswith("x: mean 0.4, sd 1.356466")
    x = fb.Variable("x", fb.Real)
    improper = (dist.Normal(2.0 * x, 1.0)("z") * dist.Normal(0.0, 1.0)("u")).sum("u")
    assert "mean" not in repr(improper)


def test_models_print_their_distributions() -> None:
    joint = regression(DESIGN, {"rate": 2.0})
    lines = [
        "w ~ Normal(0, 5).expand([2])",
        "s ~ Exponential(2)",
        "k ~ Categorical([0.2, 0.8])",
        "bend = 2 * w",
        "y ~ Normal(design @ w + w[k], s)",
    ]
    assert repr(joint.graph()).splitlines() == lines
    post = joint.condition(y=OUTCOMES)
    assert [line.strip() for line in repr(post).splitlines()[1:6]] == [*lines[:-1], f"{lines[-1]}, observed"]


def test_numpyro_models_print_their_distributions() -> None:
    post = fb.from_numpyro(numpyro_regression, DESIGN, y=OUTCOMES)
    assert repr(post.graph()).splitlines()[-1] == "y ~ Normal(design @ w, 0.5), observed"


def test_a_formula_is_right_or_an_ellipsis() -> None:
    """What a plain formula would hide: axes, rounding, and functions that have none."""

    @fb.model
    def model():
        a = yield dist.Normal(0.0, 1.0).expand([2])
        b = yield dist.Normal(a[:, None] + a, 1.0)
        c = yield dist.Normal(b.sum(0), 1.0)
        d = yield dist.Normal(jnp.floor(a).astype(int) + 0.0, 1.0)
        e = yield dist.Normal(jnp.linalg.inv(jnp.eye(2) + b)[0], 1.0)
        f = yield dist.Normal(jnp.where(a > 0, a, -a), jnp.exp(a) ** 2)

    lines = dict(line.split(" ~ ") for line in repr(model().graph()).splitlines())
    assert lines["b"] == "Normal(a[:, None] + a, 1)"
    assert lines["c"] == "Normal(sum(b, axis=0), 1)"
    assert lines["d"] == "Normal(…, 1), given a"
    assert lines["e"] == "Normal(…, 1), given b"
    assert lines["f"] == "Normal(where(a > 0, a, -a), exp(a) ** 2)"


def test_nested_joints_print_their_sites() -> None:
    inner = fb.JointNamed(dict(p=dist.Normal(0.0, 1.0), q=lambda p: dist.Normal(p, 2.0)))
    outer = fb.JointNamed(dict(a=inner, x=lambda a: dist.Normal(a["q"], 1.0)))
    assert repr(outer.graph()).splitlines() == ["a.p ~ Normal(0, 1)", "a.q ~ Normal(a.p, 2)", "x ~ Normal(a.q, 1)"]


def test_explain_uses_the_names_of_arguments() -> None:
    @fb.model
    def schools(spread):
        mu = yield dist.Normal(0.0, 5.0)
        theta = yield dist.Normal(mu, 2.0).expand(spread.shape)
        y = yield dist.Normal(theta, spread)

    text = str(fb.explain(schools(np.array([15.0, 10.0, 16.0])).condition(y=OUTCOMES)))
    assert "spread[j]" in text and "data" not in text
    spread = np.array([15.0, 10.0, 16.0])

    def noisy(y=None):
        m = numpyro.sample("m", ndist.Normal(0.0, 1.0))
        numpyro.sample("y", ndist.Normal(m, spread), obs=y)

    text = str(fb.explain(fb.from_numpyro(noisy, OUTCOMES)))
    assert "spread[j]" in text and "y[j]" in text and "data" not in text


def test_draws_and_fits_print_a_summary() -> None:
    draws = np.random.default_rng(0).normal(size=(2, 100, 5))
    text = repr(Draws(x=draws, z=np.zeros((2, 100), int)))
    assert text.startswith("2 chains of 100 draws\n") and f"{draws[:, :, 0].mean():.4g}" in text
    assert len(text.splitlines()) == 8  # a title, a head, the five entries of x, and z
    many = repr(Draws(x=np.zeros((2, 10, 5000))))
    assert len(many.splitlines()) == 11 and many.endswith("and 4992 entries more")
    level = fb.JointNamed(dict(m=dist.Normal(0.0, fb.param(1.0, fb.Positive)), x=lambda m: dist.Normal(m, 1.0)))
    found = fb.fit(level.condition(x=3.0), steps=300, progress=False)
    assert repr(found).startswith("fitted in 300 steps, objective -3.51551 → -2.51")
    assert "m ~ Normal(0, 2.82" in repr(found)


def test_prints_inside_a_trace_do_not_fail() -> None:
    seen = []

    def ask(weights):
        table = fb.Table(weights, ("a",))
        seen.append((repr(table), repr(fb.Array(weights)), repr(table.sum("a").log())))
        joint = fb.JointNamed(dict(m=dist.Normal(weights[0], 1.0)))
        seen.append((repr(joint), repr(joint.posterior())))
        return table.sum("a").log().data

    jax.jit(ask)(jnp.array([0.25, 0.5]))
    assert seen[0][0] == "Table(a: Bint[2])" and "m ~ Normal(…, 1)" in seen[1][0]
