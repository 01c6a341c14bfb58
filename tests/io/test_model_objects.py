"""Objects of pgmpy and pyAgrum: every number in its cell, labels and parents in their order, and back."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pyagrum as gum
import pytest

import fubini as fb
from fubini.errors import DataError, DomainError, FubiniError, NameClash
from tests.models.test_bayes_nets import to_gum


def tables_of(net: fb.Network) -> dict:
    return {factor.names[-1]: (factor.names, np.asarray(factor.weights)) for factor in net.factors}


def assert_same(found: fb.Network, expected: fb.Network) -> None:
    assert found.variables == expected.variables and found.name == expected.name
    tables = tables_of(found)
    for child, (names, table) in tables_of(expected).items():
        assert tables[child][0] == names
        np.testing.assert_array_equal(tables[child][1], table)


# -- pyAgrum ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["asia", "child", "sachs"])
def test_there_and_back_through_pyagrum(data: Path, name: str) -> None:
    net = fb.io.read_network(data / "bayes_nets" / "discrete" / f"{name}.bif.gz")
    peer = fb.io.to_pyagrum(net)
    assert peer == to_gum(net)
    assert_same(fb.io.from_model(peer), net)


def test_marginals_of_pyagrum() -> None:
    peer = gum.fastBN("a[2]->c{x|y|z}<-b[3]->d{u|v}")
    net = fb.io.from_model(peer)
    assert net.variables["b"] == fb.Bint[3] and net.variables["c"].labels == ("x", "y", "z")
    engine = gum.VariableElimination(peer)
    engine.setEvidence({"d": "v"})
    for name, marginal in net.condition(d="v").marginals().items():
        np.testing.assert_allclose(marginal.weights, engine.posterior(name).toarray(), rtol=1e-12)


def test_an_undirected_network_of_pyagrum() -> None:
    peer = gum.MarkovRandomField.fromBN(gum.fastBN("a[2]->c{x|y|z}<-b[3]"))
    net = fb.io.from_model(peer)
    assert not net.directed
    engine = gum.ShaferShenoyMRFInference(peer)
    for name, marginal in net.marginals().items():
        np.testing.assert_allclose(marginal.weights, engine.posterior(name).toarray(), rtol=1e-12)
    with pytest.raises(FubiniError, match="undirected network"):
        fb.io.to_pyagrum(net)


def test_tables_of_pyagrum_that_are_not_filled_are_refused() -> None:
    peer = gum.BayesNet()
    peer.add(gum.LabelizedVariable("rain", "", ["no", "yes"]))
    with pytest.raises(DataError, match=r"the table of 'rain' of the BayesNet(.|\n)*fill all tables"):
        fb.io.from_model(peer)


@pytest.mark.parametrize("ending", ["bif", "net", "bifxml"])
def test_pyagrum_reads_our_files(ending: str, tmp_path: Path) -> None:
    """With equal marginals. It reads tables of several parents in XDSL in an order that is not that of GeNIe."""
    a, b, c = (fb.Bint.labelled(*(f"{name}{k}" for k in range(size))) for name, size in (("a", 2), ("b", 3), ("c", 2)))
    rng = np.random.default_rng(0)
    tables = [fb.Table(rng.dirichlet(np.ones(d.extent)), {n: d}) for n, d in (("a", a), ("b", b))]
    table = fb.Table(rng.dirichlet(np.ones(2), size=(2, 3)), {"a": a, "b": b, "c": c})
    net = fb.Network({"a": a, "b": b, "c": c}, (*tables, table), children=("a", "b", "c"), name="n")
    fb.io.write_network(net, tmp_path / f"n.{ending}")
    engine = gum.LazyPropagation(gum.loadBN(str(tmp_path / f"n.{ending}")))
    engine.makeInference()
    for name, marginal in net.marginals().items():
        np.testing.assert_allclose(engine.posterior(name).toarray(), marginal.weights, atol=1e-7)


def test_files_of_pyagrum(tmp_path: Path) -> None:
    """Each format of conditional tables that it writes, with as many digits as it writes.

    Its UAI files list the first parent fastest, against the format, and nothing in them says so.
    """
    peer = gum.fastBN("a{no|yes}->c{x|y|z}<-b{u|v|w}->d{s|t}")
    for name, rows in (("a", [0.25, 0.75]), ("b", [0.5, 0.3, 0.2]), ("d", [0.1, 0.9, 0.2, 0.8, 0.3, 0.7])):
        peer.cpt(name).fillWith(rows)
    peer.cpt("c").fillWith(np.random.default_rng(0).multinomial(100, [0.2, 0.3, 0.5], 6).ravel() / 100)
    net = fb.io.from_model(peer)
    for suffix in (".bif", ".bifxml", ".net", ".xdsl"):
        path = str(tmp_path / f"net{suffix}")
        gum.saveBN(peer, path)
        found = fb.io.read_network(path) if suffix != ".xdsl" else read_with_warning(path)
        for name, marginal in net.marginals().items():
            np.testing.assert_allclose(found.marginal(name).weights, marginal.weights, atol=1e-5, err_msg=suffix)


def read_with_warning(path: str) -> fb.Network:
    with pytest.warns(fb.errors.FileFormatWarning):
        return fb.io.read_network(path)


# -- pgmpy, or what looks like it -------------------------------------------------------------------------------------


class TabularCPD:
    """As much of pgmpy's as is asked of it."""

    def __init__(self, variable, variable_card, values, evidence=None, evidence_card=None, state_names=None):
        self.variable, self.variables = variable, [variable, *(evidence or [])]
        self.values = np.asarray(values, float).reshape(variable_card, *(evidence_card or []))
        self.state_names = state_names


