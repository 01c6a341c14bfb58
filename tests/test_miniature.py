"""The library in one file (examples/miniature.py) against enumeration, closed forms and moments of the mixture."""

import numpy as np
import pytest

from examples.miniature import Factor, exact, marginals, match, normal, table


def switch() -> list[Factor]:
    """k ~ prior, x ~ Normal(centre[k], 1), y = 0.7 ~ Normal(2 x, 0.5)."""
    return [
        table([0.3, 0.7], "k"),
        normal({"x": 1.0}, [1.0, -1.0], 1.0, "k"),  # x + (1, −1)[k]: centres −1 and 1
        normal({"x": -2.0}, 0.7, 0.5),
    ]


def test_tables_against_enumeration() -> None:
    random = np.random.default_rng(0)
    scopes = ("ab", "bc", "cd", "da", "ce", "f")  # a cycle, a branch, a part of its own
    sizes = dict(zip("abcdef", (2, 3, 2, 4, 3, 2), strict=True))
    weights = [random.uniform(0.1, 1.0, [sizes[name] for name in scope]) for scope in scopes]
    evidence, answers = marginals([table(w, *scope) for w, scope in zip(weights, scopes, strict=True)], "abcdef")
    joint = np.einsum(",".join(scopes) + "->abcdef", *weights)
    assert np.isclose(np.exp(evidence.log), joint.sum()) and not evidence.marks
    for axis, name in enumerate("abcdef"):
        right = joint.sum(tuple(other for other in range(6) if other != axis)) / joint.sum()
        assert answers[name].labels == (name,) and np.allclose(np.exp(answers[name].log), right)


def test_normal_chain_against_linear_algebra() -> None:
    seen = (0.3, 1.1, 0.9)
    factors = [normal({"x0": 1.0}, 0.0, 1.0)]
    for t, y in enumerate(seen):
        factors += [normal({f"x{t + 1}": 1.0, f"x{t}": -0.9}, 0.0, 0.5), normal({f"x{t + 1}": -1.0}, y, 0.7)]
    evidence, answers = marginals(factors, [f"x{t}" for t in range(4)])
    gain = np.array([[0.9 ** (t - s) * (0.5 if s else 1.0) if t >= s else 0.0 for s in range(4)] for t in range(4)])
    prior = gain @ gain.T
    total = prior[1:, 1:] + 0.49 * np.eye(3)
    right = -0.5 * (seen @ np.linalg.solve(total, seen) + np.linalg.slogdet(2 * np.pi * total)[1])
    assert np.isclose(evidence.log, right)
    means = prior[:, 1:] @ np.linalg.solve(total, seen)
    variances = np.diag(prior - prior[:, 1:] @ np.linalg.solve(total, prior[1:]))
    for t in range(4):
        answer = answers[f"x{t}"]
        assert np.isclose(1 / answer.precision[0, 0], variances[t]), t
        assert np.isclose(answer.info[0] / answer.precision[0, 0], means[t]), t


def test_label_beside_real() -> None:
    """The evidence and the label are exact; the real is a mixture: an error, or its moments, marked."""
    centre, prior = np.array([-1.0, 1.0]), np.array([0.3, 0.7])
    joint = prior * np.exp(-0.5 * (0.7 - 2 * centre) ** 2 / 4.25) / np.sqrt(2 * np.pi * 4.25)
    with pytest.raises(ValueError, match="no closed form"):
        marginals(switch(), ["k", "x"], exact)
    evidence, answers = marginals(switch(), ["k", "x"], match)
    assert np.isclose(np.exp(evidence.log), joint.sum()) and not evidence.marks
    assert np.allclose(np.exp(answers["k"].log), joint / joint.sum()) and not answers["k"].marks
    x = np.linspace(-9.0, 9.0, 20001)[:, None]
    density = (prior * np.exp(-0.5 * (x - centre) ** 2 - 0.5 * ((0.7 - 2 * x) / 0.5) ** 2)).sum(1)
    density /= density.sum()
    mean = (density * x[:, 0]).sum()
    assert np.isclose(answers["x"].info[0] / answers["x"].precision[0, 0], mean)
    assert np.isclose(1 / answers["x"].precision[0, 0], (density * (x[:, 0] - mean) ** 2).sum())
    assert answers["x"].marks == {"projected(moment matching)"}


def test_improper() -> None:
    with pytest.raises(ValueError, match="multiply by a prior"):
        marginals([normal({"y": 1.0, "x": -1.0}, 0.0, 1.0)], ["x", "y"])
