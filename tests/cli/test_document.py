"""The commands of docs/command_line.md run, on the files that it shows."""

import re
import shlex
from pathlib import Path

import pytest

import fubini as fb
from fubini.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ fubini (?!launch)(.*)$", PAGE, re.MULTILINE)  # which test_launch.py tries


def block(kind: str, position: int) -> str:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[position]


@pytest.fixture
def page_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    network = Path(fb.__file__).with_name("io") / "commute.bif"
    texts = {"regression.py": block("python", 0), "models.py": block("python", 0) + block("python", 1)}
    for name, text in {
        **texts,
        "data.csv": block("text", 0),
        "new.csv": block("text", 1),
        "rows.csv": block("text", 2),
        "commute.bif": network.read_text(),
    }.items():
        Path(name).write_text(text)


@pytest.mark.parametrize("command", COMMANDS)
def test_command(page_folder, capsys, command):
    assert main(shlex.split(command)) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.strip()


def test_there_are_commands():
    assert len(COMMANDS) == 15
