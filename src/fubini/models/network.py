"""A network of variables: factors with typed names and evidence, and the questions to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import Any

import numpy as np

from fubini.base.arrays import Data
from fubini.base.domains import Domain, merge_domains
from fubini.base.names import Name
from fubini.eliminate.ask import argmax, eliminate, marginals, sample
from fubini.eliminate.observed_tables import ObservedTables, are_loops_to_answer, observed_tables
from fubini.eliminate.prepare import split_terms
from fubini.errors import DataError, DomainError, NameClash, UnknownName, closest, listed
from fubini.factors.delta import Delta
from fubini.factors.promotion import promoted
from fubini.factors.represent import known_in
from fubini.factors.table import Table
from fubini.models.assignments import Assignment, most_probable
from fubini.models.from_network import JointNetwork
from fubini.models.joint import Joint
from fubini.models.learn_tables import Learning, learn_tables
from fubini.models.network_cases import NetworkCases
from fubini.models.network_evidence import finding_of, is_finding, numbers_of, position_of, require_unambiguous
from fubini.models.network_score import score
from fubini.models.network_structure import Structure
from fubini.models.question_heads import answer
from fubini.show.picture import Picture
from fubini.show.printed_form import Block, Shown, Words
from fubini.terms.factor import Factor, substitute
from fubini.terms.heads import PLOT
from fubini.terms.value import Value, Variable, to_value

SHOWN, WORDS = 12, 6  # variables that are printed, and the parents and values of each
MOST_FACTORS = 10_000  # in which parents are looked for, to be printed


@dataclass(frozen=True, repr=False)
class Network(Shown):
    """Variables with their domains, the factors over them, and what has been observed.

    >>> from fubini.base.domains import Bint
    >>> from fubini.factors.table import Table
    >>> rain = Bint.labelled("dry", "wet")
    >>> net = Network({"rain": rain}, (Table([0.8, 0.2], {"rain": rain}),))
    >>> net.marginals()["rain"].weights
    array([0.8, 0.2])
    """

    variables: Mapping[str, Domain]
    factors: tuple[Factor, ...]
    directed: bool = True
    name: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)  # labels, positions or numbers in; labels as positions
    children: tuple[str, ...] = ()  # of a directed network, the variable that each factor is a distribution of
    findings: Mapping[str, Any] = field(default_factory=dict)  # soft evidence: weights of the values of variables
    learnt: Learning | None = None  # how its tables were learnt
    interventions: tuple[str, ...] = ()  # those of `evidence` that were set from outside

    def __post_init__(self) -> None:
        for factor in self.factors:
            self._require(tuple(map(str, factor.inputs)), "a factor")
            for name, domain in factor.inputs.items():
                merge_domains(name, self.variables[str(name)], domain)
        seen = {name: self._observed(name, value) for name, value in self.evidence.items()}
        self._require(tuple(self.findings), "soft evidence")
        soft = {name: finding_of(self.variables[name], name, weights) for name, weights in self.findings.items()}
        self.__dict__.update(evidence=seen, findings=soft, _made={})

    def condition(self, observed: Mapping[str, Any] | None = None, /, **named: Any) -> Network:
        """The network given values of some variables: labels or positions, numbers for real variables.

        A list of weights, one for each value, is soft evidence: an observation e of this variable alone, with
        P(e | value) proportional to them, as an uncertain test (a virtual finding). Two of one variable are two
        observations, and their weights are multiplied; the evidence of both is that of the weights as they are given.

        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition(b=0).marginals("a")["a"].weights.round(6)
        array([0.333333, 0.666667])
        >>> net.condition(b=[0.2, 0.8]).marginals("b")["b"].weights.round(6)
        array([0.428571, 0.571429])
        """
        seen, soft = dict(self.evidence), {}
        for name, value in [*(observed or {}).items(), *named.items()]:
            self._require((name,), "evidence")
            domain = self.variables[name]
            if is_finding(domain, value):
                soft[name] = soft.get(name, self.findings.get(name, 1.0)) * finding_of(domain, name, value)
                continue
            known = self._observed(name, value)
            require_unambiguous(domain, name, value)
            if name in seen and not np.array_equal(seen[name], known):
                raise DataError(f"{name}={value!r}", expected=f"{self._shown(name, seen[name])!r}, as observed before")
            seen[name] = known
        return self._given(seen, soft)

    def _given(self, seen: Mapping[str, Any], soft: Mapping[str, np.ndarray] = MappingProxyType({})) -> Network:
        """The same network with other evidence, which has been checked; what was made of its tables stays."""
        new = object.__new__(Network)
        new.__dict__.update(self.__dict__, evidence=seen)
        if soft:
            new.__dict__.update(findings={**self.findings, **soft}, _made={})
        return new

    def condition_many(self, cases: Any) -> NetworkCases:
        """The network given each row of a table: a data frame, or labels or positions by name.

        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition_many({"b": [0, 1, 0]}).marginals()["a"].round(3)
        array([[0.333, 0.667],
               [1.   , 0.   ],
               [0.333, 0.667]])
        """
        return NetworkCases(self, cases)

    @property
    def _tables(self) -> ObservedTables | None:
        """The factors as tables in one array, for compiled loops; None where one of them is no table of NumPy."""
        made = self.__dict__["_made"]  # shared by the network and all that it is conditioned to
        if "tables" not in made:
            made["tables"] = observed_tables(self.variables, self._weighted_factors)
        return made["tables"]

    @property
    def _weighted_factors(self) -> tuple[Factor, ...]:
        """The factors, with the weights of soft evidence."""
        return (*self.factors, *(Table(each, {name: self.variables[name]}) for name, each in self.findings.items()))

    def _answer_by_loops(self) -> ObservedTables | None:
        """The tables, where compiled loops are to answer a question to all of them."""
        return self._tables if are_loops_to_answer(len(self.factors)) else None

    def do(self, values: Mapping[str, Any] | None = None, /, **named: Any) -> Network:
        """The network in which some variables are set from outside, whatever their parents are: an intervention.

        >>> a, b = fb.Table([0.5, 0.5], ("a",)), fb.Table([[0.75, 0.25], [0.0, 1.0]], ("a", "b"))
        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (a, b), children=("a", "b"))
        >>> net.do(b=1).marginal("a").weights, net.condition(b=1).marginal("a").weights.round(6)
        (array([0.5, 0.5]), array([0.2, 0.8]))
        """
        given = {**(values or {}), **named}
        self._require(tuple(given), "an intervention")
        if len(self.children) != len(self.factors):
            raise DomainError(
                f"an intervention in {self}",
                expected="a directed network: a distribution of each variable given its parents",
                advice="in an undirected one, what a variable depends on is not known: condition(…) observes it",
            )
        for name in given:
            if name in self.evidence:
                raise DataError(
                    f"do({name}=…) of a variable that is observed",
                    expected="a variable that is not: an intervention and an observation exclude each other",
                    nearest=f"{name!r} is held at its observed value, {self._shown(name, self.evidence[name])!r}",
                    advice=f"ask the network without that evidence: net.do({name}=…)",
                )
        soft = [name for name, value in given.items() if is_finding(self.variables[name], value)]
        if soft:
            raise DomainError(
                f"do({soft[0]}=…) of a list of weights",
                expected="one value: an intervention sets a variable for certain",
                advice=f"condition({soft[0]}=…) takes weights: soft evidence",
            )
        changed = self.condition(given)
        points = {name: _point(name, self.variables[name], changed.evidence[name]) for name in given}
        factors = tuple(points.get(child, old) for child, old in zip(self.children, self.factors, strict=True))
        return replace(changed, factors=factors, interventions=(*self.interventions, *given))

    def _shown(self, name: str, value: Any) -> Any:
        """An observed value as a label or a number."""
        domain = self.variables[name]
        return domain.label(value) if domain.is_finite else value

    def _observed(self, name: str, value: Any) -> Any:
        """A position, or the numbers of a real variable."""
        self._require((name,), "evidence")
        domain = self.variables[name]
        return position_of(domain, name, value) if domain.is_finite else numbers_of(domain, name, value)

    def _require(self, names: Sequence[str], what: str) -> None:
        for name in names:
            if name not in self.variables:
                raise UnknownName(
                    f"{what} for {name!r}",
                    expected=f"one of the {len(self.variables)} variables of the network",
                    nearest=closest(name, self.variables),
                )

    def _require_hidden(self, names: Sequence[str]) -> None:
        """Raise unless the names are of variables that are not observed."""
        self._require(names, "a marginal")
        seen = [name for name in names if name in self.evidence]
        if seen:
            value = self._shown(seen[0], self.evidence[seen[0]])
            raise DataError(f"the marginal of {seen[0]!r}", expected=f"a variable not observed: it is {value!r}")

    def joint(self) -> Joint:
        """The network as a joint distribution, conditioned on what has been observed: values are positions.

        >>> a, b = fb.Table([0.5, 0.5], ("a",)), fb.Table([[0.75, 0.25], [0.0, 1.0]], ("a", "b"))
        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (a, b), children=("a", "b"))
        >>> net.joint().condition(b=1).marginal("a").weights.round(6)
        array([0.2, 0.8])
        """
        if len(self.children) != len(self.factors):
            raise DomainError(
                f"{self} as a joint distribution",
                expected="a directed network: a distribution of each variable given its parents",
                advice="marginals, map, sample and log_evidence of an undirected one are its own methods",
            )
        of = dict(zip(self.children, self.factors, strict=True))
        graph = {child: [name for name in factor.inputs if name != child] for child, factor in of.items()}
        order = map(str, TopologicalSorter(graph).static_order())
        findings = {name: Table(each, {name: self.variables[name]}) for name, each in self.findings.items()}
        made = JointNetwork({child: of[child] for child in order}, findings=findings)
        return made.condition(**self.evidence) if self.evidence else made

    @property
    def hidden(self) -> tuple[str, ...]:
        """The variables not observed.

        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition(b=0).hidden
        ('a',)
        """
        return tuple(name for name in self.variables if name not in self.evidence)

    @property
    def hidden_variables(self) -> tuple[Variable, ...]:
        """The same as Variables, which need not occur in any factor.

        >>> Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),)).hidden_variables
        (a,)
        """
        return tuple(Variable(name, self.variables[name]) for name in self.hidden)

    @property
    def observed_factors(self) -> list[Factor]:
        """The factors at the evidence.

        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition(b=0).observed_factors[0].weights
        array([0.25, 0.5 ])
        """
        values: dict[Name, Value] = {name: to_value(value) for name, value in self.evidence.items()}
        return [substitute(factor, values) for factor in self._weighted_factors]

    def log_evidence(self, *, memory_limit: int | None = None) -> Value:
        """log P(evidence), or the log partition function of an undirected network; −inf if impossible.

        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.condition(b=0).log_evidence()
        -0.2876821
        """
        tables = self._answer_by_loops()
        found = tables.log_evidence(self.evidence, memory_limit) if tables is not None else None
        if found is not None:
            return found.log()
        with self._represented():
            return eliminate(self.observed_factors, self.hidden_variables, memory_limit=memory_limit).log()

    def _represented(self) -> AbstractContextManager:
        """The representations in force, those of variables that are observed too."""
        return known_in(lambda: self.variables, f"{self}")

    def marginals(self, *names: str, memory_limit: int | None = None) -> dict[str, Factor]:
        """P(variable | evidence) for the names given, or for every variable not observed.

        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> {name: marginal.weights.tolist() for name, marginal in net.marginals().items()}
        {'a': [0.5, 0.5], 'b': [0.75, 0.25]}
        """
        self._require_hidden(names)
        tables = self._answer_by_loops() if not names else None
        found = tables.marginals(self.evidence, memory_limit) if tables is not None else None
        if found is not None:
            return found
        wanted = [Variable(name, self.variables[name]) for name in names] or self.hidden_variables
        with self._represented():
            return marginals(self.observed_factors, wanted, memory_limit=memory_limit)  # type: ignore[return-value]

    def marginal(self, *names: str, memory_limit: int | None = None) -> Factor:
        """P(names | evidence), the joint distribution of several variables not observed.

        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> net.marginal("a", "b").weights.tolist()
        [[0.25, 0.25], [0.5, 0.0]]
        """
        self._require_hidden(names)
        if not names or len(set(names)) < len(names):
            raise NameClash(f"the marginal of {listed(names)}", expected="one variable or more, each once")
        others = [Variable(name, self.variables[name]) for name in self.hidden if name not in names]
        with self._represented():
            return promoted(eliminate(self.observed_factors, others, memory_limit=memory_limit)).normalize()

    def map(self, *names: str, memory_limit: int | None = None) -> dict[str, Any]:
        """The most probable values of the variables not observed, together: labels, and numbers of real variables.

        Of some names alone, the others are summed out first (marginal MAP): these values need not be those that the
        names have in the most probable values of all.

        >>> rain, grass = fb.Bint.labelled("dry", "wet"), fb.Bint[3]
        >>> joint = fb.Table([[0.2, 0.2, 0.2], [0.4, 0.0, 0.0]], {"rain": rain, "grass": grass})
        >>> net = Network({"rain": rain, "grass": grass}, (joint,))
        >>> net.map(), net.map("rain")
        ({'rain': 'wet', 'grass': 0}, {'rain': 'dry'})
        """
        asked, factors = self._asked_jointly(names, "the most probable values", memory_limit)
        with self._represented():
            best = argmax(factors, [Variable(name, self.variables[name]) for name in asked])
        return {name: _as_label(self.variables[name], best[name]) for name in asked}

    def most_probable(self, k: int, *names: str, memory_limit: int | None = None) -> list[Assignment]:
        """The k most probable joint values of the variables not observed, or of some names with the others summed out.

        Each with its probability given the evidence, the greatest first; fewer where fewer have a positive one.

        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (fb.Table([[0.25, 0.25], [0.5, 0.0]], ("a", "b")),))
        >>> for each in net.most_probable(2):
        ...     print(each)
        0.5  a = 1, b = 0
        0.25  a = 0, b = 0
        """
        asked, factors = self._asked_jointly(names, "the most probable values", memory_limit)
        with self._represented():
            return most_probable(k, factors, {name: self.variables[name] for name in asked}, memory_limit)

    def _asked_jointly(
        self, names: tuple[str, ...], what: str, memory_limit: int | None
    ) -> tuple[tuple[str, ...], Sequence[Factor]]:
        """The names asked for, or all that are hidden, and factors over them: the others are summed out."""
        if not names:
            return self.hidden, self.observed_factors
        self._require_hidden(names)
        if len(set(names)) < len(names):
            raise NameClash(f"{what} of {listed(names)}", expected="each variable once")
        others = [Variable(name, self.variables[name]) for name in self.hidden if name not in names]
        with self._represented():
            return names, split_terms(eliminate(self.observed_factors, others, memory_limit=memory_limit))

    def sample(self, key: Data, n: int | None = None) -> dict[str, np.ndarray]:
        """Draws of the variables not observed, given the evidence: labels, and numbers of real variables.

        >>> rain = fb.Bint.labelled("dry", "wet")
        >>> draws = Network({"rain": rain}, (fb.Table([1.0, 0.0], {"rain": rain}),)).sample(jax.random.key(0), 3)
        >>> draws["rain"].tolist()
        ['dry', 'dry', 'dry']
        """
        with self._represented():
            draws = sample(key, self.observed_factors, self.hidden_variables, n=n)
        return {name: _labelled(self.variables[name], draws[name]) for name in self.hidden}

    def plot(self, *names: str) -> Picture:
        """A picture of the graph, with the probabilities of these variables given the evidence. Needs `fubini[plot]`.

        Of a network of at most 24 variables all are drawn with their probabilities.

        >>> rain = fb.Bint.labelled("dry", "wet")
        >>> Network({"rain": rain}, (fb.Table([0.8, 0.2], {"rain": rain}),), children=("rain",)).plot()
        Picture: Graph of a network, 1 variable; most probable: rain dry with probability 0.8.
        """
        return answer(PLOT, self, {"names": names or None})

    def _form(self) -> Iterable[Block]:
        """The variables with their values and parents, and what is observed."""
        seen = [name for name in self.evidence if name not in self.interventions]
        known = _named("observed", seen) + _named("set from outside", self.interventions)
        yield Words(f"Network({self.name or 'unnamed'}: {len(self.variables)} variables{known})")
        parents = self._parents() if len(self.factors) <= MOST_FACTORS else {}
        for name, domain in itertools.islice(self.variables.items(), SHOWN):
            given = f" given {_few(parents[name])}" if parents.get(name) else ""
            how = "set to" if name in self.interventions else "observed"
            seen = f", {how} {_as_label(domain, self.evidence[name])}" if name in self.evidence else ""
            if name in self.findings:
                seen += f", soft evidence {_few([f'{weight:.4g}' for weight in self.findings[name]])}"
            values = _few(domain.labels) if domain.labels is not None else repr(domain)
            yield Words(f"{name}{given}: {values}{seen}", 2)
        if len(self.variables) > SHOWN:
            yield Words(f"… {len(self.variables) - SHOWN:,} more", 2)

    @classmethod
    def learn(
        cls,
        frame: Any,
        *,
        structure: Any,
        domains: Mapping[str, Domain] | None = None,
        prior: Any = 1.0,
        steps: int = 500,
        tolerance: float = 1e-8,
        progress: bool = False,
    ) -> Network:
        """The network of this structure with its tables learnt from a data frame; cells may be missing (None, NaN).

        The structure is that of a network, or the parents by variable; values are its labels, else those of the data.
        Each table is its counts, plus `prior` for each cell (a Dirichlet prior; by variable as a mapping), normalised.
        Where cells are missing at random they are expectation–maximisation's, until a step gains no more than the
        tolerance, relatively; `learnt` of the network says how that went.

        >>> rows = {"rain": ["dry", "wet", "wet", None], "grass": ["brown", "lush", "lush", "lush"]}
        >>> net = Network.learn(rows, structure={"grass": ["rain"]})
        >>> net.marginal("rain").weights.round(3)
        array([0.37, 0.63])
        >>> net.learnt
        learnt from 4 rows, 1 cell missing, 6 steps of expectation–maximisation; objective -8.0150101
        """
        graph = structure.structure if isinstance(structure, Network) else structure
        made, tables, learnt = learn_tables(
            frame, graph, domains=domains, prior=prior, steps=steps, tolerance=tolerance, progress=progress
        )
        return cls(made, tuple(tables.values()), children=tuple(tables), learnt=learnt)

    def score(self, frame: Any, method: str = "bic", *, equivalent_size: float = 10.0) -> float:
        """How well the network fits data, the greater the better: "bic", "aic", "log_likelihood" or "bdeu".

        The first three are of the network with its tables, and cells may be missing; BDeu is the evidence of the
        structure under Dirichlet priors of `equivalent_size` pseudo-counts in each table.

        >>> rows = {"rain": ["dry", "wet", "wet", "wet"], "grass": ["brown", "lush", "lush", "brown"]}
        >>> net = Network.learn(rows, structure={"grass": ["rain"]}, prior=0.0)
        >>> round(net.score(rows, "log_likelihood"), 4), round(net.score(rows), 4), round(net.score(rows, "bdeu"), 4)
        (-4.1589, -6.2383, -5.7487)
        """
        return score(self, frame, method, equivalent_size)

    def predict(self, frame: Any, *names: str) -> Any:
        """The most probable label of each missing cell given its row, each by itself; observed cells stay as they are.

        Of the names, else of all variables without a column or with missing cells. A data frame is returned for a data
        frame, columns by name otherwise; `condition_many(frame).marginals()` has the probabilities.

        >>> rain, grass = fb.Bint.labelled("dry", "wet"), fb.Bint.labelled("brown", "lush")
        >>> joint = fb.Table([[0.4, 0.1], [0.1, 0.4]], {"rain": rain, "grass": grass})
        >>> net = Network({"rain": rain, "grass": grass}, (joint,))
        >>> net.predict({"grass": ["lush", "brown", None]})
        {'rain': array(['wet', 'dry', 'dry'], dtype='<U3'), 'grass': array(['lush', 'brown', 'brown'], dtype='<U5')}
        """
        cases = self.condition_many(frame)
        self._require_hidden(names)
        marginals = cases.marginals()
        made = {
            name: _labelled(self.variables[name], cases.most_probable(name, marginals)) for name in names or marginals
        }
        return type(frame)(made, index=frame.index) if hasattr(frame, "iloc") else made

    @property
    def structure(self) -> Structure:
        """The parents of each variable of a directed network, whatever is observed: a drawing, and d-separation.

        >>> a, b = fb.Table([0.5, 0.5], ("a",)), fb.Table([[0.75, 0.25], [0.0, 1.0]], ("a", "b"))
        >>> net = Network({"a": fb.Bint[2], "b": fb.Bint[2]}, (a, b), children=("a", "b"))
        >>> net.structure
        a: Bint[2]
        b: Bint[2], given a
        >>> net.structure.is_separated("a", "b")
        False
        """
        if len(self.children) != len(self.factors):
            raise DomainError(
                f"the structure of {self}",
                expected="a directed network: a distribution of each variable given its parents",
                advice="of an undirected one, its factors say which variables depend on each other",
            )
        return Structure.of_parents(self._parents(), self.variables)

    def _parents(self) -> dict[str, list[str]]:
        """The other variables of the factor that is the distribution of each variable, where that is known."""
        if len(self.children) != len(self.factors):
            return {}
        pairs = zip(self.children, self.factors, strict=True)
        return {child: [str(name) for name in factor.inputs if name != child] for child, factor in pairs}


def _named(how: str, names: Sequence[str]) -> str:
    """The first of some variables, and how they are known."""
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f", {how} {listed(names[:SHOWN])}{more}" if names else ""


def _few(words: Sequence[Any]) -> str:
    """Words in a row; of many, the first."""
    shown = ", ".join(map(str, words[:WORDS]))
    return shown if len(words) <= WORDS else f"{shown}, … {len(words) - WORDS:,} more"


def _labelled(domain: Domain, positions: Data) -> np.ndarray:
    indices = np.asarray(positions)
    return indices if domain.labels is None else np.asarray(domain.labels)[indices]


def _as_label(domain: Domain, value: Data) -> Any:
    if domain.is_finite:
        return domain.label(int(value))
    return np.asarray(value) if domain.shape else float(value)


def _point(name: str, domain: Domain, value: Any) -> Factor:
    """All the probability at one value."""
    if domain.is_finite:
        return Table((np.arange(domain.extent) == value).astype(float), {name: domain})
    return Delta({name: np.asarray(value, np.float64)})
