"""Bad values, observations and parameters: what was asked, what was expected, and what to do, in every message."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import DataError, DomainError, Intractable, NameClash, NoRule, UnknownName

from .bad import Bad, check
from .flavours import POINT, in_dict, in_list, simple

KEY = jax.random.key(0)
NORMAL = dist.Normal(0.0, 1.0)
VECTOR = fb.JointNamed(dict(x=dist.Normal(np.zeros(3), 1.0)))
HOLES = np.ma.masked_invalid([0.5, np.nan, 2.0])


def read() -> fb.Joint:
    return fb.JointNamed(dict(m=dist.Normal(np.zeros(3), 1.0), y=lambda m: dist.Normal(m, 1.0)))


def computed() -> fb.Joint:
    return fb.JointSequential([NORMAL, lambda z: fb.deterministic(2.0 * z)])


def nested() -> fb.Joint:
    return fb.JointNamed(dict(a=fb.JointNamed(dict(p=NORMAL, q=NORMAL)), b=NORMAL))


VALUES: dict[str, Bad] = {
    # which sites
    "no value": (
        lambda: in_list().log_prob([1.0, 0.0]),
        DataError,
        ["no value for the site 'x'", "given were 's', 'm'", "condition"],
    ),
    "None for a value": (lambda: in_list().log_prob([1.0, 0.0, None]), DataError, ["no value for the site 'x'"]),
    "no value inside": (lambda: nested().log_prob(a={"p": 1.0}, b=0.0), DataError, ["no value for the site 'a.q'"]),
    "no value for what is not observed": (
        lambda: in_list().condition(x=0.5).log_prob(s=1.0),
        DataError,
        ["no value for the site 'm'"],
    ),
    "no value for the bijector": (
        lambda: in_list().bijector().forward(s=1.0),
        DataError,
        ["no value for the site 'm'"],
    ),
    "an unknown site": (
        lambda: simple().log_prob(s=1.0, m=0.0, x=0.5, xx=3.0),
        UnknownName,
        ["a value for 'xx'", "'s', 'm', 'x'", "nearest:  'x'"],
    ),
    "an unknown site in sample": (
        lambda: in_list().sample(KEY, q=1.0),
        UnknownName,
        ["a value for 'q'", "'s', 'm', 'x'"],
    ),
    "an unknown site inside": (
        lambda: nested().sample(KEY, a={"r": 1.0}),
        UnknownName,
        ["a value of 'a' for 'r'", "'p', 'q'"],
    ),
    "an observed site given": (
        lambda: in_list().condition(x=0.5).log_prob(s=1.0, m=0.0, x=0.5),
        UnknownName,
        ["a value for 'x'", "'s', 'm'"],
    ),
    "two values": (lambda: in_list().log_prob(*POINT, x=0.5), DomainError, ["two values for the site 'x'"]),
    "a structure and names": (
        lambda: in_list().sample(KEY, value=[1.0], m=0.0),
        DomainError,
        ["together with 'm'", "one structure, or sites by name"],
    ),
    # containers of values
    "positions for a dict": (lambda: in_dict().log_prob(*POINT), DomainError, ["as a tuple", "no positions"]),
    "a list for a dict": (lambda: in_dict().log_prob(POINT), DomainError, ["as a list", "a dict, of the sites"]),
    "a number for three sites": (lambda: in_list().log_prob(3.0), DomainError, ["as a float", "'s', 'm', 'x'"]),
    "too many values": (lambda: in_list().log_prob([*POINT, 3.0]), DomainError, ["with 4 items", "at most 3"]),
    "a number for a nested joint": (lambda: nested().sample(KEY, a=3.0), DomainError, ["a value of 'a' as a float"]),
    "a word": (lambda: in_list().log_prob([1.0, 0.0, "a"]), DomainError, ["the value 'a' for the site 'x'", "numbers"]),
    "rows of two lengths": (
        lambda: VECTOR.log_prob(x=[[1.0], [2.0, 3.0]]),
        DomainError,
        ["for the site 'x'", "numbers"],
    ),
    # shapes
    "a wrong shape": (lambda: VECTOR.log_prob(x=np.zeros(2)), DomainError, ["of shape (2,) for the site 'x'", "(3,)"]),
    "a number for a vector": (lambda: VECTOR.log_prob(x=0.0), DomainError, ["of shape ()", "the shape (3,)"]),
    "a batch of observations": (
        lambda: VECTOR.condition(x=np.zeros((2, 3))),
        DomainError,
        ["of shape (2, 3) for the site 'x'", "the shape (3,)"],
    ),
    "batches that do not broadcast": (
        lambda: in_list().log_prob([np.ones(2), np.zeros(3), 0.5]),
        DomainError,
        ["s: (2,), m: (3,)", "broadcast"],
    ),
    # supports
    "a negative scale": (
        lambda: in_list().log_prob([-1.0, 0.0, 0.5]),
        DataError,
        ["the value -1.0 of the site 's'", "Positive"],
    ),
    "one of a batch": (
        lambda: in_list().log_prob([np.array([1.0, -2.0]), 0.0, 0.5]),
        DataError,
        ["-2.0 of the site 's'"],
    ),
    "nan": (lambda: in_list().log_prob([1.0, np.nan, 0.5]), DataError, ["the value nan of the site 'm'", "Real"]),
    "half a count": (
        lambda: fb.JointNamed(dict(n=dist.Poisson(2.0))).log_prob(n=1.5),
        DataError,
        ["the value 1.5 of the site 'n'", "Nat"],
    ),
    "a label too high": (
        lambda: fb.JointNamed(dict(k=dist.Categorical(probs=np.array([0.5, 0.5])))).log_prob(k=2),
        DataError,
        ["the value 2 of the site 'k'", "Bint[2]"],
    ),
    "shares that do not add up": (
        lambda: fb.JointNamed(dict(p=dist.Dirichlet(np.ones(2)))).log_prob(p=[0.3, 0.3]),
        DataError,
        ["of the site 'p'", "Simplex[2]"],
    ),
    "an observation outside its domain": (lambda: in_list().condition(s=-1.0), DataError, ["-1.0 of the site 's'"]),
    # conditioning
    "observing an unknown site": (
        lambda: simple().condition(y=0.5),
        UnknownName,
        ["an observation for 'y'", "'s', 'm', 'x'"],
    ),
    "observing nothing": (lambda: simple().condition(), DomainError, ["no observations", "'s', 'm', 'x'"]),
    "observing what is computed": (
        lambda: computed().condition(x=1.0),
        DomainError,
        ["an observation of 'x', which is computed", "a distribution of its own"],
    ),
    "observing twice": (
        lambda: simple().condition(x=0.5).condition(x=0.5),
        DataError,
        ["'x', which is observed already", "uncondition('x')"],
    ),
    "observing twice inside": (
        lambda: nested().condition(a={"p": 1.0}).condition(a={"p": 1.0}),
        DataError,
        ["'a.p', which is observed already", "uncondition('a')"],
    ),
    "taking back what is not observed": (
        lambda: simple().condition(x=0.5).uncondition("m"),
        UnknownName,
        ["uncondition('m')", "an observed site: 'x'"],
    ),
    "a missing number that others read": (
        lambda: simple().condition(m=np.ma.masked_all(())),
        DomainError,
        ["the value of 'm', which is missing as a whole", "leave 'm' out of the observations"],
    ),
    "missing entries of an event that others read": (
        lambda: fb.JointNamed(
            dict(m=dist.MultivariateNormal(np.zeros(3), np.eye(3)), y=lambda m: dist.Normal(m, 1.0))
        ).condition(m=HOLES),
        NoRule,
        ["missing entries inside the events (3,) of 'm', which other sites depend on", "as a site of its own"],
    ),
    "the name of missing entries": (
        lambda: (
            fb.JointNamed(
                dict(
                    m=dist.Normal(0.0, 1.0).expand([3]),
                    m_missing=dist.Normal(0.0, 1.0),
                    y=lambda m: dist.Normal(m, 1.0),
                )
            )
            .condition(m=HOLES)
            .names
        ),
        NameClash,
        ["two sites called 'm_missing'"],
    ),
    "missing entries in nan": (lambda: VECTOR.condition(x=HOLES.filled(np.nan)), DataError, ["the value nan"]),
    "a slice of what is conditioned": (
        lambda: read().condition(y=np.zeros(3))[1:],
        DomainError,
        ["a slice of a joint given 'y'", "slice first"],
    ),
    "a slice too far": (lambda: VECTOR[5].names, DomainError, ["at 5", "(3,)"]),
    "a posterior without a closed form": (
        lambda: fb.JointNamed(dict(m=NORMAL, x=lambda m: dist.Normal(jnp.exp(m), 1.0))).condition(x=0.5).posterior(),
        Intractable,
        ["posterior(): the integral over 'm' has no closed form", "exp(m)", "infer(key)"],
    ),
    # keys and shapes of draws
    "no key": (lambda: in_list().sample(0), DataError, ["the key 0", "jax.random.key(0)"]),
    "a negative size": (lambda: in_list().sample(KEY, -1), DomainError, ["the shape -1", "a tuple of sizes"]),
    "a value for a shape": (lambda: in_list().sample(KEY, [1.0, None]), DomainError, ["[1.0, None]", "value="]),
    # parameters
    "a parameter outside its support": (
        lambda: fb.param(-1.0, fb.Positive),
        DataError,
        ["a parameter -1.0", "Positive"],
    ),
    "a parameter that is no number": (lambda: fb.param("a"), DataError, ["numbers"]),
    "a support of labels": (lambda: fb.param(1.0, fb.Bint[3]), DomainError, ["Bint[3]", "Real, Positive"]),
    "fitting without parameters": (
        lambda: fb.fit(simple().condition(x=0.5)),
        DomainError,
        ["at least one parameter", "fb.param(1.0, fb.Positive)"],
    ),
    "fitting without data": (
        lambda: fb.fit(fb.JointNamed(dict(x=dist.Normal(fb.param(0.0), 1.0)))),
        DomainError,
        ["without data", "model.condition(x=data)"],
    ),
    "fitting in no steps": (
        lambda: fb.fit(fb.JointNamed(dict(x=dist.Normal(fb.param(0.0), 1.0))).condition(x=1.0), steps=0),
        DomainError,
        ["in 0 steps"],
    ),
    "an objective that is not a number": (
        lambda: fb.fit(fb.JointNamed(dict(x=dist.Normal(fb.param(0.0), 1.0))), lambda joint: jnp.nan, progress=False),
        DataError,
        ["the objective is nan", "a smaller rate"],
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    check(VALUES[name])


def test_wrong_parameters_of_a_site_raise_where_the_values_are_known() -> None:
    """Traced they are NaN: never a plausible number."""
    joint = fb.JointNamed(dict(m=NORMAL, x=lambda m: dist.Normal(0.0, m)))
    with pytest.raises(DataError, match="scale"):
        joint.log_prob(m=-1.0, x=0.5)
    assert np.isnan(jax.jit(lambda m: joint.log_prob(m=m, x=0.5))(-1.0))


def test_a_value_of_density_zero_is_no_error() -> None:
    """A support that depends on other sites is the density's business."""
    joint = fb.JointNamed(dict(u=dist.Uniform(0.0, 1.0), v=lambda u: dist.Uniform(0.0, u)))
    assert float(joint.log_prob(u=0.5, v=0.7)) == -np.inf
