"""Plated elimination against the unrolled product: scopes, rounds, scales, kept names, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fubini as fb
from fubini.eliminate.order import components

from .tables import POSITIVE, assert_factor, names_of, raws, repeated, total, unroll

SCOPES = {"a": (), "b": ("i",), "c": ("i", "j")}
PLATES = ("i", "j")
TWO = dict.fromkeys("abcdijk", 2)
nested = st.tuples(*(raws(*names, sizes=TWO) for names in ("a", "abi", "bcij")))


def tables(factors) -> list[fb.Table]:
    return [raw.table for raw in factors]


def unrolled(factors, scopes=SCOPES, plates=PLATES, keep=()) -> np.ndarray:
    return total(unroll(factors, scopes, plates), keep)


# -- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["", "c", "cj", "bcj", "bcij", "abcij"])
@pytest.mark.parametrize("in_logs", [False, True])
@settings(max_examples=15)
@given(factors=nested)
def test_two_rounds_equal_one(first, in_logs, factors):
    """a | a, b, i | b, c, i, j: some names and plates first, then the rest, from weights and from log-weights."""
    given = tables(factors)
    if in_logs:
        with np.errstate(divide="ignore"):
            given = [fb.Table.from_log(np.log(raw.weights), raw.names) for raw in factors]
    middle = fb.eliminate(given, [n for n in "abc" if n in first], [p for p in PLATES if p in first])
    rest = fb.eliminate(middle, [n for n in "abc" if n not in first], [p for p in PLATES if p not in first])
    expected = unrolled(factors)
    assert_factor(rest, expected, (), fb.Factor)
    assert_factor(fb.eliminate(given, ("a", "b", "c"), PLATES), expected)


@settings(max_examples=15)
@given(factors=nested)
def test_declared_scopes_equal_inferred_ones(factors):
    expected = unrolled(factors)
    assert_factor(fb.eliminate(tables(factors), SCOPES, PLATES), expected)
    assert_factor(fb.eliminate(tables(factors)[::-1], ("c", "a", "b"), PLATES[::-1]), expected)
    product = factors[0].table * factors[1].table * factors[2].table
    assert_factor(fb.eliminate(product, SCOPES, PLATES), expected)


def test_explain_prints_where_variables_live():
    factors = [fb.Table(np.ones((2,) * len(names)), names) for names in (("a",), ("a", "b", "i"), ("b", "c", "i", "j"))]
    printed = str(fb.explain(factors, ("a", "b", "c"), PLATES))
    assert "'b' lives in the plates 'i'" in printed
    assert "'c' lives in the plates 'i', 'j'" in printed


ALLOWED = ("", "a", "i", "j", "ij", "ai", "bi", "abi", "bij", "cij", "bcij", "acij", "abcij", "di", "bdi", "dcij")
DEEP = {**SCOPES, "d": ("i",)}


@st.composite
def plated_sets(draw):
    """Any few factors of a model whose plates nest."""
    scopes = draw(st.lists(st.sampled_from(ALLOWED), min_size=1, max_size=4))
    return [draw(raws(*draw(st.permutations(names)), sizes=TWO)) for names in scopes]


@given(plated_sets())
def test_nested_plates(factors):
    """A factor counts once for each cell of the plates among its own inputs, whatever else it has."""
    present = names_of(factors)
    scopes = {name: DEEP[name] for name in "abcd" if name in present}
    plates = tuple(plate for plate in PLATES if plate in present)
    result = fb.eliminate(tables(factors), scopes, plates)
    assert_factor(result, unrolled(factors, DEEP, plates), (), fb.Factor)


@settings(max_examples=20)
@given(
    st.tuples(*(raws(*names, sizes={"z": 3, "x": 2, "y": 2, "i": 2, "j": 3}) for names in ("z", "zxi", "zyj", "yj")))
)
def test_plates_side_by_side(factors):
    """x in i and y in j share a z outside both: no need to nest where nothing couples them."""
    scopes = {"z": (), "x": ("i",), "y": ("j",)}
    assert_factor(fb.eliminate(tables(factors), scopes, PLATES), unrolled(factors, scopes))


@settings(max_examples=20)
@given(raws("i", "a", sizes={"i": 3, "a": 2}), raws("a", sizes=TWO), POSITIVE)
def test_constants(f, g, c):
    """Listed beside a plate, a factor without it counts once; under f.product it is multiplied |i| times."""
    factors = [f.table, g.table, fb.Table(c)]
    assert_factor(fb.eliminate(factors, ("a",), ("i",)), c * (g.weights * f.weights.prod(0)).sum())
    inside = (f.table * g.table * c).product("i")
    assert_factor(inside.sum("a"), c**3 * (g.weights**3 * f.weights.prod(0)).sum(), (), fb.Factor)


@settings(max_examples=15)
@given(raws("i", "a", "b", sizes={"i": 1, "a": 3, "b": 2}), raws("a", sizes={"a": 3}))
def test_a_plate_of_one_cell(f, g):
    assert_factor(fb.eliminate([f.table, g.table], {"a": (), "b": ("i",)}, ("i",)), (f.weights[0].sum(1) @ g.weights))


# -- kept names -----------------------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(raws("i", "j", "x", sizes={"i": 2, "j": 3, "x": 4}))
def test_a_batch_plate_is_kept(f):
    """Of the plates i and j only i is multiplied out: j stays an input, and nothing else does."""
    result = fb.eliminate([f.table], {"x": ("i", "j")}, ("i",))
    assert_factor(result, f.weights.sum(2).prod(0), ("j",))


@settings(max_examples=15)
@given(factors=nested)
def test_a_variable_outside_plates_is_kept(factors):
    result = fb.eliminate(tables(factors), ("b", "c"), PLATES)
    assert_factor(result, unrolled(factors, keep=(("a",),)), ("a",), fb.Factor)


@settings(max_examples=15)
@given(factors=nested)
def test_an_inner_plate_alone(factors):
    """The plate j multiplied out with c in it; i, a and b stay."""
    result = fb.eliminate(tables(factors), ("c",), ("j",))
    f, g, h = (raw.weights for raw in factors)
    expected = f[:, None, None] * g * h.sum(1).prod(2)
    assert_factor(result, expected, ("a", "b", "i"), fb.Factor)


def test_partial_results_stay_apart():
    """Factors {a, ab, bc, c}: summing a and c leaves two components, all three one, none four."""
    scopes = (("a",), ("a", "b"), ("b", "c"), ("c",))
    factors = [fb.Table(np.full((2,) * len(names), 0.5), names) for names in scopes]
    for summed, count in ((("a", "c"), 2), (("a", "b", "c"), 1), ((), 4)):
        assert len(components(scopes, summed)) == count
        result = fb.eliminate(factors, summed)
        assert len(getattr(result, "terms", (result,))) == count
    assert [members for members, _ in components(scopes, ("a", "c"))] == [[0, 1], [2, 3]]


# -- scales ---------------------------------------------------------------------------------------------------------

CHAIN = {"x": ("i",), "y": ("i", "j"), "z": ("i", "j", "k")}
deep = st.tuples(*(raws(*names, sizes={**TWO, "x": 2, "y": 2, "z": 2}) for names in ("xi", "xyij", "yzijk")))


@pytest.mark.parametrize("semiring", [fb.sum_product, fb.max_product], ids=repr)
@settings(max_examples=10)
@given(factors=deep)
def test_scales_of_nested_plates(semiring, factors):
    """Powers 2, 3 and 4 of the plates i, j, k: each cell as many times along its plate."""
    scale = {"i": 2, "j": 3, "k": 4}
    found = fb.eliminate(tables(factors), CHAIN, ("i", "j", "k"), semiring=semiring, scale=scale)
    more = [repeated(raw, scale) for raw in factors]
    assert_factor(found, by_hand(more, semiring), rtol=1e-8)
    assert_factor(
        fb.eliminate(tables(more), CHAIN, ("i", "j", "k"), semiring=semiring), by_hand(more, semiring), rtol=1e-8
    )


def by_hand(factors, semiring) -> float:
    """Π_i ⊕_x f(x, i) Π_j ⊕_y g(x, y, i, j) Π_k ⊕_z h(y, z, i, j, k), as it is written."""
    add = np.sum if semiring is fb.sum_product else np.max
    f, g, h = (raw.weights for raw in factors)  # (x, i), (x, y, i, j), (y, z, i, j, k)
    inner = add(h, axis=1).prod(-1)
    middle = add(g * inner, axis=1).prod(-1)
    return add(f * middle, axis=0).prod()


@settings(max_examples=15)
@given(raws("i", "a", "b", sizes={"i": 3, "a": 2, "b": 2}), raws("a", sizes=TWO))
def test_a_fractional_scale(f, g):
    """A subsample: the plate to the power 2.5."""
    found = fb.eliminate([f.table, g.table], {"a": (), "b": ("i",)}, ("i",), scale={"i": 2.5})
    assert_factor(found, (g.weights * f.weights.sum(2).prod(0) ** 2.5).sum())


# -- what is refused ------------------------------------------------------------------------------------------------

F, G = fb.Table(np.ones((2, 3)), ("i", "x")), fb.Table(np.ones(3), ("x",))


def test_a_plate_that_holds_a_kept_variable_is_not_multiplied_out():
    with pytest.raises(fb.FubiniError, match="kept variable 'x'") as caught:
        fb.eliminate([F], (), ("i",))
    assert isinstance(caught.value, ValueError)


def test_a_variable_in_a_plate_that_its_factor_lacks():
    with pytest.raises(fb.FubiniError, match=r"'x' in the plates 'i'"):
        fb.eliminate([F, G], {"x": ("i",)}, ("i",))


def test_a_plate_that_is_not_listed_stays_an_input():
    assert fb.eliminate([F], {"x": ("i",)}, ()).inputs == {"i": fb.Bint[2]}


def test_coupled_plates_that_do_not_nest():
    """x in i, y in j, and a factor of both: no exact order, and the error says who lives where."""
    factors = [fb.Table(np.ones((2,) * len(names)), names) for names in (("i", "j", "x", "y"), ("i", "x"), ("j", "y"))]
    with pytest.raises(fb.FubiniError, match="couples variables of different plates") as caught:
        fb.eliminate(factors, ("x", "y"), PLATES)
    assert isinstance(caught.value, ValueError)
    assert "'x' lives in 'i'" in str(caught.value) and "'y' lives in 'j'" in str(caught.value)


def test_an_unknown_plate():
    with pytest.raises(fb.FubiniError, match="'docs'"):
        fb.eliminate([F], ("x",), ("docs",))


def test_a_scale_for_a_plate_that_is_not_listed():
    for question in (fb.eliminate, fb.marginals):
        with pytest.raises(fb.FubiniError, match="scale for 'j'"):
            question([F], ("x",), ("i",), scale={"j": 2})
        with pytest.raises(fb.FubiniError, match="scale for 'i'"):
            question([F], ("x",), scale={"i": 2})


def test_a_name_that_is_summed_and_a_plate():
    with pytest.raises(fb.FubiniError, match="'i'"):
        fb.eliminate([F], ("x", "i"), ("i",))
