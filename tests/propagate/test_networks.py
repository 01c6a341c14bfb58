"""Message passing on the networks of `bayes_nets`, against `fb.marginals`; and no file of it names a representation."""

import re
from pathlib import Path

import numpy as np
import pytest

import fubini as fb

SMALL = ("alarm", "asia", "cancer", "child", "earthquake", "hailfinder", "insurance", "sachs", "survey", "win95pts")
LARGE = ("andes", "barley", "diabetes", "hepar2", "link", "mildew", "munin", "munin1", "munin2", "munin3", "munin4",
         "pathfinder", "pigs", "water")  # fmt: skip
TREES = ("cancer", "earthquake")


def check_junction_trees(factors, methods=("hugin", "shafer-shenoy")):
    names = list(dict.fromkeys(name for factor in factors for name in factor.inputs))
    known = fb.marginals(factors, names)
    log_evidence = float(fb.eliminate(factors, names).log())
    for method in methods:
        result = fb.propagate(factors, method=method)
        assert abs(float(result.log_evidence) - log_evidence) < 1e-9
        for name, belief in known.items():
            if belief.inputs[name].is_finite:
                assert np.abs(result.marginals[name].weights - belief.weights).max() < 1e-9
            else:
                assert np.isclose(float(result.marginals[name].mean(name)), float(belief.mean(name)), rtol=1e-9)
                assert np.isclose(float(result.marginals[name].variance(name)), float(belief.variance(name)), rtol=1e-8)


def discrete(data, name):
    """The factors of a network, its last variable observed: a leaf."""
    network = fb.io.read_bif(data / "bayes_nets" / "discrete" / f"{name}.bif.gz")
    leaf = list(network.variables)[-1]
    return [factor({leaf: 0}) if leaf in factor.inputs else factor for factor in network.factors]


@pytest.mark.parametrize("name", SMALL)
def test_small_networks(data, name):
    check_junction_trees(discrete(data, name))


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_large_networks(data, name):
    check_junction_trees(discrete(data, name))


@pytest.mark.parametrize("name", TREES)
def test_belief_propagation_on_trees(data, name):
    factors = discrete(data, name)
    assert fb.propagate(factors, method="belief propagation").exactness.is_exact
    check_junction_trees(factors, ("belief propagation",))


@pytest.mark.parametrize(
    "name", ["gaussian/ecoli70.json", "gaussian/magic-niab.json", "clg/sangiovese.json", "clg/healthcare.json"]
)
def test_networks_with_real_variables(data, name):
    check_junction_trees(list(fb.io.read_json(data / "bayes_nets" / name).factors))


def test_no_file_names_a_representation():
    folder = Path(__file__).parents[2] / "src" / "fubini" / "propagate"
    kinds = re.compile(r"\b(Table|Gaussian|Delta|Mixture|Truncated|Particles|Grid|Circuit|Diagram|Sparse|Train)\b")
    for path in folder.glob("*.py"):
        code = re.sub(r'""".*?"""|#[^\n]*', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not kinds.search(code), f"{path.name} names {kinds.search(code)}"
        assert not re.search(r"factors\.(table|gaussian|delta|mixture)", code), path.name
