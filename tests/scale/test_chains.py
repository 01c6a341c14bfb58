"""Chains over a mesh: the draws of one device, by programs in which no chain waits for those on other devices."""

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

import fubini as fb
from fubini.infer.chain_placement import Order, chain_placement
from fubini.infer.driver import Schedule, run
from fubini.infer.methods import METHODS, Settings
from fubini.infer.nuts import NutsOptions
from fubini.models.eliminated_model import eliminated
from fubini.models.flat_model import FlatModel
from fubini.questions.sampler_target import target_of

from .meshes import mesh_of
from .plate_models import cases

KEY = jax.random.key(0)
MESH = mesh_of(AxisType.Explicit, chains=2, rows=4)
CASE = cases(399)["logistic"]
OPTIONS = dict(draws=5, chains=4, warmup=5, progress=False, log_likelihood=False, predictive=False)
COLLECTIVE = re.compile(r" (?:all-reduce|all-gather|all-to-all|reduce-scatter|collective-permute)(?:-start)?\(")
GROUPS = re.compile(r"replica_groups=(\{\{[\d,{}]*\}\}|\[[\d,]*\]<=\[[\d,]*\](?:T\([\d,]*\))?)")


def on_mesh(x: np.ndarray) -> Any:
    return fb.shard(x.astype(np.float64) if x.dtype.kind == "f" else x, MESH, "rows")


@pytest.fixture(scope="module")
def in_float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def replica_groups(text: str) -> np.ndarray:
    """Of a line of HLO, [group, device]: they are listed, or numbers reshaped and transposed."""
    found = GROUPS.search(text)
    assert found, text
    if found[1].startswith("{"):
        return np.array([[int(n) for n in part.split(",")] for part in found[1].strip("{}").split("},{")])
    shape, base, *order = (tuple(map(int, part.split(","))) for part in re.findall(r"[\[(]([\d,]*)[\])]", found[1]))
    numbers = np.arange(np.prod(base)).reshape(base)
    return (numbers.transpose(order[0]) if order else numbers).reshape(shape)


def test_groups_of_devices_are_read_from_a_program() -> None:
    assert replica_groups("replica_groups={{0,1},{2,3}}").tolist() == [[0, 1], [2, 3]]
    assert replica_groups("replica_groups=[2,4]<=[8]").tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert replica_groups("replica_groups=[4,2]<=[2,4]T(1,0)").tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_chains_over_a_mesh_are_those_of_one_device(in_float64: None) -> None:
    over_mesh = CASE.post(on_mesh).infer(KEY, mesh=MESH, **OPTIONS)
    one_device = CASE.post(lambda x: x).infer(KEY, method="nuts", **OPTIONS)
    assert over_mesh.posterior.attrs["method"] == "nuts"
    np.testing.assert_allclose(over_mesh.posterior["w"], one_device.posterior["w"], rtol=1e-8)
    np.testing.assert_array_equal(over_mesh.sample_stats["n_steps"], one_device.sample_stats["n_steps"])
    assert len(np.unique(over_mesh.sample_stats["n_steps"])) > 1  # chains take different numbers of steps


def test_no_chain_waits_for_another_device(in_float64: None) -> None:
    """Devices communicate within the group that has a chain's rows, in loops too."""
    model = FlatModel(CASE.post(on_mesh))
    with model.precision():
        target, _ = target_of(eliminated(model, ()))
        sampler: Any = METHODS["nuts"](target, Settings(NutsOptions(5), mesh=MESH))
        run(sampler, KEY, Schedule(5, chains=4))
    text = sampler._code.step.args[0].as_text()
    lines = [line for line in text.splitlines() if COLLECTIVE.search(line)]
    assert lines
    chain_of = np.arange(8) // 4  # the first four devices have the first two chains
    assert [int(device.id) for device in MESH.devices.ravel()] == list(range(8))
    for line in lines:
        assert all(len(set(chain_of[group])) == 1 for group in replica_groups(line)), line
    assert any("while" in line for line in lines)


@fb.model
def spreading(x: Any):
    """Least squares whose weights depend on a latent: a triangle of each device for each density."""
    s = yield fb.dist.HalfNormal(1.0).named("s")
    w = yield fb.dist.Normal(0.0, 1.0).expand([3]).named("w")
    yield fb.dist.Normal(x @ w, jnp.exp(s * x[:, 0])).named("y")


