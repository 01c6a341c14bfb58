"""Commands beside `infer` and `demo`: explain, compare, query, bench, completion."""

import csv
import io
import json
import math
from importlib import resources

import numpy as np
import pytest

import fubini as fb
from fubini.cli import main


def printed(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_explain(folder, capsys):
    text = printed(capsys, "explain", "regression.py", "--data", "data.csv")
    assert "level[site] + slope * dose" in text and "nothing remains" in text
    assert "data" not in text.replace("does not use", "").replace("data.csv", "")  # the user's own names


def test_explain_without_data(folder, capsys):
    """A model with its data in its file needs no --data; of one without, the error says what to do."""
    (folder / "schools.py").write_text(
        "import fubini as fb\nfrom fubini import dist\n\n\ndef coin():\n    return fb.JointNamed(dict(\n"
        "        p=dist.Beta(1.0, 1.0), heads=lambda p: dist.Binomial(10, p)))\n\n\npost = coin().condition(heads=4)\n"
    )
    assert "heads ~ Binomial(10, p), observed" in printed(capsys, "explain", "schools.py")
    assert main(["explain", "level.py", "--set", "dose=1.0"]) == 1
    assert "give --data FILE, or condition the model in its file" in capsys.readouterr().err


def test_compare(folder, capsys):
    found = json.loads(printed(capsys, "compare", "regression.py", "level.py", "--data", "data.csv", "--json"))
    assert found["regression"]["log_evidence"] > found["level"]["log_evidence"]
    assert found["regression"]["probability"] + found["level"]["probability"] == pytest.approx(1.0)
    assert printed(capsys, "compare", "regression.py", "level.py", "--data", "data.csv").startswith("model")


@pytest.fixture
def network():
    with resources.as_file(resources.files("fubini.io") / "commute.bif") as path:
        yield path, fb.io.read_bif(path)


def test_query_of_joint_targets(network, capsys):
    """p(weather, strike | late), against the chain rule."""
    path, net = network
    text = printed(capsys, "query", str(path), "-e", "arrival=late", "-t", "weather,strike", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    late = net.condition(arrival="late")
    for row in rows:
        weather, strike = row["value"].split(",")
        first = late.marginals("weather")["weather"]
        share = first.weights[first.inputs["weather"].labels.index(weather)]
        second = late.condition(weather=weather).marginals("strike")["strike"]
        share *= second.weights[second.inputs["strike"].labels.index(strike)]
        assert float(row["probability"]) == pytest.approx(float(share), abs=1e-12)
    assert math.fsum(float(row["probability"]) for row in rows) == pytest.approx(1.0)


def test_query_of_the_most_probable_values(network, capsys):
    path, net = network
    (found,) = json.loads(printed(capsys, "query", str(path), "-e", "arrival=late", "--map", "--format", "json"))
    assert found == net.condition(arrival="late").map()


def test_query_of_samples(network, capsys):
    path, net = network
    text = printed(capsys, "query", str(path), "--samples", "4000", "--seed", "2")
    rows = list(csv.DictReader(io.StringIO(text)))
    weather = net.marginals("weather")["weather"]
    for label, share in zip(weather.inputs["weather"].labels, np.asarray(weather.weights), strict=True):
        count = sum(row["weather"] == label for row in rows)
        assert count / 4000 == pytest.approx(float(share), abs=5 * math.sqrt(share * (1 - share) / 4000))


def test_bench_and_completion(capsys):
    text = printed(capsys, "bench")
    assert "again" in text and len(text.strip().splitlines()) == 5
    assert "infer" in printed(capsys, "completion", "bash")
