"""Soft evidence, interventions, joint queries, marginal MAP and the k best, against enumeration of random networks."""

from __future__ import annotations

import numpy as np
import pytest

import fubini as fb
from fubini.errors import DataError, DomainError, NameClash, UnknownName

NAMES = ("a", "b", "c", "d", "e")
SIZES = (2, 3, 2, 4, 2)
AXES = dict(zip(NAMES, range(5), strict=True))


def random_network(seed: int) -> fb.Network:
    """Five variables, each with at most two parents; some probabilities are zero."""
    random = np.random.default_rng(seed)
    domains = {n: fb.Bint.labelled(*(f"{n}{k}" for k in range(s))) for n, s in zip(NAMES, SIZES, strict=True)}
    factors = []
    for place, name in enumerate(NAMES):
        above = sorted(random.choice(place, min(place, random.integers(0, 3)), replace=False)) if place else []
        inputs = {**{NAMES[k]: domains[NAMES[k]] for k in above}, name: domains[name]}
        shape = [SIZES[k] for k in above]
        table = random.dirichlet(np.full(SIZES[place], 0.8), tuple(shape))
        table = np.where(table < 0.05, 0.0, table) if above else table
        factors.append(fb.Table(table / table.sum(-1, keepdims=True), inputs))
    order = random.permutation(5)
    return fb.Network({NAMES[k]: domains[NAMES[k]] for k in order}, tuple(factors), children=NAMES)


def full_table(net: fb.Network) -> np.ndarray:
    """The joint table [a, b, c, d, e], by writing it out."""
    full = np.ones(SIZES)
    for factor in net.factors:
        axes = [AXES[str(name)] for name in factor.inputs]
        shape = [SIZES[k] if k in axes else 1 for k in range(5)]
        full = full * np.transpose(factor.weights, np.argsort(axes)).reshape(shape)
    return full


def along(name: str, weights: object) -> np.ndarray:
    return np.reshape(weights, [-1 if k == AXES[name] else 1 for k in range(5)])


def marginal(full: np.ndarray, *names: str) -> np.ndarray:
    """P(names), in their order."""
    kept = [AXES[name] for name in names]
    table = full.sum(tuple(k for k in range(5) if k not in kept))
    return np.transpose(table, np.argsort(np.argsort(kept))) / full.sum()


def found(factor: fb.Factor, *names: str) -> np.ndarray:
    own = list(map(str, factor.inputs))
    return np.exp(factor.log().data).transpose([own.index(name) for name in names])


SEEDS = pytest.mark.parametrize("seed", range(6))
SOFT = {"b": [0.2, 0.5, 0.1], "e": (3.0, 1.0)}  # a common factor matters to the evidence alone


@SEEDS
def test_soft_evidence(seed: int) -> None:
    """P(x | e) ∝ P(x) λ(x); log P(e) = log Σ P(x) λ(x) with the weights as they are given."""
    net, full = random_network(seed), full_table(random_network(seed))
    weighed = full * along("b", SOFT["b"]) * along("e", SOFT["e"])
    given = net.condition(SOFT)
    assert given.hidden == net.hidden
    assert float(given.log_evidence()) == pytest.approx(np.log(weighed.sum()))
    for name, table in given.marginals().items():
        np.testing.assert_allclose(found(table, name), marginal(weighed, name), atol=1e-12)
    both = weighed * along("b", [1.0, 0.25, 2.0])
    np.testing.assert_allclose(
        found(given.condition(b=np.array([1.0, 0.25, 2.0])).marginal("d"), "d"), marginal(both, "d")
    )
    seen = np.take(weighed, [1], AXES["b"])
    if seen.sum() > 0:
        observed = given.condition(b="b1")
        assert float(observed.log_evidence()) == pytest.approx(np.log(seen.sum()))
        np.testing.assert_allclose(found(observed.marginal("d", "a"), "d", "a"), marginal(seen, "d", "a"), atol=1e-12)
        assert float(observed.joint().log_evidence()) == pytest.approx(np.log(seen.sum()))
    with fb.engine("flat"):
        np.testing.assert_allclose(found(given.marginals()["d"], "d"), marginal(weighed, "d"), atol=1e-12)


def test_soft_evidence_in_a_joint_and_in_draws() -> None:
    """A closed factor of the model: an exact posterior, and draws of the network with its frequencies."""
    net = random_network(0)
    weighed = full_table(net) * along("b", SOFT["b"]) * along("e", SOFT["e"])
    given = net.condition(SOFT)
    joint = given.joint()
    np.testing.assert_allclose(joint.marginal("d").weights, marginal(weighed, "d"), atol=1e-6)
    assert float(joint.log_evidence()) == pytest.approx(np.log(weighed.sum()), abs=1e-6)
    import jax

    drawn = given.sample(jax.random.key(0), 4000)["d"]
    shares = np.array([np.mean(drawn == f"d{k}") for k in range(4)])
    p = marginal(weighed, "d")
    assert np.all(np.abs(shares - p) <= 5 * np.sqrt(p * (1 - p) / 4000) + 1e-12)
    assert "soft evidence 3, 1" in repr(given)