@fb.model
def level(x: Any):
    """A Gaussian chain along the rows, of which neighbours lie on different devices."""
    s = yield fb.dist.HalfNormal(1.0).named("s")
    step = fb.dist.Markov(fb.dist.Normal(0.0, 1.0), lambda z: fb.dist.Normal(0.9 * z, s), len(x))
    z = yield step.named("z")
    yield fb.dist.Normal(z, 0.5).named("y")


X, Y = np.random.default_rng(0).normal(size=(37, 3)), np.random.default_rng(1).normal(size=37)


def test_densities_of_chains_may_solve_least_squares_of_their_own(in_float64: None) -> None:
    values, answers = np.array([0.3, -0.8]), []
    for place, mesh in ((on_mesh, MESH), (jnp.asarray, None)):
        model = FlatModel(spreading(place(X)).condition(y=place(Y)))
        with model.precision():
            target, _ = target_of(eliminated(model, ["w"]))
            placement = chain_placement(Order.TOGETHER, target.numbers, mesh)
            density = placement.over_chains(jax.value_and_grad(lambda s, data, t=target: t.log_density({"s": s}, data)))
            answers.append(jax.jit(density)(*placement.put(values, target.numbers)))
    np.testing.assert_allclose(*answers, rtol=1e-10)


def test_no_chain_waits_for_parts_of_data(in_float64: None) -> None:
    """Where XLA would exchange parts in one step of all devices, chains with different numbers of steps would hang."""
    options = OPTIONS | dict(draws=3, chains=2, method="nuts")
    draws = level(on_mesh(Y)).condition(y=on_mesh(Y)).infer(KEY, mesh=MESH, **options)
    s = draws.posterior["s"].values
    one_device = level(Y).condition(y=Y).eliminate("z").log_prob(s=s)
    np.testing.assert_allclose(draws.sample_stats["lp"], one_device + np.log(s), rtol=1e-8)
    assert len(np.unique(draws.sample_stats["n_steps"])) > 1


# -- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "options", "message"),
    [
        (MESH, {"chains": 3}, r"of 3 chains\s*expected: a multiple of 2.*\s*nearest:  chains=4"),
        (mesh_of(AxisType.Auto, chain=8), {}, r"an axis 'chains'\s*nearest:  'chain'\s*to do:    jax\.make_mesh"),
        (mesh_of(AxisType.Auto, rows=8), {}, r"an axis 'chains'\s*nearest:  its axes are 'rows'"),
        ("chains", {}, r"infer\(…, mesh='chains'\)\s*expected: a mesh of devices with an axis 'chains'"),
        (
            mesh_of(AxisType.Auto, chains=8),
            {"chains": 8},
            r"mesh=\{'chains': 8\}\) of data on the mesh \{'chains': 2, 'rows': 4\}",
        ),
        (MESH, {"method": "laplace"}, r"infer\(…, method='laplace', mesh=…\)\s*expected: no options"),
    ],
)
def test_meshes_that_do_not_fit(mesh: Any, options: dict, message: str) -> None:
    with pytest.raises(fb.FubiniError, match=message):
        CASE.post(on_mesh).infer(KEY, mesh=mesh, **{**OPTIONS, **options})


def test_samplers_of_labels_take_meshes_with_chains() -> None:
    """Of one process all chains are in threads; blocked sweeps lie on the devices."""
    model = fb.JointNamed(
        dict(
            w=fb.dist.Beta(1.0, 1.0),
            z=lambda w: fb.dist.Bernoulli(w).expand([4]),
            y=lambda z: fb.dist.Normal(z * 1.0, 1.0),
        )
    )
    post = model.condition(y=np.array([0.1, 0.9, 1.2, -0.3]))
    for sampler in (post.gibbs("z", engine="python"), post.gibbs("z", blocked=True)):
        over_mesh, without = (sampler.run(KEY, 6, 4, mesh=mesh) for mesh in (MESH, None))
        for name, value in without.items():
            np.testing.assert_allclose(over_mesh[name], value, rtol=1e-5)
        with pytest.raises(fb.FubiniError, match=r"run\(…, mesh=.*\) of 3 chains\s*expected: a multiple of 2"):
            sampler.run(KEY, 6, 3, mesh=MESH)


def test_labels_are_not_drawn_over_a_mesh() -> None:
    with pytest.raises(fb.FubiniError, match=r"method='nuts' with 'mesh'\s*expected: .* can be summed out"):
        fb.JointNamed(
            dict(
                p=fb.dist.Beta(1.0, 1.0),
                n=lambda p: fb.dist.Poisson(3.0 * p),
                y=lambda n: fb.dist.Normal(n * 1.0, 1.0),
            )
        ).condition(y=1.0).infer(KEY, mesh=MESH, **OPTIONS)
