"""Values that bind an index: folds, stacks, concatenations and scatters, against NumPy, recorded and computed."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.base.ops import Op
from fubini.errors import DataError, DomainError, NameClash, UnknownName
from fubini.terms.indexing import Concatenate, Fold, Scatter, Stack, fold
from fubini.terms.value import to_array

ops = fb.ops
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 2))
FOLDS = {
    ops.add: lambda x, axis: x.sum(axis),
    ops.multiply: lambda x, axis: x.prod(axis),
    ops.maximum: lambda x, axis: x.max(axis),
    ops.minimum: lambda x, axis: x.min(axis),
    ops.logaddexp: lambda x, axis: np.log(np.exp(x).sum(axis)),
}
every_fold = pytest.mark.parametrize("op", FOLDS, ids=repr)


def both(build: Callable[[], fb.Value], kind: type) -> fb.Array:
    """The Value computed under exact; recorded under lazy it is of this kind and evaluates to the same."""
    computed = to_array(build())
    with fb.lazy:
        recorded = build()
    assert isinstance(recorded, kind)
    assert (recorded.inputs, recorded.output) == (computed.inputs, computed.output)
    np.testing.assert_allclose(ordered(recorded, *computed.names), computed.data, rtol=1e-13)
    return computed


def ordered(value: fb.Value, *names: str) -> np.ndarray:
    """The numbers, recorded or not, with the named axes in this order and then the event's."""
    array = to_array(fb.evaluate(value))
    axes = [array.names.index(name) for name in names]
    return np.transpose(array.data, [*axes, *range(len(axes), array.data.ndim)])


@every_fold
def test_fold(op: Op) -> None:
    for index, axis in (("i", 0), ("j", 1)):
        found = both(lambda index=index: fold(op, fb.Array(X, ("i", "j")), index), Fold)
        assert found.output == fb.Reals[2]
        np.testing.assert_allclose(found.data, FOLDS[op](X, axis), rtol=1e-13)
    np.testing.assert_allclose(fold(op, fb.Array(X, ("i", "j")), "i", "j").data, FOLDS[op](X, (0, 1)), rtol=1e-12)


@every_fold
def test_fold_over_a_variable_the_body_lacks(op: Op) -> None:
    """Repeated |n| times: n·x, x^n, x, x, x + log n."""
    found = both(lambda: fold(op, fb.Array(X, ("i", "j")), fb.Variable("n", fb.Bint[5])), Fold)
    np.testing.assert_allclose(found.data, FOLDS[op](np.broadcast_to(X, (5, *X.shape)), 0), rtol=1e-12)


@every_fold
def test_fold_of_jax_arrays(op: Op) -> None:
    found = jax.jit(lambda x: fold(op, fb.Array(x, ("i", "j")), "j").data)(jnp.asarray(X))
    np.testing.assert_allclose(found, FOLDS[op](X, 1), rtol=1e-4)


def test_fold_of_expressions_in_the_index() -> None:
    """Σ_i i² x(i), recorded because x is not known."""
    i, x = fb.Variable("i", fb.Bint[4]), fb.Variable("x", fb.Reals[4])
    total = fold(ops.add, i * i * x[fb.Array(np.arange(4), ("i",))], "i")
    assert total.inputs == {"x": fb.Reals[4]}
    assert float(total(x=np.array([1.0, 10.0, 100.0, 1000.0]))) == 9410.0


def test_folds_of_integers_and_truths() -> None:
    counts, truths = fb.Array(np.array([2, 0, 1]), ("i",), fb.Bint[3]), fb.Array(np.array([True, False]), ("i",))
    assert fold(ops.maximum, counts, "i").output == fb.Bint[3]
    assert int(fold(ops.add, counts, "i").data) == 3
    assert [bool(fold(op, truths, "i").data) for op in (ops.logical_and, ops.logical_or)] == [False, True]
    assert fold(ops.logical_and, truths, "i").output == fb.Bint[2]


def test_logaddexp_at_the_edges() -> None:
    """Far apart, impossible and poisoned: NaN stays NaN, never a plausible number."""
    for xp in (np, jnp):
        rows = xp.asarray([[0.0, -800.0], [-np.inf, -np.inf], [np.nan, 0.0], [np.inf, 0.0]])
        found = fold(ops.logaddexp, fb.Array(rows, ("i", "j")), "j").data
        np.testing.assert_array_equal(found, [0.0, -np.inf, np.nan, np.inf])


