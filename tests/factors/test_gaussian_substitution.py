"""Substituting into Gaussians: affine, self-referring, permuting, partial, not affine; and what counts as affine."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular
from scipy import integrate, stats

import fubini as fb
from fubini import dist, ops
from fubini.terms.affine import affine
from fubini.terms.degree import degree

RNG = np.random.default_rng(0)
X, Y, W = (fb.Variable(name, fb.Real) for name in "xyw")
V, U = fb.Variable("v", fb.Reals[3]), fb.Variable("u", fb.Reals[2])
M = fb.Variable("m", fb.Reals[2, 3])
A23, B3, B2, C22 = RNG.normal(size=(2, 3)), RNG.normal(size=3), RNG.normal(size=2), RNG.normal(size=(2, 2))
POINT = {
    "x": 0.7,
    "y": -1.3,
    "w": 0.4,
    "v": np.array([0.5, -0.2, 1.1]),
    "u": np.array([1.5, -0.6]),
    "m": RNG.normal(size=(2, 3)),
}


def raw(size: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, size + 2))
    return rng.normal(size=size), root @ root.T


def gaussian(**shapes: tuple[int, ...]) -> fb.Gaussian:
    h, K = raw(sum(math.prod(shape) for shape in shapes.values()))
    inputs = {name: fb.Reals[shape] if shape else fb.Real for name, shape in shapes.items()}
    return fb.Gaussian(info=h, precision=K, log_scale=0.3, inputs=inputs)


def at(term: fb.Factor | fb.Value, point: dict = POINT) -> np.ndarray:
    known = {name: point[name] for name in term.inputs}
    value = term.log() if isinstance(term, fb.Factor) else term
    return np.asarray(value(known).data if known else value.data)


# -- affine substitution --------------------------------------------------------------------------------------------

AFFINE: dict[str, tuple[fb.Value, tuple[int, ...]]] = {
    "2x + 1 - y": (2.0 * X + 1.0 - Y, ()),
    "(x - y) / 4": ((X - Y) / 4.0, ()),
    "-x": (-X, ()),
    "a constant": (fb.Array(np.array(0.3)) + 0.0, ()),
    "x times a vector": (X * B3, (3,)),
    "a matrix times v": (A23 @ V, (2,)),
    "v times a matrix": (V @ A23.T, (2,)),
    "matrix times u plus v": (A23.T @ U + V, (3,)),
    "m times a vector": (M @ B3, (2,)),
    "an element": (V[1], ()),
    "an element of a matrix": (M[1][2], ()),
    "a row": (M[0], (3,)),
    "elements and numbers": (3.0 * V[0] - V[2] + U[1] - 0.5, ()),
    "a reshape": (fb.lift(lambda m: m.reshape(6))(M), (6,)),
    "a reshape to a matrix": (fb.lift(lambda m: m.reshape(3, 2))(M), (3, 2)),
    "a transpose": (fb.lift(jnp.transpose)(M), (3, 2)),
    "an einsum": (fb.lift(lambda m, c: jnp.einsum("ij,ki->kj", m, c))(M, C22), (2, 3)),
    "an einsum of three": (fb.lift(lambda v: jnp.einsum("ij,j,i->", A23, v, B2))(V), ()),
    "an outer product with a constant": (fb.lift(jnp.outer)(B2, V), (2, 3)),
    "a sum over an axis": (fb.lift(lambda m: m.sum(0))(M), (3,)),
    "a mean over an axis": (fb.lift(lambda m: m.mean(1))(M), (2,)),
    "a slice": (fb.lift(lambda v: v[1:])(V), (2,)),
    "a gather": (fb.lift(lambda v: v[jnp.array([2, 0])])(V), (2,)),
    "a reversal": (fb.lift(lambda v: v[::-1])(V), (3,)),
    "a concatenation": (fb.lift(lambda v, u: jnp.concatenate([v, u]))(V, U), (5,)),
    "a stack": (fb.lift(lambda x, y: jnp.stack([x, 2 * y, x - y]))(X, Y), (3,)),
    "a cumulative sum": (fb.lift(jnp.cumsum)(V), (3,)),
    "a difference": (fb.lift(jnp.diff)(V), (2,)),
    "a trace": (fb.lift(lambda b, v: jnp.trace(jnp.outer(b, v)))(B3, V), ()),
    "a triangle": (fb.lift(jnp.tril)(M), (2, 3)),
    "padding": (fb.lift(lambda u: jnp.pad(u, 1))(U), (4,)),
    "a roll": (fb.lift(lambda v: jnp.roll(v, 1))(V), (3,)),
    "a solve": (fb.lift(lambda v: solve_triangular(jnp.tril(jnp.ones((3, 3))), v, lower=True))(V), (3,)),
    "a compiled function": (fb.lift(jax.jit(lambda v: 2.0 * v - v.sum()))(V), (3,)),
    "a mapped function": (fb.lift(jax.vmap(lambda x: 3.0 * x + 1.0))(V), (3,)),
    "a choice by a constant": (ops.where(np.array([True, False, True]), V, 2.0 * V), (3,)),
    "x where x repeats": (X + X - 0.5 * X, ()),
    "a first power": (X**1, ()),
    "a multiple by a lifted constant": (ops.exp(fb.Array(np.array(0.3))) * X, ()),
}
affines = pytest.mark.parametrize(("value", "shape"), AFFINE.values(), ids=AFFINE)


@affines
def test_substituting_then_numbers_is_numbers_at_once(value, shape):
    """g(a = value(…)) at a point is g(a = value at the point)."""
    g = gaussian(a=shape, b=())
    found = g(a=value)
    assert found.inputs == {"b": fb.Real, **value.inputs}
    expected = float(g(a=at(value), b=0.9).log())
    assert float(at(found, {**POINT, "b": 0.9})) == pytest.approx(expected, rel=1e-9, abs=1e-10)


@affines
def test_affine_values_are_recognised(value, shape):
    assert degree(value, value.inputs) <= 1
    found = affine(value, value.inputs)
    assert found is not None
    total = np.asarray(found.constant.data)
    for name, slope in found.slopes.items():
        total = total + np.asarray(slope.data) @ np.ravel(POINT[name])
    np.testing.assert_allclose(total, at(value), rtol=1e-9, atol=1e-12)


@affines
def test_an_affine_substitution_can_be_summed(value, shape):
    """∫ g(a = S z + c, b) N(z; 0, I) dz db by its formula, S and c read off the value itself at unit vectors."""
    names = {name: domain.shape for name, domain in value.inputs.items()}
    size, width = math.prod(shape), sum(map(math.prod, names.values()))
    h, K = raw(size + 1)
    zero = {name: np.zeros(own) for name, own in names.items()}
    c = np.append(np.ravel(at(value, zero)), 0.0)
    S = np.zeros((size + 1, width + 1))
    S[-1, -1] = 1.0
    for column, (name, place) in enumerate([(name, place) for name, own in names.items() for place in np.ndindex(own)]):
        unit = np.zeros(names[name])
        unit[place] = 1.0
        S[:-1, column] = np.ravel(at(value, {**zero, name: unit})) - c[:-1]
    P = np.diag([1.0] * width + [0.0]) + S.T @ K @ S
    q = S.T @ (h - K @ c)
    expected = 0.3 + h @ c - 0.5 * c @ K @ c + 0.5 * q @ np.linalg.solve(P, q)
    expected += 0.5 * (np.log(2 * np.pi) - np.linalg.slogdet(P)[1])
    factors = [gaussian(a=shape, b=())(a=value)]
    factors += [dist.Normal(np.zeros(own), 1.0)(name) for name, own in names.items()]
    assert float(fb.eliminate(factors, sum=(*names, "b")).log()) == pytest.approx(expected, rel=1e-8)


CLOSURES = {
    "A @ v": (lambda v: A23 @ v, A23, 0.0),
    "dot": (lambda v: jnp.dot(A23, v), A23, 0.0),
    "einsum": (lambda v: jnp.einsum("ij,j->i", A23, v), A23, 0.0),
    "asarray": (lambda v: jnp.asarray(A23) @ v, A23, 0.0),
    "outer": (lambda v: jnp.outer(B2, v) @ B3, np.outer(B2, B3), 0.0),
    "elementwise": (lambda v: (A23 * v).sum(1) + B2, A23, B2),
}


@pytest.mark.parametrize(("function", "slopes", "constant"), CLOSURES.values(), ids=CLOSURES)
def test_a_lifted_function_may_close_over_numpy_arrays(function, slopes, constant):
    """In double precision, as the other entries: u ~ N(f(v), 1) with v ~ N(0, 1)."""
    joint = dist.Normal(fb.lift(function)(V), 1.0)("u") * dist.Normal(np.zeros(3), 1.0)("v")
    expected = stats.multivariate_normal(constant + np.zeros(2), slopes @ slopes.T + np.eye(2)).logpdf(POINT["u"])
    assert float(joint.sum("v")(u=POINT["u"]).log()) == pytest.approx(expected, rel=1e-9)


def test_a_batched_slope_and_offset():
    """Coefficients that depend on bounded integers; the Gaussian may have the same ones."""
    slopes, offsets = RNG.normal(size=4), RNG.normal(size=(4, 3))
    i_slope, offset = fb.Array(slopes, ("i",)), fb.Array(offsets, ("i", "j"))
    h, K = RNG.normal(size=(3, 1)), RNG.uniform(1, 2, size=(3, 1, 1))
    g = fb.Gaussian(info=h, precision=K, inputs={"j": fb.Bint[3], "a": fb.Real})
    found = g(a=i_slope * X + offset)
    assert set(found.inputs) == {"i", "j", "x"}
    for i in range(4):
        for j in range(3):
            a = slopes[i] * 0.7 + offsets[i, j]
            expected = h[j, 0] * a - 0.5 * K[j, 0, 0] * a * a
            assert float(found(i=i, j=j, x=0.7).log()) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_a_sum_over_an_index_is_affine():
    """Σ_i c_i x with coefficients in a plate."""
    c = RNG.normal(size=5)
    value = fb.lift(jnp.sum)(fb.stack(fb.Array(c, ("i",)) * X, "i"))
    g = gaussian(a=())
    assert float(g(a=value)(x=0.7).log()) == pytest.approx(float(g(a=c.sum() * 0.7).log()), rel=1e-10)


# -- simultaneous, self-referring, permuting ------------------------------------------------------------------------


def unit() -> fb.Gaussian:
    return fb.Gaussian(info=np.zeros(2), precision=np.eye(2), inputs={"x": fb.Real, "w": fb.Real})


def test_golden_permuting_substitution():
    """x := 2w, w := 3x together, at (1, 1)."""
    assert float(unit()(x=2.0 * W, w=3.0 * X)(x=1.0, w=1.0).log()) == pytest.approx(-6.5, rel=1e-12)


PERMUTING = {
    "swap": ({"x": W, "w": X}, lambda x, w, y: (w, x)),
    "swap with slopes": ({"x": 2.0 * W, "w": 3.0 * X}, lambda x, w, y: (2 * w, 3 * x)),
    "self reference": ({"x": 2.0 * X + 1.0}, lambda x, w, y: (2 * x + 1, w)),
    "self reference to both": ({"x": X + W, "w": X - W}, lambda x, w, y: (x + w, x - w)),
    "one refers to the other": ({"x": X + 2.0 * W}, lambda x, w, y: (x + 2 * w, w)),
    "both to one": ({"x": 2.0 * X, "w": 1.0 - X}, lambda x, w, y: (2 * x, 1 - x)),
    "the other to itself": ({"w": X}, lambda x, w, y: (x, x)),
    "a third": ({"x": Y, "w": Y + X}, lambda x, w, y: (y, y + x)),
    "a number and a swap": ({"x": 0.25, "w": 2.0 * X}, lambda x, w, y: (0.25, 2 * x)),
}


@pytest.mark.parametrize(("values", "oracle"), PERMUTING.values(), ids=PERMUTING)
@pytest.mark.parametrize("seeded", [False, True])
def test_simultaneous_substitution(values, oracle, seeded):
    g = gaussian(x=(), w=()) if seeded else unit()
    x, w = oracle(POINT["x"], POINT["w"], POINT["y"])
    assert float(at(g(values))) == pytest.approx(float(g(x=x, w=w).log()), rel=1e-10)


JACOBIANS = {
    "swap": ({"x": 2.0 * W, "w": 3.0 * X}, 6.0),
    "self reference": ({"x": 2.0 * X + 1.0, "w": W}, 2.0),
    "both": ({"x": X + W, "w": X - W}, 2.0),
    "a shear": ({"x": X + 5.0 * W - 1.0, "w": W}, 1.0),
}


@pytest.mark.parametrize(("values", "determinant"), JACOBIANS.values(), ids=JACOBIANS)
def test_a_permuting_substitution_integrates_with_its_jacobian(values, determinant):
    """∫∫ g(A z + b) dz  =  ∫∫ g / |det A|"""
    g = gaussian(x=(), w=())
    expected = float(g.sum("x", "w").log()) - math.log(determinant)
    assert float(g(values).sum("x", "w").log()) == pytest.approx(expected, rel=1e-9)


def test_a_product_is_substituted_in_all_its_terms():
    f = dist.Normal(0.0, 1.0)("x") * dist.Normal(X, 2.0)("w")
    found = f(x=W, w=X)
    expected = stats.norm(0, 1).logpdf(0.4) + stats.norm(0.4, 2).logpdf(0.7)
    assert float(found(x=0.7, w=0.4).log()) == pytest.approx(expected, rel=1e-10)


def test_a_density_of_itself():
    """Normal(x/2, 1) at x is not normalised: ∫ exp(−½ (x/2)²)/√(2π) dx = 2."""
    assert float(dist.Normal(0.5 * X, 1.0)("x").sum("x")) == pytest.approx(2.0, rel=1e-10)


def test_a_bound_index_is_not_captured():
    """A mixture's bound index k is not the k substituted for x."""
    mixture = (fb.Table([0.3, 0.7], ("k",)) * dist.Normal(fb.Array(np.array([-1.0, 1.0]), ("k",)), 1.0)("x")).sum("k")
    means = fb.Array(np.array([0.5, 2.0, -1.0]), ("k",))
    found = mixture(x=means)
    assert found.inputs == {"k": fb.Bint[3]}
    for k, x in enumerate([0.5, 2.0, -1.0]):
        expected = 0.3 * stats.norm(-1, 1).pdf(x) + 0.7 * stats.norm(1, 1).pdf(x)
        assert float(found(k=k)) == pytest.approx(expected, rel=1e-10)