def test_certain_soft_evidence_is_an_observation() -> None:
    net = random_network(1)
    for name in NAMES:
        for k in range(SIZES[AXES[name]]):
            indicator = np.eye(SIZES[AXES[name]])[k]
            hard, soft = net.condition({name: k}), net.condition({name: indicator})
            assert float(hard.log_evidence()) == pytest.approx(float(soft.log_evidence()))


def intervene(net: fb.Network, name: str, value: int) -> np.ndarray:
    """The joint table with the distribution of a variable replaced by a point."""
    full = np.ones(SIZES)
    for child, factor in zip(net.children, net.factors, strict=True):
        axes = [AXES[str(n)] for n in factor.inputs]
        shape = [SIZES[k] if k in axes else 1 for k in range(5)]
        own = np.transpose(factor.weights, np.argsort(axes)).reshape(shape)
        full = full * (along(name, np.eye(SIZES[AXES[name]])[value]) if child == name else own)
    return full


@SEEDS
def test_do(seed: int) -> None:
    """The truncated factorisation, with hard and soft evidence beside it."""
    net = random_network(seed)
    for name in ("b", "c"):
        full = intervene(net, name, 1)
        done = net.do({name: f"{name}1"})
        assert f"set from outside '{name}')" in str(done) and f"set to {name}1" in str(done)
        for other in done.hidden:
            np.testing.assert_allclose(found(done.marginal(other), other), marginal(full, other), atol=1e-12)
        assert float(done.log_evidence()) == pytest.approx(0.0, abs=1e-12)
        weighed = full * along("e", SOFT["e"])
        given = net.condition(e=SOFT["e"]).do({name: 1})
        assert float(given.log_evidence()) == pytest.approx(np.log(weighed.sum()))
        np.testing.assert_allclose(found(given.marginal("a"), "a"), marginal(weighed, "a"), atol=1e-12)


@SEEDS
def test_joint_queries(seed: int) -> None:
    net, full = random_network(seed), full_table(random_network(seed))
    for names in (("a", "d"), ("e", "b"), ("c", "a", "e")):
        np.testing.assert_allclose(found(net.marginal(*names), *names), marginal(full, *names), atol=1e-12)


@SEEDS
def test_marginal_map(seed: int) -> None:
    """The others are summed out, then the greatest is taken: its probability is that of the enumeration."""
    net = random_network(seed)
    full = full_table(net) * along("b", SOFT["b"])
    given = net.condition(b=SOFT["b"])
    for names in (("a",), ("d", "a"), ("e", "c", "b"), NAMES):
        table = marginal(full, *names)
        values = given.map(*names)
        assert tuple(values) == names
        cell = tuple(given.variables[name].index(values[name]) for name in names)
        assert table[cell] == pytest.approx(table.max())
    assert given.map() == dict(sorted(given.map(*NAMES).items(), key=lambda item: list(net.variables).index(item[0])))


@SEEDS
def test_the_k_most_probable(seed: int) -> None:
    """All of them, in order, with their probabilities; of some names with the others summed out."""
    net = random_network(seed)
    full = full_table(net) * along("e", SOFT["e"])
    given = net.condition(e=SOFT["e"])
    for names, k in ((("d", "b"), 20), (("a", "e", "d"), 7), (NAMES, 12)):
        table = marginal(full, *names)
        ordered = np.sort(table.reshape(-1))[::-1]
        answers = given.most_probable(k, *names)
        assert len(answers) == min(k, int((table > 0).sum()))
        cells = [tuple(given.variables[name].index(each[name]) for name in names) for each in answers]
        assert len(set(cells)) == len(cells)
        np.testing.assert_allclose([each.probability for each in answers], ordered[: len(answers)], atol=1e-12)
        np.testing.assert_allclose([table[cell] for cell in cells], ordered[: len(answers)], atol=1e-12)
    assert dict(net.most_probable(1)[0].values) == net.map()