class DiscreteBayesianNetwork:
    def __init__(self) -> None:
        self.name, self.cpds, self.all, self.edges = "", {}, [], []

    def nodes(self):
        return self.all

    def add_nodes_from(self, nodes):
        self.all += nodes

    def add_edges_from(self, edges):
        self.edges += edges

    def add_cpds(self, *cpds):
        self.cpds |= {cpd.variable: cpd for cpd in cpds}

    def get_cpds(self, node):
        return self.cpds.get(node)


class DiscreteMarkovNetwork(DiscreteBayesianNetwork):
    factors = ()

    def get_factors(self):
        return self.factors


@pytest.fixture
def pgmpy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kinds in (("pgmpy.models", [DiscreteBayesianNetwork]), ("pgmpy.factors.discrete", [TabularCPD])):
        module = ModuleType(name)
        for kind in kinds:
            setattr(module, kind.__name__, kind)
        monkeypatch.setitem(sys.modules, name, module)
    for kind in (DiscreteBayesianNetwork, DiscreteMarkovNetwork):
        monkeypatch.setattr(kind, "__module__", "pgmpy.models.some")


def garden() -> DiscreteBayesianNetwork:
    model = DiscreteBayesianNetwork()
    model.add_nodes_from(["rain", "sprinkler", "grass"])
    states = {"rain": ["no", "yes"], "sprinkler": [0, 1], "grass": ["dry", "damp", "wet"]}
    model.add_cpds(
        TabularCPD("rain", 2, [[0.8], [0.2]], state_names=states),
        TabularCPD("sprinkler", 2, [[0.6, 0.99], [0.4, 0.01]], ["rain"], [2], {**states, "rain": ["no", "yes"]}),
        TabularCPD(
            "grass",
            3,
            [[0.1, 0.9, 0.0, 0.2], [0.3, 0.1, 0.1, 0.3], [0.6, 0.0, 0.9, 0.5]],
            ["sprinkler", "rain"],
            [2, 2],
            {**states, "rain": ["yes", "no"]},  # in another order than its own table has
        ),
    )
    return model


def test_there_and_back_through_pgmpy(pgmpy: None, data: Path) -> None:
    for name in ("asia", "child", "sachs"):
        net = fb.io.read_network(data / "bayes_nets" / "discrete" / f"{name}.bif.gz")
        model = fb.io.to_pgmpy(net)
        assert set(model.edges) == {(p, c) for c, (names, _) in tables_of(net).items() for p in names[:-1]}
        assert_same(fb.io.from_model(model), net)


def test_states_in_another_order(pgmpy: None) -> None:
    net = fb.io.from_model(garden())
    assert net.variables["sprinkler"] == fb.Bint[2] and net.variables["rain"].labels == ("no", "yes")
    names, table = tables_of(net)["grass"]
    assert names == ("sprinkler", "rain", "grass")
    assert table.tolist() == [[[0.9, 0.1, 0.0], [0.1, 0.3, 0.6]], [[0.2, 0.3, 0.5], [0.0, 0.1, 0.9]]]
    np.testing.assert_array_equal(tables_of(fb.io.from_model(fb.io.to_pgmpy(net)))["grass"][1], table)


def test_an_undirected_network_of_pgmpy(pgmpy: None) -> None:
    model = DiscreteMarkovNetwork()
    model.add_nodes_from(["a", "b"])
    factor = TabularCPD("a", 2, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], ["b"], [3], {"a": ["n", "y"], "b": [0, 1, 2]})
    model.factors = (factor,)
    net = fb.io.from_model(model)
    assert not net.directed and net.variables["b"] == fb.Bint[3]
    np.testing.assert_allclose(net.marginal("a").weights, [6 / 21, 15 / 21])


def test_faults_of_pgmpy_are_named(pgmpy: None) -> None:
    model = garden()
    del model.cpds["rain"]
    with pytest.raises(DataError, match=r"the node 'rain' without a table(.|\n)*add_cpds"):
        fb.io.from_model(model)
    model = garden()
    model.cpds["grass"].state_names["rain"] = ["yes", "nein"]
    with pytest.raises(DataError, match=r"the states 'yes', 'nein' of 'rain' in a table of 'grass'"):
        fb.io.from_model(model)
    model = garden()
    model.cpds["rain"].values = np.array([0.8, 0.3])
    with pytest.raises(DataError, match=r"the table of 'rain' of the DiscreteBayesianNetwork"):
        fb.io.from_model(model)
    model.add_nodes_from([1, "1"])
    with pytest.raises(NameClash, match="differ as words"):
        fb.io.from_model(model)


@pytest.mark.skipif(importlib.util.find_spec("pgmpy") is not None, reason="pgmpy is there")
def test_a_library_that_is_missing_is_named(data: Path) -> None:
    net = fb.io.read_network(data / "bayes_nets" / "discrete" / "asia.bif.gz")
    with pytest.raises(FubiniError, match=r"the package pgmpy(.|\n)*pip install pgmpy"):
        fb.io.to_pgmpy(net)


def test_other_objects_are_refused() -> None:
    with pytest.raises(DomainError, match=r"a network from builtins\.dict(.|\n)*'pyagrum\.BayesNet'"):
        fb.io.from_model({})
    with pytest.raises(DomainError, match=r"InfluenceDiagram(.|\n)*read_network"):
        fb.io.from_model(gum.InfluenceDiagram())


def test_networks_of_other_factors_do_not_become_objects(data: Path) -> None:
    net = fb.io.read_network(data / "bayes_nets" / "gaussian" / "ecoli70.json")
    with pytest.raises(DataError, match="tables alone"):
        fb.io.to_pyagrum(net)
