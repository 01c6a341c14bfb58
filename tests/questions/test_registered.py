"""Questions to models are heads with rules: an interpretation answers some of them, `exact` the others."""

import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.base.interpretations import Interpretation, exact
from fubini.base.rules import RuleSet
from fubini.errors import UnknownName
from fubini.models.flat_model import FlatModel
from fubini.models.question_heads import MARGINAL

POST = fb.JointNamed({"m": dist.Normal(0.0, 1.0), "x": lambda m: dist.Normal(m, 1.0)}).condition(x=0.5)


def test_questions_that_are_not_recorded_are_answered_under_lazy() -> None:
    with fb.lazy:
        marginal, factors = POST.marginal("m"), POST.factors()
    assert np.isclose(float(marginal.mean("m")), 0.25, atol=1e-6)
    assert [sorted(factor.inputs) for factor in factors] == [["m"], ["m"]]


def test_an_interpretation_answers_a_question_by_a_rule_of_its_own() -> None:
    asked: list = []
    rules = RuleSet("watching.marginal", MARGINAL)

    @rules.rule
    def marginal(model: FlatModel, name: str) -> object:
        """what `exact` says, and that it was asked"""
        asked.append(name)
        with exact:
            return model.joint.marginal(name)

    with Interpretation("watching", (rules,), base=exact):
        assert np.isclose(float(POST.marginal("m").mean("m")), 0.25, atol=1e-6)
    assert asked == ["m"]


@pytest.mark.parametrize("name", [3, "q", None])
def test_a_site_that_is_none(name: object) -> None:
    with pytest.raises(UnknownName, match="expected: a remaining site: 'm'"):
        POST.marginal(name)  # type: ignore[arg-type]
