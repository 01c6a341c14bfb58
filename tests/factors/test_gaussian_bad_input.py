"""What a Gaussian refuses, in both engines and under tracing: each error says what was asked and what to do."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist, ops
from fubini.errors import DataError, DomainError, Intractable, NoRule, UnknownName

PLANE = {"x": fb.Real, "y": fb.Real}
X, Y = fb.Variable("x", fb.Real), fb.Variable("y", fb.Real)
EYE = np.eye(2)
LINE = np.array([[1.0, -1.0], [-1.0, 1.0]])
SADDLE = np.array([[1.0, 2.0], [2.0, 1.0]])
CROOKED = np.array([[1.0, 0.5], [0.0, 1.0]])
NAN = np.array([[1.0, np.nan], [np.nan, 1.0]])


def complaint(kind: type[Exception], ask: Callable, *args: Any) -> str:
    """The message, in parts: what was asked, and at least what was expected."""
    with pytest.raises(kind) as caught:
        ask(*args)
    assert isinstance(caught.value, fb.FubiniError)
    text = str(caught.value)
    assert "expected:" in text, text
    return text


def says(text: str, *words: str) -> None:
    assert all(word in text for word in words), text


# -- data errors: eager in NumPy, eager in JAX, NaN under jit, an error under checked -------------------------------


class Case(NamedTuple):
    """A number asked of an array, a good and a bad array, words of the error."""

    ask: Callable[[Any], Any]
    good: np.ndarray
    bad: np.ndarray
    words: tuple[str, ...]


def plane(K: Any, **more: Any) -> fb.Gaussian:
    return fb.Gaussian(info=np.zeros(2), precision=K, inputs=PLANE, **more)


def given(**arrays: Any) -> Any:
    arrays = {"info": np.zeros(2), **arrays} if not {"mean", "white"} & set(arrays) else arrays
    return fb.Gaussian(**arrays, inputs=PLANE)(x=0.3, y=0.7).log().data


IMPROPER = ("improper", "positive definite", "prior", "'x'")
CASES = {
    "a singular block": Case(lambda K: plane(K).sum("x", "y").log().data, EYE, LINE, (*IMPROPER, "'y'")),
    "a singular block of a plan": Case(
        lambda K: (plane(K) * dist.Normal(X, 1.0)("w")).sum("w", "x", "y").log().data, EYE, LINE, ("improper", "prior")
    ),
    "a part of a singular block": Case(
        lambda K: plane(K).sum("x")(y=0.3).log().data, EYE, np.diag([0.0, 1.0]), IMPROPER
    ),
    "a zero precision": Case(
        lambda K: fb.Gaussian(info=np.zeros(1), precision=K, inputs={"x": fb.Real}).sum("x").log().data,
        *(np.eye(1), np.zeros((1, 1)), IMPROPER),
    ),
    "an indefinite quotient": Case(
        lambda K: (plane(2 * EYE) / plane(K)).sum("x", "y").log().data, EYE, 3 * EYE, ("improper",)
    ),
    "a maximum without a top": Case(lambda K: plane(K).max("x", "y").log().data, EYE, LINE, ("improper",)),
    "a mean without information": Case(
        lambda K: plane(K).sum("y").mean("x").data, EYE, LINE, ("improper", "prior", "'x'")
    ),
    "a variance without information": Case(
        lambda K: plane(K).variance("x").data, EYE, np.diag([0.0, 1.0]), ("improper", "prior", "'x'")
    ),
    "a mode without information": Case(lambda K: plane(K).argmax("x", "y")["x"], EYE, LINE, ("improper", "prior")),
    "a draw without information": Case(
        lambda K: plane(K).sample(jax.random.key(0), "x", "y")["x"], EYE, LINE, ("improper", "prior")
    ),
    "a precision not symmetric": Case(lambda K: given(precision=K), EYE, CROOKED, ("precision", "symmetric")),
    "a covariance not symmetric": Case(lambda K: given(covariance=K), EYE, CROOKED, ("covariance", "symmetric")),
    "an indefinite precision": Case(lambda K: given(precision=K), EYE, SADDLE, ("precision", "semi-definite")),
    "a negative precision": Case(lambda K: given(precision=K), EYE, -EYE, ("precision", "semi-definite")),
    "an indefinite covariance": Case(lambda S: given(covariance=S), EYE, SADDLE, ("covariance", "positive definite")),
    "a singular covariance": Case(lambda S: given(covariance=S), EYE, LINE, ("covariance", "positive definite")),
    "a scale_tril with a zero": Case(
        lambda L: given(scale_tril=L), EYE, np.diag([1.0, 0.0]), ("scale_tril", "positive diagonal")
    ),
    "a scale_tril with an upper part": Case(
        lambda L: given(scale_tril=L), EYE, np.array([[1.0, 0.5], [0.2, 1.0]]), ("scale_tril", "triang")
    ),
    "NaN in a precision": Case(lambda K: given(precision=K), EYE, NAN, ("precision",)),
    "NaN in a covariance": Case(lambda K: given(covariance=K), EYE, NAN, ("covariance",)),
    "NaN in a scale_tril": Case(lambda K: given(scale_tril=K), EYE, NAN, ("scale_tril",)),
    "NaN in a precision_sqrt": Case(lambda K: given(precision_sqrt=K), EYE, NAN, ("precision_sqrt",)),
    "infinity in a precision": Case(lambda K: given(precision=K), EYE, np.diag([np.inf, 1.0]), ("precision",)),
    "NaN in info": Case(lambda h: given(info=h, precision=EYE), np.ones(2), np.array([0.0, np.nan]), ("info",)),
    "NaN in a mean": Case(lambda m: given(mean=m, precision=EYE), np.ones(2), np.array([0.0, np.nan]), ("mean",)),
    "infinity in a mean": Case(lambda m: given(mean=m, precision=EYE), np.ones(2), np.array([0.0, np.inf]), ("mean",)),
    "NaN in white": Case(lambda w: given(white=w, precision_sqrt=EYE), np.ones(2), np.array([0.0, np.nan]), ("white",)),
    "NaN in log_scale": Case(
        lambda g: plane(EYE, log_scale=g).sum("x", "y").log().data, np.array(0.3), np.array(np.nan), ()
    ),
    "a negative scale": Case(
        lambda s: dist.Normal(X, s)(1.0)(x=0.3).log().data, np.array(0.5), np.array(-0.5), ("Normal", "scale")
    ),
    "a zero scale": Case(
        lambda s: (dist.Normal(X, s)(1.0) * dist.Normal(0.0, 1.0)("x")).sum("x").log().data,
        *(np.array(0.5), np.array(0.0), ("Normal", "scale")),
    ),
    "NaN in a loc": Case(
        lambda m: (dist.Normal(m, 1.0)("x") * dist.Normal(X, 1.0)(0.5)).sum("x").log().data,
        *(np.array(0.5), np.array(np.nan), ("Normal", "loc")),
    ),
    "NaN in data": Case(
        lambda d: (dist.Normal(0.0, 1.0)("x") * dist.Normal(X, 1.0)(d)).sum("x").log().data,
        *(np.array(0.5), np.array(np.nan), ()),
    ),
    "one cell of a batch singular": Case(
        lambda K: (
            fb.stack(
                fb.Gaussian(info=np.zeros(1), precision=K, inputs={"i": fb.Bint[3], "x": fb.Real}).sum("x").log(), "i"
            ).data
        ),
        *(np.ones((3, 1, 1)), np.array([1.0, 0.0, 2.0]).reshape(3, 1, 1), IMPROPER),
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_raises_eagerly(case, array):
    assert np.all(np.isfinite(case.ask(array(case.good))))
    says(complaint(DataError, case.ask, array(case.bad)), *case.words)


def test_traced_is_nan(case):
    ask = jax.jit(case.ask)
    assert np.all(np.isfinite(ask(jnp.asarray(case.good))))
    assert np.any(np.isnan(ask(jnp.asarray(case.bad))))


@pytest.mark.slow
def test_checked_raises(case):
    ask = fb.checked(jax.jit(case.ask))
    np.testing.assert_allclose(ask(jnp.asarray(case.good)), case.ask(jnp.asarray(case.good)), rtol=1e-4, atol=1e-5)
    says(complaint(DataError, ask, jnp.asarray(case.bad)), *case.words)


def test_a_singular_cell_spoils_its_own_cell_alone_under_jit():
    """The other cells keep their numbers."""

    @jax.jit
    def ask(K):
        f = fb.Gaussian(info=jnp.zeros(1), precision=K, inputs={"i": fb.Bint[3], "x": fb.Real})
        return fb.stack(f.sum("x").log(), "i").data

    found = np.asarray(ask(jnp.array([1.0, 0.0, 2.0]).reshape(3, 1, 1)))
    np.testing.assert_allclose(found, [0.5 * np.log(2 * np.pi), np.nan, 0.5 * np.log(np.pi)], rtol=1e-5)


def test_the_gradient_of_a_singular_block_is_nan():
    """Never a plausible derivative beside a value that is NaN."""
    slope = jax.jit(jax.grad(lambda k: plane(jnp.array(LINE) * k).sum("x", "y").log().data))(1.0)
    assert np.isnan(slope)


# -- a nearly singular block is not a plausible number --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_too_few_sensors_are_refused(seed):
    """Rank two over four dimensions, by rounding not exactly so."""
    rng = np.random.default_rng(seed)
    H = rng.normal(size=(2, 4))
    s = fb.Variable("s", fb.Reals[4])
    f = dist.MultivariateNormal(H @ s, np.eye(2))(rng.normal(size=2))
    says(complaint(DataError, lambda: (f * f * f).sum("s").log()), "improper", "'s'", "prior")


@pytest.mark.parametrize("seed", range(5))
def test_too_few_sensors_in_turn_are_refused(seed):
    """Summed out one by one, rounding must not make information of nothing."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=3)
    x, y, z = (fb.Variable(name, fb.Real) for name in "xyz")
    f = dist.Normal(a[0] * x + a[1] * y + a[2] * z, 0.7)(0.3) * dist.Normal(x - y, 1.3)(0.1)

    def ask():
        return f.sum("x").sum("y").sum("z").log()

    says(complaint(DataError, ask), "improper", "'z'")


