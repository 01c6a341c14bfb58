"""Random NumPyro models, against quadrature and enumeration on NumPyro's own log density.

A model has up to two continuous entries and a few finite ones, under scales, masks, plates, subsamples, handlers around
it, and observations of shapes that broadcast. Its text is exec'd, so that a failing case can be run as it is printed.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.infer.util import log_density

import fubini as fb
from tests.thorough.harness import Case

HEAD = """import jax.numpy as jnp, numpy as np, numpyro, numpyro.distributions as dist
from numpyro import handlers
import fubini as fb
"""
ENTRIES, STATES = 2, 16  # most continuous entries, and most joint states of the finite ones
SPACE = {"real": (-80.0, 80.0), "positive": (-60.0, 12.0), "unit": (-45.0, 45.0)}  # of unconstrained numbers
POINTS = 161  # along each continuous entry
TRUST = 1e-7  # between a step and its double
NUMBERS = (-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
SIZES = (0.5, 1.0, 1.5, 2.0)
SHARES = (0.1, 0.25, 0.5, 0.6, 0.9)
POWERS = (0.5, 1.5, 2.0, 3.0)


class Writer:
    """The lines of a model function, and what is known of its latents: kind and shape by name."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.kinds: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.entries, self.states, self.observed, self.is_random = 0, 1, [], False

    def pick(self, options: Any) -> Any:
        return self.rng.choice(list(options))

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def of_kind(self, kind: str, shape: tuple[int, ...]) -> list[str]:
        """Latents of a kind that broadcast to a shape."""
        return [n for n, k in self.kinds.items() if k == kind and self.shapes[n] in ((), shape)]

    # -- statements --------------------------------------------------------------------------------------------------

    def around(self) -> tuple[list[str], tuple[int, ...]]:
        """Contexts of a statement, and the shape of the plates among them."""
        contexts, shape = [], ()
        for depth in range(self.pick((0, 0, 1, 1, 1, 2))):
            size, name = self.pick((2, 3)), f"plate{len(self.lines)}_{depth}"
            if self.chance(0.25):
                self.is_random = True
                contexts.append(f'numpyro.plate("{name}", {2 * size}, subsample_size={size})')
            else:
                contexts.append(f'numpyro.plate("{name}", {size})')
            shape = (size, *shape)
        if self.chance(0.35):
            at = self.rng.randrange(len(contexts) + 1)
            contexts.insert(at, f"handlers.scale(scale={self.scale(shape)})")
        return contexts, shape

    def scale(self, shape: tuple[int, ...]) -> str:
        if not shape or self.chance(0.6):
            return repr(self.pick(POWERS))
        array = [self.pick(POWERS) for _ in range(shape[-1])]
        return f"np.array({array})"

    def statement(self, text: str, contexts: list[str]) -> None:
        if contexts:
            self.lines.append(f"with {', '.join(contexts)}:")
            text = "    " + text
        self.lines.append(text)

    def latent(self) -> None:
        """One more latent, if there is room for it."""
        contexts, shape = self.around()
        count = math.prod(shape)
        kind = self.pick(("real", "real", "positive", "unit", "finite", "finite"))
        name = f"{kind[0]}{len(self.kinds)}"
        text, states = self.prior(kind, shape)
        if kind == "finite":
            if self.states * states**count > STATES:
                return
            self.states *= states**count
            if self.chance(0.1):
                contexts.append(f"handlers.mask(mask={self.mask(shape)})")
        else:
            if self.entries + count > ENTRIES:
                return
            self.entries += count
            if kind == "unit" and self.chance(0.1):
                contexts.append(f"handlers.mask(mask={self.mask(shape)})")
        self.kinds[name], self.shapes[name] = kind, shape
        self.statement(f'{name} = numpyro.sample("{name}", {text})', contexts)

    def mask(self, shape: tuple[int, ...]) -> str:
        if not shape or self.chance(0.4):
            return repr(self.pick((True, False)))
        return f"np.array({[self.pick((True, False)) for _ in range(shape[-1])]})"

    def prior(self, kind: str, shape: tuple[int, ...]) -> tuple[str, int]:
        """A distribution, and how many values it has if it is finite."""
        n, s, p = (lambda: self.pick(NUMBERS)), (lambda: self.pick(SIZES)), (lambda: self.pick(SHARES))
        if kind == "real":
            others = self.of_kind("real", shape)
            finite = self.of_kind("finite", shape)
            loc = f"{n()} + {s()} * {self.pick(others)}" if others and self.chance(0.6) else repr(n())
            loc = f"{n()} * {self.pick(finite)}" if finite and self.chance(0.3) else loc
            return self.pick((f"dist.Normal({loc}, {s()})",) * 5 + (f"dist.Logistic({loc}, {s()})",)), 0
        if kind == "positive":
            others = self.of_kind("positive", shape)
            rate = self.pick(others) if others and self.chance(0.4) else repr(s())
            return self.pick(
                (
                    *(f"dist.Gamma({s() + 0.5}, {rate})", f"dist.Gamma({s() + 0.5}, {rate})"),
                    *(f"dist.Exponential({rate})", f"dist.InverseGamma({s() + 1.5}, {s()})"),
                    *(f"dist.HalfNormal({s()})", f"dist.LogNormal({n()}, {s()})"),
                )
            ), 0
        if kind == "unit":
            return self.pick((f"dist.Beta({s()}, {s()})", f"dist.Beta({s()}, {s()})", "dist.Uniform(0.0, 1.0)")), 0
        units = self.of_kind("unit", shape)
        share = self.pick(units) if units and self.chance(0.6) else repr(p())
        return self.pick(
            (
                (f"dist.Bernoulli({share})", 2),
                (f"dist.Bernoulli({share})", 2),
                ("dist.Categorical(np.array([0.2, 0.5, 0.3]))", 3),
                (f"dist.Binomial(2, {share})", 3),
                (f"dist.Bernoulli(logits={n()})", 2),
            )
        )

    def observation(self) -> None:
        """Data of one latent, in a shape that broadcasts."""
        contexts, shape = self.around()
        if self.chance(0.2):
            contexts.append(f"handlers.mask(mask={self.mask(shape)})")
        fitting = [name for name in self.kinds if self.shapes[name] in ((), shape)]
        if not fitting:
            return
        name = self.pick(fitting)
        distribution, draw = self.likelihood(name, self.kinds[name])
        own: tuple[int, ...] = ()
        if self.chance(0.3):
            own = (self.pick((2, 3)),)
            whole = (*shape, *own)
            if self.shapes[name]:
                distribution = distribution.replace(name, f"{name}[..., None]")
            distribution = f"{distribution}.expand({list(whole)}).to_event(1)"
        whole = (*shape, *own)
        cut = self.rng.randrange(len(whole) + 1)
        sizes = tuple(1 if self.chance(0.2) else size for size in whole[cut:])
        data = [draw() for _ in range(math.prod(sizes))]
        value = repr(data[0]) if not sizes else f"np.array({data}).reshape({sizes})"
        site = f"y{len(self.observed)}"
        self.observed.append(site)
        self.statement(f'numpyro.sample("{site}", {distribution}, obs={value})', contexts)

    def likelihood(self, name: str, kind: str) -> tuple[str, Callable[[], Any]]:
        n, s, p = (lambda: self.pick(NUMBERS)), (lambda: self.pick(SIZES)), (lambda: self.pick(SHARES))
        count, coin = (lambda: self.pick((0, 1, 2, 3))), (lambda: self.pick((0, 1)))
        options: Mapping[str, tuple] = {
            "real": (
                (f"dist.Normal({name}, {s()})", n),
                (f"dist.Normal({n()} + {s()} * {name}, {s()})", n),
                (f"dist.Bernoulli(logits={name})", coin),
                (f"dist.LogNormal({name}, {s()})", s),
            ),
            "positive": (
                (f"dist.Poisson({name})", count),
                (f"dist.Exponential({name})", s),
                (f"dist.Gamma({s()}, {name})", s),
                (f"dist.Normal({n()}, 1.0 / jnp.sqrt({name}))", n),
                (f"dist.Normal({n()}, jnp.sqrt({name}))", n),
                (f"dist.Poisson({s()} * {name})", count),
            ),
            "unit": (
                (f"dist.Bernoulli({name})", coin),
                (f"dist.Binomial(3, {name})", count),
                (f"dist.Geometric({name})", count),
                (f"dist.Bernoulli(0.5 * {name})", coin),
            ),
            "finite": (
                (f"dist.Normal({n()} * {name}, {s()})", n),
                (f"dist.Bernoulli(jnp.array([{p()}, {p()}, {p()}])[{name}])", coin),
                (f"dist.Normal(jnp.array([{n()}, {n()}, {n()}])[{name}], {s()})", n),
            ),
        }
        return self.pick(options[kind])

    def extra(self) -> None:
        """A factor or a computed site."""
        name = self.pick([None, *self.kinds])
        total = "0.25" if name is None else f"{self.pick((-0.5, 0.25))} * {name}"
        contexts = [f"handlers.scale(scale={self.pick(POWERS)})"] if self.chance(0.3) else []
        if self.chance(0.7):
            self.statement(f'numpyro.factor("f{len(self.lines)}", {total})', contexts)
        else:
            self.statement(f'numpyro.deterministic("d{len(self.lines)}", {total})', [])


