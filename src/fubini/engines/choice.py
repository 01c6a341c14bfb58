"""Which engine answers a question: the data and the size decide, unless one is asked for by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from fubini.engines.code_cache import is_kept
from fubini.errors import DomainError, closest, listed

ENGINES = {
    "rules": "step by step, each by its rule, on NumPy",
    "flat": "one compiled loop over all steps of a plan of tables",
    "sparse": "a product of Gaussians as one sparse linear system, in NumPy's double precision",
    "scan": "a long plan of tables of JAX in few scans over its levels",
    "kernel": "a chain of tables forward and backward in three kernels, on a GPU",
}
FLAT_FILES = ("flat_plan", "flat_layout", "flat_run")
READING, COMPILING = 0.5, 20.0  # seconds until the loops are there: read from disk, or compiled

_asked: ContextVar[str | None] = ContextVar("engine", default=None)


@contextmanager
def engine(name: str) -> Iterator[None]:
    """Ask for an engine by name: one of `ENGINES`. Without this, the data and the size of a question decide.

    "rules", "flat" (tables of NumPy), "sparse" (Gaussians), "scan" (tables of JAX) and "kernel" (chains on a GPU).

    >>> f, g = fb.Table([[0.5, 0.75], [0.25, 0.0]], ("a", "b")), fb.Table([1.0, 2.0], ("b",))
    >>> with fb.engine("rules"):
    ...     fb.eliminate([f, g], sum=("a", "b"))
    2.25
    """
    if name not in ENGINES:
        known = listed(ENGINES)
        raise DomainError(f"the engine {name!r}", expected=f"one of {known}", nearest=closest(str(name), ENGINES))
    token = _asked.set(name)
    try:
        yield
    finally:
        _asked.reset(token)


def asked_engine() -> str | None:
    """The engine that is asked for by name, if any."""
    return _asked.get()


class _Loops:
    """Whether the compiled loops are there; what was spent on answers without them."""

    is_loaded = False
    spent = 0.0
    price: float | None = None


def is_flat_worth_it(seconds: float) -> bool:
    """Whether to answer by compiled loops a question that takes so long without them.

    Until they are read or compiled they cost time: this is spent once the answers without them have cost as much, so
    that a process never takes more than twice the time that it would had it known all its questions.
    """
    if _Loops.is_loaded:
        return True
    _Loops.spent += seconds
    if _Loops.price is None:
        _Loops.price = READING if all(map(is_kept, FLAT_FILES)) else COMPILING
    _Loops.is_loaded = _Loops.spent > _Loops.price
    return _Loops.is_loaded


def are_loops_loaded() -> bool:
    """Whether compiled loops are at hand: then plans are made by them too."""
    return _Loops.is_loaded


def load_loops() -> None:
    """Have the compiled loops at hand from now on."""
    _Loops.is_loaded = True
