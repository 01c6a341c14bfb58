"""The planner and the approximations name no representation: Table and Gaussian use the same door as a user's own.

What is asked of a representation is a rule of a head, or a property of Factor with a default (`docs/architecture.md`).
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fubini"

# Folders that know factors alone.
OPEN = ("eliminate", "approximate", "sequence")

REPRESENTATIONS = frozenset({"Table", "Gaussian", "Delta", "Mixture", "Piecewise", "Samples", "Circuit"})
MODULES = tuple(f"fubini.factors.{kind.lower()}" for kind in REPRESENTATIONS)

FILES = [path for folder in OPEN for path in sorted((SOURCE / folder).rglob("*.py"))]


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every import and every identifier; of annotations that are strings, the names in them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module or ''}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and node.value in REPRESENTATIONS:
            yield node.lineno, node.value


def offences(text: str) -> list[tuple[int, str]]:
    return sorted(
        {
            (line, name)
            for line, name in named(ast.parse(text))
            if name.rpartition(".")[2] in REPRESENTATIONS or name.startswith(MODULES)
        }
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_file_names_no_representation(path: Path) -> None:
    found = offences(path.read_text(encoding="utf-8"))
    assert not found, "\n".join(f"{path}:{line}: {name}" for line, name in found)


@pytest.mark.parametrize(
    "text",
    [
        "from fubini.factors.table import Table",
        "from fubini.factors.table_rules import to_table",
        "from fubini.factors import gaussian_carry",
        "import fubini.factors.mixture",
        "import fubini as fb\nfb.Delta",
        "isinstance(f, Mixture)",
        "def f(x: 'Gaussian'): ...",
        "type(f).__name__ == 'Table'",
    ],
)
def test_a_name_is_found(text: str) -> None:
    assert offences(text)


def test_words_are_allowed() -> None:
    assert not offences('"""A Table becomes a Gaussian."""\nfrom fubini.factors.promotion import promoted')


def test_every_open_folder_has_files() -> None:
    assert all(any(path.parts[-2] == folder for path in FILES) for folder in OPEN)
