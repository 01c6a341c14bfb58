"""Columns as arguments and sites: names, missing values, labels, numbers of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fubini.cli.data_binding import BoundModel, Source, bind
from fubini.cli.data_file import Column, column_of, read_data
from fubini.cli.infer_command import bind_options
from fubini.cli.main import build_parser
from fubini.cli.model_file import load_model
from fubini.errors import DataError, UnknownName

HEAD = "import fubini as fb\nfrom fubini import dist\n\n\n@fb.model\n"


def at(folder, body: str, columns: dict, *, drop: bool = False, sets: tuple[str, ...] = ()) -> BoundModel:
    """A model, given by its lines, at columns."""
    (folder / "model.py").write_text(HEAD + body)
    source = Source({name: column_of(name, values) for name, values in columns.items()}, (), sets)
    return bind(load_model("model.py"), source, "drop" if drop else None)


LEVEL = "def level(dose):\n    y = yield dist.Normal(0.0 * dose, 1.0)\n"


def test_two_columns_of_one_name_in_python(folder):
    columns = {"a.b": [1.0], "a-b": [2.0], "y": [3.0]}
    with pytest.raises(UnknownName, match="the argument 'a_b'"):
        at(folder, "def level(a_b):\n    y = yield dist.Normal(a_b, 1.0)\n", columns)
    found = at(folder, "def level(a_b):\n    y = yield dist.Normal(a_b, 1.0)\n", {"a.b": [1.0], "y": [3.0]})
    assert float(found.model.log_evidence()) == pytest.approx(-0.5 * np.log(2 * np.pi) - 2.0)


def test_rows_of_missing_arguments_and_of_missing_sites(folder):
    """Row 1 lacks the argument and row 2 the site: both are left out of all columns."""
    found = at(
        folder, LEVEL, {"dose": [1.0, None, 3.0, 4.0], "y": [1.0, 1.0, np.nan, 1.0], "z": [1, 2, 3, 4]}, drop=True
    )
    assert float(found.model.log_evidence()) == pytest.approx(2 * (-0.5 * np.log(2 * np.pi) - 0.5))
    assert found.notes[:2] == (
        "1 of 4 rows left out: 'dose' missing there",
        "1 of 3 rows left out: 'y' missing there",
    )


def test_missing_values_of_columns_of_other_lengths(folder):
    with pytest.raises(DataError, match="same number of rows"):
        at(folder, "def level(a, b):\n    y = yield dist.Normal(a[0] + b[0], 1.0)\n",
           {"a": [1.0, np.nan], "b": [np.nan, 1.0, 2.0], "y": 0.0}, drop=True)  # fmt: skip


def test_a_missing_number(folder):
    with pytest.raises(DataError, match=r"'dose'.*\n.*a finite number"):
        at(folder, LEVEL, {"dose": np.nan, "y": [1.0]})


def test_the_number_of_rows(folder):
    body = "def level(n):\n    y = yield dist.Normal(0.0, 1.0).expand([n])\n"
    assert at(folder, body, {"y": [1.0, 2.0, 3.0]}).model.observed["y"].shape == (3,)
    with pytest.raises(DataError, match="--set n=NUMBER"):
        at(folder, body, {"y": [1.0, 2.0, 3.0], "other": [1.0, 2.0]})
    set_apart = at(folder, body, {"y": [1.0, 2.0, 3.0], "other": [1.0, 2.0]}, sets=("n=3",))
    assert set_apart.model.observed["y"].shape == (3,)


def test_a_value_in_place_of_a_column(folder):
    """The column is not asked for: its missing value and its labels do not matter."""
    found = at(folder, LEVEL, {"dose": ["a", None], "y": [1.0, 1.0]}, sets=("dose=[2, 2]",))
    assert found.notes == ("columns that the model does not use: dose",)
    assert float(found.model.log_evidence()) == pytest.approx(2 * (-0.5 * np.log(2 * np.pi) - 0.5))


INDEXED = (
    "def level(kind, place, n_kind):\n    mean = yield dist.Normal(0.0, 1.0).expand([n_kind])\n"
    "    y = yield dist.Normal(mean[kind] + 0.0 * place, 1.0)\n"
)


def test_labels_of_columns_with_the_same_codes(folder):
    told = at(folder, INDEXED, {"kind": ["a", "b"], "place": ["s", "n"], "y": [1.0, 2.0]})
    assert told.coords == {"kind": ["a", "b"]}
    twins = at(folder, INDEXED, {"kind": ["a", "b"], "place": ["n", "s"], "y": [1.0, 2.0]})
    assert twins.coords == {} and "the same codes" in twins.notes[-1]


def test_models_that_are_compared_have_the_same_rows(folder, capsys):
    frame = pd.read_csv("data.csv")
    frame.loc[3, "site"] = None
    frame.to_csv("holes.csv", index=False)
    arguments = ["compare", "level.py", "regression.py", "--data", "holes.csv", "--drop-missing"]
    options = build_parser().parse_args(arguments)
    level, regression = (one.model for one in bind_options(options.models, options))
    assert len(level.observed["response"]) == len(regression.observed["response"]) == 39


def test_columns_of_pandas(folder):
    frame = pd.DataFrame(
        {
            "count": pd.array([1, None, 3], dtype="Int64"),
            "whole": pd.array([1, 2, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "name": pd.array(["b", None, "a"], dtype="string"),
            "kind": pd.Categorical(["u", None, "v"]),
            "empty": [None, None, None],
        }
    )
    frame.to_parquet("data.parquet")
    found = read_data(folder / "data.parquet")
    np.testing.assert_array_equal(found["count"].values, [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(found["flag"].values, [1.0, np.nan, 0.0])
    assert found["whole"].values.dtype == np.int64
    assert found["name"].labels == ("a", "b") and list(found["name"].values) == [1, -1, 0]
    assert found["kind"].labels == ("u", "v") and list(found["kind"].missing) == [False, True, False]
    assert found["empty"].missing.all()
    assert isinstance(found["empty"], Column)
