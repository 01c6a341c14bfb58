"""Random models in plain JAX, as generator functions: evidence, marginals, densities."""

from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist
from tests.thorough.harness import Case
from tests.thorough.integration import expectations
from tests.thorough.programs import LABEL, Program, Site, random_program

HEAD = "import jax.numpy as jnp, numpy as np, fubini as fb\nfrom fubini import dist\n"


def case(rng: Random) -> Case:
    """A generator function."""
    program = random_program(rng)
    return questions(program, program.coroutine())


def questions(program: Program, text: str) -> Case:
    """Evidence and the marginal of each latent, asked of the model that a text defines."""
    text = f"{HEAD}{text}\npost = joint.condition({program.evidence()})"
    answers = {}  # the oracle's, computed once
    built: dict[str, Any] = {}

    def posterior() -> Any:
        if not built:
            space = dict(np=np, jnp=jnp, fb=fb, dist=dist, jax=jax)
            exec(text, space)
            built.update(space)
        return built["post"]

    def oracle() -> dict[str, Any] | None:
        found = expectations(program)
        answers.update(found or {})
        return found

    asked = {"log evidence": lambda: float(posterior().log_evidence())}
    for site in program.latents:
        asked[site.name] = lambda site=site: marginal(posterior(), site, answers)
    return Case(text, asked, oracle)


def marginal(post: Any, site: Site, answers: dict) -> Any:
    """A mean, or the probabilities of labels […, label]; there is none to ask for where the evidence is zero."""
    if site.name not in answers:
        answers[site.name] = 0.0
        return 0.0
    factor = post.marginal(site.name)
    if site.kind != LABEL:
        return factor.mean(site.name).data
    return probabilities(factor, site)


def probabilities(factor: Any, site: Site) -> np.ndarray:
    """The weight of each label, one entry after another."""
    if not site.shape:
        return np.array([float(factor(**{site.name: label})) for label in range(site.size)])
    place = f"{site.name}_place"
    entries = range(site.shape[0])
    return np.array([[float(factor(**{place: i, site.name: k})) for k in range(site.size)] for i in entries])