# -- structure ------------------------------------------------------------------------------------------------------

WRONG_SHAPES = {
    "info too long": ({"info": np.zeros(3), "precision": EYE}, ("info", "(3,)", "(2)")),
    "precision too wide": ({"info": np.zeros(2), "precision": np.eye(3)}, ("precision", "(3, 3)", "(2, 2)")),
    "precision flat": ({"info": np.zeros(2), "precision": np.ones(2)}, ("precision", "(2,)", "(2, 2)")),
    "a root of other rows": ({"white": np.zeros(2), "precision_sqrt": np.ones((3, 2))}, ("precision_sqrt", "(3, 2)")),
    "white of another rank": ({"white": np.zeros(3), "precision_sqrt": np.ones((2, 2))}, ("white", "3", "2")),
    "a batch that is not there": ({"info": np.zeros((4, 2)), "precision": EYE}, ("info", "(4, 2)", "(2)")),
    "a log_scale that is an array": (
        {"info": np.zeros(2), "precision": EYE, "log_scale": np.zeros(2)},
        ("log_scale", "(2,)", "()"),
    ),
}


@pytest.mark.parametrize(("arrays", "words"), WRONG_SHAPES.values(), ids=WRONG_SHAPES)
@pytest.mark.parametrize("mode", ["numpy", "jax", "jit"])
def test_a_shape_against_the_domains(arrays, words, mode):
    """Structure is checked at once, also under tracing and under `lazy`."""
    names = tuple(arrays)

    def make(*data):
        return fb.Gaussian(**dict(zip(names, data, strict=True)), inputs=PLANE).log()(x=0.0, y=0.0).data

    data = arrays.values() if mode == "numpy" else map(jnp.asarray, arrays.values())
    says(complaint(DomainError, jax.jit(make) if mode == "jit" else make, *data), *words)
    with fb.lazy:
        complaint(DomainError, make, *arrays.values())


