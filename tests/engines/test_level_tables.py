"""Scans over the levels of a plan against the rules: numbers, derivatives, ranges, and how much is traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.eliminate import level_tables
from fubini.errors import DataError, EngineError
from tests.counting import equations


def random_tables(seed: int, size: int, zeros: float = 0.0, near: int = 4) -> list[tuple[np.ndarray, tuple[str, ...]]]:
    """A table for each variable over it and up to two of the few before it."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 4, size)
    tables = []
    for k in range(size):
        before = np.arange(max(0, k - near), k)
        others = random.choice(before, min(len(before), int(random.integers(0, 3))), replace=False).tolist()
        scope = [*others, k]
        weights = random.random([sizes[name] for name in scope])
        tables.append((weights * (random.random(weights.shape) >= zeros), tuple(f"x{name}" for name in scope)))
    return tables


def of_jax(tables, arrays=None) -> list[fb.Table]:
    arrays = [jnp.asarray(weights) for weights, _ in tables] if arrays is None else arrays
    return [fb.Table(array, scope) for array, (_, scope) in zip(arrays, tables, strict=True)]


def names_of(tables) -> list[str]:
    return list(dict.fromkeys(name for _, scope in tables for name in scope))


def logs(factor: fb.Factor, names: list[str]) -> np.ndarray:
    log = factor.log()
    order = [name for name in names if name in factor.inputs]
    return np.transpose(np.asarray(log.array), [log.names.index(name) for name in order])


@pytest.mark.parametrize("seed", range(2))
def test_sums_maxima_and_marginals_are_those_of_numpy(seed) -> None:
    tables = random_tables(seed, 9, zeros=0.15 * (seed % 2))
    names = names_of(tables)
    kept = names[2:4]
    exact = [fb.Table(weights, scope) for weights, scope in tables]
    with fb.engine("scan"):
        for semiring in (fb.sum_product, fb.max_product):
            for summed in (names, [name for name in names if name not in kept]):
                ours = fb.eliminate(of_jax(tables), summed, semiring=semiring)
                theirs = exact_total(exact, summed, semiring)
                np.testing.assert_allclose(logs(ours, names), logs(theirs, names), rtol=2e-5, atol=2e-5)
    if float(exact_total(exact, names, fb.sum_product).log()) > -np.inf:
        with fb.engine("scan"):
            ours = fb.marginals(of_jax(tables), names)
        with fb.engine("rules"):
            theirs = fb.marginals(exact, names)
        for name in names:
            np.testing.assert_allclose(ours[name].weights, theirs[name].weights, rtol=2e-5, atol=1e-7)


def exact_total(tables: list[fb.Table], summed, semiring) -> fb.Factor:
    with fb.engine("rules"):
        return fb.eliminate(tables, summed, semiring=semiring)


def test_no_mass_is_the_error_of_the_rules() -> None:
    tables = [(np.array([[1.0, 0.0], [1.0, 0.0]]), ("a", "b")), (np.array([0.0, 1.0]), ("b",)), (np.ones(2), ("a",))]
    for engine in ("rules", "scan"):
        with fb.engine(engine), pytest.raises(DataError):
            fb.marginals(of_jax(tables), ("a", "b"))
    with fb.engine("scan"):
        assert float(fb.eliminate(of_jax(tables), ("a", "b"))) == 0.0


SIZE = 30


def larger(tables):
    """A few tables of at least four cells."""
    return [table for table in tables if table[0].size >= 4][::5]


@pytest.fixture(scope="module")
def long():
    """A plan of many steps, whose weights leave the range of single precision by far."""
    tables = random_tables(5, SIZE)
    for weights, _ in larger(tables):
        weights.reshape(-1)[1] = 0.0
    return [(weights * 1e-12, scope) for weights, scope in tables]


