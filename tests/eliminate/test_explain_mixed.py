"""Showing the work of mixed questions: order, rules, exactness, engine; recorded terms planned, evaluated, the same."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import fubini as fb
from fubini import dist
from fubini.terms.composite import Sum
from fubini.terms.factor import Product

GENERIC = {"none", "contract_factors", "contract_promoted", "sum_promoted", "sum_by_plan"}

WEIGHTS, LOCATIONS = np.array([0.3, 0.7]), np.array([-1.0, 1.0])


def label(engine: Callable = np.asarray) -> fb.Factor:
    return fb.Table(engine(WEIGHTS), ("k",))


def cause(engine: Callable = np.asarray) -> fb.Factor:
    return dist.Normal(fb.Array(engine(LOCATIONS), ("k",)), 1.0)("x")


def effect(value: object = "y") -> fb.Factor:
    return dist.Normal(2.0 * fb.Variable("x", fb.Real), 0.5)(value)


def rules(shown: object) -> list[str]:
    return [line.rule for line in shown.lines]


def lines(shown: object) -> list[str]:
    return [line for line in str(shown).splitlines() if line[:1].isdigit()]


# -- explain ----------------------------------------------------------------------------------------------------------


def test_order_reals_before_the_labels_they_depend_on() -> None:
    shown = fb.explain([label(), cause(), effect()], ("k", "x", "y"))
    assert sorted(shown.order) == ["k", "x", "y"]
    assert shown.order.index("x") < shown.order.index("k")


def test_every_step_names_its_rule() -> None:
    """Which rule of which representation, not that some rule will be found."""
    shown = fb.explain([label(), cause(), effect()], ("k", "x", "y"))
    assert not GENERIC & set(rules(shown))
    by_name = {name: line for name, line in zip(shown.order, lines(shown), strict=True)}
    assert "gaussian" in by_name["y"] or "density" in by_name["y"]
    assert "contract_gaussians" in by_name["x"] and "Σ_x" in by_name["x"]
    assert "contract_two_tables" in by_name["k"] and "Σ_k" in by_name["k"]


def test_the_rules_shown_are_the_rules_that_run() -> None:
    """Each is found among the registered rules, by name."""
    shown = fb.explain([label(), cause(), effect()], ("k", "x", "y"))
    heads = (fb.heads.SUM, fb.heads.CONTRACT, fb.heads.MULTIPLY_OUT)
    known = {str(rule.name) for head in heads for rules_of in fb.exact.rule_sets(head) for rule in rules_of}
    assert set(rules(shown)) <= known


def test_every_step_is_exact() -> None:
    shown = fb.explain([label(), cause(), effect()], ("k", "x", "y"))
    assert all(line.exactness.is_exact for line in shown.lines)
    assert all(line.rstrip().endswith("exact") for line in lines(shown))


def test_a_mixture_is_named_in_the_explanation() -> None:
    """Σ_k of a Table and a Gaussian stays exact, as a Mixture."""
    shown = fb.explain([label(), cause()], ("k",))
    assert shown.order == ("k",)
    assert "mixture" in str(shown).lower()
    assert shown.lines[-1].exactness.is_exact


def test_cost_counts_reals_and_labels() -> None:
    """More elements of a real array, or more labels, are more work."""

    def work(labels: int, elements: int) -> int:
        info, precision = np.zeros((labels, elements)), np.broadcast_to(np.eye(elements), (labels, elements, elements))
        inputs = {"k": fb.Bint[labels], "x": fb.Reals[elements]}
        factor = fb.Gaussian(info=info, precision=precision.copy(), inputs=inputs)
        return fb.explain([fb.Table(np.ones(labels), ("k",)), factor], ("x", "k")).plan.work

    assert work(2, 2) < work(4, 2) and work(2, 2) < work(2, 4)


def test_max_product() -> None:
    shown = fb.explain([label(), cause(), effect(0.3)], ("k", "x"), semiring=fb.max_product)
    text = str(shown)
    assert "max_x" in text and "max_k" in text and "Σ" not in text
    assert shown.order.index("x") < shown.order.index("k")
    assert not GENERIC & set(rules(shown))


def test_a_density_over_its_own_variable() -> None:
    shown = fb.explain([dist.Gamma(2.0, 3.0)("g")], ("g",))
    assert rules(shown) == ["sum_density"] and shown.lines[0].exactness.is_exact


def test_a_delta_is_put_in_place_before_the_plan() -> None:
    """What it fixes is not eliminated; the others are planned at the point."""
    shown = fb.explain([label(), cause(), effect(), fb.Delta(y=1.0)], ("k", "x", "y"))
    assert sorted(shown.order) == ["k", "x"]
    assert not GENERIC & set(rules(shown))


@pytest.mark.parametrize(("engine", "shows"), [(np.asarray, "NumPy"), (jnp.asarray, "XLA")], ids=["numpy", "jax"])
def test_engine(engine: Callable, shows: str) -> None:
    assert shows in str(fb.explain([label(engine), cause(engine), effect()], ("k", "x", "y")))


def test_engine_inside_a_trace() -> None:
    seen = []

    @jax.jit
    def run(locations: jax.Array) -> jax.Array:
        located = dist.Normal(fb.Array(locations, ("k",)), 1.0)("x")
        seen.append(str(fb.explain([label(), located], ("k", "x"))))
        return locations

    run(jnp.asarray(LOCATIONS))
    assert "trace" in seen[0]


def test_what_is_blocked_is_an_error_that_names_it() -> None:
    """Explaining a sum without a closed form says the factor and the variable."""
    rate = fb.Variable("u", fb.Positive)
    with pytest.raises(fb.FubiniError, match=r"(?s)'u'.*Poisson"):
        fb.explain([dist.LogNormal(0.0, 1.0)("u"), dist.Poisson(rate)("n")], ("u",))


def plated(*names: str) -> fb.Gaussian:
    domains = {"i": fb.Bint[2], "j": fb.Bint[3], "x": fb.Real, "y": fb.Real}
    batch = [domains[name].size for name in names if name in "ij"]
    size = sum(name in "xy" for name in names)
    return fb.Gaussian(
        info=np.zeros((*batch, size)),
        precision=np.broadcast_to(np.eye(size), (*batch, size, size)).copy(),
        inputs={name: domains[name] for name in names},
    )


def test_plates_of_gaussians() -> None:
    shown = fb.explain([plated("x"), plated("i", "x", "y")], ("x", "y"), plates=("i",))
    text = str(shown)
    assert "'y' lives in the plates 'i'" in text
    assert "Π_i" in text and "multiply_out_gaussian" in text
    assert shown.order.index("y") < shown.order.index("x")


def test_bipartite_plates_say_which_variable_became_an_array() -> None:
    """Both homes are printed, also that of the plate that was opened."""
    shown = fb.explain([plated("i", "x"), plated("j", "y"), plated("i", "j", "x", "y")], ("x", "y"), plates=("i", "j"))
    text = str(shown)
    assert "'y' lives in the plates 'j'" in text
    assert "'x'" in text and "'i'" in text
    assert all(line.exactness.is_exact for line in shown.lines)


def test_scale_of_a_gaussian_plate() -> None:
    shown = fb.explain([plated("x"), plated("i", "x", "y")], ("x", "y"), plates=("i",), scale={"i": 2.5})
    assert "^2.5" in str(shown)


def test_a_network_with_labels_and_reals(data: Path) -> None:
    net = fb.io.read_json(data / "bayes_nets" / "clg" / "sangiovese.json").condition(GrapeW=1.0)
    shown = fb.explain(net)
    assert sorted(map(str, shown.order)) == sorted(net.hidden)
    assert str(shown.order[-1]) == "Treatment"
    assert not GENERIC & set(rules(shown))


def test_a_gaussian_network_of_a_hundred_variables_stays_sparse(data: Path) -> None:
    """No step of arth150 joins more than a few tens of its 107 variables."""
    net = fb.io.read_json(data / "bayes_nets" / "gaussian" / "arth150.json")
    shown = fb.explain(net)
    largest = max(len(names) for names in shown.plan.names)
    assert largest <= 25
    assert set(rules(shown)) <= {"contract_gaussians", "sum_gaussian", "sum_density", "contract_two_tables"}


def test_a_projecting_interpretation_marks_mixed_steps() -> None:
    mine = fb.Interpretation("rounding", base=fb.exact, project=lambda factor, names: factor)
    with mine:
        shown = fb.explain([label(), cause(), effect()], ("k", "x", "y"))
        found = fb.eliminate([label(), cause(), effect()], ("k", "x", "y"))
    assert {repr(line.exactness) for line in shown.lines} == {"projected(rounding)"}
    assert found.exactness == shown.lines[-1].exactness


# -- recorded terms ---------------------------------------------------------------------------------------------------


def recorded(*names: str) -> fb.Factor:
    with fb.lazy:
        return (label() * cause() * effect()).sum(*names)


def density(k: int | None, x: float | None, y: float | None) -> float:
    """log of the joint with what is None summed out."""
    logs = []
    for at in range(2) if k is None else (k,):
        log, mean = math.log(WEIGHTS[at]), LOCATIONS[at]
        if x is not None:
            log += stats.norm(mean, 1).logpdf(x)
        if y is not None:
            log += stats.norm(2 * mean, math.sqrt(4.25)).logpdf(y) if x is None else stats.norm(2 * x, 0.5).logpdf(y)
        logs.append(log)
    return float(logsumexp(logs))


SUBSETS = [names for size in (1, 2, 3) for names in itertools.combinations("kxy", size)]


@pytest.mark.parametrize("names", SUBSETS, ids="".join)
@pytest.mark.parametrize("form", [lambda term: term, fb.optimize], ids=["recorded", "planned"])
def test_a_recorded_term_evaluates_to_the_sum(names: tuple[str, ...], form: Callable) -> None:
    term = form(recorded(*names))
    left = [name for name in "kxy" if name not in names]
    assert set(term.inputs) == set(left)
    found = fb.evaluate(term)
    assert set(found.inputs) == set(left) and found.exactness.is_exact
    at = {name: value for name, value in {"k": 1, "x": 0.4, "y": -0.7}.items() if name in left}
    expected = density(at.get("k"), at.get("x"), at.get("y"))
    assert float(found(**at).log()) == pytest.approx(expected, abs=1e-10)
    with fb.lazy:
        closed = term(**at) if at else term
    assert float(fb.evaluate(closed).log()) == pytest.approx(expected, abs=1e-10)


def test_recording_computes_nothing() -> None:
    term = recorded("k", "x", "y")
    assert isinstance(term, Sum) and isinstance(term.body, Product)
    assert isinstance(fb.optimize(term), Sum)


def test_the_planned_form_sums_reals_inside_labels() -> None:
    """Every product that is summed has two terms at most, and the outermost sum is over the label."""
    planned = fb.optimize(recorded("k", "x", "y"))

    def bodies(term: fb.Factor) -> list[fb.Factor]:
        own = [term.body] if isinstance(term, Sum) else []
        return own + [body for child in term.children if isinstance(child, fb.Factor) for body in bodies(child)]

    assert [str(name) for name in planned.bounds] == ["k"]
    assert len(bodies(planned)) == 3
    assert all(len(body.terms) == 2 for body in bodies(planned) if isinstance(body, Product))


def test_explain_of_a_recorded_term_is_that_of_its_factors() -> None:
    """By the names the user wrote."""
    term = recorded("k", "x", "y")
    shown, direct = fb.explain(term), fb.explain([label(), cause(), effect()], ("k", "x", "y"))
    assert [str(name) for name in shown.order] == [str(name) for name in direct.order]
    assert rules(shown) == rules(direct)


@pytest.mark.parametrize("form", [lambda term: term, fb.optimize], ids=["recorded", "planned"])
def test_a_recorded_maximum(form: Callable) -> None:
    with fb.lazy:
        term = (label() * cause() * effect(0.6)).max("k", "x")
    peaks = []
    for k in range(2):
        precision = 1 + 4 / 0.25
        x = (LOCATIONS[k] + 2 * 0.6 / 0.25) / precision
        peaks.append(
            math.log(WEIGHTS[k]) + stats.norm(LOCATIONS[k], 1).logpdf(x) + stats.norm(2 * x, 0.5).logpdf(0.6)
        )  # fmt: skip
    assert float(fb.evaluate(form(term)).log()) == pytest.approx(max(peaks), abs=1e-10)


@pytest.mark.parametrize("form", [lambda term: term, fb.optimize], ids=["recorded", "planned"])
def test_a_recorded_plate(form: Callable) -> None:
    """Σ_x p(x) Π_i Σ_k p(k) N(y_i; x + μ_k): a mixture in every cell of the plate."""
    y = np.array([0.3, -1.2, 0.8])
    x = fb.Variable("x", fb.Real)
    with fb.lazy:
        inner = fb.Table(WEIGHTS, ("k",)) * dist.Normal(x + fb.Array(LOCATIONS, ("k",)), 0.5)(fb.Array(y, ("i",)))
        term = (dist.Normal(0.0, 2.0)("x") * inner.sum("k").product("i")).sum("x")
    logs = [
        np.log(WEIGHTS[list(ks)]).sum()
        + stats.multivariate_normal(LOCATIONS[list(ks)], 0.25 * np.eye(3) + 4.0).logpdf(y)
        for ks in itertools.product(range(2), repeat=3)
    ]
    assert float(fb.evaluate(form(term)).log()) == pytest.approx(logsumexp(logs), abs=1e-10)


@pytest.mark.parametrize("form", [lambda term: term, fb.optimize], ids=["recorded", "planned"])
def test_a_recorded_delta(form: Callable) -> None:
    with fb.lazy:
        term = (label() * cause() * effect() * fb.Delta(y=0.6)).sum("k", "x", "y")
    assert float(fb.evaluate(form(term)).log()) == pytest.approx(density(None, None, 0.6), abs=1e-10)


@pytest.mark.parametrize("form", [lambda term: term, fb.optimize], ids=["recorded", "planned"])
def test_recorded_sums_inside_other_terms(form: Callable) -> None:
    with fb.lazy:
        total = (label() * cause() * effect(0.6)).sum("k", "x")
        value, quotient, power = total.log() * 2.0 + 1.0, cause() / total, total**0.5
    expected = density(None, None, 0.6)
    assert float(fb.evaluate(form(value))) == pytest.approx(2 * expected + 1, abs=1e-10)
    assert float(fb.evaluate(form(power)).log()) == pytest.approx(expected / 2, abs=1e-10)
    at = fb.evaluate(form(quotient))(k=0, x=0.2)
    assert float(at.log()) == pytest.approx(stats.norm(-1, 1).logpdf(0.2) - expected, abs=1e-10)


def test_a_blocked_sum_stays_recorded() -> None:
    """Under lazy nothing is refused but types; evaluated, it is an error that names factor and variable."""
    rate = fb.Variable("u", fb.Positive)
    with fb.lazy:
        term = (dist.LogNormal(0.0, 1.0)("u") * dist.Poisson(rate)("n")).sum("u")
    assert set(term.inputs) == {"n"}
    with pytest.raises(fb.FubiniError, match=r"(?s)Poisson"):
        fb.evaluate(term)


def test_type_errors_appear_when_recording() -> None:
    with fb.lazy, pytest.raises(fb.FubiniError, match=r"(?s)'x'"):
        cause() * fb.Table([0.5, 0.5], ("x",))


def test_a_recorded_term_under_jit() -> None:
    """Recorded, planned and evaluated inside a trace."""

    @jax.jit
    def run(locations: jax.Array) -> jax.Array:
        with fb.lazy:
            located = dist.Normal(fb.Array(locations, ("k",)), 1.0)("x")
            term = (label() * located * effect(0.6)).sum("k", "x")
        return fb.evaluate(fb.optimize(term)).log().data

    assert float(run(jnp.asarray(LOCATIONS))) == pytest.approx(density(None, None, 0.6), abs=1e-5)
