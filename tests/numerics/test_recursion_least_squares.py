"""Least squares through linear recursions, against the matrix of all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.numerics.least_squares import Inputs, LinearRecursions, RecursionBlock
from fubini.numerics.linear_recursions import outputs
from fubini.numerics.recursion_least_squares import solve_recursions
from fubini.numerics.recursion_rows import recursion_rows, residuals

LENGTH, STATES, OTHERS = 6, 2, 2
UNKNOWNS = LENGTH + OTHERS


def problem(is_reversed, scale=1.0):
    """A recursion, its inputs, rows of the inputs and of the outputs, and rows of the other unknowns."""
    random = np.random.default_rng(1)
    sizes = LinearRecursions(
        LENGTH, (Inputs(0, (LENGTH,), 0),), ((LENGTH, OTHERS),), (RecursionBlock(STATES, 1, 1),), 2, is_reversed
    )
    width = sizes.width - 1
    transition = random.normal(size=(LENGTH, STATES + 1, STATES + 1))
    taken, prior = np.zeros((2, LENGTH, 1, width))
    taken[:, 0, 0], prior[:, 0, 0] = 1.3, 1.0
    data = random.normal(size=(LENGTH, 1, width)) * scale
    others = np.zeros((2, width))
    others[:, 1 : 1 + OTHERS] = 0.5 * np.eye(2)
    rows = [(prior, np.zeros((LENGTH, 1))), (data, scale * random.normal(size=(LENGTH, 1)))]
    return sizes, transition, taken, rows, [(others, random.normal(size=2))]


def written_out(sizes, transition, taken, rows, others):
    """A and b"""
    matrix, right = [], []
    state = np.zeros((STATES, UNKNOWNS))
    for t in reversed(range(LENGTH)) if sizes.is_reversed else range(LENGTH):
        unit = np.eye(UNKNOWNS)[t : t + 1]
        both = transition[t] @ np.concatenate([state, taken[t, 0, 0] * unit])
        state, output = both[:STATES], both[STATES:]
        for part, offset in rows:
            own = part[t, 0, 0] * unit[0] + part[t, 0, 3] * output[0]
            own[LENGTH:] += part[t, 0, 1:3]
            matrix.append(own)
            right.append(offset[t, 0])
    for part, offset in others:
        matrix.extend(np.concatenate([np.zeros((len(part), LENGTH)), part[:, 1:3]], axis=1))
        right.extend(offset)
    return np.array(matrix), np.array(right)


@pytest.mark.parametrize("is_reversed", [False, True], ids=["forwards", "backwards"])
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_solution(is_reversed, scale):
    sizes, transition, taken, rows, others = problem(is_reversed, scale)
    A, b = written_out(sizes, transition, taken, rows, others)
    centre = np.linalg.lstsq(A, b, rcond=None)[0]
    Q, U = np.linalg.qr(A)
    inverse = np.linalg.inv(U)
    numbers = recursion_rows(sizes, [(transition, [taken])], rows, others)
    solution = solve_recursions(sizes, numbers)
    assert float(solution.logdet) == pytest.approx(2 * np.log(np.abs(np.diagonal(U))).sum(), rel=1e-10)
    assert float(solution.rss) == pytest.approx(np.sum((b - Q @ (Q.T @ b)) ** 2), rel=1e-8)
    np.testing.assert_allclose(solution.at(np.zeros(UNKNOWNS)), centre, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(solution.variances, np.sum(inverse**2, axis=1), rtol=1e-7)
    roots = solution.roots()
    np.testing.assert_allclose(np.diagonal(roots @ roots.T), np.sum(inverse**2, axis=1), rtol=1e-7)
    steps, alone = residuals(sizes, numbers, centre)
    assert np.sum(steps**2) + np.sum(alone**2) == pytest.approx(float(solution.rss), rel=1e-6)


def test_derivative():
    sizes, transition, taken, rows, others = problem(is_reversed=False)

    def value(matrices):
        numbers = recursion_rows(sizes, [(matrices, [jnp.asarray(taken)])], rows, others)
        solution = solve_recursions(sizes, numbers)
        return solution.logdet + solution.rss

    direction = np.random.default_rng(2).normal(size=transition.shape)
    with jax.enable_x64(True):
        slope = float(jnp.sum(jax.jit(jax.grad(value))(jnp.asarray(transition)) * direction))
        ahead, behind = (float(value(jnp.asarray(transition + h * direction))) for h in (1e-6, -1e-6))
    assert slope == pytest.approx((ahead - behind) / 2e-6, rel=1e-6)


def test_outputs():
    """Many steps are computed by compiled code, and come out as few do."""
    random = np.random.default_rng(3)
    transition, inputs = 0.5 * random.normal(size=(1_200, 2, 2)), random.normal(size=(1_200, 1, 3))
    found, state = outputs(np.zeros(1), transition, inputs), np.zeros((1, 3))
    assert isinstance(found, np.ndarray) and found.dtype == np.float64
    for S, u, y in zip(transition, inputs, found, strict=True):
        both = S @ np.concatenate([state, u])
        state = both[:1]
        np.testing.assert_allclose(y, both[1:], rtol=1e-10, atol=1e-12)
