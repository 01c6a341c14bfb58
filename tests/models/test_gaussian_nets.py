"""Gaussian and conditional Gaussian networks of the bnlearn repository against formulas that share no code with ours.

Given its discrete variables a network is x = a + B x + e, e ~ N(0, S) with S diagonal: the mean is (I − B)⁻¹ a, the
covariance (I − B)⁻¹ S (I − B)⁻ᵀ. What is discrete is enumerated.
"""

import gzip
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import pytest
from scipy.special import logsumexp

import fubini as fb

GAUSSIAN = ("ecoli70", "magic-niab", "magic-irri", "arth150")


# -- the oracle -------------------------------------------------------------------------------------------------------


@lru_cache
def read_nodes(path: Path) -> dict[str, dict]:
    """The nodes as the file has them."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return {node["name"]: node for node in json.loads(text)["nodes"]}


class Normal(NamedTuple):
    names: list[str]
    mean: np.ndarray
    root: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        return self.root @ self.root.T


def cell_of(node: Mapping, labels: Mapping[str, str]) -> int:
    """The configuration of discrete parents, the first varying fastest."""
    position, stride = 0, 1
    for parent in node["discrete_parents"]:
        position += stride * node["levels"][parent].index(labels[parent])
        stride *= len(node["levels"][parent])
    return position


def joint_normal(nodes: Mapping[str, Mapping], labels: Mapping[str, str]) -> Normal:
    """All real variables given every discrete one."""
    names = [name for name, node in nodes.items() if node["type"] != "discrete"]
    at = {name: position for position, name in enumerate(names)}
    slopes, intercept, deviation = np.zeros((len(names),) * 2), np.zeros(len(names)), np.zeros(len(names))
    for name in names:
        node, row = nodes[name], at[name]
        if node["type"] == "gaussian":
            intercept[row], deviation[row] = node["intercept"], node["sd"]
            coefficients = node["coef"]
        else:
            cell = cell_of(node, labels)
            intercept[row], deviation[row] = node["intercept"][cell], node["sd"][cell]
            coefficients = {parent: values[cell] for parent, values in node["coef"].items()}
        for parent, coefficient in coefficients.items():
            slopes[row, at[parent]] = coefficient
    inverse = np.linalg.inv(np.eye(len(names)) - slopes)
    return Normal(names, inverse @ intercept, inverse * deviation)


def given(joint: Normal, seen: Mapping[str, float]) -> tuple[float, Normal]:
    """The log-density of what is seen, and the other variables given it."""
    here = [joint.names.index(name) for name in seen]
    rest = [position for position, name in enumerate(joint.names) if name not in seen]
    residual = np.array(list(seen.values())) - joint.mean[here]
    basis, triangle = np.linalg.qr(joint.root[here].T, mode="complete")  # x_seen = triangleᵀ of the first noises
    first, null = basis[:, : len(here)], basis[:, len(here) :]
    white = np.linalg.solve(triangle[: len(here)].T, residual)
    logdet = 2 * np.sum(np.log(np.abs(np.diag(triangle))))
    log = -0.5 * (white @ white + logdet + len(here) * math.log(2 * math.pi))
    mean = joint.mean[rest] + joint.root[rest] @ (first @ white)
    return float(log), Normal([joint.names[k] for k in rest], mean, joint.root[rest] @ null)


def log_probability(nodes: Mapping[str, Mapping], labels: Mapping[str, str]) -> float:
    """Of all discrete variables."""
    total = 0.0
    for name, node in nodes.items():
        if node["type"] == "discrete":
            cell = np.asarray(node["prob"])[node["states"].index(labels[name])]
            for parent in node["parents"]:
                cell = cell[nodes[parent]["states"].index(labels[parent])]
            total += math.log(cell) if cell > 0 else -math.inf
    return total


class Answer(NamedTuple):
    """Enumeration: the evidence, tables of discrete variables, moments of real ones."""

    log_evidence: float
    tables: dict[str, np.ndarray]
    means: dict[str, float]
    variances: dict[str, float]
    cells: list[tuple[dict[str, str], float, Normal]]


def enumerated(nodes: Mapping[str, Mapping], labels: Mapping[str, str], seen: Mapping[str, float]) -> Answer:
    """Over every assignment of the discrete variables that are not observed."""
    free = [name for name, node in nodes.items() if node["type"] == "discrete" and name not in labels]
    cells = []
    for values in itertools.product(*(nodes[name]["states"] for name in free)):
        assignment = {**labels, **dict(zip(free, values, strict=True))}
        log = log_probability(nodes, assignment)
        joint = joint_normal(nodes, assignment)
        more, rest = given(joint, seen) if seen else (0.0, joint)
        cells.append((assignment, log + more, rest))
    total = float(logsumexp([log for _, log, _ in cells]))
    tables = {
        name: np.array(
            [
                sum(math.exp(log - total) for assignment, log, _ in cells if assignment[name] == s)
                for s in nodes[name]["states"]
            ]
        )
        for name in free
    }
    shares = np.array([math.exp(log - total) for _, log, _ in cells])
    stacked = np.array([rest.mean for _, _, rest in cells])
    spread = np.array([np.diag(rest.covariance) for _, _, rest in cells])
    mean = shares @ stacked
    variance = shares @ (spread + (stacked - mean) ** 2)
    names = cells[0][2].names
    return Answer(
        total, tables, dict(zip(names, mean, strict=True)), dict(zip(names, variance, strict=True)), cells
    )  # fmt: skip


def drawn(nodes: Mapping[str, Mapping], rng: np.random.Generator, labels: Mapping[str, str] | None = None) -> dict:
    """One draw of every variable from the model itself, parents before children; `labels` are held."""
    assignment: dict = dict(labels or {})
    waiting = list(nodes)
    while waiting:
        name = waiting.pop(0)
        node = nodes[name]
        if name in assignment:
            continue
        parents = node["parents"] if node["type"] != "clg" else node["discrete_parents"] + node["continuous_parents"]
        if not all(parent in assignment for parent in parents):
            waiting.append(name)
        elif node["type"] == "discrete":
            column = np.asarray(node["prob"])
            for parent in parents:
                column = column[:, nodes[parent]["states"].index(assignment[parent])]
            assignment[name] = node["states"][rng.choice(len(column), p=column / column.sum())]
        else:
            cell = cell_of(node, assignment) if node["type"] == "clg" else None
            pick = (lambda values: values) if cell is None else (lambda values, cell=cell: values[cell])
            mean = pick(node["intercept"]) + sum(pick(c) * assignment[p] for p, c in node["coef"].items())
            assignment[name] = mean + pick(node["sd"]) * rng.normal()
    return assignment


def check_real(found: Mapping[str, fb.Factor], expected: Answer, rtol: float, scales: Mapping[str, float]) -> None:
    """Mean and variance of every real variable; a mean is compared on the scale of its variable."""
    for name, mean in expected.means.items():
        marginal = found[name]
        assert set(marginal.inputs) == {name} and marginal.exactness.is_exact
        size = max(abs(mean), math.sqrt(expected.variances[name]), scales.get(name, 0.0))
        assert float(marginal.mean(name)) == pytest.approx(mean, abs=rtol * size), name
        assert float(marginal.variance(name)) == pytest.approx(expected.variances[name], rel=rtol), name


def check_tables(found: Mapping[str, fb.Factor], expected: Answer, atol: float) -> None:
    for name, table in expected.tables.items():
        assert isinstance(found[name], fb.Table) and set(found[name].inputs) == {name}
        np.testing.assert_allclose(np.exp(found[name].log().data), table, atol=atol, err_msg=name)


# -- linear Gaussian networks -----------------------------------------------------------------------------------------


@pytest.fixture(params=GAUSSIAN)
def linear(request: pytest.FixtureRequest, data: Path) -> tuple[fb.Network, dict[str, dict], Normal]:
    path = data / "bayes_nets" / "gaussian" / f"{request.param}.json"
    nodes = read_nodes(path)
    return fb.io.read_json(path), nodes, joint_normal(nodes, {})


Linear = tuple[fb.Network, dict[str, dict], Normal]


def evidence_for(nodes: Mapping[str, Mapping], count: int, seed: int) -> dict[str, float]:
    """Some variables of one draw of the model."""
    rng = np.random.default_rng(seed)
    assignment = drawn(nodes, rng)
    return {str(name): assignment[str(name)] for name in rng.choice(list(nodes), count, replace=False)}


def check_normal(found: Mapping[str, fb.Factor], joint: Normal, rtol: float = 1e-9) -> None:
    assert list(found) == joint.names
    for position, name in enumerate(joint.names):
        deviation = math.sqrt(joint.covariance[position, position])
        size = max(abs(joint.mean[position]), deviation)
        assert isinstance(found[name], fb.Gaussian) and found[name].exactness.is_exact
        assert float(found[name].mean(name)) == pytest.approx(joint.mean[position], abs=rtol * size), name
        assert float(found[name].variance(name)) == pytest.approx(deviation**2, rel=10 * rtol), name


def test_read(linear: Linear) -> None:
    net, nodes, _ = linear
    assert list(net.variables) == list(nodes) and set(map(repr, net.variables.values())) == {"Real"}
    assert len(net.factors) == len(nodes) and net.directed


def test_prior_marginals(linear: Linear) -> None:
    net, _, joint = linear
    check_normal(net.marginals(), joint)


def test_prior_evidence_is_one(linear: Linear) -> None:
    assert float(linear[0].log_evidence()) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_marginals_given_evidence(linear: Linear, seed: int) -> None:
    net, nodes, joint = linear
    seen = evidence_for(nodes, 1 + 3 * seed, seed)
    _, rest = given(joint, seen)
    check_normal(net.condition(seen).marginals(), rest, 1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_log_evidence(linear: Linear, seed: int) -> None:
    net, nodes, joint = linear
    seen = evidence_for(nodes, 1 + 3 * seed, seed)
    expected, _ = given(joint, seen)
    assert float(net.condition(seen).log_evidence()) == pytest.approx(expected, abs=1e-8)


def test_log_evidence_of_everything_is_the_log_density(linear: Linear) -> None:
    net, nodes, _ = linear
    assignment = drawn(nodes, np.random.default_rng(7))
    expected = sum(
        -0.5 * ((assignment[n] - d["intercept"] - sum(c * assignment[p] for p, c in d["coef"].items())) / d["sd"]) ** 2
        - math.log(d["sd"])
        - 0.5 * math.log(2 * math.pi)
        for n, d in nodes.items()
    )
    assert float(net.condition(assignment).log_evidence()) == pytest.approx(expected, rel=1e-12)


def test_map_is_the_mean(linear: Linear) -> None:
    net, nodes, joint = linear
    seen = evidence_for(nodes, 4, 5)
    _, rest = given(joint, seen)
    best = net.condition(seen).map()
    assert list(best) == rest.names
    for position, name in enumerate(rest.names):
        deviation = math.sqrt(rest.covariance[position, position])
        assert best[name] == pytest.approx(rest.mean[position], abs=1e-8 * max(1, abs(rest.mean[position]), deviation))


def test_sample_moments(linear: Linear) -> None:
    """20,000 draws: means within 5 standard errors, correlations within 0.05."""
    net, nodes, joint = linear
    seen = evidence_for(nodes, 4, 5)
    _, rest = given(joint, seen)
    n = 20_000
    draws = net.condition(seen).sample(jax.random.key(1), n=n)
    found = np.stack([draws[name] for name in rest.names])
    assert found.shape == (len(rest.names), n)
    deviation = np.sqrt(np.diag(rest.covariance))
    white = (found - rest.mean[:, None]) / deviation[:, None]
    assert np.abs(white.mean(1)).max() < 5 / math.sqrt(n)
    correlation = rest.covariance / np.outer(deviation, deviation)
    np.testing.assert_allclose(white @ white.T / n, correlation, atol=0.05)


# -- healthcare -------------------------------------------------------------------------------------------------------


@pytest.fixture
def healthcare(data: Path) -> tuple[fb.Network, dict[str, dict]]:
    path = data / "bayes_nets" / "clg" / "healthcare.json"
    return fb.io.read_json(path), read_nodes(path)


Mixed = tuple[fb.Network, dict[str, dict]]


def test_healthcare_prior(healthcare: Mixed) -> None:
    net, nodes = healthcare
    expected, found = enumerated(nodes, {}, {}), net.marginals()
    assert set(found) == set(nodes)
    check_tables(found, expected, 1e-12)
    check_real(found, expected, 1e-10, {})
    assert float(net.log_evidence()) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("labels", [{"A": "old"}, {"C": "severe"}, {"H": "any"}, {"A": "adult", "H": "none"}])
def test_healthcare_given_labels(healthcare: Mixed, labels: dict[str, str]) -> None:
    net, nodes = healthcare
    expected, asked = enumerated(nodes, labels, {}), net.condition(labels)
    found = asked.marginals()
    check_tables(found, expected, 1e-12)
    check_tables({name: asked.marginals(name)[name] for name in expected.tables}, expected, 1e-12)
    for name, mean in expected.means.items():
        assert float(found[name].mean(name)) == pytest.approx(mean, rel=1e-10, abs=1e-10)
        assert float(found[name].variance(name)) == pytest.approx(expected.variances[name], rel=1e-10, abs=1e-12)
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_healthcare_given_costs(healthcare: Mixed, seed: int) -> None:
    """Real evidence beyond the points: of T, or of I and O, each a density in every cell."""
    net, nodes = healthcare
    assignment = drawn(nodes, np.random.default_rng(seed))
    seen = {name: assignment[name] for name in (("T",) if seed % 2 else ("I", "O"))}
    expected, asked = enumerated(nodes, {}, seen), net.condition(seen)
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, abs=1e-8)
    found = asked.marginals()
    check_tables(found, expected, 1e-9)
    for name, mean in expected.means.items():
        size = max(abs(mean), math.sqrt(expected.variances[name]))
        assert float(found[name].mean(name)) == pytest.approx(mean, abs=1e-7 * size), name
        assert float(found[name].variance(name)) == pytest.approx(expected.variances[name], rel=1e-6, abs=1e-9), name


def test_healthcare_at_the_mass_of_some_cells(healthcare: Mixed) -> None:
    """A mass in some cells, a density in others: not one number, and the error says of what and what to do."""
    with pytest.raises(fb.FubiniError, match=r"(?s)'D'.*point mass.*condition on the discrete"):
        healthcare[0].condition(D=0.0).log_evidence()


def test_healthcare_off_the_mass(healthcare: Mixed) -> None:
    """D = 2.5 is possible only where it has a density, so that H is any."""
    net, nodes = healthcare
    expected = enumerated(nodes, {"H": "any"}, {"D": 2.5})
    asked = net.condition(D=2.5)
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, abs=1e-10)
    found = asked.marginals()
    check_tables(found, expected, 1e-10)
    np.testing.assert_allclose(np.exp(found["H"].log().data), [0.0, 1.0], atol=1e-12)
    assert float(found["T"].mean("T")) == pytest.approx(expected.means["T"], rel=1e-9)


def test_healthcare_at_a_value_of_d_where_it_has_a_density(healthcare: Mixed) -> None:
    """What the error says to do: H chooses between mass and density."""
    net, nodes = healthcare
    expected = enumerated(nodes, {"H": "any"}, {"D": 2.5})
    asked = net.condition(H="any", D=2.5)
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, abs=1e-10)
    found = asked.marginals()
    check_tables(found, expected, 1e-10)
    for name in ("I", "O", "T"):
        assert float(found[name].mean(name)) == pytest.approx(expected.means[name], rel=1e-9)
        assert float(found[name].variance(name)) == pytest.approx(expected.variances[name], rel=1e-9)


def test_healthcare_at_the_mass(healthcare: Mixed) -> None:
    """Where H is none D is 0 for certain, so that seeing it tells nothing."""
    net, nodes = healthcare
    expected = enumerated(nodes, {"H": "none"}, {})
    asked = net.condition(H="none", D=0.0)
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, abs=1e-10)
    found = asked.marginals()
    check_tables(found, expected, 1e-10)
    assert float(found["T"].mean("T")) == pytest.approx(expected.means["T"], rel=1e-9)


@pytest.mark.parametrize("labels", [{"H": "any"}, {"H": "none"}, {"A": "old", "C": "mild", "H": "none"}])
def test_healthcare_samples_given_labels_and_costs(healthcare: Mixed, labels: dict[str, str]) -> None:
    net, nodes = healthcare
    expected, n = enumerated(nodes, labels, {"T": 500.0}), 20_000
    draws = net.condition({**labels, "T": 500.0}).sample(jax.random.key(4), n=n)
    for name, mean in expected.means.items():
        deviation = math.sqrt(max(expected.variances[name], 0.0))
        assert draws[name].mean() == pytest.approx(mean, abs=6 * deviation / math.sqrt(n) + 1e-9), name
        assert draws[name].std() == pytest.approx(deviation, rel=0.1, abs=1e-9), name


def test_healthcare_samples(healthcare: Mixed) -> None:
    """Points are drawn as points: D is 0 exactly when H is none."""
    net, nodes = healthcare
    n = 20_000
    draws = net.sample(jax.random.key(3), n=n)
    expected = enumerated(nodes, {}, {})
    for name, table in expected.tables.items():
        shares = [(draws[name] == label).mean() for label in nodes[name]["states"]]
        np.testing.assert_allclose(shares, table, atol=5 * 0.5 / math.sqrt(n))
    np.testing.assert_array_equal(draws["D"] == 0.0, draws["H"] == "none")
    for name, mean in expected.means.items():
        deviation = math.sqrt(expected.variances[name])
        assert draws[name].mean() == pytest.approx(mean, abs=5 * deviation / math.sqrt(n)), name
        assert draws[name].std() == pytest.approx(deviation, rel=0.1), name


# -- sangiovese -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sangiovese(data: Path) -> tuple[fb.Network, dict[str, dict]]:
    path = data / "bayes_nets" / "clg" / "sangiovese.json"
    return fb.io.read_json(path), read_nodes(path)


def test_sangiovese_prior(sangiovese: Mixed) -> None:
    net, nodes = sangiovese
    expected, found = enumerated(nodes, {}, {}), net.marginals()
    check_tables(found, expected, 1e-10)
    check_real(found, expected, 1e-9, {})


@pytest.mark.parametrize("seed", range(4))
def test_sangiovese_given_reals(sangiovese: Mixed, seed: int) -> None:
    net, nodes = sangiovese
    rng = np.random.default_rng(seed)
    assignment = drawn(nodes, rng)
    reals = [name for name, node in nodes.items() if node["type"] != "discrete"]
    seen = {str(name): assignment[str(name)] for name in rng.choice(reals, 1 + seed, replace=False)}
    expected, asked = enumerated(nodes, {}, seen), net.condition(seen)
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, abs=1e-8)
    found = asked.marginals()
    check_tables(found, expected, 1e-8)
    check_real(found, expected, 1e-7, {})


def test_sangiovese_given_a_treatment(sangiovese: Mixed) -> None:
    net, nodes = sangiovese
    expected, asked = enumerated(nodes, {"Treatment": "T5b"}, {}), net.condition(Treatment="T5b")
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, abs=1e-9)
    check_real(asked.marginals(), expected, 1e-9, {})


@pytest.mark.parametrize("seed", range(2))
def test_sangiovese_map(sangiovese: Mixed, seed: int) -> None:
    """The mode of the largest peak: weight over the root of the determinant, in each treatment."""
    net, nodes = sangiovese
    assignment = drawn(nodes, np.random.default_rng(seed))
    seen = {"GrapeW": assignment["GrapeW"]}
    cells = enumerated(nodes, {}, seen).cells
    peaks = [log - 0.5 * np.linalg.slogdet(rest.covariance)[1] for _, log, rest in cells]
    labels, _, rest = cells[int(np.argmax(peaks))]
    best = net.condition(seen).map()
    assert best["Treatment"] == labels["Treatment"]
    for position, name in enumerate(rest.names):
        assert best[name] == pytest.approx(rest.mean[position], rel=1e-7, abs=1e-7), name


def test_sangiovese_samples(sangiovese: Mixed) -> None:
    net, nodes = sangiovese
    seen = {"GrapeW": drawn(nodes, np.random.default_rng(0))["GrapeW"]}
    expected, n = enumerated(nodes, {}, seen), 20_000
    draws = net.condition(seen).sample(jax.random.key(2), n=n)
    shares = [(draws["Treatment"] == label).mean() for label in nodes["Treatment"]["states"]]
    np.testing.assert_allclose(shares, expected.tables["Treatment"], atol=5 * 0.5 / math.sqrt(n))
    for name, mean in expected.means.items():
        deviation = math.sqrt(expected.variances[name])
        assert draws[name].mean() == pytest.approx(mean, abs=5 * deviation / math.sqrt(n)), name
        assert draws[name].std() == pytest.approx(deviation, rel=0.05), name


# -- mehra ------------------------------------------------------------------------------------------------------------

ROOTS = ("Region", "Zone", "Type", "Year", "Season", "Month", "Day", "Hour")
FREE = [("Month", "Hour"), ("Region", "Zone"), ("Zone", "Type"), ("Season", "Year"), ("Type", "Season")]


@pytest.fixture(scope="module")
def mehra(data: Path) -> tuple[fb.Network, dict[str, dict]]:
    path = data / "bayes_nets" / "clg" / "mehra-complete.json.gz"
    return fb.io.read_json(path), read_nodes(path)


def six_roots(nodes: Mapping[str, Mapping], free: Sequence[str], seed: int) -> dict[str, str]:
    rng = np.random.default_rng(seed)
    return {name: nodes[name]["states"][rng.integers(len(nodes[name]["states"]))] for name in ROOTS if name not in free}


def test_mehra_has_eight_roots_and_tiny_cells(mehra: Mixed) -> None:
    """What makes it hard: a scale of 1e-7 beside scales of 1e4."""
    _, nodes = mehra
    discrete = [name for name, node in nodes.items() if node["type"] == "discrete"]
    deviations = np.concatenate([np.ravel(node["sd"]) for node in nodes.values() if node["type"] != "discrete"])
    assert sorted(discrete) == sorted(ROOTS)
    assert 0 < deviations.min() < 1e-6 and deviations.max() > 10


@pytest.mark.parametrize(("free", "seed"), list(zip(FREE, (0, 1, 11, 0, 1), strict=True)), ids=str)
def test_mehra_given_six_roots(mehra: Mixed, free: tuple[str, str], seed: int) -> None:
    """A covering design: each pair of roots left free, with seeds in turn."""
    net, nodes = mehra
    labels = six_roots(nodes, free, seed)
    expected, asked = enumerated(nodes, labels, {}), net.condition(labels)
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, abs=1e-6)
    found = asked.marginals()
    check_tables(found, expected, 1e-6)
    check_real(found, expected, 1e-6, {})


REALS = ("t2m", "ws", "tp", "blh", "ssr", "no2", "o3", "so2", "co", "pm10", "pm2.5", "wd", "CVD60")


def check_given(net: fb.Network, nodes: dict, labels: dict, seen: dict, rtol: float) -> None:
    """Evidence, tables and moments, a moment on the scale of its variable before the evidence."""
    prior, expected = enumerated(nodes, labels, {}), enumerated(nodes, labels, seen)
    asked = net.condition({**labels, **seen})
    assert float(asked.log_evidence()) == pytest.approx(expected.log_evidence, rel=rtol, abs=rtol)
    found = asked.marginals()
    check_tables(found, expected, rtol)
    for name, mean in expected.means.items():
        size = max(abs(mean), math.sqrt(expected.variances[name]))
        assert float(found[name].mean(name)) == pytest.approx(mean, abs=rtol * size), name
        tiny = 1e-14 * (prior.variances[name] + prior.means[name] ** 2)
        assert float(found[name].variance(name)) == pytest.approx(expected.variances[name], rel=rtol, abs=tiny), name


@pytest.mark.parametrize("name", REALS)
def test_mehra_given_six_roots_and_a_real(mehra: Mixed, name: str) -> None:
    """Evidence drawn from the model itself; a covering design, each variable with three pairs of free roots in turn."""
    net, nodes = mehra
    free = FREE[REALS.index(name) % 3]
    labels = six_roots(nodes, free, 11)
    assignment = drawn(nodes, np.random.default_rng(1), labels)
    check_given(net, nodes, labels, {name: assignment[name]}, 1e-6)


@pytest.mark.parametrize("names", [("pm10", "t2m"), ("pm2.5", "ws"), ("o3", "no2")], ids="-".join)
@pytest.mark.parametrize("free", FREE[:2], ids="-".join)
def test_mehra_given_six_roots_and_two_reals(mehra: Mixed, free: tuple[str, str], names: tuple[str, str]) -> None:
    net, nodes = mehra
    labels = six_roots(nodes, free, 12)
    assignment = drawn(nodes, np.random.default_rng(2), labels)
    check_given(net, nodes, labels, {name: assignment[name] for name in names}, 1e-6)
