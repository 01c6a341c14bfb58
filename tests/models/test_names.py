"""How sites get their names, and makers their arguments."""

import jax
import numpy as np
import pytest

import fubini as fb
from fubini import dist

KEY = jax.random.key(0)
NORMAL = dist.Normal(0.0, 1.0)

# -- a list ------------------------------------------------------------------------------------------------------------


def test_arguments_are_the_items_before_the_nearest_first() -> None:
    """A8."""
    joint = fb.JointSequential([NORMAL, dist.Exponential(1.0), lambda b, a: dist.Normal(a, b)])
    assert joint.names == ("a", "b", "x") and joint.graph()["x"] == ("b", "a")


def test_an_underscore_skips() -> None:
    """A8."""
    joint = fb.JointSequential([NORMAL, dist.Exponential(1.0), lambda _, a: dist.Normal(a, 1.0)])
    assert joint.names == ("a", "x", "x1") and joint.graph()["x1"] == ("a",)


def test_only_required_arguments_count() -> None:
    """A8: an argument with a default keeps it."""
    joint = fb.JointSequential([NORMAL, lambda a, scale=2.0: dist.Normal(a, scale)])
    assert joint.names == ("a", "x")
    want = fb.JointSequential([NORMAL, lambda a: dist.Normal(a, 2.0)]).log_prob([0.3, 1.0])
    assert float(joint.log_prob([0.3, 1.0])) == float(want)


def test_varargs_are_all_the_items_before() -> None:
    """A8."""
    joint = fb.JointSequential([NORMAL, NORMAL, NORMAL, lambda c, *rest: dist.Normal(c + rest[0] + rest[1], 1.0)])
    assert joint.names == ("x", "x1", "c", "x2") and joint.graph()["x2"] == ("c", "x1", "x")


def test_a_family_is_a_maker() -> None:
    """A7, A8: it takes all of its numbers, also those that have a default when it is called."""
    joint = fb.JointSequential([dist.Exponential(1.0), NORMAL, dist.Normal])
    assert joint.names == ("scale", "loc", "x") and joint.graph()["x"] == ("loc", "scale")
    named = fb.JointNamed(dict(loc=NORMAL, scale=dist.Exponential(1.0), x=dist.Normal))
    assert named.graph()["x"] == ("scale", "loc")
    assert float(named.log_prob(loc=0.3, scale=2.0, x=1.0)) == float(joint.log_prob([2.0, 0.3, 1.0]))


def test_own_names_then_those_of_makers_then_x() -> None:
    """A9; a name given to the component wins over none, and must agree with a maker's."""
    joint = fb.JointSequential([NORMAL.named("a"), NORMAL, lambda b, a: dist.Normal(a + b, 1.0), NORMAL])
    assert joint.names == ("a", "b", "x", "x1")
    maker = fb.JointSequential([NORMAL, fb.JointSequential([NORMAL]).named("inner"), NORMAL.named("x")])
    assert maker.names == ("x1", "inner", "x")


def test_names_of_a_loop() -> None:
    """TFP's issues 942 and 675: lists that are generated."""
    joint = fb.JointSequential([NORMAL.named(f"z{place}") for place in range(4)])
    assert joint.names == ("z0", "z1", "z2", "z3")


# -- a dict ------------------------------------------------------------------------------------------------------------


def test_makers_with_keywords_depend_on_all_sites_written_before() -> None:
    """A7."""
    joint = fb.JointNamed(dict(a=NORMAL, b=NORMAL, x=lambda **others: dist.Normal(sum(others.values()), 1.0), c=NORMAL))
    assert joint.graph()["x"] == ("b", "a")


# -- a generator -------------------------------------------------------------------------------------------------------


def test_assignment_targets() -> None:
    """A plain target names its site; other sites are var0, var1 …; `.named` does it too."""

    def model():
        a = yield NORMAL
        yield NORMAL
        b: float = yield NORMAL
        c, d = yield dist.Normal(np.zeros(2), 1.0)
        e = (yield NORMAL) + a + b + c + d
        yield dist.Normal(e, 1.0).named("end")
        _ = yield NORMAL

    joint = fb.JointCoroutine(model)
    assert joint.names == ("a", "var0", "b", "var1", "var2", "end", "var3")
    assert joint.sample(KEY)._fields == joint.names


def test_targets_seen_again_are_numbered() -> None:
    @fb.model
    def walk(steps):
        x = yield NORMAL
        for _ in range(steps):
            x = yield dist.Normal(x, 1.0)
            y = yield dist.Normal(x, 1.0)
        return y

    assert walk(2).names == ("x", "x_1", "y", "x_2", "y_1")
    assert dict(walk(2).graph()) == {"x": (), "x_1": ("x",), "y": ("x_1",), "x_2": ("x_1",), "y_1": ("x_2",)}


def test_yield_from_nests_flat() -> None:
    """A21."""

    def pair(m):
        y = yield dist.Normal(m, 1.0)
        z = yield dist.Normal(y, 1.0)
        return z

    def model():
        m = yield NORMAL
        z = yield from pair(m)
        w = yield dist.Normal(z, 1.0)
        return w

    joint = fb.JointCoroutine(model)
    assert joint.names == ("m", "y", "z", "w") and joint.graph()["w"] == ("z",)


def test_named_arguments_and_defaults() -> None:
    """int, bool and str are part of the model, floats and arrays its parameters, functions both."""

    @fb.model
    def regression(X, link, degree=1, *, flat=False, options=None):
        w = yield dist.Normal(0.0, options["scale"]).expand([degree])
        y = yield dist.Normal(0.0 * X if flat else link(X * w[0]), 1.0)
        return y

    X = np.array([1.0, 2.0])
    joint = regression(X, lambda z: 3.0 * z, degree=2, options={"scale": 2.0, "unused": [1, "a"]})
    assert joint.event_shape == ((2,), (2,))
    assert len(jax.tree_util.tree_leaves(joint)) == 2  # X and the scale
    want = dist.Normal(0.0, 2.0)(0.5).log() + dist.Normal(0.0, 2.0)(0.1).log()
    want = float(want) + sum(float(dist.Normal(3.0 * x * 0.5, 1.0)(1.0).log()) for x in X)
    assert float(joint.log_prob(np.array([0.5, 0.1]), np.ones(2))) == pytest.approx(want, abs=1e-10)
    assert regression(X, np.sin, flat=True, options={"scale": 1.0}).graph()["y"] == ()
