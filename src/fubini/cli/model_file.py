"""Model files: Python programs, run as such, that define a model."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fubini.cli.data_file import require_file
from fubini.errors import FubiniError, closest, listed
from fubini.models.coroutine import is_model_function
from fubini.models.joint import Joint
from fubini.models.numpyro_model import from_numpyro


class ModelFile:
    """One model of a file: a function of data, or a joint that has its data."""

    def __init__(self, name: str, defined: Any) -> None:
        self.name, self.defined = name, defined

    @property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The arguments that the model is made from."""
        return {} if isinstance(self.defined, Joint) else dict(inspect.signature(self.defined).parameters)

    def make(self, arguments: dict[str, Any]) -> Joint:
        """The model of these arguments."""
        if isinstance(self.defined, Joint):
            return self.defined
        if is_model_function(self.defined):
            return self.defined(**arguments)
        return from_numpyro(self.defined, **arguments)


def split_place(place: str) -> tuple[Path, str]:
    """The file and the name of a model: FILE, or FILE:NAME.

    >>> split_place("models.py:line")[1], split_place("models.py")[1]
    ('line', '')
    """
    path, _, name = place.rpartition(":") if ".py:" in place else (place, "", "")
    return Path(path), name


def load_model(place: str) -> ModelFile:
    """The model of FILE, or of FILE:NAME where it has several."""
    path, name = split_place(place)
    models = _models(_run(path))
    if name:
        if name not in models:
            raise FubiniError(
                f"the model {name!r} of {path}", expected=f"one of {listed(models)}", nearest=closest(name, models)
            )
        return ModelFile(name, models[name])
    if not models:
        raise FubiniError(
            f"the model file {path}",
            expected="a function under @fb.model, a joint distribution, or a NumPyro model function",
            nearest="the file runs, and defines none",
        )
    if len(models) > 1:
        raise FubiniError(
            f"the model file {path}",
            expected="one model",
            nearest=f"it defines {listed(models)}",
            advice=f"name the one that is meant: {path}:{next(iter(models))}",
        )
    ((name, defined),) = models.items()
    return ModelFile(name, defined)


def _run(path: Path) -> ModuleType:
    """Run a model file as a module; imports beside it work as in a script."""
    require_file(path, "the model file")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    if spec is None or spec.loader is None:
        raise FubiniError(f"the model file {path}", expected="a Python program: a file whose name ends in .py")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the program of a user may raise anything
        raise FubiniError(
            f"the model file {path}",
            expected="a Python program that runs",
            nearest=f"{type(error).__name__}{_line(error, path)}: {error}",
        ) from error
    finally:
        sys.path.remove(folder)
    return module


def _line(error: BaseException, path: Path) -> str:
    """Where in the file an error was raised."""
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path.resolve()
    ]
    return f" in line {lines[-1]}" if lines else ""


def _models(module: ModuleType) -> dict[str, Any]:
    """The models that a file defines; plain functions, which may be NumPyro's, where there are no others."""
    own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    models = {name: value for name, value in own.items() if is_model_function(value) or isinstance(value, Joint)}
    functions: dict[str, Callable] = {
        name: value for name, value in own.items() if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    return models or functions