# -- partial substitution -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["a", "b", "c", "ab", "bc", "ac"])
def test_partial_then_full_is_full_at_once(first):
    g = gaussian(a=(), b=(2,), c=(2, 2))
    point = {"a": 0.3, "b": RNG.normal(size=2), "c": RNG.normal(size=(2, 2))}
    part = g({name: point[name] for name in first})
    rest = {name: point[name] for name in point if name not in first}
    assert float(part(rest).log()) == pytest.approx(float(g(point).log()), rel=1e-10)


@pytest.mark.parametrize("first", ["a", "b"])
def test_partial_affine_then_the_rest_is_all_at_once(first):
    g = gaussian(a=(), b=(2,))
    values = {"a": 2.0 * X - V[1], "b": A23 @ V + B2}
    other = "b" if first == "a" else "a"
    apart, together = g({first: values[first]})({other: values[other]}), g(values)
    assert set(apart.inputs) == set(together.inputs) == {"x", "v"}
    assert float(at(apart)) == pytest.approx(float(at(together)), rel=1e-10)


def test_substitutions_that_are_not_affine_fuse():
    """g(a = |u|)(b = |v|)  =  g(a = |u|, b = |v|)"""
    g = gaussian(a=(), b=())
    apart = g(a=ops.absolute(X))(b=ops.absolute(Y))
    together = g(a=ops.absolute(X), b=ops.absolute(Y))
    expected = float(g(a=0.7, b=1.3).log())
    for found in (apart, together):
        assert set(found.inputs) == {"x", "y"}
        assert float(at(found)) == pytest.approx(expected, rel=1e-10)


