"""Random factor graphs, and what is true of them by enumeration."""

from __future__ import annotations

from functools import reduce

import numpy as np
from hypothesis import strategies as st

import fubini as fb

SIZES = {"a": 2, "b": 3, "c": 2, "d": 3, "e": 2}


@st.composite
def factor_graphs(draw, zeros=True, most=6):
    """Tables over one to three of five variables; some weights are zero, but not all of the product."""
    scopes = draw(
        st.lists(st.lists(st.sampled_from("abcde"), min_size=1, max_size=3, unique=True), min_size=1, max_size=most)
    )
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    keep = {name: random.integers(SIZES[name]) for name in SIZES}
    factors = []
    for scope in scopes:
        weights = random.uniform(0.1, 2.0, [SIZES[name] for name in scope])
        if zeros:
            gone = random.uniform(size=weights.shape) < 0.2
            gone[tuple(keep[name] for name in scope)] = False  # one assignment stays possible
            weights = np.where(gone, 0.0, weights)
        factors.append(fb.Table(weights, tuple(scope)))
    return factors


@st.composite
def tree_graphs(draw, most=5):
    """Tables that form a tree: each shares one variable with those before, or none."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count = draw(st.integers(1, most))
    names = [f"x{k}" for k in range(count)]
    factors = [fb.Table(random.uniform(0.1, 1.0, 2), (names[0],))]
    for k in range(1, count):
        shape = (2, 2) if random.uniform() < 0.8 else (2,)
        scope = (names[random.integers(k)], names[k]) if len(shape) == 2 else (names[k],)
        factors.append(fb.Table(random.uniform(0.1, 1.0, shape), scope))
        if random.uniform() < 0.5:
            factors.append(fb.Table(random.uniform(0.1, 1.0, 2), (names[k],)))
    return factors


def joint(factors):
    """The product as an array, and its names in order."""
    names = list(dict.fromkeys(name for factor in factors for name in factor.inputs))
    sizes = {name: domain.size for factor in factors for name, domain in factor.inputs.items()}
    arrays = []
    for factor in factors:
        own = list(factor.inputs)
        order = [name for name in names if name in own]
        weights = np.transpose(np.asarray(factor.weights), [own.index(name) for name in order])
        arrays.append(weights.reshape([sizes[name] if name in own else 1 for name in names]))
    return np.broadcast_to(reduce(np.multiply, arrays), [sizes[name] for name in names]), names


def marginal(table, names, name):
    axes = tuple(axis for axis, other in enumerate(names) if other != name)
    sums = table.sum(axes)
    return sums / sums.sum()


def grid(side, states, seed=0, make=np.asarray):
    """Tables of one variable and of each pair of neighbours."""
    random = np.random.default_rng(seed)
    factors = []
    for i in range(side):
        for j in range(side):
            factors.append(fb.Table(make(random.uniform(0.1, 1.0, states)), (f"x{i}{j}",)))
            for near in ([f"x{i - 1}{j}"] if i else []) + ([f"x{i}{j - 1}"] if j else []):
                factors.append(fb.Table(make(random.uniform(0.4, 1.0, (states, states))), (near, f"x{i}{j}")))
    return factors
