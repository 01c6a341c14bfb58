"""Checkpoints that were changed: an error of ours, whatever was changed, and never a number that was not drawn."""

import io
import json
import os
import zipfile
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fubini as fb
from fubini import dist
from fubini.errors import FileFormatError
from fubini.infer import archive
from fubini.infer.checkpoint import HEADER, Checkpoint, Layout, _digest
from fubini.infer.driver import Schedule, run
from fubini.models.flat_model import FlatModel
from fubini.questions.numpyro_gibbs import discrete_gibbs
from tests.infer.resumed import infer

pytestmark = pytest.mark.right_or_refused


class Stop(Exception):
    """A crash."""


def stopping(patch, after: int) -> None:
    """Runs crash after so many checkpoints."""
    save, left = Checkpoint.save, [after]

    def some(self, arrays):
        save(self, arrays)
        left[0] -= 1
        if not left[0]:
            raise Stop

    patch.setattr(Checkpoint, "save", some)


@fb.model
def classes():
    z = yield dist.Categorical(np.array([0.5, 0.3, 0.2])).expand([6])
    mu = yield dist.Normal(0.0, 3.0).expand([3])
    y = yield dist.Normal(mu[z], 1.0)


POST = classes().condition(y=np.array([-2.0, -1.9, 0.1, 0.2, 3.0, 3.1]))
SAMPLER = POST.eliminate("mu").gibbs("z", engine="python")


def gibbs(path, sampler=SAMPLER, **options):
    return sampler.run(jax.random.key(0), sweeps=20, chains=2, checkpoint=path, progress=False, **options)


@fb.model
def scaled_classes():
    z = yield dist.Categorical(np.array([0.5, 0.3, 0.2])).expand([6])
    s = yield dist.HalfCauchy(1.0)
    y = yield dist.Normal(jnp.array([-2.0, 0.0, 3.0])[z] * s, s)


SCALED = scaled_classes().condition(y=np.array([-2.0, -1.9, 0.1, 0.2, 3.0, 3.1])).gibbs("z", engine="python")
NESTED = fb.JointNamed({"a": classes(), "w": lambda a: dist.Normal(a.mu[0], 1.0)}).condition(w=0.5)


SAMPLERS = {  # of labels, by transitions on JAX
    "block gibbs": lambda: POST.gibbs("z", blocked=True).sampler(),
    "gibbs by numpyro": lambda: discrete_gibbs(FlatModel(POST), 0),
    "nested, by numpyro": lambda: discrete_gibbs(FlatModel(NESTED), 0),
}


def by_driver(kind: str, path) -> dict[str, np.ndarray]:
    file = None if path is None else Checkpoint(path, {"kind": kind})
    return run(SAMPLERS[kind](), jax.random.key(0), Schedule(20, chains=2), file).values


RUNS = {
    "nuts": lambda path: infer(path).posterior,
    "gibbs": gibbs,
    "gibbs with nuts": lambda path: gibbs(path, SCALED),
    **{kind: partial(by_driver, kind) for kind in SAMPLERS},
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """The bytes of a checkpoint of each sampler, and the draws of the whole run."""
    made = {}
    for kind, run_once in RUNS.items():
        path = tmp_path_factory.mktemp(kind) / "run.npz"
        with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
            stopping(patch, 15)
            run_once(path)
        made[kind] = path.read_bytes()
    return made


def arrays_of(content: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def forged(content: bytes, **changes) -> bytes:
    """A checkpoint with other arrays, and the digest that they have."""
    arrays = {**arrays_of(content), **changes}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    header = json.loads(arrays.pop(HEADER).tobytes())
    header["digest"] = _digest(arrays)
    file = io.BytesIO()
    np.savez(file, **{HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8)}, **arrays)
    return file.getvalue()


def refused(kind: str, content: bytes, tmp_path, match: str = "the checkpoint") -> None:
    path = tmp_path / "run.npz"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=match):
        RUNS[kind](path)


