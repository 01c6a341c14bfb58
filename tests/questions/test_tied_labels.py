"""Gibbs sampling where tables have zeros: variables that these tie are drawn together, or refused."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, MemoryLimit, NoRule
from fubini.infer.nuts_warnings import effective
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.questions import table_gibbs as tables
from fubini.questions.numpyro_gibbs import discrete_gibbs

KEY = jax.random.key(1)


def shares(tables: dict[str, np.ndarray], scopes: dict[str, tuple[str, ...]], seen: dict[str, int]) -> dict[str, Any]:
    """p(variable = 1 | seen) by enumeration; all variables have two values."""
    names, total, ones = list(scopes), 0.0, dict.fromkeys(scopes, 0.0)
    for each in itertools.product(range(2), repeat=len(names)):
        values = dict(zip(names, each, strict=True))
        if all(values[name] == value for name, value in seen.items()):
            weight = np.prod([tables[name][tuple(values[v] for v in scope)] for name, scope in scopes.items()])
            total += weight
            for name in names:
                ones[name] += weight * values[name]
    return {name: one / total for name, one in ones.items() if name not in seen}


SCOPES = {"a": ("a",), "b": ("a", "b"), "c": ("c",), "d": ("b", "c", "d"), "e": ("d", "e"), "f": ("c", "d", "f")}


def network(functions: dict[str, Any], seed: int) -> tuple[fb.Network, dict[str, np.ndarray]]:
    """A random network, some of whose tables are functions of the parents."""
    rng, made = np.random.default_rng(seed), {}
    for name, scope in SCOPES.items():
        made[name] = rng.uniform(0.2, 1.0, (2,) * len(scope))
        if name in functions:
            for parents in itertools.product(range(2), repeat=len(scope) - 1):
                made[name][parents] = np.arange(2) == functions[name](*parents)
        made[name] /= made[name].sum(-1, keepdims=True)
    domains = dict.fromkeys(SCOPES, fb.Bint[2])
    factors = tuple(fb.Table(made[name], scope) for name, scope in SCOPES.items())
    return fb.Network(domains, factors, children=tuple(SCOPES)), made


def assert_share(draws: np.ndarray, expected: float, what: str) -> None:
    """Draws [chain, draw] of 0 and 1, within five standard errors by their effective number."""
    error = draws.std() / np.sqrt(effective(draws)) if draws.std() else 0.0
    assert abs(draws.mean() - expected) < 5 * error + 1e-9, (
        f"{what}: {draws.mean():.4f} for {expected:.4f} ± {error:.4f}"
    )


@pytest.mark.parametrize(
    "functions, seen, blocks",
    [
        ({"d": lambda b, c: b | c}, {"e": 1}, [{"b", "c", "d"}]),
        ({"d": lambda b, c: b ^ c, "f": lambda c, d: c & d}, {}, [{"b", "c", "d", "f"}]),
        ({"d": lambda b, c: b & c}, {"d": 0}, []),  # one of both is 0: each may change while the other is
        ({"b": lambda a: 0, "f": lambda c, d: 1}, {"e": 0}, []),  # constants
    ],
)
def test_random_networks_with_deterministic_tables(functions: Any, seen: dict[str, int], blocks: list) -> None:
    net, made = network(functions, len(functions))
    post = net.joint().condition(**seen) if seen else net.joint()
    model = FlatModel(post)
    sampler = tables.table_gibbs(model, 0)
    made_blocks = tables._with_blocks(model, *graph_of(model))[0].blocks
    assert [set(block) for block in made_blocks] == blocks and sampler.name == "gibbs"
    drawn = post.infer(KEY, method="gibbs", draws=2000, chains=2, warmup=50, progress=False).posterior
    assert drawn.attrs["method"] == "gibbs"
    for name, share in shares(made, SCOPES, seen).items():
        assert_share(drawn[name].values.astype(float), share, name)


def graph_of(model: FlatModel) -> tuple[tables.Graph, list[np.ndarray]]:
    factors, variables = tables.tables_of(model.reading)
    sizes = tuple((str(one.name), one.output.extent) for one in variables)
    return tables.Graph(sizes, tuple(tuple(map(str, f.inputs)) for f in factors)), [
        np.asarray(f.log().data) for f in factors
    ]


def test_blocks_that_are_too_large_for_one_table_are_drawn_by_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    net, made = network({"d": lambda b, c: b | c}, 5)
    monkeypatch.setattr(tables, "SMALL", 4)
    tables._transition.cache_clear()
    try:
        post = net.joint().condition(f=1)
        drawn = post.infer(KEY, method="gibbs", draws=2000, chains=2, warmup=50, progress=False).posterior
    finally:
        tables._transition.cache_clear()
    for name, share in shares(made, SCOPES, {"f": 1}).items():
        assert_share(drawn[name].values.astype(float), share, name)


def test_impossible_evidence_is_an_error() -> None:
    net, _ = network({"d": lambda b, c: b | c, "e": lambda d: d}, 0)
    with pytest.raises(DataError, match=r"(?s)the evidence of.*p\(observed\) is 0"):
        net.joint().condition(d=1, e=0).infer(KEY, method="gibbs", progress=False)


def test_a_block_past_the_memory_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    net, _ = network({"d": lambda b, c: b | c}, 0)

    def refuse(*arguments: Any) -> Any:
        raise MemoryLimit("a plan of 3 factors")

    monkeypatch.setattr(tables, "_planned", refuse)
    with pytest.raises(MemoryLimit) as caught:
        net.joint().infer(KEY, method="gibbs", progress=False)
    for words in ("draws of 3 variables, 'c', 'b', 'd'", "the tables of 'd' have zeros", "belief propagation"):
        assert words in str(caught.value)


# -- arrays of labels -------------------------------------------------------------------------------------------------

COPY = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])  # b is whether a is not 0


@fb.model
def copied():
    a = yield dist.Categorical(np.array([0.5, 0.3, 0.2])).expand([3])
    b = yield dist.Categorical(jnp.asarray(COPY)[a])
    y = yield dist.Normal(1.0 * b, 1.0)


POST = copied().condition(y=np.zeros(3))


def test_compiled_loops_refuse_tied_labels() -> None:
    """Each of the doors to draws of one label at a time says what ties it, and what draws it."""
    sampler = eliminated(FlatModel(POST), ()).gibbs("a", "b", engine="python")
    with pytest.raises(NoRule) as caught:
        sampler.run(KEY, sweeps=2)
    for words in ("the labels 'a', 'b'", "the zeros of the density of 'b' tie 'a[0]', 'b[0]'", "blocked=True"):
        assert words in str(caught.value)
    with pytest.raises(NoRule, match="the zeros of the density of 'b' tie"):
        discrete_gibbs(FlatModel(POST), 0)


def test_scalars_beside_numbers_are_refused() -> None:
    """Labels of a model with numbers, which numpyro would draw one at a time."""

    @fb.model
    def alarm():
        a = yield dist.Bernoulli(0.3)
        b = yield dist.Bernoulli(0.4)
        either = yield dist.Bernoulli(jnp.where(a + b > 0, 1.0, 0.0))
        s = yield dist.HalfNormal(1.0)
        y = yield dist.Normal(1.0 * either, s)

    with pytest.raises(NoRule, match="the zeros of the density of 'either' tie 'a', 'b', 'either'"):
        alarm().condition(y=0.4).infer(KEY, method="gibbs", progress=False)


def test_tied_labels_are_drawn_together() -> None:
    weights = np.array([0.5, 0.5]) * np.exp([0.0, -0.5])
    expected = weights[1] / weights.sum()
    for drawn in (
        POST.infer(KEY, method="gibbs", draws=2000, chains=2, warmup=10, progress=False).posterior,
        eliminated(FlatModel(POST), ()).gibbs("a", "b", blocked=True).run(KEY, sweeps=2000, chains=2),
    ):
        assert_share(np.asarray(drawn["b"], float)[..., 0], expected, "b")
        np.testing.assert_array_equal(np.asarray(drawn["a"]) > 0, np.asarray(drawn["b"]) == 1)


def test_labels_that_were_summed_out_move_along() -> None:
    """Given b alone, or a alone, nothing is tied."""
    for kept, gone in (("a", "b"), ("b", "a")):
        sampler = POST.eliminate(gone).gibbs(kept, engine="python")
        assert sampler.ties.tied == ()


def chain(step: np.ndarray, length: int) -> Any:
    @fb.model
    def labels():
        z = yield dist.Categorical(np.ones(len(step)) / len(step)).expand([length])
        yield fb.weight(log=jnp.log(jnp.asarray(step)[z[:-1], z[1:]]).sum())
        y = yield dist.Normal(1.0 * z, 1.0)

    return labels().condition(y=np.zeros(length))


def test_chains_of_labels() -> None:
    """Where labels stay or go on, single draws reach all; where each is not the one before, none can change."""
    onwards = np.array([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]])
    free = eliminated(FlatModel(chain(onwards, 30)), ()).gibbs("z", engine="python")
    assert free.ties.tied == ()
    other = eliminated(FlatModel(chain(np.array([[0.0, 1.0], [1.0, 0.0]]), 30)), ()).gibbs("z", engine="python")
    with pytest.raises(NoRule, match=r"'z\[5\]' and 24 more"):
        other.run(KEY, sweeps=2)
    held = other._ties({"z": {0: 0}}).tied  # then all are known: nothing is to be reached
    assert held == ()
