"""Two processes of four devices each: the answers of one, errors where they differ, and runs that are killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from fubini.errors import OtherMesh

from .meshes import mesh_of
from .plate_models import regression
from .scripts.logistic_run import X, Y, draws
from .scripts.questions import normal

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(__file__).parent / "scripts"
SECONDS = 600


def launched(script: str, folder: Path) -> subprocess.Popen:
    """Two processes of a script; what they compile is kept for the next, and compiled fast rather than to be fast."""
    variables = {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    command = ["launch", "-n", "2", "--devices", "4", str(SCRIPTS / script), str(folder)]
    return subprocess.Popen(
        [sys.executable, "-m", "fubini", *command], stderr=subprocess.PIPE, text=True, env=os.environ | variables
    )


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def place_of(pid: int) -> int:
    """Which of the launched processes it is."""
    variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return int(next(one.split(b"=")[1] for one in variables if one.startswith(b"FUBINI_PROCESS=")))


class Killed:
    """What `fubini launch` said when one of its processes was killed, and how soon."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        launch = launched("logistic_run.py", folder)
        until = time.monotonic() + SECONDS
        while not (folder / "run.npz").exists() and launch.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        started = children(launch.pid)
        (self.pid,) = (pid for pid in started if place_of(pid) == 1)
        begun = time.monotonic()
        os.kill(self.pid, signal.SIGKILL)
        _, self.message = launch.communicate(timeout=60)
        self.seconds, self.status = time.monotonic() - begun, launch.returncode
        self.others = [pid for pid in started if Path(f"/proc/{pid}").exists()]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    if not Path("/proc/self/environ").exists():
        pytest.skip("this system has no /proc, by which the test finds the processes to kill")
    return Killed(tmp_path_factory.mktemp("processes"))


@pytest.fixture(scope="module")
def answers(killed: Killed) -> list[dict[str, Any]]:
    """Of both processes; the run that was killed goes on in them."""
    launch = launched("questions.py", killed.folder)
    _, message = launch.communicate(timeout=SECONDS)
    assert launch.returncode == 0, message
    return [json.loads((killed.folder / f"answers-{index}.json").read_text()) for index in range(2)]


def test_a_killed_process_ends_all(killed: Killed) -> None:
    assert killed.status == 1 and killed.seconds < 15 and not killed.others
    for part in (
        f"process 1 of 2 of {SCRIPTS / 'logistic_run.py'}, pid {killed.pid}",
        "ended by the signal SIGKILL; the others were stopped",
        f"the run is kept in the checkpoint {killed.folder / 'run.npz'}",
        f"to do:    fubini launch -n 2 --devices 4 {SCRIPTS / 'logistic_run.py'} {killed.folder} goes on from there",
    ):
        assert part in killed.message
    assert not list(killed.folder.glob("ended-*"))


def test_a_killed_run_goes_on_with_the_same_draws(answers: list[dict[str, Any]]) -> None:
    for one in answers:
        assert one["resumed"] == one["nuts"]


def test_draws_in_a_store_are_written_once(answers: list[dict[str, Any]], killed: Killed) -> None:
    for one in answers:
        assert one["stored"] == one["nuts"]


def test_labels_are_drawn_by_both_processes(answers: list[dict[str, Any]]) -> None:
    for one in answers:
        assert one["labels"] == one["labels of one process"] and len(one["labels"]) == 4


def test_both_processes_answer_the_same(answers: list[dict[str, Any]]) -> None:
    first, second = ({name: x for name, x in one.items() if name not in ("place", "rows read")} for one in answers)
    assert first == second
    assert [one["place"] for one in answers] == [[0, 2], [1, 2]]


def test_each_process_reads_its_own_rows(answers: list[dict[str, Any]]) -> None:
    assert [one["rows read"] for one in answers] == [[50] * 4, [49, 50, 50, 50]]


def test_answers_are_those_of_one_device(answers: list[dict[str, Any]]) -> None:
    with jax.enable_x64(True):
        one_device = regression(X).condition(y=Y)
        assert answers[0]["regression"] == pytest.approx(float(one_device.log_evidence()), rel=1e-10)
        logs = np.log([0.4, 0.6]) + np.log(X[:392] ** 2 + 1.0).sum(axis=0)
        np.testing.assert_allclose(answers[0]["factors"], np.exp(logs - np.logaddexp(*logs)), rtol=1e-9)
        slope = jax.grad(lambda m: normal(len(Y)).condition(y=jnp.asarray(Y)).log_prob(m=m, v=1.0))(0.5)
        assert answers[0]["slope"] == pytest.approx(float(slope), rel=1e-10)
        np.testing.assert_allclose(answers[0]["weights"], one_device.marginal("w").mean("w").data, rtol=1e-10)


def test_log_likelihoods_of_rows_are_fetched_where_they_are_asked_for(answers: list[dict[str, Any]]) -> None:
    with jax.enable_x64(True):
        one_device = (
            normal(len(Y))
            .condition(y=jnp.asarray(Y))
            .infer(jax.random.key(1), draws=3, chains=1, progress=False, log_likelihood=True, predictive=False)
        )
    expected = one_device.log_likelihood["y"].sum(("chain", "draw"))
    assert answers[0]["kept on the mesh"] == ["y"]
    np.testing.assert_allclose(answers[0]["log-likelihoods"], expected, rtol=1e-9)


def test_a_run_goes_on_over_another_mesh(answers: list[dict[str, Any]], killed: Killed) -> None:
    """From the last checkpoint but one; the draws are those of one process up to rounding, with a warning."""
    os.replace(killed.folder / "run.npz.previous", killed.folder / "other.npz")
    message = r"over a mesh with 8 rows\s*nearest:  it was written over a mesh with 2 chains, 4 rows"
    with jax.enable_x64(True), pytest.warns(OtherMesh, match=message):
        other = draws(mesh_of(AxisType.Auto, rows=8), checkpoint=killed.folder / "other.npz")
    np.testing.assert_allclose(other, answers[0]["nuts"], rtol=1e-8)


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("shape", "fb.shard(…, 'rows') in 2 processes"),
        ("shape", "the shape of process 1 is (391,), of process 0 (399,)"),
        ("model", "the model of process 1 is "),
        ("data", "the data of process 1 is float64[399, 2] with the digest"),
        ("captured", "the captured arrays of process 1 is float64[399] with the digest"),
        ("values", "the value of m of process 1 is [1.5], of process 0 [0.5]"),
        ("checkpoint", "the checkpoint of process 1 is True, of process 0 False"),
        ("factors", "a question to factors in 2 processes"),
        ("factors", "the arrays of process 1 is [0.4, 1.6], "),
        ("key of a chain", "[0, 1]"),
        ("key", "infer(key, …) in 2 processes"),
        ("key", "the key of process 1 is [0, 1], of process 0 [0, 0]"),
        ("draws", "the draws of process 1 is 7, of process 0 6"),
        ("key of predict", "the key of process 1 is [0, 1], of process 0 [0, 0]"),
        ("key of labels", "gibbs(…).run(key, …) in 2 processes"),
        ("chains of labels", "expected: a multiple of 2, so that each process has as many chains"),
        ("question", "the question of process 1 is a question to a model, of process 0 fb.shard(…, 'rows')"),
    ],
)
def test_processes_that_differ_are_an_error_in_each(case: str, message: str, answers: list[dict[str, Any]]) -> None:
    for one in answers:
        assert message in one["refused"][case]
    assert answers[0]["normal again"] == answers[0]["normal"]
