"""Traced programs on NumPy give the numbers of the compiled ones, random ones too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fubini.engines import host_keys, host_random
from fubini.engines.host_program import HostProgram, HostPrograms, Unsupported

KEY = jax.random.key(3)
X = np.random.default_rng(0).normal(size=(5, 6))
PLACES = np.array([3, 0, 4, -1])


@pytest.fixture(autouse=True)
def wide():
    with jax.enable_x64(True):
        yield


def agree(function, *arguments, rtol=1e-12) -> None:
    """The same numbers, shapes and types as compiled."""
    compiled = jax.jit(function)
    expected = jax.tree_util.tree_leaves(compiled(*arguments))
    found = jax.tree_util.tree_leaves(HostProgram(compiled.trace(*arguments))(*arguments))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, np.asarray(other), rtol=rtol, atol=1e-12)


def draws(key):
    a = jnp.array([0.02, 0.4, 3.0, 60.0])
    one, two, three, four = jax.random.split(key, 4)
    return (
        jax.random.normal(one, (3,)),
        jax.random.gamma(two, a),
        jax.random.randint(three, (4,), 0, 17),
        jax.random.categorical(jax.random.fold_in(four, 7), jnp.arange(5.0)),
        jax.random.exponential(four),
    )


def test_random_numbers() -> None:
    agree(jax.vmap(draws), jax.random.split(KEY, 40), rtol=1e-9)


def test_logarithms_of_gamma_numbers() -> None:
    """log_space changes how the number is written, not which it is."""
    keys, a = host_random.bits64(np.uint64(7), (500,)), np.full((500, 2), (0.3, 5.0))
    log_numbers = host_random.gamma(keys, a, log_space=True)
    np.testing.assert_allclose(np.exp(log_numbers), host_random.gamma(keys, a, log_space=False), rtol=1e-12)


def test_keys_of_the_old_kind() -> None:
    agree(lambda key: (jax.random.normal(jax.random.split(key)[1]), jax.random.key_data(key)), jax.random.PRNGKey(1))


@pytest.mark.parametrize("make", [jax.random.key, jax.random.PRNGKey])
def test_keys_are_split_as_by_jax(make) -> None:
    key = make(5)
    split = jax.random.split(key, 3)
    for keys in (host_keys.split(key, 3), jnp.stack(host_keys.split_apart(key, 3))):
        assert keys.dtype == split.dtype and bool((keys == split).all())


def test_known_keys_are_split_in_a_trace_too() -> None:
    expected = jax.random.key_data(jax.random.split(KEY, 2))
    for split in (lambda: host_keys.split(KEY, 2), lambda: jnp.stack(host_keys.split_apart(KEY, 2))):
        np.testing.assert_array_equal(jax.jit(lambda split=split: jax.random.key_data(split()))(), expected)
    traced = jax.jit(lambda key: jax.random.key_data(host_keys.split(key, 2)))
    np.testing.assert_array_equal(traced(KEY), expected)


def test_other_keys_are_split_by_jax() -> None:
    key = jax.random.key(1, impl="rbg")
    assert not host_keys.is_on_host(key)
    assert host_keys.split(key, 2).shape == (2,) and len(host_keys.split_apart(key, 2)) == 2
    with pytest.raises(Unsupported):
        HostProgram(jax.jit(jax.random.normal).trace(key))
    with jax.threefry_partitionable(False):
        assert not host_keys.is_on_host(KEY)


def test_reads_and_writes_at_places() -> None:
    def places(x, i):
        return (
            *(x[i], x[:, i], x[i, i], x[1], jnp.take(x, i + 3, axis=1, mode="clip"), jnp.take(x, i + 3, axis=1)),
            *(jnp.take_along_axis(x, jnp.argsort(x, 1), 1), jax.vmap(lambda row, at: row[at])(x[:4], i)),
            *(x.at[i].add(2.0), x.at[:, i].set(0.0), x.at[i + 2, i].add(1.0), x.at[i + 2, i].add(1.0, mode="clip")),
            jax.vmap(lambda row, at: row.at[at].add(3.0))(x[:4], i),
            jax.ops.segment_sum(x, jnp.array([0, 2, 2, 7, 1]), 3),
            jax.lax.dynamic_slice(x, (i[0], i[2]), (2, 2)),
            jax.lax.dynamic_update_slice(x, x[:2, :2], (i[3], i[2])),
        )

    agree(places, X, PLACES)


def test_shapes_and_products() -> None:
    def shapes(x):
        return (
            *(jnp.pad(x, 1), jax.lax.pad(x, 0.0, ((-1, 2, 1), (1, -2, 0))), jnp.flip(x), jnp.roll(x, 2, 1)),
            *(jnp.sort(x, 0), jnp.median(x), jnp.argmax(x, 1), jnp.argmin(x), jnp.stack([x, -x], 1)),
            *jnp.split(x, 3, 1),
            *(jnp.einsum("ij,kj->ik", x, x), jnp.einsum("ij,ij->i", x, x), jnp.tensordot(x, x, ((0, 1), (0, 1)))),
            *(jnp.cumsum(x, 1), jax.lax.cummax(x, 0, reverse=True), jax.lax.cumlogsumexp(x), x.max(), x.prod(0)),
            *((x > 0).any(0), (x > 0).all(), x.T.reshape(3, 10)[1:3:2], jnp.eye(3), x[None, ..., None].squeeze()),
        )

    agree(shapes, X)


def test_functions_of_numbers() -> None:
    def functions(x, i):
        size, whole = jnp.abs(x) + 0.1, i * 7 - 9
        special = jax.scipy.special
        return (
            *(special.gammaln(size), special.digamma(size), special.erf(x), special.erfc(x), special.i0e(x)),
            *(special.polygamma(1, size), special.gammainc(2.0, size), special.logsumexp(x, 1), jax.nn.sigmoid(x)),
            *(jnp.round(x), jax.lax.round(x * 2, jax.lax.RoundingMethod.AWAY_FROM_ZERO), jnp.sign(x), x**3, x**-2),
            *(size**x, jnp.clip(x, -0.5, 0.5), jax.lax.rsqrt(size), jnp.arctan2(x, size), jnp.nan_to_num(x / 0.0)),
            *(whole // 2, whole % 3, -whole // 2, whole << 2, whole >> 1, whole // 0, whole % 0, jnp.mod(x, 0.3)),
            *((x * 1e30).astype(int), (x / 0.0).astype(jnp.int32), x.astype(jnp.int32), (x > 0).astype(float)),
            ~(x > 0),
            *(jnp.where(x > 0, x, jnp.nan), jnp.exp2(x), jnp.cbrt(x), jnp.maximum(x, jnp.nan)),
        )

    agree(functions, X, PLACES, rtol=1e-11)


def test_matrices() -> None:
    def matrices(x):
        square, lower = x @ x.T, jnp.tril(x @ x.T)
        solve = jax.lax.linalg.triangular_solve
        several = jax.vmap(lambda s: (jnp.linalg.cholesky(s * square), solve(lower * s, x, left_side=True, lower=True)))
        return (
            *(solve(lower, x.T, left_side=False, lower=True, transpose_a=t, unit_diagonal=t) for t in (True, False)),
            solve(lower, x, left_side=True, lower=True, transpose_a=True),
            *(jnp.linalg.cholesky(square), several(jnp.array([1.0, -1.0, 2.0]))),
            solve(lower * (1 - jnp.eye(5)[0]), x, left_side=True, lower=True),  # singular
        )

    agree(matrices, X, rtol=1e-9)


def test_control() -> None:
    def control(x):
        return (
            jax.lax.scan(lambda c, row: (c + row, c * row), x[0], x, reverse=True),
            jax.lax.scan(lambda c, row: (c + row, c * row), x[0], x[:0]),
            jax.lax.while_loop(lambda c: c < 100, lambda c: c * 2 + 1, x[0, 0] ** 2),
            jax.vmap(lambda row: jax.lax.while_loop(lambda c: c[0] < 5, lambda c: jnp.abs(c) * 2 + 0.1, row))(x),
            jax.lax.cond(x[0, 0] > 0, lambda y: y, lambda y: -y, x),
            jax.lax.switch(7, [lambda y: y, lambda y: -y, lambda y: 3 * y], x),
            jax.vmap(lambda y: jax.lax.cond(y[0] > 0, lambda z: z, lambda z: -z, y))(x),
            jax.lax.platform_dependent(x, cpu=lambda y: y + 1, default=lambda y: y),
            jax.grad(lambda y: jnp.sum(jnp.tanh(y) ** 2))(x),
        )

    agree(control, X)


def test_what_takes_long_is_compiled() -> None:
    """Large arrays, long loops and what NumPy does not know; each kind of arguments by itself."""
    for function, argument in (
        (lambda x: jnp.exp(x) @ jnp.ones((len(x), 4000)), jax.ShapeDtypeStruct((4000, 4000), float)),
        (lambda x: jax.lax.fori_loop(0, 10**6, lambda i, y: y + i, x), 0.0),
        (lambda x: jax.pure_callback(np.sin, x, x), 0.0),
        (jnp.fft.fft, X),
    ):
        with pytest.raises(Unsupported):
            HostProgram(jax.jit(function).trace(argument))
    programs = HostPrograms(jax.jit(lambda x: jnp.fft.fft(x).real if x.ndim else x + 1))
    assert isinstance(programs(0.0), np.ndarray) and isinstance(programs(X), jax.Array)
    np.testing.assert_allclose(programs(X), np.fft.fft(X).real, atol=1e-12)
    found = HostPrograms(jax.jit(lambda x: jnp.searchsorted(jnp.sort(x[0]), x[1])))(X)  # a primitive since JAX 0.12
    np.testing.assert_array_equal(found, np.searchsorted(np.sort(X[0]), X[1]))


def test_answers_are_no_views_of_arguments() -> None:
    """What is written into an answer does not change the data, nor a later answer."""
    programs = HostPrograms(jax.jit(lambda x: (x, x.T, jnp.zeros(3))))
    for _ in range(2):
        for part in programs(X):
            assert not np.shares_memory(part, X)
            assert part.flags.writeable
            assert part.sum() == pytest.approx(0.0 if part.shape == (3,) else X.sum())
            part[...] = 7.0


def test_what_a_program_prints_is_printed(capfd) -> None:
    """Printing is no result of a program, and would be left out: such programs are compiled."""

    def doubled(x):
        jax.debug.print("x is {}", x)
        return 2 * x

    assert float(HostPrograms(jax.jit(doubled))(np.asarray(3.0))) == 6.0
    jax.effects_barrier()
    assert "x is 3.0" in capfd.readouterr().out
    with pytest.raises(Unsupported, match="effects"):
        HostProgram(jax.jit(doubled).trace(np.asarray(3.0)))