def test_a_shape_against_a_batch():
    text = complaint(
        DomainError,
        lambda: fb.Gaussian(info=np.zeros((3, 1)), precision=np.eye(1), inputs={"i": fb.Bint[4], "x": fb.Real}),
    )
    says(text, "info", "(3, 1)", "(4, 1)", "(1)")


NOT_ONE = {
    "no location": ({"precision": EYE}, ("location", "none was given", "'info'", "'mean'", "'white'")),
    "two locations": ({"info": np.zeros(2), "mean": np.zeros(2), "precision": EYE}, ("location", "'info', 'mean'")),
    "no matrix": ({"info": np.zeros(2)}, ("matrix", "none was given", "'precision'", "'covariance'", "'scale_tril'")),
    "two matrices": (
        {"info": np.zeros(2), "precision": EYE, "covariance": EYE},
        ("matrix", "'precision', 'covariance'"),
    ),
}


@pytest.mark.parametrize(("arrays", "words"), NOT_ONE.values(), ids=NOT_ONE)
def test_one_location_and_one_matrix(arrays, words):
    says(complaint(DomainError, lambda: fb.Gaussian(**arrays, inputs=PLANE)), *words)


@pytest.mark.parametrize("domain", [fb.Positive, fb.Unit, fb.Nat, fb.Simplex[2]], ids=str)
def test_a_gaussian_lives_on_the_reals(domain):
    ask = lambda: fb.Gaussian(info=np.zeros(1), precision=np.eye(1), inputs={"x": domain})  # noqa: E731
    says(complaint(DomainError, ask), "'x'", repr(domain), "real")


