"""Planning and the backward pass over Tables, Gaussians and densities together, against enumeration × joint normals."""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import fubini as fb
from fubini import dist
from tests.counting import no_tracing

LOG_2PI = math.log(2 * math.pi)

# -- the oracle: a conditional Gaussian network of random structure ---------------------------------------------------


@dataclass
class Node:
    """A table over (parents, own), or a regression on reals with arrays over the discrete parents."""

    name: str
    discrete: tuple[str, ...]
    reals: tuple[str, ...] = ()
    table: np.ndarray | None = None
    intercept: np.ndarray | None = None
    slopes: dict[str, np.ndarray] = field(default_factory=dict)
    deviation: np.ndarray | None = None

    def factor(self, engine: Callable = np.asarray) -> fb.Factor:
        if self.table is not None:
            return fb.Table(engine(self.table), (*self.discrete, self.name))

        def value(data: np.ndarray) -> fb.Value:
            return fb.Array(engine(data), self.discrete)

        mean = value(self.intercept)
        for parent, slope in self.slopes.items():
            mean = mean + value(slope) * fb.Variable(parent, fb.Real)
        return dist.Normal(mean, value(self.deviation))(self.name)


class Normal:
    """A joint normal by names."""

    def __init__(self, names: Sequence[str], mean: np.ndarray, covariance: np.ndarray) -> None:
        self.names, self.mean, self.covariance = list(names), mean, covariance

    def at(self, name: str) -> tuple[float, float]:
        k = self.names.index(name)
        return float(self.mean[k]), float(self.covariance[k, k])


class MixedNetwork:
    """All nodes; every question is answered by going through the discrete assignments one at a time."""

    def __init__(self, nodes: Sequence[Node], sizes: Mapping[str, int]) -> None:
        self.nodes, self.sizes = list(nodes), dict(sizes)
        self.reals = [node.name for node in nodes if node.table is None]

    def factors(self, seen: Mapping[str, float], engine: Callable = np.asarray) -> list[fb.Factor]:
        return [
            f(**{name: value for name, value in seen.items() if name in f.inputs})
            for f in (node.factor(engine) for node in self.nodes)
        ]

    def cells(self, seen: Mapping[str, float]) -> list[tuple[dict[str, int], float, Normal]]:
        """(discrete assignment, log weight with the density of what is seen, the other variables given that)."""
        free = [name for name in self.sizes if name not in seen]
        found = []
        for values in itertools.product(*(range(self.sizes[name]) for name in free)):
            network = {
                **{n: int(v) for n, v in seen.items() if n in self.sizes},
                **dict(zip(free, values, strict=True)),
            }
            found.append((network, *self._cell(network, seen)))
        return found

    def _cell(self, network: Mapping[str, int], seen: Mapping[str, float]) -> tuple[float, Normal]:
        log, n = 0.0, len(self.reals)
        slopes, intercept, deviation = np.zeros((n, n)), np.zeros(n), np.zeros(n)
        for node in self.nodes:
            here = tuple(network[parent] for parent in node.discrete)
            if node.table is not None:
                log += math.log(node.table[(*here, network[node.name])])
                continue
            row = self.reals.index(node.name)
            intercept[row], deviation[row] = node.intercept[here], node.deviation[here]
            for parent, slope in node.slopes.items():
                slopes[row, self.reals.index(parent)] = slope[here]
        root = np.linalg.inv(np.eye(n) - slopes) * deviation
        mean, covariance = np.linalg.inv(np.eye(n) - slopes) @ intercept, root @ root.T
        more, rest = condition(Normal(self.reals, mean, covariance), {k: v for k, v in seen.items() if k in self.reals})
        return log + more, rest


def condition(joint: Normal, seen: Mapping[str, float]) -> tuple[float, Normal]:
    here = [joint.names.index(name) for name in seen]
    rest = [k for k in range(len(joint.names)) if k not in here]
    if not here:
        return 0.0, joint
    within, across = joint.covariance[np.ix_(here, here)], joint.covariance[np.ix_(rest, here)]
    residual = np.array([seen[joint.names[k]] for k in here]) - joint.mean[here]
    log = stats.multivariate_normal(np.zeros(len(here)), within).logpdf(residual)
    gain = np.linalg.solve(within, across.T).T
    covariance = joint.covariance[np.ix_(rest, rest)] - gain @ across.T
    return float(log), Normal([joint.names[k] for k in rest], joint.mean[rest] + gain @ residual, covariance)


def random_network(seed: int) -> MixedNetwork:
    """Three or four discrete and three or four real variables, parents at random among those before."""
    rng = np.random.default_rng(seed)
    sizes = {f"d{k}": int(rng.integers(2, 4)) for k in range(rng.integers(3, 5))}
    nodes = []
    for k, name in enumerate(sizes):
        parents = tuple(p for p in list(sizes)[:k] if rng.uniform() < 0.5)
        shape = [sizes[p] for p in parents]
        nodes.append(Node(name, parents, table=rng.dirichlet(np.ones(sizes[name]), shape or None)))
    for k in range(rng.integers(3, 5)):
        discrete = tuple(d for d in sizes if rng.uniform() < 0.4)
        reals = tuple(f"x{j}" for j in range(k) if rng.uniform() < 0.6)
        shape = [sizes[d] for d in discrete]
        node = Node(f"x{k}", discrete, reals)
        node.intercept = rng.normal(0, 2, shape)
        node.slopes = {parent: rng.normal(0, 1, shape) for parent in reals}
        node.deviation = rng.uniform(0.3, 1.5, shape)
        nodes.append(node)
    rng.shuffle(nodes)  # type: ignore[arg-type]
    return MixedNetwork(nodes, sizes)


def random_evidence(network: MixedNetwork, seed: int) -> dict[str, float]:
    """Each variable but the first of its kind, with a chance of three in ten."""
    rng = np.random.default_rng(seed + 1000)
    seen = {name: int(rng.integers(size)) for name, size in list(network.sizes.items())[1:] if rng.uniform() < 0.3}
    return {**seen, **{name: rng.normal() for name in network.reals[1:] if rng.uniform() < 0.3}}


SEEDS = range(12)
every_world = pytest.mark.parametrize("seed", SEEDS)


@pytest.fixture
def case(seed: int) -> tuple[MixedNetwork, dict[str, float], list[tuple[dict[str, int], float, Normal]]]:
    network = random_network(seed)
    seen = random_evidence(network, seed) if seed % 3 else {}
    return network, seen, network.cells(seen)


Case = tuple[MixedNetwork, dict[str, float], list[tuple[dict[str, int], float, Normal]]]


def hidden(network: MixedNetwork, seen: Mapping[str, float]) -> tuple[str, ...]:
    return tuple(name for name in (*network.reals, *network.sizes) if name not in seen)


# -- networks of random structure -------------------------------------------------------------------------------------


@every_world
def test_evidence(case: Case) -> None:
    network, seen, cells = case
    found = fb.eliminate(network.factors(seen), hidden(network, seen))
    assert not found.inputs and found.exactness.is_exact
    assert float(found.log()) == pytest.approx(logsumexp([log for _, log, _ in cells]), abs=1e-10)


@pytest.mark.parametrize("seed", [4])
def test_evidence_of_arrays_of_jax(case: Case) -> None:
    """JAX's arrays in double precision."""
    network, seen, cells = case
    with jax.enable_x64(True):
        found = fb.eliminate(network.factors(seen, jnp.asarray), hidden(network, seen)).log().data
        assert isinstance(found, jax.Array)
        assert float(found) == pytest.approx(logsumexp([log for _, log, _ in cells]), abs=1e-10)


