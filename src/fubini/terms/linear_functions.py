"""The linear functions through which a Value depends on real variables: log Φ(a·w) depends on w through a·w alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fubini.base.names import Name
from fubini.terms.affine import Affine, affine
from fubini.terms.degree import degree
from fubini.terms.value import Value, Variable


def linear_functions(value: Value, names: Sequence[Name]) -> list[Affine]:
    """Affine functions of the names that determine the value: those written in it, or the variables themselves.

    >>> from fubini.base import ops
    >>> from fubini.base.domains import Reals
    >>> w = Variable("w", Reals[3])
    >>> (u,) = linear_functions(ops.exp(w[0] + 2.0 * w[2]), ("w",))
    >>> u.constant.data, u.slopes["w"].data
    (array(0.), array([1., 0., 2.]))
    """
    present = [name for name in names if name in value.inputs]
    itself: list[Value] = [Variable(name, value.inputs[name]) for name in present]
    written = _innermost(value, present)
    free = all(set(term.inputs) <= set(value.inputs) for term in written)
    chosen = written if free and _size(written) < _size(itself) else itself
    parts = [affine(term, present) for term in chosen]
    assert all(part is not None for part in parts), "each is affine"
    return parts  # type: ignore[return-value]


def _size(values: Sequence[Value]) -> int:
    return sum(math.prod(value.output.shape) for value in values)


def _innermost(value: Value, names: Sequence[Name]) -> list[Value]:
    """The largest subterms that are affine in the names, each once."""
    found: dict[int, Value] = {}
    waiting = [value]
    while waiting:
        term = waiting.pop()
        if not any(name in term.inputs for name in names):
            continue
        if degree(term, [name for name in names if name in term.inputs]) <= 1:
            found[id(term)] = term
        else:
            waiting.extend(term.value_children)
    return list(found.values())