def test_an_affine_step_after_one_that_is_not():
    g = gaussian(a=(), b=())
    found = g(a=ops.exp(X))(x=2.0 * Y, b=Y)
    assert float(at(found)) == pytest.approx(float(g(a=math.exp(-2.6), b=-1.3).log()), rel=1e-9)


def test_numbers_along_a_new_axis():
    g = gaussian(a=(), b=())
    values = np.array([0.1, -2.0, 3.0])
    found = g(a=fb.Array(values, ("n",)))
    assert found.inputs == {"n": fb.Bint[3], "b": fb.Real}
    for n, value in enumerate(values):
        assert float(found(n=n, b=0.2).log()) == pytest.approx(float(g(a=value, b=0.2).log()), rel=1e-10)


def test_gathering_a_batch():
    """The batch index at positions along a new axis, repeated and out of order."""
    h = RNG.normal(size=(4, 1))
    g = fb.Gaussian(info=h, precision=[[2.0]], inputs={"i": fb.Bint[4], "a": fb.Real})
    where = np.array([3, 0, 0, 2, 1])
    found = g(i=fb.Array(where, ("n",)))
    for n, i in enumerate(where):
        assert float(found(n=n, a=0.5).log()) == pytest.approx(h[i, 0] * 0.5 - 0.25, rel=1e-10)