def _wrapped(writer: Writer) -> tuple[str, list[str], dict[str, str]]:
    """The model with handlers around it, the latents that are left, and their names outside."""
    model, free = "model", list(writer.kinds)
    pick, chance = writer.pick, writer.chance
    outer = {name: name for name in free}
    if writer.is_random or chance(0.2):
        model = f"handlers.seed({model}, {pick((0, 1, 2))})"
    for _ in range(pick((0, 0, 1, 2))):
        what = pick(("scale", "trace", "infer_config", "condition", "substitute", "scope", "mask"))
        scalar = [n for n in free if not writer.shapes[n] and outer[n] == n]
        if what == "scale":
            model = f"handlers.scale({model}, scale={pick(POWERS)})"
        elif what == "trace":
            model = f"handlers.trace({model})"
        elif what == "mask":
            model = f"handlers.mask({model}, mask=True)"
        elif what == "infer_config":
            model = f"handlers.infer_config({model}, config_fn=lambda site: {{}})"
        elif what in ("condition", "substitute") and scalar and len(free) > 1:
            name = pick(scalar)
            free.remove(name)
            value = {"real": "0.5", "positive": "1.5", "unit": "0.25", "finite": "1"}[writer.kinds[name]]
            model = f"handlers.{what}({model}, {{{outer[name]!r}: {value}}})"
        elif what == "scope" and all(outer[n] == n for n in free):
            model = f'handlers.scope({model}, "s")'
            outer = {name: f"s/{name}" for name in outer}
    return model, free, outer


