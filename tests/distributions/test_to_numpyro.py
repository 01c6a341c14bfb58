"""Factors as distributions of numpyro: the log-density of one is that of the other, normalised."""

import jax
import numpy as np
import numpyro.distributions as numpyro_families
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import Intractable, NoRule, UnknownName

weights = fb.Table([0.3, 0.7], ("k",))
loc = fb.Array(np.array([[-1.0, 1.0], [2.0, 0.5]]), ("k",))
x = fb.Variable("x", fb.Real)


def along(*numbers):
    return fb.Array(np.array(numbers), ("k",))


CASES = {
    "family": (dist.Gamma(2.0, 3.0)("x"), {"x": 0.7}, numpyro_families.Gamma),
    "array": (dist.Gamma(np.array([2.0, 1.0]), 3.0)("x"), {"x": np.array([0.7, 0.2])}, numpyro_families.Independent),
    "expanded": (dist.Gamma(2.0, 3.0).expand([2])("x"), {"x": np.array([0.7, 0.2])}, numpyro_families.Independent),
    "vector": (dist.Dirichlet(np.ones(3))("x"), {"x": np.array([0.7, 0.2, 0.1])}, numpyro_families.Dirichlet),
    "gaussian": (dist.Normal(0.0, 1.0)("x") * dist.Normal(1.0, 1.0)("x"), {"x": 0.7}, numpyro_families.Normal),
    "gaussian of two": (
        dist.Normal(0.0, 1.0)("x") * dist.Normal(x, 1.0)("y"),
        {"x": 0.7, "y": 0.2},
        numpyro_families.MultivariateNormal,
    ),
    "table": (fb.Table([1.0, 2.0, 5.0], ("a",)), {"a": 1}, numpyro_families.CategoricalProbs),
    "gammas": ((weights * dist.Gamma(along(2.0, 5.0), 1.0)("x")).sum("k"), {"x": 0.7}, None),
    "arrays of gammas": ((weights * dist.Gamma(loc * loc, 1.0)("x")).sum("k"), {"x": np.array([0.7, 0.2])}, None),
    "normals": ((weights * dist.Normal(along(2.0, 5.0), 1.0)("x")).sum("k"), {"x": 0.7}, None),
    "vectors": (
        (weights * dist.MultivariateStudentT(4.0, loc, np.eye(2))("x")).sum("k"),
        {"x": np.array([0.7, 0.2])},
        None,
    ),
    "two families": (
        0.3 * dist.Gamma(2.0, 3.0)("x") + 0.7 * dist.LogNormal(0.0, 1.0)("x"),
        {"x": 0.7},
        numpyro_families.MixtureGeneral,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_log_density_is_the_same(case):
    f, values, kind = CASES[case]
    with jax.enable_x64(True):
        made = f.to_numpyro()
        assert type(made) is (kind or numpyro_families.MixtureSameFamily)
        parts = [np.atleast_1d(part) for part in values.values()]
        point = np.concatenate(parts) if len(parts) > 1 else next(iter(values.values()))
        expected = f.normalize()(**values).log().data
        np.testing.assert_allclose(made.log_prob(point), expected, rtol=1e-10)
        assert made.log_prob(point).shape == ()


def test_other_names_are_a_batch():
    f = weights * dist.Gamma(along(2.0, 5.0), 1.0)("x")
    made = f.to_numpyro()
    assert made.batch_shape == (2,) and made.event_shape == ()
    expected = [dist.Gamma(a, 1.0)(0.7).log().data for a in (2.0, 5.0)]
    np.testing.assert_allclose(made.log_prob(0.7), expected, rtol=1e-5)
    rows = fb.Table([[0.25, 0.75], [0.5, 0.5]], ("i", "a")).to_numpyro("a")
    np.testing.assert_allclose(rows.probs, [[0.25, 0.75], [0.5, 0.5]])


def test_conversion_under_jit():
    @jax.jit
    def log_density(shape):
        return (weights * dist.Gamma(fb.Array(shape, ("k",)), 1.0)("x")).sum("k").to_numpyro().log_prob(0.7)

    expected = CASES["gammas"][0](x=0.7).log().data
    np.testing.assert_allclose(log_density(np.array([2.0, 5.0])), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: dist.Gamma(2.0, 3.0)("x") * dist.Gamma(2.0, 3.0)("y"), NoRule, ["'x', 'y' together", "marginal"]),
        (lambda: fb.Table(np.ones((2, 2)), ("a", "b")), NoRule, ["'a', 'b' together"]),
        (lambda: fb.Table(1.0), NoRule, ["it is a number"]),
        (lambda: dist.Normal(0.0, 1.0)(fb.ops.exp(x)), NoRule, ["a density of a family"]),
        (
            lambda: (
                (fb.Table(np.ones(300), ("k",)) * dist.Gamma(fb.Array(np.ones(300), ("k",)), 1.0)("x")).sum("k")
                + dist.LogNormal(0.0, 1.0)("x")
            ),
            Intractable,
            ["at most 256", "moment_matching"],
        ),
    ],
)
def test_bad_input(make, kind, words):
    with pytest.raises(kind) as error:
        make().to_numpyro()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_unknown_name():
    with pytest.raises(UnknownName, match="the distribution of 'y'"):
        dist.Gamma(2.0, 3.0)("x").to_numpyro("y")