def test_long_plans_are_scanned_and_differentiated(long) -> None:
    names = names_of(long)
    exact = [fb.Table(weights, scope) for weights, scope in long]

    def log_evidence(arrays):
        with fb.engine("scan"):
            return fb.eliminate(of_jax(long, arrays), names).log().array

    def shares(arrays):
        with fb.engine("scan"):
            return [belief.weights for belief in fb.marginals(of_jax(long, arrays), names).values()]

    arrays = [jnp.asarray(weights, jnp.float32) for weights, _ in long]
    expected = float(exact_total(exact, names, fb.sum_product).log())
    assert expected < -400
    eager = float(log_evidence(arrays))
    value, slopes = jax.jit(jax.value_and_grad(log_evidence))(arrays)
    assert eager == pytest.approx(expected, rel=1e-6) == float(value) == float(log_evidence(arrays))
    with fb.engine("rules"):
        beliefs = fb.marginals(exact, names)
    for ours, name in zip(jax.jit(shares)(arrays), names, strict=True):
        np.testing.assert_allclose(ours, beliefs[name].weights, rtol=1e-4, atol=1e-6)
    # ∂ log Z / ∂ w = (Z with this cell alone) / Z, at weights of zero too.
    found_zero = False
    for weights, scope in larger(long):
        table = [scope for _, scope in long].index(scope)
        for at in np.ndindex(weights.shape):
            alone = np.zeros_like(weights)
            alone[at] = 1.0
            changed = [*exact[:table], fb.Table(alone, scope), *exact[table + 1 :]]
            part = float(exact_total(changed, names, fb.sum_product).log())
            np.testing.assert_allclose(slopes[table][at], np.exp(part - expected), rtol=1e-4)
            found_zero = found_zero or weights[at] == 0
    assert found_zero


SQUARES = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("b", "e"), ("f", "e"), ("f", "a")]


def log_evidence_of(engine, scopes):
    def log_evidence(weights, logs):
        with fb.engine(engine):
            tables = [
                fb.Table(w, scope) * fb.Table.from_log(log, scope)
                for w, log, scope in zip(weights, logs, scopes, strict=True)
            ]
            return fb.eliminate(tables, list(dict.fromkeys(name for scope in scopes for name in scope))).log().array

    return log_evidence


by_scan, by_rules = (log_evidence_of(engine, SQUARES) for engine in ("scan", "rules"))
slopes_by_scan, slopes_by_rules = (jax.jit(jax.value_and_grad(one, (0, 1))) for one in (by_scan, by_rules))