def case(rng: Random) -> Case:
    writer = Writer(rng)
    for _ in range(rng.choice((1, 1, 2, 2, 3))):
        writer.latent()
    for _ in range(rng.choice((0, 1, 1, 2))):
        writer.observation()
    if rng.random() < 0.3:
        writer.extra()
    if not writer.kinds:
        writer.kinds["r0"], writer.shapes["r0"], writer.entries = "real", (), 1
        writer.lines.append('r0 = numpyro.sample("r0", dist.Normal(0.0, 1.0))')
    model, free, outer = _wrapped(writer)
    body = "\n".join(f"    {line}" for line in writer.lines)
    text = f"{HEAD}\ndef model():\n{body}\n\njoint = fb.from_numpyro({model})\nprint(joint.log_evidence())\n"
    kinds = {outer[name]: writer.kinds[name] for name in free}
    asked = rng.choice(sorted(kinds))
    is_jitted = rng.random() < 0.1
    made = cache(lambda: _model(body, model))

    def joint() -> Any:
        return fb.from_numpyro(made())

    def evidence() -> float:
        if is_jitted:
            return float(jax.jit(lambda _: fb.from_numpyro(made()).log_evidence().data)(0.0))
        return float(joint().log_evidence())

    questions = {
        "log_evidence": evidence,
        f"mean of {asked}": lambda: np.asarray(joint().marginal(asked).mean(asked).data),
        "log_prob": lambda: float(joint().log_prob(_point(made(), kinds))),
    }
    if is_jitted:
        text += "# asked under jax.jit\n"
    return Case(text, questions, lambda: _oracle(made(), kinds, asked), tolerance=1e-4 if is_jitted else 1e-5)


def _model(body: str, model: str) -> Callable:
    scope: dict[str, Any] = {"jnp": jnp, "np": np, "numpyro": numpyro, "dist": dist, "handlers": handlers}
    exec(f"def model():\n{body}\n", scope)
    return eval(model, scope)


# -- the oracle -----------------------------------------------------------------------------------------------------


def _latents(model: Callable, kinds: Mapping[str, str]) -> dict[str, Any]:
    with jax.enable_x64(True):
        trace = handlers.trace(handlers.seed(model, 0)).get_trace()
    return {name: trace[name]["fn"] for name in kinds}


def _point(model: Callable, kinds: Mapping[str, str]) -> dict[str, np.ndarray]:
    values = {"real": 0.3, "positive": 0.7, "unit": 0.4, "finite": 1}
    return {
        name: np.full(distribution.shape(), values[kinds[name]])
        for name, distribution in _latents(model, kinds).items()
    }


def _oracle(model: Callable, kinds: Mapping[str, str], asked: str) -> dict[str, Any] | None:
    """Σ over finite entries of ∫ over the others, by the trapezoidal rule in unconstrained numbers u."""
    distributions = _latents(model, kinds)
    point = _point(model, kinds)
    with jax.enable_x64(True):
        density = jax.jit(lambda at: log_density(handlers.seed(model, 0), (), {}, at)[0])
        here = float(density({name: jnp.asarray(value) for name, value in point.items()}))
        found = _integrated(density, distributions, kinds, asked)
    if found is None:
        return None
    evidence, mean = found
    return {"log_evidence": evidence, f"mean of {asked}": mean, "log_prob": here}


