"""The reference names every public name, and the documentation builds without a warning."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "fubini"
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))

DIRECTIVE = re.compile(r"^::: (fubini[\w.]*)$", re.MULTILINE)

# Made by a loop or by assignment from a function, which a reader of source text does not see.
MADE_AT_IMPORT = "fubini.measures.single_draws"


def exported(path: Path) -> Iterator[str]:
    """Names that a package exports: imported under their own name, or assigned."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module != MADE_AT_IMPORT:
            yield from (alias.name for alias in node.names if alias.asname == alias.name)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def documented() -> list[str]:
    return [name for page in PAGES for name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("folder", ["", "io", "measures"])
def test_every_public_name_is_on_a_page(folder: str) -> None:
    prefix = ".".join(filter(None, ("fubini", folder)))
    missing = {f"{prefix}.{name}" for name in exported(PACKAGE / folder / "__init__.py")}.difference(documented())
    assert not missing, f"add to a page of docs/reference: {', '.join(f'::: {name}' for name in sorted(missing))}"


def test_no_name_is_there_twice() -> None:
    names = documented()
    assert sorted(set(names)) == sorted(names)


@pytest.mark.slow
def test_documentation_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    found = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "fubini.model" in (tmp_path / "site" / "reference" / "models" / "index.html").read_text(encoding="utf-8")
