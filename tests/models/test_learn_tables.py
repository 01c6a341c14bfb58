"""Tables learnt from data: counts, pseudo-counts, and expectation–maximisation of missing cells by enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

import fubini as fb
from fubini.eliminate.observed_tables import ManyCases
from fubini.errors import DataError, DomainError, UnknownName

PARENTS = {"a": (), "b": ("a",), "c": ("a", "b"), "d": ("c",)}
SIZES = {"a": 2, "b": 3, "c": 2, "d": 3}
DOMAINS = {name: fb.Bint.labelled(*(f"{name}{k}" for k in range(size))) for name, size in SIZES.items()}
STRUCTURE = fb.models.network_structure.Structure.of_parents(PARENTS, DOMAINS)


def draw_rows(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Positions drawn from a network with random tables."""
    random = np.random.default_rng(seed)
    drawn: dict[str, np.ndarray] = {}
    for name, above in PARENTS.items():
        table = random.dirichlet(np.full(SIZES[name], 1.0), tuple(SIZES[p] for p in above))
        rows = np.broadcast_to(table[tuple(drawn[p] for p in above)], (count, SIZES[name]))
        drawn[name] = (rows.cumsum(1) < random.random((count, 1))).sum(1)
    return drawn


def as_labels(drawn: dict[str, np.ndarray], gaps: float = 0.0) -> pd.DataFrame:
    random = np.random.default_rng(9)
    frame = pd.DataFrame({name: np.asarray(DOMAINS[name].labels)[at] for name, at in drawn.items()}).astype(object)
    return frame.mask(random.random(frame.shape) < gaps)


def count(drawn: dict[str, np.ndarray], *names: str) -> np.ndarray:
    table = np.zeros([SIZES[name] for name in names])
    for cell in zip(*(drawn[name] for name in names), strict=True):
        table[cell] += 1
    return table


def table_of(net: fb.Network, name: str) -> np.ndarray:
    factor = net.factors[net.children.index(name)]
    names = list(map(str, factor.inputs))
    return factor.weights.transpose([names.index(n) for n in (*PARENTS[name], name)])


@pytest.mark.parametrize("prior", [0.0, 1.0, 0.25])
def test_counts(prior: float) -> None:
    """Of labels, positions and categories alike: counts plus the prior, normalised, exactly."""
    drawn = draw_rows(500)
    frame = as_labels(drawn)
    categories = frame.astype({name: pd.CategoricalDtype(list(DOMAINS[name].labels)[::-1]) for name in SIZES})
    for data in (frame, drawn, categories, frame.to_dict("list")):
        net = fb.Network.learn(data, structure=STRUCTURE, prior=prior)
        assert list(net.variables) == list(SIZES) and net.variables == DOMAINS
        for name, above in PARENTS.items():
            counts = count(drawn, *above, name)
            np.testing.assert_array_equal(net.learnt.counts[name], counts)
            expected = (counts + prior) / (counts + prior).sum(-1, keepdims=True)
            np.testing.assert_array_equal(table_of(net, name), expected)
    assert net.structure == STRUCTURE and net.learnt.rows == 500 and net.learnt.missing == 0
    logs = net.condition_many(drawn).log_evidence().sum()
    penalty = sum(prior * np.log(table_of(net, name)).sum() for name in PARENTS) if prior else 0.0
    assert net.learnt.history == pytest.approx([logs + penalty])


def test_compiled_counts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = draw_rows(3000)
    before = fb.Network.learn(drawn, structure=STRUCTURE, prior=0.5)
    monkeypatch.setattr("fubini.models.network_rows.COMPILED", 1)
    after = fb.Network.learn(drawn, structure=before, prior=0.5)
    for name in PARENTS:
        np.testing.assert_array_equal(table_of(before, name), table_of(after, name))


