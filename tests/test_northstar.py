"""The north-star programs 1 and 3 and the network line of program 10, as written, with the values they promise."""

import gzip
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import opt_einsum
import pytest

import fubini as fb

F = np.array([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]])
G = np.array([[0.5, 0.7], [0.1, 0.2]])
H = F @ G


def program_1(f: fb.Table, g: fb.Table, tolerance: float) -> None:
    """Each line of the program beside what its comment says."""
    h = (f * g).sum("b")
    assert float(h(a=0, c=0)) == pytest.approx(0.33, abs=tolerance)
    assert h.inputs == {"a": fb.Bint[3], "c": fb.Bint[2]}
    assert repr(h.inputs) == "{'a': Bint[3], 'c': Bint[2]}"
    np.testing.assert_allclose(numbers((f / f.sum("a")).sum("a")), [1.0, 1.0], atol=tolerance)
    assert h.normalize().argmax("a", "c") == {"a": 0, "c": 1}
    assert f(b="d").inputs == {"a": fb.Bint[3], "d": fb.Bint[2]}
    gathered = f(a=fb.Array(np.array([2, 0, 0, 1]), ("j",)))
    assert gathered.inputs == {"j": fb.Bint[4], "b": fb.Bint[2]}
    np.testing.assert_allclose(numbers(gathered), F[[2, 0, 0, 1]], atol=tolerance)
    assert str(h.exactness) == "exact"
    assert float(h.entropy("a", "c")) == pytest.approx(1.567466, abs=5e-7 + tolerance)
    assert float((f * g).mutual_information("a", "c")) == pytest.approx(0.000189, abs=5e-7 + tolerance)


def numbers(table: fb.Factor) -> np.ndarray:
    assert isinstance(table, fb.Table)
    return np.exp(table.log().data)


def test_factors() -> None:
    """Program 1 as written: lists of floats, which compute in double precision."""
    f = fb.Table([[0.5, 0.8], [0.1, 0.0], [0.3, 0.9]], ("a", "b"))
    g = fb.Table([[0.5, 0.7], [0.1, 0.2]], ("b", "c"))
    program_1(f, g, 1e-12)
    assert isinstance((f * g).sum("b"), fb.Table)
    assert isinstance((f * g).sum("b").log().data, np.ndarray)


def test_factors_of_jax_arrays() -> None:
    """Program 1 on JAX arrays, which stay JAX's in JAX's precision."""
    f, g = fb.Table(jnp.asarray(F), ("a", "b")), fb.Table(jnp.asarray(G), ("b", "c"))
    program_1(f, g, 1e-6)
    assert isinstance((f * g).sum("b").log().data, jax.Array)


def test_conditional_over_an_impossible_value() -> None:
    """0/0 is 0: where b has no mass the conditional sums to 0, for every other b to 1."""
    f = fb.Table([[0.5, 0.0], [0.1, 0.0], [0.3, 0.0]], ("a", "b"))
    assert numbers((f / f.sum("a")).sum("a")).tolist() == pytest.approx([1.0, 0.0])


def test_label_is_no_new_name() -> None:
    f = fb.Table([0.5, 0.8], {"b": fb.Bint.labelled("d", "e")})
    with pytest.raises(fb.FubiniError, match="'d' is a label of 'b'"):
        f(b="d")


def test_kl_likewise() -> None:
    p, q = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.25, 0.25])
    found = fb.Table(3 * p, ("x",)).kl(fb.Table(7 * q, ("x",)), "x")
    assert isinstance(found, fb.Value)
    assert float(found) == pytest.approx(np.sum(p * np.log(p / q)))


@pytest.fixture
def f() -> fb.Table:
    return fb.Table(F, ("a", "b"))


@pytest.fixture
def g() -> fb.Table:
    return fb.Table(G, ("b", "c"))


def test_eliminate(f: fb.Table, g: fb.Table) -> None:
    found = fb.eliminate([f, g], sum=("a", "b", "c"))
    assert isinstance(found, fb.Table) and found.inputs == {} and str(found.exactness) == "exact"
    assert float(found) == pytest.approx(H.sum(), rel=1e-14)


def test_eliminate_plates() -> None:
    """Π_doc Σ_z inside Σ_w, against the unrolled product over every assignment."""
    generator = np.random.default_rng(0)
    w, z, word = generator.uniform(size=4), generator.uniform(size=(3, 2, 4)), generator.uniform(size=(3, 5, 2))
    factors = [fb.Table(w, ("w",)), fb.Table(z, ("doc", "z", "w")), fb.Table(word, ("doc", "word", "z"))]
    found = fb.eliminate(factors, sum={"w": (), "z": ("doc",)}, plates=("doc", "word"))
    total = 0.0
    for value, *states in itertools.product(range(4), range(2), range(2), range(2)):
        cells = [z[doc, state, value] * word[doc, :, state].prod() for doc, state in enumerate(states)]
        total += w[value] * np.prod(cells)
    assert found.inputs == {}
    assert float(found) == pytest.approx(total, rel=1e-12)


