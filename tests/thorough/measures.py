"""Random programs of measures: their mass and normalised expectations, before and after they are simplified."""

import itertools
from random import Random
from typing import Any

import numpy as np

import fubini as fb
import fubini.measures as language
from fubini.measures import measure, symbol
from tests.thorough.harness import Case
from tests.thorough.points import Invalid, TooLarge, mass

HEAD = "import fubini as fb\nfrom fubini.measures import *\n\n"
REAL, POSITIVE, UNIT, WHOLE = "real", "positive", "unit", "whole"
NUMBERS = ("0", "0.5", "1", "2")
PROBABILITIES = ("0", "0.25", "0.5", "0.8", "1")


class Maker:
    """Statements of a program, each chosen at random from what was drawn before."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.drawn: list[tuple[str, str]] = []  # names and kinds
        self.most: dict[str, int] = {}  # the greatest value of a whole number that has one
        self.weightless: list[str] = []
        self.parameters: dict[str, float] = {}
        self.continuous = 0

    def pick(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.rng.randrange(100) < percent

    def of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.drawn if kind in kinds]

    # -- parameters --------------------------------------------------------------------------------------------------

    def location(self) -> str:
        reals, counts, tests = self.of(REAL), self.of(WHOLE), self.tests()
        choices = ["0", "0.5", "-1"]
        choices += [choice for x in reals for choice in (x, f"0.5*{x}", f"1 - {x}")]
        choices += [choice for k in counts for choice in (k, f"{k} - 1", f"where({k} == 1, 0.5, -1)")]
        choices += [f"where({test}, 1, -0.5)" for test in tests] + [f"({test})" for test in tests]
        return self.pick(*choices)

    def scale(self) -> str:
        choices = ["1", "0.5", "2", *(f"sqrt({x})" for x in self.of(POSITIVE)), *(f"1 + {k}" for k in self.of(WHOLE))]
        return self.pick(*choices)

    def rate(self) -> str:
        choices = ["1", "0.5", "2", *self.of(POSITIVE), *(f"2*{x}" for x in self.of(POSITIVE))]
        choices += [f"0.5 + {k}" for k in self.of(WHOLE)] + [f"where({test}, 1, 2)" for test in self.tests()]
        return self.pick(*choices)

    def probability(self) -> str:
        if self.chance(10) and len(self.parameters) < 2:
            name = f"p{len(self.parameters)}"
            self.parameters[name] = float(self.pick(*PROBABILITIES))
            return name
        choices = [*PROBABILITIES, *self.of(UNIT), *(f"1 - {p}" for p in self.of(UNIT))]
        choices += [f"0.25 + 0.5*({test})" for test in self.tests()]
        choices += [f"{k}/{top}" for k, top in self.most.items() if top] + [
            f"where({k} == 1, 1, 0.5)" for k in self.most
        ]
        choices += [f"0.5**{k}" for k in self.of(WHOLE)]
        return self.pick(*choices)

    # -- draws -------------------------------------------------------------------------------------------------------

    def distribution(self) -> tuple[str, str, int | None]:
        """The text of a distribution, its kind, and the greatest value of a count."""
        kind = self.pick(REAL, POSITIVE, UNIT, WHOLE, WHOLE) if self.continuous < 2 else WHOLE
        if kind == REAL:
            distributions = (
                f"Normal({self.location()}, {self.scale()})",
                "Laplace(0, 1)",
                "Uniform(-1, 2)",
                "Lebesgue(-1, 1)",
            )
            return self.pick(distributions[0], *distributions), kind, None
        if kind == POSITIVE:
            rate = self.rate()
            distributions = (
                f"Gamma(2, {rate})",
                f"Exponential({rate})",
                "InverseGamma(3, 1)",
                "HalfNormal(1)",
                "Uniform(0, 2)",
            )
            return self.pick(*distributions), kind, None
        if kind == UNIT:
            return self.pick("Beta(2, 1)", "Uniform(0, 1)", "Beta(1, 3)", "Beta(0.5, 1.5)"), kind, None
        return self.count()

    def count(self) -> tuple[str, str, int | None]:
        p = self.probability()
        bounded = self.chance(75)
        if not bounded:
            rate = self.pick("0.5", "1.5", *(x for x in self.of(UNIT)))
            distributions = (
                f"Poisson({rate})",
                "Geometric(0.5)",
                "Geometric(1)",
                "NegativeBinomial(2, 0.25)",
                "NegativeBinomial(1, 0)",
            )
            return self.pick(*distributions), WHOLE, None
        distributions: tuple[tuple[str, int], ...] = (
            (f"Bernoulli({p})", 1),
            (f"Bernoulli({p})", 1),
            (f"Binomial(3, {p})", 3),
            ("Categorical([0.25, 0, 0.75])", 2),
            ("Categorical([0.5, 0.25, 0.25])", 2),
            ("Counting(0, 3)", 2),
            ("BetaBinomial(2, 1, 2)", 2),
        )
        text, most = self.pick(*distributions)
        return text, WHOLE, most

    def draw(self) -> None:
        name = f"x{len(self.drawn)}"
        text, kind, most = self.distribution()
        if self.chance(10) and kind != WHOLE and self.continuous == 0:
            text, kind, most = f"superpose((0.25, {text}), (1.5, Normal(0, 1)))", REAL, None
            self.continuous += 1
        self.lines.append(f"{name} = yield {text}")
        self.add(name, kind, most)

    def add(self, name: str, kind: str, most: int | None) -> None:
        self.drawn.append((name, kind))
        self.continuous += kind != WHOLE
        if most is not None:
            self.most[name] = most

    def plate(self) -> None:
        """A few draws at once; each entry is then a draw of its own."""
        name, size = f"z{len(self.drawn)}", self.pick(2, 3)
        text, kind, most = self.distribution()
        if kind != WHOLE and (self.continuous or size > 2):
            text, kind, most = self.count()
        self.lines.append(f"{name} = yield plate({size}, lambda i: {text})")
        for place in range(size):
            self.add(f"{name}[{place}]", kind, most)
        reads = [k for k, top in self.most.items() if top < size and not k.startswith(name)]
        if reads and self.chance(60):
            self.drawn.append((f"{name}[{self.pick(*reads)}]", kind))

    def flips(self) -> None:
        """A sum of coin flips."""
        count, p = self.pick(2, 4), self.probability()
        name = f"s{len(self.drawn)}"
        self.lines += [f"{name} = 0", f"for _ in range({count}):", f"    {name} = {name} + (yield Bernoulli({p}))"]
        self.add(name, WHOLE, count)

    # -- tests and weights -------------------------------------------------------------------------------------------

    def tests(self) -> list[str]:
        found: list[str] = []
        for x in self.of(REAL, POSITIVE, UNIT):
            c = self.pick("0.5", "0", "1")
            found += [f"{x} > {c}", f"{x} <= {c}", f"abs({x}) < 0.5", f"{x}**2 < 1", f"1 - {x} > 0.5"]
        for x in self.of(POSITIVE):
            found += [f"log({x}) < 0", f"1/{x} < 2", f"sqrt({x}) < 1"]
        for k in self.of(WHOLE):
            found += [
                f"{k} == 1",
                f"{k} > 0",
                f"{k} <= 1",
                f"{k} != 1",
                f"{k} % 2 == 0",
                f"(-2.0)**{k} > 0",
                f"0.0**{k} > 0",
            ]
        return found

    def pairs(self) -> list[str]:
        found: list[str] = []
        reals, counts = self.of(REAL, POSITIVE, UNIT), self.of(WHOLE)
        for x, y in itertools.pairwise(reals):
            found += [f"{x} < {y}", f"{x} + {y} < 1", f"{x} - {y} > 0.5"]
        for j, k in itertools.pairwise(counts):
            found += [f"{j} == {k}", f"{j} < {k}", f"{j} + {k} == 2", f"{j} <= {k}", f"{j} + {k} > 1"]
        return found

    def test(self) -> str:
        tests = [*self.tests(), *self.pairs()]
        a, b = self.pick(*tests), self.pick(*tests)
        forms = (a, a, f"({a}) == 1", f"({a}) == 0", f"1 - ({a})", f"where({a}, 2, 5) == 2", f"({a}) & ({b})")
        return self.pick(*forms, f"({a}) | ({b})", f"~({a})", f"({a}) == ({b})", f"({a}) + ({b}) >= 1", f"2*({a}) > 1")

    def weight(self) -> str:
        """A number that is not negative."""
        found = [f"2 - ({self.test()})", f"where({self.test()}, 0.5, 2)"]
        found += [
            choice for x in self.of(REAL) for choice in (f"exp(0.5*{x})", f"exp(-{x}**2)", f"{x}**2", f"abs({x})")
        ]
        found += [
            choice for x in self.of(POSITIVE) for choice in (x, f"exp(-{x})", f"sqrt({x})", f"1 + {x}", f"1/(1 + {x})")
        ]
        found += [choice for p in self.of(UNIT) for choice in (p, f"1 - {p}", f"{p}*(1 - {p})", f"1 + {p}")]
        for k in self.of(WHOLE):
            found += [f"0.5**{k}", f"1 + {k}", k, f"0.0**{k}", f"abs({k} - 1)"]
            if k in self.most:
                found += [f"9 + (-2.0)**{k}", f"1/(1 + {k})", f"where({k} == 0, 2, 1/{k})", f"{k}//2", f"{k} % 2"]
            found += [f"{p}**{k}" for p in self.of(UNIT)]
        return self.pick(*found)

    def statement(self) -> None:
        found = [f"condition({self.test()})"] * 2 + [f"weight({self.weight()})"] * 2
        found += [f"observe(Normal({self.location()}, {self.scale()}), {self.pick('0', '0.5')})"]
        found += [f"observe(Bernoulli({self.probability()}), {self.pick('0', '1')})"]
        found += [f"observe(Binomial(2, {self.probability()}), {self.pick('0', '1', '2')})"]
        found += [
            f"observe(Exponential({self.rate()}), 0.5)",
            f"observe(Poisson({self.rate()}), {self.pick('0', '2')})",
        ]
        found += [f"superpose((0.5, weight({self.weight()})), (2, weight(1)))"]
        self.lines.append(f"yield {self.pick(*found)}")


def program(rng: Random) -> tuple[Maker, str, str]:
    """A program, and a weight whose normalised expectation is asked for."""
    maker = Maker(rng)
    for _ in range(rng.randint(1, 3)):
        makers = [maker.draw] * 5 + [maker.plate] + [maker.flips]
        rng.choice(makers)()
        if maker.chance(60):
            maker.statement()
    names = ", ".join(name for name, _ in maker.drawn if maker.chance(40))
    return maker, maker.weight(), names


def text_of(maker: Maker, extra: str | None, returned: str) -> str:
    lines = [*maker.lines, *([] if extra is None else [f"yield weight({extra})"])]
    lines.append(f"return ({returned},)" if returned else "return ()")
    return "\n".join([f"def program({', '.join(maker.parameters)}):", *(f"    {line}" for line in lines), ""])


def case(rng: Random) -> Case:
    """The mass of a program, that of its simplification, and a normalised expectation."""
    maker, extra, returned = program(rng)
    plain, weighted = text_of(maker, None, returned), text_of(maker, extra, returned)
    values = ", ".join(f"{name}={value}" for name, value in maker.parameters.items())
    symbols = ", ".join(f"symbol({name!r}, kind='unit')" for name in maker.parameters)
    text = f"{HEAD}@measure\n{weighted}\nfb.total_mass(program({symbols}))({values})  # and without the last weight"

    def asked(source: str, simplified: bool = False) -> float:
        space = dict(vars(language))
        exec(source, space)
        made = measure(space["program"])(*(symbol(name, kind="unit") for name in maker.parameters))
        return fb.total_mass(fb.simplify(made) if simplified else made)(**maker.parameters)

    questions = {
        "mass": lambda: asked(plain),
        "mass once simplified": lambda: asked(plain, simplified=True),
        "normalised expectation": lambda: asked(weighted) / asked(plain),
    }

    def oracle() -> dict[str, Any] | None:
        whole, part = _mass(plain, maker.parameters), _mass(weighted, maker.parameters)
        if whole is None or part is None:
            return None
        expected = {"mass": whole, "mass once simplified": whole}
        if not whole > 1e-6:
            questions.pop("normalised expectation", None)
            return expected
        return {**expected, "normalised expectation": part / whole}

    return Case(text, questions, oracle, tolerance=2e-6)


FINENESS = (17, 23, 31, 43)


def _mass(source: str, values: dict[str, float]) -> float | None:
    """NaN of what is no measure; None where no two resolutions agree."""
    coarse = np.inf
    try:
        for fineness in FINENESS:
            fine = mass(source, fineness, **values)
            if np.isfinite(fine) and abs(fine - coarse) <= 3e-7 * abs(fine) + 1e-12:
                return fine
            coarse = fine
    except Invalid:
        return np.nan
    except TooLarge:
        return None
    return None
