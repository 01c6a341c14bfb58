"""Every pass can be left out: the draws are the same, and the loops are what is written here."""

import jax
import numpy as np
import pytest

from fubini.compile.pipeline import PASSES
from tests.compile.cases import CASES, crossed

NAMES = tuple(one.name for one in PASSES)
WITHOUT = [(), *((name,) for name in NAMES), ("hoist", "difference"), NAMES]


@pytest.mark.parametrize("name", CASES)
def test_without_passes_draws_are_the_same(name: str) -> None:
    case, g = CASES[name], np.random.default_rng(3)
    labels = case.labels(g)
    data, uniforms = case.data(g, labels), g.random((3, labels.size))
    found = []
    for without in WITHOUT:
        machine = case.sampler(data, engine="python", without=without).machine
        machine.set({case.label: labels - case.low})
        for mine in uniforms:
            machine.sweep(case.label, mine, np.arange(labels.size))
        found.append((machine.values(case.label).copy(), machine.weights(case.size)))
    for draws, weights in found[1:]:
        assert np.array_equal(draws, found[0][0])
        assert np.abs(weights - found[0][1]).max() < 1e-9


def test_passes_have_names_and_sentences() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert all(one.description.endswith(".") and one.apply.__doc__ for one in PASSES)


def body(source: str, name: str) -> list[str]:
    """The lines of one function."""
    text = source.split(f"def {name}(")[1].split("\n@njit")[0]
    return [line.strip() for line in text.splitlines()[1:] if line.strip()]


def test_text_of_a_mixture() -> None:
    case, g = CASES["gaussian"], np.random.default_rng(0)
    labels = case.labels(g)
    source = case.sampler(case.data(g, labels)).source()
    assert body(source, "start") == ["for u in range(6):", "k = y[u]", "S1[k] += s[u]", "S0[k] += 1.0", "return 0"]
    lines = body(source, "sweep_y")
    loop = lines.index("for t in range(items.size):")
    assert lines[loop : loop + 5] == [
        "for t in range(items.size):",
        "u = items[t]",
        "k = y[u]",
        "S0[k] -= 1.0",
        "S1[k] -= s[u]",
    ]
    assert "w[k] = (C0[k]) * exp_below(-0.5 * ((a1 + C1[k]) ** 2 * C2[k]))" in lines
    assert not any("range(6)" in line for line in lines)  # a step does not look at the other items


def test_text_without_differences_looks_at_all_items() -> None:
    case, g = CASES["gaussian"], np.random.default_rng(0)
    source = case.sampler(case.data(g, case.labels(g)), without=("difference",)).source()
    lines = body(source, "sweep_y")
    first = lines.index("for j1 in range(6):")
    assert lines[first : first + 3] == ["for j1 in range(6):", "S0[y[j1]] += 1.0", "S1[y[j1]] += s[j1]"]


def test_text_without_fusion_has_a_loop_for_each_statistic() -> None:
    case, g = CASES["gaussian"], np.random.default_rng(0)
    data = case.data(g, case.labels(g))
    counts = [
        sum("range(6)" in line for line in body(case.sampler(data, without=without).source(), "sweep_y"))
        for without in (("difference",), ("difference", "fuse"))
    ]
    assert counts == [1, 2]


def test_text_without_specialisation_reads_sizes() -> None:
    case, g = CASES["gaussian"], np.random.default_rng(0)
    source = case.sampler(case.data(g, case.labels(g)), without=("specialise",)).source()
    assert "for k in range(sizes[" in source
    assert "range(3)" not in source


def test_values_as_constants_draw_the_same() -> None:
    case, g = CASES["gaussian"], np.random.default_rng(2)
    labels = case.labels(g)
    data, uniforms = case.data(g, labels), g.random(labels.size)
    found = []
    for fixed in ("sizes", "values"):
        sampler = case.sampler(data, engine="python", specialise=fixed)
        assert (f"s = np.array({data.tolist()!r}, np.float64)" in sampler.source()) is (fixed == "values")
        sampler.machine.set({"y": labels})
        sampler.machine.sweep("y", uniforms, np.arange(labels.size))
        found.append(sampler.machine.values("y").tolist())
    assert found[0] == found[1]


def test_text_without_hoisting_keeps_nothing_by_class() -> None:
    case, g = CASES["gaussian"], np.random.default_rng(0)
    data = case.data(g, case.labels(g))
    kept, plain = (case.sampler(data, without=without).source() for without in ((), ("hoist",)))
    assert "C1[k] = -((S1[k]) / ((0.1111111111111111 + S0[k])))" in kept
    assert "C1[" not in plain
    assert "s[u] - ((S1[k]) / ((0.1111111111111111 + S0[k])))" in plain


def test_two_labels_without_differences() -> None:
    collapsed = crossed().condition(s=np.random.default_rng(0).normal(size=(3, 4))).eliminate("mu")
    found = [
        collapsed.gibbs("a", "b", engine="python", without=without).run(jax.random.key(0), sweeps=3)
        for without in ((), ("difference",), ("difference", "hoist"), NAMES)
    ]
    for draws in found[1:]:
        assert all(np.array_equal(draws[name], found[0][name]) for name in ("a", "b"))
