"""Errors of the command line: a message, no traceback, an exit code; and nothing is lost."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import fubini as fb
from fubini.base.whole_files import written_whole
from fubini.cli import main
from fubini.cli.data_file import read_data
from fubini.cli.main import build_parser
from fubini.infer.checkpoint import Checkpoint, Layout

QUICK = ("--draws", "20", "--chains", "1")


def refused(capsys, *arguments: str) -> str:
    """The message of a command that fails."""
    assert main(list(arguments)) == 1
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err and shown.out == ""
    return shown.err


def test_missing_files(folder, capsys):
    assert "'data.csv'" in refused(capsys, "infer", "level.py", "--data", "dat.csv")
    assert "'level.py'" in refused(capsys, "infer", "levels.py", "--data", "data.csv")
    assert "a folder nowhere" in refused(capsys, "infer", "level.py", "--data", "nowhere/data.csv")


def test_a_column_that_matches_nothing(folder, capsys):
    Path("data.csv").write_text("doze,response\n1,2\n2,3\n")
    message = refused(capsys, "infer", "level.py", "--data", "data.csv")
    assert "the argument 'dose' of level" in message and "nearest:  'doze'" in message and "--map dose=" in message
    Path("data.csv").write_text("dose,respons\n1,2\n2,3\n")
    message = refused(capsys, "infer", "level.py", "--data", "data.csv")
    assert "nothing is observed" in message and "nearest:  the column 'respons', for 'response'" in message
    mapped = refused(
        capsys, "infer", "level.py", "--data", "data.csv", "--map", "response=respons", "--map", "doze=dose"
    )
    assert "--map doze=dose" in mapped and "nearest:  'dose'" in mapped
    message = refused(capsys, "infer", "level.py", "--data", "data.csv", "--map", "response=responze")
    assert "nearest:  'respons'" in message
    assert "'dose'" in refused(capsys, "infer", "level.py", "--data", "data.csv", "--set", "does=3")


def test_wrong_types(folder, capsys):
    Path("data.csv").write_text("dose,response\n1,low\n2,high\n")
    assert "'response'" in refused(capsys, "infer", "level.py", "--data", "data.csv")
    Path("data.json").write_text('{"dose": [[1, 2], [3]], "response": [1, 2]}')
    assert "equal lengths" in refused(capsys, "infer", "level.py", "--data", "data.json")
    Path("data.json").write_text('{"dose": [1, 2')
    assert "not JSON" in refused(capsys, "infer", "level.py", "--data", "data.json")
    Path("data.csv").write_text("dose,response\n")
    assert "at least one row" in refused(capsys, "infer", "level.py", "--data", "data.csv")
    Path("data.nc").write_bytes(b"not NetCDF at all")
    assert "NetCDF" in refused(capsys, "infer", "level.py", "--data", "data.nc")
    Path("data.txt").write_text("1 2")
    assert ".csv" in refused(capsys, "infer", "level.py", "--data", "data.txt")


def test_rows_that_do_not_fit_their_header(folder, capsys):
    """Fields before those of the header would be taken for names of rows, and the others for other columns."""
    Path("data.csv").write_text("dose,response\n10,1,2\n20,3,4\n")
    message = refused(capsys, "infer", "level.py", "--data", "data.csv")
    assert "rows of 2 fields" in message and "the rows have more" in message
    Path("data.csv").write_text("dose,response\n1,2,\n3,4,\n")  # separators at the ends of rows alone are harmless
    assert read_data(Path("data.csv"))["response"].values.tolist() == [2, 4]
    Path("data.csv").write_text("dose,response\n1,2\n10,1,2\n")
    assert "CSV" in refused(capsys, "infer", "level.py", "--data", "data.csv")
    Path("data.csv").write_text("dose,dose,response\n1,2,3\n")
    assert "two are called 'dose'" in refused(capsys, "infer", "level.py", "--data", "data.csv")


def test_missing_numbers(folder, capsys):
    Path("data.csv").write_text("dose,response\n1,2\n,3\n")
    message = refused(capsys, "infer", "level.py", "--data", "data.csv")
    assert "the column 'dose'" in message and "row 2" in message and "--drop-missing" in message


def test_models_that_do_not_load(folder, capsys):
    Path("broken.py").write_text("import fubini as fb\nimport no_such_module\n")
    message = refused(capsys, "infer", "broken.py", "--data", "data.csv")
    assert "in line 2" in message and "no_such_module" in message
    Path("broken.py").write_text("def model(:\n")
    assert "SyntaxError in line 1" in refused(capsys, "infer", "broken.py", "--data", "data.csv")
    Path("broken.py").write_text("x = 1\n")
    assert "defines none" in refused(capsys, "infer", "broken.py", "--data", "data.csv")
    Path("broken.py").write_text("raise SystemExit(3)\n")
    assert "SystemExit" in refused(capsys, "infer", "broken.py", "--data", "data.csv")


def test_a_model_that_raises_when_it_is_run(folder, capsys):
    text = (
        Path("level.py")
        .read_text()
        .replace("    mean = yield", "    raise RuntimeError('no such dose')\n    mean = yield")
    )
    Path("level.py").write_text(text)
    message = refused(capsys, "infer", "level.py", "--data", "data.csv", *QUICK)
    assert "no such dose" in message and "--traceback" in message


def test_two_models_in_a_file(folder, capsys):
    Path("two.py").write_text(Path("level.py").read_text() + "\n\nother = level\n")
    message = refused(capsys, "infer", "two.py", "--data", "data.csv")
    assert "it defines 'level', 'other'" in message and "two.py:level" in message
    assert "'other'" in refused(capsys, "infer", "two.py:othr", "--data", "data.csv")
    assert main(["explain", "two.py:other", "--data", "data.csv"]) == 0


def test_outputs_that_cannot_be_written(folder, capsys, monkeypatch):
    """The folder is tried before the work begins."""
    for flag in ("--out", "--netcdf", "--checkpoint"):
        message = refused(capsys, "infer", "level.py", "--data", "data.csv", flag, "nowhere/file")
        assert "writing nowhere/file" in message
    assert "is a folder" in refused(capsys, "infer", "level.py", "--data", "data.csv", "--out", str(folder))


def test_a_full_disk_keeps_the_old_file(folder, capsys, monkeypatch):
    """Files are written beside the old ones and then put in their places."""
    Path("report.html").write_text("old")
    Path("draws.nc").write_text("old")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    message = refused(capsys, "infer", "level.py", "--data", "data.csv", "--netcdf", "draws.nc", *QUICK)
    assert "No space left" in message and Path("draws.nc").read_text() == "old"
    assert [path.name for path in folder.glob(".draws*")] == []
    message = refused(capsys, "infer", "level.py", "--data", "data.csv", "--out", "report.html", *QUICK)
    assert "No space left" in message and Path("report.html").read_text() == "old"


def test_a_full_disk_keeps_the_checkpoint(tmp_path, monkeypatch):
    """The error is ours, and the checkpoint before is there."""
    file = Checkpoint(tmp_path / "run.npz", {"draws": 3})
    numbers, layout = {"x": np.arange(3.0)}, {"x": Layout(np.dtype(float), (3,))}
    file.save(numbers)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("fubini.infer.checkpoint.write_archive", full)
    with pytest.raises(fb.FubiniError, match=r"a checkpoint at .*\n.*\n.*No space left"):
        file.save({"x": np.ones(3)})
    np.testing.assert_array_equal(file.load(layout)["x"], numbers["x"])
    assert [path.name for path in tmp_path.iterdir()] == ["run.npz"]


def test_devices_and_links_are_not_replaced(folder, capsys):
    """A pipe stays one, and a link leads to what is written."""
    os.mkfifo("pipe")
    for option in ("--out", "--netcdf", "--checkpoint"):
        assert "no plain file" in refused(capsys, "infer", "level.py", "--data", "data.csv", option, "pipe", *QUICK)
    assert Path("pipe").is_fifo()
    Path("note.txt").write_text("old")
    Path("link.txt").symlink_to("note.txt")
    with written_whole("link.txt", "a note") as beside:
        beside.write_text("new")
    assert Path("link.txt").is_symlink() and Path("note.txt").read_text() == "new"


def test_usage_errors(folder, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["infer"])
    assert caught.value.code == 2
    assert "NAME=VALUE" in refused(capsys, "infer", "level.py", "--data", "data.csv", "--set", "dose")
    assert "model file is a Python program, and is run" in build_parser().format_help()


def test_interrupt(folder, capsys, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fubini.cli.infer_command.read_data", interrupt)
    assert main(["infer", "level.py", "--data", "data.csv"]) == 130
    assert capsys.readouterr().err == "fubini: interrupted\n"


def test_a_damaged_checkpoint_is_kept(folder, capsys):
    Path("model.py").write_text(
        "import fubini as fb\nfrom fubini import dist\n\n\n@fb.model\ndef two(dose):\n"
        "    scale = yield dist.HalfNormal(1.0)\n    response = yield dist.Normal(0.0 * dose, scale)\n"
    )
    Path("run.checkpoint").write_bytes(b"not a checkpoint")
    message = refused(capsys, "infer", "model.py", "--data", "data.csv", "--checkpoint", "run.checkpoint", *QUICK)
    assert "run.checkpoint" in message and "expected" in message
    assert Path("run.checkpoint").read_bytes() == b"not a checkpoint"


def test_a_site_with_the_name_of_a_column_that_it_is_not(folder, capsys):
    """Here `row` has forty numbers, and the site two."""
    Path("model.py").write_text(
        "import fubini as fb\nfrom fubini import dist\n\n\n@fb.model\ndef rows(dose):\n"
        "    row = yield dist.Normal(0.0, 1.0).expand([2])\n"
        "    response = yield dist.Normal(row[0] * dose + row[1], 0.5)\n"
    )
    message = refused(capsys, "infer", "model.py", "--data", "data.csv", *QUICK)
    assert "the column 'row'" in message and "--skip row" in message
    assert "'row'" in refused(capsys, "infer", "model.py", "--data", "data.csv", "--skip", "rov", *QUICK)
    assert main(["infer", "model.py", "--data", "data.csv", "--skip", "row", *QUICK]) == 0
    capsys.readouterr()


def test_a_reserved_name(folder, capsys):
    Path("model.py").write_text(
        "import fubini as fb\nfrom fubini import dist\n\n\n@fb.model\ndef flow():\n"
        "    value = yield dist.Normal(0.0, 1.0)\n"
    )
    assert "give the site another name" in refused(capsys, "infer", "model.py", "--data", "data.csv", *QUICK)