@every_world
def test_tables_of_discrete_variables(case: Case) -> None:
    network, seen, cells = case
    found = fb.marginals(network.factors(seen), hidden(network, seen))
    total = logsumexp([log for _, log, _ in cells])
    for name, size in network.sizes.items():
        if name not in seen:
            expected = [sum(math.exp(log - total) for at, log, _ in cells if at[name] == k) for k in range(size)]
            assert isinstance(found[name], fb.Table) and found[name].inputs == {name: fb.Bint[size]}
            np.testing.assert_allclose(np.exp(found[name].log().data), expected, atol=1e-10)


@every_world
def test_moments_of_real_variables(case: Case) -> None:
    network, seen, cells = case
    found = fb.marginals(network.factors(seen), hidden(network, seen))
    weights = np.exp([log for _, log, _ in cells] - logsumexp([log for _, log, _ in cells]))
    for name in network.reals:
        if name not in seen:
            means, variances = np.array([rest.at(name) for _, _, rest in cells]).T
            mean = weights @ means
            assert found[name].inputs == {name: fb.Real} and found[name].exactness.is_exact
            assert float(found[name].mean(name)) == pytest.approx(mean, rel=1e-9, abs=1e-9)
            variance = weights @ (variances + (means - mean) ** 2)
            assert float(found[name].variance(name)) == pytest.approx(variance, rel=1e-9)


@every_world
def test_densities_of_real_variables(case: Case) -> None:
    """At points, and in all: the mixture of normals."""
    network, seen, cells = case
    found = fb.marginals(network.factors(seen), hidden(network, seen))
    total = logsumexp([log for _, log, _ in cells])
    for name in network.reals:
        if name not in seen:
            for at in (-1.3, 0.4, 3.0):
                logs = [
                    log - total + stats.norm(rest.at(name)[0], math.sqrt(rest.at(name)[1])).logpdf(at)
                    for _, log, rest in cells
                ]
                assert float(found[name](**{name: at}).log()) == pytest.approx(logsumexp(logs), abs=1e-9)
            assert float(found[name].sum(name)) == pytest.approx(1.0, abs=1e-9)


@every_world
def test_one_marginal_at_a_time_is_the_same(case: Case) -> None:
    network, seen, _ = case
    factors, names = network.factors(seen), hidden(network, seen)
    together = fb.marginals(factors, names)
    for name in names:
        alone = fb.marginals(factors, (name,))[name]
        if name in network.sizes:
            np.testing.assert_allclose(np.exp(alone.log().data), np.exp(together[name].log().data), atol=1e-10)
        else:
            assert float(alone.mean(name)) == pytest.approx(float(together[name].mean(name)), rel=1e-9, abs=1e-9)
            assert float(alone(**{name: 0.7}).log()) == pytest.approx(
                float(together[name](**{name: 0.7}).log()), abs=1e-9
            )


@every_world
def test_most_probable_values(case: Case) -> None:
    """The mode of the cell whose weight times peak is largest: enumeration × the mode of a normal."""
    network, seen, cells = case
    peaks = [
        log - 0.5 * (np.linalg.slogdet(rest.covariance)[1] + len(rest.names) * LOG_2PI) if rest.names else log
        for _, log, rest in cells
    ]
    best = int(np.argmax(peaks))
    names = hidden(network, seen)
    found = fb.argmax(network.factors(seen), names)
    at, _, rest = cells[best]
    for name in names:
        if name in network.sizes:
            assert int(found[name]) == at[name]
        else:
            assert float(found[name]) == pytest.approx(rest.at(name)[0], rel=1e-8, abs=1e-8)
    largest = fb.eliminate(network.factors(seen), names, semiring=fb.max_product)
    assert float(largest.log()) == pytest.approx(peaks[best], abs=1e-9)


@every_world
def test_samples(case: Case) -> None:
    """Means, variances, and the covariances of reals with each other and with each label."""
    network, seen, cells = case
    n, names = 30_000, hidden(network, seen)
    draws = fb.sample(jax.random.key(5), network.factors(seen), names, n=n)
    weights = np.exp([log for _, log, _ in cells] - logsumexp([log for _, log, _ in cells]))
    features = []  # mean of each cell, and covariance within it, of all indicators and reals
    reals = [name for name in network.reals if name not in seen]
    labels = [(name, k) for name, size in network.sizes.items() if name not in seen for k in range(size)]
    for at, _, rest in cells:
        flags = [float(at[name] == k) for name, k in labels]
        features.append(np.array([*flags, *(rest.at(name)[0] for name in reals)]))
    features = np.array(features)
    mean = weights @ features
    covariance = (features - mean).T @ ((features - mean) * weights[:, None])
    for weight, (_, _, rest) in zip(weights, cells, strict=True):
        order = [rest.names.index(name) for name in reals]
        covariance[len(labels) :, len(labels) :] += weight * rest.covariance[np.ix_(order, order)]
    found = np.stack([*((draws[name] == k).astype(float) for name, k in labels), *(draws[name] for name in reals)])
    assert found.shape == (len(labels) + len(reals), n)
    deviation = np.maximum(np.sqrt(np.diag(covariance)), 0.2)  # a label that is hardly ever drawn has no correlation
    assert np.abs((found.mean(1) - mean) / deviation).max() < 6 / math.sqrt(n)
    scale = np.outer(deviation, deviation)
    np.testing.assert_allclose(np.cov(found) / scale, covariance / scale, atol=0.1)


