"""Draws of Gaussians as a function of standard normal numbers: an affine map that carries N(0, I) to the posterior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist


def real(name, *shape):
    return fb.Variable(name, fb.Reals[shape] if shape else fb.Real)


def data(seed, names, *shape):
    return fb.Array(np.random.default_rng(seed).normal(size=shape), names)


def single():
    return [dist.Normal(0.3, 1.5)("x"), dist.Normal(real("x"), 0.5)(0.8)], {"x": ()}


def pair():
    factors = [dist.Normal(0.0, 1.0)("x"), dist.Normal(0.7 * real("x"), 0.5)("y"), dist.Normal(real("y"), 1.0)(0.4)]
    return factors, {"x": (), "y": ()}


def plate():
    factors = [
        dist.Normal(0.0, 1.0)("x"),
        dist.Normal(real("x") + data(0, ("i",), 3), 0.5)("y"),
        dist.Normal(real("y"), 1.0)(data(1, ("i",), 3)),
    ]
    return factors, {"x": (), "y": ("i",)}


def nested():
    factors = [
        dist.Normal(0.0, 1.0)("x"),
        dist.Normal(real("x") + data(0, ("i",), 2), 0.5)("y"),
        dist.Normal(real("y") * data(1, ("i", "j"), 2, 3), 0.7)("z"),
        dist.Normal(real("z"), 1.0)(data(2, ("i", "j"), 2, 3)),
    ]
    return factors, {"x": (), "y": ("i",), "z": ("i", "j")}


def chain():
    turn, eye = np.array([[0.9, 0.2], [-0.2, 0.9]]), np.eye(2)
    factors = [dist.MultivariateNormal(np.zeros(2), eye)("x0")]
    for t in range(1, 4):
        factors.append(dist.MultivariateNormal(turn @ real(f"x{t - 1}", 2), 0.3 * eye)(f"x{t}"))
        factors.append(dist.MultivariateNormal(real(f"x{t}", 2), eye)(np.array([0.1 * t, -0.2])))
    return factors, {f"x{t}": () for t in range(4)}


GRAPHS = [(single, 1), (pair, 2), (plate, 4), (nested, 9), (chain, 8)]
every_graph = pytest.mark.parametrize(("graph", "size"), GRAPHS, ids=[graph.__name__ for graph, _ in GRAPHS])


def plates_of(homes):
    return tuple(dict.fromkeys(plate for home in homes.values() for plate in home))


def log_joint(factors, homes, draws):
    """log Π factors at one draw, plates multiplied out."""
    total = 0.0
    for factor in factors:
        at = {name: fb.Array(draws[name], homes[name]) for name in factor.inputs if name in homes}
        found = factor(at) if at else factor
        total += float((found.product(*found.inputs) if found.inputs else found).log())
    return total


@every_graph
def test_density_of_a_draw_is_that_of_the_posterior(graph, size):
    """log N(z) − log |∂x/∂z|  =  log joint(x) − log Z, for x = x(z)"""
    factors, homes = graph()
    plates = plates_of(homes)
    noise = np.random.default_rng(5).normal(size=size)

    def draw(z):
        return fb.sample(fb.WhiteNoise(z), factors, homes, plates=plates)

    flat = [np.concatenate([np.ravel(part) for part in draw(z).values()]) for z in (np.zeros(size), *np.eye(size))]
    jacobian = np.stack(flat[1:]) - flat[0]
    log_normal = -0.5 * noise @ noise - 0.5 * size * np.log(2 * np.pi)
    expected = log_joint(factors, homes, draw(noise)) - float(fb.eliminate(factors, homes, plates=plates).log())
    np.testing.assert_allclose(log_normal - np.linalg.slogdet(jacobian)[1], expected, rtol=1e-8)


@every_graph
def test_many_draws_have_the_means_of_the_marginals(graph, size):
    factors, homes = graph()
    plates = plates_of(homes)
    noise = np.random.default_rng(1).normal(size=(40_000, size))
    drawn = fb.sample(fb.WhiteNoise(noise), factors, homes, plates=plates)
    for name, belief in fb.marginals(factors, homes, plates=plates).items():
        mean = belief.mean(name)
        for axis in reversed(homes[name]):
            mean = fb.stack(mean, axis)
        np.testing.assert_allclose(drawn[name].mean(0), np.asarray(mean), atol=0.02)


def test_draws_are_differentiable():
    factors, homes = pair()
    slope = jax.jacobian(lambda z: fb.sample(fb.WhiteNoise(z), factors, homes)["y"])(jnp.zeros(2))
    assert slope.shape == (2,) and bool(jnp.any(slope != 0))


@pytest.mark.parametrize(("numbers", "message"), [(1, "expected: at least 2"), (3, "expected: 2")])
def test_the_wrong_number_of_numbers(numbers, message):
    factors, homes = pair()
    with pytest.raises(fb.FubiniError, match=message):
        fb.sample(fb.WhiteNoise(np.zeros(numbers)), factors, homes)


def test_no_white_noise_for_tables():
    with pytest.raises(fb.FubiniError, match="Gaussians alone"):
        fb.sample(fb.WhiteNoise(np.zeros(1)), fb.Table([0.5, 0.5], ("a",)), ("a",))
