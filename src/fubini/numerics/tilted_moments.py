"""Moments of a normal distribution times a function, in one or two dimensions, by the trapezoidal rule.

∫ f(u) N(u; m, S) du on a grid that reaches eight standard deviations to each side. Where the product is narrow beside
its grid, the grid is laid anew around it. For smooth functions the rule converges faster than any power of its step;
the difference to every second node says whether it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple, cast

import numpy as np

from fubini.base import lax_loops
from fubini.base.arrays import Data, is_jax, namespace, stop_gradient

NODES = {1: 2001, 2: 81}  # along each axis, an odd number
REACH = 8.0  # standard deviations of the normal distribution
CLOSE_REACH = 12.0  # and of the product, in a grid that is laid around it
NARROW = 2.0  # steps of the grid, below which a standard deviation needs a closer one
PASSES = 3
TOLERANCE = 1e-4  # of log Z between the grid and every second node of it


LogFactor = Callable[[Data], Data]  # points [..., node, dimension] to logarithms [..., node]
Frame = tuple[Data, Data]  # centre and axes of a grid


class TiltedMoments(NamedTuple):
    """log Z, mean and covariance of f · N / Z, and where the grid describes them."""

    log_mass: Data
    mean: Data
    covariance: Data
    ok: Data


def tilted_moments(log_f: LogFactor, mean: Data, covariance: Data) -> TiltedMoments:
    """Moments for each cell of the leading axes."""
    root = _root(covariance)
    close_in = partial(_closer, log_f, mean, root)
    frame: Frame = (mean, REACH * root)
    if is_jax(root):
        frame = cast(Frame, lax_loops.fori_loop(0, PASSES, close_in, frame))
    else:
        for passed in range(PASSES):
            frame = close_in(passed, frame)
    return _on_grid(log_f, mean, root, *frame)


def _closer(log_f: LogFactor, mean: Data, root: Data, passed: int, around: Frame) -> Frame:
    """The frame again, or one around the product where it is narrow beside the step in any direction."""
    centre, frame = around
    size = mean.shape[-1]
    step = 2.0 / (NODES[size] - 1)
    moments = _on_grid(log_f, mean, root, centre, frame)
    xp = namespace(centre, frame, moments.mean)
    local = xp.linalg.solve(frame, _root(moments.covariance))  # in units of the frame
    spread = xp.sqrt(xp.min(xp.linalg.eigvalsh(local @ xp.swapaxes(local, -1, -2)), axis=-1).clip(0.0))
    narrow = stop_gradient(spread < NARROW * step)
    floor = 2.0 * step * frame  # of a product that falls between two nodes
    close = CLOSE_REACH * _root(moments.covariance) + (floor if size == 1 else floor * np.eye(size))
    return (
        stop_gradient(xp.where(narrow[..., None], moments.mean, centre)),
        stop_gradient(xp.where(narrow[..., None, None], close, frame)),
    )


def _on_grid(log_f: LogFactor, mean: Data, root: Data, centre: Data, frame: Data) -> TiltedMoments:
    size = mean.shape[-1]
    nodes, coarse = _nodes(size)
    step = 2.0 / (NODES[size] - 1)
    xp = namespace(mean, root, centre, frame)
    points = centre[..., None, :] + xp.einsum("...ij,kj->...ki", frame, nodes)
    gap = xp.linalg.solve(root[..., None, :, :], (points - mean[..., None, :])[..., None])[..., 0]
    log_normal = -0.5 * xp.sum(gap**2, axis=-1) - _log_volume(root)[..., None] - 0.5 * size * math.log(2 * math.pi)
    logs = log_f(points) + log_normal
    cell = _log_volume(frame) + size * math.log(step)
    top = stop_gradient(xp.max(logs, axis=-1, keepdims=True))
    top = xp.where(xp.isfinite(top), top, 0.0)
    weights = xp.exp(logs - top)
    total = xp.sum(weights, axis=-1)
    half = 2.0**size * xp.sum(weights * coarse, axis=-1)
    shares = weights / total[..., None]
    average = xp.sum(shares[..., None] * points, axis=-2)
    from_average = points - average[..., None, :]
    covariance = xp.einsum("...k,...ki,...kj->...ij", shares, from_average, from_average)
    log_mass = xp.log(total) + top[..., 0] + cell
    ok = (total > 0) & (abs(xp.log(half) - xp.log(total)) < TOLERANCE)
    return TiltedMoments(log_mass, average, covariance, ok)


@lru_cache(maxsize=4)
def _nodes(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes between −1 and 1 along each axis, and which of them a grid of twice the step has."""
    line = np.linspace(-1.0, 1.0, NODES[size])
    every_second = (np.arange(NODES[size]) % 2 == 0).astype(float)
    nodes = np.stack([axis.reshape(-1) for axis in np.meshgrid(*[line] * size, indexing="ij")], axis=-1)
    coarse = np.prod(np.stack([a.reshape(-1) for a in np.meshgrid(*[every_second] * size, indexing="ij")]), axis=0)
    return nodes, coarse


def _root(covariance: Data) -> Data:
    xp = namespace(covariance)
    return xp.sqrt(covariance) if covariance.shape[-1] == 1 else xp.linalg.cholesky(covariance)


def _log_volume(root: Data) -> Data:
    xp = namespace(root)
    return xp.log(xp.abs(root[..., 0, 0])) if root.shape[-1] == 1 else xp.linalg.slogdet(root)[1]
