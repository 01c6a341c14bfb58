"""Exactness: marks in order of first use, their counts, and the error of one answer."""

from fubini.terms.exactness import estimated, exactly, projected


def test_marks_are_united():
    both = projected("Gaussian") | estimated(10) | projected("Gaussian")
    assert repr(both) == "projected(Gaussian), estimated(10)" and not both.is_exact


def test_count_is_that_of_the_longest_way():
    """f / Σ f was not projected more often than f."""
    often, rarely = projected("Truncated", times=1600), projected("Truncated", times=3)
    assert often | often == often | rarely == rarely | often == often
    assert repr(often) == "projected(Truncated) × 1,600"


def test_counted_and_plain_marks_together():
    both = projected("Gaussian") | projected("Truncated", times=2)
    assert repr(both) == "projected(Gaussian), projected(Truncated) × 2"
    assert both.marks == ("projected(Gaussian)", "projected(Truncated)")
    assert repr(projected("Truncated") | projected("Truncated", times=2)) == "projected(Truncated) × 2"


def test_counts_tell_exactness_apart():
    assert projected("Truncated", times=2) != projected("Truncated", times=3)
    assert hash(projected("Truncated", times=2)) == hash(projected("Truncated", times=2))


def test_error_is_of_one_answer_and_counts_stay():
    answer = projected("Truncated", times=2).with_error(0.5)
    assert repr(answer) == "projected(Truncated) × 2 ± 0.5"
    assert (answer | exactly).error is None and repr(answer | exactly) == "projected(Truncated) × 2"
