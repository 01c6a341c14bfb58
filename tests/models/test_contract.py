"""The contract, which every flavour keeps: names, shapes, samples, densities, with the values that TFP gives."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import fubini as fb
from fubini import dist

from .flavours import EXPONENTIAL, FLAVOURS, LOG_PROB, PARTS, POINT, in_dict, in_list, simple

KEY = jax.random.key(0)
flavours = pytest.mark.parametrize("make", FLAVOURS, ids=lambda make: make.__name__)


def leaves(value: object) -> list:
    return jax.tree_util.tree_leaves(value)


@flavours
def test_names_and_graph(make: Callable[..., fb.Joint]) -> None:
    """A8: who depends on whom, the nearest first."""
    assert make().names == ("s", "m", "x")
    assert dict(make().graph()) == {"s": (), "m": (), "x": ("m", "s")}


@flavours
def test_shapes_and_dtypes_are_structures_of_a_sample(make: Callable[..., fb.Joint]) -> None:
    """A3, A28."""
    joint = make()
    for structure in (joint.event_shape, joint.dtype):
        assert type(structure) is type(joint.unflatten(dict(zip("smx", POINT, strict=True))))
    assert jax.tree_util.tree_leaves(joint.event_shape, is_leaf=lambda item: item == ()) == [(), (), ()]
    assert [np.dtype(dtype) for dtype in leaves(joint.dtype)] == [np.dtype(float)] * 3


@flavours
def test_log_prob(make: Callable[..., fb.Joint]) -> None:
    """A5."""
    joint = make()
    value = joint.unflatten(dict(zip("smx", POINT, strict=True)))
    assert float(joint.log_prob(value)) == pytest.approx(LOG_PROB, abs=1e-6)
    parts = joint.log_prob_parts(value)
    assert type(parts) is type(value)
    np.testing.assert_allclose(leaves(joint.flatten(parts, joint.names)["s"]), PARTS[:1], atol=1e-6)
    np.testing.assert_allclose(sorted(leaves(parts)), sorted(PARTS), atol=1e-6)


@pytest.mark.parametrize("make", [in_list, in_dict, simple])
def test_sample(make: Callable[..., fb.Joint]) -> None:
    """A4, A14: leading axes, and a density of their shape, at once or afterwards."""
    joint = make(EXPONENTIAL)
    draws, log_prob = joint.sample_and_log_prob(KEY, (2, 3))
    assert [draw.shape for draw in leaves(draws)] == [(2, 3)] * 3
    for one, other in zip(leaves(draws), leaves(joint.sample(KEY, (2, 3))), strict=True):
        np.testing.assert_array_equal(one, other)
    assert log_prob.shape == (2, 3)
    np.testing.assert_allclose(log_prob, joint.log_prob(draws), rtol=1e-10)
    s, m, x = joint.flatten(draws, joint.names).values()
    want = stats.expon(scale=0.5).logpdf(s) + stats.norm(0, 1).logpdf(m) + stats.norm(m, s).logpdf(x)
    np.testing.assert_allclose(log_prob, want, rtol=1e-10)


def test_shapes_of_samples() -> None:
    """A4: none, a number, a tuple."""
    joint = in_list(EXPONENTIAL)
    for shape, want in (((), ()), (4, (4,)), (np.int64(4), (4,)), ((2, 3), (2, 3)), ((0,), (0,))):
        assert [draw.shape for draw in joint.sample(KEY, shape)] == [want] * 3


def test_a_flow_is_not_inverted() -> None:
    """A14: the value, and log p of the base less the Jacobian, computed on the way out."""
    flow = fb.JointNamed(dict(z=dist.LogNormal(0.3, 2.0)))
    draws, log_prob = flow.sample_and_log_prob(KEY, (5,))
    np.testing.assert_allclose(log_prob, stats.lognorm(2.0, scale=np.exp(0.3)).logpdf(draws["z"]), rtol=1e-10)


@pytest.mark.parametrize("make", [in_list, in_dict, simple])
def test_sample_distributions(make: Callable[..., fb.Joint]) -> None:
    """A13: values as `sample` draws them, and the distributions they were drawn from."""
    joint = make(EXPONENTIAL)
    sources, values = joint.sample_distributions(KEY)
    assert type(sources) is type(values)
    s, m, x = joint.flatten(values, joint.names).values()
    distribution = joint.flatten(sources, joint.names)["x"]
    assert float(distribution("x")(x=float(x)).log()) == pytest.approx(stats.norm(m, s).logpdf(x), abs=1e-10)


def test_distributions_of_a_batch_depend_on_the_place() -> None:
    """A13: a variable where TFP has a batch shape."""
    sources, values = simple(EXPONENTIAL).sample_distributions(KEY, 5)
    assert [source.inputs for source in sources] == [{"sample": fb.Bint[5]}] * 3
    want = stats.norm(values.m, values.s).logpdf(0.3)
    np.testing.assert_allclose(sources.x("x")(x=0.3).log().data, want, atol=1e-10)
    sources, values = simple(EXPONENTIAL).sample_distributions(KEY, (2, 3))
    assert sources.x.inputs == {"sample_0": fb.Bint[2], "sample_1": fb.Bint[3]}
    np.testing.assert_allclose(sources.x("x")(x=0.3).log().data, stats.norm(values.m, values.s).logpdf(0.3), atol=1e-10)
    assert simple(EXPONENTIAL).sample_distributions(KEY, s=np.ones(2)).distributions.x.inputs == {"sample": fb.Bint[2]}


@flavours
def test_printing(make: Callable[..., fb.Joint]) -> None:
    assert f"{make()}".endswith("(s: Positive, m: Real, x: Real)")
    assert repr(make().graph()) == "s ~ InverseGamma(3, 2)\nm ~ Normal(0, 1)\nx ~ Normal(m, s)"
    assert repr(make()) == f"{make()}\n  s ~ InverseGamma(3, 2)\n  m ~ Normal(0, 1)\n  x ~ Normal(m, s)"


def test_drawings() -> None:
    """Roots above; observed sites shaded, computed ones dashed, names escaped."""
    joint = fb.JointNamed({"a<b": dist.Normal(0.0, 1.0), "z": dist.Normal(0.0, 1.0)})
    drawing = joint.condition(z=1.0).graph()
    assert "a&lt;b" in drawing._repr_svg_() and drawing._repr_svg_().startswith("<svg")
    assert '"z" [style=filled];' in drawing.to_dot()
    assert '"m" -> "x";' in simple().graph().to_dot()


def test_data_decide_the_engine() -> None:
    """Doubles of NumPy as long as no JAX array takes part; JAX's own width then."""
    assert isinstance(in_list().log_prob(POINT), np.ndarray) and in_list().log_prob(POINT).dtype == np.float64
    found = in_list().log_prob([jnp.array(1.0), 0.0, 0.5])
    assert isinstance(found, jax.Array) and found.dtype == jnp.float32
    assert float(found) == pytest.approx(LOG_PROB, abs=1e-6)


def test_construction_does_not_run_the_model() -> None:
    """A28."""

    def explode() -> None:
        raise AssertionError("run")

    def model():
        explode()
        yield dist.Normal(0.0, 1.0)

    fb.JointCoroutine(model)
    fb.JointSequential([dist.Normal(0.0, 1.0), lambda x: explode()])
    fb.JointNamed(dict(x=lambda: explode()))


def test_a_mixed_dtype() -> None:
    joint = fb.JointNamed(dict(n=dist.Geometric(0.5), x=lambda n: dist.Normal(n * 1.0, 1.0)))
    assert joint.dtype["n"].kind == "i" and joint.dtype["x"].kind == "f"
    draws = joint.sample(KEY, (3,))
    assert draws["n"].dtype.kind == "i" and draws["x"].dtype.kind == "f"


def test_numpyro_distributions_are_components() -> None:
    import numpyro.distributions as numpyro_families

    joint = fb.JointSequential([numpyro_families.Normal(0.0, 1.0), lambda m: numpyro_families.Normal(m, 2.0)])
    want = stats.norm(0, 1).logpdf(0.3) + stats.norm(0.3, 2).logpdf(1.0)
    assert float(joint.log_prob([0.3, 1.0])) == pytest.approx(want, abs=1e-10)
