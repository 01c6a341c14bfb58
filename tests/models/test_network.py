"""Networks: conditioning, questions as labels, files; against an enumeration of a network of three variables."""

import itertools

import jax
import numpy as np
import pytest

import fubini as fb
from fubini.errors import DataError, DomainError, UnknownName

RAIN, SPRINKLER = fb.Bint.labelled("dry", "wet"), fb.Bint.labelled("off", "on")
GRASS = fb.Bint.labelled("brown", "green", "lush")
VARIABLES = {"rain": RAIN, "sprinkler": SPRINKLER, "grass": GRASS}

P_RAIN = np.array([0.75, 0.25])
P_SPRINKLER = np.array([[0.5, 0.5], [1.0, 0.0]])  # given rain: never while it rains
P_GRASS = np.array([[[0.9, 0.1, 0.0], [0.2, 0.5, 0.3]], [[0.1, 0.3, 0.6], [0.05, 0.05, 0.9]]])
JOINT = P_RAIN[:, None, None] * P_SPRINKLER[:, :, None] * P_GRASS
KEY = jax.random.key(0)


@pytest.fixture
def net() -> fb.Network:
    factors = (
        fb.Table(P_RAIN, {"rain": RAIN}),
        fb.Table(P_SPRINKLER, {"rain": RAIN, "sprinkler": SPRINKLER}),
        fb.Table(P_GRASS, VARIABLES),
    )
    return fb.Network(VARIABLES, factors, name="lawn")


def numbers(table: fb.Factor) -> np.ndarray:
    return np.exp(table.log().data)


def test_marginals(net: fb.Network) -> None:
    """Of all variables, in their order, each over its own labelled domain."""
    found = net.marginals()
    assert list(found) == list(VARIABLES)
    for axis, (name, domain) in enumerate(VARIABLES.items()):
        others = tuple(other for other in range(3) if other != axis)
        assert isinstance(found[name], fb.Table) and found[name].inputs == {name: domain}
        assert str(found[name].exactness) == "exact"
        np.testing.assert_allclose(numbers(found[name]), JOINT.sum(others), atol=1e-15)
    assert float(net.log_evidence()) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("value", ["lush", 2, np.int64(2), np.str_("lush")])
def test_condition(net: fb.Network, value: object) -> None:
    """By label or by position, by keyword or in a mapping."""
    for given in (net.condition(grass=value), net.condition({"grass": value})):
        assert given.evidence == {"grass": 2} and given.hidden == ("rain", "sprinkler")
        found, belief = given.marginals(), JOINT[:, :, 2] / JOINT[:, :, 2].sum()
        assert list(found) == ["rain", "sprinkler"]
        np.testing.assert_allclose(numbers(found["rain"]), belief.sum(1))
        np.testing.assert_allclose(numbers(found["sprinkler"]), belief.sum(0))
        assert isinstance(given.log_evidence(), fb.Value)
        assert float(given.log_evidence()) == pytest.approx(np.log(JOINT[:, :, 2].sum()))
    assert net.evidence == {}


def test_condition_on_everything(net: fb.Network) -> None:
    given = net.condition(rain="dry", sprinkler="on").condition(grass="green")
    assert given.hidden == () and given.marginals() == {} and given.map() == {} and given.sample(KEY, 3) == {}
    assert float(given.log_evidence()) == pytest.approx(np.log(JOINT[0, 1, 1]))


def test_condition_on_what_is_observed_already(net: fb.Network) -> None:
    assert net.condition(grass="lush").condition(grass=2).evidence == {"grass": 2}


def test_unknown_variable(net: fb.Network) -> None:
    for ask in (
        lambda: net.condition(gras="lush"),
        lambda: net.marginals("gras"),
        lambda: net.marginals("rain", "gras"),
    ):
        with pytest.raises(UnknownName, match=r"(?s)'gras'.*variables.*nearest: +'grass'"):
            ask()


def test_unknown_label(net: fb.Network) -> None:
    """The variable, the label, the labels there are, and the near miss."""
    with pytest.raises(DataError, match=r"(?s)'lusch'.*'brown', 'green', 'lush'.*nearest: +'lush'") as caught:
        net.condition(grass="lusch")
    assert "grass" in str(caught.value)


@pytest.mark.parametrize("position", [3, -1, np.int64(3)])
def test_position_out_of_range(net: fb.Network, position: int) -> None:
    with pytest.raises(DataError, match=rf"(?s)grass={position}.*0 to 2"):
        net.condition(grass=position)