def test_real_variables_are_summed_out_or_refused() -> None:
    """Of a discrete name with a real child it is the posterior; of the real one there is no second best."""
    a = fb.Variable("a", fb.Bint[2])
    net = fb.Network(
        {"a": fb.Bint[2], "y": fb.Real},
        (fb.Table([0.3, 0.7], ("a",)), fb.dist.Normal(fb.Array(np.array([0.0, 2.0]))[a], 1.0)("y")),
        children=("a", "y"),
    )
    assert [each["a"] for each in net.most_probable(2, "a")] == [1, 0]
    assert net.condition(a=[1.0, 0.0]).map("a") == {"a": 0}
    with pytest.raises(DomainError, match=r"(?s)'y'.*real.*map\(\)"):
        net.most_probable(2)


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        ([0.2, 0.8], DomainError, r"(?s)soft evidence b=.*3 weights.*b0, b1, b2.*nearest: +2 weights"),
        ([], DomainError, r"(?s)3 weights.*nearest: +0 weights"),
        ([[0.2, 0.8, 0.1]], DomainError, r"(?s)3 weights.*shape \(1, 3\)"),
        (["low", "b1", "b2"], DomainError, r"(?s)3 weights.*a label"),
        ([0.2, -0.1, 0.9], DataError, r"(?s)from 0 on.*nearest: +-0\.1"),
        ([0.2, np.nan, 0.9], DataError, r"(?s)finite weights.*nearest: +nan"),
        ([0.2, np.inf, 0.9], DataError, r"(?s)finite weights.*nearest: +inf"),
        ([0.0, 0.0, 0.0], DataError, r"(?s)at least one positive weight"),
    ],
)
def test_bad_soft_evidence(weights: list, error: type, message: str) -> None:
    for ask in (
        lambda: random_network(0).condition(b=weights),
        lambda: random_network(0).condition_many({"b": [None, weights]}).log_evidence(),
    ):
        with pytest.raises(error, match=message):
            ask()


def test_bad_questions() -> None:
    net = random_network(0).condition(a="a1")
    with pytest.raises(DataError, match=r"(?s)do\(a=…\).*observed"):
        net.do(a="a0")
    with pytest.raises(DomainError, match=r"(?s)do\(a=…\) of a list of weights.*one value.*soft evidence"):
        random_network(0).do(a=[0.2, 0.8])
    with pytest.raises(UnknownName, match=r"(?s)intervention for 'f'.*variables"):
        net.do(f="a0")
    with pytest.raises(DataError, match=r"(?s)'b9'.*'b0', 'b1', 'b2'"):
        net.do(b="b9")
    with pytest.raises(DataError, match=r"(?s)'a'.*not observed"):
        net.map("b", "a")
    with pytest.raises(UnknownName, match=r"(?s)'f'"):
        net.map("f")
    with pytest.raises(NameClash, match="each variable once"):
        net.map("b", "b")
    for k in (0, -1, 1.5, True):
        with pytest.raises(DataError, match=r"(?s)most probable.*at least 1"):
            net.most_probable(k)
    with pytest.raises(DataError, match="impossible"):
        net.condition(b=[0.0, 1.0, 0.0]).condition(b=[1.0, 0.0, 0.0]).most_probable(2)


def test_many_cases_with_soft_evidence_and_gaps() -> None:
    """Each row as the network given that row: labels, lists, arrays of weights, missing cells in any pattern."""
    net, random = random_network(2).condition(c=[1.0, 0.5]), np.random.default_rng(0)
    count = 40
    d = np.array([None if random.random() < 0.4 else f"d{random.integers(4)}" for _ in range(count)], object)
    b = [None if k % 3 == 0 else [0.2, 0.5, 0.1 * k] if k % 3 == 1 else "b0" for k in range(count)]
    for columns in (
        {"d": d, "b": b},
        {"e": random.random((count, 2)) + 0.1, "d": d, "a": [None, 1] * (count // 2)},
        {"b": b},
    ):
        many = net.condition_many(columns)
        logs, tables = many.log_evidence(), many.marginals()
        for row in range(count):
            cells = {name: column[row] for name, column in columns.items() if column[row] is not None}
            one = net.condition({n: v.tolist() if isinstance(v, np.ndarray) else v for n, v in cells.items()})
            assert logs[row] == pytest.approx(float(one.log_evidence()), abs=1e-12)
            if np.isfinite(logs[row]) and row % 4 == 0:
                for name, table in one.marginals().items():
                    np.testing.assert_allclose(tables[name][row], found(table, name), atol=1e-12)


def test_many_patterns_of_gaps() -> None:
    """Where nearly each row observes other variables, one plan answers all rows."""
    net, random = random_network(3), np.random.default_rng(1)
    full, count = full_table(random_network(3)), 200
    drawn = np.array(np.unravel_index(random.choice(full.size, count, p=full.reshape(-1)), SIZES)).T
    drawn = np.where(random.random(drawn.shape) < 0.4, -1, drawn)
    columns = {n: [None if k < 0 else int(k) for k in drawn[:, AXES[n]]] for n in NAMES}
    many = net.condition_many(columns)
    assert len(list(many._groups())) == 1
    logs, tables = many.log_evidence(), many.marginals()
    for row in range(count):
        seen = np.ones(SIZES)
        for name, k in zip(NAMES, drawn[row], strict=True):
            seen = seen * along(name, np.ones(SIZES[AXES[name]]) if k < 0 else np.eye(SIZES[AXES[name]])[k])
        assert logs[row] == pytest.approx(np.log((full * seen).sum()))
        for name in NAMES:
            np.testing.assert_allclose(tables[name][row], marginal(full * seen, name), atol=1e-12)
