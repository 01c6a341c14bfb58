"""Factors, chains and networks, on every supported version of Python and of the libraries."""

from importlib.resources import files

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import cli, dist

pytestmark = pytest.mark.right_or_refused


@pytest.mark.parametrize("library", [np, jnp])
def test_tables_are_summed_out(library) -> None:
    f, g = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]]), np.array([[0.5, 0.7], [0.1, 0.2]])
    product = fb.Table(library.asarray(f), ("a", "b")) * fb.Table(library.asarray(g), ("b", "c"))
    np.testing.assert_allclose(product.sum("b").numbers().data, f @ g, rtol=1e-6)
    np.testing.assert_allclose(float(product.sum("a", "b", "c").log()), np.log((f @ g).sum()), rtol=1e-6)


def test_marginals_and_samples_of_plates() -> None:
    weights = np.array([[0.2, 0.8], [0.5, 0.5], [0.9, 0.1]])
    factors = [fb.Table([0.3, 0.7], ("w",)), fb.Table(weights, ("doc", "w"))]
    post = np.array([0.3, 0.7]) * weights.prod(0)
    marginal = fb.marginals(factors, {"w": ()}, plates=("doc",))["w"]
    np.testing.assert_allclose(marginal.weights, post / post.sum(), rtol=1e-12)
    assert fb.sample(jax.random.key(0), factors, {"w": ()}, plates=("doc",), n=5)["w"].shape == (5,)


def test_gaussians_are_integrated_out() -> None:
    x = fb.Variable("x", fb.Real)
    joint = dist.Normal(0.0, 1.0)("x") * dist.Normal(2.0 * x, 0.5)(1.0)
    assert float(joint.sum("x").log()) == pytest.approx(-0.5 * np.log(2 * np.pi * 4.25) - 0.5 / 4.25, abs=1e-12)
    assert float(joint.mean("x")) == pytest.approx(2.0 / 4.25, abs=1e-12)


def test_derivatives_of_an_evidence() -> None:
    def log_evidence(weights):
        return fb.Table(weights, ("a",)).sum("a").log().data

    np.testing.assert_allclose(jax.jit(jax.grad(log_evidence))(jnp.array([1.0, 0.0, 3.0])), 0.25, rtol=1e-6)


def test_chains_are_scanned() -> None:
    transition, likelihood = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0.7, 0.3], [0.1, 0.6]])
    step = fb.Table(transition, ("x", "x_next")) * fb.Table(likelihood, ("t", "x_next"))
    chain = fb.Chain(init=fb.Table([0.5, 0.5], ("x",)), factor=step, time="t", step={"x": "x_next"})
    alpha = np.array([0.5, 0.5])
    for row in likelihood:
        alpha = (alpha @ transition) * row
    assert float(chain.log_evidence()) == pytest.approx(np.log(alpha.sum()), abs=1e-10)


def test_a_network_is_read() -> None:
    network = fb.io.read_bif(files("fubini.io") / "commute.bif")
    late = network.condition(arrival="late", season="winter")
    np.testing.assert_allclose(late.marginals("strike")["strike"].weights, [0.8851, 0.1149], atol=5e-5)


def test_the_version_is_that_of_the_package(capsys) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0 and capsys.readouterr().out == f"fubini {fb.__version__}\n"


def test_the_package_has_types() -> None:
    assert (files("fubini") / "py.typed").is_file()
