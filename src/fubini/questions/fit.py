"""Learning parameters by gradient: maximum likelihood, or the likelihood with latent sites summed out (type II)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from fubini.base.arrays import Data, is_jax, precision
from fubini.errors import DataError, DomainError
from fubini.models.arguments import named_params
from fubini.models.joint import Conditioned
from fubini.models.options import require_options
from fubini.models.param import Param
from fubini.show.printed_form import Block, Shown, Words, display_form, print_form
from fubini.terms.numbers import shown_array
from fubini.terms.value import Value

REPORTS = 20  # how often progress is shown
SHOWN = 6  # parameters in the printed form


class Fitted(NamedTuple):
    """The model with its parameters learnt, and the objective before each step."""

    model: Any
    objective: np.ndarray

    @property
    def params(self) -> dict[str, np.ndarray]:
        """What was learnt, by the names of the model function's arguments; other parameters by number, from 0 on."""
        names = {id(one): name for name, one in named_params(self.model).items()}
        return {names.get(id(one), f"{place}"): one.value for place, one in enumerate(params(self.model))}

    def _form(self) -> Iterator[Block]:
        first, last = self.objective[0], self.objective[-1]
        yield Words(f"fitted in {len(self.objective)} steps, objective {first:.6g} → {last:.6g}")
        yield from (
            Words(f"{name} = {shown_array(np.asarray(one.value))}")
            for name, one in list(named_params(self.model).items())[:SHOWN]
        )
        yield from self.model._form() if isinstance(self.model, Shown) else [Words(repr(self.model))]

    def __repr__(self) -> str:
        return print_form(self)

    def _repr_html_(self) -> str:
        return display_form(self)


def fit(
    model: Any,
    objective: Callable[[Any], Any] | None = None,
    *,
    steps: int = 1000,
    optimizer: Any = None,
    progress: bool = True,
    **options: Any,
) -> Fitted:
    """The model with each `fb.param` in it moved to raise the objective.

    Without an objective this is the log-density of a joint whose sites are all observed, or its evidence, with the
    other sites summed out exactly. The optimizer is optax's; Adam with a rate of 0.05 unless given.

    >>> from fubini import dist
    >>> data = np.array([1.0, 2.0, 3.0])
    >>> model = fb.JointNamed(dict(x=dist.Normal(fb.param(0.0), fb.param(1.0, fb.Positive)).expand([3])))
    >>> fitted = fit(model.condition(x=data), steps=400, progress=False)
    >>> [round(float(value), 3) for value in fitted.params.values()]
    [2.0, 0.816]
    """
    require_options("fit", options, ("objective", "steps", "optimizer", "progress"))
    learnt = params(model)
    if not learnt:
        raise DomainError(
            f"fitting {model}", expected="at least one parameter", advice="mark it: fb.param(1.0, fb.Positive)"
        )
    if not isinstance(steps, (int, np.integer)) or steps < 1:
        raise DomainError(f"fitting in {steps!r} steps", expected="a positive whole number")
    import optax

    goal = _default_objective(model) if objective is None else objective
    float64 = not any(map(is_jax, jax.tree_util.tree_leaves(model)))
    with precision(float64):
        values, history = _climbed(model, goal, steps, optimizer or optax.adam(0.05), progress)
    if float64:
        values = jax.tree_util.tree_map(np.asarray, values)
    return Fitted(_with_params(model, values), np.asarray(history))


def params(model: Any) -> list[Param]:
    """The parameters of a model, in order."""
    leaves = jax.tree_util.tree_leaves(model, is_leaf=lambda item: isinstance(item, Param))
    return [leaf for leaf in leaves if isinstance(leaf, Param)]


def _with_params(model: Any, free: list[Data]) -> Any:
    """The model with other unconstrained numbers."""
    numbers = iter(free)
    leaves, tree = jax.tree_util.tree_flatten(model, is_leaf=lambda item: isinstance(item, Param))
    new = [leaf.rebuilt(iter([next(numbers)])) if isinstance(leaf, Param) else leaf for leaf in leaves]
    return jax.tree_util.tree_unflatten(tree, new)


def _default_objective(model: Any) -> Callable[[Any], Any]:
    if not isinstance(model, Conditioned):
        raise DomainError(
            f"fitting {model} without data",
            expected="a conditioned joint, or an objective",
            advice="fb.fit(model.condition(x=data)), or fb.fit(model, lambda model: model.log_prob(x=data).sum())",
        )
    return Conditioned.log_evidence if model.outline.free else Conditioned.log_prob


def _climbed(model: Any, goal: Callable, steps: int, optimizer: Any, progress: bool) -> tuple[list[Data], list[float]]:
    import optax

    free = [jnp.asarray(param.free) for param in params(model)]

    def loss(free: list[Data]) -> Data:
        goal_value = goal(_with_params(model, free))
        return -jnp.asarray(goal_value.data if isinstance(goal_value, Value) else goal_value)

    @partial(jax.jit, static_argnums=2)
    def climb(free: list[Data], state: Any, count: int) -> Any:
        def step(carry: Any, _: None) -> Any:
            free, state = carry
            value, slope = jax.value_and_grad(loss)(free)
            change, state = optimizer.update(slope, state, free)
            return (optax.apply_updates(free, change), state), -value

        return jax.lax.scan(step, (free, state), length=count)

    state, history = optimizer.init(free), []
    every = max(1, steps // REPORTS)
    with tqdm(total=steps, disable=not progress, desc="fit", unit="step") as bar:
        while len(history) < steps:
            count = min(every, steps - len(history))
            (free, state), values = climb(free, state, count)
            history.extend(np.asarray(values).tolist())
            if not np.isfinite(history[-1]):
                raise DataError(
                    f"fitting, at step {len(history)}: the objective is {history[-1]}",
                    expected="a finite objective",
                    advice="start nearer to the data, or give an optimizer with a smaller rate",
                )
            bar.update(count)
            bar.set_postfix(objective=f"{history[-1]:.6g}")
    return free, history
