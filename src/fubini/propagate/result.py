"""The results of message passing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fubini.base.arrays import Data, is_traced
from fubini.base.names import Name
from fubini.errors import FubiniError, UnknownName, closest, listed
from fubini.propagate.bundles import Bundles
from fubini.show.printed_form import Block, Shown, Words
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor, substitute
from fubini.terms.numbers import shown_number
from fubini.terms.value import Array, Value, Variable, to_array, to_value

SHOWN, WIDE = 12, 8  # marginals that are printed, and labels of each


class Marginals(Shown, Mapping):
    """Normalised marginals by name; those of alike variables are cut out of one factor when they are asked for."""

    def __init__(self, names: Sequence[Name], factors: Sequence[Factor], bundles: Bundles | None, mark: Exactness):
        self._names, self._factors, self._mark = tuple(names), tuple(factors), mark
        self._bundles = bundles
        nodes = (
            None
            if bundles is None
            else [(k, i, m) for k, n in enumerate(bundles.nodes) for i, m in enumerate(n.members)]
        )
        self._places = (
            {name: (k, None) for k, name in enumerate(names)} if nodes is None else {m: (k, i) for k, i, m in nodes}
        )

    def __getitem__(self, name: Name) -> Factor:
        if name not in self._names:
            raise UnknownName(
                f"the marginal of {name!r}",
                expected=f"a name that was asked for: {listed(self._names[:20])}",
                nearest=closest(name, self._names),
            )
        position, member = self._places[name]
        factor = self._factors[position]
        if member is not None and self._bundles is not None:
            node = self._bundles.nodes[position]
            factor = substitute(factor, {node.index: to_value(member), node.name: Variable(name, node.domain)})
        return marked(factor, self._mark)

    def __iter__(self) -> Iterator[Name]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def _form(self) -> Iterable[Block]:
        """The first of them, the shares of labels on one line each."""
        more = f", … {len(self._names) - SHOWN:,} more" if len(self._names) > SHOWN else ""
        yield Words(f"Marginals({listed(self._names[:SHOWN])}{more})")
        yield from self.lines()

    def lines(self) -> Iterator[Block]:
        """Yield a line for each of the first, where none has to be cut out of a larger factor."""
        if self._bundles is None:
            for name, factor in zip(self._names[:SHOWN], self._factors, strict=False):
                yield from _marginal_form(name, factor)


def _marginal_form(name: Name, factor: Factor) -> Iterable[Block]:
    """One marginal: labels with their shares, or the numbers beneath a density."""
    if is_traced(*factor.leaves()):
        yield Words(f"{name}: {factor}", 2)
    elif len(factor.inputs) == 1 and all(domain.is_finite for domain in factor.inputs.values()):
        (domain,), weights = factor.inputs.values(), np.asarray(to_array(factor.numbers()).array)
        shares = [
            f"{domain.label(place)} {shown_number(float(weights[place]))}" for place in range(min(weights.size, WIDE))
        ]
        yield Words(f"{name}: {', '.join(shares)}{', …' if weights.size > WIDE else ''}", 2)
    else:
        lines = [line.strip() for block in factor._form() for line in block.lines()]
        yield Words(f"{name}: {lines[0]}" if len(lines) == 1 else lines[1], 2)


def marked(factor: Factor, mark: Exactness) -> Factor:
    """The factor with a tag, where its kind can hold one."""
    if mark.is_exact or factor.exactness == mark:
        return factor
    try:
        return factor._marked(mark)
    except FubiniError:
        return factor


def marked_value(value: Value, mark: Exactness) -> Array:
    """The numbers of a value, with a tag."""
    array = to_array(value)
    return Array._of(array.array, array.names, array.inputs, array.output, array.mark | mark)


@dataclass(frozen=True, eq=False, repr=False)
class Propagation(Shown):
    """What messages say: marginals, evidence, beliefs of clusters, and how they came about.

    `beliefs` are those of the cliques, or of the factors, not normalised; `divisions` counts the quotients that
    were unbounded, and to which the policy of a Division was applied. `change` is that of the last iteration.

    >>> result = fb.propagate(fb.Table([[1.0, 2.0], [3.0, 4.0]], ("a", "b")), ("a",))
    >>> result
    Propagation(a; log evidence 2.302585, exact)
      a: 0 0.3, 1 0.7
    """

    marginals: Mapping[Name, Factor]
    log_evidence: Array
    beliefs: tuple[Factor, ...]
    assignment: dict[Name, Data] | None
    iterations: Data
    converged: Data
    change: Data
    divisions: Data
    exactness: Exactness

    def _form(self) -> Iterator[Block]:
        names = ", ".join(map(str, list(self.marginals)[:8])) + (", …" if len(self.marginals) > 8 else "")
        evidence: Any = self.log_evidence
        if not evidence.inputs and not is_traced(evidence.array):
            evidence = f"{float(evidence):.7g}"
        yield Words(f"Propagation({names}; log evidence {evidence}, {self.exactness!r}{self._told()})")
        yield from self.marginals.lines() if isinstance(self.marginals, Marginals) else ()

    def _told(self) -> str:
        if self.exactness.is_exact or is_traced(self.change, self.divisions):
            return ""
        end = "converged" if self.converged else "not converged"
        return f", {end} in {self.iterations} iterations, {self.divisions} divisions"
