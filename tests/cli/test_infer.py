"""`fubini infer`: draws, summary, report, draws as a file; the numbers are those of the model in Python."""

import json

import arviz
import jax
import numpy as np
import pandas as pd
import pytest

import fubini as fb
from fubini.cli import main

QUICK = ("--draws", "100", "--chains", "2")


@pytest.fixture
def frame(folder):
    return pd.read_csv("data.csv")


def exact_means(frame):
    """The posterior means of a normal linear model, by its normal equations."""
    labels, codes = np.unique(frame.site, return_inverse=True)
    A = np.column_stack([np.eye(len(labels))[codes], frame.dose]) / 0.5
    precision = A.T @ A + np.diag([1 / 9] * len(labels) + [1 / 4])
    return np.linalg.solve(precision, A.T @ (frame.response / 0.5)), np.linalg.inv(precision)


def test_summary_and_report(folder, frame, capsys):
    """Entries carry the labels of the data, moments are those of the normal equations."""
    assert main(["infer", "regression.py", "--data", "data.csv", "--out", "report.html", "--draws", "500"]) == 0
    shown = capsys.readouterr()
    assert "level[north]" in shown.out and "log evidence" in shown.out and "report: report.html" in shown.out
    assert "does not use: row" in shown.err
    page = (folder / "report.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>") and "level" in page


def test_json(folder, frame, capsys):
    assert main(["infer", "regression.py", "--data", "data.csv", "--json", "--draws", "2000"]) == 0
    found = json.loads(capsys.readouterr().out)
    means, covariance = exact_means(frame)
    by_name = {entry["name"]: entry for entry in found["entries"]}
    for k, name in enumerate(["level[north]", "level[south]", "level[west]", "slope"]):
        error = 4 * np.sqrt(covariance[k, k] / 8000)
        assert by_name[name]["mean"] == pytest.approx(means[k], abs=error)
        assert by_name[name]["sd"] == pytest.approx(np.sqrt(covariance[k, k]), rel=0.05)
    assert np.isfinite(found["log_evidence"])


def test_draws_are_those_of_the_model(folder, frame, capsys):
    """The file of draws holds what `infer` of the same key gives."""
    assert main(["infer", "regression.py", "--data", "data.csv", "--netcdf", "draws.nc", "--seed", "3", *QUICK]) == 0
    written = arviz.from_netcdf("draws.nc")

    @fb.model
    def regression(dose, site, n_site):
        level = yield fb.dist.Normal(0.0, 3.0).expand([n_site])
        slope = yield fb.dist.Normal(0.0, 2.0)
        response = yield fb.dist.Normal(level[site] + slope * dose, 0.5)

    codes = np.unique(frame.site, return_inverse=True)[1]
    post = regression(frame.dose.to_numpy(), codes, 3).condition(response=frame.response.to_numpy())
    drawn = post.infer(jax.random.key(3), draws=100, chains=2, progress=False)
    np.testing.assert_allclose(written.posterior["slope"].values, drawn.posterior["slope"].values, rtol=1e-12)
    assert list(written.posterior["level"].coords["site"].values) == ["north", "south", "west"]


@pytest.mark.parametrize("kind", ["parquet", "json", "rows", "nc", "tsv", "csv.gz"])
def test_data_formats(folder, frame, capsys, kind):
    """The same data in every format give the same evidence."""
    assert main(["infer", "level.py", "--data", "data.csv", "--json", *QUICK]) == 0
    expected = json.loads(capsys.readouterr().out)["log_evidence"]
    path = f"other.{kind.replace('rows', 'json')}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "nc":
        frame[["dose", "response"]].to_xarray().to_netcdf(path, engine="h5netcdf")
    elif kind == "json":
        (folder / path).write_text(json.dumps(frame.to_dict(orient="list")))
    elif kind == "rows":
        (folder / path).write_text(json.dumps(frame.to_dict(orient="records")))
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    assert main(["infer", "level.py", "--data", path, "--json", *QUICK]) == 0
    assert json.loads(capsys.readouterr().out)["log_evidence"] == pytest.approx(expected, rel=1e-12)


def test_maps_and_values(folder, frame, capsys):
    """Columns by other names, several as a matrix, arguments from the command line, the number of rows."""
    (folder / "matrix.py").write_text(
        "import fubini as fb\nfrom fubini import dist\n\n\n@fb.model\ndef matrix(X, scale, n):\n"
        "    w = yield dist.Normal(0.0, scale).expand([2])\n    y = yield dist.Normal(X @ w + 0.0 * n, 0.5)\n"
    )
    options = ["--map", "X=dose,row", "--map", "y=response", "--set", "scale=2.0", "--json", *QUICK]
    assert main(["infer", "matrix.py", "--data", "data.csv", *options]) == 0
    found = json.loads(capsys.readouterr().out)
    X = frame[["dose", "row"]].to_numpy(float)
    covariance = 4 * X @ X.T + 0.25 * np.eye(len(X))
    y = frame.response.to_numpy()
    expected = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    assert found["log_evidence"] == pytest.approx(expected, rel=1e-8)


def test_numpyro_function(folder, frame, capsys):
    """A NumPyro model function is a model too; its observed argument is a column."""
    (folder / "theirs.py").write_text(
        "import numpyro\nimport numpyro.distributions as nd\n\n\ndef theirs(dose, response=None):\n"
        '    mean = numpyro.sample("mean", nd.Normal(0.0, 3.0))\n'
        '    numpyro.sample("response", nd.Normal(mean + 0.0 * dose, 0.5), obs=response)\n'
    )
    assert main(["infer", "theirs.py", "--data", "data.csv", "--json", *QUICK]) == 0
    theirs = json.loads(capsys.readouterr().out)["log_evidence"]
    assert main(["infer", "level.py", "--data", "data.csv", "--json", *QUICK]) == 0
    assert theirs == pytest.approx(json.loads(capsys.readouterr().out)["log_evidence"], rel=1e-6)


def test_missing_rows_are_left_out(folder, frame, capsys):
    frame.loc[[3, 7], "response"] = np.nan
    frame.to_csv("holes.csv", index=False)
    frame.dropna().to_csv("whole.csv", index=False)
    assert main(["infer", "level.py", "--data", "holes.csv", "--drop-missing", "--json", *QUICK]) == 0
    shown = capsys.readouterr()
    assert "2 of 40 rows left out: 'response'" in shown.err
    assert main(["infer", "level.py", "--data", "whole.csv", "--json", *QUICK]) == 0
    assert json.loads(shown.out) == json.loads(capsys.readouterr().out)
