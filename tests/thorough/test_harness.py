"""The random search notices what it is there to notice."""

from random import Random

import pytest

from fubini.errors import Intractable
from tests.thorough.harness import CRASHED, REFUSED, RIGHT, SLOW, UNKNOWN, WRONG, Case, judge, search


def one(ask, oracle=1.0):
    return Case("", {"it": ask}, lambda: {"it": oracle})


def refuse():
    raise Intractable("no")


def crash():
    raise ZeroDivisionError


def hang():
    while True:
        pass


@pytest.mark.parametrize(
    "ask, verdict",
    [
        (lambda: 1.0, RIGHT),
        (lambda: 1.1, WRONG),
        (lambda: float("nan"), WRONG),
        (lambda: [1.0], WRONG),
        (refuse, REFUSED),
        (crash, CRASHED),
        (hang, SLOW),
    ],
)
def test_verdicts(ask, verdict) -> None:
    assert judge(one(ask), seconds=0.2).verdict == verdict


def test_an_oracle_that_does_not_trust_itself() -> None:
    assert judge(Case("", {"it": crash}, lambda: None)).verdict == UNKNOWN


def test_a_wrong_question_outweighs_a_refused_one() -> None:
    case = Case("", {"a": refuse, "b": lambda: 2.0}, lambda: {"a": 1.0, "b": 1.0})
    assert judge(case).verdict == WRONG


def test_failures_are_shrunk() -> None:
    def case(rng: Random) -> Case:
        numbers = [rng.randint(0, 9) for _ in range(rng.randint(0, 5))]
        return Case(
            str(numbers),
            {"largest": lambda: min(max(numbers, default=0), 4)},
            lambda: {"largest": max(numbers, default=0)},
        )

    tally = search(case, 60)
    assert tally.counts[WRONG] and tally.counts[RIGHT] and tally.counts.total() == 60
    assert any("\n[5]\n" in failure for failure in tally.failures), tally.failures
