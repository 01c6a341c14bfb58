"""Records of benchmarks: rows as JSON, a page of them, and what grew from one to another."""

import json
import sys

from benchmarks.__main__ import page
from benchmarks.compare import growths, main
from benchmarks.report import RECORD, Table


def recorded(tmp_path, monkeypatch, *times: str) -> dict:
    path = tmp_path / f"rows{len(list(tmp_path.iterdir()))}"
    monkeypatch.setenv(RECORD, str(path))
    table = Table("marginals", ("network", "  first", "ratio"))
    for place, time in enumerate(times):
        table.row(f"net{place}", time, "2.0×")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {"nets": {"command": "python -m benchmarks.nets", "ended": "finished", "seconds": 1.0, "rows": rows}}


def test_growth_is_relative_to_the_table(tmp_path, monkeypatch) -> None:
    old = recorded(tmp_path, monkeypatch, "1.00 ms", "2.00 ms", "3.00 s", "40 µs")
    new = recorded(tmp_path, monkeypatch, "2.00 ms", "4.00 ms", "6.00 s", "800 µs")  # a machine half as fast
    grown = {one.row: relative for one, relative in growths(old, new)}
    assert grown.pop("net3") == 10.0
    assert set(grown.values()) == {1.0}


def test_what_grew_by_more_than_a_factor_is_the_exit_status(tmp_path, monkeypatch, capsys) -> None:
    for name, third in (("old", "3.00 ms"), ("same", "3.80 ms"), ("new", "4.20 ms")):
        record = recorded(tmp_path, monkeypatch, "1.00 ms", "2.00 ms", third)
        (tmp_path / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    for name, status in (("same", 0), ("new", 1)):
        monkeypatch.setattr(sys, "argv", ["compare", str(tmp_path / "old.json"), str(tmp_path / f"{name}.json")])
        assert main() == status
    assert "nets: net2" in capsys.readouterr().out


def test_a_page_has_the_command_and_the_rows(tmp_path, monkeypatch) -> None:
    text = "\n".join(page(recorded(tmp_path, monkeypatch, "1.00 ms")))
    assert "`python -m benchmarks.nets`: finished" in text
    assert "| net0 | 1.00 ms | 2.0× |" in text
