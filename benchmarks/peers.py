"""The contestants on networks: ours, pyAgrum and pgmpy, each asked for the marginals of all unobserved variables.

Peers are filled through their own interfaces from our tables, so that all answer the same question to the last bit.
Each contestant lives in a child process of its own (`benchmarks.timing.Child`).
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

import fubini as fb
from benchmarks.networks import draw_evidence, load
from benchmarks.timing import elapsed, peak_memory
from fubini.engines.choice import load_loops

Marginals = dict[str, np.ndarray]


class Planned(NamedTuple):
    """What a plan costs: to make, and to run."""

    seconds: float
    work: int  # multiply-adds of the forward pass
    largest: int  # entries of the largest intermediate result
    passes: int


class Contestant:
    """A network with two sets of evidence on the same variables, and the question asked of it."""

    def __init__(self, source: str, threads: int | None = None) -> None:
        self.network = load(source)
        self.evidence = draw_evidence(self.network)
        self.names = [name for name in self.network.variables if name not in self.evidence[0]]
        self.prepare(threads)

    def prepare(self, threads: int | None) -> None:
        """Convert the network: outside all measurements."""

    def forget(self) -> None:
        """Drop whatever an earlier run left behind."""

    def infer(self, which: int) -> Marginals:
        """All marginals given one set of evidence, from nothing but the network."""
        raise NotImplementedError

    def nodes(self) -> int:
        return len(self.network.variables)

    def first(self, which: int = 0) -> float:
        """Seconds of a run that remembers nothing."""
        self.forget()
        return elapsed(lambda: self.infer(which))

    def peak(self) -> int:
        """Bytes at the peak of a run; ask for it first, before the allocator has memory in hand."""
        return peak_memory(lambda: self.infer(0))

    def answer(self, which: int = 0) -> tuple[Marginals, float]:
        """The marginals and the log-evidence."""
        return self.infer(which), self.log_evidence(which)

    def log_evidence(self, which: int) -> float:
        return math.nan

    def prepare_cases(self, count: int) -> None:
        """Draw values of the observed variables: one case of evidence each."""
        self.cases = draw_evidence(self.network, count)

    def infer_cases(self) -> Marginals:
        """All marginals of all cases, one row for each; engines are kept."""
        raise NotImplementedError

    def time_cases(self) -> float:
        """Seconds of all cases."""
        return elapsed(self.infer_cases)


class Ours(Contestant):
    """Fubini on NumPy tables."""

    def prepare(self, threads: int | None) -> None:
        load_loops()
        self.infer(0)

    def forget(self) -> None:
        clear_caches()
        if self.network._tables is not None:
            self.network._tables.forget()

    def observed(self, which: int) -> fb.Network:
        """The network given its evidence, by labels where it has them: "1" may be the label of position 0."""
        found = self.evidence[which]
        return self.network.condition({name: self.network.variables[name].label(at) for name, at in found.items()})

    def infer(self, which: int) -> Marginals:
        found = self.observed(which).marginals()
        return {name: table.weights for name, table in found.items()}

    def repeat(self, which: int = 1) -> float:
        """Seconds of a run that finds the plan of one before it, with other evidence."""
        return elapsed(lambda: self.infer(which))

    def log_evidence(self, which: int) -> float:
        return float(self.observed(which).log_evidence())

    def prepare_cases(self, count: int) -> None:
        super().prepare_cases(count)
        domains = self.network.variables
        self.frame = {name: [domains[name].label(case[name]) for case in self.cases] for name in self.evidence[0]}

    def infer_cases(self) -> Marginals:
        return self.network.condition_many(self.frame).marginals()

    def plan(self) -> Planned:
        """The plan of all marginals, made anew."""
        from fubini.eliminate.forward import find_plan
        from fubini.eliminate.prepare import problem_of

        terms = self.observed(0).observed_factors
        clear_caches()
        start = time.perf_counter()
        plan = find_plan(problem_of(terms, [(name, None) for name in self.names]), True)
        return Planned(time.perf_counter() - start, plan.work, plan.largest, plan.passes)

    def query(self, name: str, observed: dict[str, str]) -> float:
        """Seconds of one marginal; the first question to a process that has only read the file."""
        start = time.perf_counter()
        self.network.condition(observed).marginals(name)
        return time.perf_counter() - start


def clear_caches() -> None:
    """Forget plans, kernels and compiled functions: every cache of the two layers that run a question."""
    modules = [
        module for name, module in sys.modules.items() if name.startswith(("fubini.eliminate.", "fubini.factors."))
    ]
    for module in modules:
        for member in vars(module).values():
            if hasattr(member, "cache_clear"):
                member.cache_clear()


class PyAgrum(Contestant):
    """Lazy propagation, built anew for each run."""

    def prepare(self, threads: int | None) -> None:
        import pyagrum

        self.gum = pyagrum
        if threads is not None:
            pyagrum.setNumberOfThreads(threads)
        self.model = to_pyagrum(self.network)
        self.kept: Any = None

    def repeat(self, which: int = 1) -> float:
        """Seconds of a run of an engine that was kept, with other evidence on the same variables."""
        if self.kept is None:
            self.kept = self._propagated(0)[1]
        self.kept.updateEvidence(self.evidence[0])
        self._read(self.kept)
        return elapsed(lambda: self._again(which))

    def _again(self, which: int) -> Marginals:
        self.kept.updateEvidence(self.evidence[which])
        return self._read(self.kept)

    def _read(self, engine: Any) -> Marginals:
        engine.makeInference()
        return {name: engine.posterior(name).toarray() for name in self.names}

    def infer_cases(self) -> Marginals:
        if self.kept is None:
            self.kept = self._propagated(0)[1]
        found = []
        for case in self.cases:
            self.kept.updateEvidence(case)
            found.append(self._read(self.kept))
        return {name: np.stack([marginals[name] for marginals in found]) for name in self.names}

    def infer(self, which: int) -> Marginals:
        return self._propagated(which)[0]

    def _propagated(self, which: int) -> tuple[Marginals, Any]:
        engine = self.gum.LazyPropagation(self.model)
        engine.setEvidence(self.evidence[which])
        return self._read(engine), engine

    def answer(self, which: int = 0) -> tuple[Marginals, float]:
        found, engine = self._propagated(which)
        return found, math.log(engine.evidenceProbability())


class Pgmpy(Contestant):
    """Variable elimination, one query for each variable: its belief propagation multiplies all of them together."""

    def prepare(self, threads: int | None) -> None:
        warnings.simplefilter("ignore")  # its own deprecations
        from pgmpy.inference import VariableElimination

        self.engine = VariableElimination
        self.model = to_pgmpy(self.network)

    def infer(self, which: int) -> Marginals:
        engine, evidence = self.engine(self.model), self.evidence[which]
        return {name: engine.query([name], evidence, show_progress=False).values for name in self.names}


def to_pyagrum(network: fb.Network) -> Any:
    """The network as a pyAgrum BayesNet, in double precision."""
    import pyagrum

    model = pyagrum.BayesNet()
    for name, domain in network.variables.items():
        model.add(pyagrum.LabelizedVariable(name, name, domain.size))
    for table in network.factors:
        for parent in table.names[:-1]:
            model.addArc(parent, table.names[-1])
    for table in network.factors:
        cells = model.cpt(table.names[-1])
        axes = [table.names.index(name) for name in reversed(cells.names)]  # its first name varies fastest
        cells[:] = np.ascontiguousarray(table.weights.transpose(axes))
    return model


def to_pgmpy(network: fb.Network) -> Any:
    """The network as a pgmpy DiscreteBayesianNetwork."""
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork

    model = DiscreteBayesianNetwork()
    model.add_nodes_from(network.variables)
    for table in network.factors:
        *parents, child = table.names
        model.add_edges_from((parent, child) for parent in parents)
        size, *sizes = (network.variables[name].size for name in (child, *parents))
        rows = np.moveaxis(table.weights, -1, 0).reshape(size, -1)
        model.add_cpds(TabularCPD(child, size, rows, parents or None, sizes or None))
    return model
