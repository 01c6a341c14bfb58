"""The pages on the inside of the library name what is there: the layers in order, and files that exist."""

import re
from pathlib import Path

import pytest

from tests.test_layers import LAYERS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [DOCS / "architecture.md", DOCS / "glossary.md", *sorted((DOCS / "decisions").glob("*.md"))]

FOLDER = re.compile(r"^\| `(\w+)/` \|", re.MULTILINE)
FILE = re.compile(r"`([\w/]+/\w+\.py)`")
EXAMPLES = {"factors/x.py", "factors/x_rules.py"}


def test_map_has_the_layers_in_order() -> None:
    folders = [layer for layer in LAYERS if (ROOT / "src" / "fubini" / layer).is_dir()]
    assert FOLDER.findall(PAGES[0].read_text(encoding="utf-8")) == folders


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_exist(page: Path) -> None:
    named = set(FILE.findall(page.read_text(encoding="utf-8"))) - EXAMPLES
    missing = [name for name in named if not any((top / name).is_file() for top in (ROOT, ROOT / "src" / "fubini"))]
    assert not missing, f"{page.name} names files that are not there: {', '.join(sorted(missing))}"
