"""Ways in which a number could come out wrong without an error: each was one once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.cli import main
from fubini.errors import DataError, DomainError, Intractable, UnknownName

RNG = np.random.default_rng(0)
MIN_PRODUCT = fb.Semiring("min_product", lambda xp, a, axis: xp.min(a, axis=axis), lambda xp, a, b: a * b, np.inf, 1.0)


def ring(*names: str) -> list[fb.Table]:
    pairs = zip(names, (*names[1:], names[0]), strict=True)
    return [fb.Table(RNG.random((3, 3)), pair) for pair in pairs]


def test_a_variable_called_slice() -> None:
    """The index over slices is nobody's name."""
    factors, names = ring("x0", "slice", "x2", "x3", "x4", "x5"), ("x0", "slice", "x2", "x3", "x4", "x5")
    whole, sliced = fb.marginals(factors, names), fb.marginals(factors, names, memory_limit=500)
    for name in names:
        assert sliced[name].inputs == whole[name].inputs
        np.testing.assert_allclose(sliced[name].log().data, whole[name].log().data, rtol=1e-9)


def test_an_axis_called_axis_0() -> None:
    value = fb.Array(np.arange(6.0).reshape(2, 3), ("axis 0",))
    np.testing.assert_array_equal(value[1].data, [1.0, 4.0])
    assert value[1].inputs == {"axis 0": fb.Bint[2]}


