"""Representations that are named are obeyed or refused, never dropped: nested ones, and in every door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

KEY = jax.random.key(0)
x, x_next, g = (fb.Variable(name, fb.Real) for name in ("x", "x_next", "g"))
y = fb.Array(np.array([0.3, -0.4]), ("t",))
STEP = dist.Normal(0.9 * x, 0.5)("x_next") * dist.Normal(x_next, 0.7)(y)
CHAIN = fb.Chain(init=dist.Normal(0.0, 1.0)("x"), factor=STEP, time="t", step={"x": "x_next"})
OF_STEPS = [fb.rep.Truncated(), fb.rep.Mixture(2), fb.rep.Grid((-6, 6), 60), fb.rep.Particles(5, KEY)]
FACTORS = [dist.Normal(0.0, 1.0)("x"), dist.Normal(x, 1.0)(0.3)]
QUESTIONS: dict[str, Callable[[], Any]] = {
    "eliminate": lambda: fb.eliminate(FACTORS, ("x",)),
    "marginals": lambda: fb.marginals(FACTORS, ("x",)),
    "argmax": lambda: fb.argmax(FACTORS, ("x",)),
    "sample": lambda: fb.sample(KEY, FACTORS, ("x",)),
}


def test_one_that_was_made_outside_adds_to_those_in_force() -> None:
    made = fb.represent(x=fb.rep.Truncated())
    with fb.represent(z=fb.rep.Truncated()), made, pytest.raises(fb.FubiniError, match=r"(?s)z=.*variables of it: 'x'"):
        CHAIN.log_evidence()
    with fb.represent(x=fb.rep.Mixture(2)), pytest.raises(fb.FubiniError, match="one representation for a variable"):
        made.__enter__()
    with made, made:
        assert CHAIN.log_evidence().exactness.marks == ("projected(Truncated())",)


def test_one_that_was_made_inside_is_not_bound_to_where_it_was_made() -> None:
    with fb.represent(z=fb.rep.Truncated()):
        made = fb.represent(x=fb.rep.Truncated())
    with made:
        CHAIN.log_evidence()


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("rep", OF_STEPS, ids=repr)
def test_questions_to_factors(rep: Any, question: str) -> None:
    with fb.represent(x=rep), pytest.raises(fb.FubiniError, match=r"(?s)representations of tables.*ask fb\.Chain"):
        QUESTIONS[question]()


def test_markov() -> None:
    def ask(rep: Any) -> Any:
        with fb.represent(x=rep):
            return fb.eliminate([CHAIN.init, fb.markov(STEP, time="t", step={"x": "x_next"})], ("x", "x_next")).log()

    answer = ask(fb.rep.Truncated())
    assert float(answer) == pytest.approx(float(CHAIN.log_evidence()))
    with pytest.raises(fb.FubiniError, match=r"(?s)fb\.markov under represent\(x=Grid.*ask fb\.Chain"):
        ask(fb.rep.Grid((-6, 6), 60))


def test_integer_sites_that_are_written_out() -> None:
    @fb.model
    def switches() -> Any:
        z0 = yield dist.Bernoulli(0.4)
        yield dist.Normal(1.0 * z0, 0.5).named("y0")
        z1 = yield dist.Bernoulli(jnp.where(z0 == 1, 0.8, 0.3))
        yield dist.Normal(1.0 * z1, 0.5).named("y1")
        z2 = yield dist.Bernoulli(jnp.where(z1 == 1, 0.8, 0.3))
        yield dist.Normal(1.0 * z2, 0.5).named("y2")

    post = switches().condition(y0=0.3, y1=-0.2, y2=0.5)
    with fb.represent(z=fb.rep.Particles(2000, KEY)):
        answer = post.log_evidence()
    assert answer.exactness.marks == ("estimated(2000)",)
    assert float(answer) == pytest.approx(float(post.log_evidence()), abs=0.1)


def test_a_network() -> None:
    network = fb.Network({"a": fb.Bint[2]}, (fb.Table([0.25, 0.75], ("a",)),))
    with fb.represent(a=fb.rep.Particles(5, KEY)), pytest.raises(fb.FubiniError, match="representations of tables"):
        network.log_evidence()


# -- beside a grid ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rep", [fb.rep.Sparse(8), fb.rep.Particles(5, KEY), fb.rep.Diagram()], ids=repr)
def test_beside_a_grid(rep: Any) -> None:
    push = fb.Array(np.array([0.5, -0.5]), ("s",))
    step = dist.Normal(0.9 * x + push, 0.5)("x_next") * fb.Table([[0.9, 0.1], [0.2, 0.8]], ("s", "s_next"))
    init = dist.Normal(0.0, 1.0)("x") * fb.Table([0.5, 0.5], ("s",))
    chain = fb.Chain(init=init, factor=step, time="t", step={"x": "x_next", "s": "s_next"}, length=2)
    grid = fb.rep.Grid((-6, 6), 60)
    with fb.represent(x=grid, s=rep), pytest.raises(fb.FubiniError, match=r"s=.* beside fb\.rep\.Grid"):
        chain.log_evidence()
    with fb.represent(x=grid, s=fb.rep.Dense()):
        assert float(chain.log_evidence()) == pytest.approx(0.0, abs=1e-6)


def test_a_variable_of_all_steps_on_a_grid() -> None:
    step = dist.Normal(0.9 * x + g, 0.5)("x_next") * dist.Normal(x_next, 0.7)(y)
    parts: dict[str, Any] = {"init": dist.Normal(0.0, 1.0)("x") * dist.Normal(0.0, 0.5)("g"), "factor": step}
    chain = fb.Chain(**parts, time="t", step={"x": "x_next"}, sum=("g",))
    exact = chain.final().sum("x")
    with fb.represent(x=fb.rep.Grid((-6, 6), 80), g=fb.rep.Grid((-4, 4), 60)):
        assert float(chain.log_evidence()) == pytest.approx(float(log_evidence(chain)), abs=1e-6)
        own = chain.final().sum("x")
        assert float(own.mean("g")) == pytest.approx(float(exact.mean("g")), abs=1e-6)
        assert float(own.variance("g")) == pytest.approx(float(exact.variance("g")), abs=1e-6)
        free = fb.Chain(**parts, time="t", step={"x": "x_next"})
        with pytest.raises(fb.FubiniError, match=r"sum=\('g',\)"):
            free.log_evidence()
    with (
        fb.represent(x=fb.rep.Grid((-6, 6), 80), g=fb.rep.Grid((-1, 1), 60)),
        pytest.raises(fb.FubiniError, match=r"(?s)a grid of 'g'.*make the grid wider"),
    ):
        chain.log_evidence()
    with fb.represent(x=fb.rep.Grid((-6, 6), 80)), pytest.raises(fb.FubiniError, match="a grid for 'g' too"):
        chain.log_evidence()


def log_evidence(chain: fb.Chain) -> Any:
    """Outside of all representations."""
    with fb.exact:
        return chain.log_evidence()


# -- beside particles -------------------------------------------------------------------------------------------------


def test_sparse_states_beside_particles() -> None:
    init = fb.Table([0.5, 0.5], ("a",)) * fb.Table([0.5, 0.5], ("b",))
    moves = fb.Table([[0.7, 0.3], [0.4, 0.6]], ("a", "a_next")) * fb.Table([[0.5, 0.5], [0.2, 0.8]], ("b", "b_next"))
    step = moves * fb.Table([[0.9, 0.1], [0.2, 0.8]], ("a_next", "b_next"))
    chain = fb.Chain(init=init, factor=step, time="t", step={"a": "a_next", "b": "b_next"}, length=2)
    exact = chain.filter().mean("b_next").data
    with fb.represent(a=fb.rep.Particles(400, KEY), b=fb.rep.Sparse(10)):
        answer, evidence = chain.filter().mean("b_next").data, chain.log_evidence()
    assert answer == pytest.approx(exact, abs=0.05)
    assert float(evidence) == pytest.approx(float(chain.log_evidence()), abs=0.05)


def test_a_method_of_a_factor_is_as_the_question() -> None:
    factors = [CHAIN.init, fb.markov(STEP, time="t", step={"x": "x_next"})]
    with fb.represent(x=fb.rep.Particles(50, KEY)):
        by_method = (factors[0] * factors[1]).sum("x", "x_next").log()
        by_question = fb.eliminate(factors, ("x", "x_next")).log()
    assert float(by_method) == pytest.approx(float(by_question))


def test_explanations_have_the_plan_of_a_step() -> None:
    with fb.represent(x=fb.rep.Truncated()):
        assert "each step is" in str(CHAIN.explain())
