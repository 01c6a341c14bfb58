"""Every engine by name against the rules in double precision, under one list of conditions.

What an engine does not serve, it refuses with an error that names the step. The engines' own files have larger and
random cases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini.engines.choice import ENGINES
from fubini.errors import DomainError, EngineError
from fubini.sequence import method

TOLERANCE = {"float32": 2e-4, "float64": 1e-10}
Answers = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """One condition: how far log-weights are apart, whether there are zeros, and sizes of variables and of a batch."""

    spread: float = 1.0
    zeros: bool = False
    size: int = 2
    batch: int = 3

    def logs(self, random: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Log-weights of a table in numbers of this precision; its first cell is not zero."""
        logs = self.spread * (random.random(shape) - 0.5)
        if self.zeros and logs.size > 1:
            logs = np.where(random.random(shape) < 0.3, -np.inf, logs)
            logs.flat[0] = 0.0
        return logs.astype(dtype)


CASES = {
    "plain": Case(),
    "zeros": Case(zeros=True),
    "2,000 nats apart": Case(spread=2000.0),
    "zeros, 2,000 nats apart": Case(spread=2000.0, zeros=True),
    "sizes of one": Case(size=1, batch=1),
}


# -- the same questions to rules and engines ------------------------------------------------------------------------


def tables(case: Case, array: Callable, dtype: str) -> Answers:
    """A triangle of tables, one of them over a batch, and a constant: sums, maxima and marginals."""
    random, sizes = np.random.default_rng(1), {**dict.fromkeys("abc", case.size), "p": case.batch}
    factors = [
        fb.Table.from_log(array(case.logs(random, tuple(sizes[name] for name in scope), dtype)), tuple(scope))
        for scope in ("a", "ab", "bcp", "ca", "")
    ]
    answers = {
        "sum": log_of(fb.eliminate(factors, ("a", "b", "c"))),
        "maximum": log_of(fb.eliminate(factors, ("a", "b", "c"), semiring=fb.max_product)),
        "sum that keeps a": log_of(fb.eliminate(factors, ("b", "c", "p"))),
    }
    beliefs = fb.marginals(factors, tuple("abcp"))
    return answers | {f"marginal of {name}": np.exp(log_of(belief)) for name, belief in beliefs.items()}


def chains(case: Case, array: Callable, dtype: str) -> Answers:
    """A chain of tables, one of them over a batch: evidence, and states given everything."""
    random, size = np.random.default_rng(2), case.size
    shapes = {("x",): (size,), ("x", "y"): (size, size), ("t", "y", "p"): (2 * size - 1, size, case.batch)}
    start, moves, seen = (
        fb.Table.from_log(array(case.logs(random, shape, dtype)), scope) for scope, shape in shapes.items()
    )
    chain = fb.Chain(init=start, factor=moves * seen, time="t", step={"x": "y"})
    smooth = chain.smooth()
    beliefs = {"after": smooth, "first": smooth.initial}
    return {"evidence": log_of(chain.evidence())} | {name: np.exp(log_of(each)) for name, each in beliefs.items()}


