"""`make versions`: the demo, the documents and the smoke suite under each supported Python, with old and new libraries.

There is an environment for each Python that is found: with the oldest versions that pyproject.toml admits under the
first, with the newest that pip gives under the others; with `--every`, both under each. Fubini is installed into them
as a user would, from its wheel.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [
    line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)
]  # 3.11, 3.12 …
ENDS = ("oldest", "newest")
SHOWN = ("jax", "numpyro", "arviz", "numpy")
TESTS = ("tests/smoke", "tests/test_documents.py", "tests/cli/test_demo.py")
# Optimised, as users have it; tests/conftest.py does without. What one environment has compiled, others with its JAX
# take from it: the key is the program, the options and the version of the compiler. The cache lives as long as the run.
COMPILATION = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "0",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
REPORT = (
    "import sys; from importlib.metadata import version; print(*(f'{n} {version(n)}' for n in sys.argv[1:]), sep=', ')"
)


def main() -> int:
    """Run all; 1 where one fails, or where there is no Python."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path, required=True, help="where the environments are made")
    options.add_argument("--jobs", type=int, default=2, help="environments at a time")
    options.add_argument("--python", nargs="*", default=PYTHONS, help="versions of Python")
    options.add_argument("--every", action="store_true", help="the oldest and the newest libraries under each Python")
    chosen = options.parse_args()
    interpreters = {version: find_interpreter(version) for version in chosen.python}
    for version, path in interpreters.items():
        if path is None:
            print(f"Python {version}: not found", flush=True)
    present = {version: path for version, path in interpreters.items() if path}
    ends = {version: ENDS if chosen.every else (ENDS[min(place, 1)],) for place, version in enumerate(present)}
    cases = [(version, end, path) for version, path in present.items() for end in ends[version]]
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(chosen.jobs) as pool:
        passed = list(pool.map(lambda case: check(chosen.folder, cache, *case), cases))
    return 0 if passed and all(passed) else 1


def find_interpreter(version: str) -> str | None:
    """The Python of a version: this one, the one on the path, or one that pyenv keeps."""
    candidates = [sys.executable, shutil.which(f"python{version}")]
    if pyenv := shutil.which("pyenv"):
        found = run([pyenv, "prefix", version])
        candidates.append(str(Path(found.stdout.strip(), "bin", f"python{version}")) if not found.returncode else None)
    for candidate in filter(None, candidates):
        if Path(candidate).exists():
            found = run([candidate, "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys._base_executable)"])
            if found.returncode == 0 and found.stdout.split()[0] == version:
                return found.stdout.split(maxsplit=1)[1].strip()
    return None


def check(folder: Path, cache: str, version: str, end: str, interpreter: str) -> bool:
    """One environment; prints a line with its versions and the outcome, and what failed."""
    start = time.monotonic()
    environment = folder / f"{version}-{end}"
    python = str(environment / "bin" / "python")
    failed = install(environment, interpreter, end)
    versions = "" if failed else run([python, "-c", REPORT, *SHOWN]).stdout.strip()
    summary = "not installed"
    if failed is None:
        printed, report = environment / "demo.txt", environment / "report.html"
        settings = COMPILATION | {"JAX_COMPILATION_CACHE_DIR": cache}
        demo = run([str(environment / "bin" / "fubini"), "demo", "--out", str(report)], settings)
        printed.write_text(demo.stdout, encoding="utf-8")
        settings |= {"FUBINI_DEMO": str(printed), "FUBINI_DEMO_REPORT": str(report)}
        tests = run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS], settings)
        summary = (tests.stdout.strip().splitlines() or ["no tests"])[-1].partition(" in ")[0]
        failed = next((result for result in (demo, tests) if result.returncode), None)
    outcome = "passed" if failed is None else "FAILED"
    text = f"Python {version}, {end}: {outcome}: {summary}, in {time.monotonic() - start:.0f} s ({versions})"
    print(text if failed is None else f"{text}\n{failed.stdout}{failed.stderr}", flush=True)
    return failed is None


def install(environment: Path, interpreter: str, end: str) -> subprocess.CompletedProcess | None:
    """Make the environment and install into it, by uv where it gets through, else by pip; what failed, if anything."""
    python = str(environment / "bin" / "python")
    if run([python, "-c", ""]).returncode:
        shutil.rmtree(environment, ignore_errors=True)
        made = run([interpreter, "-m", "venv", "--without-pip", str(environment)])
        if made.returncode:
            return made
    wanted = ["--upgrade", f"{ROOT}[smoke]"]
    if end == "oldest":
        bounds = environment / "oldest.txt"
        bounds.write_text("\n".join(lower_bounds(PROJECT["dependencies"])), encoding="utf-8")
        wanted += ["--constraint", str(bounds)]
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv and run([uv, "pip", "install", "--python", python, "--reinstall-package", "fubini", *wanted]).returncode == 0:
        return None
    installed = run([sys.executable, "-m", "pip", "--python", python, "install", "--no-compile", *wanted])
    return installed if installed.returncode else None


def lower_bounds(requirements: Sequence[str]) -> list[str]:
    """numpy>=2.2,<3 as numpy==2.2"""
    return [re.sub(r"^([\w.-]+)>=([\w.]+).*$", r"\1==\2", requirement) for requirement in requirements]


def run(command: Sequence[str], settings: Mapping[str, str] = MappingProxyType({})) -> subprocess.CompletedProcess:
    """A finished command, with its output; one that does not exist is one that failed."""
    variables = {**os.environ, **settings}
    try:
        return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", str(error))


if __name__ == "__main__":
    sys.exit(main())