def test_a_real_array_indexed_by_the_batch():
    """Means z[i] of a component: the batch index chooses an element of an array variable."""
    index = fb.Variable("i", fb.Bint[3])
    f = dist.Normal(V[index], 0.5)(1.2)
    joint = f * dist.Normal(np.zeros(3), np.array([1.0, 2.0, 3.0]))("v")
    evidence = joint.sum("v")
    assert evidence.inputs == {"i": fb.Bint[3]}
    for i, sd in enumerate([1.0, 2.0, 3.0]):
        assert float(evidence(i=i).log()) == pytest.approx(stats.norm(0, math.hypot(sd, 0.5)).logpdf(1.2), rel=1e-10)


def test_renaming_is_substitution():
    g = gaussian(a=(), b=(2,))
    renamed = g(a="x", b="u")
    assert renamed.inputs == {"x": fb.Real, "u": fb.Reals[2]}
    assert float(at(renamed)) == pytest.approx(float(g(a=0.7, b=POINT["u"]).log()), rel=1e-12)


def test_renaming_two_to_one():
    """Both variables become one: the diagonal."""
    g = gaussian(a=(), b=())
    assert float(at(g(a="x", b="x"))) == pytest.approx(float(g(a=0.7, b=0.7).log()), rel=1e-10)
    exponent = integrate.quad(lambda x: math.exp(float(g(a=x, b=x).log())), -6, 6, epsabs=1e-10)[0]
    assert float(g(a="x", b="x").sum("x")) == pytest.approx(exponent, rel=1e-7)


