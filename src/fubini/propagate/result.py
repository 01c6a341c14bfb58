"""The results of message passing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fubini.base.arrays import Data, is_traced
from fubini.base.names import Name
from fubini.errors import FubiniError, UnknownName, closest, listed
from fubini.propagate.bundles import Bundles
from fubini.terms.exactness import Exactness
from fubini.terms.factor import Factor, substitute
from fubini.terms.value import Array, Value, Variable, to_array, to_value


class Marginals(Mapping):
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

    def __repr__(self) -> str:
        return f"Marginals({listed(self._names[:20])}{', …' if len(self._names) > 20 else ''})"


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


@dataclass(frozen=True, eq=False)
class Propagation:
    """What messages say: marginals, evidence, beliefs of clusters, and how they came about.

    `beliefs` are those of the cliques, or of the factors, not normalised; `divisions` counts the quotients that
    were unbounded, and to which the policy of a Division was applied. `change` is that of the last iteration.

    >>> result = fb.propagate(fb.Table([[1.0, 2.0], [3.0, 4.0]], ("a", "b")), ("a",))
    >>> result
    Propagation(a; log evidence 2.302585, exact)
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

    def __repr__(self) -> str:
        names = ", ".join(map(str, list(self.marginals)[:8])) + (", …" if len(self.marginals) > 8 else "")
        evidence: Any = self.log_evidence
        if not evidence.inputs and not is_traced(evidence.array):
            evidence = f"{float(evidence):.7g}"
        return f"Propagation({names}; log evidence {evidence}, {self.exactness!r}{self._told()})"

    def _told(self) -> str:
        if self.exactness.is_exact or is_traced(self.change, self.divisions):
            return ""
        end = "converged" if self.converged else "not converged"
        return f", {end} in {self.iterations} iterations, {self.divisions} divisions"
