"""Structural keys, equality, hashing, immutability, pickling; every class of term as a pytree."""

import pickle
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.errors import FubiniError
from fubini.terms.composite import LogOf, PlateProduct, Power, Quotient, Substituted, Sum
from fubini.terms.factor import Product, Weight
from fubini.terms.indexing import Concatenate, Fold, Scatter, Stack, fold
from fubini.terms.value import Apply, Getitem, Substitution

ops = fb.ops
RNG = np.random.default_rng(0)
F, G, AT = RNG.uniform(0.1, 1, (3, 2)), RNG.uniform(0.1, 1, (2, 4)), np.array([1, 0])
for shared in (F, G, AT):
    shared.setflags(write=False)  # what could still be written to is copied, and so is never shared

# Each class of term, built from the leaves it holds and what its bound or free names are called.
BUILDERS: dict[type, Callable] = {
    fb.Table: lambda f, g, name: fb.Table(f, ("a", "b")),
    Product: lambda f, g, name: fb.Table(f, ("a", "b")) * fb.Table(g, ("b", "c")),
    Sum: lambda f, g, name: (fb.Table(f, ("a", name)) * fb.Table(g, (name, "c"))).sum(name),
    PlateProduct: lambda f, g, name: (fb.Table(f, ("a", name)) * fb.Table(g, (name, "c"))).product(name),
    Quotient: lambda f, g, name: fb.Table(f, ("a", "b")) / fb.Table(g, ("b", "c")),
    Power: lambda f, g, name: fb.Table(f, ("a", "b")) ** fb.Array(g, ("b", "c")),
    Weight: lambda f, g, name: fb.weight(log=fb.Array(f, ("a", "b")) + fb.Array(g, ("b", "c"))),
    Substituted: lambda f, g, name: fb.Table(f, ("a", "b"))(b=fb.Array(AT, ("c",))),
    LogOf: lambda f, g, name: fb.Table(f, ("a", name)).sum(name).log(),
    fb.Delta: lambda f, g, name: fb.Delta(x=fb.Array(f, ("a", "b")), y=fb.Array(g, ("b", "c"))),
    fb.Variable: lambda f, g, name: fb.Variable("x", fb.Real),
    fb.Array: lambda f, g, name: fb.Array(f, ("a", "b")),
    Apply: lambda f, g, name: fb.Array(f, ("a", "b")) * fb.Array(g, ("b", "c")),
    Fold: lambda f, g, name: fold(ops.add, fb.Array(f, ("a", name)) * fb.Array(g, (name, "c")), name),
    Stack: lambda f, g, name: fb.stack(fb.Array(f, ("a", name)) * fb.Array(g, (name, "c")), name),
    Concatenate: lambda f, g, name: fb.concatenate([fb.Array(f, ("a", "b")), fb.Array(f, ("a", "b"))], "a"),
    Scatter: lambda f, g, name: fb.scatter(fb.Array(f, ("a", name)), i=fb.Array(AT, (name,), fb.Bint[2])),
    Getitem: lambda f, g, name: fb.Array(f, ("a",))[fb.Array(AT, ("c",))],
    Substitution: lambda f, g, name: fb.Array(f, ("a", "b"))(b=fb.Array(AT, ("c",))),
}
every_class = pytest.mark.parametrize("kind", BUILDERS, ids=lambda kind: kind.__name__)
binding = pytest.mark.parametrize(
    "kind", [Sum, PlateProduct, LogOf, Fold, Stack, Scatter], ids=lambda kind: kind.__name__
)


def build(kind: type, f: np.ndarray = F, g: np.ndarray = G, name: str = "b") -> fb.Value | fb.Factor:
    """A recorded term of this very class."""
    with fb.lazy:
        term = BUILDERS[kind](f, g, name)
    assert type(term) is kind
    return term


