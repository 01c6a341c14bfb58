"""Learning parameters by gradient: maximum likelihood, or the likelihood with latent sites summed out (type II)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from tqdm.auto import tqdm

from fubini.base.arrays import Data, is_jax, precision
from fubini.base.captured_arrays import jit_over
from fubini.distributions.array_distribution import log_density
from fubini.distributions.density import Distribution
from fubini.errors import DataError, DomainError, UnknownName, closest, listed
from fubini.models.arguments import named_params
from fubini.models.joint import Conditioned
from fubini.models.learnt import params, with_free
from fubini.models.options import require_options
from fubini.questions.maximise_expectation import fit_by_em
from fubini.questions.stochastic_em import fit_by_stochastic_em
from fubini.sequence.chain import Chain
from fubini.show.printed_form import Block, Shown, Words, display_form, print_form
from fubini.terms.value import Value, to_array

REPORTS = 20  # how often progress is shown
SHOWN = 6  # parameters in the printed form


@dataclass(frozen=True)
class Fitted:
    """The model with its parameters learnt, and the objective before each step; `model, history = fb.fit(…)` too."""

    model: Any
    history: np.ndarray
    errors: dict[str, np.ndarray] | None = None  # standard errors of `params`, where rows were drawn by chance

    def __iter__(self) -> Iterator[Any]:
        yield self.model
        yield self.history

    @property
    def params(self) -> dict[str, np.ndarray]:
        """What was learnt, by the names of the parameters or of the model function's arguments; others by number."""
        return dict(zip(_names(self.model), (one.value for one in params(self.model)), strict=True))

    def _form(self) -> Iterator[Block]:
        first, last = self.history[0], self.history[-1]
        count = f"{len(self.history)} step{'s' * (len(self.history) != 1)}"
        yield Words(f"fitted in {count}, objective {first:.6g} → {last:.6g}")
        named = [(n, one) for n, one in zip(_names(self.model), params(self.model), strict=True) if not n.isdigit()]
        yield from (Words(f"{name} = {one.printed}") for name, one in named[:SHOWN])
        if len(named) > SHOWN:
            yield Words(f"… and {len(named) - SHOWN} more in `params`")
        yield from self.model._form() if isinstance(self.model, Shown) else [Words(repr(self.model))]

    def __repr__(self) -> str:
        return print_form(self)

    def _repr_html_(self) -> str:
        return display_form(self)


def fit(
    model: Any,
    objective: Callable[[Any], Any] | None = None,
    *,
    method: str = "gradient",
    steps: int = 1000,
    optimizer: Any = None,
    prior: Mapping[str, Distribution] | None = None,
    tolerance: float = 1e-10,
    batch: int | None = None,
    key: Data | None = None,
    progress: bool = True,
    **options: Any,
) -> Fitted:
    """The model, or `fb.Chain`, with each `fb.param` in it moved to raise the objective.

    Without an objective this is the log-density of a joint whose sites are all observed, or its evidence, with the
    other sites summed out exactly, and the log-density of a prior of parameters by name. By gradient the optimizer is
    optax's; Adam with a rate of 0.05 unless given. `method="em"` is expectation–maximisation, for latents whose
    expected statistics have a closed form (tables, Gaussians and chains of them): no step lowers the objective, and it
    ends where one gains no more than the tolerance, relatively. With `batch=` and a key it takes so many rows of a
    plate at a time; `errors` are then the standard errors of what the whole plate would give.

    >>> from fubini import dist
    >>> data = np.array([1.0, 2.0, 3.0])
    >>> model = fb.JointNamed(dict(x=dist.Normal(fb.param(0.0), fb.param(1.0, fb.Positive)).expand([3])))
    >>> fitted = fit(model.condition(x=data), steps=400, progress=False)
    >>> [round(float(value), 3) for value in fitted.params.values()]
    [2.0, 0.816]
    """
    known = ("objective", "method", "steps", "optimizer", "prior", "tolerance", "batch", "key", "progress")
    require_options("fit", options, known)
    _require_sound(model, method, objective is not None or optimizer is not None, steps, batch, key)
    log_prior, errors = _log_prior(model, prior or {}), None
    float64 = not any(map(is_jax, jax.tree_util.tree_leaves(model)))
    with precision(float64):
        if method == "gradient":
            free, history = _fit_by_gradient(model, _goal(model, objective, log_prior), steps, optimizer, progress)
        elif batch is None:
            free, history = fit_by_em(model, log_prior, steps, tolerance, progress)
        else:
            free, history, spread = fit_by_stochastic_em(model, log_prior, steps, batch, key, progress)
            errors = {name: np.asarray(each) for name, each in zip(_names(model), spread, strict=True)}
    if float64:
        free = jax.tree_util.tree_map(np.asarray, free)
    return Fitted(with_free(model, free), np.asarray(history), errors)


