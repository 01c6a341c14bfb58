"""Expectation–maximisation against recursions that are written out here, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from numpyro.distributions import constraints

import fubini as fb
from fubini import dist
from fubini.errors import DomainError, Intractable, UnknownName

K, T = 3, 60
Numbers = tuple[np.ndarray, ...]


def start_of_hmm() -> Numbers:
    """Probabilities of the first state and of moves, means and scales."""
    rng = np.random.default_rng(1)
    return rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), size=K), np.array([-1.0, 0.0, 1.0]), np.ones(K)


def baum_welch(numbers: Numbers, y: np.ndarray, steps: int) -> tuple[list[float], Numbers]:
    """Rabiner 1989, eqs. 40 and 53, by the scaled recursions of eqs. 91 to 97; the first state is not observed.

    What is NaN was not seen.
    """
    present = ~np.isnan(y)
    y = np.where(present, y, 0.0)
    pi, A, mu, s = numbers
    history = []
    for _ in range(steps):
        B = np.exp(-0.5 * ((y[..., None] - mu) / s) ** 2) / (s * np.sqrt(2 * np.pi))
        B = np.where(present[..., None], B, 1.0)
        first, moves, states, total = np.zeros(K), np.zeros((K, K)), np.zeros((*y.shape, K)), 0.0
        for sequence, seen in enumerate(B):
            alpha, beta, c = [pi], [np.ones(K)], []
            for t in range(len(seen)):
                ahead = (alpha[-1] @ A) * seen[t]
                c.append(ahead.sum())
                alpha.append(ahead / c[-1])
            for t in reversed(range(len(seen))):
                beta.insert(0, A @ (seen[t] * beta[0]) / c[t])
            together = [a * b for a, b in zip(alpha, beta, strict=True)]
            first += together[0]
            moves += sum(alpha[t][:, None] * A * (seen[t] * beta[t + 1]) / c[t] for t in range(len(seen)))
            states[sequence] = together[1:]
            total += np.log(c).sum()
        history.append(total)
        pi, A = first / first.sum(), moves / moves.sum(1, keepdims=True)
        states = states * present[..., None]
        n = states.sum((0, 1))
        mu = (states * y[..., None]).sum((0, 1)) / n
        s = np.sqrt((states * (y[..., None] - mu) ** 2).sum((0, 1)) / n)
    return history, (pi, A, mu, s)


def hmm(numbers: Numbers, y: Any) -> fb.Chain:
    """Several sequences of one hidden Markov model."""
    pi, A, mu, s = numbers
    first, moves = fb.param(pi, fb.Simplex, name="first"), fb.param(A, fb.Simplex, name="moves")
    means, scales = fb.param(mu, name="means"), fb.param(s, fb.Positive, name="scales")
    x, after = fb.Variable("x", fb.Bint[K]), fb.Variable("x_next", fb.Bint[K])
    emission = dist.Normal(means[after], scales[after])
    if np.isnan(y).any():
        emission, y = emission.mask(fb.Array(~np.isnan(y), ("b", "t"))), np.nan_to_num(y)
    step = dist.Categorical(moves[x])("x_next") * emission(fb.Array(y, ("b", "t")))
    return fb.Chain(init=dist.Categorical(first)("x"), factor=step, time="t", step={"x": "x_next"})


def compare(fitted: Any, history: list[float], numbers: Numbers, near: float = 1e-8) -> None:
    """The objectives and the parameters after as many steps."""
    np.testing.assert_allclose(fitted.history, history, rtol=near)
    for own, wanted in zip(fitted.params.values(), numbers, strict=True):
        np.testing.assert_allclose(own, wanted, rtol=near, atol=near)


def sequences(count: int = 2) -> np.ndarray:
    """Data of a model with three states."""
    rng = np.random.default_rng(0)
    states = np.cumsum(rng.random((count, T)) < 0.2, axis=1) % K
    return np.array([-2.0, 0.0, 2.0])[states] + 0.7 * rng.normal(size=(count, T))


def test_a_chain_of_tables_is_moved_as_by_baum_and_welch() -> None:
    y, start = sequences(), start_of_hmm()
    fitted = fb.fit(hmm(start, y), method="em", steps=8, progress=False)
    compare(fitted, *baum_welch(start, y, 8))
    assert list(fitted.params) == ["first", "moves", "means", "scales"]
    assert (np.diff(fitted.history) >= 0).all()


def test_tracks_of_harbour_seals(data: Path) -> None:
    """Logarithms of the lengths of steps of 17 seals: tracks of different lengths, some steps of which are missing."""
    table = np.genfromtxt(data / "harbour_seals" / "seal_steps_2h.csv.gz", delimiter=",", names=True, encoding=None)
    tracks = [np.log(table["step_m"][table["id"] == seal][:300]) for seal in np.unique(table["id"])]
    y = np.full((len(tracks), 300), np.nan)
    for row, track in enumerate(tracks):
        y[row, : len(track)] = np.where(np.isfinite(track), track, np.nan)
    assert np.isnan(y).any()
    moves = 0.1 + 0.7 * np.eye(K)
    start = np.full(K, 1 / K), moves / moves.sum(1, keepdims=True), np.array([3.0, 5.0, 8.0]), np.ones(K)
    fitted = fb.fit(hmm(start, y), method="em", steps=4, tolerance=-1.0, progress=False)
    compare(fitted, *baum_welch(start, y, 4))
    assert (np.diff(fitted.history) >= 0).all()


def test_single_precision() -> None:
    y, start = sequences(), start_of_hmm()
    given = tuple(jnp.asarray(each, jnp.float32) for each in start)
    fitted = fb.fit(hmm(given, jnp.asarray(y, jnp.float32)), method="em", steps=4, progress=False)
    compare(fitted, *baum_welch(start, y, 4), near=2e-4)
    assert all(value.dtype == np.float32 for value in fitted.params.values())


def kalman_em(A: np.ndarray, Q: np.ndarray, C: np.ndarray, R: np.ndarray, y: np.ndarray, steps: int) -> Any:
    """Shumway and Stoffer 1982, eqs. 9 to 14, by a covariance filter; the first state is N(0, I) and stays so."""
    d, history = len(A), []
    for _ in range(steps):
        m, P, total = [np.zeros(d)], [np.eye(d)], 0.0
        predicted = []
        for seen in y:
            ahead, V = A @ m[-1], A @ P[-1] @ A.T + Q
            S = C @ V @ C.T + R
            off = seen - C @ ahead
            total -= 0.5 * (off @ np.linalg.solve(S, off) + np.linalg.slogdet(2 * np.pi * S)[1])
            gain = V @ C.T @ np.linalg.inv(S)
            m.append(ahead + gain @ off)
            P.append(V - gain @ S @ gain.T)
            predicted.append(V)
        ms, Ps, cross = [m[-1]], [P[-1]], []
        for t in reversed(range(len(y))):
            J = P[t] @ A.T @ np.linalg.inv(predicted[t])
            cross.insert(0, J @ Ps[0])
            ms.insert(0, m[t] + J @ (ms[0] - A @ m[t]))
            Ps.insert(0, P[t] + J @ (Ps[0] - predicted[t]) @ J.T)
        history.append(total)
        second = [P_ + np.outer(m_, m_) for m_, P_ in zip(ms, Ps, strict=True)]
        before, after = sum(second[:-1]), sum(second[1:])
        lagged = sum(x + np.outer(a, b) for x, a, b in zip(cross, ms[:-1], ms[1:], strict=True))  # E x_t x_{t+1}ᵀ
        A = lagged.T @ np.linalg.inv(before)
        Q = (after - A @ lagged - lagged.T @ A.T + A @ before @ A.T) / len(y)
        Q = (Q + Q.T) / 2
        outer = sum(np.outer(seen, mean) for seen, mean in zip(y, ms[1:], strict=True))
        C = outer @ np.linalg.inv(after)
        R = (y.T @ y - C @ outer.T - outer @ C.T + C @ after @ C.T) / len(y)
        R = (R + R.T) / 2
    return history, (A, Q, C, R)


def test_a_chain_of_gaussians_is_moved_as_by_shumway_and_stoffer() -> None:
    rng = np.random.default_rng(2)
    y = np.cumsum(rng.normal(size=(T, 2)), axis=0) * 0.3 + rng.normal(size=(T, 2))
    start = (np.array([[0.9, 0.1], [0.0, 0.8]]), np.eye(2), np.array([[1.0, 0.2], [0.1, 1.0]]), 0.5 * np.eye(2))
    A, C = fb.param(start[0], name="A"), fb.param(start[2], name="C")
    Q, R = (fb.param(start[i], fb.PositiveDefinite, name=name) for i, name in ((1, "Q"), (3, "R")))
    x, after = fb.Variable("x", fb.Reals[2]), fb.Variable("x_next", fb.Reals[2])
    move = dist.MultivariateNormal(A @ x, covariance_matrix=Q)("x_next")
    seen = dist.MultivariateNormal(C @ after, covariance_matrix=R)(fb.Array(y, ("t",)))
    init = dist.MultivariateNormal(np.zeros(2), covariance_matrix=np.eye(2))("x")
    chain = fb.Chain(init=init, factor=move * seen, time="t", step={"x": "x_next"})
    fitted = fb.fit(chain, method="em", steps=6, progress=False)
    history, (A1, Q1, C1, R1) = kalman_em(*start, y, 6)
    np.testing.assert_allclose(fitted.history, history, rtol=1e-8)
    for name, wanted in (("A", A1), ("Q", Q1), ("C", C1), ("R", R1)):
        np.testing.assert_allclose(fitted.params[name], wanted, rtol=1e-8, atol=1e-8)
    assert (np.diff(fitted.history) >= 0).all()


# -- models ---------------------------------------------------------------------------------------------------------


@fb.model
def hmm_model(first: Any, moves: Any, means: Any, scales: Any) -> Any:
    """The same chain as a site; its first state is seen too."""
    x = yield dist.Markov(dist.Categorical(first), lambda x: dist.Categorical(moves[x]), T)
    y = yield dist.Normal(means[x], scales[x])
    return y


def test_a_chain_in_a_model_is_moved_as_the_chain() -> None:
    y, (pi, A, mu, s) = sequences(1)[0], start_of_hmm()
    pi = pi / pi.sum()
    given = fb.param(pi, fb.Simplex), fb.param(A, fb.Simplex), fb.param(mu), fb.param(s, fb.Positive)
    fitted = fb.fit(hmm_model(*given).condition(y=y), method="em", steps=3, progress=False)
    x = fb.Variable("x", fb.Bint[K])
    first, moves = fb.param(pi, fb.Simplex, name="first"), fb.param(A, fb.Simplex, name="moves")
    means, scales = fb.param(mu, name="means"), fb.param(s, fb.Positive, name="scales")
    after = fb.Variable("x_next", fb.Bint[K])
    init = dist.Categorical(first)("x") * dist.Normal(means[x], scales[x])(y[0])
    step = dist.Categorical(moves[x])("x_next") * dist.Normal(means[after], scales[after])(fb.Array(y[1:], ("t",)))
    chain = fb.Chain(init=init, factor=step, time="t", step={"x": "x_next"})
    same = fb.fit(chain, method="em", steps=3, progress=False)
    np.testing.assert_allclose(fitted.history, same.history, rtol=1e-10)
    for name, wanted in same.params.items():
        np.testing.assert_allclose(fitted.params[name], wanted, rtol=1e-8, atol=1e-10)


def test_real_states_in_a_model_are_moved_as_the_chain() -> None:
    """A slope that is a parameter; one that the density does not read stays as it was."""

    @fb.model
    def walk(slope: Any, noise: Any, unread: Any) -> Any:
        x = yield dist.Markov(dist.Normal(0.0, 1.0), lambda x: dist.Normal(slope * x, noise), 20)
        y = yield dist.Normal(x, 1.0)
        return y

    y = np.random.default_rng(0).normal(size=20).cumsum()
    given = fb.param(0.5), fb.param(1.0, fb.Positive), fb.param(7.0)
    fitted = fb.fit(walk(*given).condition(y=y), method="em", steps=3, progress=False)
    x, after = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    slope, noise = fb.param(0.5, name="slope"), fb.param(1.0, fb.Positive, name="noise")
    init = dist.Normal(0.0, 1.0)("x") * dist.Normal(x, 1.0)(y[0])
    step = dist.Normal(slope * x, noise)("x_next") * dist.Normal(after, 1.0)(fb.Array(y[1:], ("t",)))
    same = fb.fit(
        fb.Chain(init=init, factor=step, time="t", step={"x": "x_next"}), method="em", steps=3, progress=False
    )
    np.testing.assert_allclose(fitted.history, same.history, rtol=1e-10)
    for name, wanted in same.params.items():
        np.testing.assert_allclose(fitted.params[name], wanted, rtol=1e-8)
    assert fitted.params["unread"] == 7.0


def mixture_of(rows: int) -> Any:
    """Labels of rows, each with a normal of its own."""

    @fb.model
    def mixture(weights: Any, means: Any, scales: Any) -> Any:
        z = yield dist.Categorical(weights).expand([rows])
        y = yield dist.Normal(means[z], scales[z])
        return y

    return mixture


def mixture_params() -> tuple:
    """A start for three components."""
    return fb.param(np.ones(3) / 3, fb.Simplex), fb.param(np.array([-1.0, 0.0, 1.0])), fb.param(np.ones(3), fb.Positive)


def mixture_data(rows: int) -> np.ndarray:
    """Three components that overlap."""
    rng = np.random.default_rng(0)
    z = rng.choice(3, p=[0.5, 0.3, 0.2], size=rows)
    return np.array([-2.0, 0.5, 3.0])[z] + np.array([0.7, 0.9, 0.5])[z] * rng.normal(size=rows)


def test_a_mixture_is_moved_as_written_by_hand() -> None:
    y = mixture_data(80)
    fitted = fb.fit(mixture_of(80)(*mixture_params()).condition(y=y), method="em", steps=6, progress=False)
    w, mu, s, history = np.ones(3) / 3, np.array([-1.0, 0.0, 1.0]), np.ones(3), []
    for _ in range(6):
        weights = w * np.exp(-0.5 * ((y[:, None] - mu) / s) ** 2) / (s * np.sqrt(2 * np.pi))
        history.append(np.log(weights.sum(1)).sum())
        shares = weights / weights.sum(1, keepdims=True)
        n = shares.sum(0)
        w, mu = n / len(y), (shares * y[:, None]).sum(0) / n
        s = np.sqrt((shares * (y[:, None] - mu) ** 2).sum(0) / n)
    compare(fitted, history, (w, mu, s))


def test_probabilities_are_moved_as_written_by_hand() -> None:
    """Three features of each row, of two classes: means of the rows, each by its share."""
    rng = np.random.default_rng(5)
    y = (rng.random((60, 3)) < np.where(rng.random((60, 1)) < 0.4, 0.2, 0.7)).astype(int)
    w, p = np.array([0.5, 0.5]), np.array([[0.3, 0.4, 0.2], [0.6, 0.5, 0.8]])

    @fb.model
    def classes(weights: Any, chances: Any) -> Any:
        z = yield dist.Categorical(weights).expand([60])
        y = yield dist.Bernoulli(chances[z]).to_event(1)
        return y

    start = classes(fb.param(w, fb.Simplex), fb.param(p, fb.Unit))
    fitted = fb.fit(start.condition(y=y), method="em", steps=4, tolerance=-1.0, progress=False)
    for _ in range(4):
        each = w * np.prod(np.where(y[:, None] == 1, p, 1 - p), axis=2)
        shares = each / each.sum(1, keepdims=True)
        w, p = shares.mean(0), (shares.T @ y) / shares.sum(0)[:, None]
    np.testing.assert_allclose(fitted.params["weights"], w, rtol=1e-8)
    np.testing.assert_allclose(fitted.params["chances"], p, rtol=1e-8)


@pytest.mark.parametrize("support", ["interval", "ordered"])
def test_means_within_any_support(support: str) -> None:
    """Those of one step without a support, as near as the support lets them come."""
    y = mixture_data(80)
    weights, at, scales = np.ones(3) / 3, np.array([-0.9, 0.1, 0.9]), np.ones(3)
    constraint = {"interval": constraints.interval(-1.0, 1.0), "ordered": constraints.ordered_vector}[support]
    given = mixture_of(80)(weights, fb.param(at, constraint, name="means"), scales).condition(y=y)
    fitted = fb.fit(given, method="em", steps=2, tolerance=-1.0, progress=False)
    each = weights * np.exp(-0.5 * (y[:, None] - at) ** 2)
    shares = each / each.sum(1, keepdims=True)
    means = (shares * y[:, None]).sum(0) / shares.sum(0)
    assert np.abs(means).max() > 1 and (np.diff(means) > 0).all()
    again = fb.fit(given, method="em", steps=1, tolerance=-1.0, progress=False)
    wanted = np.clip(means, -1, 1) if support == "interval" else means
    np.testing.assert_allclose(again.params["means"], wanted, rtol=1e-6)
    assert fitted.history[1] > fitted.history[0]


def test_rows_by_chance_reach_the_optimum_of_all_rows() -> None:
    rows = 100_000
    model = mixture_of(rows)(*mixture_params()).condition(y=mixture_data(rows))
    near = fb.fit(model, method="em", steps=600, batch=500, key=jax.random.key(1), progress=False)
    best = fb.fit(near.model, method="em", steps=12, progress=False)
    assert near.errors is not None
    for name, wanted in best.params.items():
        assert (np.abs(near.params[name] - wanted) < 4 * near.errors[name]).all()
        assert (near.errors[name] < 0.01).all()


def test_groups_are_moved_as_written_by_hand() -> None:
    rng = np.random.default_rng(3)
    group = np.arange(40) % 5
    y = rng.normal(size=5)[group] + rng.normal(size=40)

    @fb.model
    def groups(mu: Any, tau: Any, s: Any) -> Any:
        theta = yield dist.Normal(mu, tau).expand([5])
        y = yield dist.Normal(theta[group], s)
        return y

    start = fb.param(0.3), fb.param(1.2, fb.Positive), fb.param(0.8, fb.Positive)
    fitted = fb.fit(groups(*start).condition(y=y), method="em", steps=5, progress=False)
    mu, tau, s = 0.3, 1.2, 0.8
    for _ in range(5):
        precision = 1 / tau**2 + 8 / s**2
        mean = (mu / tau**2 + np.bincount(group, y) / s**2) / precision
        mu = mean.mean()
        tau = np.sqrt(((mean - mu) ** 2 + 1 / precision).mean())
        s = np.sqrt(((y - mean[group]) ** 2 + 1 / precision).mean())
    np.testing.assert_allclose(list(fitted.params.values()), [mu, tau, s], rtol=1e-8)
    assert (np.diff(fitted.history) >= 0).all()


def test_scores_of_rows_are_moved_as_written_by_hand() -> None:
    rng = np.random.default_rng(4)
    y = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 3)) + 0.3 * rng.normal(size=(30, 3))

    @fb.model
    def analysis(loadings: Any, mean: Any, scales: Any) -> Any:
        z = yield dist.Normal(0.0, 1.0).expand([30, 2]).to_event(1)
        y = yield dist.Normal(z @ loadings + mean, scales).to_event(1)
        return y

    W, m, s = rng.normal(size=(2, 3)), np.zeros(3), np.ones(3)
    start = fb.param(W), fb.param(m), fb.param(s, fb.Positive)
    fitted = fb.fit(analysis(*start).condition(y=y), method="em", steps=4, progress=False)
    for _ in range(4):  # Ghahramani and Hinton 1996, eqs. 5 and 6, with the mean as one more loading
        C = np.linalg.inv(np.eye(2) + (W / s**2) @ W.T)
        z = (y - m) / s**2 @ W.T @ C
        one = np.concatenate([z, np.ones((30, 1))], axis=1)
        second = one.T @ one
        second[:2, :2] += 30 * C
        both = np.linalg.solve(second, one.T @ y)
        s = np.sqrt(((y**2).sum(0) - (both * (one.T @ y)).sum(0)) / 30)
        W, m = both[:2], both[2]
    assert (np.diff(fitted.history) >= 0).all()
    for own, wanted in zip(fitted.params.values(), (W, m, s), strict=True):
        np.testing.assert_allclose(own, wanted, rtol=1e-7, atol=1e-8)


def test_a_prior_of_a_parameter_is_counted_in() -> None:
    y = mixture_data(80)
    given = mixture_of(80)(*mixture_params()).condition(y=y)
    prior = {"weights": dist.Dirichlet(np.array([30.0, 20.0, 10.0])), "means": dist.Normal(0.0, 0.1).expand([3])}
    by_em = fb.fit(given, method="em", prior=prior, steps=400, tolerance=1e-13, progress=False)
    further = fb.fit(by_em.model, prior=prior, steps=100, optimizer=optax.adam(1e-3), progress=False)
    assert further.history[0] == pytest.approx(by_em.history[-1], abs=1e-8)
    assert further.history.max() < by_em.history[-1] + 1e-7
    without = fb.fit(given, method="em", steps=50, progress=False)
    assert np.abs(by_em.params["means"] - without.params["means"]).max() > 0.1


def test_what_has_no_closed_e_step_is_refused() -> None:
    @fb.model
    def counts(scale: Any) -> Any:
        z = yield dist.Normal(0.0, scale)
        y = yield dist.Poisson(jnp.exp(z))
        return y

    with pytest.raises(Intractable, match=r"(?s)^expectation–maximisation of counts.*has no closed form.*gradient"):
        fb.fit(counts(fb.param(1.0, fb.Positive)).condition(y=3), method="em", progress=False)
    x, after = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
    s = fb.Variable("s_next", fb.Bint[2])
    scale = fb.param(np.ones(2), fb.Positive)
    step = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("s", "s_next")) * dist.Normal(x, scale[s])("x_next")
    switching = fb.Chain(
        init=fb.Table([0.5, 0.5], ("s",)) * dist.Normal(0.0, 1.0)("x"),
        factor=step * dist.Normal(after, 1.0)(fb.Array(np.ones(4), ("t",))),
        time="t",
        step={"x": "x_next", "s": "s_next"},
    )
    with pytest.raises(Intractable, match="'s' beside real states"):
        fb.fit(switching, method="em", progress=False)


def test_wrong_options_are_refused() -> None:
    given = mixture_of(8)(*mixture_params()).condition(y=mixture_data(8))
    with pytest.raises(UnknownName, match="'means'"):
        fb.fit(given, method="em", prior={"mean": dist.Normal(0.0, 1.0)}, progress=False)
    with pytest.raises(DomainError, match="'gradient' or 'em'"):
        fb.fit(given, method="newton", progress=False)
    with pytest.raises(DomainError, match="rows are drawn by chance"):
        fb.fit(given, method="em", batch=4, progress=False)
    with pytest.raises(DomainError, match="from 1 to 8"):
        fb.fit(given, method="em", batch=9, key=jax.random.key(0), progress=False)
    with pytest.raises(DomainError, match="neither: it raises the evidence"):
        fb.fit(given, lambda model: 0.0, method="em", progress=False)


def test_a_chain_is_fitted_by_gradient() -> None:
    y, start = sequences(), start_of_hmm()
    by_gradient = fb.fit(hmm(start, y), steps=40, progress=False)
    history, _ = baum_welch(start, y, 1)
    assert by_gradient.history[0] == pytest.approx(history[0], rel=1e-10)
    assert by_gradient.history[-1] > by_gradient.history[0] + 10


def test_events_that_always_come_in_a_state_or_never() -> None:
    """In single precision too: counts of what did not come were differences of large sums, and the objective fell."""
    rng, times, notes = np.random.default_rng(3), 150, 12
    chances = rng.choice([0.0, 0.02, 0.9, 1.0], size=(K, notes))
    labels = rng.integers(0, K, (8, times // 10)).repeat(10, axis=1)
    heard = (rng.random((8, times, notes)) < chances[labels]).astype(np.int32)
    logits = rng.normal(size=(K, notes))

    def fitted(xp: Any) -> Any:
        x, after = fb.Variable("x", fb.Bint[K]), fb.Variable("x_next", fb.Bint[K])
        moves = fb.param(xp.asarray(np.full((K, K), 1 / K)), fb.Simplex, name="moves")
        chance = fb.param(xp.asarray(logits), name="logits")
        data = fb.Array(xp.asarray(heard), ("b", "t"), fb.Bint[2, notes])
        step = dist.Categorical(moves[x])("x_next") * dist.Bernoulli(logits=chance[after]).to_event(1)(data)
        start = fb.Table(xp.asarray(np.full(K, 1 / K)), ("x",))
        chain = fb.Chain(init=start, factor=step, time="t", step={"x": "x_next"})
        return fb.fit(chain, method="em", steps=40, tolerance=-1.0, progress=False)

    single, double = fitted(jnp), fitted(np)
    assert (np.diff(single.history) >= -1e-5 * abs(single.history[-1])).all()
    np.testing.assert_allclose(single.history, double.history, rtol=1e-4)
    np.testing.assert_allclose(single.history[-20:], double.history[-20:], rtol=1e-6)
