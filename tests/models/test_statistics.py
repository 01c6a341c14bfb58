"""Moments, entropy and divergence, where sites are independent; an error where they are not."""

import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DomainError, NoRule


def independent() -> fb.Joint:
    return fb.JointSequential([dist.Normal(1.0, 2.0), dist.Gamma(2.0, 4.0)])


def test_moments() -> None:
    """A15: mean [1, ½]."""
    assert [float(mean) for mean in independent().mean()] == pytest.approx([1.0, 0.5], abs=1e-6)
    assert [float(variance) for variance in independent().variance()] == pytest.approx([4.0, 0.125], abs=1e-6)
    assert [float(stddev) for stddev in independent().stddev()] == pytest.approx([2.0, np.sqrt(0.125)], abs=1e-6)


def test_entropy_and_divergence() -> None:
    """A15: 2.303007, and 1.615932 to [N(0, 1), Gamma(1, 1)]."""
    other = fb.JointSequential([dist.Normal(0.0, 1.0), dist.Gamma(1.0, 1.0)])
    assert float(independent().entropy()) == pytest.approx(2.303007, abs=1e-6)
    assert float(independent().kl(other)) == pytest.approx(1.615932, abs=1e-6)
    assert float(independent().kl(independent())) == pytest.approx(0.0, abs=1e-12)


def test_structures_and_shapes() -> None:
    """Of a sample, nested or not; arrays of independent values add up."""
    joint = fb.JointNamed(dict(a=independent(), b=dist.Normal(np.zeros((2, 3)), 1.0)))
    mean = joint.mean()
    assert [float(value) for value in mean["a"]] == pytest.approx([1.0, 0.5]) and mean["b"].shape == (2, 3)
    want = float(independent().entropy()) + 6 * 0.5 * np.log(2 * np.pi * np.e)
    assert float(joint.entropy()) == pytest.approx(want, abs=1e-10)


def test_makers_without_arguments_are_independent() -> None:
    joint = fb.JointNamed(dict(a=lambda: dist.Normal(3.0, 1.0), b=dist.Exponential(2.0)))
    assert {name: float(value) for name, value in joint.mean().items()} == {"a": 3.0, "b": 0.5}


DEPENDENT = {
    "two sites": lambda: fb.JointSequential([dist.Normal(0.0, 1.0), lambda m: dist.Normal(m, 1.0)]),
    "inside a nested joint": lambda: fb.JointNamed(dict(x=DEPENDENT["two sites"]())),
    "a computed site": lambda: fb.JointSequential([dist.Normal(0.0, 1.0), lambda m: fb.deterministic(m)]),
}


@pytest.mark.parametrize("question", ["mean", "variance", "stddev", "entropy"])
@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_sites_are_an_error(name: str, question: str) -> None:
    """A15."""
    with pytest.raises(DomainError, match=r"of a joint in which 'x1?' depends on '[mx]'(.|\n)*independent"):
        getattr(DEPENDENT[name](), question)()


def test_weights_and_mixtures_are_an_error() -> None:
    weighed = fb.JointNamed(dict(x=dist.Normal(0.0, 1.0), w=fb.weight(log=-1.0)))
    mixture = fb.JointMixture([0.5, 0.5], [fb.JointNamed(dict(x=dist.Normal(loc, 1.0))) for loc in (0.0, 1.0)])
    for joint in (weighed, mixture, fb.JointNamed(dict(a=mixture))):
        with pytest.raises(DomainError, match="the mean of a joint in which a weight"):
            joint.mean()


def test_divergences_that_are_not_known() -> None:
    with pytest.raises(DomainError, match="the same sites"):
        independent().kl(fb.JointSequential([dist.Normal(0.0, 1.0)]))
    with pytest.raises(NoRule, match="the divergence between"):
        fb.JointSequential([dist.Normal(0.0, 1.0)]).kl(fb.JointSequential([dist.StudentT(3.0, 0.0, 1.0)]))
    with pytest.raises(NoRule, match="the entropy of"):
        fb.JointSequential([dist.VonMises(0.0, 1.0)]).entropy()
