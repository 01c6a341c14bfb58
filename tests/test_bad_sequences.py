"""Bad sequences, projections and keys: what was asked, what was expected, and what to do, in every message."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist

KEY = jax.random.key(0)
PI = fb.Table([0.5, 0.5], ("x",))
MOVE = fb.Table([[0.9, 0.1], [0.2, 0.8]], ("x", "x_next"))
STEP = MOVE * fb.Table(np.full((3, 2), 0.5), ("t", "x_next"))
x, x_next = fb.Variable("x", fb.Real), fb.Variable("x_next", fb.Real)
NORMAL = dist.Normal(0.0, 1.0)("x")
LINEAR = dist.Normal(0.9 * x, 1.0)("x_next") * dist.Normal(x_next, 1.0)(fb.Array(np.zeros(3), ("t",)))


def chain(**changed: Any) -> fb.Chain:
    return fb.Chain(**{"init": PI, "factor": STEP, "time": "t", "step": {"x": "x_next"}, **changed})


def markov(**changed: Any) -> fb.Factor:
    options = {"time": "t", "step": {"x": "x_next"}, **changed}
    return fb.markov(options.pop("factor", STEP), **options)


def domain_change() -> fb.Factor:
    return fb.Table(np.full((2, 3), 1.0), ("x", "x_next")) * fb.Table(np.ones(3), ("t",))


def nested_with_one_key(key: Any) -> None:
    with fb.monte_carlo(key, 10), fb.monte_carlo(key, 20):
        pass


def improper() -> fb.Factor:
    """A mixture with a component that has no moments: its precision is 0."""
    flat = fb.Gaussian(
        info=np.array([[0.0], [1.0]]),
        precision=np.array([[[0.0]], [[1.0]]]),
        inputs={"k": fb.Bint[2], "x": fb.Real},
    )
    with fb.moment_matching():
        return (flat * fb.Table([0.5, 0.5], ("k",))).sum("k")


def non_linear() -> fb.Chain:
    factor = dist.Normal(fb.ops.sin(x), 1.0)("x_next") * dist.Normal(x_next, 1.0)(fb.Array(np.zeros(3), ("t",)))
    return chain(init=NORMAL, factor=factor)


BAD: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    # the step map
    "step onto itself": (
        lambda: chain(step={"x": "x"}),
        ValueError,
        ["{'x': 'x'}", "one-to-one", "'x' stands there more than once", "another name"],
    ),
    "two states onto one": (
        lambda: chain(step={"x": "x_next", "y": "x_next"}),
        ValueError,
        ["one-to-one", "'x_next' stands there more than once", "to do:"],
    ),
    "a step onto itself of a Markov product": (lambda: markov(step={"x": "x"}), ValueError, ["one-to-one", "to do:"]),
    "groups of unequal size": (
        lambda: chain(step={("x", "y"): ("x_next",)}),
        TypeError,
        ["as many states after the step as before it", "2 before and 1 after"],
    ),
    "no mapping": (lambda: chain(step="x"), TypeError, ["the step 'x'", 'step={"x": "x_next"}']),
    "an empty step": (lambda: chain(step={}), TypeError, ["empty step", 'step={"x": "x_next"}']),
    "another domain after the step": (
        lambda: chain(factor=domain_change()),
        TypeError,
        ["'x' → 'x_next'", "one domain", "'x' is Bint[2]", "'x_next' is Bint[3]"],
    ),
    "another domain after the step of a Markov product": (
        lambda: markov(factor=domain_change()),
        TypeError,
        ["one domain", "Bint[2]", "Bint[3]"],
    ),
    "an unknown state": (
        lambda: chain(step={"state": "state_next"}),
        LookupError,
        ["'state' → 'state_next'", "states among the inputs", "'x_next'"],
    ),
    "an unknown state of a Markov product": (lambda: markov(step={"w": "w_next"}), LookupError, ["'w'", "'x_next'"]),
    # length and time
    "no length": (lambda: chain(factor=MOVE), TypeError, ["has no 't'", "length=", "length=10"]),
    "no length of a Markov product": (lambda: markov(factor=MOVE), TypeError, ["has no 't'", "length=10"]),
    "another length": (lambda: chain(length=4), TypeError, ["length=4", "3 steps", "the same number", "mask"]),
    "no steps": (lambda: chain(factor=MOVE, length=0), TypeError, ["length=0", "at least 1"]),
    "a fractional length": (lambda: chain(factor=MOVE, length=2.5), TypeError, ["length=2.5", "whole number"]),
    "a real time": (lambda: chain(time="x", factor=LINEAR, init=NORMAL), TypeError, ["'x'", "bounded integer"]),
    # the start
    "a start over the state after": (
        lambda: chain(init=fb.Table([0.5, 0.5], ("x_next",))),
        TypeError,
        ["starts from", "over 'x'", "not 'x_next'"],
    ),
    "a start over time": (lambda: chain(init=fb.Table(np.ones((3, 2)), ("t", "x"))), TypeError, ["not 't'"]),
    "a start over another domain": (
        lambda: chain(init=fb.Table(np.ones(3), ("x",))),
        TypeError,
        ["first 'x' is Bint[3]", "Bint[2]", "as in the step"],
    ),
    "a real start of a discrete chain": (lambda: chain(init=NORMAL), TypeError, ["first 'x' is Real", "Bint[2]"]),
    # globals and methods
    "an unknown global": (lambda: chain(sum=("bias",)), LookupError, ["sum='bias'", "neither a state nor the time"]),
    "a state as a global": (lambda: chain(sum=("x",)), LookupError, ["sum='x'", "neither a state nor the time"]),
    "time as a global": (lambda: chain(sum=("t",)), LookupError, ["sum='t'", "neither a state nor the time"]),
    "an unknown method": (
        lambda: chain(method="fast"),
        TypeError,
        ["method='fast'", "'sequential', 'parallel', 'chunks'", "None to choose"],
    ),
    "an unknown method of a Markov product": (
        lambda: markov(method="fast"),
        TypeError,
        ["method='fast'", "'sequential', 'parallel', 'chunks'"],
    ),
    "no factor": (lambda: fb.markov(3.0, time="t", step={"x": "x_next"}), TypeError, ["3.0", "a factor"]),
    "no key": (lambda: chain().sample(3), ValueError, ["the key 3", "JAX random key", "jax.random.key(0)"]),
    "no samples": (lambda: chain().sample(KEY, n=0), ValueError, ["n=0", "at least 1"]),
    # windows and projections
    "an empty window": (lambda: fb.moment_matching(window=0), TypeError, ["window=0", "at least 1", "forget"]),
    "a negative window": (lambda: fb.moment_matching(window=-2), TypeError, ["window=-2", "at least 1"]),
    "a fractional window": (lambda: fb.moment_matching(window=1.5), TypeError, ["window=1.5", "whole number"]),
    "a true window": (lambda: fb.moment_matching(window=True), TypeError, ["window=True", "whole number"]),
    "an improper component": (improper, ValueError, ["'x'", "expected:", "to do:"]),
    "a non-linear step": (
        lambda: non_linear().log_evidence(),
        ValueError,
        ["'x'", "real states linear in those before", "fb.monte_carlo", "not linear"],
    ),
    "a non-linear step, filtered": (
        lambda: non_linear().filter(),
        ValueError,
        ["real states linear in those before", "fb.monte_carlo"],
    ),
    # Monte Carlo
    "one key in two contexts": (
        lambda: nested_with_one_key(KEY),
        ValueError,
        ["monte_carlo(n=20) inside monte_carlo(n=10) with the same key", "a key for each context", "jax.random.split"],
    ),
    "no draws": (lambda: fb.monte_carlo(KEY, 0), ValueError, ["n=0", "at least 1"]),
    "fractional draws": (lambda: fb.monte_carlo(KEY, 2.5), ValueError, ["n=2.5", "whole number"]),
    "draws with a seed": (lambda: fb.monte_carlo(0, 10), ValueError, ["the key 0", "JAX random key", "key(0)"]),
    "draws with floats": (lambda: fb.monte_carlo(jnp.ones(2), 10), ValueError, ["JAX random key", "jax.random.key(0)"]),
    "draws with many keys": (
        lambda: fb.monte_carlo(jax.random.split(KEY, 3), 10),
        ValueError,
        ["JAX random key", "expected:"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_message(name: str) -> None:
    """The error is Fubini's, of the kind Python would raise, and says what was asked, expected and to be done."""
    ask, kind, words = BAD[name]
    with pytest.raises(fb.FubiniError) as caught:
        ask()
    assert isinstance(caught.value, kind)
    message = str(caught.value)
    assert "expected:" in message
    for word in words:
        assert word in message, message


def test_one_key_object_in_two_contexts_under_jit() -> None:
    """A traced key is told from another by the object: the error comes while tracing."""
    with pytest.raises(fb.FubiniError, match="with the same key"):
        jax.jit(nested_with_one_key)(KEY)


def test_the_same_context_entered_again_afterwards() -> None:
    """Contexts one after the other may share a key; only one inside of the other may not."""
    context = fb.monte_carlo(KEY, 10)
    with context:
        pass
    with context:
        pass


def test_a_good_chain_is_good() -> None:
    """What the bad ones were made of answers."""
    assert np.isfinite(float(chain().log_evidence()))
    assert np.isfinite(float(chain(factor=MOVE, length=3).log_evidence()))
    assert np.isfinite(float(chain(init=NORMAL, factor=LINEAR).log_evidence()))
