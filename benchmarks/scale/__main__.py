"""All benchmarks of scale, each in a process of its own: `python -m benchmarks.scale`; `--quick` takes small sizes."""

from __future__ import annotations

import argparse
import subprocess
import sys

PROGRAMS: dict[str, tuple[str, ...]] = {  # with what makes each of them quick
    "plates": ("--rows", "0.01"),
    "marginals": (),
    "sequences": (),
    "streams": ("--rows", "0.01"),
    "draws": ("--groups", "2000", "--draws", "500"),
    "chains": ("--quick",),
    "device": ("--rows", "0.01"),
}


def main() -> int:
    """Run all, and tell whether one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    given, failed = parser.parse_args(), []
    for name, quick in PROGRAMS.items():
        print(f"\n=== {name} ===", flush=True)
        command = [sys.executable, "-m", f"benchmarks.scale.{name}", *(quick if given.quick else ())]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    print(
        f"\n{len(PROGRAMS) - len(failed)} of {len(PROGRAMS)} finished"
        + (f", not {', '.join(failed)}" if failed else "")
    )
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
