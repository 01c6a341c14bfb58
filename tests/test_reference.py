"""The reference has every public name with an example that runs, and the documentation builds without a warning.

An example is a doctest in the docstring, a row of a table in docs/reference, or a block of Python there.
"""

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fubini as fb
from fubini import errors
from tests.test_documents import python_blocks

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "fubini"
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))

DIRECTIVE = re.compile(r"^::: (fubini[\w.]*)$", re.MULTILINE)
ROW = re.compile(r"^\| `([\w.]+)` \| `(.+)` \| `(.+)` \|$", re.MULTILINE)  # name, expression, printed value

# Measures of one draw, which stand in a table.
FAMILIES_OF_MEASURES = "fubini.measures.single_draws"

# What a writer of a representation, a flavour or an interpretation works with; users of models and factors do not.
INSIDE = frozenset(
    (
        *("children", "key", "leaves", "rebuilt", "structure", "notation"),  # of a term
        *(
            "cut_names",
            "entrances",
            "is_known_zero",
            "is_solvable",
            "located",
            "own",
            "pins",
            "promotes",
            "storage",
        ),  # of a factor
        *("linear_children", "replaced", "value_children"),  # of a Value
        *("aligned", "at", "is_on_numpy", "normalized", "numbers", "pair", "reduced", "transposed"),  # of a table
        *("conditional", "given_rest", "onto", "positions", "quadratic", "with_exponent"),  # of a Gaussian
        *("bound_in", "require_one_measure", "without"),  # of a mixture, of a delta
        *("indices", "moments", "with_parts"),  # of a piecewise factor
        *("axes", "convert", "layout", "mark", "recast", "require_answer", "restore", "store"),  # of a representation
        *("flatten", "flatten_inside", "intervened", "ordered", "outline", "run", "sites", "unflatten"),  # of a flavour
        *("blueprint", "leaf_values", "leaves_its_constraints", "signature"),  # of a distribution
        *("rule_sets", "versions", "with_arrays"),  # of an interpretation
        *("candidates", "conflicts", "nearest"),  # of a rule set
        *("embed", "product", "read", "repeat"),  # of a semiring
        *("blocked", "evaluation", "is_traced", "joint", "log_density", "reading"),  # of an eliminated model
        *("compute_log_density", "draw_all", "draw_eliminated"),
        *("derivation", "machine", "program", "sampler"),  # of a sampler
        *("degree",),  # of an op
        *("batch_domains", "batched_over", "evidence_rows", "position", "value_at", "weights_of_nodes"),  # of a circuit
        *("drawing", "lines"),  # of a graph
        *("entries", "facts", "first_outside", "is_of_jax", "known", "placed"),  # of a stream
        *("require", "rows", "tree_flatten", "tree_unflatten"),
    )
)


