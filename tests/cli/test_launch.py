"""`fubini launch`: processes that run one script; when one fails, all end, and what failed is said."""

import os
import signal
import time
from pathlib import Path
from threading import Thread

import jax
import pytest

import fubini as fb
from fubini.cli import main

SLEEPING = """
import os, sys, time
from pathlib import Path

index = os.environ["FUBINI_PROCESS"]
Path(f"pid-{index}").write_text(str(os.getpid()))
Path(os.environ["FUBINI_NOTES"], "checkpoint-" + index).write_text("run.npz")
if "--stubborn" in sys.argv:
    import signal
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(text: str) -> str:
    Path("script.py").write_text(text)
    return "script.py"


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_each_process_knows_its_place(folder, capfd) -> None:
    text = (
        "import os, sys\n"
        "where = [os.environ['FUBINI_' + name] for name in ('PROCESS', 'PROCESSES', 'COORDINATOR')]\n"
        "open('seen-' + where[0], 'w').write(' '.join([*where, os.environ['XLA_FLAGS'], *sys.argv[1:]]))\n"
    )
    assert main(["launch", "-n", "3", "--devices", "4", script(text), "--rows", "7"]) == 0
    seen = [Path(f"seen-{index}").read_text().split() for index in range(3)]
    assert [one[:2] for one in seen] == [["0", "3"], ["1", "3"], ["2", "3"]]
    assert len({one[2] for one in seen}) == 1 and seen[0][2].startswith("127.0.0.1:")
    for one in seen:
        assert one[-2:] == ["--rows", "7"]
        assert [flag for flag in one if "device_count" in flag] == ["--xla_force_host_platform_device_count=4"]
    assert "3 processes of script.py have ended" in capfd.readouterr().out


@pytest.mark.parametrize("how", ["quiet", "--stubborn"])
def test_one_that_is_killed_ends_all(how, folder, capfd) -> None:
    def kill() -> None:
        while not all(Path(f"pid-{index}").exists() and Path(f"pid-{index}").read_text() for index in (0, 1)):
            time.sleep(0.05)
        time.sleep(0.3)
        os.kill(int(Path("pid-1").read_text()), signal.SIGKILL)

    thread = Thread(target=kill)
    thread.start()
    begun = time.monotonic()
    assert main(["launch", "-n", "2", script(SLEEPING), how]) == 1
    assert time.monotonic() - begun < 15
    thread.join()
    assert not is_running(int(Path("pid-0").read_text()))
    message = capfd.readouterr().err
    for part in (
        f"process 1 of 2 of script.py, pid {Path('pid-1').read_text()}",
        "ended by the signal SIGKILL; the others were stopped",
        "the run is kept in the checkpoint run.npz",
        f"to do:    fubini launch -n 2 script.py {how} goes on from there",
    ):
        assert part in message


def test_one_that_fails_ends_all(folder, capfd) -> None:
    text = "import os, sys, time\nif os.environ['FUBINI_PROCESS'] == '0':\n    sys.exit(3)\ntime.sleep(60)\n"
    assert main(["launch", "-n", "2", script(text)]) == 1
    message = capfd.readouterr().err
    assert "process 0 of 2" in message and "its exit status was 3" in message
    assert "no checkpoint was written" in message and "begins again" in message


JOINED = """
import sys, time
from pathlib import Path
from jax.experimental.multihost_utils import sync_global_devices
import fubini as fb

here = fb.distributed()
sync_global_devices("both are here")
if here.index == 1:
    try:
        sys.exit(5)
    except SystemExit:
        Path("ends").write_text(str(time.time()))
    sys.exit(END)
sync_global_devices("one has ended")
"""


@pytest.mark.parametrize(("end", "status"), [(3, 3), ("there are no rows", 1)])
def test_one_that_exits_is_not_waited_for(end, status, folder, capfd) -> None:
    """JAX would wait for the other process, which waits for this one, for minutes."""
    assert main(["launch", "-n", "2", "--devices", "1", script(JOINED.replace("END", repr(end)))]) == 1
    assert time.time() - float(Path("ends").read_text()) < 15
    message = capfd.readouterr().err
    assert "process 1 of 2 of script.py" in message and f"its exit status was {status}; the others" in message
    assert end == status or f"{end}\n" in message


def test_what_cannot_be_launched(folder, capfd) -> None:
    assert main(["launch", "-n", "2", "absent.py"]) == 1
    assert "fubini launch of absent.py" in capfd.readouterr().err
    for option in ("-n", "--devices"):
        assert main(["launch", "-n", "2", option, "0", script("")]) == 1
        assert "at least 1" in capfd.readouterr().err


@pytest.mark.parametrize("variable", ["FUBINI_PROCESSES", "FUBINI_PROCESS"])
def test_variables_that_are_no_numbers(variable, folder, capfd, monkeypatch) -> None:
    for name, value in {"COORDINATOR": "127.0.0.1:1", "PROCESSES": "2", "PROCESS": "0"}.items():
        monkeypatch.setenv(f"FUBINI_{name}", value)
    monkeypatch.setenv(variable, "two")
    with pytest.raises(fb.FubiniError, match=rf"the variable {variable} is 'two'\n\s*expected: a whole number"):
        fb.distributed()


def test_joining_comes_before_the_first_array() -> None:
    jax.devices()
    with pytest.raises(fb.FubiniError, match=r"after JAX has computed[\s\S]*at the top of the script"):
        fb.distributed()
