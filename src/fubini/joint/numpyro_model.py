"""NumPyro's model functions as joints: each `sample` statement is a site."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_families
from numpyro.primitives import Messenger

from fubini.arrays import Data, is_jax, is_traced
from fubini.closure import Closure
from fubini.dist.convert import from_numpyro_law
from fubini.dist.density import Distribution
from fubini.errors import DomainError, NoRule
from fubini.joint.flavour import Sites, decided_by_value, is_unknown_when_traced
from fubini.joint.joint import Conditioned, Joint
from fubini.joint.run import Blank, Choice, Chosen, Deterministic, Run, Site, missing


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
    known = _observations(closure)
    joint = NumPyroModel(closure, tuple(known))
    return Conditioned(joint, known) if known else joint


def _observations(closure: Closure) -> dict[str, Data]:
    """What a model observes, save what depends on its sites or is computed from tracers: that stays inside it."""
    given = jax.tree_util.tree_leaves(closure)
    is_wide = not any(map(is_jax, given))
    known: dict[str, Data] = {}
    for context in (nullcontext, jax.ensure_compile_time_eval):  # constants are computed only where data need it
        with jax.enable_x64(is_wide or jax.config.jax_enable_x64), context():  # type: ignore[attr-defined]
            found = _observed(closure)
        known = {n: v for n, v in found.items() if not is_traced(v) or any(v is leaf for leaf in given)}
        if len(known) == len(found):
            break
    return {name: np.asarray(value) for name, value in known.items()} if is_wide else known


def _observed(closure: Closure) -> dict[str, Data]:
    found: dict[str, Data] = {}

    def look(zero: Data, key: Data) -> None:
        NumPyroModel(closure).visit(Unknown(zero, key), found)

    jax.eval_shape(look, 0, jax.random.key(0))
    return found


class Unknown(Blank):
    """Zeros that are traced, so that what is computed from data alone can be told from what is not."""

    def __init__(self, zero: Data, key: Data) -> None:
        self.zero, self.key = zero, key

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        value, log_density, _ = super().at(place, name, source)
        return Chosen(value + self.zero, log_density)

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        return self.key, lambda site: None


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
        return self.visit(choice, {})

    def visit(self, choice: Choice, observed: dict[str, Data]) -> Run:
        """A run that also tells what the model observes."""
        visitor = Visitor(self, choice, observed)
        try:
            with visitor:
                self.closure.function()
        except (TypeError, IndexError) as error:
            if not is_unknown_when_traced(error):
                raise
            raise decided_by_value("a NumPyro model", visitor.found, error) from error
        except NotImplementedError as error:
            raise NoRule("a NumPyro model", expected=str(error)) from error
        return Run(tuple(visitor.found))

    def tree_flatten(self) -> tuple[tuple, tuple[str, ...]]:
        return (self.closure,), self.released

    @classmethod
    def tree_unflatten(cls, released: tuple[str, ...], children: tuple) -> NumPyroModel:
        new = object.__new__(cls)
        new.closure, new.released = children[0], released
        return new


class Visitor(Messenger):
    """Values for the sites of a model as it runs."""

    def __init__(self, joint: NumPyroModel, choice: Choice, observed: dict[str, Data]) -> None:
        super().__init__()
        self.joint, self.choice, self.observed = joint, choice, observed
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
        if msg["scale"] is not None and jnp.ndim(msg["scale"]) > 0:
            raise NoRule(f"the scale of the site {name!r}, an array", expected="one number for a site")
        if _is_factor(law):
            self._add(Site(name, law, None, _scaled(msg["scale"], lambda: jnp.sum(law.log_prob(msg["value"])))))
            return
        if msg["is_observed"]:
            _require_whole(name, msg["value"])
            self.observed[name] = msg["value"]
            law = _spread(law, name, jnp.shape(msg["value"]))
        if msg.get("kwargs", {}).get("sample_shape"):
            law = law.expand(tuple(msg["kwargs"]["sample_shape"]) + law.batch_shape)
            msg["kwargs"]["sample_shape"] = ()
        source = from_numpyro_law(law)
        if msg["is_observed"] and name not in self.joint.released:
            value, density, seen = (*self.choice.met(name, source, msg["value"])[:2], True)
        elif msg["value"] is not None and not msg["is_observed"]:  # found inside a scan
            value, density, seen = self.choice.met(name, source, msg["value"])
        else:
            value, density, seen = self.choice.at(self.count, name, source)
        msg["value"] = value
        self._add(Site(name, source, value, _scaled(msg["scale"], density), observed=seen))

    def _add(self, site: Site) -> None:
        self.joint._require_name(site.name, self.found)
        self.found.append(site)

    def _deterministic(self, msg: Any) -> None:
        self._add(Site(msg["name"], Deterministic(msg["value"]), msg["value"]))

    def _plate(self, msg: Any) -> None:
        if msg["value"] is None and msg["kwargs"].get("rng_key") is None and msg["args"][0] != msg["args"][1]:
            raise DomainError(
                f"the plate {msg['name']!r}, which takes a subsample at random",
                expected="a subsample that is the same in every run",
                advice="fix it with numpyro.handlers.seed(model, 0), or give the plate its indices",
            )

    def _prng_key(self, msg: Any) -> None:
        if msg["kwargs"]["rng_key"] is None:
            raise DomainError(
                "a NumPyro model that draws a key",
                expected="no randomness but that of its sites",
                advice="fix it with numpyro.handlers.seed(model, 0)",
            )

    def _param(self, msg: Any) -> None:
        """At its initial value."""

    def _subsample(self, msg: Any) -> None:
        """Taken by its plate."""

    def _inspect(self, msg: Any) -> None:
        """Answered by the handlers inside."""

    def _control_flow(self, msg: Any) -> None:
        key, find = self.choice.series(self.count)

        def known(site: Any) -> Data | None:
            value = find(site)
            if value is None and key is None and site["type"] == "sample" and site["value"] is None:
                raise missing(site["name"], [site.name for site in self.found])
            return value

        msg["kwargs"]["rng_key"] = key  # not that of a seed, which is the same for all draws
        msg["kwargs"]["substitute_stack"].append(("substitute", known))


def _scaled(scale: Any, density: Callable[[], Data]) -> Callable[[], Data]:
    return density if scale is None else lambda: scale * density()


def _is_factor(law: Any) -> bool:
    """What `numpyro.factor` is made of, in plates and masks too."""
    while not isinstance(law, numpyro_families.Unit):
        law = getattr(law, "base_dist", None)
        if law is None:
            return False
    return True


def _require_whole(name: str, value: Data) -> None:
    """NumPyro reads the numbers under a mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DomainError(
            f"an observation of {name!r} with missing entries, in a NumPyro model",
            expected="an array without a mask",
            advice=f"pass obs=None and .condition({name}=…), or use obs_mask",
        )


def _spread(law: Any, name: str, shape: tuple[int, ...]) -> Any:
    """A law of as many independent values as are observed."""
    batch = shape[: len(shape) - law.event_dim]
    try:
        wide = np.broadcast_shapes(batch, law.batch_shape)
    except ValueError:
        raise DomainError(
            f"an observation of shape {shape} for the site {name!r}",
            expected=f"one that fits the shape {law.batch_shape + law.event_shape}",
        ) from None
    return law if wide == law.batch_shape else law.expand(wide)
