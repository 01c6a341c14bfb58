"""Pages on the inside name what is there: the layers in order, and files that exist. Guides import public modules."""

import ast
import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import fubini as fb
from tests.test_documents import DOCUMENTS, python_blocks
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


# -- public modules -------------------------------------------------------------------------------------------------

PUBLIC = re.compile(r"^\| `(fubini[\w.]*)` \|", re.MULTILINE)
INSIDE = {"architecture.md", "array_latents.md", "CONTRIBUTING.md"}
OWN_CLASS = {"fubini.terms.fields", "fubini.factors.promotion"}  # what a representation of one's own is declared with
REFERENCE = sorted((DOCS / "reference").glob("*.md"))
GUIDES = [path for path in (*DOCUMENTS, *REFERENCE) if path.name not in INSIDE]
EXAMPLE_PROGRAMS = [path for folder in ("examples", "gallery") for path in sorted((ROOT / folder).rglob("*.py"))]


def public_modules() -> set[str]:
    """Those of the table in docs/reference/index.md, and the one that `fubini.dist` is short for."""
    return {*PUBLIC.findall((DOCS / "reference" / "index.md").read_text(encoding="utf-8")), "fubini.distributions"}


def imported_modules(code: str) -> Iterator[str]:
    """The modules of fubini that a program imports from."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "fubini")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "fubini":
            yield str(node.module)


def programs(page: Path) -> Iterator[str]:
    """The blocks of Python of a page, without prompts."""
    for _, code in python_blocks(page.read_text(encoding="utf-8")):
        examples = doctest.DocTestParser().get_examples(code)
        yield "".join(example.source for example in examples) if examples else code


def test_public_modules_can_be_imported() -> None:
    text = (
        (DOCS / "architecture.md").read_text(encoding="utf-8").partition("## Public modules")[2].partition("\n## ")[0]
    )
    for module in public_modules():
        name = module.rpartition(".")[2]
        assert module == "fubini" or hasattr(fb, name), module
        assert f"`{module}`" in text or f"`fb.{name}`" in text, f"docs/architecture.md does not list {module}"


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_guides_import_public_modules(page: Path) -> None:
    inside = {module for code in programs(page) for module in imported_modules(code)} - public_modules()
    inside -= OWN_CLASS if page.name == "representations.md" else set()
    assert not inside, f"{page.name} imports from internal modules: {', '.join(sorted(inside))}"


@pytest.mark.parametrize("path", EXAMPLE_PROGRAMS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_examples_import_public_modules(path: Path) -> None:
    inside = set(imported_modules(path.read_text(encoding="utf-8"))) - public_modules()
    assert not inside, f"{path.name} imports from internal modules: {', '.join(sorted(inside))}"
