"""Random models with labels: the conditionals that compiled samplers draw from, and their draws on both engines."""

from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fubini as fb
from fubini import dist
from tests.thorough.harness import Case
from tests.thorough.integration import assignment_masses
from tests.thorough.plain_jax import HEAD
from tests.thorough.programs import COUNT, LABEL, POSITIVE, REAL, SIMPLEX, UNIT, Maker, Program, Site


def case(rng: Random) -> Case:
    """A sampler of the labels, all other latents integrated out."""
    program = label_program(rng)
    others = ", ".join(repr(site.name) for site in program.latents if site.kind != LABEL)
    text = f"{HEAD}{program.coroutine()}\npost = joint.condition({program.evidence()})\n"
    text += f"small = post.eliminate({others})\n" if others else "small = post\n"
    label = next(site for site in program.latents if site.kind == LABEL)
    held = np.array([rng.randrange(label.size) for _ in range(label.shape[0])])
    passes = ["histogram", "hoist", "difference", "fuse", "specialise"]
    without = (rng.choice(passes),) if rng.randrange(4) == 0 else ()
    text += f"sampler = small.gibbs('z', engine='python', without={without})\n"
    text += f"[sampler.conditional('z', place, z=np.array({held.tolist()})) for place in range({len(held)})]"
    built: dict[str, Any] = {}

    def space() -> dict[str, Any]:
        if not built:
            names = dict(np=np, jnp=jnp, fb=fb, dist=dist, jax=jax)
            exec(text.rpartition("\n")[0], names)
            built.update(names)
        return built

    def conditionals() -> np.ndarray:
        sampler = space()["sampler"]
        return np.stack([sampler.conditional("z", place, z=held) for place in range(len(held))])

    def densities() -> np.ndarray:
        return np.asarray(space()["small"].log_prob(z=held))

    def oracle() -> dict[str, Any] | None:
        masses = assignment_masses(program)
        return None if masses is None else _expected(label, held, *masses)

    return Case(text, {"conditionals": conditionals, "log density": densities}, oracle)


def _expected(
    label: Site, held: np.ndarray, labels: dict[str, np.ndarray], log_mass: np.ndarray
) -> dict[str, Any] | None:
    """p(z_i = k | the other labels), from the mass of every assignment."""
    masses = {tuple(row): mass for row, mass in zip(labels["z"], log_mass, strict=True)}
    rows = []
    for place in range(len(held)):
        logs = np.array([masses[(*held[:place], k, *held[place + 1 :])] for k in range(label.size)])
        if not np.isfinite(logs).any():
            return None
        rows.append(np.exp(logs - np.logaddexp.reduce(logs)))
    return {"conditionals": np.stack(rows), "log density": masses[tuple(held)]}


def label_program(rng: Random) -> Program:
    """Labels z of rows, weights of classes, parameters of each class, one or two observations of each row."""
    maker = Maker(rng, numbers=3, assignments=27)
    maker.rows = rng.randint(2, 3)
    size = 2 if rng.randrange(4) else 3
    maker.sites += _weights(maker, size)
    weights = maker.simplex(size) if not maker.sites else maker.sites[0].name
    if maker.chance(15) and maker.sites:
        weights = maker.simplex(size)
    maker.sites.append(Site("z", f"dist.Categorical({weights}).expand([{maker.rows}])", LABEL, (maker.rows,), size))
    for name, seen in (("mu", "y"), ("nu", "u"))[: rng.randint(1, 2)]:
        maker.sites += _class_observation(maker, name, seen, size)
    return Program(tuple(maker.sites), maker.data)


def _weights(maker: Maker, size: int) -> list[Site]:
    if maker.chance(40) or size > 2:
        return []
    return [
        Site(
            "theta",
            f"dist.Dirichlet(jnp.array({[maker.positive_number() for _ in range(size)]}))",
            SIMPLEX,
            (size,),
            size,
        )
    ]


def _class_observation(maker: Maker, name: str, seen: str, size: int) -> list[Site]:
    """Parameters of classes and what is seen given them; constants where quadrature has no room for more."""
    room = maker.room()[0]
    kind = maker.pick(REAL, REAL, POSITIVE, UNIT)
    if room >= size and size == 2:
        options = {
            REAL: f"dist.Normal({maker.number()}, {maker.positive()})",
            POSITIVE: f"dist.Gamma({maker.positive_number()}, {maker.positive()})",
            UNIT: f"dist.Beta({maker.positive_number()}, {maker.positive_number()})",
        }
        sites, parameter = [Site(name, f"{options[kind]}.expand([2])", kind, (2,))], f"{name}[z]"
    elif room >= 1 and maker.chance(60):
        options = {REAL: "dist.Normal(0.0, 1.5)", POSITIVE: "dist.Gamma(2.0, 1.0)", UNIT: "dist.Beta(2.0, 1.0)"}
        shifts = {
            REAL: f"({name} * z)",
            POSITIVE: f"{name} * (1.0 + z)",
            UNIT: f"jnp.where(z == 0, {name}, 1 - {name})",
        }
        sites, parameter = [Site(name, options[kind], kind)], shifts[kind]
    else:
        low, high = {REAL: (-2.0, 2.0), POSITIVE: (0.5, 2.0), UNIT: (0.1, 0.9)}[kind]
        sites, parameter = [], f"jnp.array({[maker.number(low, high) for _ in range(size)]})[z]"
    return [*sites, _seen(maker, kind, parameter, seen)]


def _seen(maker: Maker, kind: str, parameter: str, name: str) -> Site:
    whole = [str([maker.rng.randint(0, top) for _ in range(maker.rows)]) for top in (1, 3, 4)]
    real = str([maker.number(0.1, 3.0) for _ in range(maker.rows)])
    if kind == REAL:
        scale = maker.pick(str(maker.positive_number()), "jnp.array([0.5, 1.0, 2.0])[z]")
        location = maker.pick(
            parameter, parameter, f"{parameter} * {maker.covariates()}", f"{parameter} + {maker.covariates()}"
        )
        density, value = f"dist.Normal({location}, {scale})", real
    elif kind == POSITIVE:
        density, value = maker.pick(
            (f"dist.Poisson({parameter})", whole[2]),
            (f"dist.Exponential({parameter})", real),
            (f"dist.Normal(0.5, 1 / jnp.sqrt({parameter}))", real),
        )
    else:
        density, value = maker.pick(
            (f"dist.Bernoulli({parameter})", whole[0]), (f"dist.Binomial(3, {parameter})", whole[1])
        )
    return Site(name, density, COUNT, (maker.rows,), 0, f"np.array({value})")