@pytest.mark.parametrize("kind", RUNS)
def test_an_unchanged_checkpoint_gives_the_draws_of_the_whole_run(kind, stopped, tmp_path) -> None:
    path = tmp_path / "run.npz"
    path.write_bytes(stopped[kind])
    found, whole = RUNS[kind](path), RUNS[kind](None)
    for name in whole:
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(whole[name]))


@pytest.mark.parametrize("label", [-1, 3, 10**9, None])
@pytest.mark.parametrize(
    "kind, array",
    [
        ("gibbs", "state:0.labels.z"),
        ("block gibbs", "state:values.z"),
        ("gibbs by numpyro", "state:z.z"),
        ("gibbs by numpyro", "state:block_states.0.z.z"),
        ("nested, by numpyro", "state:z.a.z"),
        ("nested, by numpyro", "drawn:a.z"),
        *((kind, "drawn:z") for kind in ("gibbs", "block gibbs", "gibbs by numpyro")),
    ],
)
@pytest.mark.one_in(4)
def test_labels_out_of_range_are_refused(label, kind, array, stopped, tmp_path) -> None:
    """With a digest that fits: they ended in a segmentation fault."""
    values = arrays_of(stopped[kind])[array].copy()
    values.flat[0] = np.iinfo(values.dtype).min if label is None else label
    refused(kind, forged(stopped[kind], **{array: values}), tmp_path, r"values of '(a\.)?z' are not from 0 to 2")


def test_labels_of_another_type_or_shape_are_refused(stopped, tmp_path) -> None:
    values = arrays_of(stopped["gibbs"])["state:0.labels.z"]
    for other in (values.astype(float), values[:-1], values[None], values.astype(np.int32), None):
        refused("gibbs", forged(stopped["gibbs"], **{"state:0.labels.z": other}), tmp_path, "changed")


@pytest.mark.parametrize("done", [0, -1, 21, 10**9])
@pytest.mark.parametrize("kind", RUNS)
@pytest.mark.one_in(4)
def test_a_place_outside_the_run_is_refused(kind, done, stopped, tmp_path) -> None:
    refused(kind, forged(stopped[kind], done=np.array(done)), tmp_path, "it is after .* of 20 parts")


@pytest.mark.parametrize("kind", RUNS)
def test_a_place_that_is_not_that_of_the_states_is_refused(kind, stopped, tmp_path) -> None:
    refused(kind, forged(stopped[kind], done=np.array(14)), tmp_path, "not those after its draws")


@pytest.mark.parametrize("part, number", [(3, 2), (4, 2), (4, 2**63), (5, 2**40)])
def test_a_generator_of_no_state_is_refused(part, number, stopped, tmp_path) -> None:
    state = arrays_of(stopped["gibbs"])["state:0.generator"].copy()
    state[part] = number
    refused("gibbs", forged(stopped["gibbs"], **{"state:0.generator": state}), tmp_path, "random generator")


def test_fixed_labels_that_moved_are_refused(tmp_path) -> None:
    path, start = tmp_path / "run.npz", {"z": np.zeros(6, int)}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        stopping(patch, 5)
        gibbs(path, start=start, fixed=[0])
    content = path.read_bytes()
    values = arrays_of(content)["state:0.labels.z"].copy()
    values[0] = 1
    path.write_bytes(forged(content, **{"state:0.labels.z": values}))
    with pytest.raises(FileFormatError, match="fixed entries of 'z' have moved"):
        gibbs(path, start=start, fixed=[0])


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_states_and_draws_that_are_not_finite_are_refused(number, stopped, tmp_path) -> None:
    arrays = arrays_of(stopped["nuts"])
    drawn = arrays["drawn:s"].copy()
    drawn[0, 0] = number
    refused("nuts", forged(stopped["nuts"], **{"drawn:s": drawn}), tmp_path, "infinite or not a number")
    for name in ("state:z.s", "state:potential_energy", "state:adapt_state.step_size"):
        spoiled = np.full_like(arrays[name], number)
        refused("nuts", forged(stopped["nuts"], **{name: spoiled}), tmp_path, "infinite or not a number")


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(
    "kind, array",
    [
        ("block gibbs", "state:values.mu"),
        ("gibbs with nuts", "state:0.others.s"),
        ("gibbs with nuts", "state:0.nuts.z.s"),
        ("gibbs with nuts", "state:1.nuts.potential_energy"),
        ("gibbs by numpyro", "state:z.mu"),
        ("gibbs by numpyro", "state:block_states.1.z.mu"),
    ],
)
@pytest.mark.one_in(3)
def test_other_latents_that_are_not_finite_are_refused(number, kind, array, stopped, tmp_path) -> None:
    spoiled = arrays_of(stopped[kind])[array].copy()
    spoiled.flat[0] = number
    refused(kind, forged(stopped[kind], **{array: spoiled}), tmp_path, "infinite or not a number")