def squares_with_zeros(seed: int, spread: float) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights 0 and 1, and the logarithms of what they multiply, between ±spread/2."""
    random = np.random.default_rng(seed)
    logs = [spread * (random.random((3, 3)) - 0.5) for _ in SQUARES]
    return [(random.random((3, 3)) >= 0.35).astype(float) for _ in SQUARES], logs


def log_slopes(weights, logs) -> tuple[float, list[np.ndarray]]:
    """The evidence, and each ∂ log Z / ∂ w = (Z with this cell alone) / Z as a logarithm, summed over all cells."""
    index = np.indices((3,) * 6).reshape(6, -1)
    where = [tuple(index["abcdef".index(name)] for name in scope) for scope in SQUARES]
    with np.errstate(divide="ignore"):
        values = np.array([(np.log(w) + log)[at] for w, log, at in zip(weights, logs, where, strict=True)])
    evidence = np.logaddexp.reduce(values.sum(0))
    slopes = [np.full((3, 3), -np.inf) for _ in SQUARES]
    for k, at in enumerate(where):
        np.logaddexp.at(slopes[k], at, np.delete(values, k, 0).sum(0) + logs[k][at] - evidence)
    return evidence, slopes


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("spread", (1, 30, 300, 2000))
def test_slopes_beside_zeros_and_weights_far_apart(dtype, spread) -> None:
    greatest = np.log(np.finfo(dtype).max)
    with jax.enable_x64(dtype == np.float64):
        for seed in range(6):
            weights, logs = squares_with_zeros(seed, spread)
            evidence, expected = log_slopes(weights, logs)
            assert np.isfinite(evidence)
            arrays = [[jnp.asarray(one, dtype) for one in part] for part in (weights, logs)]
            value, (slopes, log_shares) = slopes_by_scan(*arrays)
            np.testing.assert_allclose(value, evidence, rtol=1e-5, atol=1e-5)
            rtol, atol = (2e-3, 1e-6) if dtype == np.float32 else (1e-8, 1e-12)
            for slope, share, log, w in zip(slopes, log_shares, expected, weights, strict=True):
                assert np.all(np.isfinite(slope)) and np.all(np.isfinite(share))
                is_given = w > 0
                np.testing.assert_allclose(slope[is_given], np.exp(log[is_given]), rtol=rtol, atol=atol)
                np.testing.assert_allclose(share, np.where(is_given, np.asarray(slope), 0.0), rtol=rtol, atol=atol)
                if 4 * spread < greatest:
                    np.testing.assert_allclose(slope, np.exp(log), rtol=rtol, atol=atol)
            if spread <= 30 and seed < 2:
                for ours, theirs in zip(slopes, slopes_by_rules(*arrays)[1][0], strict=True):
                    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)


def test_slopes_through_sums_of_zeros_alone() -> None:
    """A sum without mass keeps the scale of its derivative, though later weights bring it 1,500 nats back."""
    low, high = jnp.asarray([[-1500.0, -1500.0], [0.0, 0.0]]), jnp.asarray([[1500.0, 0.0], [0.0, 0.0]])
    weights = [jnp.asarray(one) for one in ([[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, 1.0]], [[1.0, 1.0]] * 2)]

    def log_evidence(first):
        return log_evidence_of("scan", [("a", "b"), ("a", "c"), ("a", "d")])(
            [first, *chosen], [low, jnp.zeros((2, 2)), high]
        )

    for others in (weights[1], jnp.ones((2, 2))):
        chosen = [others, weights[2]]
        slope = np.asarray(jax.grad(log_evidence)(weights[0]))
        # Z = 2 · 2 · 2; a cell at a = 0 alone: e⁻¹⁵⁰⁰ · Σ_c · (e¹⁵⁰⁰ + 1).
        np.testing.assert_allclose(slope, [[float(others[0].sum()) / 8] * 2, [0.5, 0.5]], rtol=1e-4)


def test_second_derivatives_beside_zeros_are_those_of_the_rules() -> None:
    with jax.enable_x64(True):
        weights, logs = squares_with_zeros(0, 3.0)
        arrays, others = ([jnp.asarray(one) for one in part] for part in (weights, logs))
        random = np.random.default_rng(3)
        moves = [jnp.asarray(random.normal(size=(2, 3, 3))) for _ in arrays]
        found = []
        for ask in (by_scan, by_rules):
            slope = jax.grad(lambda arrays, ask=ask: ask(arrays, others))
            turn = jax.jit(jax.vmap(lambda move, slope=slope: jax.jvp(slope, (arrays,), (move,))[1]))
            found.append(turn(moves))
        for ours, theirs in zip(*found, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_long_plans_are_scanned_without_being_asked(monkeypatch) -> None:
    tables = random_tables(7, 9)
    for least, engine in ((level_tables.LEAST_STEPS, "one compiled function"), (5, "few scans")):
        monkeypatch.setattr(level_tables, "LEAST_STEPS", least)
        assert engine in str(fb.explain(of_jax(tables), names_of(tables))).split("\n")[0]


def test_equations_grow_by_few_for_each_variable() -> None:
    """Those that make a table of an array, put it beside the others, and take its marginal out."""
    counts = {}
    for size in (40, 80):
        tables = random_tables(7, size)
        names = names_of(tables)
        arrays = [jnp.asarray(weights) for weights, _ in tables]

        def marginals(arrays, tables=tables, names=names):
            with fb.engine("scan"):
                return [belief.weights for belief in fb.marginals(of_jax(tables, arrays), names).values()]

        def log_evidence(arrays, tables=tables, names=names):
            with fb.engine("scan"):
                return fb.eliminate(of_jax(tables, arrays), names).log().array

        slope = jax.value_and_grad(log_evidence)
        counts[size] = [equations(jax.make_jaxpr(ask)(arrays)) for ask in (marginals, log_evidence, slope)]
    rest = [many - few for few, many in zip(counts[40], counts[80], strict=True)]
    assert [one / 40 < most for one, most in zip(rest, (20, 15, 25), strict=True)] == [True] * 3, counts


@pytest.mark.parametrize(
    "ask, message",
    [
        (lambda: fb.eliminate([fb.Table(np.ones((2, 2)), ("a", "b"))] * 2, ("a", "b")), "numbers of NumPy"),
        (lambda: fb.eliminate([fb.Table(jnp.ones((2, 3)), ("a", "i"))] * 2, {"a": ("i",)}, ("i",)), "multiply out"),
        (lambda: fb.eliminate([fb.Table(jnp.ones(2), ("a",))] * 2, ("a",), semiring=fb.counting), "the semiring"),
        (lambda: fb.marginals([fb.Table(jnp.ones((2, 2, 2)), tuple("abc"))] * 2, ("a", "b"), batch=("c",)), "a batch"),
    ],
)
def test_an_engine_that_cannot_serve_says_what_stops_it(ask, message) -> None:
    with fb.engine("scan"), pytest.raises(EngineError, match=message):
        ask()
