"""Indicators: factors that are 1 where a condition holds, and 0 elsewhere."""

from __future__ import annotations

import numpy as np

from fubini.base.domains import Domain
from fubini.base.names import Name
from fubini.factors.delta import Delta
from fubini.factors.table import Table
from fubini.terms.factor import Factor
from fubini.terms.value import Variable


def is_equal(name: Name, other: Name, domain: Domain) -> Factor:
    """[other = name]"""
    if domain.is_finite:
        return Table(np.eye(domain.extent), {name: domain, other: domain})
    return Delta({other: Variable(name, domain)})


def is_first(name: Name, domain: Domain) -> Factor:
    """[name = 0], of a bounded integer"""
    return Table(np.eye(1, domain.extent)[0], {name: domain})