def test_draws_of_two_lengths_are_refused(stopped, tmp_path) -> None:
    drawn = arrays_of(stopped["nuts"])["info:energy"]
    refused("nuts", forged(stopped["nuts"], **{"info:energy": drawn[:, :-1]}), tmp_path, "is float64 of shape")


@pytest.mark.parametrize("kind", RUNS)
def test_a_flipped_bit_is_refused_or_of_no_matter(kind, stopped, tmp_path) -> None:
    """In the list of members, and in many other places: one gave a NotImplementedError."""
    path, content = tmp_path / "run.npz", stopped[kind]
    arrays = arrays_of(content)
    file = Checkpoint(path, {})
    file.run = json.loads(arrays.pop(HEADER).tobytes())["run"]
    layout = {name: Layout(array.dtype, array.shape) for name, array in arrays.items()}
    end = len(content) - 22
    refusals = 0
    for place in (*range(end - 120, len(content)), *range(0, 200, 3), *range(0, end, 997)):
        changed = bytearray(content)
        changed[place] ^= 1 << (place % 8)
        path.write_bytes(bytes(changed))
        try:
            found = file.load(layout)
        except FileFormatError:
            refusals += 1
        else:
            assert found is not None and all(np.array_equal(found[name], arrays[name]) for name in arrays)
    assert refusals > 100


def test_an_archive_of_many_members_is_refused_before_they_are_listed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(archive, "ZipFile", None)  # not one is looked at
    path = tmp_path / "run.npz"
    with zipfile.ZipFile(path, "w") as file:
        for number in range(archive.MOST_MEMBERS + 1):
            file.writestr(f"a{number}.npy", b"")
    with pytest.raises(FileFormatError, match="more than the 4096"):
        gibbs(path)


def test_a_compressed_archive_is_refused(stopped, tmp_path) -> None:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays_of(stopped["gibbs"]))
    refused("gibbs", file.getvalue(), tmp_path, "compressed")


def test_an_array_that_announces_more_than_it_has_is_refused(stopped, tmp_path) -> None:
    text = b"(2, 20, 6), "
    assert stopped["gibbs"].count(text) == 1
    refused("gibbs", stopped["gibbs"].replace(text, b"(9, 99, 9), "), tmp_path)


def test_a_pipe_or_a_device_is_no_checkpoint(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(FileFormatError, match="a device or a pipe"):
            gibbs(path)


def test_the_new_file_has_a_name_that_nobody_can_foresee_and_is_the_users_alone(tmp_path, monkeypatch) -> None:
    names, modes = [], []
    write = archive.write_archive

    def spy(file, arrays):
        write(file, arrays)
        names.append(file.name)
        modes.append(os.stat(file.name).st_mode & 0o777)

    monkeypatch.setattr("fubini.infer.checkpoint.write_archive", spy)
    for _ in range(2):
        Checkpoint(tmp_path / "run.npz", {}).save({"a": np.zeros(2)})
    assert len(set(names)) == 2 and set(modes) == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.npz", "run.npz.previous"]
