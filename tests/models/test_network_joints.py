"""Networks read from files as joints: densities, draws, evidence, against the network's own answers."""

from importlib import resources
from pathlib import Path

import jax
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DomainError

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def commute() -> fb.Network:
    with resources.as_file(resources.files("fubini.io") / "commute.bif") as path:
        return fb.io.read_bif(path)


def log_factors(net: fb.Network, assignment: dict[str, int]) -> float:
    return sum(float(factor(**{name: assignment[name] for name in factor.inputs}).log()) for factor in net.factors)


def check_density(net: fb.Network, count: int) -> None:
    """log p of each draw is the sum of the logs of the factors there."""
    joint = net.joint()
    draws = joint.sample(KEY, (count,))
    assert set(draws) == set(net.variables) == set(joint.names)
    found = joint.log_prob(draws)
    assert found.shape == (count,)
    for place in range(count):
        assignment = {name: int(values[place]) for name, values in draws.items()}
        assert float(found[place]) == pytest.approx(log_factors(net, assignment), abs=1e-6)


def test_the_density_is_the_product_of_the_factors(commute: fb.Network) -> None:
    check_density(commute, 3)


def test_parents_come_first(commute: fb.Network) -> None:
    """Sites depend on what their factors are over."""
    joint = commute.joint()
    graph = joint.graph()
    assert set(graph["arrival"]) == {"choice", "traffic", "train"} and set(graph["weather"]) == {"season"}
    for name, parents in graph.items():
        assert all(joint.names.index(parent) < joint.names.index(name) for parent in parents)


def test_draws_have_the_marginals_of_the_network(commute: fb.Network) -> None:
    draws = commute.joint().sample(KEY, (4000,))
    for name, table in commute.marginals("arrival", "coffee").items():
        share = np.bincount(draws[name], minlength=commute.variables[name].extent) / 4000
        np.testing.assert_allclose(share, np.exp(table.log().data), atol=0.04)


def test_evidence(commute: fb.Network) -> None:
    """Observed in the network or in the joint: the same evidence, the same posterior."""
    given = commute.condition(arrival="late")
    post = given.joint()
    assert "arrival" not in post.names
    for conditioned in (post, commute.joint().condition(arrival=2)):
        assert float(conditioned.log_evidence()) == pytest.approx(float(given.log_evidence()), abs=1e-10)
    others = tuple(name for name in post.names if name != "strike")
    found = post.posterior().sum(*others)
    np.testing.assert_allclose(np.exp(found.log().data), np.exp(given.marginals()["strike"].log().data), atol=1e-10)
    assignment = dict.fromkeys(post.names, 0)
    assert float(post.log_prob(assignment)) == pytest.approx(
        log_factors(commute, {**assignment, "arrival": 2}), abs=1e-6
    )


def test_impossible_values_have_density_zero(commute: fb.Network) -> None:
    """Snow in summer."""
    assignment = dict.fromkeys(commute.variables, 0)
    assert float(commute.joint().log_prob({**assignment, "weather": 2})) == -np.inf


def test_undirected_networks_are_no_joints() -> None:
    net = fb.Network({"a": fb.Bint[2]}, (fb.Table([1.0, 2.0], ("a",)),), directed=False)
    with pytest.raises(DomainError, match="a directed network"):
        net.joint()


def test_asia(data: Path) -> None:
    check_density(fb.io.read_bif(data / "bayes_nets" / "discrete" / "asia.bif.gz"), 4)