@pytest.mark.parametrize("value", [1.0, True, None, np.float64(2.0), [1]])
def test_evidence_of_another_kind(net: fb.Network, value: object) -> None:
    with pytest.raises(DomainError, match=r"(?s)grass=.*a label or an integer"):
        net.condition(grass=value)


def test_contradictory_evidence(net: fb.Network) -> None:
    """Neither a later observation nor a keyword beside a mapping replaces what was observed."""
    for ask in (
        lambda: net.condition(grass="lush").condition(grass="green"),
        lambda: net.condition({"grass": "lush"}, grass="green"),
    ):
        with pytest.raises(DataError, match=r"(?s)grass='green'.*'lush'"):
            ask()


def test_marginal_of_an_observed_variable(net: fb.Network) -> None:
    with pytest.raises(DataError, match=r"(?s)'grass'.*not observed.*'lush'"):
        net.condition(grass="lush").marginals("rain", "grass")


def test_impossible_evidence(net: fb.Network) -> None:
    """Its logarithm is −inf; whatever is conditional on it is an error that says so."""
    given = net.condition(rain="wet", sprinkler="on")
    assert float(given.log_evidence()) == -np.inf
    for ask in (given.marginals, lambda: given.marginals("grass"), given.map, lambda: given.sample(KEY, 5)):
        with pytest.raises(DataError, match="impossible"):
            ask()


def test_map(net: fb.Network) -> None:
    for evidence in ({}, {"grass": 2}, {"rain": 0}, {"sprinkler": 1, "grass": 1}):
        best = max(
            (cell for cell in itertools.product(range(2), range(2), range(3)) if agrees(cell, evidence)),
            key=lambda cell: JOINT[cell],
        )
        labels = dict(zip(VARIABLES, (d.labels[i] for d, i in zip(VARIABLES.values(), best, strict=True)), strict=True))
        expected = {name: label for name, label in labels.items() if name not in evidence}
        found = net.condition(evidence).map()
        assert found == expected and all(type(label) is str for label in found.values())


def agrees(cell: tuple[int, ...], evidence: dict[str, int]) -> bool:
    return all(cell[list(VARIABLES).index(name)] == value for name, value in evidence.items())


def test_sample(net: fb.Network) -> None:
    """Labels with the frequencies of the posterior, within five standard deviations."""
    draws, count = net.condition(grass="green").sample(KEY, 4000), 4000
    assert list(draws) == ["rain", "sprinkler"]
    assert all(values.shape == (count,) and values.dtype.kind == "U" for values in draws.values())
    belief = JOINT[:, :, 1] / JOINT[:, :, 1].sum()
    for (i, rain), (j, sprinkler) in itertools.product(enumerate(RAIN.labels), enumerate(SPRINKLER.labels)):
        frequency = np.mean((draws["rain"] == rain) & (draws["sprinkler"] == sprinkler))
        assert abs(frequency - belief[i, j]) <= 5 * np.sqrt(belief[i, j] * (1 - belief[i, j]) / count)


def test_one_sample(net: fb.Network) -> None:
    drawn = net.sample(KEY)
    assert list(drawn) == list(VARIABLES)
    assert all(str(drawn[name]) in domain.labels and drawn[name].shape == () for name, domain in VARIABLES.items())


def test_sample_with_a_bad_key(net: fb.Network) -> None:
    with pytest.raises(fb.FubiniError, match=r"jax\.random\.key"):
        net.sample(0)


def test_variable_that_no_factor_has() -> None:
    """Of an undirected network it is uniform and multiplies the partition function by its size."""
    free = fb.Network({"a": fb.Bint[3], "b": fb.Bint[2]}, (fb.Table([1.0, 3.0], ("b",)),), directed=False)
    assert float(free.log_evidence()) == pytest.approx(np.log(3 * 4.0))
    np.testing.assert_allclose(numbers(free.marginals()["a"]), [1 / 3] * 3)
    assert float(free.condition(a=1).log_evidence()) == pytest.approx(np.log(4.0))


def test_factors_over_other_variables() -> None:
    """A network is typed when it is made."""
    with pytest.raises(UnknownName, match="'b'"):
        fb.Network({"a": fb.Bint[2]}, (fb.Table([1.0, 3.0], ("b",)),))
    with pytest.raises(DomainError, match="'a'"):
        fb.Network({"a": fb.Bint[3]}, (fb.Table([1.0, 3.0], ("a",)),))


def test_printed(net: fb.Network) -> None:
    head, *lines = repr(net.condition(grass="lush")).splitlines()
    assert head == "Network(lawn: 3 variables, observed 'grass')"
    assert lines[-1] == "  grass: brown, green, lush, observed lush"
