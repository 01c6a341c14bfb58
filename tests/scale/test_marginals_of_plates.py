"""Marginals of plates on JAX are those of enumeration, in both precisions, by a program that rows do not lengthen."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from tests import counting

Place = Callable[[np.ndarray], Any]
SCOPES = {"w": (), "z": ("i",)}
KINDS = [0.4, 0.6]
CENTRES = np.array([-1.0, 1.0])


def tables(rows: int, place: Place) -> list[fb.Factor]:
    """w for all rows, z of each row; one row speaks for the second w and the next as much for the third."""
    rng = np.random.default_rng(rows)
    prior, link = np.array([0.2, 0.5, 0.3]), np.array([[0.7, 0.1, 0.1, 0.1], [0.25] * 4, [0.25] * 4])
    seen = np.repeat(rng.random((-(-rows // 2), 4)), 2, axis=0)[:rows]
    links = np.array(np.broadcast_to(link, (rows, 3, 4)))
    links[0::2, 2], links[1::2, 2] = link[1] * [1.01, 0.99, 1.0, 1.0], link[1] * [0.99, 1.01, 1.0, 1.0]
    return [fb.Table(place(prior), ("w",)), fb.Table(place(links), ("i", "w", "z")), fb.Table(place(seen), ("i", "z"))]


def marginals_by_enumeration(factors: list[fb.Factor]) -> tuple[np.ndarray, np.ndarray]:
    """P(w) and P(z_i) from the log-weights of each w beside the second, in double precision."""
    prior, links, seen = (np.asarray(factor.weights, float) for factor in factors)
    each = links * seen[:, None]
    rows = np.log(each.sum(-1))
    w = prior * np.exp((rows - rows[:, 1:2]).sum(0))
    w /= w.sum()
    return w, np.einsum("w,iwz->iz", w, each / each.sum(-1, keepdims=True))


def normals(rows: int, place: Place) -> list[fb.Factor]:
    """m for all rows, a of each row around it, and its datum."""
    y, sd, m, a = np.linspace(-1.0, 3.0, rows), np.full(rows, 2.0), fb.Variable("m", fb.Real), fb.Variable("a", fb.Real)
    return [
        dist.Normal(0.0, 1.0)("m"),
        dist.Normal(m, fb.Array(place(sd), ("i",)))("a"),
        dist.Normal(a, 1.0)(fb.Array(place(y), ("i",))),
    ]


def mixtures(rows: int, place: Place) -> list[fb.Factor]:
    """k of each row, a around the centre that k names, and its datum."""
    y, a = np.linspace(-1.0, 3.0, rows), fb.Variable("a", fb.Real)
    centre = fb.Array(place(np.broadcast_to(CENTRES, (rows, 2))), ("i", "k"))
    return [
        fb.Table(place(np.broadcast_to(KINDS, (rows, 2))), ("i", "k")),
        dist.Normal(centre, 1.0)("a"),
        dist.Normal(a, 0.5)(fb.Array(place(y), ("i",))),
    ]


class Way(NamedTuple):
    """How arrays of JAX are made, how close answers are, and whether the question is compiled by the user."""

    place: Callable[[np.ndarray], Any]
    rtol: float
    is_compiled: bool


@pytest.fixture(params=["float32, eager", "float64, jit"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    dtype, how = request.param.split(", ")
    with jax.enable_x64(dtype == "float64"):
        yield Way(lambda x: jnp.asarray(x, dtype), {"float32": 2e-6, "float64": 1e-10}[dtype], how == "jit")


def ask(factors: list[fb.Factor], scopes: dict, is_compiled: bool) -> dict[str, fb.Factor]:
    def marginals(factors: list[fb.Factor]) -> dict[str, fb.Factor]:
        return fb.marginals(factors, scopes, plates=("i",))

    return (jax.jit(marginals) if is_compiled else marginals)(factors)


@pytest.mark.parametrize("rows", [1, 5])
def test_tables(rows: int, way: Way) -> None:
    place, rtol, is_compiled = way
    factors = tables(rows, place)
    answers = ask(factors, SCOPES, is_compiled)
    for name, expected in zip("wz", marginals_by_enumeration(factors), strict=True):
        np.testing.assert_allclose(answers[name].weights, expected, rtol=rtol)


def test_tables_of_many_rows_lose_no_digits(way: Way) -> None:
    place, rtol, is_compiled = way
    factors = tables(80_000, place)
    answers = ask(factors, SCOPES, is_compiled)
    w, z = marginals_by_enumeration(factors)
    assert 0.01 < w[1] < 0.99  # what 80,000 rows say of two of three is a matter of few digits
    rounding = 80_000 * np.finfo(np.asarray(answers["w"].weights).dtype).eps  # that of each row's evidence
    np.testing.assert_allclose(answers["w"].weights, w, rtol=max(rounding, rtol), atol=1e-30)
    np.testing.assert_allclose(answers["z"].weights, z, rtol=10 * rtol)  # by what w lost
    np.testing.assert_allclose(answers["z"].weights.sum(-1), 1.0, rtol=rtol)


def test_weights_of_marginals_are_in_linear_numbers(way: Way) -> None:
    answers = ask(tables(200, way.place), SCOPES, way.is_compiled)
    assert np.all(np.asarray(answers["z"].pair.shift) == 0.0)
    np.testing.assert_array_equal(answers["z"].weights, answers["z"].pair.weights)


def test_a_weight_close_to_zero_keeps_its_logarithm(way: Way) -> None:
    place, rtol, _ = way
    table = fb.Table.from_log(place(np.array([[0.0, -500.0], [-np.inf, 3.0]])), ("a", "b")).normalize("b")
    np.testing.assert_allclose(table.log().data, [[0.0, -500.0], [-np.inf, 0.0]], rtol=rtol)
    gradient = jax.grad(lambda x: fb.Table(x, ("a",)).normalize("a").weights[0])(place(np.array([1.0, 3.0, 0.0])))
    np.testing.assert_allclose(gradient, [3 / 16, -1 / 16, -1 / 16], rtol=rtol)


def test_gaussians(way: Way) -> None:
    place, rtol, is_compiled = way
    rows = 6
    answers = ask(normals(rows, place), {"m": (), "a": ("i",)}, is_compiled)
    precision = np.eye(rows + 1) * (1 + 1 / 4)  # of (m, a)
    precision[0, 0], precision[0, 1:], precision[1:, 0] = 1 + rows / 4, -1 / 4, -1 / 4
    covariance = np.linalg.inv(precision)
    mean = covariance @ [0.0, *np.linspace(-1.0, 3.0, rows)]
    for name, at in (("m", 0), ("a", slice(1, None))):
        np.testing.assert_allclose(answers[name].mean(name).data, mean[at], rtol=rtol, atol=rtol)
        np.testing.assert_allclose(answers[name].variance(name).data, np.diag(covariance)[at], rtol=rtol)


def test_mixtures(way: Way) -> None:
    place, rtol, is_compiled = way
    rows = 6
    answers = ask(mixtures(rows, place), {"k": ("i",), "a": ("i",)}, is_compiled)
    y = np.linspace(-1.0, 3.0, rows)[:, None]
    weights = np.array(KINDS) * np.exp(-((y - CENTRES) ** 2) / (2 * 1.25))
    weights /= weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(answers["k"].weights, weights, rtol=rtol)
    means = (CENTRES + 4 * y) / 5
    np.testing.assert_allclose(answers["a"].mean("a").data, (weights * means).sum(-1), rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    ("make", "scopes"),
    [(tables, SCOPES), (normals, {"m": (), "a": ("i",)}), (mixtures, {"k": ("i",), "a": ("i",)})],
    ids=["tables", "gaussians", "mixtures"],
)
def test_the_program_is_as_long_for_any_number_of_rows(make: Any, scopes: dict) -> None:
    def equations(rows: int) -> int:
        return counting.equations(
            jax.make_jaxpr(lambda f: fb.marginals(f, scopes, plates=("i",)))(make(rows, jnp.asarray))
        )

    assert equations(80_000) <= 1.2 * equations(8)