def numbers(term: fb.Value | fb.Factor) -> list:
    """What a term evaluates to, as a tree of arrays; a Delta's points."""
    value = fb.evaluate(term)
    if isinstance(value, fb.Factor) and not isinstance(value, fb.Delta):
        value = fb.evaluate(value.log())
    return jax.tree.leaves(value)


@every_class
def test_flatten_and_unflatten(kind: type) -> None:
    """The round trip keeps the leaves themselves, the structure and the numbers."""
    term = build(kind)
    leaves, structure = jax.tree.flatten(term)
    back = jax.tree.unflatten(structure, leaves)
    assert type(back) is kind
    assert fb.same(back, term)
    assert all(mine is theirs for mine, theirs in zip(back.leaves(), leaves, strict=True))
    assert (back.inputs, back.structure) == (term.inputs, term.structure)


@every_class
def test_unflattening_never_validates(kind: type) -> None:
    """JAX puts all sorts of things where the leaves are."""
    term = build(kind)
    for fill in (None, "leaf", object(), -1.0):
        leaves = [fill] * len(jax.tree.leaves(term))
        assert type(jax.tree.unflatten(jax.tree.structure(term), leaves)) is kind


@every_class
def test_mapping_the_leaves(kind: type) -> None:
    """The numbers change, the structure does not; the original stays as it was."""
    term = build(kind)
    before = [np.array(leaf) for leaf in jax.tree.leaves(term)]
    doubled = jax.tree.map(lambda leaf: 2 * leaf, term)
    assert doubled.structure == term.structure
    for old, leaf, new in zip(before, jax.tree.leaves(term), jax.tree.leaves(doubled), strict=True):
        np.testing.assert_array_equal(leaf, old)
        np.testing.assert_array_equal(new, 2 * old)


def close(found: list, expected: list) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


@every_class
def test_crossing_jit_vmap_and_scan(kind: type) -> None:
    """In and out of a compiled function; batches made by vmap, taken apart by vmap and by scan; numbers as NumPy's."""

    @jax.jit
    def run(term: fb.Value | fb.Factor, f: jax.Array, g: jax.Array) -> tuple:
        batch = jax.vmap(lambda f, g: build(kind, f, g))(f, g)
        if not jax.tree.leaves(batch):
            return term, numbers(term), [], []
        scanned = jax.lax.scan(lambda carry, term: (carry, numbers(term)), 0.0, batch)[1]
        return term, numbers(term), jax.vmap(numbers)(batch), scanned

    term, found, mapped, scanned = run(build(kind), np.stack([F, 2 * F]), np.stack([G, 3 * G]))
    assert type(term) is kind and term.structure == build(kind).structure
    close(found, numbers(build(kind)))
    for batch in (mapped, scanned):
        for position, (first, second) in enumerate([(F, G), (2 * F, 3 * G)] if batch else []):
            close([leaf[position] for leaf in batch], numbers(build(kind, first, second)))


@pytest.mark.parametrize("kind", [fb.Table, Sum, Quotient, Weight, Fold], ids=lambda kind: kind.__name__)
def test_crossing_grad(kind: type) -> None:
    """The gradient with respect to a term is a term of the same structure; checked along one direction."""

    def total(term: fb.Value | fb.Factor) -> jax.Array | np.ndarray:
        return numbers(term)[0].sum()

    term = build(kind)
    gradient = jax.jit(jax.grad(total))(jax.tree.map(lambda leaf: jnp.asarray(leaf, float), term))
    assert type(gradient) is kind and gradient.structure == term.structure
    step = jax.tree.map(lambda leaf: 1e-4 * (leaf + 1.0), term)
    ahead, behind = (jax.tree.map(lambda a, b, sign=sign: a + sign * b, term, step) for sign in (1, -1))
    slope = sum(np.sum(a * b) for a, b in zip(jax.tree.leaves(gradient), jax.tree.leaves(step), strict=True))
    np.testing.assert_allclose(slope, (total(ahead) - total(behind)) / 2, rtol=1e-4)


