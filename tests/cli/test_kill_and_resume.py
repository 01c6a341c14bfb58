"""A run that is killed goes on from its checkpoint, and ends with the draws of one that was not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fubini.cli import main
from fubini.questions.draw_diagnostics import arviz

MODEL = """
import fubini as fb
from fubini import dist


@fb.model
def bumps(x):
    w = yield dist.Normal(0.0, 1.0).expand([4])
    y = yield dist.Bernoulli(logits=w[0] + w[1] * x + w[2] * x**2 + w[3] * x**3)
"""
SECONDS = 120


def test_killed_and_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bumps.py").write_text(MODEL)
    random = np.random.default_rng(0)
    rows = [f"{x:.4f},{int(random.uniform() < 1 / (1 + np.exp(-x)))}" for x in random.normal(size=200)]
    Path("data.csv").write_text("\n".join(["x,y", *rows]) + "\n")
    command = ["infer", "bumps.py", "--data", "data.csv", "--draws", "6000", "--chains", "2", "--quiet"]
    resumed = [*command, "--checkpoint", "run.checkpoint", "--netcdf", "resumed.nc"]
    program = f"import sys; from fubini.cli import main; sys.exit(main({resumed!r}))"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + SECONDS
    while not Path("run.checkpoint").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it had ended already"
    assert Path("run.checkpoint").exists() and not Path("resumed.nc").exists()
    assert main(resumed) == 0
    assert main([*command, "--netcdf", "whole.nc"]) == 0
    found, whole = (arviz().from_netcdf(name).posterior["w"].values for name in ("resumed.nc", "whole.nc"))
    np.testing.assert_array_equal(found, whole)
    assert found.shape == (2, 6000, 4)