@every_world
def test_kept_variables(case: Case) -> None:
    """With one discrete and one real variable left over, the answer is a function of both."""
    network, seen, _ = case
    names = hidden(network, seen)
    kept = [next(n for n in names if n in network.sizes), next(n for n in names if n in network.reals)]
    found = fb.eliminate(network.factors(seen), [name for name in names if name not in kept])
    assert set(found.inputs) == set(kept)
    for k, at in itertools.product(range(network.sizes[kept[0]]), (-0.5, 1.7)):
        expected = logsumexp([log for _, log, _ in network.cells({**seen, kept[0]: k, kept[1]: at})])
        assert float(found(**{kept[0]: k, kept[1]: at}).log()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_evidence_is_the_same_under_every_order_of_sums(seed: int) -> None:
    """One name at a time, reals and labels in any order: what cannot be joined is a mixture in between."""
    network = random_network(seed)
    seen = {name: 0 for name in list(network.sizes)[2:]} | {name: 0.3 for name in network.reals[2:]}
    names = hidden(network, seen)
    expected = logsumexp([log for _, log, _ in network.cells(seen)])
    for order in itertools.permutations(names):
        term = math.prod(network.factors(seen), start=fb.Table(1.0))
        for name in order:
            term = term.sum(name)
        assert float(term.log()) == pytest.approx(expected, abs=1e-9), order


@pytest.mark.parametrize("seed", [0, 3, 4])
def test_evidence_is_the_same_in_two_rounds(seed: int) -> None:
    network = random_network(seed)
    names = hidden(network, {})
    expected = logsumexp([log for _, log, _ in network.cells({})])
    for size in range(len(names)):
        first, second = names[:size], names[size:]
        for now, then in ((first, second), (second, first)):
            partial = fb.eliminate(network.factors({}), now)
            assert float(fb.eliminate(partial, then).log()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", [0, 3])
def test_the_order_of_factors_does_not_matter(seed: int) -> None:
    network = random_network(seed)
    names = hidden(network, {})
    for shuffled in (network.factors({}), network.factors({})[::-1]):
        for asked in (names, names[::-1]):
            assert float(fb.eliminate(shuffled, asked).log()) == pytest.approx(0.0, abs=1e-10)


def test_a_sum_passes_factors_without_its_variable() -> None:
    """Σ_d f g  =  f Σ_d g, and the same for an integral, for mixed f and g."""
    network = random_network(0)
    label, real = next(iter(network.sizes)), network.reals[0]
    inside = fb.Table([0.2, 0.9], ("k",)) * dist.Normal(fb.Array(np.array([0.0, 3.0]), ("k",)), 1.0)("u")
    outside = math.prod(network.factors({}), start=fb.Table(1.0))
    at = {**dict.fromkeys(network.sizes, 0), **dict.fromkeys(network.reals, 0.2)}
    for name in ("k", "u"):
        both, alone = (outside * inside).sum(name), outside * inside.sum(name)
        rest = {"u": 0.4} if name == "k" else {"k": 1}
        assert float(both(**at, **rest).log()) == pytest.approx(float(alone(**at, **rest).log()), abs=1e-10)
    assert label in both.inputs and real in both.inputs


# -- a discrete chain with Gaussian emissions -------------------------------------------------------------------------

K, T = 3, 6


@dataclass
class Hmm:
    initial: np.ndarray
    transition: np.ndarray
    location: np.ndarray
    deviation: np.ndarray

    def factors(self, seen: Mapping[int, float], engine: Callable = np.asarray) -> list[fb.Factor]:
        made = [fb.Table(engine(self.initial), ("s0",))]
        made += [fb.Table(engine(self.transition), (f"s{t}", f"s{t + 1}")) for t in range(T - 1)]
        for t in range(T):
            location, deviation = (fb.Array(engine(v), (f"s{t}",)) for v in (self.location, self.deviation))
            made.append(dist.Normal(location, deviation)(seen.get(t, f"y{t}")))
        return made

    def beliefs(self, seen: Mapping[int, float]) -> tuple[float, np.ndarray]:
        """log-evidence and the smoothed states, by enumeration of all K^T paths."""
        logs, paths = [], list(itertools.product(range(K), repeat=T))
        densities = {t: stats.norm.logpdf(y, self.location, self.deviation) for t, y in seen.items()}
        for path in paths:
            log = math.log(self.initial[path[0]])
            log += sum(math.log(self.transition[a, b]) for a, b in itertools.pairwise(path))
            log += sum(densities[t][path[t]] for t in seen)
            logs.append(log)
        total = logsumexp(logs)
        tables = np.zeros((T, K))
        for path, log in zip(paths, logs, strict=True):
            tables[np.arange(T), path] += math.exp(log - total)
        return float(total), tables


def random_hmm(seed: int) -> Hmm:
    rng = np.random.default_rng(seed)
    return Hmm(
        rng.dirichlet(np.ones(K)), rng.dirichlet(np.ones(K), K), rng.normal(0, 2, K), rng.uniform(0.5, 1.5, K)
    )  # fmt: skip


STATES, EMISSIONS = tuple(f"s{t}" for t in range(T)), tuple(f"y{t}" for t in range(T))


SEEN = [{}, {0: 0.3, 2: -1.0, 5: 2.0}, dict(enumerate([0.1, 0.2, -3.0, 1.0, 1.1, 0.7]))]


@pytest.mark.parametrize(
    ("seen", "engine"),
    [*((seen, np.asarray) for seen in SEEN), pytest.param(SEEN[1], jnp.asarray, marks=pytest.mark.slow)],
)
def test_a_chain_with_emissions(seen: dict[int, float], engine: Callable) -> None:
    """Emissions seen, unseen and both: evidence, states, and the emissions that are predicted."""
    hmm = random_hmm(1)
    small = 1e-10 if engine is np.asarray else 1e-4
    unseen = tuple(f"y{t}" for t in range(T) if t not in seen)
    total, tables = hmm.beliefs(seen)
    factors = hmm.factors(seen, engine)
    assert float(fb.eliminate(factors, (*STATES, *unseen)).log()) == pytest.approx(total, abs=small)
    found = jax.tree.map(np.asarray, fb.marginals(factors, (*STATES, *unseen)))  # read in NumPy, nothing to compile
    for t, name in enumerate(STATES):
        np.testing.assert_allclose(np.exp(found[name].log().data), tables[t], atol=small)
    for name in unseen:
        weights = tables[int(name[1:])]
        mean = weights @ hmm.location
        variance = weights @ (hmm.deviation**2 + (hmm.location - mean) ** 2)
        assert float(found[name].mean(name)) == pytest.approx(mean, abs=10 * small)
        assert float(found[name].variance(name)) == pytest.approx(variance, rel=10 * small)
        density = math.log(weights @ stats.norm.pdf(0.9, hmm.location, hmm.deviation))
        assert float(found[name](**{name: 0.9}).log()) == pytest.approx(density, abs=10 * small)


def test_the_emissions_go_first() -> None:
    """Reals before labels: otherwise an unseen emission would be a mixture over paths."""
    hmm = random_hmm(1)
    order = fb.explain(hmm.factors({}), (*STATES, *EMISSIONS)).order
    for t in range(T):
        assert order.index(f"y{t}") < order.index(f"s{t}")


def test_a_long_chain_with_unseen_emissions_is_cheap() -> None:
    """100 steps: labels after reals never grow beyond two states."""
    rng = np.random.default_rng(3)
    transition, location = rng.dirichlet(np.ones(3), 3), np.array([-1.0, 0.0, 2.0])
    factors: list[fb.Factor] = [fb.Table([0.2, 0.3, 0.5], ("s0",))]
    belief = np.array([0.2, 0.3, 0.5])
    log, names = 0.0, ["s0"]
    for t in range(100):
        seen = rng.normal()
        factors.append(fb.Table(transition, (f"s{t}", f"s{t + 1}")))
        observed = t % 2 == 0
        factors.append(dist.Normal(fb.Array(location, (f"s{t + 1}",)), 1.0)(seen if observed else f"y{t}"))
        names += [f"s{t + 1}"] + ([] if observed else [f"y{t}"])
        belief = belief @ transition * (stats.norm.pdf(seen, location) if observed else 1.0)
        log, belief = log + math.log(belief.sum()), belief / belief.sum()
    shown = fb.explain(factors, names)
    assert shown.plan.largest < 1000
    assert float(fb.eliminate(factors, names).log()) == pytest.approx(log, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_common_real_cause_of_every_emission(seed: int) -> None:
    """y_t ~ N(μ[s_t] + b, σ[s_t]): b couples all states, so that its marginal is a mixture over paths."""
    hmm, rng = random_hmm(seed), np.random.default_rng(seed)
    data = rng.normal(size=T)
    b = fb.Variable("b", fb.Real)
    factors = hmm.factors({})[:T]
    for t in range(T):
        location, deviation = (fb.Array(v, (f"s{t}",)) for v in (hmm.location, hmm.deviation))
        factors.append(dist.Normal(location + b, deviation)(data[t]))
    factors.append(dist.Normal(0.5, 2.0)("b"))
    logs, means, variances, tables = [], [], [], np.zeros((T, K))
    for path in itertools.product(range(K), repeat=T):
        at = list(path)
        log = math.log(hmm.initial[path[0]]) + sum(math.log(hmm.transition[i, j]) for i, j in itertools.pairwise(path))
        noise = hmm.deviation[at] ** 2
        covariance = np.diag(noise) + 4.0
        log += stats.multivariate_normal(hmm.location[at] + 0.5, covariance).logpdf(data)
        precision = 0.25 + np.sum(1 / noise)
        logs.append(log)
        means.append((0.5 * 0.25 + np.sum((data - hmm.location[at]) / noise)) / precision)
        variances.append(1 / precision)
    total = logsumexp(logs)
    weights = np.exp(np.array(logs) - total)
    for weight, path in zip(weights, itertools.product(range(K), repeat=T), strict=True):
        tables[np.arange(T), path] += weight
    names = (*STATES, "b")
    assert float(fb.eliminate(factors, names).log()) == pytest.approx(total, abs=1e-9)
    found = fb.marginals(factors, names)
    for t, name in enumerate(STATES):
        np.testing.assert_allclose(np.exp(found[name].log().data), tables[t], atol=1e-9)
    mean = weights @ np.array(means)
    assert float(found["b"].mean("b")) == pytest.approx(mean, abs=1e-9)
    variance = weights @ (np.array(variances) + (np.array(means) - mean) ** 2)
    assert float(found["b"].variance("b")) == pytest.approx(variance, rel=1e-9)


# -- Gaussian plates --------------------------------------------------------------------------------------------------


def random_gaussian(rng: np.random.Generator, inputs: Mapping[str, fb.Domain]) -> tuple[fb.Gaussian, tuple]:
    """A Gaussian and its arrays: (batch names, real names with sizes, h, K)."""
    batch = [name for name, domain in inputs.items() if domain.is_finite]
    reals = {name: math.prod(domain.shape) for name, domain in inputs.items() if not domain.is_finite}
    shape, size = [inputs[name].size for name in batch], sum(reals.values())
    root = rng.normal(size=(*shape, size, size + 1))
    h, K = rng.normal(size=(*shape, size)), root @ np.swapaxes(root, -1, -2)
    return fb.Gaussian(info=h, precision=K, inputs=inputs), (batch, reals, h, K)


class Assembled:
    """Factors unrolled by hand: every cell of every plate is a block of one large Gaussian."""

    def __init__(self, lives: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int], parts: Sequence[tuple]) -> None:
        """`parts` are (arrays, power); a variable lives in its plates and has a block for each of their cells."""
        self.lives, self.blocks, self.total = lives, {}, 0
        width = {name: count for (_, reals, _, _), _ in parts for name, count in reals.items()}
        for name, plates in lives.items():
            for cell in itertools.product(*(range(sizes[plate]) for plate in plates)):
                self.blocks[name, cell] = np.arange(self.total, self.total + width[name])
                self.total += width[name]
        self.h, self.K = np.zeros(self.total), np.zeros((self.total, self.total))
        for (batch, reals, h, K), power in parts:
            for cell in itertools.product(*(range(sizes[plate]) for plate in batch)):
                at = dict(zip(batch, cell, strict=True))
                where = np.concatenate([self.blocks[n, tuple(at[p] for p in lives[n])] for n in reals])
                self.h[where] += power * h[cell]
                self.K[np.ix_(where, where)] += power * K[cell]
        self.mean, self.covariance = np.linalg.solve(self.K, self.h), np.linalg.inv(self.K)

    @property
    def log(self) -> float:
        return self.max + 0.5 * (self.total * LOG_2PI - np.linalg.slogdet(self.K)[1])

    @property
    def max(self) -> float:
        return 0.5 * self.h @ self.mean


SIZES = {"i": 2, "j": 3, "k": 2}
PLATES = {name: fb.Bint[size] for name, size in SIZES.items()}


@dataclass
class Variant:
    """Scopes of factors, where variables live, and the plates multiplied out."""

    scopes: tuple[str, ...]
    lives: dict[str, tuple[str, ...]]
    plates: tuple[str, ...]
    vectors: tuple[str, ...] = ()


VARIANTS = {
    "scalars": Variant(("ix", "jy", "ijxy"), {"x": ("i",), "y": ("j",)}, ("i", "j")),
    "the pair alone": Variant(("ijxy",), {"x": ("i",), "y": ("j",)}, ("i", "j")),
    "vector y": Variant(("ix", "jy", "ijxy"), {"x": ("i",), "y": ("j",)}, ("i", "j"), ("y",)),
    "vectors": Variant(("ix", "jy", "ijxy"), {"x": ("i",), "y": ("j",)}, ("i", "j"), ("x", "y")),
    "an extra plate of pairs": Variant(("ix", "jy", "ijkxy"), {"x": ("i",), "y": ("j",)}, ("i", "j", "k")),
    "a common cause": Variant(("w", "iwx", "jy", "ijxy"), {"w": (), "x": ("i",), "y": ("j",)}, ("i", "j")),
    "copies in k": Variant(("ikx", "jky", "ijkxy"), {"x": ("i", "k"), "y": ("j", "k")}, ("i", "j", "k")),
    "y in two plates": Variant(("ix", "jky", "ijkxy"), {"x": ("i",), "y": ("j", "k")}, ("i", "j", "k")),
    "two inside i": Variant(("ix", "iz", "ixz", "jy", "ijxy"), {"x": ("i",), "z": ("i",), "y": ("j",)}, ("i", "j")),
}


def build(variant: Variant, seed: int = 0) -> tuple[list[fb.Gaussian], list[tuple]]:
    rng = np.random.default_rng(seed)
    domains = {name: fb.Reals[2] if name in variant.vectors else fb.Real for name in variant.lives}
    made = [
        random_gaussian(rng, {letter: {**PLATES, **domains}[letter] for letter in scope}) for scope in variant.scopes
    ]  # fmt: skip
    return [factor for factor, _ in made], [(arrays, 1.0) for _, arrays in made]


every_variant = pytest.mark.parametrize("name", VARIANTS)


@every_variant
def test_bipartite_evidence(name: str) -> None:
    variant = VARIANTS[name]
    factors, parts = build(variant)
    found = fb.eliminate(factors, variant.lives, variant.plates)
    assert not found.inputs and found.exactness.is_exact
    assert float(found.log()) == pytest.approx(Assembled(variant.lives, SIZES, parts).log, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "the pair alone"])
def test_bipartite_evidence_with_bare_names(name: str) -> None:
    """A variable lives in the plates common to its factors."""
    variant = VARIANTS[name]
    factors, parts = build(variant, 1)
    found = fb.eliminate(factors, tuple(variant.lives), variant.plates)
    assert float(found.log()) == pytest.approx(Assembled(variant.lives, SIZES, parts).log, rel=1e-9, abs=1e-9)


def test_bipartite_evidence_of_jax_arrays() -> None:
    """Also under jit, in double precision."""
    variant = VARIANTS["vector y"]
    factors, parts = build(variant, 1)
    expected = Assembled(variant.lives, SIZES, parts).log
    with jax.enable_x64(True):
        moved = jax.tree.map(jnp.asarray, factors)
        for run in (lambda f: f, jax.jit):
            found = run(lambda f: fb.eliminate(f, variant.lives, variant.plates).log().data)(moved)
            assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@every_variant
def test_bipartite_maximum(name: str) -> None:
    variant = VARIANTS[name]
    factors, parts = build(variant)
    oracle = Assembled(variant.lives, SIZES, parts)
    found = fb.eliminate(factors, variant.lives, variant.plates, semiring=fb.max_product)
    assert float(found.log()) == pytest.approx(oracle.max, rel=1e-9, abs=1e-9)


@every_variant
def test_bipartite_marginals(name: str) -> None:
    """One for each cell of the plates that a variable lives in."""
    variant = VARIANTS[name]
    factors, parts = build(variant)
    oracle = Assembled(variant.lives, SIZES, parts)
    found = fb.marginals(factors, variant.lives, variant.plates)
    for variable, plates in variant.lives.items():
        assert set(found[variable].inputs) == {variable, *plates}
        for cell in itertools.product(*(range(SIZES[plate]) for plate in plates)):
            block = oracle.blocks[variable, cell]
            one = found[variable](**dict(zip(plates, cell, strict=True)))
            np.testing.assert_allclose(np.ravel(one.mean(variable).data), oracle.mean[block], rtol=1e-8, atol=1e-9)
            covariance = np.reshape(one.covariance(variable).data, (len(block), len(block)))
            np.testing.assert_allclose(covariance, oracle.covariance[np.ix_(block, block)], rtol=1e-8, atol=1e-9)
            assert float(one.sum(variable)) == pytest.approx(1.0, abs=1e-9)


def plates_of(variable: str, variant: Variant, factors: Sequence[fb.Factor]) -> list[str]:
    """The plates of a variable in the order in which the inputs of the factors come."""
    order = list(dict.fromkeys(name for factor in factors for name in factor.inputs))
    return sorted(variant.lives[variable], key=order.index)


@every_variant
def test_bipartite_most_probable_values(name: str) -> None:
    variant = VARIANTS[name]
    factors, parts = build(variant)
    oracle = Assembled(variant.lives, SIZES, parts)
    found = fb.argmax(factors, variant.lives, variant.plates)
    for variable in variant.lives:
        plates = plates_of(variable, variant, factors)
        vector = (2,) if variable in variant.vectors else ()
        assert np.shape(found[variable]) == (*(SIZES[plate] for plate in plates), *vector)
        for cell in itertools.product(*(range(SIZES[plate]) for plate in plates)):
            at = dict(zip(plates, cell, strict=True))
            block = oracle.blocks[variable, tuple(at[plate] for plate in variant.lives[variable])]
            np.testing.assert_allclose(np.ravel(found[variable][cell]), oracle.mean[block], rtol=1e-8, atol=1e-9)


@every_variant
def test_bipartite_samples(name: str) -> None:
    """The covariance of all cells together, not only of each."""
    variant, n = VARIANTS[name], 40_000
    factors, parts = build(variant)
    oracle = Assembled(variant.lives, SIZES, parts)
    draws = fb.sample(jax.random.key(8), factors, variant.lives, variant.plates, n=n)
    found = np.zeros((n, oracle.total))
    for (variable, cell), block in oracle.blocks.items():
        at = dict(zip(variant.lives[variable], cell, strict=True))
        where = (slice(None), *(at[plate] for plate in plates_of(variable, variant, factors)))
        found[:, block] = np.reshape(draws[variable][where], (n, len(block)))
    deviation = np.sqrt(np.diag(oracle.covariance))
    assert np.abs((found.mean(0) - oracle.mean) / deviation).max() < 6 / math.sqrt(n)
    scale = np.outer(deviation, deviation)
    np.testing.assert_allclose(np.cov(found.T) / scale, oracle.covariance / scale, atol=0.04)


def test_bipartite_plates_with_a_batch_left_over() -> None:
    """k is an input of every factor: an answer for each of its cells."""
    variant = VARIANTS["copies in k"]
    factors, parts = build(variant)
    found = fb.eliminate(factors, {"x": ("i", "k"), "y": ("j", "k")}, ("i", "j"))
    assert found.inputs == {"k": PLATES["k"]}
    for k in range(SIZES["k"]):
        here = [
            (([p for p in batch if p != "k"], reals, h.take(k, batch.index("k")), K.take(k, batch.index("k"))), 1.0)
            for (batch, reals, h, K), _ in parts
        ]
        oracle = Assembled({"x": ("i",), "y": ("j",)}, SIZES, here)
        assert float(found(k=k).log()) == pytest.approx(oracle.log, rel=1e-9, abs=1e-9)


def test_a_batch_plate_is_kept() -> None:
    """Gaussian[i, j, x]: x summed and i multiplied out leaves j, whether x is in the plate or above it."""
    factor, (_, _, h, K) = random_gaussian(np.random.default_rng(0), {"i": fb.Bint[2], "j": fb.Bint[2], "x": fb.Real})
    inside = fb.eliminate(factor, {"x": ("i", "j")}, ("i",))
    above = fb.eliminate(factor, {"x": ("j",)}, ("i",))
    h, K = h[..., 0], K[..., 0, 0]
    assert inside.inputs == above.inputs == {"j": fb.Bint[2]}
    one = (h**2 / K + LOG_2PI - np.log(K)) / 2
    np.testing.assert_allclose(inside.log().data, one.sum(0), rtol=1e-12)
    np.testing.assert_allclose(
        above.log().data, (h.sum(0) ** 2 / K.sum(0) + LOG_2PI - np.log(K.sum(0))) / 2, rtol=1e-12
    )


def test_both_plates_multiplied_out() -> None:
    factor, (_, _, h, K) = random_gaussian(np.random.default_rng(0), {"i": fb.Bint[2], "j": fb.Bint[2], "x": fb.Real})
    h, K = h[..., 0], K[..., 0, 0]
    found = {home: fb.eliminate(factor, {"x": home}, ("i", "j")) for home in ((), ("i",), ("j",), ("i", "j"))}
    for home, axes in (((), (0, 1)), (("i",), (1,)), (("j",), (0,)), (("i", "j"), ())):
        a, b = h.sum(axes), K.sum(axes)
        assert float(found[home].log()) == pytest.approx(np.sum((a**2 / b + LOG_2PI - np.log(b)) / 2), rel=1e-12)


# -- scale ------------------------------------------------------------------------------------------------------------


def repeated(arrays: tuple, plate: str, times: int) -> tuple:
    """The same factor with each cell of a plate repeated."""
    batch, reals, h, K = arrays
    if plate not in batch:
        return arrays
    axis = batch.index(plate)
    return batch, reals, np.repeat(h, times, axis), np.repeat(K, times, axis)


@pytest.mark.parametrize("scale", [1, 2, 3])
def test_scale_of_a_plate_of_observations(scale: int) -> None:
    """w above the plate: its factors count `scale` times, as if each cell were repeated."""
    variant = Variant(("w", "iwx"), {"w": (), "x": ("i",)}, ("i",))
    factors, parts = build(variant)
    found = fb.eliminate(factors, ("w", "x"), ("i",), scale={"i": scale})
    oracle = Assembled(
        variant.lives, {**SIZES, "i": SIZES["i"] * scale}, [(repeated(a, "i", scale), 1.0) for a, _ in parts]
    )
    assert float(found.log()) == pytest.approx(oracle.log, rel=1e-9)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("plate", ["i", "j"])
def test_scale_of_a_bipartite_plate(name: str, plate: str) -> None:
    """As if each cell of the plate, with what is inside it, were there twice; or an error that names the plate."""
    variant = VARIANTS[name]
    factors, parts = build(variant)
    oracle = Assembled(
        variant.lives, {**SIZES, plate: 2 * SIZES[plate]}, [(repeated(a, plate, 2), 1.0) for a, _ in parts]
    )
    try:
        found = fb.eliminate(factors, variant.lives, variant.plates, scale={plate: 2.0})
    except fb.FubiniError as error:
        assert repr(plate) in str(error) and "scale" in str(error)
    else:
        assert float(found.log()) == pytest.approx(oracle.log, rel=1e-9)


@pytest.mark.parametrize("scale", [0.5, 2.5])
def test_scale_that_is_no_integer(scale: float) -> None:
    """A plate of likelihoods of one latent, raised: the evidence of a tempered posterior, by the normal formula."""
    rng = np.random.default_rng(0)
    data, x = rng.normal(1, 1, 5), fb.Variable("x", fb.Real)
    factors = [dist.Normal(0.0, 2.0)("x"), dist.Normal(x, 0.7)(fb.Array(data, ("i",)))]
    found = fb.eliminate(factors, {"x": ()}, ("i",), scale={"i": scale})
    precision = 0.25 + scale * 5 / 0.49
    info = scale * data.sum() / 0.49
    log = -0.5 * scale * np.sum(data**2) / 0.49 - scale * 5 * (math.log(0.7) + LOG_2PI / 2) - math.log(2) - LOG_2PI / 2
    expected = log + info**2 / precision / 2 + (LOG_2PI - math.log(precision)) / 2
    assert float(found.log()) == pytest.approx(expected, rel=1e-12)


def test_nested_scales() -> None:
    """Scales 2 and 3 of nested plates are six copies of the innermost, two of the outer."""
    variant = Variant(("w", "iwx", "ijxy"), {"w": (), "x": ("i",), "y": ("i", "j")}, ("i", "j"))
    factors, parts = build(variant)
    found = fb.eliminate(factors, ("w", "x", "y"), ("i", "j"), scale={"i": 2.0, "j": 3.0})
    more = [(repeated(repeated(arrays, "i", 2), "j", 3), 1.0) for arrays, _ in parts]
    oracle = Assembled(variant.lives, {**SIZES, "i": 2 * SIZES["i"], "j": 3 * SIZES["j"]}, more)
    assert float(found.log()) == pytest.approx(oracle.log, rel=1e-9)


@pytest.mark.parametrize("plate", ["i", "j"])
def test_marginals_with_a_scale(plate: str) -> None:
    """Of what lives above the plate: as if each cell were there twice."""
    variant = Variant(("w", "iwx", "ijxy"), {"w": (), "x": ("i",), "y": ("i", "j")}, ("i", "j"))
    factors, parts = build(variant)
    found = fb.marginals(factors, variant.lives, ("i", "j"), scale={plate: 2.0})
    more = [(repeated(arrays, plate, 2), 1.0) for arrays, _ in parts]
    oracle = Assembled(variant.lives, {**SIZES, plate: 2 * SIZES[plate]}, more)
    for name in ("w", "x") if plate == "j" else ("w",):
        for cell in itertools.product(*(range(SIZES[p]) for p in variant.lives[name])):
            block = oracle.blocks[name, cell][0]
            one = found[name](**dict(zip(variant.lives[name], cell, strict=True)))
            assert float(one.mean(name)) == pytest.approx(oracle.mean[block], rel=1e-8, abs=1e-9)
            assert float(one.variance(name)) == pytest.approx(oracle.covariance[block, block], rel=1e-8)


# -- mixed plates -----------------------------------------------------------------------------------------------------


def test_discrete_bipartite_plates_are_an_error_that_names_them() -> None:
    rng = np.random.default_rng(0)
    pair = fb.Table(rng.uniform(size=(2, 3, 2, 2)), ("i", "j", "a", "b"))
    with pytest.raises(fb.FubiniError, match=r"(?s)(?=.*'i')(?=.*'j')(?=.*'a')(?=.*'b')"):
        fb.eliminate([pair], {"a": ("i",), "b": ("j",)}, ("i", "j"))


def test_a_label_in_one_plate_and_a_real_in_the_other() -> None:
    """x[i] can become an array, so that a[j] is summed within its plate: against enumeration of the labels."""
    rng = np.random.default_rng(1)
    weights, location = rng.dirichlet(np.ones(2)), rng.normal(size=(2, 3, 2))
    data = rng.normal(size=(2, 3))
    x = fb.Variable("x", fb.Real)
    factors = [
        fb.Table(np.tile(weights, (3, 1)), ("j", "a")),
        dist.Normal(fb.Array(np.array([0.5, -1.0]), ("i",)), 2.0)("x"),
        dist.Normal(x + fb.Array(location, ("i", "j", "a")), 0.6)(fb.Array(data, ("i", "j"))),
    ]
    logs = []
    for labels in itertools.product(range(2), repeat=3):
        log = math.log(np.prod(weights[list(labels)]))
        for i, centre in enumerate((0.5, -1.0)):
            shift = np.array([location[i, j, labels[j]] for j in range(3)])
            log += stats.multivariate_normal(shift + centre, 0.36 * np.eye(3) + 4.0).logpdf(data[i])
        logs.append(log)
    try:
        found = fb.eliminate(factors, {"a": ("j",), "x": ("i",)}, ("i", "j"))
    except fb.FubiniError as error:
        assert "'i'" in str(error) and "'j'" in str(error)
    else:
        assert float(found.log()) == pytest.approx(logsumexp(logs), abs=1e-9)


@pytest.mark.parametrize(
    "engine", [np.asarray, pytest.param(jnp.asarray, marks=pytest.mark.slow)], ids=["numpy", "jax"]
)
def test_a_plate_of_labels_and_reals(engine: Callable) -> None:
    """c[j] and x[j] both inside the plate: each cell on its own."""
    rng = np.random.default_rng(2)
    weights, location, data = rng.dirichlet(np.ones(3)), rng.normal(size=3), rng.normal(size=4)
    x = fb.Variable("x", fb.Real)
    factors = [
        fb.Table(engine(np.tile(weights, (4, 1))), ("j", "c")),
        dist.Normal(fb.Array(engine(np.tile(location, (4, 1))), ("j", "c")), 0.8)("x"),
        dist.Normal(x, 0.5)(fb.Array(engine(data), ("j",))),
    ]
    small = 1e-10 if engine is np.asarray else 1e-4
    likelihood = weights * stats.norm.pdf(data[:, None], location, math.sqrt(0.89))
    found = fb.eliminate(factors, {"c": ("j",), "x": ("j",)}, ("j",))
    assert float(found.log()) == pytest.approx(np.log(likelihood.sum(1)).sum(), abs=10 * small)
    beliefs = jax.tree.map(np.asarray, fb.marginals(factors, {"c": ("j",), "x": ("j",)}, ("j",)))
    responsibility = likelihood / likelihood.sum(1, keepdims=True)
    assert set(beliefs["c"].inputs) == {"c", "j"} and set(beliefs["x"].inputs) == {"x", "j"}
    for j in range(4):
        np.testing.assert_allclose(np.exp(beliefs["c"](j=j).log().data), responsibility[j], atol=small)
        means = (location / 0.64 + data[j] / 0.25) / (1 / 0.64 + 4)
        assert float(beliefs["x"](j=j).mean("x")) == pytest.approx(responsibility[j] @ means, abs=10 * small)


def test_multiplying_out_a_plate_that_holds_a_kept_real_is_an_error() -> None:
    factor, _ = random_gaussian(np.random.default_rng(0), {"i": fb.Bint[2], "x": fb.Real, "y": fb.Real})
    with pytest.raises(fb.FubiniError, match=r"(?s)'i'.*'y'"):
        fb.eliminate([factor], {"x": ("i",)}, ("i",))


def test_a_label_counts_in_the_plates_of_its_scope() -> None:
    """A prior without the plate cannot be inside it: an error, since it would count once for all cells."""
    factors = [
        fb.Table([0.3, 0.7], ("c",)),
        dist.Normal(fb.Array(np.zeros(2), ("c",)), 1.0)(fb.Array(np.ones(3), ("j",))),
    ]
    with pytest.raises(fb.FubiniError, match=r"(?s)'c'.*'j'"):
        fb.eliminate(factors, {"c": ("j",)}, ("j",))


# -- multiplicity, and 200 nats ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_a_constant_under_a_plate_counts_once_for_each_cell(engine: Callable) -> None:
    """c · Gaussian[i, x] multiplied out over i holds c to the power |i|."""
    x = fb.Variable("x", fb.Real)
    data = engine(np.array([0.1, 0.5, -1.0, 2.0, 0.3]))
    term = fb.Table(0.25) * dist.Normal(x, 1.0)(fb.Array(data, ("i",)))
    found = float(term.product("i")(x=0.2).log())
    expected = 5 * math.log(0.25) + stats.norm(0.2, 1).logpdf(np.asarray(data)).sum()
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_shared_scale_in_a_plate() -> None:
    """Five points of one scale: the log-evidence and its derivative in the scale."""
    data = np.array([0.3, 1.2, -0.4, 0.8, 2.0])

    def log_evidence(sigma: jax.Array) -> jax.Array:
        x = fb.Variable("x", fb.Real)
        likelihood = dist.Normal(x, sigma)(fb.Array(jnp.asarray(data), ("i",))).product("i")
        return (dist.Normal(0.0, 1.0)("x") * likelihood).sum("x").log().data

    def oracle(sigma: float) -> float:
        return stats.multivariate_normal(np.zeros(5), sigma**2 * np.eye(5) + 1).logpdf(data)

    with jax.enable_x64(True):
        found, slope = jax.jit(jax.value_and_grad(log_evidence))(jnp.asarray(0.7))
    assert float(found) == pytest.approx(oracle(0.7), rel=1e-12)
    assert float(slope) == pytest.approx((oracle(0.7 + 1e-5) - oracle(0.7 - 1e-5)) / 2e-5, rel=1e-7)


def test_a_label_above_a_plate_of_gaussians_counts_once() -> None:
    """Σ_k p(k) Π_i N(y_i; μ_k): the prior of k is no factor of the plate."""
    data, location = np.array([0.1, -0.4, 0.9]), np.array([-1.0, 1.0])
    factors = [
        fb.Table([0.3, 0.7], ("k",)),
        dist.Normal(fb.Array(location, ("k",)), 1.0)(fb.Array(data, ("i",))),
    ]
    found = fb.eliminate(factors, {"k": ()}, ("i",))
    expected = logsumexp(np.log([0.3, 0.7]) + stats.norm.logpdf(data[:, None], location).sum(0))
    assert float(found.log()) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("engine", [np.asarray, lambda v: jnp.asarray(v, jnp.float32)], ids=["numpy", "jax"])
def test_factors_that_disagree_by_200_nats(engine: Callable) -> None:
    """Weights [0, −200] and [−200, 0] with a Gaussian in each cell: −199.307, in single precision too."""
    f = fb.Table.from_log(engine(np.array([0.0, -200.0])), ("k",))
    g = fb.Table.from_log(engine(np.array([-200.0, 0.0])), ("k",))
    located = dist.Normal(fb.Array(engine(np.array([-1.0, 1.0])), ("k",)), 1.0)("x")
    for sums in (("k", "x"), ("x", "k")):
        term = f * g * located
        for name in sums:
            term = term.sum(name)
        assert float(term.log()) == pytest.approx(-199.306853, abs=1e-4)
    assert float(fb.eliminate([f, g, located], ("k", "x")).log()) == pytest.approx(-199.306853, abs=1e-4)
    np.testing.assert_allclose(np.exp(fb.marginals([f, g, located], ("k", "x"))["k"].log().data), [0.5, 0.5], atol=1e-5)


def test_the_derivative_through_200_nats() -> None:
    """∂/∂θ log Σ_k f g is the posterior of k, also where each factor alone would underflow."""

    def total(theta: jax.Array) -> jax.Array:
        f = fb.Table.from_log(theta, ("k",))
        g = fb.Table.from_log(jnp.array([-200.0, 0.0]), ("k",))
        located = dist.Normal(fb.Array(jnp.array([-1.0, 1.0]), ("k",)), 1.0)("x")
        return fb.eliminate([f, g, located], ("k", "x")).log().data

    np.testing.assert_allclose(jax.jit(jax.grad(total))(jnp.array([0.0, -200.0])), [0.5, 0.5], atol=1e-5)


def test_far_emissions_of_a_label_do_not_underflow() -> None:
    """Densities at −4.5e6 nats in every cell: the label is still decided, and the evidence finite."""
    location = np.array([-1000.0, 0.0, 2000.0])
    factors = [fb.Table([0.2, 0.3, 0.5], ("k",)), dist.Normal(fb.Array(location, ("k",)), 1.0)("x")]
    factors.append(dist.Normal(fb.Variable("x", fb.Real), 0.1)(5000.0))
    logs = np.log([0.2, 0.3, 0.5]) + stats.norm(location, math.sqrt(1.01)).logpdf(5000.0)
    assert float(fb.eliminate(factors, ("k", "x")).log()) == pytest.approx(logsumexp(logs), rel=1e-12)
    found = fb.marginals(factors, ("k", "x"))
    np.testing.assert_allclose(np.exp(found["k"].log().data), [0, 0, 1], atol=1e-12)
    assert float(found["x"].mean("x")) == pytest.approx((2000 + 100 * 5000) / 101, rel=1e-9)


# -- the Gaussian-mixture program -------------------------------------------------------------------------------------


def mixture_program(data: object, weights: object, prior: object, noise: object) -> fb.Factor:
    """Fig. 1 of the functional-tensor paper: component means z[c], data in a plate, labels summed in the plate."""
    count, size = np.shape(data)
    components = np.shape(weights)[0]
    z, c = fb.Variable("z", fb.Reals[components, size]), fb.Variable("c", fb.Bint[components])
    j = fb.Variable("j", fb.Bint[count])
    p_z = dist.MultivariateNormal(np.zeros(size), prior)("z")
    p_x = dist.MultivariateNormal(fb.Variable("z", fb.Reals[size]), noise)("x")
    p_c = fb.Table(weights, ("c",))
    prior_of_all = p_z(z=z[c]).product("c")
    likelihood = (p_c * p_x(z=z[c], x=fb.Array(data)[j])).sum("c").product("j")
    return (prior_of_all * likelihood).sum("z")


def mixture_evidence(data: np.ndarray, weights: np.ndarray, prior: np.ndarray, noise: np.ndarray) -> float:
    """Every assignment of labels; given them, the data of a component are jointly normal."""
    count, size = data.shape
    logs = []
    for labels in itertools.product(range(len(weights)), repeat=count):
        log = float(np.sum(np.log(np.asarray(weights)[list(labels)])))
        for k in set(labels):
            mine = data[[n for n, label in enumerate(labels) if label == k]]
            m = len(mine)
            covariance = np.kron(np.ones((m, m)), prior) + np.kron(np.eye(m), noise)
            root = np.linalg.cholesky(covariance)
            white = np.linalg.solve(root, mine.ravel())
            log += -0.5 * (white @ white + m * size * LOG_2PI) - np.sum(np.log(np.diag(root)))
        logs.append(log)
    return float(logsumexp(logs))


def mixture_data(count: int, size: int) -> np.ndarray:
    return np.random.default_rng(4).normal(0, 1.5, (count, size))


PRIOR = {1: np.array([[4.0]]), 2: np.array([[4.0, 0.5], [0.5, 3.0]]), 3: np.diag([4.0, 2.0, 1.0])}


@pytest.mark.parametrize(("weights", "size"), [((0.5, 0.5), 3), ((0.3, 0.7), 2), ((0.9, 0.1), 1)])
def test_mixture_program_is_exact_at_8(weights: tuple[float, ...], size: int) -> None:
    data, noise = mixture_data(8, size), 0.5 * np.eye(size)
    found = mixture_program(data, np.array(weights), PRIOR[size], noise)
    assert not found.inputs and found.exactness.is_exact
    expected = mixture_evidence(data, np.array(weights), PRIOR[size], noise)
    assert float(found.log()) == pytest.approx(expected, abs=1e-9)


def test_mixture_program_of_three_components() -> None:
    data, weights = mixture_data(5, 2), np.array([0.2, 0.3, 0.5])
    found = mixture_program(data, weights, PRIOR[2], 0.5 * np.eye(2))
    assert float(found.log()) == pytest.approx(mixture_evidence(data, weights, PRIOR[2], 0.5 * np.eye(2)), abs=1e-9)


@pytest.mark.slow
def test_mixture_program_of_jax_arrays() -> None:
    data, weights = mixture_data(5, 2), np.array([0.3, 0.7])
    arrays = (data, weights, PRIOR[2], 0.5 * np.eye(2))
    run = jax.jit(lambda *args: mixture_program(*args).log().data)
    assert float(run(*map(jnp.asarray, arrays))) == pytest.approx(mixture_evidence(*arrays), rel=1e-4)
    with jax.enable_x64(True):
        assert float(run(*map(jnp.asarray, arrays))) == pytest.approx(mixture_evidence(*arrays), abs=1e-9)


def test_mixture_program_at_50_says_what_blocks() -> None:
    with pytest.raises(fb.FubiniError) as caught:
        mixture_program(mixture_data(50, 2), np.array([0.3, 0.7]), PRIOR[2], 0.5 * np.eye(2))
    text = str(caught.value)
    assert re.search(r"plate 'j', of 50 cells.*mixture over '?c\b.*'z'", text)
    assert "moment_matching" in text


def test_mixture_program_at_50_stays_recorded_under_lazy() -> None:
    with fb.lazy:
        recorded = mixture_program(mixture_data(50, 2), np.array([0.3, 0.7]), PRIOR[2], 0.5 * np.eye(2))
    assert not recorded.inputs
    with pytest.raises(fb.FubiniError, match=r"plate '?j\b.*50 cells.*mixture over '?c\b.*'?z\b"):
        fb.evaluate(recorded)


def test_mixture_program_recorded_at_6() -> None:
    data, weights = mixture_data(6, 2), np.array([0.3, 0.7])
    with fb.lazy:
        recorded = mixture_program(data, weights, PRIOR[2], 0.5 * np.eye(2))
    expected = mixture_evidence(data, weights, PRIOR[2], 0.5 * np.eye(2))
    assert float(fb.evaluate(recorded).log()) == pytest.approx(expected, abs=1e-9)


@pytest.mark.slow
def test_derivatives_of_the_evidence_of_the_mixture_program() -> None:
    """In the data, the weights, the prior and the noise; against differences of the enumeration."""
    point = (mixture_data(3, 2), np.array([0.3, 0.7]), PRIOR[2], np.array([[0.5, 0.1], [0.1, 0.8]]))

    def symmetric(*args: object) -> tuple:
        data, weights, prior, noise = args
        return data, weights, (prior + prior.T) / 2, (noise + noise.T) / 2

    with jax.enable_x64(True):
        found = jax.jit(jax.grad(lambda *a: mixture_program(*symmetric(*a)).log().data, (0, 1, 2, 3)))(
            *map(jnp.asarray, point)
        )
    for k, array in enumerate(point):
        for entry in np.ndindex(array.shape):
            ends = []
            for step in (1e-5, -1e-5):
                moved = array.copy()
                moved[entry] += step
                ends.append(mixture_evidence(*symmetric(*point[:k], moved, *point[k + 1 :])))
            assert float(found[k][entry]) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-6)