# -- what is not affine ---------------------------------------------------------------------------------------------

OTHER: dict[str, fb.Value] = {
    "x x": X * X,
    "x y": X * Y,
    "exp x": ops.exp(X),
    "x squared": X**2,
    "square": ops.square(X),
    "a root": X**0.5,
    "1 / x": 1.0 / X,
    "x / y": X / Y,
    "|x|": ops.absolute(X),
    "max": ops.maximum(X, 0.0),
    "min": ops.minimum(X, Y),
    "where of x": ops.where(ops.less(X, 0.0), X, 2.0 * X),
    "2 to the x": 2.0**X,
    "floor": ops.floor(X),
    "sin": ops.sin(X),
    "v · v": V @ V,
    "m v": M @ V,
    "a lifted square": fb.lift(lambda v: v * v)(V),
    "a lifted product": fb.lift(lambda x, y: x * y)(X, Y),
    "a lifted maximum": fb.lift(jnp.max)(V),
    "a lifted sort": fb.lift(jnp.sort)(V),
    "a lifted norm": fb.lift(jnp.linalg.norm)(V),
    "a lifted rounding": fb.lift(jnp.round)(X),
    "a lifted truncation": fb.lift(lambda x: x.astype(int).astype(float))(X),
    "a lifted truth value": fb.lift(lambda x: (x > 0).astype(float))(X),
    "a lifted remainder": fb.lift(lambda x: x % 1.0)(X),
    "a lifted product of an array": fb.lift(jnp.prod)(V),
    "a lifted cumulative product": fb.lift(jnp.cumprod)(V),
    "a lifted polynomial": fb.lift(lambda x: jnp.polyval(jnp.array([1.0, 2.0, 3.0]), x))(X),
    "a lifted scan": fb.lift(lambda x: jax.lax.scan(lambda c, _: (c * x, None), 1.0, None, length=3)[0])(X),
    "a lifted scan of squares": fb.lift(lambda x: jax.lax.scan(lambda c, _: (c * c, None), x, None, length=2)[0])(X),
    "a lifted loop": fb.lift(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c * x, 1.0))(X),
    "a lifted while": fb.lift(
        lambda x: jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x), (0, 1.0))[1]
    )(X),
    "a lifted cond": fb.lift(lambda x: jax.lax.cond(x > 0, lambda y: y, lambda y: 2 * y, x))(X),
    "a lifted solve": fb.lift(lambda x: jnp.linalg.solve(jnp.eye(2) * x, jnp.ones(2)))(X),
    "a lifted inverse": fb.lift(lambda m: jnp.linalg.inv(m @ m.T))(M),
    "a lifted gather by x": fb.lift(lambda x: jnp.arange(3.0)[x.astype(int)])(X),
    "a lifted interpolation": fb.lift(lambda x: jnp.interp(x, jnp.arange(3.0), jnp.array([0.0, 1.0, 5.0])))(X),
    "a checkpointed square": fb.lift(jax.checkpoint(lambda x: x * x))(X),
    "a compiled exponential": fb.lift(jax.jit(jnp.exp))(X),
    "a softmax": fb.lift(jax.nn.softmax)(V),
    "a rectifier": fb.lift(jax.nn.relu)(X),
    "a lifted convolution with itself": fb.lift(lambda v: jnp.convolve(v, v))(V),
}
others = pytest.mark.parametrize("value", OTHER.values(), ids=OTHER)