@binding
def test_bound_names_do_not_count(kind: type) -> None:
    """Terms alike up to the names they bind have one structure, one treedef, and are the same."""
    first, second = build(kind, name="b"), build(kind, name="z")
    assert first.structure == second.structure
    assert first.key == second.key
    assert fb.same(first, second)
    assert jax.tree.structure(first) == jax.tree.structure(second)


@binding
def test_alike_terms_are_traced_once(kind: type) -> None:
    traced = []

    @jax.jit
    def run(term: fb.Value | fb.Factor) -> list:
        traced.append(kind)
        return [2 * leaf for leaf in term.leaves()]

    for factor, name in ((1.0, "b"), (2.0, "z")):
        term = build(kind, factor * F, G, name)
        close(run(term), [2 * leaf for leaf in term.leaves()])
    assert len(traced) == 1


def test_free_names_domains_and_ops_count() -> None:
    f, labelled = fb.Table(F, ("a", "b")), fb.Table(F, {"a": fb.Bint[3], "b": fb.Bint.labelled("no", "yes")})
    x = fb.Array(F, ("a", "b"))
    with fb.lazy:
        different = [f, f(a="z"), labelled, f.sum("a"), f.max("a"), f.sum("b"), f * f, x, x + x, x * x, x + 1.0]
    structures = [term.structure for term in different]
    assert len(set(structures)) == len(structures)


def test_leaves_do_not_count_for_structure_but_coinciding_leaves_count_for_the_key() -> None:
    first, same, other = fb.Array(F, ("a", "b")), fb.Array(F, ("a", "b")), fb.Array(F.copy(), ("a", "b"))
    with fb.lazy:
        square, again, pair = first * same, first * first, first * other
    assert square.structure == pair.structure
    assert square.key == again.key != pair.key
    assert fb.Array(F.astype(int), ("a", "b"), fb.Real).key != first.key
    assert jax.tree.map(jnp.asarray, first).key != first.key
    assert hash(square.key) == hash(again.key)


def test_numbers_do_not_count_for_the_key() -> None:
    """Two tables given alike have one key, wherever their constants came from."""
    f, g = fb.Table(F, ("a", "b")), fb.Table(G, ("b", "c"))
    rescaled = jax.tree.map(lambda leaf: leaf * 2.0, f * g)
    assert rescaled.key == (f * g).key


def test_sameness_is_of_structure_and_of_the_very_leaves() -> None:
    f = fb.Table(F, ("a", "b"))
    assert fb.same(f, fb.Table(F, ("a", "b")))
    assert not fb.same(f, fb.Table(F.copy(), ("a", "b")))
    writable = F.copy()
    assert not fb.same(fb.Table(writable, ("a", "b")), fb.Table(writable, ("a", "b")))
    assert not fb.same(f, fb.Table(F, ("a", "c")))
    assert not fb.same(f, "f") and not fb.same(f, fb.Array(F, ("a", "b")))
    assert f in {f} and f in [f]  # by identity


@every_class
def test_terms_are_immutable(kind: type) -> None:
    term = build(kind)
    for field in ("inputs", "anything", *term._declared.arrays):
        with pytest.raises(FubiniError, match="immutable"):
            setattr(term, field, None)


def test_fields_cannot_be_deleted() -> None:
    for term in (build(fb.Table), build(fb.Array)):
        with pytest.raises(FubiniError, match="immutable"):
            del term.inputs


@every_class
def test_pickling(kind: type) -> None:
    """Key and numbers are kept; so is the treedef, so that a compiled function is found again."""
    term = build(kind)
    copy = pickle.loads(pickle.dumps(term))
    assert type(copy) is kind
    assert copy.key == term.key
    assert jax.tree.structure(copy) == jax.tree.structure(term)
    for mine, theirs in zip(numbers(copy), numbers(term), strict=True):
        np.testing.assert_array_equal(mine, theirs)
