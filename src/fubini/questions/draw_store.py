"""Draws in a Zarr store, in the groups of ArviZ: written stretch after stretch, opened lazily."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from jax.sharding import Mesh

from fubini.base.fingerprints import is_written_here, require_agreement
from fubini.base.freed_memory import return_freed_memory
from fubini.base.whole_files import resolved
from fubini.errors import FileFormatError
from fubini.questions.arviz_groups import one_of_each, require_axes
from fubini.questions.draw_diagnostics import arviz
from fubini.questions.draws import dotted

Groups = Mapping[str, Mapping[str, np.ndarray]]  # arrays by name, by group
RUN = "fubini_run"  # the attribute that says what run the draws are of
VARIABLES = "variables"  # and the names of its arrays, in order
DRAWN = ("posterior", "sample_stats", "log_likelihood", "posterior_predictive")  # groups with an axis of draws


class Axes(NamedTuple):
    """Names and labels of the axes of sites, as a user gives them."""

    dims: Mapping[str, Sequence[str]] | None = None
    coords: Mapping[str, Sequence[Any]] | None = None


UNNAMED = Axes()


class DrawStore:
    """A folder of Zarr arrays [chain, draw, …] that grow along the draws.

    Of several processes that draw together on a mesh the first writes, and all read.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        run: Mapping[str, Any],
        chains: int,
        axes: Axes = UNNAMED,
        mesh: Mesh | None = None,
    ) -> None:
        self.mesh = mesh
        self.path, self.chains, self.axes = resolved(path), chains, axes
        self.run = json.dumps(dict(run), sort_keys=True)
        self._arrays: dict[tuple[str, str], Any] = {}
        if not self.path.parent.is_dir():
            raise self._refuse(f"a folder {self.path.parent}", "")

    # -- what there is ---------------------------------------------------------------------------------------------

    def require_new(self) -> None:
        """Raise where there is something already."""
        if self.path.exists():
            self._require_ours()
            raise self._refuse(
                "a path at which there is nothing yet",
                "a store of draws",
                "give another path, or delete it; with checkpoint= a run that was stopped goes on with its store",
            )

    def require_new_or_same(self) -> None:
        """Raise where there is something already that is no store of this run."""
        if self.path.exists() and self._require_ours() != self.run:
            raise self._refuse("a store of this run", "a store of another run", "give another path, or delete it")

    def _require_ours(self) -> str:
        """The run that the store is of."""
        import zarr

        try:
            return str(zarr.open_group(self.path, mode="r", use_consolidated=False).attrs[RUN])
        except (KeyError, OSError, ValueError):  # what Zarr raises of a folder of another kind
            what = "another folder" if self.path.is_dir() else "a file"
            raise self._refuse("a path at which there is nothing yet", what, "give another path") from None

    def _refuse(self, expected: str, nearest: str, advice: str = "give another path") -> FileFormatError:
        return FileFormatError(f"a store of draws at {self.path}", expected=expected, nearest=nearest, advice=advice)

    def drawn(self) -> int:
        """How many draws of each chain it holds."""
        import zarr

        if not self.path.exists():
            return 0
        root: Any = zarr.open_group(self.path, mode="r", use_consolidated=False)
        return root["posterior/draw"].shape[0] if "posterior/draw" in root else 0

    # -- writing ---------------------------------------------------------------------------------------------------

    def create(self, groups: Groups, length: int) -> None:
        """Make the arrays of groups like these [chain, draw, …], with chunks of so many draws."""
        if not is_written_here(self.mesh):
            return
        import zarr

        require_axes(self.axes.dims or {}, self.axes.coords or {}, one_of_each(groups))
        root = zarr.open_group(self.path, mode="w")
        for group, dataset in _datasets(groups, self.axes).items():
            grows = [name for name in dataset.data_vars if dataset[name].dims[:2] == ("chain", "draw")]
            with _quiet():
                dataset.drop_vars([*grows, "draw"], errors="ignore").to_zarr(
                    self.path, group=group, mode="a", consolidated=False
                )
            for name in grows:
                _make(root[group], str(name), dataset[name], (self.chains, 0), (1, length))
            if grows:
                _make(root[group], "draw", dataset["draw"], (0,), (length,))
        order = {group: list(dotted(groups[group])) for group in sorted(groups, key=(*DRAWN, *groups).index)}
        root.attrs.update({RUN: self.run, VARIABLES: order, "is_complete": False})
        self._arrays.clear()

    def put(self, groups: Groups, place: int, draws: int) -> None:
        """Write draws [chain, draw, …] at their place; what was there is written over."""
        for group, arrays in groups.items() if is_written_here(self.mesh) else ():
            if group not in DRAWN:
                continue
            for name, value in dotted(arrays).items():
                self._grow(group, name, 1, place + draws)[:, place : place + draws] = value
            self._grow(group, "draw", 0, place + draws)[place : place + draws] = np.arange(place, place + draws)

    def _grow(self, group: str, name: str, axis: int, draws: int) -> Any:
        """An array, with room for so many draws."""
        import zarr

        if (group, name) not in self._arrays:
            self._arrays[group, name] = zarr.open_array(self.path, path=f"{group}/{name}", mode="r+")
        array = self._arrays[group, name]
        if array.shape[axis] < draws:
            array.resize((*array.shape[:axis], draws, *array.shape[axis + 1 :]))
        return array

    def finish(self, **attributes: Any) -> None:
        """Note that all draws are there, and how they were made."""
        if is_written_here(self.mesh):
            import zarr

            root = zarr.open_group(self.path, mode="r+", use_consolidated=False)
            root["posterior"].attrs.update(attributes)
            root.attrs["is_complete"] = True
            with _quiet():
                zarr.consolidate_metadata(self.path)
        self.wait()

    def wait(self) -> None:
        """Wait until all processes that draw together are here: what is written before is read after."""
        require_agreement(self.mesh, f"a store of draws at {self.path}", {})

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, group: str, name: str, most: int | None = None) -> np.ndarray:
        """All draws [chain, draw, number] of a variable; of many numbers some, evenly apart."""
        array = self._grow(group, name.replace("/", "."), 1, 0)
        length, parts = array.chunks[1], []
        for begin in range(0, array.shape[1], length):
            flat = array[:, begin : begin + length].reshape(array.shape[0], -1, int(np.prod(array.shape[2:])))
            step = 1 if most is None else max(1, -(-flat.shape[2] // most))
            parts.append(flat[:, :, ::step].copy())
        return np.concatenate(parts, axis=1)


def open_draws(path: str | os.PathLike) -> Any:
    """The draws of a store as ArviZ data, of which numbers are read when they are asked for."""
    import xarray
    import zarr

    names: Any = zarr.open_group(path, mode="r", use_consolidated=False).attrs[VARIABLES]
    groups = {
        group: xarray.open_zarr(path, group=group, chunks=None, consolidated=False)[order]
        for group, order in names.items()
    }
    return_freed_memory()
    module: Any = arviz()
    if int(module.__version__.split(".")[0]) >= 1:
        return xarray.DataTree.from_dict(groups)
    return module.InferenceData(**groups)


def _datasets(groups: Groups, axes: Axes) -> dict[str, Any]:
    """A dataset of each group, with the first draw of each chain, and with the names and labels of its axes.

    Names and labels are those that ArviZ gives; it takes 200 MB, so that it is imported when all draws are made.
    """
    import xarray

    dims, coords, datasets = dotted(axes.dims or {}), axes.coords or {}, {}
    for group, arrays in groups.items():
        lead = ("chain", "draw") if group in DRAWN else ()
        variables, sizes = {}, {}
        for name, value in dotted(arrays).items():
            value = value[:, :1] if lead else np.atleast_1d(value)
            names = dims.get(name) or [f"{name}_dim_{place}" for place in range(value.ndim - len(lead))]
            variables[name] = xarray.Variable((*lead, *names), value)
            sizes |= variables[name].sizes
        labels = {name: np.asarray(coords.get(name, np.arange(size))) for name, size in sizes.items()}
        made = {"created_at": datetime.now(UTC).isoformat(), "inference_library": "fubini"}
        datasets[group] = xarray.Dataset(variables, labels, made)
    return datasets


def _make(group: Any, name: str, like: Any, lead: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """An array that is empty yet; numbers of which there are fewer bytes when compressed are compressed."""
    shape = like.shape[len(lead) :]
    group.create_array(
        name,
        shape=(*lead, *shape),
        chunks=(*chunks, *(max(size, 1) for size in shape)),
        dtype=like.dtype,
        fill_value=_unwritten(like.dtype),
        dimension_names=like.dims,
        **({"compressors": None} if like.dtype.kind == "f" else {}),
    )


def _unwritten(dtype: np.dtype) -> Any:
    """What stands where nothing was written: no value that a draw has."""
    return {"f": np.nan, "b": False}.get(dtype.kind, np.iinfo(dtype).min if dtype.kind in "iu" else 0)


@contextmanager
def _quiet() -> Iterator[None]:
    """Zarr warns that text, and the metadata of all groups in one place, have no specified form yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