def _integrated(density: Callable, distributions: Mapping, kinds: Mapping[str, str], asked: str) -> tuple | None:
    """First over all of space, to see where the mass is; then there."""
    shapes = {name: distribution.shape() for name, distribution in distributions.items()}
    entries = [(name, entry) for name, shape in shapes.items() for entry in np.ndindex(*shape)]
    real = [entry for entry in entries if kinds[entry[0]] != "finite"]
    finite = [entry for entry in entries if kinds[entry[0]] == "finite"]
    labels = np.array(list(itertools.product(*(_support(distributions[name]) for name, _ in finite))))

    def one(row: Any, label: Any) -> Any:
        picked = {**dict(zip(real, row, strict=True)), **dict(zip(finite, label, strict=True))}
        each = {
            name: [picked[name, entry] for entry in np.ndindex(*distribution.shape())]
            for name, distribution in distributions.items()
        }
        return density(
            {name: jnp.stack(each[name]).reshape(distribution.shape()) for name, distribution in distributions.items()}
        )

    every = jax.jit(jax.vmap(one, in_axes=(0, None)))
    spaces = [SPACE[kinds[name]] for name, _ in real]
    for _ in range(2):
        grids = [np.linspace(*ends, POINTS) for ends in spaces]
        u = np.stack(np.meshgrid(*grids, indexing="ij"), -1).reshape(-1, len(real)) if real else np.zeros((1, 0))
        pairs = [_constrained(kinds[name], u[:, place]) for place, (name, _) in enumerate(real)]
        rows = np.stack([x for x, _ in pairs], -1) if real else u
        slopes = sum((slope for _, slope in pairs), start=np.zeros(len(rows)))
        log_p = np.stack([np.asarray(every(rows, label)) + slopes for label in labels])
        log_p = np.where(np.isnan(log_p), -np.inf, log_p).reshape(len(labels), *map(len, grids))
        if not np.isfinite(log_p.max()):
            return None
        spaces = [_mass(grid, log_p, axis) for axis, grid in enumerate(grids)]
    shape = distributions[asked].shape()
    values = [_entries_of((asked, e), rows, labels, real, finite, log_p.shape) for e in np.ndindex(*shape)]
    evidence, *means = _sums(log_p, grids, values, 1)
    rough, *rough_means = _sums(log_p, grids, values, 2)
    ends = [np.take(log_p, side, axis + 1).max() for axis in range(len(grids)) for side in (0, -1)]
    is_cut = any(end > log_p.max() - 25 for end in ends)
    if is_cut or abs(evidence - rough) > TRUST or not np.allclose(means, rough_means, rtol=TRUST, atol=TRUST):
        return None
    return evidence, np.reshape(means, shape)


def _mass(grid: np.ndarray, log_p: np.ndarray, axis: int) -> tuple[float, float]:
    """Between the outermost points that matter."""
    height = np.moveaxis(log_p, axis + 1, 0).reshape(len(grid), -1).max(1)
    (inside,) = np.nonzero(height > log_p.max() - 40)
    return grid[max(inside[0] - 1, 0)], grid[min(inside[-1] + 1, len(grid) - 1)]


def _entries_of(
    axis: tuple, rows: np.ndarray, labels: np.ndarray, real: list, finite: list, shape: tuple
) -> np.ndarray:
    """The values of one entry, over labels and grids."""
    if axis in real:
        return np.broadcast_to(rows[:, real.index(axis)].reshape(shape[1:]), shape)
    column = labels[:, finite.index(axis)].astype(float)
    return np.broadcast_to(column.reshape(-1, *(1,) * (len(shape) - 1)), shape)


def _sums(log_p: np.ndarray, grids: list[np.ndarray], values: list[np.ndarray], step: int) -> list[float]:
    """The log of the integral, and means, over every point or every second one."""
    kept = (slice(None), *(slice(None, None, step) for _ in grids))
    top = log_p.max()
    weights = np.exp(log_p[kept] - top)
    widths = sum(math.log(step * (grid[1] - grid[0])) for grid in grids)
    return [float(np.log(weights.sum()) + top + widths)] + [
        float((weights * np.where(weights > 0, value[kept], 0.0)).sum() / weights.sum()) for value in values
    ]


def _constrained(kind: str, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A value and log |dx / du|."""
    if kind == "real":
        return u, np.zeros_like(u)
    if kind == "positive":
        return np.exp(u), u
    return 1 / (1 + np.exp(-u)), -np.logaddexp(0, u) - np.logaddexp(0, -u)


def _support(distribution: Any) -> np.ndarray:
    return np.asarray(distribution.enumerate_support(expand=False)).reshape(-1)
