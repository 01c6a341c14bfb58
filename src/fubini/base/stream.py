"""`fb.Stream`: rows that are read chunk by chunk, and never held together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir
from xxhash import xxh3_128

from fubini.base.arrays import Data
from fubini.base.distant import DistantArray, Range, Test
from fubini.base.row_places import RowPlaces
from fubini.base.stream_sources import source_of
from fubini.errors import DataError, DomainError, NoRule, listed

NUMBERS = 1 << 17  # of a chunk, unless its size is given

_serials = itertools.count()


@jax.tree_util.register_pytree_node_class
class Stream(DistantArray):
    """Rows of a file, an array or a function, in place of an array: as an argument of a model, or as its data.

    They are read chunk by chunk, in as many passes as the sums over them nest, and never held together. The source is a
    .npy file, a Zarr array, a .parquet file (`columns` names those to read), or a function that returns a new iterator
    of chunks at each call, for which `rows` must be given.

    >>> model = fb.JointNamed(dict(m=fb.dist.Normal(0.0, 1.0), x=lambda m: fb.dist.Normal(m, 1.0).expand([100])))
    >>> x = Stream(lambda: (np.full(10, 0.1 * k) for k in range(10)), rows=100)
    >>> round(float(model.condition(x=x).marginal("m").mean("m")), 4)
    0.4455
    """

    def __init__(
        self, source: Any, rows: int | None = None, *, chunk: int | None = None, columns: Sequence[str] | None = None
    ) -> None:
        self.source = source_of(source, columns)
        count, *rest = self.source.shape or (0,)
        if not self.source.shape:
            raise DomainError(f"the rows of {self.source.name}", expected="an array with an axis of rows")
        if self.source.dtype.kind not in "biuf":
            raise DomainError(f"the rows of {self.source.name}", expected="numbers", nearest=f"{self.source.dtype}")
        if rows is None and count is None:
            raise DomainError(
                f"fb.Stream of {self.source.name} without a number of rows",
                expected="rows=n: a function does not say how many will come",
            )
        if rows is not None and not _is_count(rows):
            raise DomainError(f"fb.Stream(…, rows={rows!r})", expected="a positive whole number")
        if rows is not None and count is not None and rows != count:
            raise _wrong_rows(self.source.name, rows, f"it has {count:,}", count)
        if chunk is not None and not _is_count(chunk):
            raise DomainError(f"fb.Stream(…, chunk={chunk!r})", expected="a positive whole number of rows")
        self.shape = (int(count if rows is None else rows), *map(int, rest))  # type: ignore[arg-type]
        kind = self.source.dtype.kind
        self.dtype = np.dtype({"f": np.float64, "b": np.bool_}.get(kind, np.int64))
        self.chunk = int(chunk) if chunk is not None else max(1, NUMBERS // max(1, math.prod(self.shape[1:])))
        self._begin(None)

    def _begin(self, places: RowPlaces | None) -> None:
        self.places, self.serial, self.passes = places, next(_serials), 0
        self.share = (0, self.rows) if places is None else places.share(self.rows)  # what this process reads
        self._digest: bytes | None = None

    def placed(self, places: RowPlaces | None) -> Stream:
        """The same rows, summed elsewhere: each process reads its share of them."""
        other = object.__new__(type(self))
        other.source, other.shape, other.dtype, other.chunk = self.source, self.shape, self.dtype, self.chunk
        other._begin(places)
        return other

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self.shape[0]

    @property
    def name(self) -> str:
        """Where the rows come from."""
        return self.source.name

    @property
    def is_of_jax(self) -> bool:
        return False

    @property
    def key(self) -> Hashable:
        return "stream", self.serial

    @property
    def known(self) -> Data:
        return self

    def entries(self) -> Data:
        """What a program is given: the shape alone. If its results need the numbers, it is refused when compiled."""
        return ROWS.bind(stream=self)

    @cached_property
    def range(self) -> Range:  # type: ignore[override]
        """The range of its entries: the first pass, which also looks for those that are no numbers."""
        low, high, start = math.inf, -math.inf, self.share[0]
        for number, chunk in enumerate(self.read()):
            if chunk.size:
                least, most = chunk.min(), chunk.max()  # NaN where any entry is
                if not (np.isfinite(least) and np.isfinite(most)):
                    raise self._not_finite(number, start, chunk)
                low, high, start = min(low, least), max(high, most), start + len(chunk)
        own = np.asarray([low, high], float)
        each = [own] if self.places is None else [ends for (ends,) in self.places.gather([own])]
        return Range(float(min(low for low, _ in each)), float(max(high for _, high in each)), True)

    def _not_finite(self, number: int, start: int, chunk: np.ndarray) -> DataError:
        """The error of an entry that is no number, by its chunk and row."""
        place = tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(chunk)))
        value = {True: "NaN"}.get(bool(np.isnan(chunk[place])), f"{chunk[place]}")
        column = f", column {', '.join(map(str, place[1:]))}" if place[1:] else ""
        return DataError(
            f"the rows of {self.name}",
            expected="numbers in every row",
            nearest=f"{value} in chunk {number}, row {start + place[0]:,}{column}",
            advice="leave rows with missing entries out, in a function that gives the chunks",
        )

    def first_outside(self, test: Test) -> tuple[tuple[int, ...], Any] | None:
        start = self.share[0]
        for chunk in self.read():
            outside = np.logical_not(np.broadcast_to(np.asarray(test(chunk)), chunk.shape))
            if outside.any():
                first, *rest = (int(axis[0]) for axis in np.nonzero(outside))
                return (start + first, *rest), chunk[(first, *rest)]
            start += len(chunk)
        return None

    def read(self) -> Iterator[np.ndarray]:
        """One pass over the rows, in chunks."""
        one = Pass(self)
        while (chunk := one.take(self.chunk)) is not None:
            yield chunk

    def digest(self) -> bytes:
        """Bytes that tell its rows from others: of each process its share, which all know.

        >>> Stream(np.arange(9.0)).digest() == Stream(np.arange(9.0), chunk=4).digest() != Stream(np.ones(9)).digest()
        True
        """
        if self._digest is None:
            for _ in self.read():
                pass
        assert self._digest is not None
        own = np.frombuffer(self._digest, np.uint8)
        return b"".join(part.tobytes() for (part,) in ([[own]] if self.places is None else self.places.gather([own])))

    def __jax_array__(self) -> Data:
        return self.entries()

    def __len__(self) -> int:
        return self.rows

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return refuse_rows(stream=self)

    def __repr__(self) -> str:
        where = "" if self.places is None else f" over {len(self.places.devices)} devices"
        return f"Stream({self.name}, {self.dtype}[{','.join(map(str, self.shape))}]{where})"

    def tree_flatten(self) -> tuple[tuple, Stream]:
        return (), self

    @classmethod
    def tree_unflatten(cls, stream: Stream, children: tuple) -> Stream:
        return stream


def blank_rows(leaf: Any) -> Any:
    """No numbers in place of the rows of a stream, for a program that does not need them; other leaves as they are."""
    if not isinstance(leaf, Stream):
        return leaf
    return jnp.full(leaf.shape, jnp.nan if leaf.dtype.kind == "f" else -1, leaf.dtype)


def refuse_rows(*_: Any, stream: Stream) -> Any:
    """Raise: the numbers of all rows were asked for."""
    raise NoRule(
        f"an answer that reads all rows of {stream!r}",
        expected="a question whose answer depends on sums over its rows alone",
        nearest="densities of latents, evidence, marginals, modes and draws of latents are such",
        advice="ask it of a model of some of the rows, np.load(…)[:1000] say",
    )


ROWS = Primitive("rows_of_stream")
ROWS.def_impl(refuse_rows)
ROWS.def_abstract_eval(lambda *, stream: ShapedArray(stream.shape, jax.dtypes.canonicalize_dtype(stream.dtype)))
mlir.register_lowering(ROWS, refuse_rows)


class Pass:
    """One pass over the rows of a stream, so many at a time; they must be those of the passes before."""

    def __init__(self, stream: Stream) -> None:
        self.stream, (self.start, self.stop) = stream, stream.share
        self._chunks = stream.source.chunks(stream.chunk, self.start, None if self.stop == stream.rows else self.stop)
        self._waiting: list[np.ndarray] = []
        self._hash = xxh3_128()
        stream.passes += 1

    def take(self, count: int) -> np.ndarray | None:
        """The next rows; None after the last."""
        stream = self.stream
        count = min(count, self.stop - self.start)
        if not count:
            self._end()
            return None
        have = sum(map(len, self._waiting))
        while have < count:
            chunk = next(self._chunks, None)
            if chunk is None:
                if not self.start + have:
                    raise _one_shot(stream.name)
                raise _wrong_rows(stream.name, stream.rows, f"{self.start + have:,} came", self.start + have)
            chunk = checked(stream, chunk)
            self._hash.update(chunk.data.cast("B") if chunk.size else b"")
            self._waiting.append(chunk)
            have += len(chunk)
        whole = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting)
        self._waiting = [whole[count:]] if have > count else []
        self.start += count
        return whole[:count]

    def _end(self) -> None:
        """Raise unless these were all rows, and those of the passes before."""
        stream = self.stream
        if self._waiting or any(len(chunk) for chunk in self._chunks):
            raise _wrong_rows(stream.name, stream.rows, "more came")
        digest = self._hash.digest()
        if stream._digest not in (None, digest):
            raise DataError(
                f"the rows of {stream.name}, a second time",
                expected="the rows of the pass before",
                nearest="they have changed",
                advice="keep the source as it is while questions are asked; a function draws from a fixed seed",
            )
        stream._digest = digest


def _is_count(number: Any) -> bool:
    return isinstance(number, int | np.integer) and not isinstance(number, bool) and bool(number >= 1)


def checked(stream: Stream, chunk: np.ndarray) -> np.ndarray:
    """Rows that came, as numbers of the stream's own kind, one row after another in memory."""
    if chunk.shape[1:] != stream.shape[1:] or not chunk.ndim or chunk.dtype.kind not in "biuf":
        raise DataError(
            f"a chunk of {stream.name}, of shape {chunk.shape} and dtype {chunk.dtype}",
            expected=f"numbers in rows of shape {stream.shape[1:]}, as in the first chunk",
        )
    if chunk.dtype.kind == "f" and stream.dtype.kind != "f":
        raise DataError(f"a chunk of {stream.name} with {chunk.dtype}", expected="whole numbers, as in the first")
    return np.ascontiguousarray(chunk, stream.dtype)


