"""The chain that the sites of a model are, where some of them have a representation: along time, or written out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from fubini.approximate.linearize import linearization
from fubini.base.arrays import is_traced
from fubini.base.names import Name
from fubini.errors import FubiniError, Intractable, UnknownName, closest, listed
from fubini.factors.represent import Represent, is_of_steps, represented, within
from fubini.models.flat_model import FlatModel
from fubini.questions.chain_of_sites import ChainOfSites, chain_of_sites
from fubini.questions.model_factors import model_factors
from fubini.representations.unrolled_chain import UnrolledChain, unrolled_chain

ModelChain = UnrolledChain | ChainOfSites

NUMBERED = re.compile(r"^(.*?)_?\d+$")


def is_represented(model: FlatModel, *args: Any) -> bool:
    """Whether a site has a representation of steps, or is no bounded integer, or a chain; or none is named so."""
    own = represented()
    if own is None:
        return linearization() is not None and bool(_along_time(model))
    if _unknown(model, own):
        return True
    covering = _covering(model, own)
    named = {**own.by_name, **{name: own.by_name[covering[name]] for name in covering}}
    sites = [site for site in model.outline.sites if site.name in named and site.domain is not None]
    return any(
        not site.domain.is_finite or is_of_steps(named[site.name]) or _is_chain(model, site.name)  # type: ignore[union-attr]
        for site in sites
    )


def ask_chain(model: FlatModel, ask: Callable[[ModelChain], Any]) -> Any:
    """Ask the chain that the sites of a model are."""
    own = represented()
    if own is None:
        return ask(_once(model, _along_time(model), False))
    if unknown := _unknown(model, own):
        sites = [site.name for site in model.outline.sites]
        raise UnknownName(
            f"{own} for {model}", expected=f"sites of it: {listed(sites)}", nearest=closest(unknown[0], sites)
        )
    covering = _covering(model, own)
    with within(covering):
        made = _once(model, tuple(sorted(map(str, own.by_name))), bool(covering))
        with within(made.covers()):
            return ask(made)


def asked_under() -> str:
    """The representations or the linearisation in force, in words."""
    return f"{represented() or linearization()}"


def _along_time(model: FlatModel) -> tuple[str, ...]:
    """The sites of real numbers that are chains, and not observed: those that a linearisation goes through."""
    try:
        sites = [site for site in model.outline.sites if site.domain is not None and not site.domain.is_finite]
        return tuple(str(site.name) for site in sites if site.shape and site.name in model.reading.chains)
    except FubiniError:
        return ()


def _unknown(model: FlatModel, own: Represent) -> list[Name]:
    """Names of representations that are neither sites nor cover some."""
    known = {site.name for site in model.outline.sites} | set(_covering(model, own).values())
    return [name for name in own.by_name if name not in known and model.tables is None]


def _covering(model: FlatModel, own: Represent) -> dict[Name, Name]:
    """Sites of a numbered name, represented as the name without its number: x covers x_1, x_2, …"""
    names: dict[Name, Name] = {}
    for site in model.outline.sites:
        numbered = NUMBERED.match(str(site.name))
        if numbered and numbered.group(1) in own.by_name and site.name not in own.by_name:
            names[site.name] = numbered.group(1)
    return names


def _is_chain(model: FlatModel, name: str) -> bool:
    """Whether a site is one chain: `dist.Markov`."""
    try:
        return bool(model.outline[name].shape) and name in model.reading.chains
    except FubiniError:
        return False


def _once(model: FlatModel, names: tuple[str, ...], are_numbered: bool) -> ModelChain:
    """The chain, made once for the same model and numbers."""
    try:
        answers = {} if is_traced(*model.leaves) else model.reading.answers
    except FubiniError:  # it may have factors none the less
        answers = {}
    key = ("chain", names, model.is_on_jax, model.is_float64)
    if key not in answers:
        answers[key] = _made(model, names, are_numbered)
    return answers[key]


def _made(model: FlatModel, names: tuple[str, ...], are_numbered: bool) -> ModelChain:
    """Sites along time or in layers; the latter first, where some are numbered."""
    reasons: list[Intractable] = []
    ways: list[Callable[[], ModelChain | None]] = [lambda: chain_of_sites(model, names), lambda: _in_layers(model)]
    for way in reversed(ways) if are_numbered else ways:
        try:
            made = way()
        except Intractable as error:
            if any(name in model.reading.chains for name in names):  # which are along time for certain
                raise
            reasons.append(error)
        else:
            if made is not None:
                return made
    raise (
        reasons[0]
        if reasons
        else Intractable(
            f"{model} under {asked_under()}",
            expected="sites along time, as of dist.Markov; or sites in layers, each tied to the one before it by "
            "factors of the same form",
            nearest=f"sites {listed(model.reading.domains)}",
            advice="write the model as fb.Chain, or ask without fb.represent or fb.linearize",
        )
    )


def _in_layers(model: FlatModel) -> UnrolledChain | None:
    factors, variables = model.written or model_factors(model)
    return unrolled_chain(factors, {variable.name: variable.output for variable in variables})
