"""NumPyro's model functions as joints: each `sample` statement is a site."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as numpyro_families
from numpyro.primitives import Messenger

from fubini.arrays import Data, is_traced
from fubini.dist.convert import from_numpyro_law
from fubini.errors import DomainError, NoRule
from fubini.joint.closure import Closure
from fubini.joint.flavour import UNKNOWN_WHEN_TRACED, Sites, decided_by_value
from fubini.joint.joint import Conditioned, Joint
from fubini.joint.run import Blank, Choice, Deterministic, Run, Site


def from_numpyro(model: Callable, *args: Any, **kwargs: Any) -> Joint:
    """A NumPyro model at these arguments as a joint; sites observed inside it are conditioned on.

    >>> import numpyro, numpyro.distributions as nd
    >>> def model(y=None):
    ...     m = numpyro.sample("m", nd.Normal(0.0, 1.0))
    ...     numpyro.sample("y", nd.Normal(m, 1.0), obs=y)
    >>> round(float(from_numpyro(model, 0.5).log_prob(m=0.0)), 6)
    -1.962877
    """
    if not callable(model):
        raise DomainError(f"from_numpyro({model!r})", expected="a NumPyro model function")
    closure = Closure(functools.partial(model, *args, **kwargs))
    observed: dict[str, Data] = {}
    jax.eval_shape(lambda: _visited(closure, Blank(), observed=observed) and None)
    given = jax.tree_util.tree_leaves(closure)
    known = {n: v for n, v in observed.items() if not is_traced(v) or any(v is leaf for leaf in given)}
    joint = NumPyroModel(closure, tuple(known))
    return Conditioned(joint, known) if known else joint


@jax.tree_util.register_pytree_node_class
class NumPyroModel(Joint):
    """A model function; the data of the sites in `released` are handed to it from outside."""

    def __init__(self, closure: Closure, released: tuple[str, ...] = ()) -> None:
        self.closure, self.released = closure, released

    def sites(self) -> Sites:
        raise NoRule("the sites of a NumPyro model one by one", expected="`run`, which visits them as the model runs")

    def unflatten(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(values)

    def run(self, choice: Choice) -> Run:
        return _visited(self.closure, choice, self.released)

    def tree_flatten(self) -> tuple[tuple, tuple[str, ...]]:
        return (self.closure,), self.released

    @classmethod
    def tree_unflatten(cls, released: tuple[str, ...], children: tuple) -> NumPyroModel:
        new = object.__new__(cls)
        new.closure, new.released = children[0], released
        return new


def _visited(
    closure: Closure, choice: Choice, released: tuple[str, ...] = (), observed: dict[str, Data] | None = None
) -> Run:
    visitor = Visitor(choice, released, observed)
    try:
        with visitor:
            closure.function()
    except UNKNOWN_WHEN_TRACED as error:
        raise decided_by_value("a NumPyro model", visitor.found, error) from error
    return Run(tuple(visitor.found))


class Visitor(Messenger):
    """Values for the sites of a model as it runs."""

    def __init__(self, choice: Choice, released: tuple[str, ...], observed: dict[str, Data] | None) -> None:
        super().__init__()
        self.choice, self.released, self.observed = choice, released, observed
        self.found: list[Site] = []
        self.count = 0

    def process_message(self, msg: Any) -> None:
        """One statement of the model."""
        self.count += 1
        handle = getattr(self, f"_{msg['type']}", None)
        if handle is None:
            raise NoRule(
                f"numpyro's {msg['type']!r} in a model",
                expected="sample, plate, deterministic, factor, mask, scale, param and scan",
            )
        handle(msg)

    def _sample(self, msg: Any) -> None:
        law, name = msg["fn"], msg["name"]
        if isinstance(law, numpyro_families.Unit):
            self.found.append(Site(name, law, None, _scaled(msg["scale"], lambda: jnp.sum(law.log_factor))))
            return
        if msg["is_observed"] and self.observed is not None:
            self.observed[name] = msg["value"]
        if _is_weighed_by_element(msg["scale"]):
            raise NoRule(f"the scale of the site {name!r}, an array", expected="one number for a site")
        if msg.get("kwargs", {}).get("sample_shape"):
            law = law.expand(tuple(msg["kwargs"]["sample_shape"]) + law.batch_shape)
            msg["kwargs"]["sample_shape"] = ()
        source = from_numpyro_law(law)
        if msg["is_observed"] and name not in self.released:
            value, density, seen = (*self.choice.met(name, source, msg["value"])[:2], True)
        elif msg["value"] is not None and not msg["is_observed"]:  # found inside a scan
            value, density, seen = self.choice.met(name, source, msg["value"])
        else:
            value, density, seen = self.choice.at(self.count, name, source)
        msg["value"] = value
        self.found.append(Site(name, source, value, _scaled(msg["scale"], density), observed=seen))

    def _deterministic(self, msg: Any) -> None:
        self.found.append(Site(msg["name"], Deterministic(msg["value"]), msg["value"]))

    def _plate(self, msg: Any) -> None:
        if msg["value"] is None and msg["kwargs"].get("rng_key") is None and msg["args"][0] != msg["args"][1]:
            raise DomainError(
                f"the plate {msg['name']!r}, which takes a subsample at random",
                expected="a subsample that is the same in every run",
                advice="fix it with numpyro.handlers.seed(model, 0), or give the plate its indices",
            )

    def _param(self, msg: Any) -> None:
        """At its initial value."""

    def _control_flow(self, msg: Any) -> None:
        key, find = self.choice.series(self.count)
        if msg["kwargs"]["rng_key"] is None:
            msg["kwargs"]["rng_key"] = key
        msg["kwargs"]["substitute_stack"].append(("substitute", find))


def _scaled(scale: Any, density: Callable[[], Data]) -> Callable[[], Data]:
    return density if scale is None else lambda: scale * density()


def _is_weighed_by_element(scale: Any) -> bool:
    return scale is not None and jnp.ndim(scale) > 0
