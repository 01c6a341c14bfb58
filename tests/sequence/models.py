"""Models of chains, each with its unrolled factors: the same factors once for every step, states numbered."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
import pytest

import fubini as fb

IN_ORDER_OR_PAIRS = ("sequential", "parallel")


def in_turn(models: Iterable[str], first: str, *fast: str) -> list:
    """Every model once, in order and in pairs by turns; those listed are fast.

    A covering design: two questions that begin with different methods ask each model by both of them.
    """
    turn = IN_ORDER_OR_PAIRS.index(first)
    return [
        pytest.param(name, IN_ORDER_OR_PAIRS[(place + turn) % 2], marks=() if name in fast else pytest.mark.slow)
        for place, name in enumerate(models)
    ]


def in_chunks(models: Iterable[str], fast: Mapping[str, str]) -> list:
    """Every model by chunks, and those listed, which are fast, by the method beside them.

    Of a covering design the rest: filter and smoother have every model in order and in pairs, see in_turn.
    """
    cases = [(name, "chunks") for name in models]
    return [*fast.items(), *(pytest.param(*case, marks=pytest.mark.slow) for case in cases if case not in fast.items())]


def every(models: Iterable[str], *fast: str) -> list:
    """Every model; those listed are fast."""
    return [pytest.param(name, marks=() if name in fast else pytest.mark.slow) for name in models]


# -- random factors -------------------------------------------------------------------------------------------------


def random_factor(
    rng: np.random.Generator, inputs: Mapping[str, fb.Domain], engine: Callable = np.asarray
) -> fb.Factor:
    """Positive weights, or a Gaussian of full rank: every sum of it exists."""
    batch = {name: domain for name, domain in inputs.items() if domain.is_finite}
    shape = tuple(domain.extent for domain in batch.values())
    size = sum(int(np.prod(domain.shape)) for domain in inputs.values() if not domain.is_finite)
    if not size:
        return fb.Table(engine(rng.uniform(0.1, 1.0, shape)), tuple(inputs))
    root = rng.normal(size=(*shape, size, size))
    precision = root @ np.swapaxes(root, -1, -2) / size + np.eye(size)
    reals = {name: domain for name, domain in inputs.items() if not domain.is_finite}
    return fb.Gaussian(
        info=engine(rng.normal(size=(*shape, size))), precision=engine(precision), inputs={**batch, **reals}
    )


# -- models ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A start, the terms of one step, and how states are handed on."""

    init: fb.Factor
    terms: tuple[fb.Factor, ...]
    step: Mapping[Any, Any]
    length: int
    globals: tuple[str, ...] = ()

    @property
    def factor(self) -> fb.Factor:
        found = self.terms[0]
        for term in self.terms[1:]:
            found = found * term
        return found

    def chain(self, method: str | None = None) -> fb.Chain:
        untimed = all("t" not in term.inputs for term in self.terms)
        return fb.Chain(
            init=self.init,
            factor=self.factor,
            time="t",
            step=self.step,
            length=self.length if untimed else None,
            sum=self.globals,
            method=method,
        )

    @cached_property
    def links(self) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        """States before and after a step, for each chain."""
        return [
            tuple((group,) if isinstance(group, str) else group for group in pair)  # type: ignore[misc]
            for pair in self.step.items()
        ]

    def before(self, number: int) -> dict[str, str]:
        """The states before a step, as the unrolled model calls them."""
        return {name: f"{old[0]}_{number + at}" for old, _ in self.links for at, name in enumerate(old)}

    def after(self, number: int) -> dict[str, str]:
        """The states after a step, as the unrolled model calls them."""
        return {name: f"{old[0]}_{number + at + 1}" for old, new in self.links for at, name in enumerate(new)}

    def copies(self, count: int | None = None) -> list[fb.Factor]:
        """The unrolled model of the first steps."""
        found = [self.init(**_own(self.init, self.before(0)))]
        for number in range(self.length if count is None else count):
            names = {**self.before(number), **self.after(number)}
            for term in self.terms:
                now = term(t=number) if "t" in term.inputs else term
                found.append(now(**_own(now, names)))
        return found

    def states(self, count: int | None = None) -> list[str]:
        """All states of the unrolled model."""
        last = self.length if count is None else count
        return [f"{old[0]}_{number}" for old, _ in self.links for number in range(last + len(old))]

    # -- what brute force says ----------------------------------------------------------------------------------------

    def evidence(self) -> fb.Factor:
        return fb.eliminate(self.copies(), [*self.states(), *self.globals])

    def marginal(self, count: int, at: int) -> fb.Factor:
        """p(states after step `at` | the first `count` steps), −1 for the states before the first."""
        names = self.before(0) if at < 0 else self.after(at)
        others = [name for name in (*self.states(count), *self.globals) if name not in names.values()]
        found = fb.eliminate(self.copies(count), others).normalize(*names.values())
        return found(**{unrolled: name for name, unrolled in names.items()})

    def path(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values of a chain's states under the names of the unrolled model; time is the last axis of batch."""
        found = {self.before(0)[name]: values[name] for old, _ in self.links for name in old}
        for old, new in self.links:
            for number in range(self.length):
                found[f"{old[0]}_{number + len(old)}"] = values[new[-1]][..., number]
        return found


def _own(factor: fb.Factor, names: Mapping[str, str]) -> dict[str, str]:
    return {name: new for name, new in names.items() if name in factor.inputs}


def random_model(
    domains: Mapping[str, fb.Domain],
    length: int,
    *,
    lags: Mapping[str, int] | None = None,
    plates: Mapping[str, int] | None = None,
    shared: fb.Domain | None = None,
    summed: bool = False,
    timed: bool = True,
    engine: Callable = np.asarray,
    seed: int = 0,
) -> Model:
    """A start, a transition, and an observation of every new state that has the plates and the variable shared by all.

    The start and the transition have neither; a model that is not timed has no time anywhere.
    """
    rng = np.random.default_rng(seed)
    step: dict[Any, Any] = {}
    first, states, news = {}, {}, {}
    for name, domain in domains.items():
        lag = (lags or {}).get(name, 1)
        old = tuple(name + (str(at) if at else "") for at in range(lag))
        new = tuple(f"{name}{at}" for at in range(lag, 2 * lag)) if lag > 1 else (f"{name}_next",)
        step[old if lag > 1 else name] = new if lag > 1 else new[0]
        first.update(dict.fromkeys(old, domain))
        states.update(dict.fromkeys((*old, new[-1]), domain))
        news[new[-1]] = domain
    time = {"t": fb.Bint[length]} if timed else {}
    batch = {name: fb.Bint[size] for name, size in (plates or {}).items()}
    more = {} if shared is None else {"g": shared}
    init = random_factor(rng, first, engine)
    transition = random_factor(rng, states, engine)
    observation = random_factor(rng, {**time, **batch, **news, **more}, engine)
    prior = (random_factor(rng, more, engine),) if shared is not None else ()
    start = init * prior[0] if prior else init
    return Model(start, (transition, observation), step, length, ("g",) if summed else ())


# -- comparisons ----------------------------------------------------------------------------------------------------


def log_values(factor: fb.Factor) -> tuple[np.ndarray, list[str]]:
    """Log-weights for all cells, names sorted; real variables at three points."""
    rng = np.random.default_rng(11)
    reals = {name: domain for name, domain in sorted(factor.inputs.items()) if not domain.is_finite}
    points = {name: fb.Array(rng.normal(size=(3, *domain.shape)), ("probe",)) for name, domain in reals.items()}
    value = (factor(**points) if points else factor).log()
    names = list(value.inputs)
    order = sorted(range(len(names)), key=names.__getitem__)
    return np.asarray(value.data).transpose(order), sorted(names)


def assert_same(found: fb.Factor, expected: fb.Factor, **tolerance: float) -> None:
    """The same function: inputs, and the values everywhere or at random points."""
    assert dict(found.inputs) == dict(expected.inputs)
    mine, names = log_values(found)
    theirs, their_names = log_values(expected)
    assert names == their_names
    np.testing.assert_allclose(mine, theirs, **(tolerance or {"rtol": 1e-8, "atol": 1e-8}))


def check_filter(model: Model, found: fb.Factor, **tolerance: float) -> None:
    for number in range(model.length):
        assert_same(found(t=number), model.marginal(number + 1, number), **tolerance)


def check_smoother(model: Model, found: Any, **tolerance: float) -> None:
    for number in range(model.length):
        assert_same(found(t=number), model.marginal(model.length, number), **tolerance)
    assert_same(found.initial, model.marginal(model.length, -1), **tolerance)


# -- derivatives ----------------------------------------------------------------------------------------------------


def log_total(evidence: fb.Factor) -> Any:
    """The sum of the log-evidence of all cells; at a point where a real variable is free."""
    free = {name: np.full(domain.shape, 0.3) for name, domain in evidence.inputs.items() if not domain.is_finite}
    return (evidence(**free) if free else evidence).log().data.sum()


def check_gradients(
    model: Model, method: str | None, dtype: str, inside: Callable[[], AbstractContextManager] = nullcontext
) -> None:
    """Log-evidence of a chain made inside of a compiled function, and its derivative in every array of the model.

    Against the unrolled model in NumPy: along a random direction for each array, by central differences.
    """
    leaves, tree = jax.tree.flatten((model.init, model.terms))

    def at(leaves: Sequence) -> Model:
        init, terms = jax.tree.unflatten(tree, leaves)
        return replace(model, init=init, terms=terms)

    with jax.enable_x64(dtype == "float64"), inside():
        found = jax.jit(jax.value_and_grad(lambda leaves: log_total(at(leaves).chain(method).evidence())))
        value, slopes = found([np.asarray(leaf, dtype) for leaf in leaves])
    assert value.dtype == dtype and all(slope.dtype == dtype for slope in slopes)
    tight = {"rtol": 1e-6, "atol": 1e-7} if dtype == "float64" else {"rtol": 2e-3, "atol": 2e-3}
    np.testing.assert_allclose(value, log_total(model.evidence()), rtol=tight["rtol"] / 10)
    rng = np.random.default_rng(0)
    for place, (leaf, slope) in enumerate(zip(leaves, slopes, strict=True)):
        along = rng.normal(size=np.shape(leaf))
        if any(not domain.is_finite for domain in model.factor.inputs.values()):
            along = symmetric(along)
        ends = [[*leaves[:place], leaf + sign * 1e-5 * along, *leaves[place + 1 :]] for sign in (1, -1)]
        up, down = (log_total(at(end).evidence()) for end in ends)
        np.testing.assert_allclose((np.asarray(slope) * along).sum(), (up - down) / 2e-5, **tight)


def symmetric(matrix: np.ndarray) -> np.ndarray:
    """A precision moves along symmetric matrices: of each pair of elements either may carry the derivative."""
    square = matrix.ndim >= 2 and matrix.shape[-1] == matrix.shape[-2]
    return (matrix + np.swapaxes(matrix, -1, -2)) / 2 if square else matrix
