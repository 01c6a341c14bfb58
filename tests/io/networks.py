"""Small directed networks with odd names, odd labels and zeros, for tests of what reads back."""

import numpy as np
from hypothesis import strategies as st

from fubini.base.domains import Bint
from fubini.io.record import NetworkRecord

labels = st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), max_size=4)
xml_labels = st.text(st.characters(exclude_characters="\ufffe\uffff", exclude_categories=["Cs", "Cc"]), max_size=4)


@st.composite
def networks(draw: st.DrawFn, labels: st.SearchStrategy[str] = labels) -> NetworkRecord:
    names = draw(st.lists(labels, min_size=1, max_size=4, unique=True))
    domains = {n: Bint.labelled(*draw(st.lists(labels, min_size=1, max_size=3, unique=True))) for n in names}
    tables = []
    for place, child in enumerate(names):
        parents = draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        scope = (*parents, child)
        shape = [domains[name].size for name in scope]
        weights = draw(st.lists(st.integers(0, 9), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        table = np.array(weights, dtype=np.float64).reshape(shape) + np.eye(shape[-1])[0]
        tables.append((scope, table / table.sum(axis=-1, keepdims=True)))
    order = draw(st.permutations(tables))
    return NetworkRecord(draw(labels), {n: domains[n] for n in draw(st.permutations(names))}, tuple(order), True)