def test_what_cannot_be_folded() -> None:
    value = fb.Array(X, ("i", "j")) + fb.Variable("x", fb.Real)
    with pytest.raises(UnknownName, match="'k'"):
        fold(ops.add, value, "k")
    with pytest.raises(DomainError):
        fold(ops.add, value, "x")
    with pytest.raises(DomainError):
        fold(ops.add, value, fb.Variable("i", fb.Bint[7]))
    with pytest.raises(DomainError, match="subtract"):
        fold(ops.subtract, value, "i")


def test_stack() -> None:
    """The named axis becomes the first axis of the event, and indexing gives it back."""
    found = both(lambda: fb.stack(fb.Array(X, ("i", "j")), "i"), Stack)
    assert (found.inputs, found.output) == ({"j": fb.Bint[4]}, fb.Reals[3, 2])
    np.testing.assert_array_equal(found.data, np.moveaxis(X, 0, 1))
    back = found[fb.Array(np.arange(3), ("i",))]
    np.testing.assert_array_equal(to_array(back).data, np.moveaxis(X, 0, 1))
    twice = fb.stack(fb.stack(fb.Array(X, ("i", "j")), "i"), "j")
    np.testing.assert_array_equal(twice.data, np.moveaxis(X, 0, 1))


def test_stack_of_what_is_not_known() -> None:
    """A stack of lambdas: stack_i (x·i) at x, indexed by a name that was bound inside."""
    x, i = fb.Variable("x", fb.Real), fb.Variable("i", fb.Bint[3])
    stacked = fb.stack(x * i, i)
    assert (stacked.inputs, stacked.output) == ({"x": fb.Real}, fb.Reals[3])
    again = stacked(x=i + 1.0)
    assert again.inputs == {"i": fb.Bint[3]}
    np.testing.assert_array_equal(to_array(again).data, np.outer([1.0, 2.0, 3.0], [0, 1, 2]))
    np.testing.assert_array_equal(to_array(again[fb.Array(np.arange(3), ("i",))]).data, [0.0, 2.0, 6.0])
    np.testing.assert_array_equal(fb.stack(x, i)(x=2.0).data, [2.0, 2.0, 2.0])


def test_concatenate_slices() -> None:
    """Slices end to end are the whole, whichever axis they are cut along."""
    whole = fb.Array(X, ("t", "j"))
    for name, size in (("t", 3), ("j", 4)):
        for cut in range(1, size):
            parts = [{name: slice(0, cut)}, {name: slice(cut, None)}]
            found = both(lambda parts=parts, name=name: fb.concatenate([whole(p) for p in parts], name), Concatenate)
            assert found.inputs[name] == fb.Bint[size]
            np.testing.assert_array_equal(ordered(found, "t", "j"), X)


def test_concatenate_parts_of_unlike_names() -> None:
    """A part that lacks a name is repeated along it."""
    first, second = fb.Array(X[:, :, 0], ("t", "j")), fb.Array(np.array([5.0, 6.0]), ("t",))
    found = both(lambda: fb.concatenate([first, second], "t"), Concatenate)
    expected = np.concatenate([X[:, :, 0], np.repeat([[5.0], [6.0]], 4, axis=1)])
    np.testing.assert_array_equal(found.data, expected)
    for wrong, kind in (([], DomainError), ([first, fb.Array(X, ("t", "j"))], DomainError)):
        with pytest.raises(kind):
            fb.concatenate(wrong, "t")
    with pytest.raises(UnknownName):
        fb.concatenate([first, fb.Array(np.ones(2), ("s",))], "t")