def _require_sound(model: Any, method: str, has_goal: bool, steps: Any, batch: Any, key: Any) -> None:
    """Raise where there is nothing to learn, or a method is asked for what it does not take."""
    if not params(model):
        raise DomainError(
            f"fitting {model}", expected="at least one parameter", advice="mark it: fb.param(1.0, fb.Positive)"
        )
    if not isinstance(steps, (int, np.integer)) or steps < 1:
        raise DomainError(f"fitting in {steps!r} steps", expected="a positive whole number")
    if method not in ("gradient", "em"):
        raise DomainError(f"fitting by method={method!r}", expected="'gradient' or 'em'")
    if method == "em" and has_goal:
        raise DomainError(
            "fitting by expectation–maximisation with an objective or an optimizer",
            expected="neither: it raises the evidence, by steps of its own",
            advice='method="gradient" takes both',
        )
    if (batch is None) != (key is None) or (batch is not None and method != "em"):
        raise DomainError(
            f"fitting by method={method!r} with batch={batch!r} and key={key!r}",
            expected='both, for method="em", or neither: rows are drawn by chance',
            advice='fb.fit(post, method="em", batch=1000, key=jax.random.key(0))',
        )


def _names(model: Any) -> list[str]:
    """The names of the parameters, in order."""
    names = {id(one): name for name, one in named_params(model).items()}
    return [one.name or names.get(id(one), f"{place}") for place, one in enumerate(params(model))]


def _log_prior(model: Any, prior: Mapping[str, Distribution]) -> Callable[[Sequence[Data]], Data]:
    """log p of the values of all parameters, in order."""
    names = _names(model)
    for name in prior:
        if name not in names:
            raise UnknownName(
                f"a prior of the parameter {name!r}", expected=f"one of {listed(names)}", nearest=closest(name, names)
            )

    def log_prior(values: Sequence[Data]) -> Data:
        own = dict(zip(names, values, strict=True))
        return sum((jnp.sum(log_density(prior[name], own[name])) for name in prior), start=jnp.zeros(()))

    return log_prior


def _goal(model: Any, objective: Callable | None, log_prior: Callable) -> Callable[[Any], Any]:
    """The objective of a model with its parameters, and their prior."""
    goal = _default_objective(model) if objective is None else objective

    def whole(model: Any) -> Data:
        own = goal(model)
        return jnp.asarray(own.data if isinstance(own, Value) else own) + log_prior([p.value for p in params(model)])

    return whole


def _default_objective(model: Any) -> Callable[[Any], Any]:
    if isinstance(model, Chain):
        return lambda chain: jnp.sum(jnp.asarray(to_array(chain.log_evidence()).array))
    if not isinstance(model, Conditioned):
        raise DomainError(
            f"fitting {model} without data",
            expected="a conditioned joint, or an objective",
            advice="fb.fit(model.condition(x=data)), or fb.fit(model, lambda model: model.log_prob(x=data).sum())",
        )
    return Conditioned.log_evidence if model.outline.free else Conditioned.log_prob


def _fit_by_gradient(
    model: Any, goal: Callable, steps: int, optimizer: Any, progress: bool
) -> tuple[list[Data], list[float]]:
    import optax

    optimizer = optimizer or optax.adam(0.05)

    free = [jnp.asarray(param.free) for param in params(model)]

    def loss(free: list[Data]) -> Data:
        return -goal(with_free(model, free))

    def step(carry: Any, _: None) -> Any:
        free, state = carry
        value, slope = jax.value_and_grad(loss)(free)
        change, state = optimizer.update(slope, state, free)
        return (optax.apply_updates(free, change), state), -value

    @cache
    def climb(count: int) -> Callable[[list[Data], Any], Any]:
        return jit_over(model)(lambda free, state: jax.lax.scan(step, (free, state), length=count))

    state, history = optimizer.init(free), []
    every = max(1, steps // REPORTS)
    with tqdm(total=steps, disable=not progress, desc="fit", unit="step") as bar:
        while len(history) < steps:
            count = min(every, steps - len(history))
            (free, state), values = climb(count)(free, state)
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