def test_a_gaussian_without_reals():
    text = complaint(DomainError, lambda: fb.Gaussian(info=[], precision=np.eye(0), inputs={"i": fb.Bint[2]}))
    says(text, "'i'", "real", "Table")


def test_complex_data():
    complaint(fb.FubiniError, lambda: fb.Gaussian(info=[1j], precision=[[1.0]], inputs={"x": fb.Real}))


def test_names_with_two_domains():
    f = fb.Gaussian(info=np.zeros(1), precision=np.eye(1), inputs={"x": fb.Real})
    g = fb.Gaussian(info=np.zeros(2), precision=np.eye(2), inputs={"x": fb.Reals[2]})
    for ask in (lambda: f * g, lambda: f / g, lambda: f + g):
        says(complaint(DomainError, ask), "'x'", "Real", "Reals[2]")


# -- names ----------------------------------------------------------------------------------------------------------

UNKNOWN = {
    "sum": lambda f: f.sum("xx"),
    "max": lambda f: f.max("xx"),
    "product": lambda f: f.product("xx"),
    "call": lambda f: f(xx=1.0),
    "mean": lambda f: f.mean("xx"),
    "variance": lambda f: f.variance("xx"),
    "covariance": lambda f: f.covariance("xx"),
    "entropy": lambda f: f.entropy("xx"),
    "kl": lambda f: f.kl(f, "xx"),
    "mutual_information": lambda f: f.mutual_information("x", "xx"),
    "argmax": lambda f: f.argmax("xx"),
    "sample": lambda f: f.sample(jax.random.key(0), "xx"),
    "normalize": lambda f: f.normalize("xx"),
    "expectation": lambda f: fb.expectation(f, X, "xx"),
    "eliminate": lambda f: fb.eliminate(f, sum=("xx",)),
    "marginals": lambda f: fb.marginals(f, ("xx",)),
}


@pytest.mark.parametrize("ask", UNKNOWN.values(), ids=UNKNOWN)
@pytest.mark.parametrize("lazily", [False, True])
def test_an_unknown_name(ask, lazily):
    """The name asked for, and the one it may have been, under `exact` and under `lazy`."""
    if lazily:
        with fb.lazy:
            text = complaint(UnknownName, ask, plane(EYE))
    else:
        text = complaint(UnknownName, ask, plane(EYE))
    says(text, "'xx'", "'x'")


