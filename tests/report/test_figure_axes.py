"""Numbers along the axes of figures: they differ where the ticks do, and do not touch."""

import itertools

import pytest

from fubini.report.figure_axes import LETTER, Axes, round_numbers, tick_labels

RANGES = [
    *((0.0, 1.0), (0.0, 20_000.0), (1e6, 1.3e6), (123_456.1, 123_456.9), (-3e-6, 4e-6), (1900.0, 2010.0)),
    *((0.1, 0.13), (-2.2e9, 3e9), (1e15, 3e15), (-1e-5, 1.0), (99_990.0, 100_020.0), (1e300, 2e300)),
]


@pytest.mark.parametrize("ends", RANGES, ids=str)
def test_labels_tell_ticks_apart(ends) -> None:
    numbers = round_numbers(*ends)
    labels = tick_labels(numbers)
    assert len(set(labels)) == len(numbers) and max(map(len, labels)) <= 8


@pytest.mark.parametrize("ends", RANGES, ids=str)
def test_labels_below_an_axis_do_not_touch(ends) -> None:
    axes, numbers = Axes(ends, (0.0, 1.0)), round_numbers(*ends)
    shown = axes._apart(list(zip(numbers, tick_labels(numbers), strict=True)))
    ends_of = [
        (float(axes.across(x)) - len(name) * LETTER / 2, float(axes.across(x)) + len(name) * LETTER / 2)
        for x, name in shown
    ]
    assert shown and all(a[1] < b[0] for a, b in itertools.pairwise(ends_of))