def test_eliminate_in_the_max_product_semiring(f: fb.Table, g: fb.Table) -> None:
    factors = [f, g]
    found = fb.eliminate(factors, sum=("a", "b"), semiring=fb.max_product)
    assert isinstance(found, fb.Table) and found.inputs == {"c": fb.Bint[2]}
    np.testing.assert_allclose(numbers(found), (F[:, :, None] * G).max((0, 1)))


def test_marginals(f: fb.Table, g: fb.Table) -> None:
    factors, joint = [f, g], F[:, :, None] * G / H.sum()
    found = fb.marginals(factors, ("a", "b"))
    assert list(found) == ["a", "b"]
    assert found["a"].inputs == {"a": fb.Bint[3]} and found["b"].inputs == {"b": fb.Bint[2]}
    np.testing.assert_allclose(numbers(found["a"]), joint.sum((1, 2)))
    np.testing.assert_allclose(numbers(found["b"]), joint.sum((0, 2)))
    assert {str(marginal.exactness) for marginal in found.values()} == {"exact"}


def test_argmax(f: fb.Table, g: fb.Table) -> None:
    """For each c, which is not named, the assignment of a and b."""
    factors, joint = [f, g], F[:, :, None] * G
    found = fb.argmax(factors, ("a", "b"))
    for c in range(2):
        assert (found["a"][c], found["b"][c]) == np.unravel_index(joint[..., c].argmax(), (3, 2))


def test_sample(f: fb.Table, g: fb.Table) -> None:
    """A draw of a and b for each c: frequencies within five standard deviations."""
    factors, key, joint = [f, g], jax.random.key(0), F[:, :, None] * G
    found = fb.sample(key, factors, ("a", "b"), n=1000)
    assert found["a"].shape == found["b"].shape == (1000, 2)
    for c, a, b in itertools.product(range(2), range(3), range(2)):
        probability = joint[a, b, c] / joint[..., c].sum()
        frequency = np.mean((found["a"][:, c] == a) & (found["b"][:, c] == b))
        assert abs(frequency - probability) <= 5 * np.sqrt(probability * (1 - probability) / 1000)


def test_lazy(f: fb.Table, g: fb.Table) -> None:
    """Recorded, not computed; then planned, evaluated, explained."""
    with fb.lazy:
        e = (f * g).sum("b")
    assert isinstance(e, fb.Factor) and not isinstance(e, fb.Table)
    assert e.inputs == {"a": fb.Bint[3], "c": fb.Bint[2]}
    planned = fb.optimize(e)
    assert isinstance(planned, fb.Factor) and not isinstance(planned, fb.Table) and planned.inputs == e.inputs
    for term in (e, planned):
        np.testing.assert_allclose(numbers(fb.evaluate(term)), H)


def test_explain(f: fb.Table, g: fb.Table) -> None:
    """The order, the rule, the cost and the exactness of the plan."""
    with fb.lazy:
        e = (f * g).sum("b")
    shown = str(fb.explain(e))
    step = next(line for line in shown.splitlines() if line.startswith("1."))
    assert "Σ_b" in step and "contract_two_tables" in step and " 12 " in step and step.rstrip().endswith("exact")


def test_network(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Program 10: labels in `condition`; every marginal agrees with a contraction of all the tables."""
    packed = data / "bayes_nets" / "discrete" / "alarm.bif.gz"
    (tmp_path / "alarm.bif").write_bytes(gzip.decompress(packed.read_bytes()))
    monkeypatch.chdir(tmp_path)
    net = fb.io.read_bif("alarm.bif")
    found = net.condition(HR="HIGH").marginals()
    assert list(found) == [name for name in net.variables if name != "HR"]
    at = np.arange(3) == net.variables["HR"].index("HIGH")
    operands = [part for factor in net.factors for part in (np.asarray(factor.weights), factor.names)]
    for name, marginal in found.items():
        belief = opt_einsum.contract(*operands, at.astype(float), ("HR",), (name,), optimize="greedy")
        assert isinstance(marginal, fb.Table) and marginal.inputs == {name: net.variables[name]}
        np.testing.assert_allclose(numbers(marginal), belief / belief.sum(), atol=1e-12)


def test_network_from_uai(tmp_path: Path) -> None:
    """UAI files likewise, with positions for labels."""
    (tmp_path / "pair.uai").write_text("MARKOV\n2\n2 2\n1\n2 0 1\n4\n 4.0 1.0\n 2.0 3.0\n")
    net = fb.io.read_uai(tmp_path / "pair.uai")
    found = net.condition(x0=1).marginals()
    assert list(found) == ["x1"]
    np.testing.assert_allclose(numbers(found["x1"]), [0.4, 0.6])
