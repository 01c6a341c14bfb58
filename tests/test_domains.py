"""Domains: their forms, their shapes, how labels merge, what is refused."""

import pickle

import numpy as np
import pytest

import fubini as fb
from fubini.base.domains import Integer, merge_domains, merge_inputs, table_size
from fubini.errors import DataError, DomainError, FubiniError, NameClash

ANSWER = fb.Bint.labelled("no", "yes")


@pytest.mark.parametrize(
    ("domain", "shown"),
    [
        (fb.Bint[3], "Bint[3]"),
        (fb.Bint[3, 10], "Bint[3, 10]"),
        (fb.Bint[3, 10, 2], "Bint[3, 10, 2]"),
        (fb.Real, "Real"),
        (fb.Reals[2, 3], "Reals[2, 3]"),
        (fb.Nat, "Nat"),
        (fb.Nat[4], "Nat[4]"),
        (fb.Positive, "Positive"),
        (fb.Positive[3], "Positive[3]"),
        (fb.Unit, "Unit"),
        (fb.Unit[2, 2], "Unit[2, 2]"),
        (fb.Simplex[4], "Simplex[4]"),
        (fb.Simplex[4][10], "Simplex[4][10]"),
        (fb.PositiveDefinite[3], "PositiveDefinite[3]"),
        (fb.PositiveDefinite[3][10], "PositiveDefinite[3][10]"),
        (ANSWER, "Bint.labelled('no', 'yes')"),
    ],
)
def test_repr(domain: fb.Domain, shown: str) -> None:
    assert repr(domain) == shown


@pytest.mark.parametrize(
    ("domain", "discrete", "finite"),
    [
        (fb.Bint[3], True, True),
        (fb.Bint[3, 10], True, False),
        (fb.Nat, True, False),
        (Integer, True, False),
        (fb.Real, False, False),
        (fb.Simplex[3], False, False),
    ],
)
def test_what_can_be_enumerated(domain: fb.Domain, discrete: bool, finite: bool) -> None:
    assert (domain.is_discrete, domain.is_finite) == (discrete, finite)


def test_arrays_of_domains() -> None:
    """Indexing a domain puts extents before those it has: an array of arrays."""
    assert fb.Bint[3, 10] == fb.Bint[3][10]
    assert fb.Reals[2][5].shape == (5, 2)
    assert fb.Simplex[4][10].shape == (10, 4)
    assert fb.Bint[3, 10].scalar == fb.Bint[3]
    assert fb.Positive.with_shape((2, 3)) == fb.Positive[2, 3]
    assert ANSWER[7].labels == ("no", "yes")
    assert ANSWER[7].shape == (7,)
    assert fb.Reals[()] == fb.Real


def test_sizes_may_be_numpy_integers() -> None:
    """`Bint[x.max() + 1]` is what a user writes."""
    assert fb.Bint[np.int64(3)] == fb.Bint[3]
    assert fb.Reals[np.int32(2), 3] == fb.Reals[2, 3]


@pytest.mark.parametrize("size", [0, -1, 2.0, "a", True, (3, -1)])
def test_impossible_bounded_integers(size: object) -> None:
    with pytest.raises(DomainError):
        fb.Bint[size]  # type: ignore[index]


@pytest.mark.parametrize("shape", [-1, 2.5, (2, "a")])
def test_impossible_shapes(shape: object) -> None:
    with pytest.raises(DomainError):
        fb.Reals[shape]  # type: ignore[index]


@pytest.mark.parametrize("labels", [(), ("a", "a"), ("1", 1)])
def test_impossible_labels(labels: tuple) -> None:
    with pytest.raises(DomainError):
        fb.Bint.labelled(*labels)


def test_domains_are_values() -> None:
    """Equal where they say the same, hashable, unchangeable, and the same after pickling."""
    assert fb.Bint[3] == fb.Bint[3] != fb.Bint[4]
    assert fb.Bint[2] != ANSWER
    assert len({fb.Bint[3], fb.Bint[3], fb.Real, fb.Reals[2]}) == 3
    assert pickle.loads(pickle.dumps(ANSWER[4])) == ANSWER[4]
    with pytest.raises(AttributeError):
        fb.Real.kind = "nat"  # type: ignore[misc]


