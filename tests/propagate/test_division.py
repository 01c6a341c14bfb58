"""Division with a policy: what each policy takes for an indefinite Gaussian, and the count."""

import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.base.interpretations import interpret
from fubini.errors import DataError, DomainError


def normal(mean, sd):
    return dist.Normal(mean, sd)("x")


WIDE, NARROW, OLD = normal(0.5, 2.0), normal(1.0, 1.0), normal(-1.0, 3.0)


def test_a_bounded_quotient_is_left_alone():
    for policy in ("allow", "skip", "clip", "damp"):
        quotient, touched = fb.Division(policy).divide(NARROW, WIDE, OLD)
        assert touched == 0
        assert np.isclose(quotient.precision.data[0, 0], 1.0 - 0.25)
        assert np.isclose(float(quotient(x=0.3).log()), float(NARROW(x=0.3).log() - WIDE(x=0.3).log()))


def test_allow_keeps_an_indefinite_quotient():
    quotient, touched = fb.Division("allow").divide(WIDE, NARROW)
    assert touched == 1 and np.isclose(quotient.precision.data[0, 0], 0.25 - 1.0)
    back = (quotient * NARROW)._joined()
    assert np.isclose(float(back.sum("x")), 1.0) and np.isclose(float(back.mean("x")), 0.5)


def test_skip_keeps_the_old_message():
    quotient, touched = fb.Division("skip").divide(WIDE, NARROW, OLD)
    assert (
        touched == 1 and np.isclose(float(quotient.mean("x")), -1.0) and np.isclose(float(quotient.variance("x")), 9.0)
    )
    assert fb.Division("skip").divide(WIDE, NARROW).factor.inputs == {}  # there was none: 1


def test_clip_gaussian_quotient():
    """Infer.NET's Gaussian.SetToRatio with forceProper: Λ = 0, h = μ_num Λ_den − h_den."""
    quotient, touched = fb.Division("clip").divide(WIDE, NARROW)
    assert touched == 1
    assert np.isclose(quotient.precision.data[0, 0], 0.0)
    assert np.isclose(quotient.info.data[0], 0.5 * 1.0 - 1.0)
    product = (quotient * NARROW)._joined()
    assert np.isclose(float(product.mean("x")), 0.5)
    assert np.isclose(float(product.sum("x")), 1.0)  # the mass of the dividend


def test_clip_in_two_dimensions():
    dividend = fb.Gaussian(mean=[1.0, 2.0], covariance=[[1.0, 0.3], [0.3, 4.0]], inputs={"x": fb.Reals[2]})
    divisor = fb.Gaussian(mean=[0.0, 0.0], covariance=[[2.0, 0.0], [0.0, 2.0]], inputs={"x": fb.Reals[2]})
    quotient, touched = fb.Division("clip").divide(dividend, divisor)
    assert touched == 1
    assert np.linalg.eigvalsh(quotient.precision.data).min() > -1e-12
    product = (quotient * divisor)._joined()
    assert np.allclose(product.mean("x").data, [1.0, 2.0])
    assert np.isclose(float(product.sum("x")), float(dividend.sum("x")))


def test_damp_goes_part_of_the_way():
    quotient, touched = fb.Division("damp", step=0.25).divide(WIDE, NARROW, OLD)
    assert touched == 1
    assert np.isclose(quotient.precision.data[0, 0], 0.75 / 9 + 0.25 * (0.25 - 1.0))


def test_each_cell_of_a_batch_by_itself():
    scales = fb.Array(np.array([0.5, 2.0, 3.0]), ("i",))
    quotient, touched = fb.Division("skip").divide(dist.Normal(0.0, scales)("x"), NARROW, OLD, batch=("i",))
    assert touched == 2
    expected = [1 / 0.25 - 1.0, 1 / 9.0, 1 / 9.0]
    assert np.allclose([quotient(i=k).precision.data[0, 0] for k in range(3)], expected)


def test_divide_tables_with_zeros():
    f, g = fb.Table([0.0, 0.5], ("a",)), fb.Table([0.0, 0.25], ("a",))
    quotient, touched = fb.Division("skip").divide(f, g)
    assert touched == 0 and np.allclose(quotient.weights, [0.0, 2.0])
    with pytest.raises(DataError, match="a positive number over zero"):
        fb.Division().divide(fb.Table([1.0, 0.5], ("a",)), g)


def test_proper_gaussian():
    flat = fb.Gaussian(info=[0.0, 0.0], precision=[[1.0, -1.0], [-1.0, 1.0]], inputs={"x": fb.Real, "y": fb.Real})
    assert interpret(fb.heads.PROPER, flat, ("x",)).data
    assert not interpret(fb.heads.PROPER, flat, ("x", "y")).data


@pytest.mark.parametrize("distance", [0.0, 0.5])
def test_distance_of_gaussians(distance):
    """A mean that moves by half a standard deviation is half away, whatever the units."""
    for unit in (1.0, 1e-3, 1e5):
        first, second = (dist.Normal(mean * unit, 2.0 * unit)("x")._joined() for mean in (0.0, 2.0 * distance))
        assert np.isclose(interpret(fb.heads.DISTANCE, first, second), distance)


def test_distance_of_tables_ignores_scales():
    f, g = fb.Table([1.0, 2.0], ("a",)), fb.Table([10.0, 20.0], ("a",))
    assert interpret(fb.heads.DISTANCE, f, g) < 1e-15
    assert np.isclose(interpret(fb.heads.DISTANCE, f, fb.Table([2.0, 2.0], ("a",))), 0.5)
    assert interpret(fb.heads.DISTANCE, f, fb.Table([1.0, 2.0], ("b",))) == np.inf


def test_unknown_policy():
    with pytest.raises(DomainError, match="'allow', 'skip', 'clip', 'damp'"):
        fb.Division("force")
    with pytest.raises(DataError, match="between 0 and 1"):
        fb.Division("damp", step=1.5)
