"""Simulation-based calibration: the rank of a parameter among draws given data that it made is uniform.

θ ~ p(θ), y ~ p(y | θ), θ_1 … θ_L ~ p(θ | y): the number of θ_l below θ is uniform on 0 … L where the draws are those
of the posterior (Talts, Betancourt, Simpson, Vehtari and Gelman 2018, theorem 1).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from fubini.base.arrays import Data
from fubini.errors import DomainError, FubiniError, UnknownName, listed
from fubini.infer.driver import Schedule
from fubini.infer.methods import require_method
from fubini.models.flat_model import FlatModel
from fubini.models.joint import Joint
from fubini.models.missing_entries import Partly, name_of_missing
from fubini.models.options import require_options, whole_number
from fubini.models.paths import flat, nested
from fubini.models.question_heads import answer
from fubini.numerics.randomness import require_key, words
from fubini.numerics.rank_tests import RankTests, rank_tests, ranks_of
from fubini.questions.infer import Request, draw_latents, make_settings
from fubini.questions.prior_draws import data_sites, prior_values
from fubini.show.picture import Picture
from fubini.show.printed_form import Block, Grid, Shown, Words
from fubini.terms.heads import PLOT

OPTIONS = (
    *("key", "simulations", "draws", "observed", "quantities", "simulator", "chains", "thin", "warmup", "method"),
    *("eliminate", "progress", "target_accept", "max_tree_depth", "dense_mass"),
)
LEVEL = 0.01  # of all tests together
SHOWN = 12  # sites that are printed
PATIENCE = 3  # simulations that may fail before any is made
Quantities = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


@dataclass(frozen=True, repr=False)
class Calibration(Shown):
    """Ranks [simulation, …] by site, with tests of whether they are uniform; prints a verdict.

    >>> Calibration({"m": np.arange(40) % 20}, 19, {"exact": 40})
    simulation-based calibration: 40 simulations of 19 draws each, by exact
    p-values of ranks  entries  counts  centre  spread
    m                        1       1       1       1
    calibrated, as far as 40 simulations show: all ranks may be uniform
    """

    ranks: Mapping[str, np.ndarray]
    draws: int
    methods: Mapping[str, int]  # how many simulations were drawn by each
    warnings: tuple[str, ...] = ()  # the first line of each
    failed: tuple[str, ...] = ()

    @property
    def simulations(self) -> int:
        """How many simulations there are ranks of.

        >>> Calibration({"m": np.arange(20)}, 19, {"exact": 20}).simulations
        20
        """
        return len(next(iter(self.ranks.values())))

    @cached_property
    def tests(self) -> dict[str, RankTests]:
        """Tests of each site: p-values of the counts in bins, of the mean and of the spread of its ranks.

        >>> Calibration({"m": np.arange(20)}, 19, {"exact": 20}).tests["m"].counts
        1.0
        """
        return {name: rank_tests(ranks.reshape(len(ranks), -1), self.draws) for name, ranks in self.ranks.items()}

    @property
    def p_value(self) -> float:
        """The least p-value of all tests, times their number (Bonferroni).

        >>> Calibration({"m": np.arange(20)}, 19, {"exact": 20}).p_value
        1.0
        """
        return min(1.0, 3 * len(self.tests) * min(test.least for test in self.tests.values()))

    @property
    def is_calibrated(self) -> bool:
        """Whether all tests together are passed at 1 %: nothing says that the draws are not those of the posterior.

        >>> Calibration({"m": np.zeros(20, int)}, 19, {"exact": 20}).is_calibrated
        False
        """
        return self.p_value >= LEVEL

    @property
    def verdict(self) -> str:
        """The result in words.

        >>> Calibration({"m": np.zeros(20, int)}, 19, {"exact": 20}).verdict
        'not calibrated: draws of m are too high, by its ranks (p = 0)'
        """
        if self.is_calibrated:
            return f"calibrated, as far as {self.simulations:,} simulations show: all ranks may be uniform"
        count = 3 * len(self.tests)
        found = [
            f"{_fault(name, test, LEVEL / count)} (p = {count * test.least:.1g})"
            for name, test in self.tests.items()
            if count * test.least < LEVEL
        ]
        return f"not calibrated: {'; '.join(found)}"

    def _form(self) -> Iterator[Block]:
        by = ", ".join(f"{name} {count:,}×" if len(self.methods) > 1 else name for name, count in self.methods.items())
        yield Words(
            f"simulation-based calibration: {self.simulations:,} simulations of {self.draws:,} draws each, by {by}"
        )
        rows = [
            (name, f"{self.ranks[name][0].size:,}", *(f"{p:.3g}" for p in (test.counts, test.centre, test.spread)))
            for name, test in self.tests.items()
        ]
        more = f"and {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
        yield Grid(("p-values of ranks", "entries", "counts", "centre", "spread"), rows[:SHOWN], more=more)
        for what, lines in (("failed, without ranks", self.failed), ("gave warnings", self.warnings)):
            if lines:
                common, count = Counter(lines).most_common(1)[0]
                them = "simulation" if len(lines) == 1 else "simulations"
                yield Words(f"{len(lines):,} {them} {what}; {count:,} times: {common}")
        yield Words(self.verdict)

    def plot(self, *names: str) -> Picture:
        """Rank histograms with the band in which 99 % of counts are, of these sites or of all. Needs `fubini[plot]`.

        Of an array, it is that of the entry whose ranks are the least uniform.

        >>> Calibration({"m": np.arange(20)}, 19, {"exact": 20}).plot()
        Picture: Ranks in 20 simulations of m: 4 bins of 5 to 5, all in the 99 % band of 1 to 10.
        """
        for name in names:
            if name not in self.ranks:
                raise UnknownName(f"a plot of the ranks of {name!r}", expected=f"one of {listed(self.ranks)}")
        return answer(PLOT, self, {"names": names})


def _fault(name: str, test: RankTests, level: float) -> str:
    """What is wrong with the draws of a site, as far as its ranks say."""
    if min(test.centre, test.spread) >= level:
        return f"ranks of {name} are not uniform"
    if test.centre <= test.spread:
        return f"draws of {name} are too {'high' if test.shift < 0 else 'low'}, by its ranks"
    return f"draws of {name} are too {'narrow' if test.excess > 0 else 'wide'}, by its ranks"


def sbc(
    model: Joint,
    key: Data = None,
    simulations: int = 100,
    draws: int = 99,
    *,
    observed: str | Sequence[str] | None = None,
    quantities: Quantities | None = None,
    simulator: Joint | None = None,
    chains: int = 1,
    thin: int = 5,
    warmup: int | None = 500,
    method: str | None = None,
    eliminate: Sequence[str] | None = None,
    progress: bool = True,
    **options: Any,
) -> Calibration:
    """Check by simulation that `infer` draws from the posterior of a model: ranks are uniform where it does.

    Parameters and data are drawn from the model, or from `simulator`, another one of the same sites; then parameters
    given each of these data, every `thin`-th draw of `infer`, and ranked. Data are the sites named in `observed`, or
    those that are observed in `model`, whose values are not used. `quantities` makes other numbers of draws
    [chain, draw, …] by name to be ranked, such as those that no exchange of labels changes.

    >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0)))
    >>> check = sbc(model, jax.random.key(0), simulations=40, observed="x", progress=False)
    >>> check.is_calibrated, check.ranks["m"].shape
    (True, (40,))
    """
    require_options("sbc", options, OPTIONS)
    require_key(key)
    require_method(method)
    if not isinstance(model, Joint):
        raise DomainError(
            f"sbc of {type(model).__name__}", expected="a joint distribution", advice="a network has one: net.joint()"
        )
    schedule = _schedule(draws, chains, thin)
    request = Request(method, eliminate, make_settings(warmup, False, options), options)
    run = _Simulations(FlatModel(model), observed, simulator, quantities or dict, schedule, request)
    return run.calibration(key, whole_number("simulations", simulations), progress)


def _schedule(draws: int, chains: int, thin: int) -> Schedule:
    """Every `thin`-th draw of each chain, so many in all."""
    draws, chains, thin = (whole_number(*each) for each in (("draws", draws), ("chains", chains), ("thin", thin)))
    if draws % chains:
        raise DomainError(f"draws={draws} by chains={chains}", expected="as many draws of each chain")
    return Schedule(draws // chains * thin, thin, chains=chains)


class _Simulations:
    """Data sets of a model, draws given each, and ranks."""

    def __init__(
        self,
        model: FlatModel,
        observed: str | Sequence[str] | None,
        simulator: Joint | None,
        quantities: Quantities,
        schedule: Schedule,
        request: Request,
    ) -> None:
        self.model, self.quantities, self.schedule, self.request = model, quantities, schedule, request
        self.seen = data_sites(model, observed, "sbc(…)")
        self.simulator = FlatModel(model.prior if simulator is None else simulator)
        self.partly = {
            name: value
            for name, value in flat(getattr(model.joint, "observed", {})).items()
            if isinstance(value, Partly)
        }
        if not self.seen:
            raise DomainError(
                f"sbc of {model.joint} without data",
                expected="a site that holds data",
                nearest=f"the sites are {listed(model.outline.names)}",
                advice='name them, sbc(model, key, observed=("y",)), or condition the model on data',
            )

    def calibration(self, key: Data, count: int, progress: bool) -> Calibration:
        """Simulate, draw and rank so many times."""
        first, second = jax.random.split(key)
        truth = self._with_missing({n: value[0] for n, value in prior_values(first, self.simulator, count).items()})
        self._require_sites(truth)
        random = np.random.default_rng(words(second))
        ranks: dict[str, list[np.ndarray]] = {}
        methods: Counter[str] = Counter()
        warned: list[str] = []
        failures: list[FubiniError] = []
        for number in tqdm(range(count), disable=not progress, desc="sbc", unit="simulation"):
            one = {name: value[number] for name, value in truth.items()}
            try:
                values, method = self._drawn(jax.random.fold_in(second, number), one, warned)
            except FubiniError as error:
                failures.append(error)
                if number + 1 == len(failures) >= min(PATIENCE, count):
                    raise failures[0] from None
                continue
            methods[method] += 1
            for name, rank in self._ranks(one, values, random).items():
                ranks.setdefault(name, []).append(rank)
        failed = tuple(str(error).splitlines()[0] for error in failures)
        every = {name: np.stack(rows) for name, rows in ranks.items()}
        draws = self.schedule.kept * self.schedule.chains
        return Calibration(every, draws, dict(methods), tuple(warned), failed)

    def _with_missing(self, truth: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Simulated values, those at the places of missing entries as the sites that these are."""
        gaps = {name: value.gaps.value for name, value in self.partly.items() if value.gaps is not None}
        found = {name_of_missing(name): truth[name][:, *places] for name, places in gaps.items() if name in truth}
        return {**truth, **found}

    def _require_sites(self, truth: Mapping[str, np.ndarray]) -> None:
        """The simulator has the sites of the model."""
        for site in self.model.outline.names:
            if not any(name.split(".")[0] == site for name in truth):
                raise UnknownName(
                    f"sbc(…, simulator={self.simulator.joint})",
                    expected=f"a model of the same sites: {listed(self.model.outline.names)}",
                    nearest=f"it has no site {site!r}",
                )

    def _drawn(
        self, key: Data, truth: Mapping[str, np.ndarray], warned: list[str]
    ) -> tuple[Mapping[str, np.ndarray], str]:
        """Draws [chain, draw, …] of the latents given the data of one simulation, and by which method."""
        post = self.model.prior.condition(
            **nested({name: self._data(name, truth[name]) for name in self._paths(truth)})
        )
        keys = (key, *jax.random.split(key))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            drawn = draw_latents(FlatModel(post), keys, self.schedule, self.request)
        lines = [str(each.message).splitlines()[0] for each in caught]
        warned.extend(lines[:1])
        return drawn.values, drawn.method

    def _paths(self, truth: Mapping[str, np.ndarray]) -> list[str]:
        """Sites that hold data, those of nested joints by path."""
        return [path for path in truth if any(path == name or path.startswith(f"{name}.") for name in self.seen)]

    def _data(self, name: str, value: np.ndarray) -> Any:
        """Data as those of the model are: NumPy's or JAX's, with the same entries missing."""
        if name in self.partly:
            return np.ma.array(value, mask=~np.asarray(self.partly[name].present))
        return np.asarray(value) if self.model.is_float64 else jnp.asarray(value)

    def _ranks(
        self, truth: Mapping[str, np.ndarray], values: Mapping[str, np.ndarray], random: np.random.Generator
    ) -> dict[str, np.ndarray]:
        """Of each quantity."""
        own = self.quantities({name: np.asarray(truth[name])[None, None] for name in values})
        drawn = self.quantities(dict(values))
        return {
            name: ranks_of(np.asarray(own[name])[0, 0], np.concatenate(np.asarray(drawn[name])), random)
            for name in drawn
        }