def test_labels_and_positions() -> None:
    assert [ANSWER.index(label) for label in ("no", "yes")] == [0, 1]
    assert [ANSWER.label(position) for position in (0, np.int64(1))] == ["no", "yes"]
    assert fb.Bint[2].label(1) == 1
    with pytest.raises(DataError, match="yes"):
        ANSWER.index("yess")
    with pytest.raises(DataError, match="no labels"):
        fb.Bint[2].index("no")


@pytest.mark.parametrize(("first", "second"), [(fb.Bint[2], ANSWER), (ANSWER, fb.Bint[2]), (ANSWER, ANSWER)])
def test_labelled_and_unlabelled_merge(first: fb.Domain, second: fb.Domain) -> None:
    assert merge_domains("a", first, second) == ANSWER
    merged = merge_inputs({"a": first, "b": fb.Real}, {"c": fb.Nat, "a": second})
    assert merged == {"a": ANSWER, "b": fb.Real, "c": fb.Nat}
    assert list(merged) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "other",
    [fb.Bint.labelled("nein", "ja"), fb.Bint.labelled("yes", "no"), fb.Bint[3], fb.Bint[2, 1], fb.Real, fb.Nat],
)
def test_one_name_has_one_domain(other: fb.Domain) -> None:
    with pytest.raises(DomainError, match="'a'"):
        merge_domains("a", ANSWER, other)


@pytest.mark.parametrize("interpretation", [fb.exact, fb.lazy], ids=repr)
def test_different_labels_raise_at_once(interpretation: fb.Interpretation) -> None:
    f = fb.Table([[1.0, 2.0], [3.0, 4.0]], {"a": ANSWER, "b": fb.Bint[2]})
    other = fb.Table([5.0, 6.0], {"a": fb.Bint.labelled("off", "on")})
    with interpretation:
        for combine in (
            lambda: f * other,
            lambda: f / other,
            lambda: f + other,
            lambda: fb.eliminate([f, other], ("a",)),
        ):
            with pytest.raises(DomainError, match="'a'"):
                combine()


def test_factors_merge_labels() -> None:
    """The product of a labelled and an unlabelled table is labelled."""
    f = fb.Table([[1.0, 2.0], [3.0, 4.0]], {"a": ANSWER, "b": fb.Bint[2]})
    g = fb.Table([5.0, 6.0], ("a",))
    for joined in (f * g, g * f):
        assert joined.inputs["a"] == ANSWER
        assert joined.sum("b").inputs == {"a": ANSWER}


def test_values_merge_labels() -> None:
    labelled, plain = fb.Variable("a", ANSWER), fb.Array(np.array([1.0, 2.0]), ("a",))
    assert (plain + labelled).inputs == {"a": ANSWER}
    with pytest.raises(DomainError):
        labelled + fb.Variable("a", fb.Bint.labelled("off", "on"))


def test_a_string_that_is_a_label_does_not_rename() -> None:
    f = fb.Table([1.0, 2.0], {"a": ANSWER})
    with pytest.raises(NameClash, match="a=1"):
        f(a="yes")
    assert f(a="b").inputs == {"b": ANSWER}
    with pytest.raises(NameClash):
        fb.Variable("a", ANSWER)(a="no")


def test_axes_must_fit_their_domains() -> None:
    for domain in (fb.Bint[3], fb.Real, fb.Bint[2, 1], fb.Nat):
        with pytest.raises(DomainError):
            fb.Table([1.0, 2.0], {"a": domain})


def test_table_size() -> None:
    assert table_size([fb.Bint[3], fb.Bint[4], ANSWER]) == 24


def test_errors_are_of_one_family() -> None:
    for kind in (DataError, DomainError, NameClash):
        assert issubclass(kind, FubiniError)