# -- questions without an answer ------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [plane(EYE), dist.Normal(X, 1.0)("y"), dist.Normal(0.0, 1.0)("x")], ids=str)
def test_a_product_over_a_real_variable(factor):
    says(complaint(fb.FubiniError, lambda: factor.product("x")), "product", "'x'", "Real")


def test_a_plate_over_a_real_variable():
    complaint(fb.FubiniError, lambda: fb.eliminate(plane(EYE), sum=("y",), plates=("x",)))


def test_dividing_by_a_delta():
    text = complaint(NoRule, lambda: plane(EYE) / fb.Delta(x=0.3))
    says(text, "Delta", "'x'", "to do:")


def test_dividing_a_density_by_a_delta():
    complaint(NoRule, lambda: dist.Normal(0.0, 1.0)("x") / fb.Delta(x=0.3))


def test_dividing_by_a_mixture():
    mixture = (fb.Table([0.3, 0.7], ("k",)) * dist.Normal(fb.Array(np.array([-1.0, 1.0]), ("k",)), 1.0)("x")).sum("k")
    says(complaint(NoRule, lambda: plane(EYE) / mixture), "to do:")


def test_dividing_by_zero_weights():
    f = fb.Table([0.0, 1.0], ("i",)) * plane(EYE)
    says(complaint(DataError, lambda: (plane(EYE) / f)(i=0, x=0.1, y=0.2).log().data), "zero")


NOT_AFFINE = {
    "x x": X * X,
    "exp x": ops.exp(X),
    "|x|": ops.absolute(X),
    "a lifted sine": fb.lift(jnp.sin)(X),
}


@pytest.mark.parametrize("value", NOT_AFFINE.values(), ids=NOT_AFFINE)
def test_a_substitution_that_is_not_affine_then_a_sum(value):
    """It can be evaluated, but not summed; the error names the variable and the factor."""
    f = fb.Gaussian(info=np.ones(1), precision=np.eye(1), inputs={"a": fb.Real})(a=value)
    assert np.isfinite(float(f(x=0.3).log()))
    text = complaint(Intractable, lambda: f.sum("x"))
    says(text, "'x'", "to do:")


@pytest.mark.parametrize("value", NOT_AFFINE.values(), ids=NOT_AFFINE)
def test_a_mean_that_is_not_affine_then_a_sum(value):
    f = dist.Normal(0.0, 1.0)("x") * dist.Normal(value, 1.0)("y")
    says(complaint(Intractable, lambda: f.sum("x")), "'x'", "Normal", "to do:")


def test_a_blocked_sum_is_recorded_under_lazy():
    f = dist.Normal(0.0, 1.0)("x") * dist.Normal(ops.exp(X), 1.0)("y")
    with fb.lazy:
        recorded = f.sum("x")
    assert recorded.inputs == {"y": fb.Real}
    text = complaint(Intractable, lambda: fb.evaluate(recorded))
    assert re.search(r"over '?x'? of", text), text


def test_a_scale_that_depends_on_the_variable():
    f = dist.Normal(0.0, 1.0)("x") * dist.Normal(0.0, ops.exp(X))("y")
    says(complaint(Intractable, lambda: f.sum("x")), "'x'", "Normal", "to do:")


@pytest.mark.parametrize("value", [X * X * X, ops.exp(X), fb.lift(jnp.tanh)(X)], ids=["cubic", "exp", "tanh"])
def test_an_expectation_without_a_closed_form(value):
    says(complaint(Intractable, lambda: fb.expectation(plane(EYE), value, "x", "y")), "expectation", "degree", "to do:")


def test_a_maximum_over_cells_of_different_gaussians():
    f = fb.Gaussian(info=np.ones((2, 1)) * [[1.0], [2.0]], precision=np.eye(1), inputs={"i": fb.Bint[2], "x": fb.Real})
    says(complaint(fb.FubiniError, lambda: f.max("i")), "'i'", "'x'", "to do:")