@others
def test_what_is_not_affine_is_not_taken_for_it(value):
    assert degree(value, value.inputs) > 1
    assert affine(value, value.inputs) is None


def test_degrees():
    """The degree of a polynomial is its degree, in the names asked for alone."""
    assert degree(X * X * Y, {"x", "y"}) == 3
    assert degree(X * X * Y, {"y"}) == 1
    assert degree(X * Y, {"x"}) == 1
    assert degree(X**3, {"x"}) == 3
    assert degree(V @ V, {"v"}) == 2
    assert degree(fb.lift(lambda v: v @ v)(V), {"v"}) == 2
    assert degree(X * 0.0 + 1.0, set()) == 0


@pytest.mark.slow
@others
def test_a_substitution_that_is_not_affine_is_evaluated(value):
    """It stays a function: right at a point, whatever it is."""
    shape = value.output.shape
    point = {**POINT, "x": 0.7, "y": 1.3}
    g = gaussian(a=shape)
    found = g(a=value)
    number = np.asarray(value({name: point[name] for name in value.inputs}).data, float)
    assert float(at(found, point)) == pytest.approx(float(g(a=number).log()), rel=1e-8, abs=1e-9)


POLYNOMIAL = {
    "polyval": lambda x: jnp.polyval(jnp.array([1.0, 2.0, 3.0]), x),
    "a loop": lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c * x, 1.0),
    "a truncation": lambda x: x.astype(int).astype(float),
}


@pytest.mark.parametrize("function", POLYNOMIAL.values(), ids=POLYNOMIAL)
def test_a_mean_that_is_not_affine_is_never_summed_as_if_it_were(function):
    """∫ N(x; 0, 1) N(1; f(x), 1) dx: the right number, or an error; never another number."""
    mean = fb.lift(function)(X)
    grid = np.linspace(-6, 6, 2001)
    means = np.asarray(jax.vmap(function)(jnp.asarray(grid, jnp.float32)))
    expected = np.trapezoid(stats.norm.pdf(grid) * stats.norm.pdf(1.0 - means), grid)
    try:
        found = float((dist.Normal(0.0, 1.0)("x") * dist.Normal(mean, 1.0)(1.0)).sum("x"))
    except fb.FubiniError:
        return
    assert found == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("cubic", [lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c * x, 1.0), lambda x: x * x * x])
def test_a_weight_that_is_not_quadratic_is_never_summed_as_if_it_were(cubic):
    """exp(f(x) − ½x²) with f of degree three, in disguise or not: no closed form."""
    factor = fb.weight(log=0.1 * fb.lift(cubic)(X)) * dist.Normal(0.0, 1.0)("x")
    with pytest.raises(fb.FubiniError, match="'x'"):
        factor.sum("x")


def test_a_quadratic_weight_is_a_gaussian():
    """exp(−x² + x y − y²) integrates over x to √π exp(y²/4 − y²)."""
    found = fb.weight(log=-1.0 * X * X + X * Y - Y * Y).sum("x")
    for y in (0.0, 1.3):
        expected = 0.5 * math.log(math.pi) - 0.75 * y * y
        assert float(found(y=y).log()) == pytest.approx(expected, rel=1e-10)


# -- types of reductions along an axis ------------------------------------------------------------------------------

REDUCTIONS = {
    "sum(0)": (lambda m: m.sum(0), (3,)),
    "sum(1)": (lambda m: m.sum(1), (2,)),
    "sum(axis=-1)": (lambda m: m.sum(axis=-1), (2,)),
    "sum()": (lambda m: m.sum(), ()),
    "sum, kept": (lambda m: m.sum(1, keepdims=True), (2, 1)),
    "max(0)": (lambda m: m.max(0), (3,)),
    "logsumexp(1)": (lambda m: jax.nn.logsumexp(m, 1), (2,)),
}


@pytest.mark.parametrize(("function", "shape"), REDUCTIONS.values(), ids=REDUCTIONS)
def test_a_reduction_along_an_axis_has_the_type_of_the_remaining_axes(function, shape):
    value = fb.lift(function)(M)
    assert value.output == (fb.Reals[shape] if shape else fb.Real)
    assert at(value).shape == shape
    with fb.lazy:
        assert fb.lift(function)(M).output == value.output
