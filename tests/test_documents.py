"""The Python blocks of README.md, CONTRIBUTING.md and docs/ run, each file in one namespace, from top to bottom."""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    path
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "from").glob("*.md")),
        *sorted((ROOT / "docs" / "howto").glob("*.md")),
    )
    if path.exists()
]

FENCE = re.compile(r"^```([\w+-]*)[^\n]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def python_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Each block marked python, with the number of lines before it."""
    for fence in FENCE.finditer(text):
        if fence[1] == "python":
            yield text.count("\n", 0, fence.start(2)), fence[2]


def run_prompts(code: str, namespace: dict[str, object], path: Path, line: int) -> None:
    """Run a block with >>> prompts; what it defines stays in the namespace."""
    test = doctest.DocTestParser().get_doctest(code, namespace, path.name, str(path), line)
    output: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=output.append, clear_globs=False)
    namespace.update(test.globs)
    if result.failed:
        pytest.fail("".join(output), pytrace=False)


def run_statements(code: str, namespace: dict[str, object], path: Path, line: int) -> None:
    """Run a block without prompts; tracebacks show its lines in the document."""
    exec(compile("\n" * line + code, str(path), "exec"), namespace)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_document(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a document may write files
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in python_blocks(path.read_text(encoding="utf-8")):
        run = run_prompts if re.search(r"^\s*>>> ", code, re.MULTILINE) else run_statements
        run(code, namespace, path, line)
