"""Style and types, as `make lint` checks them: here beside the tests, on whichever core is free."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = Path(sys.executable).parent
CHECKS = {
    "style": ("ruff", "check"),
    "format": ("ruff", "format", "--check"),
    "types": ("basedpyright", "--pythonpath", sys.executable),
}


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_check_passes(check: str) -> None:
    program, *arguments = CHECKS[check]
    found = subprocess.run([PROGRAMS / program, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