def test_a_prior_for_each_table() -> None:
    drawn = draw_rows(50)
    own = {"a": [1.0, 3.0], "b": np.arange(6.0).reshape(2, 3) + 1, "c": 2.0, "d": 1.0}
    net = fb.Network.learn(drawn, structure=STRUCTURE, prior=own)
    for name, above in PARENTS.items():
        total = count(drawn, *above, name) + own[name]
        np.testing.assert_array_equal(table_of(net, name), total / total.sum(-1, keepdims=True))


def test_values_from_the_data() -> None:
    """Labels in order, categories in theirs, positions up to the greatest."""
    frame = pd.DataFrame({"a": ["x", "y", None, "x"], "b": [2, 0, 2, 1]})
    frame["c"] = pd.Categorical(["hi", "lo", "lo", "hi"], ["lo", "mid", "hi"])
    net = fb.Network.learn(frame, structure={"b": ["a"], "c": []})
    assert net.variables == {
        "a": fb.Bint.labelled("x", "y"), "b": fb.Bint[3], "c": fb.Bint.labelled("lo", "mid", "hi")
    }  # fmt: skip
    np.testing.assert_allclose(table_of_any(net, "c"), np.array([3.0, 1.0, 3.0]) / 7)


def table_of_any(net: fb.Network, name: str) -> np.ndarray:
    return net.factors[net.children.index(name)].weights


def em_by_enumeration(rows: np.ndarray, weights: dict[str, np.ndarray], prior: float) -> tuple[float, dict]:
    """log p(rows) and the expected counts, summing over all completions of each row."""
    names, total = list(PARENTS), 0.0
    counts = {name: np.zeros_like(table) for name, table in weights.items()}
    for row in rows:
        choices = [range(SIZES[n]) if k < 0 else [k] for n, k in zip(names, row, strict=True)]
        cells = list(itertools.product(*choices))
        shares = []
        for cell in cells:
            at = dict(zip(names, cell, strict=True))
            shares.append(np.prod([weights[n][tuple(at[p] for p in (*PARENTS[n], n))] for n in names]))
        total += np.log(sum(shares))
        for cell, share in zip(cells, shares, strict=True):
            at = dict(zip(names, cell, strict=True))
            for n in names:
                counts[n][tuple(at[p] for p in (*PARENTS[n], n))] += share / sum(shares)
    return total, counts


