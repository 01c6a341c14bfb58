"""Modules import only from the layers before their own, at the top of the file, and nothing private of JAX.

Two modules of one name are the same concept, which docs/architecture.md says.
"""

import ast
import graphlib
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

# In order; each is a module or a package of fubini. fubini/__init__.py stands above them all.
LAYERS = (
    "version",
    "errors",
    "base",
    "show",
    "numerics",
    "engines",
    "algebra",
    "families",
    "integrate",
    "terms",
    "factors",
    "distributions",
    "eliminate",
    "approximate",
    "sequence",
    "representations",
    "propagate",
    "read",
    "bridge",
    "measures",
    "compile",
    "infer",
    "models",
    "questions",
    "io",
    "report",
    "plots",
    "cli",
    "__main__",
)

# Heavy optional libraries, which a function may import when it first needs them.
DEFERRED = (
    "arviz",
    "cotengra",
    "jax.experimental.pallas",
    "matplotlib",
    "numba",
    "optax",
    "pandas",
    "pyarrow",
    "pysdd",
    "shtab",
    "xarray",
    "zarr",
    "zstandard",
)

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

# A line of "Names that stand twice" in docs/architecture.md: the name, the modules, the reason.
SHARED_NAME = re.compile(r"^\| `(\w+)` \| (`.+`) \| (.+) \|$", re.MULTILINE)


def module_name(path: Path) -> str:
    """The dotted name of a file: a package goes by the name of its folder."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted((SOURCE / "fubini").rglob("*.py"))}

every_module = pytest.mark.parametrize("module", MODULES)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"), filename=str(MODULES[module]))


def imports(root: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of every import under `root`; `from a import b` is a.b.

    Imports under TYPE_CHECKING count: a layer that knows a later one's types depends on it.
    """
    for node in ast.walk(root):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{origin(node, module)}.{alias.name}") for alias in node.names)


def origin(node: ast.ImportFrom, module: str) -> str:
    """The absolute name of `x` in `from x import y`."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    climb = node.level - (MODULES[module].name == "__init__.py")
    return ".".join([*parts[: len(parts) - climb], *([node.module] if node.module else [])])


def own(name: str) -> str | None:
    """The module of fubini that an imported name lies in; None for a name from elsewhere."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name or None


def rank(module: str) -> int:
    """The place of a module's layer; fubini itself comes after all of them."""
    return len(LAYERS) if module == "fubini" else LAYERS.index(module.split(".")[1])


def is_known(module: str) -> bool:
    return module == "fubini" or module.split(".")[1] in LAYERS


def is_private_jax(name: str) -> bool:
    library, *rest = name.split(".")
    return library in ("jax", "jaxlib") and any(part.startswith("_") and not part.endswith("__") for part in rest)


def cycle(graph: dict[str, set[str | None]]) -> list[str]:
    """A chain of modules, each importing the next, that ends where it began; empty where there is none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return []


def report(module: str, offences: Iterable[tuple[int, str]]) -> str:
    return "\n".join(f"{MODULES[module]}:{line}: {what}" for line, what in sorted(set(offences)))


@every_module
def test_layer_is_known(module: str) -> None:
    assert is_known(module), f"{module} has no layer: add it to LAYERS in {__file__}, after all that it imports"


@every_module
def test_imports_from_layers_before(module: str) -> None:
    targets = ((line, own(name)) for line, name in imports(tree(module), module))
    offences = (
        (line, f"{module} imports {target}, of a later layer (LAYERS in {__file__})")
        for line, target in targets
        if target and is_known(module) and is_known(target) and rank(target) > rank(module)
    )
    assert not (found := report(module, offences)), found


def test_no_cycles() -> None:
    graph = {module: {own(name) for _, name in imports(tree(module), module)} - {None, module} for module in MODULES}
    assert not (found := cycle(graph)), " imports ".join(found)


@every_module
def test_no_imports_inside_functions(module: str) -> None:
    functions = (n for n in ast.walk(tree(module)) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
    offences = (
        (line, f"{name} imported inside a function; import it at the top, or add its library to DEFERRED in {__file__}")
        for function in functions
        for line, name in imports(function, module)
        if not any(name == library or name.startswith(f"{library}.") for library in DEFERRED)
    )
    assert not (found := report(module, offences)), found


@every_module
def test_no_private_jax(module: str) -> None:
    imported = ((line, f"{name} is private") for line, name in imports(tree(module), module) if is_private_jax(name))
    used = (
        (n.lineno, f"{ast.unparse(n)} is private")
        for n in ast.walk(tree(module))
        if isinstance(n, ast.Attribute) and n.attr == "_src"
    )
    assert not (found := report(module, (*imported, *used))), found


@every_module
def test_no_star_imports(module: str) -> None:
    offences = ((line, name) for line, name in imports(tree(module), module) if name.endswith("*"))
    assert not (found := report(module, offences)), found


def shared_names() -> dict[str, set[str]]:
    """Names that more than one module has, with these modules as they are written in docs/architecture.md."""
    written: dict[str, set[str]] = {}
    for module, path in MODULES.items():
        is_package = path.name == "__init__.py"
        place = (path.parent if is_package else path).relative_to(SOURCE / "fubini").as_posix()
        written.setdefault(module.rpartition(".")[2], set()).add(f"{place}/" if is_package else place)
    return {name: places for name, places in written.items() if len(places) > 1}


def test_modules_of_one_name_have_a_reason() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Names that stand twice")[2].partition("\n## ")[0]
    listed = {name: set(re.findall(r"`([^`]+)`", modules)) for name, modules, _ in SHARED_NAME.findall(section)}
    assert listed == shared_names(), "rename a module, or list the names with the reason in docs/architecture.md"
