"""Random products of densities as factors: evidence and marginals by elimination."""

import ast
from collections.abc import Callable
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist
from tests.thorough.harness import Case
from tests.thorough.integration import expectations
from tests.thorough.plain_jax import HEAD
from tests.thorough.programs import LABEL, REAL, Program, Site, random_program

DOMAINS = {"real": "fb.Real", "positive": "fb.Positive", "unit": "fb.Unit"}


def case(rng: Random) -> Case:
    """A list of factors, one for each site of a model."""
    program = random_program(rng)
    text = f"{HEAD}{written(program)}"
    answers: dict[str, Any] = {}
    built: dict[str, Any] = {}

    def factors() -> Any:
        if not built:
            space = dict(np=np, jnp=jnp, fb=fb, dist=dist, jax=jax)
            with jax.enable_x64(True):  # in single precision, rounding would pass for an error
                exec(text, space)
            built.update(space)
        return built["factors"]

    def oracle() -> dict[str, Any] | None:
        found = expectations(program)
        answers.update(found or {})
        return found

    names = [site.name for site in program.latents]
    asked = {"log evidence": in_double(lambda: float(fb.eliminate(factors(), names).log()))}
    for site in program.latents:
        asked[site.name] = in_double(lambda site=site: marginal(factors(), site, answers))
    return Case(text, asked, oracle)


def in_double(ask: Callable[[], Any]) -> Callable[[], Any]:
    """A question in double precision."""

    def asked() -> Any:
        with jax.enable_x64(True):
            return ask()

    return asked


def marginal(factors: Any, site: Site, answers: dict) -> Any:
    """A mean, or the probabilities of a label; there is none to ask for where the evidence is zero."""
    if site.name not in answers:
        answers[site.name] = 0.0
        return 0.0
    found = fb.marginals(factors, [site.name])[site.name]
    return found.weights if site.kind == LABEL else found.mean(site.name).data


def written(program: Program) -> str:
    """The data, the variables and the factors of a program, as text."""
    lines = [f"{name} = {value}" for name, value in program.data.items()]
    lines += [f'{site.name} = fb.Variable("{site.name}", {domain(site)})' for site in program.latents]
    names = {site.name for site in program.latents}
    made = [f"    {density(site, names)}({site.observed or site.name})," for site in program.sites]
    return "\n".join([*lines, "factors = [", *made, "]"])


def domain(site: Site) -> str:
    """The domain of a latent site, as text."""
    if site.kind == LABEL:
        return f"fb.Bint[{', '.join(map(str, (site.size, *site.shape)))}]"
    if site.kind == "simplex":
        return f"fb.Simplex[{site.size}]"
    shape = f".with_shape({site.shape})" if site.shape else ""
    return DOMAINS.get(site.kind, DOMAINS[REAL]) + shape


def density(site: Site, names: set[str]) -> str:
    """Its distribution, with parameters that read latents as lifted functions of these."""
    tree = ast.parse(site.density, mode="eval").body
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_dist(node.func.value):
            node.args = [_lifted(arg, names) for arg in node.args]
    return ast.unparse(tree)


def _is_dist(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "dist"


def _lifted(arg: ast.expr, names: set[str]) -> ast.expr:
    used = sorted({node.id for node in ast.walk(arg) if isinstance(node, ast.Name) and node.id in names})
    if not used or isinstance(arg, ast.Name):
        return arg
    listed = ", ".join(used)
    return ast.parse(f"fb.lift(lambda {listed}: {ast.unparse(arg)})({listed})", mode="eval").body
