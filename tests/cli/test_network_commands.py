"""`fubini query` and `fubini learn`: soft evidence, interventions, marginal MAP, the k best, predictions, learning."""

from __future__ import annotations

import csv
import io
import json
from importlib import resources
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import fubini as fb
from fubini.cli.main import main


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("network") / "commute.bif"
    made.write_text((resources.files("fubini.io") / "commute.bif").read_text())
    return made


@pytest.fixture(scope="module")
def net(path: Path) -> fb.Network:
    return fb.io.read_bif(path)


def printed(capsys, *arguments: object) -> str:
    assert main(list(map(str, arguments))) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def failure(capsys, *arguments: object) -> str:
    assert main(list(map(str, arguments))) == 1
    return capsys.readouterr().err


def test_soft_evidence(path: Path, net: fb.Network, capsys) -> None:
    rows = json.loads(
        printed(capsys, "query", path, "-e", "weather=0.2,0.5,0.3", "arrival=late", "-t", "strike", "--format", "json")
    )
    table = net.condition(weather=[0.2, 0.5, 0.3], arrival="late").marginal("strike")
    np.testing.assert_allclose([row["probability"] for row in rows], table.weights)


def test_do(path: Path, net: fb.Network, capsys) -> None:
    rows = json.loads(printed(capsys, "query", path, "--do", "choice=car", "-t", "arrival", "--format", "json"))
    table = net.do(choice="car").marginal("arrival")
    np.testing.assert_allclose([row["probability"] for row in rows], table.weights)
    assert "observed" in failure(capsys, "query", path, "-e", "choice=car", "--do", "choice=train")
    assert "'chioce'" in failure(capsys, "query", path, "--do", "chioce=car")
    assert "NAME=VALUE" in failure(capsys, "query", path, "--do", "choice")


def test_marginal_map_and_the_best(path: Path, net: fb.Network, capsys) -> None:
    (found,) = json.loads(printed(capsys, "query", path, "--map", "-t", "weather", "train", "--format", "json"))
    assert found == net.map("weather", "train")
    rows = json.loads(printed(capsys, "query", path, "--best", 3, "-t", "weather", "train", "--format", "json"))
    for row, each in zip(rows, net.most_probable(3, "weather", "train"), strict=True):
        assert row == {**each.values, "probability": each.probability}
    text = printed(capsys, "query", path, "--best", 2, "-e", "arrival=late")
    assert len(text.splitlines()) == 2 and "weather = " in text
    assert "at least 1" in failure(capsys, "query", path, "--best", 0)
    assert "no target" in failure(capsys, "query", path, "--samples", 2, "-t", "weather")


def test_structure(path: Path, net: fb.Network, capsys) -> None:
    assert printed(capsys, "query", path, "--structure").splitlines() == net.structure.lines()


def test_predict_and_learn(path: Path, net: fb.Network, capsys, tmp_path: Path) -> None:
    """A column without cells, gaps, and the tables from the same file."""
    frame = pd.DataFrame(net.sample(jax.random.key(1), 300)).astype(object)
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    data = tmp_path / "rows.csv"
    frame.head(6).drop(columns="coffee").to_csv(data, index=False, na_rep="?")
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "query", path, "--predict", data))))
    assert rows == net.predict(frame.head(6).drop(columns="coffee")).to_dict("records")
    assert {
        tuple(row)
        for row in csv.DictReader(io.StringIO(printed(capsys, "query", path, "--predict", data, "-t", "coffee")))
    } == {("coffee",)}
    frame.to_csv(data, index=False)
    out = tmp_path / "learnt.bif"
    text = printed(capsys, "learn", path, data, "--out", out, "--prior", 0.5)
    assert "learnt from 300 rows" in text and "BIC" in text
    learnt, expected = fb.io.read_bif(out), fb.Network.learn(frame, structure=net.structure, prior=0.5)
    for name in net.variables:
        np.testing.assert_allclose(learnt.marginal(name).weights, expected.marginal(name).weights, atol=1e-6)


def test_bad_files(path: Path, capsys, tmp_path: Path) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("wether\nrain\n")
    assert "'weather'" in failure(capsys, "query", path, "--predict", data)
    data.write_text("weather\nrian\n")
    assert "'rain'" in failure(capsys, "query", path, "--predict", data)
    assert "without a column" in failure(capsys, "learn", path, data)
    assert ".parquet" in failure(capsys, "learn", path, path)
    assert "'weather'" in failure(capsys, "query", path, "-e", "weather=0.2,0.5")
    assert "soft evidence" in failure(capsys, "query", path, "-e", "weather=0.2,rain,0.4")
