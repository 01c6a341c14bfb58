"""Random models: sites in order, each with the text of its distribution, few enough numbers for quadrature."""

import re
from dataclasses import dataclass
from random import Random

import numpy as np

REAL, POSITIVE, UNIT, SIMPLEX, LABEL, COUNT = "real", "positive", "unit", "simplex", "label", "count"


@dataclass(frozen=True)
class Site:
    """One site: its density as Python text, what it is, and its value where it is observed."""

    name: str
    density: str
    kind: str
    shape: tuple[int, ...] = ()
    size: int = 0  # the number of labels, or of probabilities
    observed: str | None = None

    @property
    def numbers(self) -> int:
        """How many real numbers a latent site has when it is unconstrained."""
        if self.kind == LABEL:
            return 0
        return (self.size - 1) if self.kind == SIMPLEX else int(np.prod(self.shape, dtype=int))

    @property
    def assignments(self) -> int:
        """How many values a latent site has, 1 where it is continuous."""
        return self.size ** int(np.prod(self.shape, dtype=int)) if self.kind == LABEL else 1


@dataclass(frozen=True)
class Program:
    """A model and its data."""

    sites: tuple[Site, ...]
    data: dict[str, str]

    @property
    def latents(self) -> tuple[Site, ...]:
        return tuple(site for site in self.sites if site.observed is None)

    @property
    def observations(self) -> dict[str, str]:
        return {site.name: site.observed for site in self.sites if site.observed is not None}

    def evidence(self) -> str:
        """The arguments of `condition`."""
        return ", ".join(f"{name}={value}" for name, value in self.observations.items())

    def coroutine(self) -> str:
        """The model as a generator function, called `model`, and its data."""
        lines = [f"{name} = {value}" for name, value in self.data.items()]
        lines += ["@fb.model", f"def model({', '.join(self.data)}):"]
        lines += [f"    {site.name} = yield {site.density}" for site in self.sites]
        return "\n".join([*lines, f"joint = model({', '.join(self.data)})"])

    def named(self) -> str:
        """The model as a dict."""
        lines = [f"{name} = {value}" for name, value in self.data.items()]
        entries = [f"    {site.name}={self._function(site)}," for site in self.sites]
        return "\n".join([*lines, "joint = fb.JointNamed(dict(", *entries, "))"])

    def sequential(self) -> str:
        """The model as a list: a function takes the sites before it, the nearest first, which names them."""
        lines = [f"{name} = {value}" for name, value in self.data.items()]
        entries = []
        for number, site in enumerate(self.sites):
            before = ", ".join(earlier.name for earlier in reversed(self.sites[:number]))
            entries.append(f"    lambda {before}: {site.density}," if before else f"    {site.density},")
        entries.append(f"    lambda {', '.join(site.name for site in reversed(self.sites))}: dist.Normal(0.0, 1.0),")
        return "\n".join([*lines, "joint = fb.JointSequential([", *entries, "])"])

    def _function(self, site: Site) -> str:
        used = [other.name for other in self.sites if re.search(rf"\b{other.name}\b", site.density)]
        return f"lambda {', '.join(used)}: {site.density}" if used else site.density


