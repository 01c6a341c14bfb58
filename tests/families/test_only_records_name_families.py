"""What is known of a family is in its record: no other module names a family, but for those listed here."""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import numpyro.distributions as numpyro_families
import pytest

import fubini
import fubini.families
from fubini.families.family import Family, families

SOURCE = Path(fubini.__file__).parent
MODULES = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}

# Distributions of numpyro that say how values are arranged, not how they are distributed.
STRUCTURE = frozenset(
    (
        *("Distribution", "ExpandedDistribution", "Independent", "MaskedDistribution", "TransformedDistribution"),
        *("ImproperUniform", "Unit"),
    )
)

ALLOWED = {  # modules that may name families, or packages of them, and why
    "families": "the records",
    "distributions": "the distributions are defined here, by numpyro's names",
    "factors/delta.py": "the factor Delta, by its own name",
    "measures/__init__.py": "public names",
    "representations/__init__.py": "public names: the representation Mixture",
    "measures/single_draws.py": "public names: one constructor a family",
    "models/from_network.py": "a network's sites are made here",
    "models/joint_mixture.py": "the label of a mixture is made here",
    "models/missing_entries.py": "missing entries of a vector of normals",
    "bridge/conditionals.py": "what a block of variables is",
    "bridge/described.py": "what a block of variables is",
    "measures/flat.py": "base measures",
    "io/json_network.py": "a format in which a node is Normal",
    "integrate/latent_distributions.py": "what a block of latents is",
    "show/mathml_elements.py": "letters of the alphabet: Γ, Δ",
    "cli/hospitals.py": "the models of the demo",
    "cli/bench_command.py": "a model that is timed",
}


def family_names() -> frozenset[str]:
    """The names of all records, of what is read by them, and of numpyro's families."""
    records = {name for record in families() for name in (record.name, *record.names)}
    kinds = (name for name in numpyro_families.__all__ if _makes_distributions(getattr(numpyro_families, name)))
    return frozenset((*records, *kinds)) - STRUCTURE


def _makes_distributions(of: object) -> bool:
    return (inspect.isclass(of) and issubclass(of, numpyro_families.Distribution)) or (
        inspect.isfunction(of) and of.__name__[0].isupper()
    )


NAMES = family_names()
RECORD_MODULES = frozenset(
    module.__name__
    for module in vars(fubini.families).values()
    if inspect.ismodule(module) and any(isinstance(value, Family) for value in vars(module).values())
)


def named(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each family that code names: by identifier, attribute, string, or import of its record.

    Text that is a statement of its own is a docstring. Factors and domains of the library may share a name.
    """
    own = set(_of_the_library(tree))
    text = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.alias(name=name) if name not in own:
                found = name
            case ast.Attribute(attr=name):
                found = name
            case ast.Constant(value=str() as name) if id(node) not in text:
                found = name
            case ast.ImportFrom(module=str() as module):
                found = module
            case _:
                continue
        if found in NAMES or found in RECORD_MODULES:
            yield node.lineno, found


def _of_the_library(tree: ast.Module) -> Iterator[str]:
    """Classes that a module defines, and what it imports from packages below the distributions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
            ("fubini.terms", "fubini.factors", "fubini.base.domains", "fubini.numerics")
        ):
            yield from (alias.asname or alias.name for alias in node.names)


def found_in(module: str) -> list[str]:
    """Each family that a module names, with its line."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    return [f"{MODULES[module]}:{line}: {name}" for line, name in sorted(set(named(tree)))]


def reason(module: str) -> str | None:
    """Why a module may name families; None where it may not."""
    return ALLOWED.get(module) or ALLOWED.get(module.split("/")[0])


@pytest.mark.parametrize("package", ["eliminate", "sequence", "models", "questions"])
def test_questions_name_no_family(package: str) -> None:
    modules = [module for module in MODULES if module.startswith(f"{package}/") and not reason(module)]
    assert package == "models" or len(modules) == len([m for m in MODULES if m.startswith(f"{package}/")])
    found = [line for module in modules for line in found_in(module)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("module", MODULES)
def test_only_records_name_families(module: str) -> None:
    found = found_in(module)
    assert not found or reason(module), "\n".join(found)


@pytest.mark.parametrize("place", ALLOWED)
def test_what_is_allowed_is_needed(place: str) -> None:
    assert any(found_in(module) for module in MODULES if module == place or module.startswith(f"{place}/"))


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('x = "Gamma"', 1),
        ('"""Gamma"""', 0),
        ("dist.Gamma(1, 2)", 1),
        ("match name:\n    case 'Poisson': pass", 1),
        ("from fubini.families.gamma import GAMMA", 1),
        ("from fubini.families.family import family_of", 0),
        ("from fubini.factors.delta import Delta\nDelta({})", 0),
        ('raise ValueError("a Gamma of shape 1")', 0),
    ],
)
def test_named(code: str, count: int) -> None:
    assert len(list(named(ast.parse(code)))) == count
