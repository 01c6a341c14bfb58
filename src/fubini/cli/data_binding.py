"""Columns of a data file as the arguments and the observed sites of a model, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

import numpy as np

from fubini.cli.data_file import Column
from fubini.cli.model_file import ModelFile
from fubini.errors import DataError, FubiniError, UnknownName, closest, listed
from fubini.io.json_text import load_json
from fubini.models.joint import Joint
from fubini.models.paths import flat
from fubini.models.statements import index_arguments

WITHOUT_DATA = "give --data FILE, or condition the model in its file: post = model(…).condition(y=…)"
LEFT_OUT = "rows left out"


@dataclass(frozen=True)
class BoundModel:
    """A model that has its data, the labels of its axes, and the names that columns may have."""

    file: ModelFile
    model: Joint
    names: tuple[str, ...]
    dims: dict[str, list[str]]
    coords: dict[str, list[str]]
    notes: tuple[str, ...]
    arguments: dict[str, Any]
    labels: dict[str, tuple[str, ...]]  # of columns, in the order of their codes


def maps_of(columns: Mapping[str, Column], maps: Sequence[str]) -> list[str]:
    """Those of --map whose columns are there: new inputs need not have what is predicted."""
    return [text for text in maps if set(_pair("--map")(text)[1].split(",")) <= set(columns)]


class Source:
    """The columns by the names that a model asks for, their own or those of --map; and the values of --set."""

    def __init__(
        self, columns: Mapping[str, Column], maps: Sequence[str], sets: Sequence[str], skip: Sequence[str] = ()
    ) -> None:
        self.columns = dict(columns)
        for name in skip:
            self._require(name, f"--skip {name}")
            del self.columns[name]
        self.values = {name: _value(text) for name, text in map(_pair("--set"), sets)}
        plain = [re.sub(r"\W", "_", name) for name in self.columns]  # log.radon is log_radon in Python
        named = zip(plain, self.columns, strict=True)
        self.sources = {name: [own] for name, own in named if name not in self.columns and plain.count(name) == 1}
        self.sources |= {name: text.split(",") for name, text in map(_pair("--map"), maps)}
        for name, sources in self.sources.items():
            for source in sources:
                self._require(source, f"--map {name}={','.join(sources)}")

    def _require(self, source: str, asked: str) -> None:
        if source not in self.columns:
            raise UnknownName(
                asked,
                expected=f"columns of the data: {listed(self.columns)}",
                nearest=closest(source, self.columns),
            )

    def __contains__(self, name: str) -> bool:
        return name in self.columns or name in self.sources

    def column(self, name: str) -> Column:
        """The column, or the columns side by side, that a name stands for."""
        parts = [self.columns[source] for source in self.sources.get(name, [name])]
        if len(parts) == 1:
            return parts[0]
        labelled = [source for source, part in zip(self.sources[name], parts, strict=True) if part.labels]
        if labelled:
            raise DataError(f"--map {name}={','.join(self.sources[name])}", expected="columns of numbers",
                            nearest=f"{labelled[0]!r} holds labels")  # fmt: skip
        return Column(np.stack([part.values for part in parts], axis=1))

    def used(self, names: Sequence[str]) -> list[str]:
        """The columns that stand for these names."""
        return list(dict.fromkeys(source for name in names for source in self.sources.get(name, [name])))

    def keep(self, count: int, rows: np.ndarray) -> None:
        """Leave only some rows of all columns that have this many."""
        for name, column in self.columns.items():
            if column.rows == count:
                self.columns[name] = column[rows]


def require_arguments(files: Sequence[ModelFile], sets: Sequence[str]) -> None:
    """Raise unless each value of --set is an argument of one of the models."""
    known = {name: None for file in files for name in file.parameters}
    for name, _ in map(_pair("--set"), sets):
        if name not in known:
            raise UnknownName(
                f"--set {name}=…",
                expected=f"an argument of {', '.join(file.name for file in files)}: {listed(known)}",
                nearest=closest(name, known),
            )


def require_mapped(bound: Sequence[BoundModel], maps: Sequence[str]) -> None:
    """Raise unless each name of --map is an argument or a site of one of the models."""
    known = {name: None for one in bound for name in one.names}
    for name, column in map(_pair("--map"), maps):
        if name not in known:
            raise UnknownName(
                f"--map {name}={column}",
                expected=f"an argument or a site: {listed(known)}",
                nearest=closest(name, known),
            )


def bind(file: ModelFile, source: Source, missing: str | None = None) -> BoundModel:
    """The model at the data: arguments by name, sites by name; an integer argument `n` is the number of rows, `n_site`
    that of the labels of the column `site`.

    Rows with missing values are an error, or are left out (`missing="drop"`); those of sites may be masked ("mask").
    """
    wanted = [name for name in file.parameters if name in source and name not in source.values]
    notes = _complete(source, wanted, missing)
    arguments = _arguments(file, source, wanted)
    joint = file.make(arguments)
    masked = missing == "mask"
    left_out = [] if masked else _complete(source, [name for name in joint.names if name in source], missing)
    if left_out:
        notes += left_out
        arguments = _arguments(file, source, wanted)
        joint = file.make(arguments)
    columns = {name: source.column(name) for name in joint.names if name in source}
    observed = {name: column.masked if masked else column.values for name, column in columns.items()}
    if not observed and not getattr(joint, "observed", None):
        raise UnknownName(
            f"{file.name} at these data",
            expected=f"a column for one of the sites {listed(joint.names)} at least: nothing is observed",
            nearest=_nearest_column(joint.names, source.columns),
            advice="name the column as the site, or give --map SITE=COLUMN" if source.columns else WITHOUT_DATA,
        )
    for name, values in observed.items():
        _require_shape(joint, name, values)
        _require_codes(joint, name, source.column(name))
    model = joint.condition(**observed) if observed else joint
    used = source.used([*wanted, *observed, *(name.removeprefix("n_") for name in arguments if name.startswith("n_"))])
    unused = [name for name in source.columns if name not in used]
    notes += [f"columns that the model does not use: {', '.join(unused)}"] if unused else []
    dims, coords, unnamed = _labels(joint, source, [*wanted, *observed])
    notes += unnamed
    counted = [name.removeprefix("n_") for name in file.parameters if name.startswith("n_")]
    labels = {name: column.labels for name, column in source.columns.items() if column.labels}
    names = (*file.parameters, *joint.names, *counted)
    return BoundModel(file, model, names, dims, coords, tuple(notes), arguments, labels)


def bind_again(bound: BoundModel, source: Source) -> tuple[Joint, dict[str, np.ndarray]]:
    """The model at other rows, and values of its observed sites where these have them all.

    Labels have the codes that they had; those that are new come after them.
    """
    file = bound.file
    if isinstance(file.defined, Joint):
        raise DataError(
            f"predictions of {file.name} at new inputs",
            expected="a model that is a function of its inputs",
            nearest="a model that has its data in its file",
            advice="write the model as a function under @fb.model, and give --data",
        )
    sites = list(flat(getattr(bound.model, "observed", {})))
    for name, labels in bound.labels.items():
        if name in source.columns:
            source.columns[name] = source.columns[name].recoded(labels)
    wanted = [n for n in file.parameters if n in source and n not in source.values and n not in sites]
    _complete(source, wanted, None)
    arguments = _arguments(file, source, wanted)
    for name, before in bound.arguments.items():
        is_count = name.startswith("n_") and name not in wanted and name not in source.values
        if is_count and isinstance(before, int):  # groups that the new rows do not have are there all the same
            arguments[name] = max(before, arguments.get(name, before))
    given = {name: source.column(name) for name in sites if name in source}
    whole = len(given) == len(sites) and not any(column.missing.any() for column in given.values())
    return file.make(arguments), {name: column.values for name, column in given.items()} if whole else {}


def _nearest_column(sites: Sequence[str], columns: Mapping[str, Column]) -> str:
    """The column whose name is like that of a site, or all of them."""
    alike = [(name, near) for name in sites if (near := closest(name, columns))]
    return f"the column {alike[0][1]}, for {alike[0][0]!r}" if alike else f"columns {listed(columns)}"


def _require_shape(joint: Joint, name: str, values: np.ndarray) -> None:
    """A column whose name a site happens to have is no observation of it."""
    site = joint.outline[name]
    if site.domain is not None and values.shape != site.shape:
        raise DataError(
            f"the column {name!r} as observations of the site {name!r}",
            expected=f"the shape {site.shape}",
            nearest=f"the shape {values.shape}",
            advice=f"where the site is not what the column holds, give --skip {name}, or the site another name",
        )


def _require_codes(joint: Joint, name: str, column: Column) -> None:
    """Labels are values of discrete sites alone, of as many."""
    domain = joint.outline[name].domain
    if not column.labels or domain is None or (domain.is_finite and (domain.size or 0) >= len(column.labels)):
        return
    raise DataError(
        f"labels as values of the site {name!r}",
        expected=f"values of {domain}",
        nearest=f"{len(column.labels)} labels: {', '.join(column.labels[:3])}{' …' * (len(column.labels) > 3)}",
        advice="give a column of numbers, or a site with a value for each label (Bernoulli, Categorical)",
    )


def _complete(source: Source, names: Sequence[str], missing_are: str | None) -> list[str]:
    """Raise where a value is missing, or leave its row out; say how many."""
    columns = {name: source.columns[name] for name in source.used(names)}
    missing = {name: np.flatnonzero(column.missing) for name, column in columns.items() if column.missing.any()}
    if not missing:
        return []
    name, rows = next(iter(missing.items()))
    count = columns[name].rows
    if count is None:
        raise DataError(f"the value {name!r} of the data", expected="a finite number", nearest="it is missing")
    if missing_are != "drop":
        masked = "make it a site of the model" if missing_are == "mask" else "--mask-missing for an observed site"
        raise DataError(
            f"the column {name!r}",
            expected="a finite number or a label in each row",
            nearest=f"{len(rows)} without one, the first in row {rows[0] + 1}",
            advice=f"give --drop-missing to leave such rows out, {masked}, or fill them in",
        )
    other = next((other for other in missing if columns[other].rows != count), None)
    if other is not None:
        raise DataError(
            f"--drop-missing: {name!r} and {other!r} have missing values",
            expected="columns of the same number of rows",
            nearest=f"{count} and {columns[other].rows}",
            advice="fill them in",
        )
    left_out = np.unique(np.concatenate(list(missing.values())))
    source.keep(count, np.setdiff1d(np.arange(count), left_out))
    return [f"{len(left_out)} of {count} {LEFT_OUT}: {listed(missing)} missing there"]


# -- arguments ------------------------------------------------------------------------------------------------------


def _arguments(file: ModelFile, source: Source, wanted: Sequence[str]) -> dict[str, Any]:
    """The arguments of the model, by name; `wanted` are those that are columns."""
    arguments: dict[str, Any] = {}
    for name, parameter in file.parameters.items():
        value = _argument(file, source, wanted, name, parameter)
        if value is not Parameter.empty:
            arguments[name] = value
    return arguments


def _argument(file: ModelFile, source: Source, wanted: Sequence[str], name: str, parameter: Parameter) -> Any:
    if name in source.values:
        return source.values[name]
    if name in wanted:
        values = source.column(name).values
        return values.item() if values.ndim == 0 else values
    counted = _count(source, wanted, name)
    if counted is not None:
        return counted
    is_optional = parameter.default is not Parameter.empty or parameter.kind in (
        Parameter.VAR_KEYWORD,
        Parameter.VAR_POSITIONAL,
    )
    if is_optional:
        return Parameter.empty
    raise UnknownName(
        f"the argument {name!r} of {file.name}",
        expected=f"a column of this name: {listed(source.columns)}",
        nearest=closest(name, source.columns),
        advice=f"give --map {name}=COLUMN (or several: A,B,C) or --set {name}=VALUE",
    )


def _count(source: Source, wanted: Sequence[str], name: str) -> int | None:
    """The number of rows as `n`, of labels or whole numbers from 0 on of a column as `n_column`."""
    if name == "n":
        return _rows(source, wanted)
    counted = name.removeprefix("n_")
    if counted == name or counted not in source:
        return None
    column = source.column(counted)
    if column.labels:
        return len(column.labels)
    return int(column.values.max()) + 1 if column.values.dtype.kind == "i" and column.values.min() >= 0 else None


def _rows(source: Source, wanted: Sequence[str]) -> int | None:
    """The number of rows of the columns that are arguments; of all columns where none is."""
    for names in (source.used(wanted), source.columns):
        counts = {name: source.columns[name].rows for name in names if source.columns[name].rows is not None}
        if len(set(counts.values())) > 1:
            raise DataError(
                "the number of rows, n",
                expected="columns of the same length",
                nearest=", ".join(f"{name} has {count}" for name, count in counts.items()),
                advice="give --set n=NUMBER",
            )
        if counts:
            return next(iter(counts.values()))
    return None


def _pair(flag: str) -> Any:
    def split(text: str) -> tuple[str, str]:
        name, separator, value = text.partition("=")
        if not separator or not name or not value:
            raise FubiniError(f"{flag} {text}", expected="NAME=VALUE")
        return name, value

    return split


def _value(text: str) -> Any:
    """A number, list or truth value written as JSON; any other text is itself."""
    try:
        value = load_json(text)
    except FubiniError:
        return text
    return np.asarray(value) if isinstance(value, list) else value


# -- labels ---------------------------------------------------------------------------------------------------------


def _labels(
    joint: Joint, source: Source, names: Sequence[str]
) -> tuple[dict[str, list[str]], dict[str, list[str]], list[str]]:
    """Axes named after the column of labels that indexes them: that of alpha in `alpha[county]` after county.

    An argument is known by its codes: where two columns have the same, their labels are not given, and a note says so.
    """
    labelled = {name: source.column(name) for name in names if source.column(name).labels}
    dims: dict[str, list[str]] = {}
    notes: list[str] = []
    for site, arguments in index_arguments(joint).items():
        domain = joint.outline[site].domain if site in joint.names else None
        shape = domain.shape if domain is not None else ()
        axes = [f"{site}_dim_{axis}" for axis in range(len(shape))]
        for axis, (argument, size) in enumerate(zip(arguments, shape, strict=False)):
            if argument not in labelled or size != len(labelled[argument].labels):
                continue
            twins = [name for name, column in labelled.items() if _is_twin(column, labelled[argument])]
            if twins:
                notes.append(f"{site} has numbers for labels: {listed((argument, *twins))} have the same codes")
            else:
                axes[axis] = argument
        if any(axis in labelled for axis in axes):
            dims[site] = axes
    used = {argument for axes in dims.values() for argument in axes}
    return dims, {name: list(column.labels) for name, column in labelled.items() if name in used}, notes


def _is_twin(column: Column, other: Column) -> bool:
    """Whether two columns have the same codes for other labels."""
    return column.labels != other.labels and np.array_equal(column.values, other.values)
