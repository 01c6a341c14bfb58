"""Every evidence that a test of the catalogue asks of a model is asked of its factors too: the answers agree."""

import jax
import numpy as np
import pytest

import fubini as fb
from fubini.arrays import is_traced
from fubini.joint.flat_model import FlatModel
from fubini.joint.model_factors import model_factors
from fubini.joint.questions import Questions


@pytest.fixture(autouse=True)
def every_door(monkeypatch):
    by_model = Questions.log_evidence

    def by_both(self):
        found = by_model(self)
        if not is_traced(*jax.tree_util.tree_leaves(self)):
            factors, variables = model_factors(FlatModel(self))
            again = float(fb.eliminate(factors, [variable.name for variable in variables]).log())
            is_double = np.asarray(found.data).dtype == np.float64
            assert again == pytest.approx(float(found), rel=1e-7 if is_double else 1e-4, abs=1e-7)
        return found

    monkeypatch.setattr(Questions, "log_evidence", by_both)
