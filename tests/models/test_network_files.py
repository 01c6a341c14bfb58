"""Networks through files: what is written reads back, evidence beside it, and what cannot be read says where."""

from pathlib import Path

import numpy as np
import pytest

import fubini as fb
from fubini.errors import FileFormatError

COIN = fb.Bint.labelled("heads", "tails")
GAME = fb.Bint.labelled("won", "drawn", "lost")
P_COIN, P_GAME = np.array([0.5, 0.5]), np.array([[0.625, 0.25, 0.125], [0.1, 0.2, 0.7]])
SUFFIXES = ("", ".gz", ".xz")


@pytest.fixture
def net() -> fb.Network:
    factors = (fb.Table(P_COIN, {"coin": COIN}), fb.Table(P_GAME, {"coin": COIN, "game": GAME}))
    return fb.Network({"coin": COIN, "game": GAME}, factors, name="match")


def assert_same_factors(found: fb.Network, expected: fb.Network, names: dict[str, str]) -> None:
    assert len(found.factors) == len(expected.factors)
    for mine, theirs in zip(found.factors, expected.factors, strict=True):
        assert isinstance(mine, fb.Table) and mine.names == tuple(names[name] for name in theirs.names)
        np.testing.assert_array_equal(mine.log().data, theirs.log().data)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bif(net: fb.Network, tmp_path: Path, suffix: str) -> None:
    """Names, labels and every digit, also where the suffix asks for compression."""
    path = tmp_path / f"match.bif{suffix}"
    fb.io.write_bif(net, path)
    found = fb.io.read_bif(path)
    assert isinstance(found, fb.Network) and found.directed and found.name == "match" and found.evidence == {}
    assert found.variables == net.variables
    assert_same_factors(found, net, {"coin": "coin", "game": "game"})


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_uai_with_evidence(net: fb.Network, tmp_path: Path, suffix: str) -> None:
    """Names and labels give way to numbers; the evidence goes to a file of its own."""
    path, seen = tmp_path / f"match.uai{suffix}", tmp_path / f"match.uai.evid{suffix}"
    fb.io.write_uai(net.condition(game="lost"), path, seen)
    found = fb.io.read_uai(path, seen)
    assert found.directed and found.variables == {"x0": fb.Bint[2], "x1": fb.Bint[3]}
    assert found.evidence == {"x1": 2} and fb.io.read_uai(path).evidence == {}
    assert_same_factors(found, net, {"coin": "x0", "game": "x1"})
    belief = P_COIN * P_GAME[:, 2] / (P_COIN * P_GAME[:, 2]).sum()
    np.testing.assert_allclose(np.exp(found.marginals()["x0"].log().data), belief)


def test_undirected_network(tmp_path: Path) -> None:
    """UAI says MARKOV and keeps tables that are not normalised; BIF, which cannot, refuses."""
    pair = fb.Network({"x0": fb.Bint[2]}, (fb.Table([2.0, 6.0], ("x0",)),), directed=False)
    fb.io.write_uai(pair, tmp_path / "pair.uai")
    found = fb.io.read_uai(tmp_path / "pair.uai")
    assert not found.directed
    assert float(found.log_evidence()) == pytest.approx(np.log(8.0))
    with pytest.raises(fb.FubiniError, match="directed"):
        fb.io.write_bif(pair, tmp_path / "pair.bif")


@pytest.mark.parametrize(
    "factor",
    [
        fb.Table.from_log(np.log([0.25, 0.5]), ("x0",)),
        fb.Table([0.25, 0.5], ("x0",)) * fb.Table([2.0, 4.0], ("x0",)),
        fb.Table([0.25, 0.5], ("x0",)) ** 2,
        fb.weight(log=fb.Array(np.array([-1.0, 3.0]), ("x0",))),
    ],
    ids=["log-weights", "a product", "a power", "fb.weight"],
)
def test_factor_of_any_kind(factor: fb.Factor, tmp_path: Path) -> None:
    """Whatever holds a factor's numbers, what is written is the same function."""
    network = fb.Network({"x0": fb.Bint[2]}, (factor,), directed=False)
    fb.io.write_uai(network, tmp_path / "one.uai")
    found = fb.io.read_uai(tmp_path / "one.uai")
    assert float(found.log_evidence()) == pytest.approx(float(network.log_evidence()))
    np.testing.assert_allclose(found.marginals()["x0"].log().data, network.marginals()["x0"].log().data)


def test_missing_file(net: fb.Network, tmp_path: Path) -> None:
    """The path, and the file whose name is nearest."""
    fb.io.write_bif(net, tmp_path / "match.bif")
    for read in (fb.io.read_bif, fb.io.read_uai):
        with pytest.raises(FileFormatError, match=r"(?s)mach\.bif.*exists.*nearest: +'match\.bif'") as caught:
            read(tmp_path / "mach.bif")
        assert str(tmp_path) in str(caught.value)


def test_malformed_bif(net: fb.Network, tmp_path: Path) -> None:
    """The path, the line and the cause."""
    path = tmp_path / "match.bif"
    fb.io.write_bif(net, path)
    lines = path.read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "0.625" in text)
    path.write_text(path.read_text().replace("0.625", "0.725"))
    with pytest.raises(FileFormatError, match=r"(?s)sums to 1\.1.*expected:") as caught:
        fb.io.read_bif(path)
    assert str(path) in str(caught.value) and f"line {line}:" in str(caught.value)


def test_uai_with_a_cycle(tmp_path: Path) -> None:
    path = tmp_path / "cycle.uai"
    path.write_text("BAYES\n2\n2 2\n2\n2 0 1\n2 1 0\n4\n 0.5 0.5\n 0.5 0.5\n4\n 0.5 0.5\n 0.5 0.5\n")
    with pytest.raises(FileFormatError, match=r"line [56]: .*cycle.*x0.*x1") as caught:
        fb.io.read_uai(path)
    assert str(path) in str(caught.value) and "MARKOV" in str(caught.value)


def test_evidence_outside_the_network(net: fb.Network, tmp_path: Path) -> None:
    """Of a variable or a value that is not there: the evidence file and the cause."""
    model, seen = tmp_path / "match.uai", tmp_path / "match.uai.evid"
    fb.io.write_uai(net, model)
    for text, cause in (("1 2 0", "variable"), ("1 1 3", "value")):
        seen.write_text(text)
        with pytest.raises(FileFormatError, match=cause) as caught:
            fb.io.read_uai(model, seen)
        assert str(seen) in str(caught.value)


def test_evidence_file_that_is_missing(net: fb.Network, tmp_path: Path) -> None:
    fb.io.write_uai(net, tmp_path / "match.uai")
    with pytest.raises(FileFormatError, match=r"match\.evid"):
        fb.io.read_uai(tmp_path / "match.uai", tmp_path / "match.evid")