def gaussians(case: Case, array: Callable, dtype: str) -> Answers:
    """A chain of Gaussians, a variable without entries, a constant: sums, maxima and moments; precisions far apart."""
    random = np.random.default_rng(3)
    names = [f"x{k}" for k in range(2 if case.size == 1 else 14)]
    scales = np.exp(np.sqrt(case.spread) / 5 * (random.random(len(names)) - 0.5))  # 2,000 nats: e⁹ between deviations
    factors: list[fb.Factor] = [
        fb.Gaussian(inputs={name: fb.Real}, info=array([0.3]), precision=array([[1 / scale]]))
        for name, scale in zip(names, scales, strict=True)
    ]
    couplings = array(np.array([[1.0, -0.8], [-0.8, 1.0]], dtype))
    factors += [
        fb.Gaussian(inputs={one: fb.Real, two: fb.Real}, info=array([0.0, 0.1]), precision=couplings)
        for one, two in pairwise(names)
    ]
    factors.append(
        fb.Gaussian(inputs={"none": fb.Reals[0]}, info=array(np.zeros(0)), precision=array(np.zeros((0, 0))))
    )
    factors.append(fb.Table.from_log(array(np.asarray(case.spread, dtype))))
    mass = [*factors, fb.Table(0.0)] if case.zeros else factors
    every = [*names, "none"]
    answers = {
        "sum": fb.eliminate(mass, every).log().array,
        "maximum": fb.eliminate(mass, every, semiring=fb.max_product).log().array,
    }
    for name, belief in fb.marginals(factors, every).items():
        answers |= {f"{moment} of {name}": getattr(belief, moment)(name) for moment in ("mean", "covariance")}
    return {name: np.asarray(getattr(answer, "data", answer)) for name, answer in answers.items()}


def log_of(factor: fb.Factor) -> np.ndarray:
    """The logarithms of its weights, the axes in order of their names."""
    log = factor.log()
    return np.transpose(np.asarray(log.array), [log.names.index(name) for name in sorted(log.names)])


class Asked(NamedTuple):
    """The questions to an engine, and the arrays that it takes."""

    questions: Callable[[Case, Callable, str], Answers]
    array: Callable


ASKED = {
    "flat": Asked(tables, np.asarray),
    "scan": Asked(tables, jnp.asarray),
    "kernel": Asked(chains, jnp.asarray),
    "sparse": Asked(gaussians, np.asarray),
}


def test_every_engine_is_asked() -> None:
    assert set(ASKED) == set(ENGINES) - {"rules"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("engine", ASKED)
def test_the_numbers_are_those_of_the_rules(
    engine: str, dtype: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(method, "has_gpu", lambda leaves=(): True)  # kernels are interpreted
    asked, tolerance = ASKED[engine], TOLERANCE[dtype]
    with fb.engine("rules"):
        expected = asked.questions(CASES[case], lambda data: np.asarray(np.asarray(data, dtype), "float64"), dtype)
    with fb.engine(engine), jax.enable_x64(dtype == "float64"):
        found = asked.questions(CASES[case], lambda data: asked.array(np.asarray(data, dtype)), dtype)
    assert list(found) == list(expected)
    for name, answer in expected.items():
        assert found[name].shape == answer.shape, name
        np.testing.assert_allclose(found[name], answer, rtol=tolerance, atol=tolerance, err_msg=name)


def test_a_plate_without_entries_is_refused_when_it_is_made() -> None:
    for engine in ENGINES:
        with fb.engine(engine), pytest.raises(DomainError, match="a size of at least 1"):
            fb.Table(np.zeros((2, 0)), ("a", "p"))


@pytest.mark.parametrize("engine", ["flat", "scan", "sparse"])
def test_a_step_that_an_engine_does_not_serve_is_named(engine: str) -> None:
    """A plate that is multiplied out, and a batch of Gaussians; what kernels do not serve is in their own tests."""
    asked: dict[str, Any] = {"sum": {"a": ("p",)}, "plates": ("p",)}
    factor: fb.Factor = fb.Table(ASKED[engine].array(np.ones((2, 3))), ("a", "p"))
    step = "multipl(y|ies) out"
    if engine == "sparse":
        inputs = {"p": fb.Bint[2], "x": fb.Real}
        factor, asked = fb.Gaussian(info=np.ones((2, 1)), precision=np.ones((2, 1, 1)), inputs=inputs), {"sum": ("x",)}
        step = r"the factor Gaussian\(p: Bint\[2\], x: Real\)"
    with fb.engine(engine), pytest.raises(EngineError, match=step) as raised:
        fb.eliminate([factor, factor], **asked)
    assert "expected:" in str(raised.value) and "to do:" in str(raised.value)
