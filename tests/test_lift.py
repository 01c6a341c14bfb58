"""Lifted JAX functions: written for one sample, mapped over named axes, in the engine of the data."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.domains import Integer
from fubini.errors import DomainError
from fubini.terms.value import Apply, to_array

RNG = np.random.default_rng(0)
MATRICES, VECTORS = RNG.normal(size=(4, 3, 2, 2)), RNG.normal(size=(3, 5, 2))


def quadratic(matrix: jax.Array, vector: jax.Array) -> jax.Array:
    """A function of several arguments, for one matrix and one vector."""
    assert matrix.shape == (2, 2) and vector.shape == (2,)
    return vector @ matrix @ vector


EXPECTED = np.einsum("jkm,ijmn,jkn->ijk", VECTORS, MATRICES, VECTORS)


def test_mapped_over_named_axes() -> None:
    """NumPy in, double precision NumPy out; the function sees one sample at a time."""
    result = fb.lift(quadratic)(fb.Array(MATRICES, ("i", "j")), fb.Array(VECTORS, ("j", "k")))
    assert isinstance(result, fb.Array)
    assert result.inputs == {"i": fb.Bint[4], "j": fb.Bint[3], "k": fb.Bint[5]}
    assert result.output == fb.Real
    assert type(result.data) is np.ndarray and result.data.dtype == np.float64
    np.testing.assert_allclose(result.data, EXPECTED, rtol=1e-13)


def test_jax_in_jax_out() -> None:
    """One JAX array is enough; compiled or not."""

    def question(matrices: jax.Array) -> jax.Array:
        return fb.lift(quadratic)(fb.Array(matrices, ("i", "j")), fb.Array(VECTORS, ("j", "k"))).data

    for function in (question, jax.jit(question)):
        found = function(jnp.asarray(MATRICES))
        assert isinstance(found, jax.Array)
        np.testing.assert_allclose(found, EXPECTED, rtol=1e-4, atol=1e-5)


def test_numpy_stays_numpy_inside_a_trace() -> None:
    """Data decide the engine: what holds no JAX array is computed in double precision even while JAX traces."""
    seen = []

    @jax.jit
    def question(x: jax.Array) -> jax.Array:
        constant = fb.lift(jnp.expm1)(fb.Array(np.array([1e-12, 1.0]), ("i",)))
        seen.append(constant.data)
        return x + constant.data[1]

    question(jnp.asarray(1.0))
    assert type(seen[0]) is np.ndarray and seen[0].dtype == np.float64
    np.testing.assert_allclose(seen[0], np.expm1([1e-12, 1.0]), rtol=1e-14)


def test_numbers_and_plain_arrays() -> None:
    tanh = fb.lift(jnp.tanh)
    assert isinstance(tanh(0.5), np.ndarray | np.generic)
    np.testing.assert_allclose(tanh(0.5), np.tanh(0.5), rtol=1e-15)
    assert isinstance(tanh(jnp.ones(2)), jax.Array)


def test_gradient_through_a_lifted_function() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return fb.lift(jnp.sin)(fb.Array(x, ("i",)))(i=1).data

    np.testing.assert_allclose(jax.grad(loss)(jnp.array([0.3, 0.7])), [0.0, np.cos(0.7)], rtol=1e-6)


def test_gradient_of_what_a_lifted_function_closes_over() -> None:
    """A network's parameters are often closed over while the data are NumPy."""

    def loss(scale: jax.Array) -> jax.Array:
        return fb.lift(lambda x: scale * x)(fb.Array(np.array([1.0, 3.0]), ("i",)))(i=1).data

    assert float(jax.grad(loss)(2.0)) == 3.0


def test_recorded_then_evaluated() -> None:
    x, n = fb.Variable("x", fb.Reals[2]), fb.Variable("n", fb.Bint[3])
    value = fb.lift(lambda x, n: x[0] * 10.0 + x[1] + n)(x, n)
    assert isinstance(value, Apply)
    assert value.inputs == {"x": fb.Reals[2], "n": fb.Bint[3]}
    found = to_array(value(x=fb.Array(VECTORS, ("j", "k"))))
    expected = VECTORS[..., :1] * 10 + VECTORS[..., 1:] + np.arange(3)
    assert list(found.inputs) == ["j", "k", "n"]
    np.testing.assert_allclose(found.data, expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("function", "domains", "expected"),
    [
        (jnp.tanh, [fb.Reals[3]], fb.Reals[3]),
        (jnp.sum, [fb.Reals[3, 4]], fb.Real),
        (lambda x: jnp.sum(x, axis=0), [fb.Reals[3, 4]], fb.Reals[4]),
        (lambda x: x > 0, [fb.Reals[3]], fb.Bint[2, 3]),
        (lambda n: n * n, [fb.Bint[5]], Integer),
        (lambda n: n / 2, [fb.Bint[5]], fb.Real),
        (jnp.outer, [fb.Reals[2], fb.Reals[3]], fb.Reals[2, 3]),
    ],
)
def test_output_domain_is_inferred(function: object, domains: list, expected: fb.Domain) -> None:
    """Without computing anything: a reduction along an axis has the type it ought to."""
    variables = [fb.Variable(f"x{position}", domain) for position, domain in enumerate(domains)]
    for interpretation in (fb.exact, fb.lazy):
        with interpretation:
            assert fb.lift(function)(*variables).output == expected


@pytest.mark.parametrize("interpretation", [fb.exact, fb.lazy], ids=repr)
def test_type_errors_at_construction(interpretation: fb.Interpretation) -> None:
    x = fb.Variable("x", fb.Reals[3])
    with interpretation:
        for function in (jnp.linalg.inv, lambda v: v.reshape(2, 2), lambda v, w: v):
            with pytest.raises(DomainError):
                fb.lift(function)(x)


def test_functions_of_structures_are_refused() -> None:
    """A Value is one array: a function that returns several is refused with a word about it."""
    with pytest.raises(DomainError):
        fb.lift(lambda x: (x, x))(fb.Variable("x", fb.Real))


def test_matrix_product() -> None:
    matrices, vectors = fb.Array(MATRICES, ("i", "j")), fb.Array(VECTORS, ("j", "k"))
    found = matrices @ vectors
    assert found.output == fb.Reals[2]
    np.testing.assert_allclose(found.data, np.einsum("ijmn,jkn->ijkm", MATRICES, VECTORS), rtol=1e-13)


def test_lifting_a_function_twice_gives_the_same_op() -> None:
    """So that terms built twice are alike and compiled once."""
    x = fb.Variable("x", fb.Real)
    assert fb.lift(quadratic) == fb.lift(quadratic)
    assert fb.lift(jnp.tanh)(x).structure == fb.lift(jnp.tanh)(x).structure
    assert fb.lift(jnp.tanh)(x).structure != fb.lift(jnp.sinh)(x).structure
    assert pickle.loads(pickle.dumps(fb.lift(np.tanh))) == fb.lift(np.tanh)


def test_numbers_of_both_engines_in_one_compiled_run() -> None:
    """NumPy's numbers that a label chooses, beside JAX's: a compiled run takes both."""
    b, d = fb.Variable("b", fb.Bint[2]), fb.Variable("d", fb.Bint[3])
    known = fb.dist.Poisson(fb.lift(lambda d: 1.0 + d)(d))(np.array(2))
    found = fb.eliminate([fb.dist.Categorical(jnp.array([0.4, 0.6]))(b), known], ["b", "d"])
    expected = sum(np.exp(-rate) * rate**2 / 2 for rate in (1.0, 2.0, 3.0))
    assert float(found) == pytest.approx(expected, rel=1e-5)
