"""Numbers for tests of eliminations: nodes at arrays on NumPy, and integrals by the trapezium rule on a grid."""

import itertools
import math

import numpy as np
from scipy.special import expit, logsumexp, softmax

from fubini.algebra.axes import aligned
from fubini.algebra.binding import escapes, replaced
from fubini.algebra.build import ONE, add, const, index, power, scale, times
from fubini.algebra.evaluation import Evaluation


def square(form, weight=ONE):
    """−½ weight · form²"""
    return scale(-0.5, times(weight, power(form, 2.0)))


def numbers(of, arrays, order=()):
    """A node over indices in this order, each of them an axis."""
    assert of.free <= set(order) and not escapes(of)
    data = aligned(Evaluation(arrays, xp=np).of(of), tuple(order))
    return np.broadcast_to(data, tuple(i.size for i in order))


def value(terms, arrays):
    """The sum of terms, in which no index is free and none escapes."""
    return float(numbers(add((term, 1.0) for term in terms), arrays))


def summed_over(over, parts, arrays):
    """Σ over indices of Π parts, each part a node and a function of its numbers, one place at a time."""
    found = 0.0
    for place in itertools.product(*(range(i.size) for i in over)):
        names = {index(i): const(float(at)) for i, at in zip(over, place, strict=True)}
        found += math.prod(of(float(numbers(replaced(part, names), arrays))) for part, of in parts)
    return found


# -- quadrature -----------------------------------------------------------------------------------------------------

REACH = {"real": 10.0, "positive": 40.0, "unit": 40.0, "simplex": 40.0}
POINTS = {1: 801, 2: 281, 3: 81}  # along each axis
NEGLIGIBLE = 36.0  # e⁻³⁶ of the largest


def log_integral(log_density, domain, count):
    """log ∫ exp(log_density(x)) dx over `count` numbers of a domain; x is [points, count]."""
    free = count - 1 if domain == "simplex" else count
    if free == 0:
        return float(log_density(np.ones((1, count)))[0])
    lines = [np.linspace(-REACH[domain], REACH[domain], 161 if free < 3 else 61)] * free
    found = _on_grid(log_density, domain, lines)
    for axis, line in enumerate(lines):
        along = found.max(axis=tuple(other for other in range(free) if other != axis))
        counts, step = line[along > found.max() - NEGLIGIBLE], line[1] - line[0]
        lines[axis] = np.linspace(counts[0] - step, counts[-1] + step, POINTS[free])
    steps = [math.log(line[1] - line[0]) for line in lines]
    return float(logsumexp(_on_grid(log_density, domain, lines)) + sum(steps))


def _on_grid(log_density, domain, lines):
    grid = np.stack(np.meshgrid(*lines, indexing="ij"), axis=-1)
    x, jacobian = _moved(grid.reshape(-1, len(lines)), domain)
    with np.errstate(divide="ignore", over="ignore"):
        return (log_density(x) + jacobian).reshape(grid.shape[:-1])


def _moved(u, domain):
    """Numbers of a domain for real ones, and the log-determinant of the map."""
    if domain == "real":
        return u, 0.0
    if domain == "positive":
        return np.exp(u), u.sum(-1)
    if domain == "unit":
        return expit(u), (np.log(expit(u)) + np.log(expit(-u))).sum(-1)
    logits = np.concatenate([u, np.zeros((len(u), 1))], axis=-1)
    return softmax(logits, axis=-1), (logits - logsumexp(logits, axis=-1, keepdims=True)).sum(-1)