class Maker:
    """Draws the sites of a program; each expression is chosen from what stands before it."""

    def __init__(self, rng: Random, numbers: int = 2, assignments: int = 24) -> None:
        self.rng, self.numbers, self.assignments = rng, numbers, assignments
        self.rows = rng.randint(1, 3)
        self.sites: list[Site] = []
        self.data: dict[str, str] = {}

    # -- choices ----------------------------------------------------------------------------------------------------

    def pick(self, *options):
        return options[self.rng.randrange(len(options))]

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def number(self, low: float = -2.0, high: float = 2.0) -> float:
        steps = round((high - low) * 10)
        return round(low + self.rng.randint(0, steps) / 10, 1)

    def positive_number(self) -> float:
        return self.pick(1.0, 0.5, 0.7, 1.5, 2.0, 3.0)

    def of(self, kind: str, shape: tuple[int, ...] | None = ()) -> list[Site]:
        return [
            site for site in self.sites if site.kind == kind and site.observed is None and shape in (None, site.shape)
        ]

    def covariates(self) -> str:
        self.data.setdefault("x", f"np.array({[self.number() for _ in range(self.rows)]})")
        return "x"

    def groups(self, size: int) -> str:
        name = f"g{size}"
        self.data.setdefault(name, f"np.array({[self.rng.randrange(size) for _ in range(self.rows)]})")
        return name

    # -- expressions ------------------------------------------------------------------------------------------------

    def label_table(self, low: float, high: float) -> list[str]:
        """A constant for each value of a label."""
        labels = self.of(LABEL)
        if not labels:
            return []
        site = self.pick(*labels)
        return [f"jnp.array({[self.number(low, high) for _ in range(site.size)]})[{site.name}]"]

    def real(self) -> str:
        """A scalar real expression."""
        options = [str(self.number()), *self.label_table(-2.0, 2.0)]
        for site in self.of(REAL):
            options += [site.name, site.name, f"{self.number()} * {site.name}", f"{site.name} + {self.number()}"]
            options += [f"{self.number()} - {site.name}"]
        for site in self.of(REAL, (2,)):
            options += [
                f"{site.name}[0]",
                f"{site.name}[1]",
                f"{site.name}.sum()",
                f"({site.name}[0] - {site.name}[1])",
            ]
            options += [f"{site.name}[{label.name}]" for label in self.of(LABEL) if label.size == 2]
        for label in self.of(LABEL):
            reals = [site.name for site in self.of(REAL)] or ["0.3"]
            options += [f"jnp.where({label.name} == 1, {self.pick(*reals)}, {self.pick(*reals, '-1.0')})"]
            options += [f"{label.name} * {self.pick(*reals)}", f"{label.name} - 1.5"]
        if self.chance(4):
            options += [f"jnp.exp({site.name})" for site in self.of(REAL)]
        first, second = self.pick(*options), self.pick(*options)
        return f"{first} + {second}" if self.chance(20) else first

    def row_real(self) -> str:
        """A real expression with an entry for each row."""
        options = [f"{self.real()} * {self.covariates()}", f"{self.real()} + {self.covariates()}"]
        options += [f"{self.real()} * {self.covariates()} + {self.real()}"]
        for site in self.of(REAL, (2,)):
            options += [f"{site.name}[{self.groups(2)}]", f"{site.name}[0] + {site.name}[1] * {self.covariates()}"]
            options += [f"{site.name}[{label.name}]" for label in self.of(LABEL, (self.rows,)) if label.size == 2]
            options += [f"jnp.stack([jnp.ones({self.rows}), {self.covariates()}], 1) @ {site.name}"]
        for label in self.of(LABEL, (self.rows,)):
            table = [self.number() for _ in range(label.size)]
            options += [
                f"jnp.array({table})[{label.name}]",
                f"jnp.where({label.name} == 0, {self.real()}, {self.real()})",
            ]
            options += [f"{label.name} * {self.real()}"]
        return self.pick(*options)

    def positive(self) -> str:
        """A scalar positive expression, a scale or a rate."""
        options = [str(self.positive_number()), str(self.positive_number()), *self.label_table(0.5, 2.0)]
        for site in self.of(POSITIVE):
            options += [site.name, f"jnp.sqrt({site.name})", f"{self.positive_number()} * {site.name}"]
            options += [f"1 / jnp.sqrt({site.name})"]
        for label in self.of(LABEL):
            options += [f"(1.0 + {label.name})", f"jnp.where({label.name} == 0, 0.5, 2.0)"]
        return self.pick(*options)

    def unit(self) -> str:
        """A scalar probability."""
        options = [str(self.pick(0.3, 0.5, 0.8)), *self.label_table(0.1, 0.9)]
        for site in self.of(UNIT):
            options += [site.name, site.name, f"1 - {site.name}", f"0.5 * {site.name}"]
        for site in self.of(SIMPLEX, None):
            options += [f"{site.name}[0]"]
        return self.pick(*options)

    def simplex(self, size: int) -> str:
        """Probabilities of so many values."""
        tenths = sorted(self.rng.sample(range(1, 10), size - 1))
        shares = [round((high - low) / 10, 1) for low, high in zip([0, *tenths], [*tenths, 10], strict=True)]
        options = [f"jnp.array({shares})"]
        options += [site.name for site in self.of(SIMPLEX, None) if site.size == size] * 2
        for label in self.of(LABEL):
            rows = []
            for _ in range(label.size):
                first = self.number(0.1, 0.9)
                rows.append(
                    [first, round(1 - first, 1)]
                    if size == 2
                    else [round(first / 2, 2), round(first / 2, 2), round(1 - first, 1)]
                )
            options += [f"jnp.array({rows})[{label.name}]"]
        if size == 2:
            options += [f"jnp.stack([{site.name}, 1 - {site.name}])" for site in self.of(UNIT)]
        return self.pick(*options)

    # -- latent sites -----------------------------------------------------------------------------------------------

    def room(self) -> tuple[int, int]:
        """How many real numbers and assignments may still be added."""
        assignments = int(np.prod([site.assignments for site in self.sites if site.observed is None], dtype=int))
        numbers = sum(site.numbers for site in self.sites if site.observed is None)
        return self.numbers - numbers, self.assignments // assignments

    def latent(self, name: str) -> Site | None:
        numbers, assignments = self.room()
        kinds = []
        if numbers >= 1:
            kinds += [self.real_site, self.real_site, self.positive_site, self.unit_site, self.simplex_site]
        if numbers >= 2:
            kinds += [self.real_array_site]
        if assignments >= 3:
            kinds += [self.label_site, self.label_site]
        if assignments >= 2**self.rows:
            kinds += [self.label_array_site]
        return self.pick(*kinds)(name) if kinds else None

    def real_site(self, name: str) -> Site:
        rare = [
            f"dist.Laplace({self.number()}, 1.0)",
            f"dist.StudentT(4.0, {self.number()}, 1.0)",
            "dist.Uniform(-1.0, 2.0)",
        ]
        density = self.pick(*rare) if self.chance(12) else f"dist.Normal({self.real()}, {self.positive()})"
        return Site(name, density, REAL)

    def real_array_site(self, name: str) -> Site:
        return Site(name, f"dist.Normal({self.real()}, {self.positive()}).expand([2])", REAL, (2,))

    def positive_site(self, name: str) -> Site:
        shape = self.pick("2.0", "3.0", "1.5")
        options = [f"dist.Gamma({shape}, {self.positive()})", f"dist.Gamma({shape}, {self.positive()})"]
        options += [f"dist.InverseGamma(3.0, {self.positive()})", f"dist.Exponential({self.positive()})"]
        options += [f"dist.HalfNormal({self.positive_number()})", "dist.LogNormal(0.0, 0.5)"] if self.chance(15) else []
        return Site(name, self.pick(*options), POSITIVE)

    def unit_site(self, name: str) -> Site:
        return Site(
            name,
            self.pick(f"dist.Beta({self.positive_number()}, {self.positive_number()})", "dist.Uniform(0.0, 1.0)"),
            UNIT,
        )

    def simplex_site(self, name: str) -> Site:
        size = 2 if self.room()[0] < 2 or self.chance(60) else 3
        return Site(
            name, f"dist.Dirichlet(jnp.array({[self.positive_number() for _ in range(size)]}))", SIMPLEX, (size,), size
        )

    def label_site(self, name: str) -> Site:
        size = 2 if self.room()[1] < 3 else self.pick(2, 3)
        options = [f"dist.Categorical({self.simplex(size)})", f"dist.Categorical({self.simplex(size)})"]
        options += [f"dist.Bernoulli({self.unit()})"] if size == 2 else [f"dist.Binomial(2, {self.unit()})"]
        options += [f"dist.DiscreteUniform(0, {size - 1})"]
        return Site(name, self.pick(*options), LABEL, (), size)

    def label_array_site(self, name: str) -> Site:
        density = self.pick(f"dist.Categorical({self.simplex(2)})", f"dist.Bernoulli({self.unit()})")
        return Site(name, f"{density}.expand([{self.rows}])", LABEL, (self.rows,), 2)

    # -- observed sites ---------------------------------------------------------------------------------------------

    def observed_site(self, name: str) -> Site:
        rows = self.chance(65)
        kind = self.pick(REAL, REAL, REAL, "rate", "rate", "coin", "coin", "class")
        if kind == REAL:
            loc = self.row_real() if rows else self.real()
            # The location may have no entry for each row; then the observation is expanded.
            density = f"dist.Normal({loc}, {self.positive()})"
            if self.chance(8):
                density = f"dist.Laplace({loc}, {self.positive()})"
            return self._seen(name, density, rows, lambda: self.number(-2.0, 3.0))
        if kind == "rate":
            rate = self.positive()
            if self.of(LABEL, (self.rows,)) and rows and self.chance(50):
                rate = f"jnp.array([0.5, 2.0])[{self.of(LABEL, (self.rows,))[0].name}] * {rate}"
            counts, density = self.pick(
                (True, f"dist.Poisson({rate})"),
                (False, f"dist.Exponential({rate})"),
                (False, f"dist.Gamma(2.0, {rate})"),
            )
            return self._seen(
                name, density, rows, (lambda: self.rng.randint(0, 4)) if counts else lambda: self.number(0.1, 3.0)
            )
        if kind == "coin":
            top, density = self.pick(
                (1, f"dist.Bernoulli({self.unit()})"),
                (3, f"dist.Binomial(3, {self.unit()})"),
                (4, f"dist.Geometric({self.unit()})"),
            )
            return self._seen(name, density, rows, lambda: self.rng.randint(0, top))
        size = self.pick(2, 3)
        return self._seen(name, f"dist.Categorical({self.simplex(size)})", rows, lambda: self.rng.randrange(size))

    def _seen(self, name: str, density: str, rows: bool, value) -> Site:
        """An observation; a distribution without an entry for each row is expanded, which changes no other."""
        if not rows:
            return Site(name, density, COUNT, (), 0, f"np.array({value()})")
        text = f"np.array({[value() for _ in range(self.rows)]})"
        return Site(name, f"{density}.expand([{self.rows}])", COUNT, (self.rows,), 0, text)


def random_program(rng: Random, numbers: int = 2, assignments: int = 24) -> Program:
    """One to four latent sites, one or two observed ones, and sometimes a latent between these."""
    maker = Maker(rng, numbers, assignments)
    for number in range(rng.randint(1, 4)):
        site = maker.latent("abcdef"[number])
        if site is not None:
            maker.sites.append(site)
    for number in range(rng.randint(1, 2)):
        maker.sites.append(maker.observed_site("yu"[number]))
    if maker.chance(15) and (late := maker.latent("late")):
        maker.sites.append(late)
    return Program(tuple(maker.sites), maker.data)
