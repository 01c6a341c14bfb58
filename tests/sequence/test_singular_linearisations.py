"""What no linearisation takes, and where one is singular: errors that say which density, and at which step."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, Intractable

X, X_NEXT = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
MOVED = dist.Normal(fb.ops.sin(X), 0.3)("x_next")
SEEN = fb.Array(np.array([0.5, 0.2, 0.1]), ("t",))
size = fb.lift(lambda x: jnp.sqrt(x**2))


def short(seen: fb.Factor, moved: fb.Factor = MOVED, init: fb.Factor | None = None) -> fb.Chain:
    start = dist.Normal(0.0, 1.0)("x") if init is None else init
    return fb.Chain(init=start, factor=moved * seen, time="t", step={"x": "x_next"})


def vanishing() -> fb.Chain:
    """A scale that is zero at the first mean that is predicted, which is zero."""
    return short(dist.Normal(X_NEXT, size(X_NEXT))(SEEN))


def test_a_singular_linearisation() -> None:
    with fb.linearize():
        with pytest.raises(
            DataError, match=r"linearize\(\) of 'Normal\(loc=x_next, scale=<lambda>.*at t = 0\n.*positive definite"
        ):
            vanishing().log_evidence()
        with pytest.raises(
            DataError, match=r"Normal\(loc=<lambda>\(x_next\), scale=1\).*at t = 0\n.*slopes that are numbers"
        ):
            short(dist.Normal(size(X_NEXT), 1.0)(SEEN)).smooth()
        late = dist.Normal(X_NEXT, fb.ops.exp(fb.Array(np.array([0.0, 0.0, -np.inf]), ("t",)) * (1.0 + X_NEXT**2)))(
            SEEN
        )
        with pytest.raises(DataError, match=r"at t = 2\n"):
            short(late).filter()
        with pytest.raises(DataError, match=r"at t = 0\n(.*\n)*.*powers below 0"):
            short(dist.Normal(fb.ops.exp(X_NEXT), 1.0)(SEEN) ** -1.0).log_evidence()


def test_a_singular_linearisation_under_jit() -> None:
    with fb.linearize():
        found = jax.jit(lambda scale: short(dist.Normal(X_NEXT, scale * size(X_NEXT))(SEEN)).log_evidence().data)(1.0)
    assert np.isnan(found)


@pytest.mark.parametrize(
    ("chain", "said"),
    [
        (
            lambda: short(
                dist.Categorical(fb.lift(lambda x: jax.nn.softmax(jnp.stack([x, -x])))(X_NEXT))(
                    fb.Array(np.array([0, 1, 1]), ("t",))
                )
            ),
            r"Categorical.*\n.*a mean and a covariance",
        ),
        (
            lambda: short(dist.Normal(fb.ops.where(X_NEXT > 0.0, 1.0, 0.0), 1.0)(SEEN)),
            r"where\(x_next.*\n.*have slopes\n.*jump",
        ),
        (
            lambda: short(dist.Normal(X_NEXT, 1.0)(SEEN), dist.Normal(fb.ops.sin(X_NEXT - X), 1.0)(0.0)),
            r"a step of a linearised chain\n.*a density of 'x_next' that says where it is",
        ),
        (
            lambda: short(dist.Normal(X_NEXT, 1.0)(SEEN), init=fb.Table(1.0)),
            r"the start of a linearised chain\n.*a density of 'x'",
        ),
        (
            lambda: fb.Chain(
                init=dist.Normal(0.0, 1.0)("x") * fb.Table([0.5, 0.5], ("s",)),
                factor=MOVED * fb.Table(np.eye(2), ("s", "s_next")) * dist.Normal(X_NEXT, 1.0)(SEEN),
                time="t",
                step={"x": "x_next", "s": "s_next"},
            ),
            r"states that are real numbers.*\n.*'s' is Bint\[2\]",
        ),
        (
            lambda: fb.Chain(
                init=dist.Normal(0.0, 1.0)("x") * dist.Normal(0.0, 1.0)("g"),
                factor=dist.Normal(fb.ops.sin(X) * fb.Variable("g", fb.Real), 0.3)("x_next")
                * dist.Normal(X_NEXT, 1.0)(SEEN),
                time="t",
                step={"x": "x_next"},
                sum=("g",),
            ),
            r"'g' is Real\n.*a state that does not move",
        ),
    ],
)
@pytest.mark.parametrize("method", [fb.linearize, fb.unscented])
def test_what_is_not_linearised(method: Callable, chain: Callable, said: str) -> None:
    with method(), pytest.raises(Intractable, match=said):
        chain().log_evidence()


def test_a_step_that_has_no_derivative() -> None:
    own = jax.custom_vjp(jnp.sin)  # which has no forward derivative
    own.defvjp(lambda x: (jnp.sin(x), x), lambda x, slope: (slope * jnp.cos(x),))
    sine = fb.lift(lambda x: own(x))
    chain = short(dist.Normal(sine(X_NEXT), 1.0)(SEEN))
    with fb.linearize(), pytest.raises(Intractable, match=r"functions that JAX can differentiate(.*\n)*.*unscented"):
        chain.log_evidence()
    with fb.unscented():
        found = chain.log_evidence()
        expected = short(dist.Normal(fb.ops.sin(X_NEXT), 1.0)(SEEN)).log_evidence()
    np.testing.assert_allclose(float(found), float(expected), rtol=1e-12)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fb.linearize(iterations=0), r"linearize\(iterations=0\)\n.*a whole number of passes, at least 1"),
        (lambda: fb.unscented(iterations=2.5), r"unscented\(iterations=2.5\)\n.*a whole number"),
        (lambda: fb.unscented(alpha=0), r"unscented\(alpha=0\)\n.*a number above 0"),
        (lambda: fb.unscented(alpha=float("nan")), r"unscented\(alpha=nan\)"),
        (lambda: fb.unscented(beta=-1.0), r"unscented\(beta=-1.0\)\n.*at least 0"),
        (lambda: fb.unscented(kappa="3"), r"unscented\(kappa='3'\)\n.*None for 3 − n"),
    ],
)
def test_options_out_of_range(make: Callable, said: str) -> None:
    with pytest.raises(DataError, match=said):
        make()


def test_a_kappa_that_leaves_no_spread() -> None:
    with fb.unscented(kappa=-1.0), pytest.raises(DataError, match=r"of a state of 1 numbers\n.*kappa above -1"):
        vanishing().log_evidence()
