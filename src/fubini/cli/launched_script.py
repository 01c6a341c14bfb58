"""A script that `fubini launch` runs: when it ends by `sys.exit(3)`, its process ends at once.

JAX would wait at the end of this process for the others, and they for what it was to send. Nothing is imported here
before the script, which may set variables that JAX reads.
"""

import os
import runpy
import sys
from pathlib import Path


def run() -> None:
    """Run the script that the first argument names, with the arguments after it."""
    del sys.argv[0]
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(sys.argv[0]).resolve().parent)
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0) and _is_joined():
            _end(end.code)
        raise


def _is_joined() -> bool:
    """Whether the script has joined the other processes."""
    jax = sys.modules.get("jax")
    return jax is not None and jax.distributed.is_initialized()


def _end(code: object) -> None:
    """End with a status, or after a message with status 1, as `sys.exit` has it."""
    if not isinstance(code, int):
        print(code, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF if isinstance(code, int) else 1)


if __name__ == "__main__":
    run()