@pytest.mark.parametrize("prior", [0.5, 0.0])
def test_em_by_enumeration(prior: float) -> None:
    """Every step is that of the enumeration, and no step lowers the objective."""
    frame = as_labels(draw_rows(150, seed=1), gaps=0.3)
    rows = np.array([[DOMAINS[n].labels.index(v) if isinstance(v, str) else -1 for v in frame[n]] for n in PARENTS]).T
    steps = 4
    nets = [
        fb.Network.learn(frame, structure=STRUCTURE, prior=prior, steps=k, tolerance=-1.0) for k in range(1, steps + 1)
    ]
    for earlier, later in itertools.pairwise(nets):
        before = {name: table_of(earlier, name) for name in PARENTS}
        log, counts = em_by_enumeration(rows, before, prior)
        penalty = sum(prior * np.log(before[n]).sum() for n in PARENTS) if prior else 0.0
        assert earlier.learnt.history[-1] == pytest.approx(log + penalty, abs=1e-9)
        for name in PARENTS:
            total = counts[name] + prior
            np.testing.assert_allclose(table_of(later, name), total / total.sum(-1, keepdims=True), atol=1e-12)
    history = fb.Network.learn(frame, structure=STRUCTURE, prior=prior).learnt.history
    assert np.all(np.diff(history) >= -1e-9 * np.abs(history[1:])) and len(history) > 5


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda f: f.assign(e="x"), UnknownName, r"(?s)column 'e'.*4 variables.*drop"),
        (lambda f: f.drop(columns="c"), UnknownName, r"(?s)without a column 'c'.*a column for each"),
        (lambda f: f.assign(b="b7"), DataError, r"(?s)row 0.*b='b7'.*'b0', 'b1', 'b2'"),
        (lambda f: f.assign(b=3), DataError, r"(?s)row 0.*b=3.*0 to 2"),
        (lambda f: f.head(0), DataError, r"(?s)without rows.*at least one row"),
        (lambda f: f.assign(d=None), DataError, r"(?s)every cell of 'd' is missing.*at least one observed"),
        (lambda f: f[[]], DataError, r"(?s)without columns"),
        (lambda f: {n: list(f[n])[: 5 + k] for k, n in enumerate(f)}, DomainError, r"(?s)same length.*a: 5"),
        (lambda f: f.assign(d=[[0.1, 0.2, 0.7]] * len(f)), DomainError, r"(?s)'d'.*lists of weights.*labels"),
    ],
)
def test_bad_data(change, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        fb.Network.learn(change(as_labels(draw_rows(20))), structure=STRUCTURE)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            dict(structure={"a": ["d"], **{n: p for n, p in PARENTS.items() if p}}),
            DomainError,
            r"(?s)with the cycle.*→",
        ),
        (dict(structure={**PARENTS, "b": "a"}), DomainError, r"(?s)parents 'a' of 'b'.*list of names"),
        (dict(prior=-1.0), DataError, r"(?s)prior of 'a'.*from 0 on"),
        (dict(prior={"b": [1.0, 2.0]}), DomainError, r"(?s)prior of 'b'.*shape \(2, 3\)"),
        (dict(prior=float("nan")), DataError, r"(?s)prior of 'a'.*finite"),
        (dict(steps=0), DataError, r"(?s)0 steps.*positive"),
        (dict(domains={"x": fb.Bint[2]}), UnknownName, r"(?s)values of 'x'.*structure"),
        (dict(domains={"d": fb.Real}), DomainError, r"(?s)'d'.*finitely many"),
    ],
)
def test_bad_options(options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        fb.Network.learn(as_labels(draw_rows(20)), **{"structure": STRUCTURE, **options})


def test_nothing_seen_without_a_prior() -> None:
    """With no pseudo-counts a parent configuration without rows has no distribution: no number is made up."""
    frame = {"a": ["x", "x"], "b": ["u", "v"]}
    domains = {"a": fb.Bint.labelled("x", "y")}
    with pytest.raises(DataError, match=r"(?s)distribution of 'b' given a=y.*no row.*prior=1\.0"):
        fb.Network.learn(frame, structure={"b": ["a"]}, domains=domains, prior=0.0)
    net = fb.Network.learn(frame, structure={"b": ["a"]}, domains=domains)
    np.testing.assert_allclose(table_of_any(net, "b")[1], [0.5, 0.5])


def test_an_infinite_cell_is_no_position() -> None:
    with pytest.raises(fb.FubiniError, match=r"the values of 'a', .*inf(.|\n)*positions from 0 on"):
        fb.Network.learn({"a": np.array([0.0, np.inf, 1.0])}, structure={"a": []})


def test_rows_whose_weights_have_no_common_scale_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    frame = {name: random.integers(0, 2 + k, 50).astype(float) for k, name in enumerate("ab")}
    frame["a"][:10] = frame["b"][5:15] = np.nan
    together = fb.Network.learn(frame, structure={"b": ["a"]})
    counts = ManyCases.expected_counts
    monkeypatch.setattr(ManyCases, "expected_counts", lambda self, w: counts(self, w) if len(self.cases) == 1 else None)
    alone = fb.Network.learn(frame, structure={"b": ["a"]})
    np.testing.assert_allclose(alone.learnt.history, together.learnt.history, rtol=1e-12)
    for one, other in zip(alone.factors, together.factors, strict=True):
        np.testing.assert_allclose(one.weights, other.weights, rtol=1e-9)
    monkeypatch.setattr(ManyCases, "expected_counts", lambda self, w: None)
    with pytest.raises(DataError, match=r"impossible under the tables so far: a=0\n"):
        fb.Network.learn({"a": [0, 1, None], "b": [None, 1, 1]}, structure={"b": ["a"]})