def test_substituting_into_a_recorded_concatenation() -> None:
    """Along it, across it, and by what depends on its own name."""
    a, b = RNG.normal(size=(2, 3)), RNG.normal(size=(3, 3))
    joined, at = np.concatenate([a, b]), np.array([2, 0, 1, 1, 2])
    with fb.lazy:
        value = fb.concatenate([fb.Array(a, ("t", "j")), fb.Array(b, ("t", "j"))], "t")
        renamed, fixed, swapped = value(t="s"), value(t=3), value(t="j", j="t")
        across = value(j=fb.Array(at, ("t",)))
    assert renamed.inputs == {"s": fb.Bint[5], "j": fb.Bint[3]}
    np.testing.assert_array_equal(ordered(renamed, "s", "j"), joined)
    np.testing.assert_array_equal(ordered(fixed, "j"), joined[3])
    np.testing.assert_array_equal(ordered(swapped, "j", "t"), joined)
    np.testing.assert_array_equal(ordered(across, "t"), joined[range(5), at])


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_scatter_inverts_substitution(dimensions: int) -> None:
    """For injective indices: scattered, then gathered by the same indices, the value is what it was."""
    sizes, cells = (2, 3, 4)[:dimensions], 2
    flat = RNG.permutation(int(np.prod(sizes)))[:cells]
    positions = np.unravel_index(flat, sizes)
    value = fb.Array(RNG.normal(size=(cells, 5)), ("c", "rest"))
    indices = {
        name: fb.Array(position, ("c",), fb.Bint[size])
        for name, position, size in zip("xyz", positions, sizes, strict=False)
    }
    out = both(lambda: fb.scatter(value, **indices), Scatter)
    expected = np.zeros((*sizes, 5))
    expected[positions] = value.data
    assert out.inputs == {**{name: at.output for name, at in indices.items()}, "rest": fb.Bint[5]}
    np.testing.assert_array_equal(out.data, expected)
    np.testing.assert_array_equal(out(**indices).data, value.data)


def test_scatter_duplicates_add() -> None:
    at = fb.Array(np.array([0, 2, 2, 0]), ("c",), fb.Bint[4])
    value = np.array([[1.0, 2.0, 4.0, 8.0], [3.0, 5.0, 7.0, 9.0]])
    found = fb.scatter(fb.Array(value, ("b", "c")), i=at)
    assert found.inputs == {"i": fb.Bint[4], "b": fb.Bint[2]}
    np.testing.assert_array_equal(found.data, [[9.0, 12.0], [0.0, 0.0], [6.0, 12.0], [0.0, 0.0]])
    np.testing.assert_array_equal(fb.scatter(1.0, i=at).data, [2.0, 0.0, 2.0, 0.0])


def test_diagonal_embedding() -> None:
    k = fb.Variable("k", fb.Bint[3])
    found = both(lambda: fb.scatter(fb.Array(np.array([1.0, 2.0, 3.0]), ("k",)), i=k, j=k), Scatter)
    np.testing.assert_array_equal(found.data, np.diag([1.0, 2.0, 3.0]))


def test_scatter_onto_a_name_it_consumes() -> None:
    permutation = np.array([2, 0, 1])
    found = fb.scatter(fb.Array(np.array([1.0, 2.0, 3.0]), ("i",)), i=fb.Array(permutation, ("i",), fb.Bint[3]))
    np.testing.assert_array_equal(found.data, [2.0, 3.0, 1.0])


def test_scatter_out_of_range() -> None:
    """Raised eagerly; traced, NaN or −1, never a plausible number."""

    def scattered(at: jax.Array, data: jax.Array) -> jax.Array:
        return fb.scatter(fb.Array(data, ("c",)), i=fb.Array(at, ("c",), fb.Bint[3])).data

    bad, floats = np.array([0, 3]), np.array([1.0, 2.0])
    with pytest.raises(DataError):
        scattered(bad, floats)
    assert np.isnan(jax.jit(scattered)(bad, floats)).any()
    assert (jax.jit(scattered)(bad, np.array([1, 2])) == -1).any()
    np.testing.assert_array_equal(jax.jit(scattered)(np.array([0, 2]), floats), [1.0, 0.0, 2.0])


def test_what_cannot_be_scattered() -> None:
    value, unbounded = fb.Array(X, ("c", "j")), fb.Array(np.array([0, 1, 2]), ("c",))
    with pytest.raises(DomainError, match="Bint"):
        fb.scatter(value, i=unbounded)
    with pytest.raises(NameClash):
        fb.scatter(value, j=fb.Array(np.array([0, 1, 2]), ("c",), fb.Bint[3]))
