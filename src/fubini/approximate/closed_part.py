"""The part of a sum that has a closed form, before the other part is approximated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fubini.base.interpretations import Interpretation, current, interpret
from fubini.base.names import Name
from fubini.eliminate.ask import eliminate
from fubini.errors import Intractable, NoRule
from fubini.terms.factor import Factor, terms_of


def in_closed_form(approximation: type[Interpretation], head: Any, *args: Any) -> Any:
    """What the interpretation in force answers without an approximation of this kind."""
    with current().without(approximation):
        return interpret(head, *args)


def closed_part(
    terms: list[Factor], names: Sequence[Name], keep: Sequence[Name] = ()
) -> tuple[list[Factor], list[Name]]:
    """The terms with those of the names summed that have a closed form, and the names that have none."""
    blocked = []
    for name in names:
        if name in keep:
            continue
        try:
            terms = list(terms_of(eliminate(terms, [name])))
        except (Intractable, NoRule):
            blocked.append(name)
    return terms, blocked
