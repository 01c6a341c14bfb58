"""JAX's random numbers on NumPy: the bits of threefry-2x32, and what `jax.random` makes of them in double precision.

A key is one number of 64 bits, so that arrays of keys have the shapes that JAX gives them.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_HALF = np.uint64(32)
_ONE = np.float64(1.0).view(np.uint64)

Pair = tuple[np.ndarray, np.ndarray]


def threefry(first: np.ndarray, second: np.ndarray, high: np.ndarray, low: np.ndarray) -> Pair:
    """Twenty rounds on pairs of 32 bits under keys of two numbers (Salmon et al. 2011)."""
    keys = (first, second, first ^ second ^ _PARITY)
    x, y = np.atleast_1d(high + keys[0]), np.atleast_1d(low + keys[1])
    turned = np.empty_like(y)
    for place in range(5):
        for rotation in _ROTATIONS[place % 2]:
            x += y
            np.left_shift(y, np.uint32(rotation), out=turned)
            np.right_shift(y, np.uint32(32 - rotation), out=y)
            y |= turned
            y ^= x
        x += keys[(place + 1) % 3]
        y += keys[(place + 2) % 3] + np.uint32(place + 1)
    return x.reshape(np.shape(high)), y.reshape(np.shape(low))


def joined(data: np.ndarray) -> np.ndarray:
    """Keys as pairs [… , 2] of 32 bits, each as one number."""
    return _number(data[..., 0], data[..., 1])


def separated(keys: np.ndarray) -> np.ndarray:
    """Keys as pairs [… , 2] of 32 bits."""
    return np.stack(_pair(keys), axis=-1)


def _number(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    return (high.astype(np.uint64) << _HALF) | low.astype(np.uint64)


def _pair(number: np.ndarray) -> Pair:
    return (number >> _HALF).astype(np.uint32), number.astype(np.uint32)


def bits64(keys: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """64 random bits for each key [keys …] and place [keys …, shape …]: also the keys that a key is split into."""
    first, second = (part.reshape((*keys.shape, *(1,) * len(shape))) for part in _pair(np.asarray(keys)))
    whole = np.zeros((*keys.shape, *shape), np.uint32)
    high, low = _pair(np.arange(math.prod(shape), dtype=np.uint64).reshape(shape))
    return _number(*threefry(first + whole, second + whole, high + whole, low + whole))


split = bits64


def bits32(keys: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """32 random bits for each key and place."""
    high, low = _pair(bits64(keys, shape))
    return high ^ low


def seed(number: np.ndarray) -> np.ndarray:
    """The key of a whole number, of its lowest 64 bits."""
    whole = np.asarray(number)
    return whole.astype(np.int64 if whole.dtype.itemsize == 8 else np.uint32).astype(np.uint64)


def fold_in(keys: np.ndarray, data: np.ndarray) -> np.ndarray:
    """A key from each key and a number of 32 bits."""
    keys, data = np.broadcast_arrays(keys, np.asarray(data).astype(np.uint32))
    first, second = _pair(keys)
    return _number(*threefry(first, second, np.zeros_like(data), np.array(data)))


def uniform(keys: np.ndarray) -> np.ndarray:
    """One number in [0, 1) for each key."""
    return ((bits64(keys, ()) >> np.uint64(12)) | _ONE).view(np.float64) - 1.0


def normal(keys: np.ndarray) -> np.ndarray:
    """One standard normal for each key: √2 erf⁻¹(u), −1 < u < 1"""
    low = np.nextafter(-1.0, 0.0)
    return math.sqrt(2.0) * special.erfinv(np.maximum(low, uniform(keys) * (1.0 - low) + low))


def gamma(keys: np.ndarray, a: np.ndarray, log_space: bool) -> np.ndarray:
    """Gamma(a, 1), or its logarithm, for each key [keys …] and parameter [keys …, rest …] (Marsaglia and Tsang 2000)"""
    each = split(keys.reshape(-1), (math.prod(a.shape[keys.ndim :]),)).reshape(-1)
    alpha = a.reshape(-1)
    following = split(each, (2,))
    current, last = following[:, 0], following[:, 1]
    boosted = ~(alpha >= 1.0)
    d = np.where(boosted, alpha + 1.0, alpha) - 1 / 3
    accepted = _accepted_cubes(current, d)
    if log_space:
        log_share = np.log1p(-uniform(last))
        boost = np.where(~boosted | (log_share == 0), 0.0, log_share * (1.0 / alpha))
        return (np.log(d) + np.log(accepted) + boost).reshape(a.shape)
    boost = np.where(boosted, (1.0 - uniform(last)) ** (1.0 / alpha), 1.0)
    return (d * accepted * boost).reshape(a.shape)


def _accepted_cubes(keys: np.ndarray, d: np.ndarray) -> np.ndarray:
    """(1 + c x)³ of the first normal x that is accepted, c = 1/(3√d)"""
    c = (1 / 3) / np.sqrt(d)
    cubes, keys, open_places = np.ones_like(d), keys.copy(), np.arange(d.size)
    while open_places.size:
        following = split(keys[open_places], (3,))
        keys[open_places] = following[:, 0]
        x, v = _positive(following[:, 1], c[open_places])
        square, cube, u = x * x, v * v * v, uniform(following[:, 2])
        cubes[open_places] = cube
        log_ratio = square * 0.5 + d[open_places] * ((1.0 - cube) + np.log(cube))
        refused = (u >= 1.0 - 0.0331 * (square * square)) & (np.log(u) >= log_ratio)
        open_places = open_places[refused]
    return cubes


def _positive(keys: np.ndarray, c: np.ndarray) -> Pair:
    """The first normal x with 1 + c x > 0, and that number."""
    x, v, keys, open_places = np.zeros_like(c), -np.ones_like(c), keys.copy(), np.arange(c.size)
    while open_places.size:
        following = split(keys[open_places], (2,))
        keys[open_places] = following[:, 0]
        x[open_places] = normal(following[:, 1])
        v[open_places] = 1.0 + x[open_places] * c[open_places]
        open_places = open_places[v[open_places] <= 0.0]
    return x, v