def exported(path: Path) -> Iterator[str]:
    """Names that a package exports: imported under their own name, or assigned."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module != FAMILIES_OF_MEASURES:
            yield from (alias.name for alias in node.names if alias.asname == alias.name)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def documented() -> list[str]:
    return [name for page in PAGES for name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))]


def rows(page: Path) -> list[tuple[str, str, str]]:
    return ROW.findall(page.read_text(encoding="utf-8"))


def names_in_rows(page: str) -> set[str]:
    return {name for name, _, _ in rows(ROOT / "docs" / "reference" / page)}


def named(path: str) -> Any:
    """The object of a dotted name: an attribute of what comes before it, or of the module of that name."""
    owner, _, name = path.rpartition(".")
    if not owner:
        return import_module(path)
    before = named(owner)
    return getattr(before, name) if hasattr(before, name) else getattr(import_module(owner), name)


EVERY_ROW = {name for page in PAGES for name in names_in_rows(page.name)}
EVERY_BLOCK = "\n".join(code for page in PAGES for _, code in python_blocks(page.read_text(encoding="utf-8")))


def has_example(path: str) -> bool:
    """A doctest of its own, a row of a table, or a block that uses it."""
    name, thing = path.rpartition(".")[2], named(path)
    owns_its_docstring = callable(thing) or isinstance(thing, ModuleType)
    return (
        (owns_its_docstring and ">>>" in (thing.__doc__ or ""))
        or name in {row.partition(".")[0] for row in EVERY_ROW}
        or re.search(rf"\b(fb|m)\.{name}\b|^from fubini import .*\b{name}\b", EVERY_BLOCK, re.MULTILINE) is not None
    )


def methods_without_example(kind: type) -> Iterator[str]:
    """Public methods and properties for which neither the class nor its bases have an example."""
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        is_asked = callable(member) or isinstance(member, property | classmethod)
        bases = [base for base in kind.__mro__ if base.__module__.startswith("fubini.") and name in vars(base)]
        if name.startswith("_") or name in INSIDE or not is_asked or not bases:
            continue
        docstrings = [inspect.getdoc(vars(base)[name]) or "" for base in bases]
        if f"{kind.__name__}.{name}" not in EVERY_ROW and not any(">>>" in text for text in docstrings):
            yield f"{kind.__name__}.{name}"


DOCUMENTED_CLASSES = [name for name in documented() if isinstance(named(name), type)]


@pytest.mark.parametrize("folder", ["", "io", "measures", "distributions", "representations"])
def test_every_public_name_is_on_a_page(folder: str) -> None:
    prefix = ".".join(filter(None, ("fubini", folder)))
    modules = ("density_choice", "density_quantiles", "density_rules", "piecewise_reading", "to_numpyro")
    rules = {f"fubini.distributions.{name}" for name in modules}  # imported to be registered
    rows = ("gaussian_recurrence", "linearized_chain", "mixture_plate", "table_recurrence")
    rules |= {f"fubini.representations.{name}" for name in rows}
    public = {f"{prefix}.{name}" for name in exported(PACKAGE / folder / "__init__.py")} - rules
    missing = public.difference(documented())
    assert not missing, f"add to a page of docs/reference: {', '.join(f'::: {name}' for name in sorted(missing))}"


@pytest.mark.parametrize("name", documented())
def test_every_public_name_has_an_example(name: str) -> None:
    assert has_example(name), f"write a doctest of {name}, or a row or a block of Python in docs/reference"


@pytest.mark.parametrize("name", DOCUMENTED_CLASSES)
def test_every_public_method_has_an_example(name: str) -> None:
    missing = list(methods_without_example(named(name)))
    assert not missing, f"write a doctest of {', '.join(missing)}, or a row of a table in docs/reference"


def test_every_family_has_an_example() -> None:
    assert names_in_rows("families.md") == set(fb.dist.family_names())


def test_every_family_of_measures_has_an_example() -> None:
    single_draws = import_module(FAMILIES_OF_MEASURES)
    families = {name for name in dir(fb.measures) if name[0].isupper() and hasattr(single_draws, name)}
    assert names_in_rows("measures.md") == families - {"Measure"}


def test_every_operation_has_an_example() -> None:
    assert names_in_rows("operations.md") == {name for name, op in vars(fb.ops).items() if isinstance(op, fb.ops.Op)}


def test_every_error_has_an_example() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, fb.FubiniError)]
    assert names_in_rows("errors.md") == {kind.__name__ for kind in kinds} - {"FubiniError"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_page(page: Path) -> None:
    """The blocks of a page run in one namespace, and each row of its tables is worth what it says there."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, code in python_blocks(page.read_text(encoding="utf-8")):
        exec(compile("\n" * line + code, str(page), "exec"), namespace)
    for name, expression, value in rows(page):
        answer = eval(expression, namespace)
        assert str(getattr(answer, "domain", answer)) == value, name


def test_no_name_is_there_twice() -> None:
    names = documented()
    assert sorted(set(names)) == sorted(names)


@pytest.mark.slow
def test_documentation_builds(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    build = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    assert "fubini.model" in (tmp_path / "site" / "reference" / "models" / "index.html").read_text(encoding="utf-8")