@pytest.mark.parametrize("weight", [1e-60, 1e60, 1e-300])
def test_numpy_tables_beyond_single_precision_times_jax(weight: float) -> None:
    ones = fb.Table(jnp.ones(2), ("x",))
    expected = np.log(weight) + np.log(2)
    assert float((ones * weight).sum("x").log()) == pytest.approx(expected, rel=1e-5)
    far = fb.Table([weight, weight], ("x",))
    assert float((far * ones).sum("x").log()) == pytest.approx(expected, rel=1e-5)
    assert float(jax.jit(lambda f: (far * f).sum("x").log().data)(ones)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("semiring", [fb.sum_product, fb.max_product, fb.min_sum, fb.counting, fb.boolean, MIN_PRODUCT])
def test_optimize_keeps_the_answer_in_every_semiring(semiring: fb.Semiring) -> None:
    with fb.lazy:
        recorded = (ring("a", "b", "c")[0] * ring("b", "c", "d")[0]).reduce(semiring, "a", "b", "c")
    found = fb.evaluate(fb.optimize(recorded))
    assert float(found) == pytest.approx(float(fb.evaluate(recorded)), rel=1e-12)


def test_the_multiplication_of_a_semiring_is_used() -> None:
    bottleneck = fb.Semiring(
        "bottleneck",
        add=lambda xp, a, axis: xp.min(a, axis=axis),
        multiply=lambda xp, a, b: xp.maximum(a, b),
        zero=np.inf,
        one=-np.inf,
    )
    f, g = fb.Table([5.0, 4.0], ("a",)), fb.Table([2.0, 3.0], ("a",))
    assert float((f * g).reduce(bottleneck, "a")) == pytest.approx(4.0)


def test_an_absent_variable_is_the_unit_of_the_semiring_in_marginals() -> None:
    """Its weight is `one` in the carrier, −∞ here, and not the number 1."""
    greatest = fb.Semiring(
        "greatest", lambda xp, a, axis: xp.min(a, axis=axis), lambda xp, a, b: xp.maximum(a, b), np.inf, -np.inf
    )
    f, z = fb.Table([0.2, 0.5], ("a",)), fb.Variable("z", fb.Bint[3])
    found = fb.marginals([f], [fb.Variable("a", fb.Bint[2]), z], semiring=greatest)
    np.testing.assert_allclose(found["a"].weights, np.array([0.2, 0.5]) / 0.7)


@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_another_homogeneous_sum_is_not_taken_for_a_maximum(asarray) -> None:
    table = fb.Table.from_log(asarray([0.0, -30.0]), ("a",))
    assert float(table.reduce(MIN_PRODUCT, "a").log()) == pytest.approx(-30.0, rel=1e-5)
    with pytest.raises(DomainError, match="ufunc"):
        fb.Semiring("least", lambda xp, a, axis: xp.min(a, axis), lambda xp, a, b: a * b, np.inf, 1.0, homogeneous=True)


def test_costs_are_not_divided() -> None:
    factors = [fb.Table(RNG.random(2), ("w",)), fb.Table(RNG.random((3, 2, 2)), ("d", "w", "z"))]
    with pytest.raises(Intractable, match="scaled plate"):
        fb.marginals(factors, {"w": (), "z": ("d",)}, plates=("d",), scale={"d": 2.0}, semiring=fb.min_sum)


def test_truths_and_narrow_integers_add_up() -> None:
    i = fb.Variable("i", fb.Bint[2])
    twice = fb.ops.equal(i, 0) + fb.ops.equal(i, 0)
    assert int(twice(i=0).data) == 2
    both = fb.scatter(fb.Array(np.array([True, True]), ("c",)), i=fb.Array(np.array([1, 1]), ("c",), fb.Bint[2]))
    assert both.data.tolist() == [0, 2] and both.output.size is None
    narrow = fb.Array(np.array([200], np.uint8), ("c",)) + fb.Array(np.array([100], np.uint8), ("c",))
    assert narrow.data.tolist() == [300]


def test_a_recorded_sum_is_projected_when_evaluated() -> None:
    f = fb.Table([1.0, 2.0], ("a",))
    with fb.lazy:
        recorded = f.sum("a")
    with fb.Interpretation("nought", base=fb.exact, project=lambda factor, names: fb.Table(7.0)):
        found = fb.evaluate(recorded)
        assert float(found) == 7.0 and not found.exactness.is_exact
        assert not found.log().exactness.is_exact and not fb.weight(log=found.log() + 1.0).exactness.is_exact


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
def test_a_bad_log_weight_inside_a_product(bad: float, asarray) -> None:
    weight = fb.weight(log=fb.Array(asarray([bad, 0.0]), ("a",)))
    with pytest.raises(DataError):
        (weight * fb.Table(asarray(np.ones((2, 2))), ("a", "b"))).sum("a")


def test_a_table_keeps_its_own_numbers() -> None:
    weights = np.array([1.0, 2.0])
    table, array = fb.Table(weights, ("x",)), fb.Array(weights, ("x",))
    weights[0] = -7.0
    assert float(table.sum("x")) == 3.0 and array.data[0] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        table.weights[0] = 5.0


def test_unknown_names_in_a_mapping() -> None:
    f = fb.Table(np.ones((2, 2)), ("a", "b"))
    for ask in (lambda: f({"zz": 1}), lambda: f({"a": 1}, zz=2), lambda: f.log()({"zz": 1})):
        with pytest.raises(UnknownName, match="zz"):
            ask()


def test_labels_survive() -> None:
    labelled = fb.Bint.labelled("n", "y")
    plain, named = fb.Table([1.0, 3.0], ("a",)), fb.Table(np.ones((2, 2)), {"a": labelled, "c": fb.Bint[2]})
    for factor in (plain / named.sum("c"), plain + named.sum("c"), (plain * named).sum("c")):
        joined = fb.eliminate(factor * fb.Table([1.0, 1.0], ("a",)), ())
        assert joined.inputs["a"] == labelled
    assert fb.marginals([plain, named], ("a", "c"))["a"].inputs["a"] == labelled
    assert named.log().inputs["a"] == labelled
    with pytest.raises(DomainError):
        named(a=fb.Variable("b", fb.Bint.labelled("p", "q")))


def test_evidence_given_to_a_network_is_checked() -> None:
    rain = fb.Bint.labelled("dry", "wet")
    factors = (fb.Table([0.8, 0.2], {"rain": rain}),)
    assert float(fb.Network({"rain": rain}, factors, evidence={"rain": "wet"}).log_evidence()) == np.log(0.2)
    with pytest.raises(UnknownName, match="rian"):
        fb.Network({"rain": rain}, factors, evidence={"rian": 1})
    counts = fb.Bint.labelled("1", "2", "3")
    network = fb.Network({"n": counts}, (fb.Table([1.0, 2.0, 4.0], {"n": counts}),), directed=False)
    with pytest.raises(DataError, match="label of position 0"):
        network.condition(n=1)
    assert float(network.condition(n="2").log_evidence()) == pytest.approx(np.log(2.0))


def test_contradictory_evidence_on_the_command_line(tmp_path, capsys) -> None:
    rain = fb.Bint.labelled("dry", "wet")
    fb.io.write_bif(fb.Network({"rain": rain}, (fb.Table([0.8, 0.2], {"rain": rain}),)), tmp_path / "rain.bif")
    assert main(["query", str(tmp_path / "rain.bif"), "-e", "rain=wet", "-e", "rain=dry"]) == 1
    assert "as observed before" in capsys.readouterr().err


def test_positions_of_static_arguments() -> None:
    scaled = fb.jit(lambda x, n: x * n, static_argnums=1)
    assert float(scaled(2.0, 3)) == 6.0


def test_a_rule_added_later_is_seen_by_jit() -> None:
    rules = fb.RuleSet("late.sum", head=fb.heads.SUM)
    interpretation = fb.Interpretation("late", (rules,), base=fb.exact)
    compiled = jax.jit(lambda w: fb.Table(w, ("a",)).sum("a").log().data)
    with interpretation:
        assert float(compiled(jnp.array([1.0, 2.0]))) == pytest.approx(np.log(3.0), rel=1e-5)

    @rules.rule
    def sum_to_one(semiring: fb.Semiring, f: fb.Table, names: tuple) -> fb.Factor:
        """Σ_x f  =  1"""
        return fb.Table(1.0)

    with interpretation:
        assert float(compiled(jnp.array([1.0, 2.0]))) == 0.0


@pytest.mark.parametrize("n", [0, -1, 1.5, True])
def test_the_number_of_samples(n) -> None:
    with pytest.raises(DataError, match="n="):
        fb.sample(jax.random.key(0), fb.Table([1.0], ("a",)), ("a",), n=n)


def test_names_in_a_list() -> None:
    with pytest.raises(DomainError, match="one by one"):
        fb.Table([1.0], ("a",)).sum(["a"])


def test_a_point_without_a_domain() -> None:
    with pytest.raises(DomainError, match=r"fb\.Bint"):
        fb.Delta(a=1)
