"""`fubini infer`: draws, summary, report, draws as a file; the numbers are those of the model in Python."""

import json

import jax
import numpy as np
import pandas as pd
import pytest

import fubini as fb
from fubini.cli import main
from fubini.questions.draw_diagnostics import arviz

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
    written = arviz().from_netcdf("draws.nc")

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


# -- predictions, approximate evidence and missing values -----------------------------------------------------------


def test_predictions_at_new_inputs(folder, frame, capsys):
    """Known labels have their codes, a label that is new is a new group; with data, their log predictive density."""
    (folder / "new.csv").write_text("site,dose,response\nwest,1.0,1.2\neast,0.5,0.4\n")
    arguments = ["infer", "regression.py", "--data", "data.csv", "--predict", "new.csv", "--predictions", "out.csv"]
    assert main([*arguments, "--json", "--draws", "2000"]) == 0
    found = json.loads(capsys.readouterr().out)
    means, covariance = exact_means(frame)
    west, east = found["predictions"]
    sd = np.sqrt(covariance[2, 2] + covariance[3, 3] + 2 * covariance[2, 3] + 0.25)
    assert west["mean"] == pytest.approx(means[2] + means[3], abs=4 * sd / np.sqrt(8000))
    assert west["sd"] == pytest.approx(sd, rel=0.05)
    assert east["sd"] == pytest.approx(np.sqrt(9.0 + covariance[3, 3] / 4 + 0.25), rel=0.05)
    written = pd.read_csv("out.csv")
    assert list(written.columns) == ["site", "row", "mean", "sd", "low", "high"]
    assert written["mean"][0] == pytest.approx(west["mean"])
    expected = [(1.2, means[2] + means[3], sd), (0.4, 0.5 * means[3], np.sqrt(9.25 + covariance[3, 3] / 4))]
    apart = sum(-0.5 * ((y - m) / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi) for y, m, s in expected)
    assert found["log_predictive"] == pytest.approx(apart, abs=0.02)  # the two are a little correlated


def test_predictions_are_printed(folder, capsys):
    (folder / "new.csv").write_text("dose\n" + "1.0\n" * 12)
    assert main(["infer", "level.py", "--data", "data.csv", "--predict", "new.csv", *QUICK]) == 0
    shown = capsys.readouterr().out
    assert "predictions at the new inputs" in shown and "… 2 more; --predictions FILE writes all" in shown


def test_predictions_by_columns_of_other_names(folder, frame, capsys):
    """The new file needs no column of what is predicted, and one that is skipped stays so."""
    frame.rename(columns={"response": "outcome", "dose": "mg"}).to_csv("other.csv", index=False)
    (folder / "new.csv").write_text("site,mg,row\nwest,1.0,7\n")
    names = ["--map", "response=outcome", "--map", "dose=mg", "--skip", "row"]
    arguments = ["infer", "regression.py", "--data", "other.csv", *names, "--predict", "new.csv", "--json"]
    assert main([*arguments, "--draws", "2000"]) == 0
    means, _ = exact_means(frame)
    (west,) = json.loads(capsys.readouterr().out)["predictions"]
    assert west["mean"] == pytest.approx(means[2] + means[3], abs=0.05)


def test_a_covariate_cannot_be_masked(folder, capsys):
    (folder / "holes.csv").write_text("dose,response\n1.0,1.0\n,2.0\n")
    assert main(["infer", "level.py", "--data", "holes.csv", "--mask-missing"]) == 1
    assert "make it a site of the model" in capsys.readouterr().err


LOGISTIC = """
import jax.numpy as jnp
import fubini as fb
from fubini import dist


@fb.model
def logistic(x):
    a = yield dist.Normal(0.0, 2.0)
    y = yield dist.Bernoulli(logits=a + x)
"""


@pytest.mark.parametrize("way", [("--quadrature",), ("--monte-carlo", "2000"), ("--laplace",)])
def test_approximate_evidence(folder, capsys, way):
    (folder / "logistic.py").write_text(LOGISTIC)
    (folder / "xy.csv").write_text("x,y\n-1.0,0\n0.5,1\n1.0,0\n2.0,1\n")
    assert main(["infer", "logistic.py", "--data", "xy.csv", "--json", *way, *QUICK]) == 0
    found = json.loads(capsys.readouterr().out)
    a = np.linspace(-20, 20, 20001)
    x, y = np.array([-1.0, 0.5, 1.0, 2.0]), np.array([0, 1, 0, 1])
    prior = np.exp(-0.5 * (a / 2) ** 2) / (2 * np.sqrt(2 * np.pi))
    likelihood = np.prod(1 / (1 + np.exp(-(2 * y - 1) * (a[:, None] + x))), axis=1)
    want = np.log(np.sum(prior * likelihood) * (a[1] - a[0]))
    assert found["log_evidence"] == pytest.approx(want, abs=0.1 if way != ("--quadrature",) else 1e-6)
    assert found["exactness"]


def test_missing_values_are_masked(folder, capsys):
    """A gap in the response is left out; a gap in a covariate that is a site is a latent."""
    (folder / "gaps.py").write_text(
        "import fubini as fb\nfrom fubini import dist\n\n\n@fb.model\ndef gaps(n):\n"
        "    x = yield dist.Normal(0.0, 1.0).expand([n])\n    y = yield dist.Normal(x, 1.0)\n"
    )
    (folder / "gaps.csv").write_text("x,y\n0.5,0.7\n,1.0\n-1.0,\n")
    assert main(["infer", "gaps.py", "--data", "gaps.csv", "--mask-missing", "--json", "--draws", "2000"]) == 0
    found = json.loads(capsys.readouterr().out)
    normal = lambda v, s: -0.5 * (v / s) ** 2 - np.log(s) - 0.5 * np.log(2 * np.pi)  # noqa: E731
    want = normal(0.5, 1) + normal(0.2, 1) + normal(1.0, np.sqrt(2)) + normal(-1.0, 1)
    assert found["log_evidence"] == pytest.approx(want)
    (missing,) = found["entries"]
    assert missing["name"] == "x_missing[0]" and missing["mean"] == pytest.approx(0.5, abs=0.05)
    assert main(["infer", "gaps.py", "--data", "gaps.csv"]) == 1
    assert "--mask-missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--predictions", "out.csv"], "without --predict"),
        (["--predict", "none.csv"], "none.csv"),
        (["--predict", "bad.csv"], "the argument 'dose'"),
        (["--predict", "new.csv", "--anew", "slop"], "new='slop'"),
    ],
)
def test_bad_predictions(folder, capsys, arguments, words):
    (folder / "bad.csv").write_text("site\nwest\n")
    (folder / "new.csv").write_text("site,dose\nwest,1.0\n")
    assert main(["infer", "regression.py", "--data", "data.csv", *arguments, *QUICK]) == 1
    assert words in capsys.readouterr().err
