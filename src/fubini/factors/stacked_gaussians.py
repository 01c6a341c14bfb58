"""Gaussians of any form as one Gaussian along an index."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from fubini.base.arrays import Data, namespace
from fubini.base.domains import Bint, merge_inputs
from fubini.base.names import Bound, Name
from fubini.factors.gaussian import Gaussian, shifted
from fubini.factors.table import Table
from fubini.numerics.named_axes import align
from fubini.numerics.quadratic import Quadratic, Shifted, merged, padded
from fubini.numerics.quadratic_algebra import canonical
from fubini.terms.exactness import combined
from fubini.terms.value import to_array

Named = tuple[Data, tuple[Name, ...]]


def stack_gaussians(gaussians: Sequence[Gaussian], index: Bound) -> Gaussian:
    """exp(g_k + h_k·z − ½ z·K_k z) at k, z being the variables of all of them."""
    reals = reduce(merged, (g.reals for g in gaussians))
    domains = {index: Bint[len(gaussians)], **merge_inputs(*(g.batch for g in gaussians))}
    forms = [Shifted(padded(g.quadratic, g.reals, reals), 0.0, ()) for g in gaussians]
    if len({(form.rest.white, form.rest.rows) for form in forms}) > 1:
        forms = [canonical(form.rest) for form in forms]
    pairs = zip(gaussians, forms, strict=True)
    logs = [to_array(shifted(g.scale, form.log, form.log_names, domains).log()) for g, form in pairs]
    weights, names = _stack([(log.array, log.names) for log in logs], 0, index)
    scale = Table.from_log(weights, {name: domains[name] for name in names})._marked(combined(gaussians))
    vectors, v_names = _stack([(form.rest.vector, form.rest.vector_names) for form in forms], 1, index)
    matrices, m_names = _stack([(form.rest.matrix, form.rest.matrix_names) for form in forms], 2, index)
    quadratic = Quadratic(vectors, v_names, matrices, m_names, forms[0].rest.white)
    return Gaussian._of(scale, quadratic, reals, domains)  # type: ignore[arg-type]


def _stack(parts: Sequence[Named], event: int, index: Bound) -> Named:
    """Arrays over the names of all of them, along a new first axis."""
    names = tuple(dict.fromkeys(name for _, own in parts for name in own))
    aligned = [align(data, own, names, event) for data, own in parts]
    xp = namespace(*aligned)
    return xp.stack(list(xp.broadcast_arrays(*aligned))), (index, *names)