# -- compiled once ----------------------------------------------------------------------------------------------------

WORLD = random_network(4)


def renumbered(seed: int) -> MixedNetwork:
    """The same structure with other numbers."""
    rng = np.random.default_rng(seed)
    nodes = []
    for node in WORLD.nodes:
        made = Node(node.name, node.discrete, node.reals)
        if node.table is not None:
            made.table = rng.dirichlet(np.ones(node.table.shape[-1]), node.table.shape[:-1] or None)
        else:
            made.intercept, made.deviation = (
                rng.normal(size=node.intercept.shape),
                rng.uniform(0.5, 1, node.intercept.shape),
            )
            made.slopes = {parent: rng.normal(size=slope.shape) for parent, slope in node.slopes.items()}
        nodes.append(made)
    return MixedNetwork(nodes, WORLD.sizes)


def ask_evidence(factors: list, names: tuple) -> object:
    return fb.eliminate(factors, names).log().data


def ask_marginals(factors: list, names: tuple) -> object:
    return [leaf for factor in fb.marginals(factors, names).values() for leaf in jax.tree.leaves(factor)]


def ask_argmax(factors: list, names: tuple) -> object:
    return fb.argmax(factors, names)


KEY = jax.random.key(0)


def ask_samples(factors: list, names: tuple) -> object:
    return fb.sample(KEY, factors, names, n=10)


