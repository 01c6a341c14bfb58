"""Networks of the bnlearn repository: all marginals and the evidence agree with pyAgrum's."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyagrum as gum
import pytest

import fubini as fb

NETWORKS = (
    *("alarm", "andes", "asia", "cancer", "child", "earthquake", "hailfinder", "insurance", "mildew", "pigs"),
    *("sachs", "survey", "water", "win95pts"),
)
SHARE = 0.05  # of the nodes are observed


def to_gum(net: fb.Network) -> gum.BayesNet:
    """The same network in pyAgrum, whose tables list the parents in the reverse of the order of its names."""
    peer = gum.BayesNet()
    for name, domain in net.variables.items():
        peer.add(gum.LabelizedVariable(name, name, list(domain.labels)))
    for factor in net.factors:
        *parents, child = factor.names
        for parent in parents:
            peer.addArc(parent, child)
        table = peer.cpt(child)
        table[:] = np.ascontiguousarray(factor.transposed(list(reversed(table.names))).weights)
    return peer


def ancestral_sample(net: fb.Network, generator: np.random.Generator) -> dict[str, int]:
    """One draw of every variable, parents before children."""
    values: dict[str, int] = {}
    waiting = list(net.factors)
    while waiting:
        factor = waiting.pop(0)
        *parents, child = factor.names
        if all(parent in values for parent in parents):
            row = np.asarray(factor.weights)[tuple(values[parent] for parent in parents)]
            values[child] = int(generator.choice(row.size, p=row / row.sum()))
        else:
            waiting.append(factor)
    return values


def observed(net: fb.Network) -> dict[str, str]:
    """Labels of a few variables, drawn from the network itself."""
    generator = np.random.default_rng(0)
    values = ancestral_sample(net, generator)
    count = max(1, round(SHARE * len(values)))
    names = generator.choice(list(net.variables), count, replace=False)
    return {str(name): net.variables[name].labels[values[name]] for name in names}


def answers_of_gum(net: fb.Network, evidence: Mapping[str, str]) -> tuple[dict[str, np.ndarray], float]:
    """The posterior of every hidden variable, and the probability of the evidence."""
    peer = to_gum(net)
    engine = gum.LazyPropagation(peer)
    engine.setEvidence(dict(evidence))
    engine.makeInference()
    hidden = [name for name in net.variables if name not in evidence]
    return {name: engine.posterior(name).toarray() for name in hidden}, engine.evidenceProbability()


@pytest.mark.parametrize("name", NETWORKS)
def test_agrees_with_pyagrum(data: Path, name: str) -> None:
    net = fb.io.read_bif(data / "bayes_nets" / "discrete" / f"{name}.bif.gz")
    evidence = observed(net)
    beliefs, probability = answers_of_gum(net, evidence)
    conditioned = net.condition(evidence)
    found = conditioned.marginals()
    assert list(found) == list(beliefs)
    for variable, belief in beliefs.items():
        marginal = found[variable]
        assert isinstance(marginal, fb.Table) and marginal.inputs == {variable: net.variables[variable]}
        assert str(marginal.exactness) == "exact"
        np.testing.assert_allclose(np.exp(marginal.log().data), belief, rtol=0, atol=1e-9)
    assert float(conditioned.log_evidence()) == pytest.approx(np.log(probability), rel=0, abs=1e-9)


def test_one_marginal_is_that_of_all(data: Path) -> None:
    """A single marginal, which takes no backward pass, is the one that all of them together give."""
    net = fb.io.read_bif(data / "bayes_nets" / "discrete" / "alarm.bif.gz").condition(HR="HIGH")
    everything = net.marginals()
    for name in ("LVFAILURE", "CATECHOL", "TPR"):
        (found,) = net.marginals(name).values()
        np.testing.assert_allclose(np.exp(found.log().data), np.exp(everything[name].log().data), rtol=0, atol=1e-12)