def _wrong_rows(name: str, rows: int, nearest: str, count: int | None = None) -> DataError:
    advice = "" if count is None else f"fb.Stream(…, rows={count})"
    return DataError(f"the rows of {name}", expected=f"{rows:,} rows", nearest=nearest, advice=advice)


def _one_shot(name: str) -> DomainError:
    return DomainError(
        f"the rows of {name}, a second time",
        expected="a new iterator at each call: there may be several passes",
        nearest="no rows came",
        advice="make the iterator, and open its file, inside of the function",
    )


def read_together(streams: Sequence[Stream], rows: int) -> Iterator[tuple[int, int, list[np.ndarray]]]:
    """One pass over streams of so many rows: the number of the first row, how many come, and these rows of each."""
    passes, (start, stop) = [Pass(stream) for stream in streams], (0, rows)
    if streams:
        start, stop = streams[0].share
    size = min((stream.chunk for stream in streams), default=NUMBERS)
    while True:
        chunks = [one.take(size) for one in passes]  # asked at the end too, where changes are noticed
        if start == stop:
            return
        count = min(size, stop - start)
        yield start, count, chunks  # type: ignore[misc]
        start += count


def require_one_mesh(streams: Sequence[Stream]) -> RowPlaces | None:
    """Where the rows of streams that are read together are summed; an error where these are two places."""
    places = [stream.places for stream in streams]
    if len(set(places)) > 1:
        each = [f"{stream!r}" for stream in streams]
        raise DomainError(
            "rows of streams over two meshes",
            expected="all streams of as many rows over one mesh, or none over any",
            nearest=listed(each),
            advice='fb.shard(stream, mesh, "rows") for each of them',
        )
    return places[0] if places else None
