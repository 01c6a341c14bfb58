"""NumPyro's model functions as joints: each `sample` statement is a site."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as numpyro_families
from numpyro.primitives import Messenger

from fubini.base.arrays import Data, is_jax, is_traced, precision
from fubini.base.closure import Closure
from fubini.distributions.convert import from_numpyro_distribution
from fubini.distributions.density import Distribution
from fubini.errors import DataError, DomainError, FubiniError, NoRule
from fubini.models.calls import require_in_domain
from fubini.models.fixed import Fixed
from fubini.models.flavour import Sites, failed_inside
from fubini.models.joint import Conditioned, Joint
from fubini.models.operator_sites import Symbols
from fubini.models.sample import Blank, Choice, Chosen, Deterministic, Run, Site, missing, sites_of


def from_numpyro(model: Callable, *args: Any, **kwargs: Any) -> Joint:
    """A NumPyro model at these arguments as a joint; sites observed inside it are conditioned on.

    Its density is NumPyro's, for every question: a site under `handlers.scale` or in a subsampled plate has its density
    to that power, an observation counts once for each entry that it broadcasts to, a substituted site is fixed. A
    subsample is drawn once, with the key of `handlers.seed`.

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
    known, seen = _observations(closure)
    joint = NumPyroModel(closure, tuple(known), seen.subsamples)
    for name, value in known.items():
        _require_possible(joint, name, value, seen.present[name])
    return Conditioned(joint, known) if known else joint


def _require_possible(joint: Joint, name: str, value: Data, present: Data) -> None:
    """Known observations, save those under a mask, are of the domain of their site; what is NaN is reported later."""
    if is_traced(value):
        return
    array = np.asarray(value)
    array = np.broadcast_to(array, np.broadcast_shapes(array.shape, present.shape))
    numbers = ~np.isnan(array) if array.dtype.kind == "f" else True
    require_in_domain(joint.outline[name].domain, array, name, present & numbers)


def _observations(closure: Closure) -> tuple[dict[str, Data], Seen]:
    """List the observations of a model; those that depend on its sites or on tracers stay inside it.

    And the indices of its subsamples, so that they are the same in every run: they depend on the precision too.
    """
    given = jax.tree_util.tree_leaves(closure)
    is_float64 = not any(map(is_jax, given))
    known: dict[str, Data] = {}
    seen = Seen({}, {}, {})
    for context in (nullcontext, jax.ensure_compile_time_eval):  # constants are computed only where data need it
        with precision(is_float64), context():
            seen = _seen(closure, is_last=context is not nullcontext)
        known = {n: v for n, v in seen.observed.items() if not is_traced(v) or any(v is leaf for leaf in given)}
        if len(known) == len(seen.observed) and not is_traced(*seen.subsamples.values()):
            break
    if is_traced(*seen.subsamples.values()):  # with a key that is traced, as one made inside of jit is
        NumPyroModel(closure).visit(Unknown(0, jax.random.key(0)), seen)
    subsamples = {name: i if is_traced(i) else np.asarray(i) for name, i in seen.subsamples.items()}
    numbers = {name: np.asarray(value) for name, value in known.items()} if is_float64 else known
    return numbers, seen._replace(subsamples=subsamples)


class Seen(NamedTuple):
    """Facts that a run of a model shows beside its sites.

    Observations by site, indices by plate that takes a subsample, and which entries of observations no mask leaves out.
    """

    observed: dict[str, Data]
    subsamples: dict[str, Data]
    present: dict[str, Data]


def _seen(closure: Closure, is_last: bool) -> Seen:
    """A subsample that indexes NumPy's arrays must be known, and is when constants are computed."""
    seen = Seen({}, {}, {})

    def look(zero: Data, key: Data) -> None:
        NumPyroModel(closure).visit(Unknown(zero, key), seen)

    try:
        jax.eval_shape(look, 0, jax.random.key(0))
    except DomainError:
        if is_last or not seen.subsamples:
            raise
    return seen


class Unknown(Blank):
    """A choice of traced zeros: what is computed from data alone is not traced, all else is."""

    def __init__(self, zero: Data, key: Data) -> None:
        self.zero, self.key = zero, key

    def at(self, place: int, name: str, source: Distribution) -> Chosen:
        chosen = super().at(place, name, source)
        return chosen._replace(value=chosen.value + self.zero)

    def series(self, place: int) -> tuple[Data | None, Callable[[Any], Data | None]]:
        return self.key, lambda site: None


