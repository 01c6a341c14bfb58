"""`fubini launch -n 2 script.py`: a script by several processes of this machine, all stopped when one fails."""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from fubini.base.processes import COORDINATOR, COUNT, INDEX, NOTES
from fubini.cli import launched_script
from fubini.cli.process_group import Ended, ProcessGroup
from fubini.errors import DomainError, FileFormatError, FubiniError

DEVICES = "--xla_force_host_platform_device_count"


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "launch", help="a script by several processes of this machine", description=run.__doc__, allow_abbrev=False
    )
    parser.add_argument("-n", "--processes", type=int, required=True, metavar="N", help="how many processes")
    parser.add_argument("--devices", type=int, metavar="N", help="simulated devices of each process, on CPUs")
    parser.add_argument("script", type=Path, help="a Python program that calls fb.distributed()")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> str:
    """Run a script by several processes that communicate with each other; when one fails, the others are stopped."""
    for name in ("processes", "devices"):
        count = getattr(options, name)
        if count is not None and count < 1:
            raise DomainError(f"fubini launch with {count} {name}", expected="a whole number, at least 1")
    if not options.script.is_file():
        raise FileFormatError(f"fubini launch of {options.script}", expected="a Python file")
    with tempfile.TemporaryDirectory(prefix="fubini-launch-") as notes:
        address = _free_address()
        failed = ProcessGroup([_start(options, index, address, notes) for index in range(options.processes)]).wait()
        if failed is not None:
            raise _failure(failed, options, Path(notes))
    return f"{options.processes} processes of {options.script} have ended"


def _start(options: argparse.Namespace, index: int, address: str, notes: str) -> subprocess.Popen:
    """Start one process."""
    variables = {COORDINATOR: address, COUNT: str(options.processes), INDEX: str(index), NOTES: notes}
    if options.devices is not None:
        flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if not flag.startswith(DEVICES)]
        variables |= {"XLA_FLAGS": " ".join([*flags, f"{DEVICES}={options.devices}"]), "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen(
        [sys.executable, launched_script.__file__, str(options.script), *options.arguments],
        env=os.environ | variables,
        stdin=subprocess.DEVNULL,
    )


def _free_address() -> str:
    """An address of this machine at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def _failure(failed: Ended, options: argparse.Namespace, notes: Path) -> FubiniError:
    """What ended, and how to go on."""
    devices = [] if options.devices is None else ["--devices", str(options.devices)]
    command = shlex.join(
        ["fubini", "launch", "-n", str(options.processes), *devices, str(options.script), *options.arguments]
    )
    kept = sorted({note.read_text(encoding="utf-8") for note in notes.glob("checkpoint-*")})
    return FubiniError(
        f"process {failed.index} of {options.processes} of {options.script}, pid {failed.process.pid}",
        expected="exit status 0",
        nearest=f"{failed.how}; the others were stopped; "
        + (f"the run is kept in the checkpoint {', '.join(kept)}" if kept else "no checkpoint was written"),
        advice=f"{command} goes on from there"
        if kept
        else f"{command} begins again; infer(…, checkpoint=…) keeps a run",
    )
