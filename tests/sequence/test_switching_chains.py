"""Switching linear dynamical systems: chains of a discrete and a real state under moment matching.

A window that covers the sequence is exact: compared with all paths of the switches, enumerated; by every question for
every kind of model in test_switching_grid, here of factors made of densities. Shorter windows are
compared with the same recursion (predict, match per window, update) written in NumPy.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import fubini as fb
from fubini import dist
from fubini.errors import DomainError, Intractable

STEP = {"s": "s_next", "x": "x_next"}


@dataclass(frozen=True)
class Model:
    """s₀ ~ pi, x₀ ~ N(m, V); s' ~ P[s], x' ~ N(A x + b, Q), y ~ N(C x' + d, R), each of these for each s'."""

    pi: Any
    P: Any
    m: Any
    V: Any
    A: Any
    b: Any
    Q: Any
    C: Any
    d: Any
    R: Any
    y: Any


def random_model(seed: int, length: int = 4, size: int = 1, switches: str = "both", states: int = 2) -> Model:
    """A model whose transition, observation or both depend on the switch."""
    rng = np.random.default_rng(seed)

    def each(shape: tuple, part: str, scale: float = 1.0) -> np.ndarray:
        count = states if switches in (part, "both") else 1
        return np.broadcast_to(rng.normal(size=(count, *shape)) * scale, (states, *shape)).copy()

    def positive(part: str) -> np.ndarray:
        root = each((size, size), part, 0.4)
        return root @ root.swapaxes(-1, -2) + 0.3 * np.eye(size)

    return Model(
        pi=rng.dirichlet(np.ones(states)),
        P=rng.dirichlet(2 * np.ones(states), states),
        m=rng.normal(size=size),
        V=0.7 * np.eye(size),
        A=each((size, size), "transition", 0.7),
        b=each((size,), "transition", 2.0),
        Q=positive("transition"),
        C=np.eye(size) + each((size, size), "observation", 0.3),
        d=each((size,), "observation"),
        R=positive("observation"),
        y=rng.normal(size=(length, size)) * 1.5,
    )


# -- oracles in NumPy -------------------------------------------------------------------------------------------------


def log_normal(at: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    gap = at - mean
    _, volume = np.linalg.slogdet(2 * math.pi * covariance)
    return float(-0.5 * (gap @ np.linalg.solve(covariance, gap) + volume))


def match(parts: Iterable[tuple]) -> tuple:
    """Log-mass, mean and covariance of a sum of weighted Gaussians."""
    logs, means, covariances = (np.array(data) for data in zip(*parts, strict=True))
    log = logsumexp(logs)
    share = np.exp(logs - log)
    mean = np.einsum("c,ci->i", share, means)
    gap = means - mean
    return log, mean, np.einsum("c,cij->ij", share, covariances + gap[:, :, None] * gap[:, None, :])


def grouped(parts: dict[tuple, tuple], window: int) -> dict[tuple, tuple]:
    """Matched for each value of the last `window` switches."""
    keys = sorted({path[-window:] for path in parts})
    return {key: match(part for path, part in parts.items() if path[-window:] == key) for key in keys}


def predicted(model: Model, parts: dict[tuple, tuple]) -> dict[tuple, tuple]:
    found = {}
    for path, (log, mean, covariance) in parts.items():
        for s in range(len(model.pi)):
            spread = model.A[s] @ covariance @ model.A[s].T + model.Q[s]
            found[(*path, s)] = (log + np.log(model.P[path[-1], s]), model.A[s] @ mean + model.b[s], spread)
    return found


def updated(model: Model, parts: dict[tuple, tuple], y: np.ndarray) -> dict[tuple, tuple]:
    found = {}
    for path, (log, mean, covariance) in parts.items():
        s = path[-1]
        centre, spread = model.C[s] @ mean + model.d[s], model.C[s] @ covariance @ model.C[s].T + model.R[s]
        gain = np.linalg.solve(spread, model.C[s] @ covariance).T
        after = (mean + gain @ (y - centre), covariance - gain @ model.C[s] @ covariance)
        found[path] = (log + log_normal(y, centre, spread), *after)
    return found


def projected_scan(model: Model, window: int, late: bool = False) -> list[dict[tuple, tuple]]:
    """What is known after each step for the last `window` switches; matched before the update, or after it (late)."""
    parts = {(s,): (np.log(p), model.m, model.V) for s, p in enumerate(model.pi)}
    every = []
    for y in model.y:
        parts = predicted(model, parts)
        parts = grouped(updated(model, parts, y), window) if late else updated(model, grouped(parts, window), y)
        every.append(parts)
    return every


def filtered(every: list[dict[tuple, tuple]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p(s), mean and covariance given s, after each step."""
    rows = [grouped(parts, 1) for parts in every]
    logs, means, covariances = (np.array([[row[k][i] for k in sorted(row)] for row in rows]) for i in range(3))
    return np.exp(logs - logsumexp(logs, axis=1, keepdims=True)), means, covariances


def evidence(every: list[dict[tuple, tuple]]) -> float:
    return float(logsumexp([part[0] for part in every[-1].values()]))


def all_paths(model: Model, seen: Iterable[int] | None = None) -> dict[tuple, tuple]:
    """For each path of switches: its log-weight with the data, mean and covariance of (x₀, …, x_T) given the data.

    Of the data those of the steps `seen`, or all.
    """
    states, length, size = len(model.pi), len(model.y), len(model.m)
    found = {}
    for path in itertools.product(range(states), repeat=length + 1):
        log = np.log(model.pi[path[0]]) + sum(np.log(model.P[a, b]) for a, b in itertools.pairwise(path))
        mean, covariance = model.m, model.V
        for s in path[1:]:  # the joint prior of all x grows by one block
            reach = np.zeros((size, len(mean)))
            reach[:, -size:] = model.A[s]
            across = reach @ covariance
            covariance = np.block([[covariance, across.T], [across, across @ reach.T + model.Q[s]]])
            mean = np.concatenate([mean, reach @ mean + model.b[s]])
        H = np.zeros((length * size, (length + 1) * size))
        noise = np.zeros((length * size,) * 2)
        for t, s in enumerate(path[1:]):
            rows = slice(t * size, (t + 1) * size)
            H[rows, (t + 1) * size : (t + 2) * size] = model.C[s]
            noise[rows, rows] = model.R[s]
        known = np.repeat([seen is None or t in seen for t in range(length)], size)
        H, noise = H[known], noise[np.ix_(known, known)]
        centre = H @ mean + np.concatenate([model.d[s] for s in path[1:]])[known]
        spread = H @ covariance @ H.T + noise
        gain = np.linalg.solve(spread, H @ covariance).T
        y = model.y.ravel()[known]
        log = log + log_normal(y, centre, spread)
        found[path] = (log, mean + gain @ (y - centre), covariance - gain @ H @ covariance)
    return found


def smoothed(model: Model, t: int, seen: Iterable[int] | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p(s_t), mean and covariance of x_t given s_t, from all paths; t = 0 is before the first step."""
    size = len(model.m)
    at = slice(t * size, (t + 1) * size)
    parts = {
        (*path, path[t]): (log, mean[at], cov[at, at]) for path, (log, mean, cov) in all_paths(model, seen).items()
    }
    row = grouped(parts, 1)
    logs, means, covariances = (np.array([row[k][i] for k in sorted(row)]) for i in range(3))
    return np.exp(logs - logsumexp(logs)), means, covariances


def test_the_oracles_agree() -> None:
    """The recursion with a window over everything is the enumeration of paths, however late it would match."""
    model = random_model(0, length=3, size=2)
    exact = logsumexp([log for log, *_ in all_paths(model).values()])
    assert evidence(projected_scan(model, 4)) == pytest.approx(exact, abs=1e-12)
    assert evidence(projected_scan(model, 4, late=True)) == pytest.approx(exact, abs=1e-12)
    for mine, want in zip(filtered(projected_scan(model, 4)), smoothed(model, 3), strict=True):
        np.testing.assert_allclose(mine[-1], want, rtol=1e-10)


# -- the chain ---------------------------------------------------------------------------------------------------------


def factors(model: Model, switches: str = "both", engine: Callable = np.asarray) -> tuple[fb.Factor, fb.Factor]:
    """The start and the step; a part that does not switch is the same array for all."""
    size = len(model.m)
    domain = fb.Real if size == 1 else fb.Reals[size]
    x, x_next = fb.Variable("x", domain), fb.Variable("x_next", domain)

    def of(data: Any, part: str) -> Any:
        data = engine(data)
        data = data.reshape(data.shape[:1]) if size == 1 else data
        return fb.Array(data, ("s_next",)) if switches in (part, "both") else fb.Array(data[0], ())

    def normal(loc: Any, spread: Any) -> Any:
        return dist.Normal(loc, fb.ops.sqrt(spread)) if size == 1 else dist.MultivariateNormal(loc, spread)

    def times(matrix: Any, vector: Any) -> Any:
        return matrix * vector if size == 1 else matrix @ vector

    A, b, Q = (of(data, "transition") for data in (model.A, model.b, model.Q))
    C, d, R = (of(data, "observation") for data in (model.C, model.d, model.R))
    y = engine(model.y)
    y = fb.Array(y[:, 0] if size == 1 else y, ("t",))
    first = (
        dist.Normal(engine(model.m[0]), engine(np.sqrt(model.V[0, 0])))
        if size == 1
        else dist.MultivariateNormal(engine(model.m), engine(model.V))
    )
    init = fb.Table(engine(model.pi), ("s",)) * first("x")
    step = fb.Table(engine(model.P), ("s", "s_next")) * normal(times(A, x) + b, Q)("x_next")
    return init, step * normal(times(C, x_next) + d, R)(y)


def chain_of(model: Model, switches: str = "both", engine: Callable = np.asarray, **options: Any) -> fb.Chain:
    init, step = factors(model, switches, engine)
    return fb.Chain(init=init, factor=step, time="t", step=STEP, **options)


def answers(found: fb.Factor, switch: str = "s_next", state: str = "x_next") -> tuple[Any, Any, Any]:
    """p(s), mean and covariance given s."""
    mean = found.mean(state).data
    scalar = found.inputs[state] == fb.Real
    spread = found.variance(state).data[..., None, None] if scalar else found.covariance(state).data
    weights = np.exp(found.sum(state).log().data)
    return weights, mean[..., None] if scalar else mean, spread


def assert_answers(found: fb.Factor, want: Iterable, tight: float = 1e-8, **names: str) -> None:
    for mine, right in zip(answers(found, **names), want, strict=True):
        np.testing.assert_allclose(mine, right, rtol=tight, atol=tight)


def mark(window: int) -> str:
    return f"projected(moment_matching(window={window}))"


# -- a window over everything is exact ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_evidence_and_filter_of_a_whole_window() -> None:
    """They are those of all paths; every result says that it is projected."""
    model = random_model(1)
    with fb.moment_matching(window=5):
        chain = chain_of(model)
        log, found, last = chain.log_evidence(), chain.filter(), chain.final()
    assert float(log) == pytest.approx(logsumexp([part[0] for part in all_paths(model).values()]), abs=1e-9)
    assert isinstance(log.data, (np.ndarray, np.float64)) and log.data.dtype == np.float64
    assert type(found) is fb.Gaussian and set(found.inputs) == {"t", "s_next", "x_next"}
    for t in range(4):
        before = replace(model, y=model.y[: t + 1])
        assert_answers(found(t=t), smoothed(before, t + 1))
    assert set(last.inputs) == {"s", "x"}
    assert_answers(last, smoothed(model, 4), switch="s", state="x")
    for result in (log, found, last):
        assert result.exactness.marks == (mark(5),)


@pytest.mark.parametrize(
    ("length", "switches"),
    [
        (1, "transition"),
        (2, "observation"),
        pytest.param(5, "both", marks=pytest.mark.slow),
    ],
)
def test_lengths_and_switches(length: int, switches: str) -> None:
    """Evidence of 1, 2 and 5 steps, with the switch in the transition, in the observation, or in both."""
    model = random_model(10 + length, length=length, switches=switches)
    with fb.moment_matching(window=length + 1):
        log = chain_of(model, switches).log_evidence()
    assert float(log) == pytest.approx(logsumexp([part[0] for part in all_paths(model).values()]), abs=1e-9)


@pytest.mark.slow
def test_vector_states() -> None:
    """States in ℝ², the switch in the observation: evidence and filter of all paths."""
    model = random_model(20, length=2, size=2, switches="observation")
    with fb.moment_matching(window=3):
        chain = chain_of(model, "observation")
        log, found = chain.log_evidence(), chain.filter()
    assert float(log) == pytest.approx(logsumexp([part[0] for part in all_paths(model).values()]), abs=1e-9)
    for t in range(2):
        assert_answers(found(t=t), smoothed(replace(model, y=model.y[: t + 1]), t + 1))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["power", "mask"])
def test_missing_observations(how: str) -> None:
    """A likelihood to the power of a mask, or a masked density: as if these steps had not been seen."""
    model, seen = random_model(70, length=3), (0, 2)
    present = np.isin(np.arange(3), seen)
    data = np.where(present, model.y[:, 0], 99.0)
    init, step = factors(replace(model, y=np.zeros((1, 1))))
    *others, _ = step.terms
    x_next = fb.Variable("x_next", fb.Real)
    C, d, R = (fb.Array(part.reshape(2), ("s_next",)) for part in (model.C, model.d, model.R))
    normal, at = dist.Normal(C * x_next + d, fb.ops.sqrt(R)), fb.Array(data, ("t",))
    if how == "power":
        likelihood = normal(at) ** fb.Array(present.astype(float), ("t",))
    else:
        likelihood = normal.mask(fb.Array(present, ("t",)))(at)
    step = reduce(lambda a, b: a * b, [*others, likelihood])
    with fb.moment_matching(window=4):
        chain = fb.Chain(init=init, factor=step, time="t", step=STEP)
        log, last = chain.log_evidence(), chain.final()
    want = logsumexp([part[0] for part in all_paths(model, seen).values()])
    assert float(log) == pytest.approx(want, abs=1e-8)
    assert_answers(last, smoothed(model, 3, seen), switch="s", state="x")
    if how == "power":
        with fb.moment_matching(window=4):
            found = chain.smooth()
        for t in range(3):
            assert_answers(found(t=t), smoothed(model, t + 1, seen))


@pytest.mark.slow
def test_forecast() -> None:
    """The last states start a chain of steps that are not seen: as all paths of the longer chain say."""
    model, seen = random_model(80, length=4), (0, 1)
    with fb.moment_matching(window=3):
        last = chain_of(replace(model, y=model.y[:2])).final()
    _, step = factors(model)
    *ahead, _ = step.terms
    with fb.moment_matching(window=3):
        chain = fb.Chain(init=last, factor=reduce(lambda a, b: a * b, ahead), time="t", step=STEP, length=2)
        log, found = chain.log_evidence(), chain.filter()
    assert float(log) == pytest.approx(0.0, abs=1e-9)
    for t in range(2):
        assert_answers(found(t=t), smoothed(model, t + 3, seen))


# -- shorter windows ---------------------------------------------------------------------------------------------------

WINDOWS = [1, *(pytest.param(window, marks=pytest.mark.slow) for window in (2, 3))]


@lru_cache
def evidence_of(seed: int, window: int) -> float:
    with fb.moment_matching(window=window):
        return float(chain_of(random_model(seed)).log_evidence())


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("seed", [108, 123, 126])  # those of the thirty below that are the farthest from exact
def test_evidence_of_a_window(seed: int, window: int) -> None:
    """Predict, match for each window, update: a recursion in NumPy. It differs from the exact evidence."""
    model = random_model(seed)
    want = evidence(projected_scan(model, window))
    assert evidence_of(seed, window) == pytest.approx(want, abs=1e-9)
    assert abs(want - evidence(projected_scan(model, 5))) > 1e-5


@pytest.mark.parametrize("window", WINDOWS)
def test_filter_of_a_window(window: int) -> None:
    """Switch probabilities, means and variances after every step are those of the recursion in NumPy."""
    for seed in (108, 123, 126):
        model = random_model(seed)
        with fb.moment_matching(window=window):
            found = chain_of(model).filter()
        assert found.exactness.marks == (mark(window),)
        assert_answers(found, filtered(projected_scan(model, window)))


@pytest.mark.slow
def test_longer_windows_are_better_on_average() -> None:
    """The mean error of the log-evidence over thirty models falls with the window."""
    exact = [evidence(projected_scan(random_model(seed), 5)) for seed in range(100, 130)]
    errors = [
        np.mean(np.abs(np.array([evidence_of(seed, window) for seed in range(100, 130)]) - exact))
        for window in (1, 2, 3)
    ]
    assert errors[0] > 2 * errors[1] > 4 * errors[2] > 0


@pytest.mark.slow
def test_smoother_of_a_window_is_near() -> None:
    """Of window 1: its last time is that of the filter; the others are near the exact smoother."""
    model = random_model(1)
    with fb.moment_matching(window=1):
        found = chain_of(model).smooth()
    assert_answers(found(t=3), [part[3] for part in filtered(projected_scan(model, 1))])
    np.testing.assert_allclose(answers(found)[0].sum(axis=1), 1.0, rtol=1e-12)
    for t in range(4):
        exact = smoothed(model, t + 1)
        np.testing.assert_allclose(answers(found(t=t))[0], exact[0], atol=0.1)
        np.testing.assert_allclose(answers(found(t=t))[1], exact[1], atol=0.4)


# -- the bare product --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 5])
def test_a_bare_product_keeps_the_window(window: int) -> None:
    """Σ over the first states of init · Π_t f: mass, mean and covariance for each last switch, marked as projected."""
    model = random_model(108)
    init, step = factors(model)
    with fb.moment_matching(window=window):
        found = fb.eliminate([init, fb.markov(step, time="t", step=STEP)], ("s", "x"))
    assert type(found) is fb.Gaussian and set(found.inputs) == {"s_next", "x_next"}
    assert found.exactness.marks == (mark(window),)
    last = grouped(projected_scan(model, window)[-1], 1)
    masses, means, spreads = (np.array([last[key][part] for key in sorted(last)]) for part in range(3))
    assert_answers(found, (np.exp(masses), means, spreads))
    if window == 5:  # nothing is forgotten: all paths
        share, *moments = smoothed(model, 4)
        total = logsumexp([part[0] for part in all_paths(model).values()])
        assert_answers(found, (share * np.exp(total), *moments))


@pytest.mark.parametrize("window", [1, 5])
def test_a_bare_product_summed_to_a_number(window: int) -> None:
    """All states summed at once, by the dot or by a plan: the evidence of the window, and never called exact."""
    model = random_model(123)
    init, step = factors(model)
    want = evidence(projected_scan(model, window))
    with fb.moment_matching(window=window):
        middle = fb.markov(step, time="t", step=STEP)
        asked = [
            (init * middle).sum("s", "x", "s_next", "x_next"),
            fb.eliminate([middle, init], ("x_next", "s_next", "x", "s")),
        ]
    for found in asked:
        assert float(found.log()) == pytest.approx(want, abs=1e-9)
        assert found.exactness.marks == (mark(window),)


@pytest.mark.parametrize("window", [1, 5])
def test_moment_matching_inside_of_monte_carlo(window: int) -> None:
    """The inner context is in force: chains and products are projected, not drawn, and nothing is estimated."""
    model = random_model(126)
    init, step = factors(model)
    want = evidence(projected_scan(model, window))
    with fb.monte_carlo(jax.random.key(0), 10), fb.moment_matching(window=window):
        chain = fb.Chain(init=init, factor=step, time="t", step=STEP)
        asked = [
            chain.log_evidence(),
            fb.eliminate([init, fb.markov(step, time="t", step=STEP)], ("s", "x", "s_next", "x_next")).log(),
        ]
    for found in asked:
        assert float(found) == pytest.approx(want, abs=1e-9)
        assert found.exactness.marks == (mark(window),)


# -- derivatives, widths of numbers, methods --------------------------------------------------------------------------


@pytest.mark.slow
def test_gradients_of_the_evidence() -> None:
    """Of window 1, in every parameter: central differences of the recursion in NumPy."""
    model = random_model(2)
    names = ["P", "b", "A", "R", "y"]

    def log_evidence(changed: dict) -> Any:
        with fb.moment_matching(window=1):
            return chain_of(replace(model, **changed), engine=jnp.asarray).log_evidence().data

    at = {name: getattr(model, name) for name in names}
    with jax.enable_x64(True):
        found = jax.jit(jax.grad(log_evidence))({name: jnp.asarray(data) for name, data in at.items()})
        found = {name: np.asarray(data) for name, data in found.items()}
    for name in names:
        want = np.zeros_like(at[name])
        for place in np.ndindex(want.shape):
            for sign in (1, -1):
                moved = at[name].copy()
                moved[place] += sign * 1e-5
                want[place] += sign * evidence(projected_scan(replace(model, **{name: moved}), 1)) / 2e-5
        np.testing.assert_allclose(found[name], want, rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.slow
def test_float32() -> None:
    """Single width in is single width out, right to its precision, under jit too."""
    model = random_model(3)

    @jax.jit
    def log_evidence(y: Any) -> Any:
        with fb.moment_matching(window=1):
            return chain_of(replace(model, y=y), engine=lambda data: jnp.asarray(data, jnp.float32)).log_evidence().data

    found = log_evidence(jnp.asarray(model.y, jnp.float32))
    assert found.dtype == jnp.float32
    assert float(found) == pytest.approx(evidence(projected_scan(model, 1)), abs=2e-4)


def test_without_a_projection() -> None:
    """Outside of the context the first step makes a mixture: the error names what to write."""
    with pytest.raises(Intractable, match=r"with fb\.moment_matching\(window=1\)") as caught:
        chain_of(random_model(1)).log_evidence()
    assert "Mixture" in str(caught.value)


@pytest.mark.parametrize("method", ["parallel", "chunks"])
def test_methods_under_a_projection(method: str) -> None:
    """A projection after each step is not associative: only one step after another will do."""
    with pytest.raises(DomainError, match="not associative") as caught, fb.moment_matching(window=1):
        chain_of(random_model(1), method=method).log_evidence()
    assert f"method='{method}'" in str(caught.value) and "leave method= out" in str(caught.value)


def test_method_asked_before_the_projection() -> None:
    """A chain made outside of the context is asked inside of it: the same error, from the question."""
    chain = chain_of(random_model(1), method="parallel")
    with pytest.raises(DomainError, match="not associative"), fb.moment_matching():
        chain.filter()


def test_sequential_under_a_projection() -> None:
    """Asked for by name it is the same as when it is chosen; the chain says which it takes."""
    with fb.moment_matching(window=1):
        chain = chain_of(random_model(1), method="sequential")
        assert "sequential" in repr(chain)
        assert float(chain.log_evidence()) == pytest.approx(evidence_of(1, 1), abs=1e-12)


def test_chains_of_one_kind_are_not_projected() -> None:
    """A discrete chain and a Kalman filter inside of the context are exact, unmarked, and as outside of it."""
    model = random_model(1)
    table = fb.Table(model.P, ("s", "s_next")) * fb.Table(np.abs(np.tile(model.y, (1, 2))), ("t", "s_next"))
    hmm = fb.Chain(init=fb.Table(model.pi, ("s",)), factor=table, time="t", step={"s": "s_next"})
    x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    kalman = fb.Chain(
        init=dist.Normal(0.0, 1.0)("x"),
        factor=dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(fb.Array(model.y[:, 0], ("t",))),
        time="t",
        step={"x": "x_next"},
    )
    for chain in (hmm, kalman):
        outside = float(chain.log_evidence())
        with fb.moment_matching(window=2):
            inside = chain.log_evidence()
        assert inside.exactness.is_exact and float(inside) == pytest.approx(outside, abs=1e-12)