@jax.tree_util.register_pytree_node_class
class NumPyroModel(Joint):
    """A model function; the data of the sites in `released`, and the subsamples of plates, are given from outside.

    So are the values of sites that are `fixed`, by name: they are not random any more.
    """

    def __init__(
        self,
        closure: Closure,
        released: tuple[str, ...] = (),
        subsamples: Mapping[str, Data] | None = None,
        fixed: Mapping[str, Data] | None = None,
    ) -> None:
        self.closure, self.released = closure, released
        self.subsamples, self.fixed = dict(subsamples or {}), dict(fixed or {})

    def sites(self) -> Sites:
        raise NoRule("the sites of a NumPyro model one by one", expected="`run`, which visits them as the model runs")

    def unflatten(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(values)

    def run(self, choice: Choice) -> Run:
        if isinstance(choice, Symbols):
            raise NoRule(
                "the factors of a NumPyro model",
                expected="a model whose parameters are written in operators and fb.ops",
                advice="log_evidence(), posterior() and marginal(name) answer for NumPyro models too",
            )
        return self.visit(choice, Seen({}, {}, {}))

    def visit(self, choice: Choice, seen: Seen) -> Run:
        """A run that also tells what the model observes."""
        visitor = Visitor(self, choice, seen)
        try:
            with visitor:
                self.closure.function()
        except NotImplementedError as error:
            raise NoRule("a NumPyro model", expected=str(error)) from error
        except FubiniError:
            raise
        except (TypeError, ValueError, IndexError, AssertionError) as error:
            if "got invalid" in str(error):
                raise DataError(
                    "a NumPyro model",
                    expected="parameters that its families allow",
                    nearest=str(error),
                    advice="check the arguments of the model, and numbers that it computes from them",
                ) from error
            raise failed_inside("a NumPyro model", visitor.sites, error) from error
        return Run(tuple(visitor.sites))

    def _intervened(self, values: Mapping[str, Any]) -> NumPyroModel:
        return NumPyroModel(self.closure, self.released, self.subsamples, {**self.fixed, **values})

    def tree_flatten(self) -> tuple[tuple, Fixed]:
        """Indices that are known are part of the structure, so that they index NumPy's arrays too."""
        known = {name: i for name, i in self.subsamples.items() if isinstance(i, np.ndarray)}
        traced = {name: i for name, i in self.subsamples.items() if name not in known}
        key = (self.released, tuple((name, tuple(i.tolist())) for name, i in known.items()))
        return (self.closure, traced, self.fixed), Fixed((self.released, known), key)

    @classmethod
    def tree_unflatten(cls, static: Fixed, children: tuple) -> NumPyroModel:
        new = object.__new__(cls)
        new.closure, traced, new.fixed = children
        new.released, known = static.value
        new.subsamples = {**known, **traced}
        return new


class Visitor(Messenger):
    """Values for the sites of a model as it runs."""

    def __init__(self, joint: NumPyroModel, choice: Choice, seen: Seen) -> None:
        super().__init__()
        self.joint, self.choice, self.seen = joint, choice, seen
        self.sites: list[Site] = []
        self.substituted: set[str] = set()  # inside a scan
        self.count = 0

    def process_message(self, msg: Any) -> None:
        """Record one statement of the model."""
        self.count += 1
        handle = getattr(self, f"_{msg['type']}", None)
        if handle is None:
            raise NoRule(
                f"numpyro's {msg['type']!r} in a model",
                expected="sample, plate, deterministic, factor, mask, scale, param and scan",
            )
        handle(msg)

    def _sample(self, msg: Any) -> None:
        numpyro_distribution, name, scale = msg["fn"], msg["name"], msg["scale"]
        if name in self.joint.fixed:
            msg["value"] = self.joint.fixed[name]
            self._add(Site(name, Deterministic(msg["value"]), msg["value"]))
            return
        if _is_factor(numpyro_distribution):
            empty = jnp.zeros((*numpyro_distribution.batch_shape, 0)) if msg["value"] is None else msg["value"]
            self._add(
                Site(
                    name,
                    numpyro_distribution,
                    None,
                    lambda: jnp.sum((1.0 if scale is None else scale) * numpyro_distribution.log_prob(empty)),
                )
            )
            return
        if msg["is_observed"]:
            _require_whole(name, msg["value"])
            self.seen.observed[name], self.seen.present[name] = msg["value"], _present(numpyro_distribution)
            numpyro_distribution = _spread(numpyro_distribution, name, jnp.shape(msg["value"]))
        if msg.get("kwargs", {}).get("sample_shape"):
            numpyro_distribution = numpyro_distribution.expand(
                tuple(msg["kwargs"]["sample_shape"]) + numpyro_distribution.batch_shape
            )
            msg["kwargs"]["sample_shape"] = ()
        source = (
            from_numpyro_distribution(numpyro_distribution)
            if scale is None
            else from_numpyro_distribution(numpyro_distribution).to_power(scale)
        )
        if self._is_fixed(msg):
            chosen = self.choice.with_value(name, source, msg["value"])._replace(observed=True)
        elif msg["value"] is not None and not msg["is_observed"]:  # drawn or given inside a scan
            chosen = self.choice.with_value(name, source, msg["value"])
        else:
            chosen = self.choice.at(self.count, name, source)
        msg["value"] = chosen.value
        for site in sites_of(name, source, chosen):
            self._add(site)

    def _is_fixed(self, msg: Any) -> bool:
        """The model or a handler around it has set the value: an observation that stays inside, or a substitution."""
        if msg["is_observed"]:
            return msg["name"] not in self.joint.released
        is_scanned = msg.get("_control_flow_done", False)
        return msg["name"] in self.substituted if is_scanned else msg["value"] is not None

    def _add(self, site: Site) -> None:
        self.joint._require_name(site.name, self.sites)
        self.sites.append(site)

    def _deterministic(self, msg: Any) -> None:
        self._add(Site(msg["name"], Deterministic(msg["value"]), msg["value"]))

    def _plate(self, msg: Any) -> None:
        if msg["value"] is not None or msg["args"][0] == msg["args"][1]:
            return
        name = msg["name"]
        if name in self.joint.subsamples:
            with jax.ensure_compile_time_eval():
                msg["value"] = jnp.asarray(self.joint.subsamples[name])
        elif msg["kwargs"].get("rng_key") is None:
            raise DomainError(
                f"the plate {name!r}, which takes a subsample at random",
                expected="a subsample that is the same in every run",
                advice="fix it with numpyro.handlers.seed(model, 0), or give the plate its indices",
            )
        else:
            msg["value"] = self.seen.subsamples[name] = msg["fn"](*msg["args"], **msg["kwargs"])

    def _prng_key(self, msg: Any) -> None:
        if msg["kwargs"]["rng_key"] is None:
            msg["value"] = Keyless()  # `handlers.uncondition` asks for a key that it does not use

    def _param(self, msg: Any) -> None:
        """Read a parameter at its initial value."""

    def _subsample(self, msg: Any) -> None:
        """Do nothing: a subsample is taken by its plate."""

    def _inspect(self, msg: Any) -> None:
        """Do nothing: the handlers inside answer."""

    def _control_flow(self, msg: Any) -> None:
        key, find = self.choice.series(self.count)

        def known(site: Any) -> Data | None:
            if site["type"] == "sample" and site["value"] is not None and not site["is_observed"]:
                self.substituted.add(site["name"])
                return None
            value = self.joint.fixed.get(site["name"], find(site))
            if value is None and key is None and site["type"] == "sample" and site["value"] is None:
                raise missing(site["name"], [site.name for site in self.sites])
            return value

        msg["kwargs"]["rng_key"] = key  # not that of a seed, which is the same for all draws
        msg["kwargs"]["substitute_stack"].append(("substitute", known))


class Keyless:
    """Stands in place of a key that no handler gave, and raises where it is used."""

    def __getattr__(self, name: str) -> Any:
        raise DomainError(
            "a NumPyro model that draws a key",
            expected="no randomness but that of its sites",
            advice="fix it with numpyro.handlers.seed(model, 0)",
        )


def _is_factor(numpyro_distribution: Any) -> bool:
    """Whether a distribution is that of `numpyro.factor`, in plates and masks too."""
    while not isinstance(numpyro_distribution, numpyro_families.Unit):
        numpyro_distribution = getattr(numpyro_distribution, "base_dist", None)
        if numpyro_distribution is None:
            return False
    return True


def _present(numpyro_distribution: Any) -> np.ndarray:
    """Select the entries that count: those that no mask leaves out; none that is sure to where a mask is traced."""
    present = np.asarray(True)
    while numpyro_distribution is not None:
        if isinstance(numpyro_distribution, numpyro_families.MaskedDistribution):
            if is_traced(numpyro_distribution._mask):
                return np.asarray(False)
            present = present & np.reshape(
                numpyro_distribution._mask, np.shape(numpyro_distribution._mask) + (1,) * numpyro_distribution.event_dim
            )
        numpyro_distribution = getattr(numpyro_distribution, "base_dist", None)
    return present


def _require_whole(name: str, value: Data) -> None:
    """NumPyro reads the numbers under a mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DomainError(
            f"an observation of {name!r} with missing entries, in a NumPyro model",
            expected="an array without a mask",
            advice=f"pass obs=None and .condition({name}=…), or use obs_mask",
        )


def _spread(numpyro_distribution: Any, name: str, shape: tuple[int, ...]) -> Any:
    """A distribution of as many values as are observed; an observation of fewer entries counts once for each."""
    try:
        whole = np.broadcast_shapes(shape, numpyro_distribution.batch_shape + numpyro_distribution.event_shape)
        fits = whole[len(whole) - numpyro_distribution.event_dim :] == numpyro_distribution.event_shape
    except ValueError:
        whole, fits = (), False
    if not fits:
        raise DomainError(
            f"an observation of shape {shape} for the site {name!r}",
            expected=f"one that fits the shape {numpyro_distribution.batch_shape + numpyro_distribution.event_shape}",
        )
    batch = whole[: len(whole) - numpyro_distribution.event_dim]
    return numpyro_distribution if batch == numpyro_distribution.batch_shape else numpyro_distribution.expand(batch)
