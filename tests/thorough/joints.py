"""Random models in every flavour, of few sites: the same questions as to a generator function."""

from random import Random

from tests.thorough.harness import Case
from tests.thorough.plain_jax import questions
from tests.thorough.programs import random_program


def case(rng: Random) -> Case:
    """A list or a dict."""
    program = random_program(rng, numbers=2, assignments=12)
    return questions(program, program.named() if rng.randrange(2) else program.sequential())
