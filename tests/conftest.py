"""What every test shares: fixed seeds, the data folder."""

import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest
from hypothesis import settings

settings.register_profile("fubini", deadline=None, derandomize=True, max_examples=12)
settings.register_profile("thorough", settings.get_profile("fubini"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fubini"))

# Most of the time of the tests is XLA's, compiling what runs once. `make versions` runs tests/smoke with optimisations.
FAST_COMPILATION = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS", "1") == "1"
jax.config.update("jax_disable_most_optimizations", FAST_COMPILATION)
if FAST_COMPILATION and jax.__version__.startswith("0.10."):
    # The older of the two code generators for CPUs compiles in half the time; later versions do not offer the choice.
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_use_fusion_emitters=false"


# Compiled code goes into a folder of the tests, which the next run finds again, never into that of the user.
os.environ.setdefault("FUBINI_CACHE", os.path.join(tempfile.gettempdir(), f"fubini-tests-{os.getuid()}"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of cases marked one_in(n), a run of all tests takes one in n, chosen by their names; `make thorough` all."""
    if "SOME_CASES" not in os.environ:
        return
    left_out: set[pytest.Item] = set()
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("one_in"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for like in cases.values():
        marker = like[0].get_closest_marker("one_in")
        assert marker is not None
        by_name = sorted(like, key=lambda item: zlib.crc32(item.nodeid.encode()))
        left_out.update(by_name[-(-len(like) // marker.args[0]) :])
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_configure(config: pytest.Config) -> None:
    """What one process of a run has compiled, the others read; nothing is left of it after the run."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and "EVERY_CASE" not in os.environ:
        os.environ["SOME_CASES"] = "1"  # which the processes of the run inherit
    if not FAST_COMPILATION:
        return
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="compiled-tests-")
        config.add_cleanup(folder.cleanup)
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder.name
    jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


@pytest.fixture
def optimised() -> Iterator[None]:
    """XLA's optimisations in force, for tests of what it makes."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", FAST_COMPILATION)


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of data sets, named by the variable FUBINI_DATA."""
    folder = os.environ.get("FUBINI_DATA")
    if not folder:
        pytest.skip("FUBINI_DATA is unset")
    path = Path(folder).resolve()
    if not path.is_dir():
        pytest.fail(f"FUBINI_DATA names {folder!r}, which is not a folder")
    return path


MANY_MAPS = 25_000  # memory maps of a process; each compiled function takes a few, and a system allows some 65,000


@pytest.fixture(scope="module", autouse=True)
def few_compiled_functions() -> Iterator[None]:
    """Compiled functions are let go before there are so many that LLVM finds no room."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_text().count("\n") > MANY_MAPS:
        jax.clear_caches()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were skipped for want of data."""
    skipped = [report for report in terminalreporter.getreports("skipped") if "FUBINI_DATA" in _reason(report)]
    terminalreporter.write_line(f"skipped for want of data: {len(skipped)}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason of a skip, the last of (file, line, reason)."""
    return report.longrepr[-1] if isinstance(report.longrepr, tuple | list) else str(report.longrepr)
