"""JAX programs in index notation: each gives the program's numbers, and the forms of indexing are seen through."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.algebra.build import index
from fubini.algebra.node import Index, Leaf
from fubini.read import all_rules  # noqa: F401
from fubini.read.elementwise import OTHERS
from fubini.read.jaxpr_reader import RULES, Reader
from fubini.read.leaf_arrays import LeafArrays
from fubini.read.representable import ARITHMETIC
from fubini.read.symbolic_array import of_leaf

RANDOM = np.random.default_rng(0)
X, M, DESIGN = RANDOM.normal(size=6), RANDOM.normal(size=(4, 3)), RANDOM.normal(size=(5, 6))
Y = np.array([0, 2, 1, 2, 5])

# A program, and what is written of an entry of what it gives; terms of a sum and factors stand in either order.
PROGRAMS = {
    "indexing": (lambda x, y: x[y], "a0[a1["),
    "indexing by known numbers": (lambda x, y: x[Y], "a0[data"),
    "take": (lambda x, y: jnp.take(x, y), "a0[a1["),
    "vmap of indexing": (lambda x, y: jax.vmap(lambda k: x[k] * 2)(y), "2 a0[a1[j]]"),
    "a matrix product": (lambda x, y: DESIGN @ x + x[0], "Σ_k a0[k] data0[j, k]"),
    "einsum": (lambda x, y: jnp.einsum("ij,kj->ik", jnp.outer(x, x), DESIGN), "(Σ_"),
    "differences": (lambda x, y: x[1:] - x[:-1], ("a0[j + 1] − a0[j]", "−a0[j] + a0[j + 1]")),
    "reverse": (lambda x, y: x[::-1], "a0[−j + 5]"),
    "stride": (lambda x, y: x[::2], "a0[2 j]"),
    "roll": (lambda x, y: jnp.roll(x, 2), "a0[j + 4] if [j < 2] else a0[j − 2]"),
    "concatenate": (lambda x, y: jnp.concatenate([x[:2], 2 * x[2:]]), "a0[j] if [j < 2] else 2 a0[j]"),
    "where": (lambda x, y: jnp.where(jnp.arange(6) < 3, x, 0.0), "a0[j] if [j < 3] else 0"),
    "a point replaced": (
        lambda x, y: jnp.asarray(x).at[2].set(5.0),
        ("5 if [2 = j] else a0[j]", "5 if [j = 2] else a0[j]"),
    ),
    "cumulative sum": (
        lambda x, y: jnp.cumsum(x),
        "Σ_k a0[k] (0 if [j < k] else 1)",
    ),
    "mean": (lambda x, y: x - x.mean(), "0.166667 (Σ_"),
    "split axes": (lambda x, y: x.reshape(2, 3), ("a0[3 j + k]", "a0[j + 3 k]")),
    "merged axes": (lambda x, y: jnp.outer(x, x).ravel(), "a0["),
    "transpose": (lambda x, y: jnp.outer(x, jnp.arange(6.0)).T, "a0[k] j"),
    "last entry": (lambda x, y: x[-1] * x, ("a0[5] a0[j]", "a0[j] a0[5]")),
    "nested jit": (lambda x, y: jax.jit(lambda x: jnp.exp(-0.5 * x**2))(x), "exp(−½ a0[j]²)"),
    "a matrix by rows": (lambda x, y: jnp.asarray(M)[:, 0][y % 4] + x[y], "a0[a1["),
    "sort is opaque": (lambda x, y: jnp.sort(x)[0] + x, "sort"),
    "softmax": (lambda x, y: jax.nn.softmax(x), "/(Σ_k exp("),
    "softplus": (lambda x, y: jax.nn.softplus(x), "log1p"),
}


# Rules whose results their types hold: entries of operands, truth values, and what lies between operands.
HELD = frozenset(
    (
        *(
            "broadcast_in_dim",
            "concatenate",
            "cond",
            "copy",
            "copy_p",
            "dynamic_slice",
            "expand_dims",
            "gather",
            "iota",
        ),
        *(
            "pad",
            "optimization_barrier",
            "real",
            "reshape",
            "rev",
            "scan",
            "scatter",
            "select_n",
            "slice",
            "split",
            "squeeze",
        ),
        *("stack", "stop_gradient", "tile", "transpose", "unstack"),
        *("and", "eq", "ge", "gt", "le", "lt", "ne", "not", "or", "xor"),
        *("clamp", "floor", "max", "min", "rem", "sign"),
    )
)
NAMES = frozenset(RULES)  # before any test adds one


def test_every_rule_says_whether_its_type_holds_the_result():
    """A new rule is in one of these; what it reads would else be wrong where numbers wrap around or are rounded."""
    assert ARITHMETIC | HELD | set(OTHERS) == NAMES  # the last are computed in their types
    assert not HELD & ARITHMETIC


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    program, form = PROGRAMS[name]
    with jax.enable_x64(True):
        given = (jnp.asarray(X), jnp.asarray(Y))
        traced = jax.make_jaxpr(program)(*given)
        leaves = [Leaf("a0", X.shape), Leaf("a1", Y.shape, low=0, high=5, is_integer=True)]
        reader = Reader()
        (found,) = reader.read(traced.jaxpr, traced.consts, [of_leaf(leaf) for leaf in leaves])
        arrays = LeafArrays({**reader.known, **dict(zip(leaves, given, strict=True))}, reader)
        np.testing.assert_allclose(arrays.whole(found), program(*given), rtol=1e-12)
    entry = found.at(*(index(Index(size)) for size in found.shape))
    assert any(one in str(entry) for one in ([form] if isinstance(form, str) else form)), str(entry)


def test_an_index_that_may_be_out_of_range_is_opaque():
    """A gather clamps or fills; only one that is in range is an entry."""
    traced = jax.make_jaxpr(lambda x, y: x[y])(X, Y)
    leaves = [Leaf("a0", X.shape), Leaf("a1", Y.shape, is_integer=True)]
    reader = Reader()
    reader.read(traced.jaxpr, traced.consts, [of_leaf(leaf) for leaf in leaves])
    assert any(leaf.name.startswith("gather") for leaf in reader.opaque)
    assert all(leaves[0] in leaf.of for leaf in reader.opaque if leaf.name.startswith("gather"))
