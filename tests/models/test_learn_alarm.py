"""The tables of alarm, learnt from rows of which a fifth of the cells is missing; scores; predictions."""

from __future__ import annotations

import jax
import numpy as np
import pandas as pd
import pytest

import fubini as fb
from fubini.errors import DataError, DomainError, UnknownName

ROWS, SHARE = 3000, 0.2


@pytest.fixture(scope="module")
def alarm(data) -> fb.Network:
    return fb.io.read_bif(data / "bayes_nets" / "discrete" / "alarm.bif.gz")


@pytest.fixture(scope="module")
def frame(alarm: fb.Network) -> pd.DataFrame:
    drawn = pd.DataFrame(alarm.sample(jax.random.key(0), ROWS)).astype(object)
    return drawn.mask(np.random.default_rng(0).random(drawn.shape) < SHARE)


def test_em_recovers_the_tables(alarm: fb.Network, frame: pd.DataFrame, capsys: pytest.CaptureFixture) -> None:
    """Each distribution within five standard errors of as many rows as observe its family, the objective never falls.

    Rows that observe only a part of a family tell something too, so that the error is smaller than this one.
    """
    net = fb.Network.learn(frame, structure=alarm.structure, prior=1.0, tolerance=1e-7)
    assert net.variables == alarm.variables and net.structure == alarm.structure
    assert net.learnt.converged and np.all(np.diff(net.learnt.history) >= 0)
    deviations, errors = [], []
    for name, factor in zip(net.children, net.factors, strict=True):
        parents = net.structure[name]
        truth = alarm.factors[alarm.children.index(name)]
        own = truth.weights.transpose([list(truth.inputs).index(n) for n in factor.inputs])
        shares = alarm.marginal(*parents) if parents else None
        rows = np.array(ROWS * (1 - SHARE) ** (len(parents) + 1))
        if shares is not None:
            rows = rows * np.exp(shares.log().data).transpose([list(shares.inputs).index(n) for n in parents])
        often = rows >= 100
        error = np.abs(factor.weights - own)[often]
        spread = np.sqrt(own * (1 - own) / rows[..., None])[often] + 1 / rows[often][:, None]  # and the prior's
        deviations.append((error / spread).ravel())
        errors.append(error.ravel())
    worst, largest = np.concatenate(deviations), np.concatenate(errors)
    with capsys.disabled():
        print(
            f"\nalarm, {ROWS:,} rows with a fifth of the cells missing: {len(net.learnt.history) - 1} steps; of "
            f"{len(worst)} probabilities the largest error is {largest.max():.3f}, {worst.max():.1f} standard errors "
            f"(root mean square {np.sqrt(np.mean(worst**2)):.2f})"
        )
    assert worst.max() < 5.0 and np.sqrt(np.mean(worst**2)) < 1.2 and largest.max() < 0.12


def test_prediction(alarm: fb.Network, frame: pd.DataFrame) -> None:
    """Missing cells and columns, each the most probable by itself; observed cells stay."""
    some = frame.head(40).drop(columns=["HRBP", "LVFAILURE"])
    found = alarm.predict(some)
    assert isinstance(found, pd.DataFrame) and found.index.equals(some.index)
    assert {"HRBP", "LVFAILURE"} <= set(found.columns)
    for row in (0, 7, 23):
        seen = {n: v for n, v in some.iloc[row].items() if isinstance(v, str)}
        for name, table in alarm.condition(seen).marginals().items():
            assert found[name].iloc[row] == alarm.variables[name].label(int(np.argmax(table.weights)))
        assert all(found[name].iloc[row] == v for name, v in seen.items() if name in found)
    assert list(alarm.predict(some, "HRBP").columns) == ["HRBP"]
    with pytest.raises(UnknownName, match=r"(?s)'HRPB'.*nearest: +'HRBP'"):
        alarm.predict(some, "HRPB")
    with pytest.raises(UnknownName, match=r"(?s)'HRPB'.*37 variables"):
        alarm.predict(some.rename(columns={"HR": "HRPB"}))


def test_scores_of_alarm(alarm: fb.Network, frame: pd.DataFrame) -> None:
    """The log-likelihood of rows with gaps is that of each row by itself."""
    few = frame.head(30)
    logs = [
        float(alarm.condition({n: v for n, v in few.iloc[k].items() if isinstance(v, str)}).log_evidence())
        for k in range(30)
    ]
    assert alarm.score(few, "log_likelihood") == pytest.approx(sum(logs))
    assert alarm.score(few) == pytest.approx(sum(logs) - 0.5 * np.log(30) * 509)  # free parameters of the repository
    assert alarm.score(few, "aic") == pytest.approx(sum(logs) - 509)


def test_bdeu_is_the_evidence_of_the_structure() -> None:
    """By the chain rule: each row is predicted by the tables learnt from those before it."""
    random = np.random.default_rng(0)
    rows = {"a": random.integers(0, 2, 40), "b": random.integers(0, 3, 40), "c": random.integers(0, 2, 40)}
    structure = {"b": ["a"], "c": ["a", "b"]}
    domains = {"a": fb.Bint[2], "b": fb.Bint[3], "c": fb.Bint[2]}
    size, total = 5.0, 0.0
    counts = {"a": np.full(2, size / 2), "b": np.full((2, 3), size / 6), "c": np.full((2, 3, 2), size / 12)}
    for a, b, c in zip(*rows.values(), strict=True):
        for table, cell in ((counts["a"], (a,)), (counts["b"], (a, b)), (counts["c"], (a, b, c))):
            total += np.log(table[cell] / table[cell[:-1]].sum())
            table[cell] += 1
    net = fb.Network.learn(rows, structure=structure, domains=domains)
    assert net.score(rows, "bdeu", equivalent_size=size) == pytest.approx(total)


def test_bad_scores() -> None:
    rows = {"a": ["x", "y", None], "b": ["u", "v", "u"]}
    net = fb.Network.learn(rows, structure={"b": ["a"]})
    with pytest.raises(DomainError, match=r"(?s)score 'bik'.*'bic'"):
        net.score(rows, "bik")
    with pytest.raises(DataError, match=r"(?s)BDeu.*1 incomplete rows.*bic"):
        net.score(rows, "bdeu")
    with pytest.raises(DataError, match=r"(?s)equivalent_size=0.*positive"):
        net.score(rows, "bdeu", equivalent_size=0)
    with pytest.raises(DataError, match=r"(?s)observed.*without evidence.*'a'"):
        net.condition(a="x").score(rows)
