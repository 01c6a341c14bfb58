"""Soft evidence, joint queries, explanations, separation and learnt tables agree with those of pyAgrum."""

from __future__ import annotations

import itertools
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pyagrum as gum
import pytest

import fubini as fb

NETWORKS = ("asia", "child", "alarm")


def read_both(data: Path, name: str) -> tuple[fb.Network, gum.BayesNet]:
    """A network here and in pyAgrum, whose tables list the parents in the reverse of the order of its names."""
    net = fb.io.read_bif(data / "bayes_nets" / "discrete" / f"{name}.bif.gz")
    peer = gum.BayesNet()
    for variable, domain in net.variables.items():
        peer.add(gum.LabelizedVariable(variable, variable, list(domain.labels)))
    for child, factor in zip(net.children, net.factors, strict=True):
        for parent in net.structure[child]:
            peer.addArc(parent, child)
        peer.cpt(child)[:] = np.ascontiguousarray(found(factor, *reversed(peer.cpt(child).names)))
    return net, peer


def found(factor: fb.Factor, *names: str) -> np.ndarray:
    own = list(map(str, factor.inputs))
    return np.exp(factor.log().data).transpose([own.index(name) for name in names])


def by_name(table: gum.Tensor, *names: str) -> np.ndarray:
    """An array with the axes in this order: pyAgrum's arrays have the reverse of the order of its names."""
    own = list(reversed(table.names))
    return table.toarray().transpose([own.index(name) for name in names])


@pytest.mark.parametrize("name", NETWORKS)
def test_soft_evidence_and_joint_queries(data: Path, name: str) -> None:
    net, peer = read_both(data, name)
    random = np.random.default_rng(0)
    names = list(net.variables)
    soft = {
        n: random.uniform(0.1, 1.0, net.variables[n].extent).tolist() for n in random.choice(names, 3, replace=False)
    }
    rest = [n for n in names if n not in soft]
    hard = {rest[0]: str(net.sample(jax.random.key(0), 1)[rest[0]][0])}
    pair = (rest[3], rest[1])
    engine = gum.LazyPropagation(peer)
    engine.setEvidence({**soft, **hard})
    engine.addAllTargets()
    engine.addJointTarget(set(pair))
    engine.makeInference()
    given = net.condition({**soft, **hard})
    assert np.exp(float(given.log_evidence())) == pytest.approx(engine.evidenceProbability(), rel=1e-9)
    np.testing.assert_allclose(
        found(given.marginal(*pair), *pair), by_name(engine.jointPosterior(set(pair)), *pair), atol=1e-9
    )
    for variable, table in given.marginals().items():
        np.testing.assert_allclose(np.exp(table.log().data), engine.posterior(variable).toarray(), atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_most_probable_explanation(seed: int) -> None:
    """Of random networks: with the zeros of asia, child and alarm pyAgrum 3.3 raises "Empty tensor"."""
    gum.initRandom(seed + 1)
    peer = gum.randomBN(n=12, domain_size=3)
    domains = {peer.variable(k).name(): fb.Bint.labelled(*peer.variable(k).labels()) for k in peer.nodes()}
    tables = [
        fb.Table(peer.cpt(n).toarray(), {each: domains[each] for each in reversed(peer.cpt(n).names)}) for n in domains
    ]
    net = fb.Network(domains, tuple(tables), children=tuple(domains))
    names = list(domains)
    given = {n: np.linspace(0.1, 1.0, domains[n].extent).tolist() for n in (names[1], names[9])}
    given[names[5]] = domains[names[5]].label(1)
    engine = gum.LazyPropagation(peer)
    engine.setEvidence(given)
    engine.makeInference()
    found, log = engine.mpeLog2Posterior()
    (first, *others) = net.condition(given).most_probable(4)
    assert {v.name(): v.label(k) for v, k in _cells(found)} == {**first.values, names[5]: given[names[5]]}
    assert first.log_probability == pytest.approx(log * np.log(2), abs=1e-9)
    logs = [each.log_probability for each in (first, *others)]
    assert logs == sorted(logs, reverse=True) and len({tuple(each.values.values()) for each in (first, *others)}) == 4


def _cells(instantiation: gum.Instantiation) -> list:
    return [(instantiation.variable(k), instantiation.val(k)) for k in range(instantiation.nbrDim())]


@pytest.mark.parametrize("name", NETWORKS)
def test_separation(data: Path, name: str) -> None:
    net, peer = read_both(data, name)
    random, structure = np.random.default_rng(0), net.structure
    for a, b in itertools.islice(itertools.combinations(net.variables, 2), 0, None, 5):
        given = [n for n in random.choice(list(net.variables), 3, replace=False).tolist() if n not in (a, b)]
        assert structure.is_separated(a, b, given) is peer.isIndependent(a, b, given)


def test_learnt_tables_and_scores(data: Path) -> None:
    net, peer = read_both(data, "asia")
    frame = pd.DataFrame(net.sample(jax.random.key(0), 1000))
    learner = gum.BNLearner(frame, peer)
    learner.useSmoothingPrior(0.5)
    theirs = learner.learnParameters(peer.dag())
    ours = fb.Network.learn(frame, structure=net.structure, prior=0.5)
    for child, factor in zip(ours.children, ours.factors, strict=True):
        np.testing.assert_allclose(factor.weights, by_name(theirs.cpt(child), *map(str, factor.inputs)), atol=1e-12)
    for method, use in (("bic", "useScoreBIC"), ("log_likelihood", "useScoreLog2Likelihood")):
        learner = gum.BNLearner(frame, peer)
        learner.useNoPrior()
        getattr(learner, use)()
        total = sum(learner.score(child, list(above)) for child, above in net.structure.items()) * np.log(2)
        ours = fb.Network.learn(frame, structure=net.structure, prior=1e-9)  # theirs are of the most likely tables
        assert ours.score(frame, method) == pytest.approx(total, rel=1e-6)


def test_learning_from_gaps_is_no_worse(data: Path) -> None:
    """The objective at our tables is at least that at those of pyAgrum, of the same prior."""
    net, peer = read_both(data, "asia")
    frame = pd.DataFrame(net.sample(jax.random.key(0), 1000)).astype(object)
    frame = frame.mask(np.random.default_rng(0).random(frame.shape) < 0.2)
    learner = gum.BNLearner(frame.fillna("?"), peer, ["?"])
    learner.useSmoothingPrior(1.0)
    learner.useEMWithDiffCriterion(1e-6, 0.0)
    theirs = learner.learnParameters(peer.dag())
    ours = fb.Network.learn(frame, structure=net.structure, prior=1.0, tolerance=1e-9)
    tables = tuple(
        fb.Table(by_name(theirs.cpt(child), *map(str, factor.inputs)), dict(factor.inputs))
        for child, factor in zip(ours.children, ours.factors, strict=True)
    )
    other = fb.Network(ours.variables, tables, children=ours.children)
    penalty = sum(float(np.log(table.weights).sum()) for table in tables)
    assert ours.learnt.history[-1] >= other.score(frame, "log_likelihood") + penalty - 1e-6