SLOW = [pytest.param(ask, marks=pytest.mark.slow) for ask in (ask_marginals, ask_argmax, ask_samples)]
QUESTIONS = [ask_evidence, *SLOW]


@pytest.mark.parametrize("ask", QUESTIONS, ids=lambda ask: ask.__name__)
def test_the_same_structure_is_not_traced_again(ask: Callable) -> None:
    names = hidden(WORLD, {})
    renumbered_factors = [renumbered(seed).factors({}, lambda v: jnp.asarray(v, jnp.float32)) for seed in range(3)]
    renumbered_factors = [[jax.tree.map(lambda leaf: leaf, f) for f in factors] for factors in renumbered_factors]
    ask(renumbered_factors[0], names)
    ask(renumbered_factors[0], names)
    with no_tracing():
        for factors in renumbered_factors[1:]:
            jax.block_until_ready(ask(factors, names))


def test_a_users_function_of_mixed_factors_is_traced_once() -> None:
    """`jax.jit` around the question, numbers in and out."""
    traced, names = [], hidden(WORLD, {})

    @jax.jit
    def evidence(location: jax.Array) -> jax.Array:
        traced.append(None)
        label = next(iter(WORLD.sizes))
        extra = dist.Normal(fb.Array(location, (label,)), 1.0)(0.3)
        return fb.eliminate([*WORLD.factors({}), extra], names).log().data

    label = next(iter(WORLD.sizes))
    cells = WORLD.cells({})
    for seed in range(3):
        location = np.random.default_rng(seed).normal(size=WORLD.sizes[label])
        expected = logsumexp([log + stats.norm(location[at[label]], 1).logpdf(0.3) for at, log, _ in cells])
        assert float(evidence(jnp.asarray(location))) == pytest.approx(expected, abs=1e-4)
    assert len(traced) == 1
