"""The gallery: its notebooks run in a quick mode, and pages, notebooks and pictures are made of the same source."""

import json
import re
import struct

import pytest

from gallery.__main__ import index_rows, read
from gallery.cells import from_notebook, run, to_notebook
from gallery.contents import FOLDER, NAMES, PAGES
from gallery.pages import index, page, without_outputs

ROOT = FOLDER.parent
PICTURE = re.compile(r"^!\[(.+)\]\((pictures/[\w.]+)\)$", re.MULTILINE)
LARGEST = 60_000  # bytes of a picture

every_model = pytest.mark.parametrize("name", NAMES)


def notebook_of(name: str) -> dict:
    return json.loads((PAGES / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))


def needs_data(name: str) -> bool:
    return any("FUBINI_DATA" in cell.source for cell in read(name))


@every_model
def test_notebook_runs(name: str, request: pytest.FixtureRequest) -> None:
    if needs_data(name):
        request.getfixturevalue("data")
    outputs = list(run(from_notebook(notebook_of(name)), name, quick=True))
    pictures = [output.picture for output in outputs if output is not None and output.picture is not None]
    assert pictures
    for picture in pictures:
        assert len(picture.text) > 40 and "nan" not in picture.text.lower()
        assert len(picture._repr_html_()) > 2000


@every_model
def test_notebook_is_that_of_the_source(name: str) -> None:
    notebook = notebook_of(name)
    assert notebook == to_notebook(read(name)), "run python -m gallery --notebooks"
    assert notebook["nbformat"] == 4 and notebook["nbformat_minor"] == 5
    identifiers = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    for cell in notebook["cells"]:
        assert cell["cell_type"] in ("markdown", "code") and isinstance(cell["metadata"], dict)
        assert (cell["cell_type"] == "code") == ("outputs" in cell) == ("execution_count" in cell)
        assert cell.get("outputs", []) == [] and all(isinstance(line, str) for line in cell["source"])


@every_model
def test_page_is_that_of_the_source(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert without_outputs(text) == page(name, read(name)), f"run python -m gallery {name}"
    pictures = PICTURE.findall(text)
    assert pictures
    for words, file in pictures:
        data = (PAGES / file).read_bytes()
        width, _ = struct.unpack(">II", data[16:24])
        assert len(words) > 40 and len(data) < LARGEST and width <= 1300, file


def test_index_lists_every_model() -> None:
    assert (PAGES / "index.md").read_text(encoding="utf-8") == index(index_rows())
    site = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [name for name in ("index", *NAMES) if f"gallery/{name}.md" not in site]
    assert not missing, f"mkdocs.yml does not list {', '.join(missing)}"


def test_nothing_else_is_there() -> None:
    sources = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "__main__", "cells", "contents", "pages"}
    assert sources == set(NAMES)
    assert {path.stem for path in PAGES.glob("*.md")} == {"index", *NAMES}
    assert {path.stem for path in (PAGES / "notebooks").glob("*.ipynb")} == set(NAMES)
    shown = {file for name in NAMES for _, file in PICTURE.findall((PAGES / f"{name}.md").read_text(encoding="utf-8"))}
    assert {f"pictures/{path.name}" for path in (PAGES / "pictures").iterdir()} == shown


def test_twelve_need_no_data() -> None:
    assert sum(not needs_data(name) for name in NAMES) >= 12