def test_entropy_beside_a_batch():
    f = fb.Gaussian(info=np.ones((2, 1)) * [[1.0], [2.0]], precision=np.eye(1), inputs={"i": fb.Bint[2], "x": fb.Real})
    says(complaint(fb.FubiniError, lambda: f.entropy("i", "x")), "'i'")


def test_a_value_of_some_reals_while_others_are_free():
    says(complaint(fb.FubiniError, lambda: plane(SADDLE @ SADDLE).argmax("x")), "'x'", "'y'")
    says(complaint(fb.FubiniError, lambda: plane(SADDLE @ SADDLE).sample(jax.random.key(0), "x")), "'x'", "'y'")


def switching(count: int) -> list[fb.Factor]:
    """A chain of real states, each step by one of two slopes: 2^count Gaussians."""
    slopes = np.array([0.5, 1.5])
    factors = [dist.Normal(0.0, 1.0)("x0")]
    for k in range(count):
        before = fb.Variable(f"x{k}", fb.Real)
        factors.append(fb.Table([0.4, 0.6], (f"s{k}",)))
        factors.append(dist.Normal(fb.Array(slopes, (f"s{k}",)) * before, 1.0)(f"x{k + 1}"))
    return factors


def test_a_mixture_past_its_cap():
    """The error names what blocks, the number of terms and the way out."""
    count = 20
    names = [*(f"x{k}" for k in range(count)), *(f"s{k}" for k in range(count))]
    text = complaint(Intractable, lambda: fb.eliminate(switching(count), sum=names))
    says(text, "terms", "moment_matching", "to do:")
    assert any(f"s{k}" in text for k in range(count)), text


def test_a_mixture_within_its_cap():
    """Five switches: 32 terms, the moments those of the chain."""
    names = [*(f"x{k}" for k in range(5)), *(f"s{k}" for k in range(5))]
    found = fb.eliminate(switching(5), sum=names)
    second = 1.0
    for _ in range(5):
        second = (0.4 * 0.25 + 0.6 * 2.25) * second + 1.0
    assert float(found.sum("x5")) == pytest.approx(1.0, rel=1e-10)
    assert float(found.variance("x5")) == pytest.approx(second, rel=1e-9)


def test_products_of_mixtures_past_the_cap():
    """A mean chosen for each of many data: 2^30 terms."""
    z = [fb.Variable(f"z{k}", fb.Real) for k in range(2)]
    data = fb.Array(np.linspace(-1, 1, 30), ("i",))
    k = fb.Variable("k", fb.Bint[2])
    component = dist.Normal(ops.where(ops.equal(k, 0), z[0], z[1]), 1.0)(data)
    prior = dist.Normal(0.0, 1.0)("z0") * dist.Normal(0.0, 1.0)("z1")
    ask = lambda: fb.eliminate([component, *prior.terms], sum={"k": ("i",), "z0": (), "z1": ()}, plates=("i",))  # noqa: E731
    says(complaint(Intractable, ask), "terms", "to do:")


def test_float_of_an_open_gaussian():
    says(complaint(fb.FubiniError, lambda: float(plane(EYE))), "'x'", "'y'", "to do:")


@pytest.mark.parametrize("value", [np.ones(2), fb.Variable("v", fb.Reals[2])], ids=["array", "variable"])
def test_a_value_of_another_shape(value):
    says(complaint(DomainError, lambda: plane(EYE)(x=value)), "x=", "Reals[2]", "domain Real")


def test_a_substitute_of_another_domain():
    says(complaint(DomainError, lambda: plane(EYE)(x=fb.Variable("y", fb.Reals[2]))), "x=", "Reals[2]")


def test_an_index_out_of_range():
    f = fb.Gaussian(info=np.zeros((3, 1)), precision=np.eye(1), inputs={"i": fb.Bint[3], "x": fb.Real})
    says(complaint(fb.FubiniError, lambda: f(i=3)), "'i'", "0 to 2")
